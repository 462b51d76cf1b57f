//! `WATCH`: whether keys changed since somebody looked.
//!
//! A key is watched by its hash (keyed, 64 bits): two keys of one hash abort each other's transactions, which costs a
//! retry and is never wrong. While nobody watches anything, a change costs one look at an empty map.
//!
//! A key counts as changed by every record that names it, also one that puts what was there already; by a flush, when it
//! was there when the watch began; and by its end, when it was there and its deadline came. A record of its end does not
//! exist, so that is looked at when EXEC asks.

use std::collections::BTreeMap;

use idem_protocol::wal::Record;
use idem_protocol::{Deadline, Lsn};

use crate::keyspace::Keyspace;

/// Keys that one connection may watch. Each takes about a hundred bytes.
pub(crate) const WATCHED_MAX: usize = 1 << 16;

/// About what a watched key takes, in the session and in the table, in bytes.
const WATCH_BYTES: usize = 128;

/// A watched key: its database and its hash.
pub(crate) type WatchedKey = (u8, u64);

/// How a key was when the watch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The end of the newest record then.
    pub(crate) since: Lsn,
    /// Its deadline, when it was there.
    pub(crate) found: Option<Deadline>,
}

/// What one connection watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched(BTreeMap<WatchedKey, Watch>);

impl Watched {
    /// How many keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// About how much memory that takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.len() * WATCH_BYTES
    }
}

/// The keys that anybody watches.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    keys: BTreeMap<WatchedKey, Watchers>,
    /// The last flush of each database that was flushed alone.
    flushed: BTreeMap<u8, Lsn>,
    all_flushed: Lsn,
}

#[derive(Debug, Default)]
struct Watchers {
    count: usize,
    /// The last change since the first of them began.
    changed: Lsn,
}

impl WatchTable {
    /// A session begins to watch a key; one that it watches already stays as it was.
    pub(crate) fn add(&mut self, session: &mut Watched, key: WatchedKey, watch: Watch) {
        if session.0.contains_key(&key) {
            return;
        }
        session.0.insert(key, watch);
        self.keys.entry(key).or_default().count += 1;
    }

    /// A session watches nothing any more.
    pub(crate) fn remove(&mut self, session: &mut Watched) {
        for (key, _) in std::mem::take(&mut session.0) {
            if let Some(watchers) = self.keys.get_mut(&key) {
                watchers.count -= 1;
                if watchers.count == 0 {
                    self.keys.remove(&key);
                }
            }
        }
        if self.keys.is_empty() {
            *self = WatchTable::default();
        }
    }

    /// Whether nobody watches anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// A record that ends at `end` is about to be applied.
    pub(crate) fn note(&mut self, keyspace: &Keyspace, db: u8, record: &Record<'_>, end: Lsn) {
        match record {
            Record::StringPut { key, .. }
            | Record::Delete { key, .. }
            | Record::DeadlinePut { key, .. }
            | Record::HashPut { key, .. }
            | Record::HashDelete { key, .. }
            | Record::IdempotencyPut { key, .. } => {
                if let Some(watchers) = self.keys.get_mut(&(db, keyspace.key_hash(key))) {
                    watchers.changed = end;
                }
            }
            Record::FlushDb => _ = self.flushed.insert(db, end),
            Record::FlushAll => self.all_flushed = end,
            Record::Transaction { records } => {
                records
                    .iter()
                    .for_each(|(db, record)| self.note(keyspace, db, &record, end));
            }
            Record::EpochStart { .. } | Record::Members { .. } | Record::Clock => {}
        }
    }

    /// Whether a record changed one of the session's keys since it was watched.
    pub(crate) fn has_changed(&self, session: &Watched) -> bool {
        session.0.iter().any(|(key, watch)| {
            let named = self.keys.get(key).map_or(Lsn::ZERO, |watchers| watchers.changed);
            let flush = self.flushed.get(&key.0).copied().unwrap_or(Lsn::ZERO);
            let flushed = watch.found.is_some() && flush.max(self.all_flushed) > watch.since;
            named > watch.since || flushed
        })
    }
}

impl Watched {
    /// The deadlines of the keys that were there.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Deadline> {
        self.0.values().filter_map(|watch| watch.found)
    }
}
