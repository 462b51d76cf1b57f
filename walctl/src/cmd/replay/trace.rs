//! Which record last had to do with one key.

use std::collections::BTreeMap;

use idem_protocol::wal::{Opcode, RawRecord, Record};
use idem_protocol::{Lsn, UnixMs};

use crate::state::{Observer, Origin, State};

/// The record, by place and kind. For what a snapshot holds, the item: written later than the record it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) lsn: Lsn,
    pub(super) time: UnixMs,
    pub(super) opcode: Opcode,
}

/// Notes the last record of a key in each database.
#[derive(Debug)]
pub(super) struct Trace<'k> {
    key: &'k [u8],
    last: BTreeMap<u8, Last>,
}

impl<'k> Trace<'k> {
    pub(super) fn new(key: &'k [u8]) -> Trace<'k> {
        Trace {
            key,
            last: BTreeMap::new(),
        }
    }

    pub(super) fn key(&self) -> &'k [u8] {
        self.key
    }

    pub(super) fn last(&self, db: u8) -> Option<Last> {
        self.last.get(&db).copied()
    }

    fn note(&mut self, raw: &RawRecord<'_>, db: u8, record: &Record<'_>) {
        let last = Last {
            lsn: raw.lsn,
            time: raw.time,
            opcode: record.opcode(),
        };
        match *record {
            Record::StringPut { key, .. }
            | Record::Delete { key, .. }
            | Record::DeadlinePut { key, .. }
            | Record::HashPut { key, .. }
            | Record::HashDelete { key, .. }
            | Record::IdempotencyPut { key, .. } => {
                if key == self.key {
                    self.last.insert(db, last);
                }
            }
            // A flush is the last thing that happens to the keys that were there.
            Record::FlushDb => {
                self.last.entry(db).and_modify(|known| *known = last);
            }
            Record::FlushAll => self.last.values_mut().for_each(|known| *known = last),
            Record::Transaction { records } => {
                records.iter().for_each(|(db, part)| self.note(raw, db, &part));
            }
            Record::EpochStart { .. } | Record::Members { .. } | Record::Clock => {}
        }
    }
}

impl Observer for Trace<'_> {
    fn reset(&mut self) {
        self.last.clear();
    }

    fn before(&mut self, _: &State, _: Origin, raw: &RawRecord<'_>, record: &Record<'_>) {
        self.note(raw, raw.db, record);
    }
}
