//! The key's life while the log goes by: what it holds in each database, and what happens to it.
//!
//! What it holds comes of the engine's own `apply`, given nothing but the records of this key. Memory is the key's value
//! and, when the log begins above lsn 0, what a snapshot has of it; not the log's length.
//!
//! Vocabulary: a database is *known* when what the keyspace has of the key there is all that there is; where the log begins
//! in the middle of a life it is not, until a record or the snapshot says it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use idem_engine::Keyspace;
use idem_engine::keyspace::ValueRef;
use idem_protocol::wal::{DeleteReason, RawRecord, Record};
use idem_protocol::{Deadline, Lsn, UnixMs};
use idem_wal::reader::LogRecord;

use super::Args;
use super::earlier::{self, Earlier, Holding};
use super::event::{Before, EXPIRED, FOUND, idem_of};
use super::printer::{Happening, Printer};
use crate::exit::Failure;
use crate::line::{Line, Scope, key, scope};
use crate::output::Printed;
use crate::progress::Meter;
use crate::scan::{Scanned, Visitor};
use crate::text::Escaped;
use crate::view::View;

/// What is known of the key in one database.
#[derive(Clone, Copy, Debug, Default)]
struct Knowledge {
    is_known: bool,
    /// Something happened since the beginning of the kept log.
    is_seen: bool,
    /// The last that happened was its expiry.
    has_expired: bool,
}

/// Follows one key.
pub(super) struct Life<'a> {
    args: &'a Args,
    view: &'a View,
    meter: &'a Arc<Meter>,
    pub(super) printer: Printer,
    keyspace: Keyspace,
    databases: BTreeMap<u8, Knowledge>,
    /// What is known of databases that are not in the map.
    is_known_elsewhere: bool,
    /// Whether something on the way was not read.
    has_gaps: bool,
    /// What the snapshot has, the earliest first, and has not come up yet.
    holdings: VecDeque<Holding>,
    /// The snapshot's file, its end, and the log's time there.
    snapshot: Option<(String, Lsn, UnixMs)>,
    /// The earliest deadline of what the key holds.
    next_deadline: Option<UnixMs>,
    /// The log's time.
    time: UnixMs,
}

