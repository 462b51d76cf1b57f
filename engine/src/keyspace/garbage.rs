//! What a flush or a removed large hash left, freed a little at a time.
//!
//! Giving back the memory of ten million entries takes long. A flush only sets the database aside; each later record frees
//! a few pieces of it, more than it can add, and [`super::Keyspace::maintain`] frees the rest when there is time.

use hashbrown::hash_table;

use super::database::{Database, Remains};
use super::hash_value::{Field, HashValue};
use super::table::Table;

/// Pieces freed by each record that is applied.
pub(super) const FREED_PER_RECORD: usize = 16;
/// What a page, or a partition's table, counts for: giving 256 KiB back takes some microseconds.
const PIECES_PER_PAGE: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Garbage {
    databases: Vec<Remains>,
    fields: Pile,
    /// What the condemned took when it was condemned; back to 0 when all of it is freed.
    bytes: u64,
}

/// Fields of large hashes.
#[derive(Debug, Default)]
struct Pile {
    tables: Vec<Table<Field>>,
    current: Option<hash_table::IntoIter<Field>>,
}

impl Pile {
    fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.current.is_none()
    }

    fn next(&mut self) -> Option<Field> {
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
        self.databases.is_empty() && self.fields.is_empty()
    }

    /// An upper bound of what waits to be freed.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A whole database.
    pub(super) fn condemn_database(&mut self, database: Database) {
        self.bytes += database.held_bytes();
        self.databases.push(database.into_remains());
    }

    /// The hash of an entry that was freed: freed at once unless it is large.
    pub(super) fn discard(&mut self, value: Option<HashValue>) {
        if let Some(value) = value
            && value.is_large()
        {
            self.bytes +=
                u64::try_from(value.heap_bytes()).expect("what is in memory can be counted in 64 bits");
            self.fields.tables.extend(value.into_large());
        }
    }

    /// Frees `budget` pieces: fields, hashes, pages.
    pub(super) fn free(&mut self, mut budget: usize) {
        if self.is_empty() {
            return;
        }
        while budget > 0 {
            if let Some(remains) = self.databases.last_mut() {
                if remains.free(&mut budget, &mut self.fields) {
                    self.databases.pop();
                }
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

impl Remains {
    /// Frees within the budget; true when nothing is left. The fields of large hashes go to the pile.
    fn free(&mut self, budget: &mut usize, fields: &mut Pile) -> bool {
        while *budget > 0 {
            let pages = &mut 1;
            if let Some(value) = self.hashes.pop() {
                fields.tables.extend(value.into_large());
                *budget -= 1;
            } else if !self.arena.discard(pages) || self.table.pop_partition().is_some() {
                *budget = budget.saturating_sub(PIECES_PER_PAGE);
            } else if self.wheel.discard(budget) {
                return true;
            }
        }
        false
    }
}
