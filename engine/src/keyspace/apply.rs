//! Applying records: total, physical, idempotent.
//!
//! Whatever the state is (older, newer, another type under the key), a record gives what it says, so that replaying a
//! range again always ends in the same state. The one thing a record does not say but finds is whether something had
//! ended: what had ended at the *record's own* time counts as absent. No clock and no reclaiming has a part in it.
//!
//! What a record says about something that is not there:
//!
//! | record | absent or ended | another type |
//! |---|---|---|
//! | StringPut, IdempotencyPut (pending, completed) | stored | replaced |
//! | IdempotencyPut (aborted), Delete | nothing left | removed |
//! | DeadlinePut | nothing | the deadline of any type |
//! | HashPut | a new hash | replaced by a new hash |
//! | HashDelete | nothing | nothing |

use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::wal::{Pairs, Record, Strings};
use idem_protocol::{Deadline, UnixMs};

use super::Keyspace;
use super::database::Database;
use super::entry::{Content, EntryRef};
use super::garbage::FREED_PER_RECORD;
use super::hash_value::HashValue;

impl Keyspace {
    /// Makes the state what the record says. `time` is the record's own; it may be older than the state (a replay).
    pub fn apply(&mut self, time: UnixMs, db: u8, record: &Record<'_>) {
        self.garbage.free(FREED_PER_RECORD);
        match *record {
            Record::StringPut { key, deadline, value } => {
                self.put(time, db, key, deadline, Content::String(value));
            }
            Record::Delete { key, .. } => self.delete(db, key),
            Record::DeadlinePut { key, deadline } => self.put_deadline(time, db, key, deadline),
            Record::HashPut {
                key,
                deadline,
                fields,
            } => self.put_fields(time, db, key, deadline, &fields),
            Record::HashDelete { key, fields } => self.delete_fields(time, db, key, &fields),
            Record::FlushDb => self.flush(db),
            Record::FlushAll => (0..=u8::MAX).for_each(|db| self.flush(db)),
            Record::Transaction { records } => {
                for (db, record) in records.iter() {
                    self.apply(time, db, &record);
                }
            }
            Record::IdempotencyPut {
                key,
                deadline,
                record,
            } => self.put_idem(time, db, key, deadline, &record),
            Record::EpochStart { .. } | Record::Members { .. } | Record::Clock => {}
        }
    }

    fn put(&mut self, time: UnixMs, db: u8, key: &[u8], deadline: Deadline, content: Content<'_>) {
        let hash = self.hasher.hash(key);
        let old = self
            .database_mut(db)
            .put(hash, key, deadline.get(), content, time.get());
        self.garbage.discard(old);
    }

    fn put_idem(&mut self, time: UnixMs, db: u8, key: &[u8], deadline: Deadline, record: &IdemRecord<'_>) {
        match record.state {
            IdemState::Pending | IdemState::Completed => {
                self.put(time, db, key, deadline, Content::Idem(record));
            }
            IdemState::Aborted => self.delete(db, key),
        }
    }

    fn delete(&mut self, db: u8, key: &[u8]) {
        let hash = self.hasher.hash(key);
        let Some(database) = self.existing_mut(db) else {
            return;
        };
        let old = database.remove(hash, key);
        self.garbage.discard(old);
    }

    fn put_deadline(&mut self, time: UnixMs, db: u8, key: &[u8], deadline: Deadline) {
        let hash = self.hasher.hash(key);
        let Some(database) = self.existing_mut(db) else {
            return;
        };
        if database
            .find(hash, key)
            .is_some_and(|entry| is_live(&entry, time))
        {
            database.set_deadline(hash, key, deadline.get(), time.get());
        }
    }

    fn put_fields(&mut self, time: UnixMs, db: u8, key: &[u8], deadline: Deadline, fields: &Pairs<'_>) {
        let hash = self.hasher.hash(key);
        let hasher = self.hasher.clone();
        let database = self.database_mut(db);
        let goes_on = |entry: EntryRef<'_>| is_live(&entry, time) && entry.is_hash();
        if database.find(hash, key).is_some_and(goes_on) {
            database.change_hash(hash, key, |value| set_all(value, fields, &hasher));
            database.set_deadline(hash, key, deadline.get(), time.get());
        } else if fields.iter().next().is_some() {
            let mut value = HashValue::new();
            set_all(&mut value, fields, &hasher);
            self.put(time, db, key, deadline, Content::Hash(value));
        }
    }

    fn delete_fields(&mut self, time: UnixMs, db: u8, key: &[u8], fields: &Strings<'_>) {
        let hash = self.hasher.hash(key);
        let Some(database) = self.existing_mut(db) else {
            return;
        };
        if !database
            .find(hash, key)
            .is_some_and(|entry| is_live(&entry, time))
        {
            return;
        }
        let emptied = database.change_hash(hash, key, |value| {
            fields.iter().for_each(|field| _ = value.remove(field));
            value.is_empty()
        });
        if emptied == Some(true) {
            self.delete(db, key);
        }
    }

    fn flush(&mut self, db: u8) {
        if let Some(database) = self.databases.get_mut(usize::from(db)).and_then(Option::take) {
            self.garbage.condemn_database(*database);
        }
    }

    fn existing_mut(&mut self, db: u8) -> Option<&mut Database> {
        self.databases.get_mut(usize::from(db))?.as_deref_mut()
    }
}

fn is_live(entry: &EntryRef<'_>, time: UnixMs) -> bool {
    !entry.deadline().has_ended(time)
}

fn set_all(value: &mut HashValue, fields: &Pairs<'_>, hasher: &super::hasher::KeyHasher) {
    fields
        .iter()
        .for_each(|(field, content)| value.set(field, content, hasher));
}
