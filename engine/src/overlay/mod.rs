//! What the commands of one EXEC have changed so far, laid over a keyspace that none of it has reached.
//!
//! EXEC is one record: either everything of it is in the log and in the state, or nothing. Whether it is, is known only
//! when all of its commands have been decided and the space for their record is reserved, and each of them has to see what
//! those before it did. So the keyspace stays as it is, and changes are kept here until the record is applied.
//!
//! # Invariants
//! 1. Looking through the overlay shows what the keyspace will show once the records that the overlay took have been
//!    applied to it at the same time: the same keys, values, fields and deadlines.
//! 2. What was not changed is not copied: a hash of a million fields costs the fields that the transaction names, and a
//!    new deadline costs no value.
//! 3. It lives for one attempt to decide an EXEC. It holds no more than the bytes of the transaction's records.
//!
//! # Deliberately absent
//! A second way to change the state: nothing is ever taken from here into the keyspace. What is applied is the record.

mod fields;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use idem_protocol::idem::IdemState;
use idem_protocol::wal::{Pairs, Record, Strings};
use idem_protocol::{Deadline, UnixMs};

pub(crate) use fields::FieldChanges;

use crate::keyspace::{EntryRef, HashValue, Keyspace, ValueRef};

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    keys: BTreeMap<u8, BTreeMap<Box<[u8]>, Changed>>,
    flushed: BTreeSet<u8>,
    all_flushed: bool,
    /// How many entries a database will have more than the keyspace's (than none, once flushed). Only where it differs.
    grown: BTreeMap<u8, i64>,
    /// Entries and fields that were looked at and are here or hidden from here: work that no command has alone.
    passed_over: Cell<u64>,
}

/// A key that was changed.
#[derive(Debug)]
pub(crate) struct Changed {
    /// As the records left it.
    pub(crate) deadline: Deadline,
    /// As the records left it.
    pub(crate) content: Content,
}

/// What a changed key holds.
#[derive(Debug)]
pub(crate) enum Content {
    /// Nothing.
    Gone,
    /// What the keyspace holds; only the deadline is another.
    Kept,
    /// A string.
    String(Box<[u8]>),
    /// A hash: the keyspace's with changes, or a new one.
    Hash(FieldChanges),
}

impl Overlay {
    /// What became of a key, beside the key as it is kept here; `None` when no record named it.
    pub(crate) fn get(&self, db: u8, key: &[u8]) -> Option<(&[u8], &Changed)> {
        let (key, changed) = self.keys.get(&db)?.get_key_value(key)?;
        Some((key, changed))
    }

    /// Whether the keyspace's entries of a database no longer count.
    pub(crate) fn is_flushed(&self, db: u8) -> bool {
        self.all_flushed || self.flushed.contains(&db)
    }

    /// Every key of a database that a record named, those that are gone included.
    pub(crate) fn keys(&self, db: u8) -> impl Iterator<Item = (&[u8], &Changed)> {
        let keys = self.keys.get(&db).into_iter().flatten();
        keys.map(|(key, changed)| (&**key, changed))
    }

    /// How many entries a database of `keyspace` will have.
    pub(crate) fn len(&self, db: u8, keyspace: &Keyspace) -> u64 {
        let kept = if self.is_flushed(db) { 0 } else { keyspace.len(db) };
        kept.saturating_add_signed(self.grown.get(&db).copied().unwrap_or(0))
    }

    /// Counts work on entries or fields that are here or hidden from here.
    pub(crate) fn pass_over(&self, count: usize) {
        self.passed_over
            .set(self.passed_over.get().saturating_add(count as u64));
    }

    /// How much of it there was.
    pub(crate) fn passed_over(&self) -> u64 {
        self.passed_over.get()
    }

    /// Takes a record as the keyspace's `apply` will take it, at `time`.
    pub(crate) fn take(&mut self, keyspace: &Keyspace, time: UnixMs, db: u8, record: &Record<'_>) {
        match *record {
            Record::StringPut { key, deadline, value } => {
                self.put(keyspace, db, key, deadline, Content::String(value.into()));
            }
            Record::IdempotencyPut {
                key,
                deadline,
                record,
            } => match record.state {
                IdemState::Pending | IdemState::Completed => {
                    let mut value = Vec::with_capacity(record.encoded_len());
                    record.encode(&mut value);
                    self.put(keyspace, db, key, deadline, Content::String(value.into()));
                }
                IdemState::Aborted => self.put(keyspace, db, key, Deadline::NONE, Content::Gone),
            },
            Record::Delete { key, .. } => self.put(keyspace, db, key, Deadline::NONE, Content::Gone),
            Record::DeadlinePut { key, deadline } => self.put_deadline(keyspace, time, db, key, deadline),
            Record::HashPut {
                key,
                deadline,
                fields,
            } => self.put_fields(keyspace, time, db, key, deadline, &fields),
            Record::HashDelete { key, fields } => self.delete_fields(keyspace, time, db, key, &fields),
            Record::FlushDb => {
                self.keys.remove(&db);
                self.grown.remove(&db);
                self.flushed.insert(db);
            }
            Record::FlushAll => {
                self.keys.clear();
                self.grown.clear();
                self.all_flushed = true;
            }
            Record::Transaction { records } => {
                for (db, record) in records.iter() {
                    self.take(keyspace, time, db, &record);
                }
            }
            Record::EpochStart { .. } | Record::Members { .. } | Record::Clock => {}
        }
    }

