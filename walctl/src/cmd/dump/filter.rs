//! Which records are wanted. Everything that was asked for has to hold.

use idem_protocol::wal::{Opcode, RawRecord, Record};
use idem_protocol::{Lsn, UnixMs};

use super::Args;
use crate::line::{Scope, key, scope};
use crate::parse::Bytes;

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    key: Option<Bytes>,
    prefix: Option<Bytes>,
    opcode: Option<Opcode>,
    db: Option<u8>,
    from_lsn: Option<Lsn>,
    to_lsn: Option<Lsn>,
    from_time: Option<UnixMs>,
    to_time: Option<UnixMs>,
}

impl Filter {
    pub(super) fn new(args: &Args) -> Filter {
        Filter {
            key: args.key.clone(),
            prefix: args.prefix.clone(),
            opcode: args.opcode,
            db: args.db,
            from_lsn: args.from_lsn,
            to_lsn: args.to_lsn,
            from_time: args.from_time,
            to_time: args.to_time,
        }
    }

    /// Whether anything was asked for at all.
    pub(super) fn is_narrow(&self) -> bool {
        self.picks_records()
            || self.from_lsn.is_some()
            || self.to_lsn.is_some()
            || self.from_time.is_some()
            || self.to_time.is_some()
    }

    /// Whether records are picked by what they are, and not only by where they stand.
    pub(super) fn picks_records(&self) -> bool {
        self.key.is_some() || self.prefix.is_some() || self.opcode.is_some() || self.db.is_some()
    }

    /// Whether the log's first position is within the limits of lsn and time, as far as can be told before reading.
    pub(super) fn starts_in_range(&self) -> bool {
        self.from_lsn.is_none() && self.from_time.is_none()
    }

    /// Whether positions from `lsn` on can be left out: neither lsns nor times ever go back.
    pub(super) fn is_past_lsn(&self, lsn: Lsn) -> bool {
        self.to_lsn.is_some_and(|to| lsn >= to)
    }

    /// Whether this record and all that follow are out of range.
    pub(super) fn is_past(&self, raw: &RawRecord<'_>) -> bool {
        self.is_past_lsn(raw.lsn) || self.to_time.is_some_and(|to| raw.time > to)
    }

    /// Whether this record comes before the range.
    pub(super) fn is_before(&self, raw: &RawRecord<'_>) -> bool {
        self.is_before_lsn(raw.lsn) || self.from_time.is_some_and(|from| raw.time < from)
    }

    /// Whether this position comes before the range.
    pub(super) fn is_before_lsn(&self, lsn: Lsn) -> bool {
        self.from_lsn.is_some_and(|from| lsn < from)
    }

    /// The last time that is wanted.
    pub(super) fn to_time(&self) -> Option<UnixMs> {
        self.to_time
    }

    /// Whether a record, or a part of a transaction, is one of those that were picked. `outer` is the kind of the record
    /// that it stands in: asking for Transactions gives all their parts.
    pub(super) fn picks(&self, outer: Opcode, db: u8, record: &Record<'_>) -> bool {
        let named = key(record);
        self.opcode
            .is_none_or(|opcode| opcode == record.opcode() || opcode == outer)
            && self.key.as_ref().is_none_or(|key| named == Some(&key.0[..]))
            && self
                .prefix
                .as_ref()
                .is_none_or(|prefix| named.is_some_and(|key| key.starts_with(&prefix.0)))
            && self.db.is_none_or(|wanted| match scope(db, record) {
                Scope::One(db) => db == wanted,
                Scope::All => true,
                Scope::None => false,
            })
    }
}