impl<'a> Life<'a> {
    pub(super) fn new(args: &'a Args, view: &'a View, meter: &'a Arc<Meter>, printer: Printer) -> Life<'a> {
        Life {
            args,
            view,
            meter,
            printer,
            // The order of one key plays no part.
            keyspace: Keyspace::new(256, [0; 4]),
            databases: BTreeMap::new(),
            is_known_elsewhere: false,
            has_gaps: false,
            holdings: VecDeque::new(),
            snapshot: None,
            next_deadline: None,
            time: UnixMs::ZERO,
        }
    }

    /// To be called once, after the last record: what the snapshot has beyond it, and for people where all this ends.
    /// `scanned` says how far the log was read; nothing when that is not known.
    pub(super) fn finish(&mut self, scanned: Option<&Scanned>) -> Result<Printed, Failure> {
        let Some(scanned) = scanned else {
            return self.printer.finish();
        };
        let end = scanned.end;
        if self.catch_up(end, self.time)? == Printed::Closed {
            return Ok(Printed::Closed);
        }
        let (keyspace, key) = (&self.keyspace, &self.args.key.0);
        let seen = self.databases.iter().filter(|(_, known)| known.is_seen);
        let holds = seen.map(|(db, _)| (*db, keyspace.get(*db, key)));
        let place = if scanned.is_cut_short() {
            "where reading stopped, before the end of the log"
        } else {
            "at the end of the log"
        };
        self.printer.end(place, end, self.time, holds)
    }

    fn is_wanted(&self, db: u8) -> bool {
        self.args.db.is_none_or(|wanted| wanted == db)
    }

    fn note(&self, words: &str) {
        self.meter.aside(|| eprintln!("walctl: note: {words}"));
    }

    /// Everything that comes before a record which begins at `lsn` and has this time.
    fn catch_up(&mut self, lsn: Lsn, time: UnixMs) -> Result<Printed, Failure> {
        while let Some(holding) = self.holdings.pop_front_if(|holding| holding.lsn <= lsn) {
            let at = holding.items().next_back().map_or(time, |(raw, _)| raw.time);
            self.time = self.time.max(at);
            if self.expire(at, holding.lsn)? == Printed::Closed
                || self.take_holding(&holding)? == Printed::Closed
            {
                return Ok(Printed::Closed);
            }
        }
        if let Some((_, end, ended)) = &self.snapshot
            && *end <= lsn
        {
            self.time = self.time.max(*ended);
            // What the whole snapshot does not have and the log did not make was not there.
            self.snapshot = None;
            self.is_known_elsewhere = true;
            for known in self.databases.values_mut().filter(|known| !known.is_seen) {
                known.is_known = true;
            }
        }
        self.expire(time.max(self.time), lsn)
    }

    /// Shows what has ended at `time`, and takes it away. `lsn` is that of the record which has this time.
    fn expire(&mut self, time: UnixMs, lsn: Lsn) -> Result<Printed, Failure> {
        let key = &self.args.key.0;
        while let Some(deadline) = self.next_deadline
            && deadline <= time
        {
            let ended = self.databases.keys().copied().find(|db| {
                let entry = self.keyspace.get(*db, key);
                entry.is_some_and(|entry| entry.deadline().has_ended(deadline))
            });
            let Some(db) = ended else {
                self.set_next_deadline();
                continue;
            };
            let entry = self.keyspace.get(db, key).expect("it was found right now");
            let mut line = Line {
                lsn: lsn.get(),
                time_ms: deadline.get(),
                db: Some(db),
                key: Some(Escaped(key)),
                deadline_ms: Some(Some(deadline.get())),
                ..Line::default()
            };
            match entry.value() {
                ValueRef::String(value) => line.value_bytes = Some(value.len()),
                ValueRef::Hash(fields) => line.fields = Some(fields.len()),
            }
            if let Some(record) = idem_of(&entry) {
                line.idem(&record, false);
                line.value_bytes = None;
            }
            let printed = self.printer.print(&Happening {
                event: EXPIRED,
                synthesised: true,
                line,
                note: None,
            })?;
            if printed == Printed::Closed {
                return Ok(Printed::Closed);
            }
            let gone = Record::Delete {
                reason: DeleteReason::Command,
                key,
            };
            self.keyspace.apply(time, db, &gone);
            if let Some(known) = self.databases.get_mut(&db) {
                known.has_expired = true;
            }
            self.set_next_deadline();
        }
        Ok(Printed::All)
    }

    fn set_next_deadline(&mut self) {
        let deadlines = self.databases.keys().filter_map(|db| {
            let deadline = self.keyspace.get(*db, &self.args.key.0)?.deadline();
            // A later one than a record can have never comes.
            let can_come = deadline.is_some() && deadline <= Deadline::at(UnixMs::MAX.get());
            can_come.then(|| UnixMs::new(deadline.get()))
        });
        self.next_deadline = deadlines.min();
    }

    /// What the snapshot has, unless the log has said more already.
    fn take_holding(&mut self, holding: &Holding) -> Result<Printed, Failure> {
        let known = self.databases.entry(holding.db).or_default();
        let in_parts = holding.is_in_parts();
        if known.is_known || (in_parts && known.is_seen) {
            return Ok(Printed::All);
        }
        *known = Knowledge {
            is_known: true,
            is_seen: true,
            has_expired: false,
        };
        for (raw, item) in holding.items() {
            self.keyspace.apply(raw.time, raw.db, &item);
        }
        self.set_next_deadline();
        let Some((raw, item)) = holding.items().next_back() else {
            return Ok(Printed::All);
        };
        let mut line = Line::new(&raw, raw.db, &item, self.args.values && !in_parts);
        let entry = self.keyspace.get(raw.db, &self.args.key.0);
        if let Some(ValueRef::Hash(hash)) = entry.map(|entry| entry.value()) {
            // The whole of it, which the last item need not have.
            line.fields = Some(hash.len());
            line.value_bytes = Some(hash.iter().map(|(field, value)| field.len() + value.len()).sum());
        }
        let file = self.snapshot.as_ref().map_or("", |(file, _, _)| file.as_str());
        self.printer.print(&Happening {
            event: FOUND,
            synthesised: false,
            line,
            note: Some(format!("in {file}; it began before the kept log")),
        })
    }

    /// A record, or a part of one, that may be about the key.
    fn take(
        &mut self,
        raw: &RawRecord<'_>,
        db: u8,
        record: &Record<'_>,
        part: Option<(usize, usize)>,
    ) -> Result<Printed, Failure> {
        match scope(db, record) {
            Scope::One(db) if matches!(record, Record::FlushDb) => self.take_in(raw, db, record, part),
            Scope::One(db) if key(record) == Some(&self.args.key.0[..]) => {
                self.take_in(raw, db, record, part)
            }
            Scope::All => {
                let databases: Vec<u8> = self.databases.keys().copied().collect();
                for db in databases {
                    if self.take_in(raw, db, record, part)? == Printed::Closed {
                        return Ok(Printed::Closed);
                    }
                }
                self.is_known_elsewhere = true;
                Ok(Printed::All)
            }
            Scope::One(_) | Scope::None => Ok(Printed::All),
        }
    }

    fn take_in(
        &mut self,
        raw: &RawRecord<'_>,
        db: u8,
        record: &Record<'_>,
        part: Option<(usize, usize)>,
    ) -> Result<Printed, Failure> {
        if !self.is_wanted(db) {
            return Ok(Printed::All);
        }
        let key = &self.args.key.0[..];
        let elsewhere = Knowledge {
            is_known: self.is_known_elsewhere,
            ..Knowledge::default()
        };
        let known = self.databases.entry(db).or_insert(elsewhere);
        let before = Before {
            live: self.keyspace.get(db, key),
            is_known: known.is_known,
            has_expired: known.has_expired,
            has_gaps: self.has_gaps,
        };
        let was_there = before.live.is_some();
        let happened = before.event(record);
        known.is_known |= decides(record);
        // Whatever database a flush stands in, it is one of this key's only.
        let gone = Record::Delete {
            reason: DeleteReason::Command,
            key,
        };
        let effect = if matches!(record, Record::FlushDb | Record::FlushAll) {
            &gone
        } else {
            record
        };
        self.keyspace.apply(raw.time, db, effect);
        let is_there = self.keyspace.get(db, key).is_some();
        let Some((event, mut note)) = happened else {
            return Ok(Printed::All);
        };
        (known.is_seen, known.has_expired) = (true, false);
        if matches!(record, Record::HashDelete { .. }) && was_there && !is_there {
            note = Some("the key went with its last field".to_owned());
        }
        let mut line = Line::new(raw, db, record, self.args.values);
        (line.db, line.key) = (Some(db), Some(Escaped(key)));
        if let Some((index, count)) = part {
            (line.tx_index, line.tx_count) = (Some(index), Some(count));
        }
        let printed = self.printer.print(&Happening {
            event,
            synthesised: false,
            line,
            note,
        });
        self.set_next_deadline();
        printed
    }
}

/// Whether a record says all that the key holds after it, whatever was there before.
fn decides(record: &Record<'_>) -> bool {
    match record {
        Record::StringPut { .. }
        | Record::IdempotencyPut { .. }
        | Record::Delete { .. }
        | Record::FlushDb
        | Record::FlushAll => true,
        // Fields may be there beside those that are named, and a deadline is that of whatever is there.
        Record::HashPut { .. }
        | Record::HashDelete { .. }
        | Record::DeadlinePut { .. }
        | Record::Transaction { .. }
        | Record::EpochStart { .. }
        | Record::Members { .. }
        | Record::Clock => false,
    }
}

impl Visitor for Life<'_> {
    fn begin(&mut self, first: Lsn) -> Result<(), Failure> {
        self.is_known_elsewhere = first == Lsn::ZERO;
        if first == Lsn::ZERO {
            return Ok(());
        }
        self.note(&format!(
            "the log is kept from lsn {first} on; what happened before is not in it"
        ));
        let Some(earlier) = earlier::ask(self.view, self.args, first)? else {
            return Ok(());
        };
        let Earlier {
            file,
            end,
            time,
            mut holdings,
            notes,
        } = earlier;
        notes.iter().for_each(|note| self.note(note));
        if !file.is_empty() {
            holdings.sort_by_key(|holding| holding.lsn);
            self.holdings = holdings.into();
            self.snapshot = Some((file, end, time));
        }
        Ok(())
    }

    fn record(&mut self, record: &LogRecord<'_>, decoded: &Record<'_>) -> Result<Printed, Failure> {
        let raw = &record.raw;
        self.time = raw.time;
        if self.catch_up(raw.lsn, raw.time)? == Printed::Closed {
            return Ok(Printed::Closed);
        }
        let Record::Transaction { records } = decoded else {
            return self.take(raw, raw.db, decoded, None);
        };
        for (index, (db, part)) in records.iter().enumerate() {
            if self.take(raw, db, &part, Some((index, records.len())))? == Printed::Closed {
                return Ok(Printed::Closed);
            }
        }
        Ok(Printed::All)
    }

    fn gap(&mut self, _: Lsn) {
        // What it was is worth nothing now; who is told of the gap is the scan's business.
        self.keyspace.clear();
        self.databases.clear();
        self.holdings.clear();
        (self.snapshot, self.next_deadline) = (None, None);
        self.is_known_elsewhere = false;
        self.has_gaps = true;
    }
}