    fn put(&mut self, keyspace: &Keyspace, db: u8, key: &[u8], deadline: Deadline, content: Content) {
        let kept = !self.is_flushed(db) && keyspace.get(db, key).is_some();
        let is_there = |content: &Content| !matches!(content, Content::Gone);
        let after = is_there(&content);
        let changed = Changed { deadline, content };
        let keys = self.keys.entry(db).or_default();
        let before = match keys.get_mut(key) {
            Some(known) => is_there(&std::mem::replace(known, changed).content),
            None => {
                keys.insert(key.into(), changed);
                kept
            }
        };
        *self.grown.entry(db).or_default() += i64::from(after) - i64::from(before);
    }

    /// The changed key, taken over from the keyspace when no record named it before; `None` for what is not there at
    /// `time`.
    fn live_mut(&mut self, keyspace: &Keyspace, time: UnixMs, db: u8, key: &[u8]) -> Option<&mut Changed> {
        let flushed = self.is_flushed(db);
        let keys = self.keys.entry(db).or_default();
        if !keys.contains_key(key) {
            let entry = keyspace.get(db, key).filter(|_| !flushed)?;
            let taken = Changed {
                deadline: entry.deadline(),
                content: Content::Kept,
            };
            keys.insert(key.into(), taken);
        }
        keys.get_mut(key)
            .filter(|changed| !changed.deadline.has_ended(time) && !matches!(changed.content, Content::Gone))
    }

    fn put_deadline(&mut self, keyspace: &Keyspace, time: UnixMs, db: u8, key: &[u8], deadline: Deadline) {
        if let Some(changed) = self.live_mut(keyspace, time, db, key) {
            changed.deadline = deadline;
        }
    }

    fn put_fields(
        &mut self,
        keyspace: &Keyspace,
        time: UnixMs,
        db: u8,
        key: &[u8],
        deadline: Deadline,
        fields: &Pairs<'_>,
    ) {
        let base = kept_hash(keyspace, db, key);
        let goes_on = match self.live_mut(keyspace, time, db, key) {
            Some(Changed { content, .. }) => match content {
                Content::Hash(_) => true,
                Content::Kept => base.is_some(),
                Content::Gone | Content::String(_) => false,
            },
            None => false,
        };
        if !goes_on {
            self.put(
                keyspace,
                db,
                key,
                deadline,
                Content::Hash(FieldChanges::new_hash()),
            );
        }
        let changed = self.keys.get_mut(&db).and_then(|keys| keys.get_mut(key));
        let changed = changed.expect("it was looked at or put just now");
        changed.deadline = deadline;
        let hash = changed.hash_mut(base).expect("it is one, or was made one");
        fields
            .iter()
            .for_each(|(field, value)| hash.set(base, field, value));
    }

    fn delete_fields(&mut self, keyspace: &Keyspace, time: UnixMs, db: u8, key: &[u8], fields: &Strings<'_>) {
        let base = kept_hash(keyspace, db, key);
        let Some(changed) = self.live_mut(keyspace, time, db, key) else {
            return;
        };
        let Some(hash) = changed.hash_mut(base) else {
            return;
        };
        fields.iter().for_each(|field| hash.remove(base, field));
        if hash.is_empty() {
            self.put(keyspace, db, key, Deadline::NONE, Content::Gone);
        }
    }
}

impl Changed {
    /// The hash that this is, ready to be changed; `None` for another type.
    fn hash_mut(&mut self, base: Option<&HashValue>) -> Option<&mut FieldChanges> {
        if matches!(self.content, Content::Kept) {
            self.content = Content::Hash(FieldChanges::of(base?));
        }
        match &mut self.content {
            Content::Hash(changes) => Some(changes),
            Content::Gone | Content::Kept | Content::String(_) => None,
        }
    }
}

/// The hash that the keyspace holds under a key, whether or not it has ended: whoever asks has looked at the deadline.
fn kept_hash<'k>(keyspace: &'k Keyspace, db: u8, key: &[u8]) -> Option<&'k HashValue> {
    match keyspace.get(db, key).map(|entry: EntryRef<'k>| entry.value()) {
        Some(ValueRef::Hash(hash)) => Some(hash),
        Some(ValueRef::String(_)) | None => None,
    }
}
