//! What a keyspace should be: one ordered map, changed in the most obvious way.

use std::collections::BTreeMap;

use idem_protocol::UnixMs;
use idem_protocol::idem::{IdemRecord, IdemState};

use super::operations::{Bytes, Logged, Operation, idem};
use crate::keyspace::{Keyspace, ValueRef};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    String(Bytes),
    Hash(BTreeMap<Bytes, Bytes>),
}

/// Deadline and value by database and key.
pub(super) type Content = BTreeMap<(u8, Bytes), (u64, Value)>;

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) content: Content,
}

impl Model {
    pub(super) fn apply(&mut self, logged: &Logged) {
        logged
            .parts
            .iter()
            .for_each(|(db, operation)| self.apply_one(logged.time, *db, operation));
    }

    fn apply_one(&mut self, time: u64, db: u8, operation: &Operation) {
        let at = |key: &Bytes| (db, key.clone());
        match operation {
            Operation::StringPut(key, deadline, value) => {
                self.content
                    .insert(at(key), (*deadline, Value::String(value.clone())));
            }
            Operation::Delete(key) | Operation::Idem(key, _, IdemState::Aborted, _) => {
                self.content.remove(&at(key));
            }
            Operation::Idem(key, deadline, state, result) => {
                let mut packed = Vec::new();
                idem(*state, result).encode(&mut packed);
                self.content.insert(at(key), (*deadline, Value::String(packed)));
            }
            Operation::DeadlinePut(key, deadline) => {
                if let Some((old, _)) = self.live(&at(key), time) {
                    *old = *deadline;
                }
            }
            Operation::HashPut(key, deadline, fields) => {
                let mut hash = match self.live(&at(key), time) {
                    Some((_, Value::Hash(hash))) => std::mem::take(hash),
                    _ => BTreeMap::new(),
                };
                hash.extend(fields.iter().cloned());
                self.content.insert(at(key), (*deadline, Value::Hash(hash)));
            }
            Operation::HashDelete(key, fields) => {
                let Some((_, Value::Hash(hash))) = self.live(&at(key), time) else {
                    return;
                };
                hash.retain(|name, _| !fields.contains(name));
                if hash.is_empty() {
                    self.content.remove(&at(key));
                }
            }
            Operation::FlushDb => self.content.retain(|(other, _), _| *other != db),
            Operation::FlushAll => self.content.clear(),
            Operation::Clock => {}
        }
    }

    fn live(&mut self, at: &(u8, Bytes), time: u64) -> Option<&mut (u64, Value)> {
        self.content
            .get_mut(at)
            .filter(|(deadline, _)| *deadline == 0 || time < *deadline)
    }

    /// Keys in one database.
    pub(super) fn len(&self, db: u8) -> u64 {
        u64::try_from(self.content.keys().filter(|(other, _)| *other == db).count()).unwrap()
    }

    pub(super) fn expires(&self, db: u8) -> u64 {
        let with_deadline = self
            .content
            .iter()
            .filter(|((other, _), (deadline, _))| *other == db && *deadline != 0);
        u64::try_from(with_deadline.count()).unwrap()
    }

    pub(super) fn idem_records(&self) -> u64 {
        let is_idem =
            |value: &Value| matches!(value, Value::String(value) if IdemRecord::decode_stored(value).is_ok());
        u64::try_from(self.content.values().filter(|(_, value)| is_idem(value)).count()).unwrap()
    }
}

/// Everything in a keyspace, ended entries too, read through its public types.
pub(super) fn content(keyspace: &Keyspace) -> Content {
    let read = keyspace.iter().map(|(db, entry)| {
        let value = match entry.value() {
            ValueRef::String(value) => {
                assert_eq!(entry.is_idem(), IdemRecord::decode_stored(value).is_ok());
                Value::String(value.to_vec())
            }
            ValueRef::Hash(value) => {
                let fields: BTreeMap<_, _> = value
                    .iter()
                    .map(|(name, value)| (name.to_vec(), value.to_vec()))
                    .collect();
                assert_eq!(fields.len(), value.len());
                assert!(
                    fields
                        .iter()
                        .all(|(name, content)| value.get(name) == Some(content))
                );
                Value::Hash(fields)
            }
        };
        ((db, entry.key().to_vec()), (entry.deadline().get(), value))
    });
    read.collect()
}

/// The part of a content that is live at `now`.
pub(super) fn live_at(mut content: Content, now: UnixMs) -> Content {
    content.retain(|_, (deadline, _)| *deadline == 0 || now.get() < *deadline);
    content
}
