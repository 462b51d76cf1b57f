//! What a flush or a removed large hash left, freed a little at a time.
//!
//! Freeing ten million entries takes seconds. A flush only sets the database aside; each later record frees a few entries
//! of it, more than the one it can add, and [`super::Keyspace::maintain`] frees the rest when there is time.

use hashbrown::hash_table;

use super::database::Database;
use super::entry::Entry;
use super::hash_value::{Field, HashValue};
use super::table::{Hashed, Table};
use super::wheel::Wheel;

/// Entries freed by each record that is applied.
pub(super) const FREED_PER_RECORD: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Garbage {
    entries: Pile<Entry>,
    fields: Pile<Field>,
    wheels: Vec<Wheel>,
    /// What the condemned took when it was condemned; back to 0 when all of it is freed.
    bytes: u64,
}

#[derive(Debug)]
struct Pile<T> {
    tables: Vec<Table<T>>,
    current: Option<hash_table::IntoIter<T>>,
}

impl<T> Default for Pile<T> {
    fn default() -> Self {
        Self {
            tables: Vec::new(),
            current: None,
        }
    }
}

impl<T: Hashed> Pile<T> {
    fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.current.is_none()
    }

    fn next(&mut self) -> Option<T> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(value) = current.next() {
                    return Some(value);
                }
                self.current = None;
            }
            self.current = self.tables.last_mut()?.pop_partition();
            if self.current.is_none() {
                self.tables.pop();
            }
        }
    }
}

impl Garbage {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.fields.is_empty() && self.wheels.is_empty()
    }

    /// An upper bound of what waits to be freed.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A whole database.
    pub(super) fn condemn_database(&mut self, database: Database) {
        self.bytes += database.memory_bytes();
        let (table, wheel) = database.into_parts();
        self.entries.tables.push(table);
        self.wheels.push(wheel);
    }

    /// One entry: freed at once unless it is a large hash.
    pub(super) fn discard(&mut self, entry: Entry) {
        let large = entry.hash_value().is_some_and(HashValue::is_large);
        if large {
            self.bytes += entry.memory_bytes();
        }
        self.discard_counted(entry);
    }

    fn discard_counted(&mut self, entry: Entry) {
        if let Entry::Hash(entry) = entry {
            self.fields.tables.extend(entry.value.into_large());
        }
    }

    /// Frees `budget` entries, fields or hashes in wheels.
    pub(super) fn free(&mut self, mut budget: usize) {
        if self.is_empty() {
            return;
        }
        while budget > 0 {
            if let Some(wheel) = self.wheels.last_mut() {
                if wheel.discard(&mut budget) {
                    self.wheels.pop();
                }
            } else if let Some(entry) = self.entries.next() {
                self.discard_counted(entry);
                budget -= 1;
            } else if self.fields.next().is_some() {
                budget -= 1;
            } else {
                break;
            }
        }
        if self.is_empty() {
            self.bytes = 0;
        }
    }
}
