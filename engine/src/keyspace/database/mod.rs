//! One database: the table of its entries and the wheel of their deadlines, kept in step.

mod upkeep;

use super::arena::{Arena, Handle};
use super::entry::{Content, Entries, EntryRef};
use super::hash_value::HashValue;
use super::slab::Slab;
use super::table::{Hashed, Ordered, Table};
use super::wheel::{Moved, Wheel};

/// What a table slot holds: where the entry is, and the upper half of its key's hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    hash: u32,
    handle: Handle,
}

impl Slot {
    fn new(hash: u64, handle: Handle) -> Self {
        Self {
            hash: upper(hash),
            handle,
        }
    }
}

impl Hashed for Slot {
    /// Two keys whose hashes differ in the lower half only have one position in hash order.
    fn hash(&self) -> u64 {
        u64::from(self.hash) << 32
    }
}

fn upper(hash: u64) -> u32 {
    u32::try_from(hash >> 32).expect("half of a u64")
}

#[derive(Debug, Default)]
pub(super) struct Database {
    table: Table<Slot>,
    entries: Entries,
    wheel: Wheel,
    idem_records: u64,
}

/// What is left of a database that was condemned.
#[derive(Debug)]
pub(super) struct Remains {
    pub(super) table: Table<Slot>,
    pub(super) arena: Arena,
    pub(super) hashes: Slab<HashValue>,
    pub(super) wheel: Wheel,
}

impl Database {
    pub(super) fn len(&self) -> u64 {
        count(self.table.len())
    }

    pub(super) fn expires(&self) -> u64 {
        self.wheel.len()
    }

    pub(super) fn idem_records(&self) -> u64 {
        self.idem_records
    }

    /// See [`super::Keyspace::is_at_capacity`].
    pub(super) fn is_at_capacity(&self) -> bool {
        self.entries.is_at_capacity()
    }

    /// Bytes of what is stored, and of the tables and the index.
    pub(super) fn used_bytes(&self) -> u64 {
        count(self.entries.used_bytes() + self.table.memory_bytes() + self.wheel.memory_bytes())
    }

