//! An entry as a command sees it: the keyspace's, or as the earlier commands of the same transaction left it.

use std::iter;

use idem_protocol::Deadline;

use crate::keyspace::{EntryRef, HashPart, HashValue, ValueRef};
use crate::overlay::{Changed, Content, FieldChanges};

/// One entry. A few pointers: copy it freely.
#[derive(Clone, Copy, Debug)]
pub struct Found<'k>(Source<'k>);

#[derive(Clone, Copy, Debug)]
enum Source<'k> {
    Kept(EntryRef<'k>),
    Changed {
        key: &'k [u8],
        changed: &'k Changed,
        /// The keyspace's entry under the same key, where it still counts.
        kept: Option<EntryRef<'k>>,
    },
}

/// A value, by its type.
#[derive(Clone, Copy, Debug)]
pub enum Value<'k> {
    /// A string; an IDEM record is one.
    String(&'k [u8]),
    /// A hash.
    Hash(Fields<'k>),
}

/// A hash, with what the transaction changed in it.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'k> {
    base: Option<&'k HashValue>,
    changes: Option<&'k FieldChanges>,
}

impl<'k> Found<'k> {
    pub(super) fn kept(entry: EntryRef<'k>) -> Self {
        Found(Source::Kept(entry))
    }

    /// `None` for a key that is gone. `kept` is the keyspace's entry under that key, if there is one.
    pub(super) fn changed(key: &'k [u8], changed: &'k Changed, kept: Option<EntryRef<'k>>) -> Option<Self> {
        match changed.content {
            Content::Gone => None,
            _ => Some(Found(Source::Changed { key, changed, kept })),
        }
    }

    /// The key.
    pub fn key(&self) -> &'k [u8] {
        match self.0 {
            Source::Kept(entry) => entry.key(),
            Source::Changed { key, .. } => key,
        }
    }

    /// When it ends.
    pub fn deadline(&self) -> Deadline {
        match self.0 {
            Source::Kept(entry) => entry.deadline(),
            Source::Changed { changed, .. } => changed.deadline,
        }
    }

    /// Its last access before this transaction, on the clock of accesses; `None` when the transaction wrote it.
    pub(super) fn touched(&self) -> Option<u32> {
        match self.0 {
            Source::Kept(entry) => Some(entry.touched()),
            Source::Changed { .. } => None,
        }
    }

    /// What it holds.
    pub fn value(&self) -> Value<'k> {
        let of_entry = |entry: EntryRef<'k>| match entry.value() {
            ValueRef::String(bytes) => Value::String(bytes),
            ValueRef::Hash(hash) => Value::Hash(Fields {
                base: Some(hash),
                changes: None,
            }),
        };
        match self.0 {
            Source::Kept(entry) => of_entry(entry),
            Source::Changed { changed, kept, .. } => match &changed.content {
                Content::String(bytes) => Value::String(bytes),
                Content::Hash(changes) => Value::Hash(Fields {
                    base: kept
                        .filter(|_| changes.is_on_base())
                        .and_then(|entry| match entry.value() {
                            ValueRef::Hash(hash) => Some(hash),
                            ValueRef::String(_) => None,
                        }),
                    changes: Some(changes),
                }),
                Content::Kept => of_entry(kept.expect("what is kept is in the keyspace")),
                Content::Gone => Value::String(&[]),
            },
        }
    }
}

impl<'k> Fields<'k> {
    /// How many fields there are.
    pub fn len(&self) -> usize {
        match self.changes {
            Some(changes) => changes.len(),
            None => self.base.map_or(0, HashValue::len),
        }
    }

    /// How many fields the transaction has named.
    pub(super) fn changed_len(&self) -> usize {
        self.changes.map_or(0, FieldChanges::changed_len)
    }

    /// The value of a field.
    pub fn get(&self, field: &[u8]) -> Option<&'k [u8]> {
        match self.changes.and_then(|changes| changes.get(field)) {
            Some(changed) => changed,
            None => self.base?.get(field),
        }
    }

    /// All fields and values, in no promised order.
    pub fn iter(&self) -> impl Iterator<Item = (&'k [u8], &'k [u8])> + use<'k> {
        let Fields { base, changes } = *self;
        let shown = move |(field, value)| match changes.and_then(|changes: &FieldChanges| changes.get(field))
        {
            Some(changed) => Some((field, changed?)),
            None => Some((field, value)),
        };
        let kept = base.into_iter().flat_map(HashValue::iter).filter_map(shown);
        kept.chain(self.added())
    }

    /// Fields from a position in hash order on, as [`HashValue::part_of`]; those that only the transaction has come with
    /// the last part.
    pub(super) fn part_of(&self, from: u64, max_fields: usize, max_bytes: usize) -> HashPart<'k> {
        let mut part = match self.base {
            Some(base) => base.part_of(from, max_fields, max_bytes),
            None => HashPart {
                fields: Vec::new(),
                next: None,
            },
        };
        if let Some(changes) = self.changes {
            part.fields.retain_mut(|(field, value)| match changes.get(field) {
                Some(Some(changed)) => {
                    *value = changed;
                    true
                }
                Some(None) => false,
                None => true,
            });
            if part.next.is_none() {
                part.fields.extend(self.added());
            }
        }
        part
    }

    /// What the transaction set and the keyspace has not.
    fn added(&self) -> impl Iterator<Item = (&'k [u8], &'k [u8])> + use<'k> {
        let Fields { base, changes } = *self;
        let is_new = move |field: &[u8]| base.is_none_or(|base| base.get(field).is_none());
        let mut set = changes.map(FieldChanges::set_fields);
        iter::from_fn(move || set.as_mut()?.find(|(field, _)| is_new(field)))
    }
}
