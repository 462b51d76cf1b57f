//! Reading a keyspace piece by piece while it changes: the fuzzy snapshot.
//!
//! A [`SnapshotCursor`] walks database after database in hash order. Each step appends records (StringPut, HashPut) of
//! what it finds *now*; between steps the node goes on applying. The result is no state that ever was, and need not be:
//! records are physical and idempotent, so loading the items and replaying the log from the lsn at which the walk began
//! gives the exact state, as soon as the replay has passed the lsn at which the walk ended.
//!
//! What makes that true:
//! * an entry that is there from before the walk until its position is passed is written, in some version;
//! * whatever changes later is in the log above the start, whatever changed earlier is in the version written;
//! * what had ended at the log's time is left out: no record with a later time sees it any more, and one with an earlier
//!   time that gave it a longer life would have changed the version found here.
//!
//! A large hash is written over many steps, its parts come from different moments. A deletion or a new deadline in between
//! is in the log, and the replay goes through it. What is not in the log is that a hash *ended* and was begun anew. So when
//! the deadline of the last part has come before the next is written, the hash is written from its beginning again: was
//! it prolonged, nothing is lost, and was it begun anew, nothing old is left, because loading takes the earlier parts as
//! ended at the later items' time.

use idem_protocol::wal::Record;
use idem_protocol::{Deadline, Lsn, UnixMs};

use crate::keyspace::{EntryRef, HashPart, HashValue, Keyspace, ValueRef};

/// Fields and values of one HashPut item, in bytes; a single larger field has an item of its own.
const HASH_ITEM_BYTES_MAX: usize = 8 << 20;
/// Partitions looked at in one step even when they hold nothing to write.
const PARTITIONS_PER_STEP: usize = 64;

/// Where a snapshot has come to.
#[derive(Debug)]
pub struct SnapshotCursor {
    db: u8,
    /// Everything below this hash in `db` is written.
    position: u64,
    walked: bool,
    /// Large hashes that the walk has come by: key, and the position in the hash order of the fields.
    large: Vec<LargeHash>,
    counts: Vec<(u8, u64)>,
}

/// A large hash that is being written.
#[derive(Debug)]
struct LargeHash {
    db: u8,
    key: Box<[u8]>,
    /// Position in the hash order of the fields.
    from: u64,
    /// The deadline that the last part carried.
    deadline: Deadline,
    /// A part of it is written. Until then it may go, and is no key of the snapshot.
    is_counted: bool,
}

impl Default for SnapshotCursor {
    fn default() -> Self {
        Self::new()
    }
}