    /// The same with what is kept free for later entries.
    pub(super) fn held_bytes(&self) -> u64 {
        count(self.entries.held_bytes() + self.table.memory_bytes() + self.wheel.memory_bytes())
    }

    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<EntryRef<'_>> {
        self.locate(hash, key).map(|handle| self.entries.get(handle))
    }

    pub(super) fn entry(&self, slot: Slot) -> EntryRef<'_> {
        self.entries.get(slot.handle)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = EntryRef<'_>> {
        self.table.iter().map(|slot| self.entry(*slot))
    }

    pub(super) fn sample<'d>(&'d self, at: u64, visit: &mut dyn FnMut(EntryRef<'d>) -> bool) {
        self.table.sample(at, &mut |slot| visit(self.entry(*slot)));
    }

    pub(super) fn ordered(&self, from: u64) -> Ordered<'_, Slot> {
        self.table.ordered(from)
    }

    pub(super) fn into_remains(self) -> Remains {
        let (arena, hashes) = self.entries.into_parts();
        Remains {
            table: self.table,
            arena,
            hashes,
            wheel: self.wheel,
        }
    }

    /// Stores an entry and returns the hash that it replaces, if it replaces one. `time` is the record's.
    pub(super) fn put(
        &mut self,
        hash: u64,
        key: &[u8],
        deadline: u64,
        content: Content<'_>,
        time: u64,
    ) -> Option<HashValue> {
        let handle = self.entries.add(key, deadline, content);
        self.idem_records += u64::from(self.entries.get(handle).is_idem());
        let entries = &self.entries;
        let Some(slot) = self.table.find_mut(hash, holds_key(entries, hash, key)) else {
            self.table.insert(Slot::new(hash, handle));
            self.link(handle, deadline, time);
            return None;
        };
        let old_handle = std::mem::replace(&mut slot.handle, handle);
        let old = entries.get(old_handle);
        let (old_deadline, old_place) = (old.deadline_ms(), old.place());
        self.idem_records -= u64::from(old.is_idem());
        // The usual case, a completion: same deadline, so the same place.
        if old_deadline == deadline {
            if deadline != 0 {
                self.wheel.replace(deadline, old_place, handle);
                self.entries.set_place(handle, old_place);
            }
        } else {
            if old_deadline != 0 {
                let moved = self.wheel.remove(old_deadline, old_place);
                self.follow(moved);
            }
            self.link(handle, deadline, time);
        }
        self.entries.remove(old_handle)
    }

    /// Removes an entry; the hash that it held, if it held one.
    pub(super) fn remove(&mut self, hash: u64, key: &[u8]) -> Option<HashValue> {
        let slot = self.table.remove(hash, holds_key(&self.entries, hash, key))?;
        self.take_out(slot.handle)
    }

    /// Gives an entry that exists another deadline (0 = none).
    pub(super) fn set_deadline(&mut self, hash: u64, key: &[u8], deadline: u64, time: u64) {
        let Some(handle) = self.locate(hash, key) else {
            return;
        };
        let entry = self.entries.get(handle);
        let (old_deadline, old_place) = (entry.deadline_ms(), entry.place());
        if old_deadline == deadline {
            return;
        }
        if old_deadline != 0 {
            let moved = self.wheel.remove(old_deadline, old_place);
            self.follow(moved);
        }
        self.entries.set_deadline(handle, deadline);
        self.link(handle, deadline, time);
    }

    /// Changes the fields of a hash that exists, and keeps count of its memory.
    pub(super) fn change_hash<R>(
        &mut self,
        hash: u64,
        key: &[u8],
        change: impl FnOnce(&mut HashValue) -> R,
    ) -> Option<R> {
        let handle = self.locate(hash, key)?;
        self.entries.change_hash(handle, change)
    }

    /// Notes a moment of use; nothing else changes.
    pub(super) fn touch(&mut self, hash: u64, key: &[u8], clock: u32) {
        if let Some(handle) = self.locate(hash, key) {
            self.entries.set_touched(handle, clock);
        }
    }

    fn locate(&self, hash: u64, key: &[u8]) -> Option<Handle> {
        let slot = self.table.find(hash, holds_key(&self.entries, hash, key))?;
        Some(slot.handle)
    }

    /// Frees an entry that has left the table.
    fn take_out(&mut self, handle: Handle) -> Option<HashValue> {
        let entry = self.entries.get(handle);
        let (deadline, place) = (entry.deadline_ms(), entry.place());
        self.idem_records -= u64::from(entry.is_idem());
        if deadline != 0 {
            let moved = self.wheel.remove(deadline, place);
            self.follow(moved);
        }
        self.entries.remove(handle)
    }

    fn link(&mut self, handle: Handle, deadline: u64, time: u64) {
        if deadline != 0 {
            let place = self.wheel.insert(handle, deadline, time);
            self.entries.set_place(handle, place);
        }
    }

    /// Tells an entry that it has moved inside its slot.
    fn follow(&mut self, moved: Option<Moved>) {
        if let Some(Moved { handle, slot, to }) = moved {
            self.entries.set_place(handle, slot.place(to));
        }
    }

    /// Walks everything: each wheel place has its entry and each entry with a deadline its place.
    #[cfg(test)]
    pub(super) fn check(&self) {
        use std::collections::HashSet;

        self.table.check();
        let handles: HashSet<Handle> = self.table.iter().map(|slot| slot.handle).collect();
        assert_eq!(handles.len(), self.table.len());
        let places = self.wheel.walk();
        for (slot, index, handle) in &places {
            assert!(handles.contains(handle), "{slot:?} {index} is stale");
            let entry = self.entries.get(*handle);
            assert!(
                slot.holds(*index, entry.deadline_ms(), entry.place()),
                "{slot:?} {index} is another's"
            );
        }
        let with_deadline = self.iter().filter(|entry| entry.deadline_ms() != 0).count();
        assert_eq!(places.len(), with_deadline);
        assert_eq!(self.wheel.len(), count(with_deadline));
        self.entries.check(&handles);
        assert_eq!(
            self.idem_records,
            count(self.iter().filter(EntryRef::is_idem).count())
        );
    }

    #[cfg(test)]
    pub(super) fn wheel(&self) -> &Wheel {
        &self.wheel
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &Table<Slot> {
        &self.table
    }
}

/// Is it the slot of this key? Looks into the entry only when the hashes agree.
fn holds_key<'a>(entries: &'a Entries, hash: u64, key: &'a [u8]) -> impl Fn(&Slot) -> bool + 'a {
    move |slot| slot.hash == upper(hash) && entries.get(slot.handle).key() == key
}

fn count(n: usize) -> u64 {
    u64::try_from(n).expect("what is in memory can be counted in 64 bits")
}
