//! The fields of one hash that a transaction changed.

use std::collections::BTreeMap;

use crate::keyspace::HashValue;

/// What was set and removed, over the keyspace's hash or over nothing.
#[derive(Debug)]
pub(crate) struct FieldChanges {
    /// Whether the keyspace's fields show through where nothing was changed.
    on_base: bool,
    /// A field's new value; `None` for one that the keyspace has and that was removed.
    fields: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    /// How many fields there are, the keyspace's included.
    length: usize,
}

impl FieldChanges {
    /// A hash that begins with no field.
    pub(crate) fn new_hash() -> Self {
        FieldChanges {
            on_base: false,
            fields: BTreeMap::new(),
            length: 0,
        }
    }

    /// No changes of `base` yet.
    pub(crate) fn of(base: &HashValue) -> Self {
        FieldChanges {
            on_base: true,
            fields: BTreeMap::new(),
            length: base.len(),
        }
    }

    /// Whether the keyspace's fields count.
    pub(crate) fn is_on_base(&self) -> bool {
        self.on_base
    }

    /// How many fields there are.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// How many fields were set or removed.
    pub(crate) fn changed_len(&self) -> usize {
        self.fields.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// What became of a field: `None` when nothing did, `Some(None)` when it was removed.
    pub(crate) fn get(&self, field: &[u8]) -> Option<Option<&[u8]>> {
        self.fields.get(field).map(|value| value.as_deref())
    }

    /// Fields that were set, with their values.
    pub(crate) fn set_fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields
            .iter()
            .filter_map(|(field, value)| Some((&**field, value.as_deref()?)))
    }

    /// `base` is the keyspace's hash under this key, if it has one: the same in every call.
    pub(super) fn set(&mut self, base: Option<&HashValue>, field: &[u8], value: &[u8]) {
        if !self.has(base, field) {
            self.length += 1;
        }
        match self.fields.get_mut(field) {
            Some(known) => *known = Some(value.into()),
            None => {
                self.fields.insert(field.into(), Some(value.into()));
            }
        }
    }

    pub(super) fn remove(&mut self, base: Option<&HashValue>, field: &[u8]) {
        if !self.has(base, field) {
            return;
        }
        self.length -= 1;
        if self.base_has(base, field) {
            self.fields.insert(field.into(), None);
        } else {
            self.fields.remove(field);
        }
    }

    fn has(&self, base: Option<&HashValue>, field: &[u8]) -> bool {
        match self.get(field) {
            Some(value) => value.is_some(),
            None => self.base_has(base, field),
        }
    }

    fn base_has(&self, base: Option<&HashValue>, field: &[u8]) -> bool {
        self.on_base && base.is_some_and(|base| base.get(field).is_some())
    }
}