impl SnapshotCursor {
    /// At the beginning. The log's end at this moment is the snapshot's start lsn.
    pub fn new() -> Self {
        Self {
            db: 0,
            position: 0,
            walked: false,
            large: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// Appends the next items to `out`, framed as records with lsn `at` and time `log_time`, both those of the log's end
    /// now. Stops when `max_bytes` or more have been added (it overshoots by one item) or a number of partitions was
    /// looked at. True means that everything is written, and the log's end now is the snapshot's end lsn.
    pub fn step(
        &mut self,
        keyspace: &Keyspace,
        at: Lsn,
        log_time: UnixMs,
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut items = Items {
            at,
            log_time,
            full_at: out.len().saturating_add(max_bytes.max(1)),
            out,
        };
        for _ in 0..PARTITIONS_PER_STEP {
            while !items.is_full() && self.write_large(keyspace, &mut items) {}
            if items.is_full() || self.walked {
                break;
            }
            self.walk(keyspace, &mut items);
        }
        self.walked && self.large.is_empty()
    }

    /// Keys written per database, for the trailer: each string, and each hash whose items follow one another. It is what a
    /// reader counts, who refuses a snapshot that says otherwise: a key that went before it was written is not in it, and one
    /// that was a hash at first and a string later is in it twice. Databases without keys are not in it.
    pub fn counts(&self) -> &[(u8, u64)] {
        &self.counts
    }

    /// Writes what is left of one partition, or up to where the items are full.
    fn walk(&mut self, keyspace: &Keyspace, items: &mut Items<'_>) {
        let db = self.db;
        let next = keyspace.walk(db, self.position, &mut |entry| {
            if !entry.deadline().has_ended(items.log_time) {
                match entry.value() {
                    ValueRef::Hash(value) if value.is_large() => {
                        let (key, deadline) = (entry.key().into(), entry.deadline());
                        self.large.push(LargeHash {
                            db,
                            key,
                            from: 0,
                            deadline,
                            is_counted: false,
                        });
                    }
                    value => {
                        count(&mut self.counts, db);
                        items.whole(db, entry, value);
                    }
                }
            }
            !items.is_full()
        });
        match (next, self.db.checked_add(1)) {
            (Some(next), _) => self.position = next,
            (None, Some(db)) => (self.db, self.position) = (db, 0),
            (None, None) => self.walked = true,
        }
    }

    /// Writes one item of a large hash; false when there is none.
    fn write_large(&mut self, keyspace: &Keyspace, items: &mut Items<'_>) -> bool {
        let Some(large) = self.large.last_mut() else {
            return false;
        };
        if large.deadline.has_ended(items.log_time) {
            large.from = 0;
        }
        let live = |entry: &EntryRef<'_>| !entry.deadline().has_ended(items.log_time);
        let next = match keyspace.get(large.db, &large.key).filter(live) {
            // Gone since the walk came by: the log, or its time, says so.
            None => None,
            Some(entry) => match entry.value() {
                ValueRef::Hash(value) => {
                    large.deadline = entry.deadline();
                    let before = items.out.len();
                    let next = items.part(large.db, entry, value, large.from);
                    if items.out.len() > before && !std::mem::replace(&mut large.is_counted, true) {
                        count(&mut self.counts, large.db);
                    }
                    next
                }
                value @ ValueRef::String(_) => {
                    count(&mut self.counts, large.db);
                    items.whole(large.db, entry, value);
                    None
                }
            },
        };
        match next {
            Some(next) => large.from = next,
            None => _ = self.large.pop(),
        }
        true
    }
}

fn count(counts: &mut Vec<(u8, u64)>, db: u8) {
    match counts.last_mut() {
        Some((last, keys)) if *last == db => *keys += 1,
        _ => counts.push((db, 1)),
    }
}

/// Where the items of one step go.
struct Items<'o> {
    at: Lsn,
    log_time: UnixMs,
    full_at: usize,
    out: &'o mut Vec<u8>,
}

impl Items<'_> {
    fn is_full(&self) -> bool {
        self.out.len() >= self.full_at
    }

    fn record(&mut self, db: u8, record: &Record<'_>) {
        record.encode(self.at, self.log_time, db, self.out);
    }

    fn whole(&mut self, db: u8, entry: EntryRef<'_>, value: ValueRef<'_>) {
        let (key, deadline) = (entry.key(), entry.deadline());
        match value {
            ValueRef::String(value) => self.record(db, &Record::StringPut { key, deadline, value }),
            ValueRef::Hash(value) => self.fields(db, key, deadline, &value.iter().collect::<Vec<_>>()),
        }
    }

    /// One item of a large hash, from a position in its fields' hash order on; returns the next position.
    fn part(&mut self, db: u8, entry: EntryRef<'_>, value: &HashValue, from: u64) -> Option<u64> {
        let left = self.full_at.saturating_sub(self.out.len());
        let HashPart { fields, next } = value.part(from, left.min(HASH_ITEM_BYTES_MAX));
        if !fields.is_empty() {
            self.fields(db, entry.key(), entry.deadline(), &fields);
        }
        next
    }

    fn fields(&mut self, db: u8, key: &[u8], deadline: Deadline, fields: &[(&[u8], &[u8])]) {
        self.record(
            db,
            &Record::HashPut {
                key,
                deadline,
                fields: fields.into(),
            },
        );
    }
}

#[cfg(test)]
mod tests;
