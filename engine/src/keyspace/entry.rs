//! Entries: a key with its value and its deadline, in one cell of the arena.
//!
//! A cell is `deadline 8 | place in the wheel 4 | last access 4 | key length 4 | value length 4 | flags 1 | key | value`.
//! Where the value is a hash, the value's length is the number under which the database keeps it. A record of IDEM with a
//! key of 20 bytes, a fingerprint of 64 and an owner of 32 is a cell of 152 bytes; beside it a pending operation costs 8
//! bytes and a tag in the table and 4 in the wheel.

use idem_protocol::Deadline;
use idem_protocol::idem::IdemRecord;

use super::arena::{Arena, Evacuation, Handle};
use super::hash_value::HashValue;
use super::slab::Slab;
use super::wheel::Place;

const DEADLINE_AT: usize = 0;
const INDEX_AT: usize = 8;
const TOUCHED_AT: usize = 12;
const KEY_BYTES_AT: usize = 16;
const VALUE_BYTES_AT: usize = 20;
const FLAGS_AT: usize = 24;
const HEADER_BYTES: usize = 25;

/// Flag: the value is a well-formed stored IDEM record.
const FLAG_IDEM: u8 = 1;
/// Flag: the value is a hash.
const FLAG_HASH: u8 = 2;
/// Flag: the cell holds an entry. Whoever moves the cells of a page finds out by it which are in use.
const FLAG_ENTRY: u8 = 4;
/// The wheel's level stands in the flags' upper half.
const LEVEL_SHIFT: u32 = 4;

/// What is to be stored under a key.
pub(super) enum Content<'a> {
    /// A string; whether it is an IDEM record is found out.
    String(&'a [u8]),
    /// An IDEM record, packed as the string that it is.
    Idem(&'a IdemRecord<'a>),
    Hash(HashValue),
}

/// All entries of a database, each known by its handle.
#[derive(Debug, Default)]
pub(super) struct Entries {
    arena: Arena,
    hashes: Slab<HashValue>,
    /// Bytes behind the hashes, without their places in the slab.
    hash_bytes: usize,
    /// The page that is being emptied.
    evacuation: Option<Evacuation>,
}

/// What a step of moving entries together did.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moving {
    /// No entry moved; there may be more to do.
    Nothing,
    /// An entry has another handle.
    Entry { from: Handle, to: Handle },
}

impl Entries {
    /// Stores an entry that stands in no wheel yet.
    pub(super) fn add(&mut self, key: &[u8], deadline: u64, content: Content<'_>) -> Handle {
        let (flags, value_bytes, stored_bytes) = match &content {
            Content::String(value) if IdemRecord::decode_stored(value).is_ok() => {
                (FLAG_IDEM, value.len(), value.len())
            }
            Content::String(value) => (0, value.len(), value.len()),
            Content::Idem(record) => (FLAG_IDEM, record.encoded_len(), record.encoded_len()),
            Content::Hash(_) => (FLAG_HASH, 0, 0),
        };
        let handle = self.arena.add(HEADER_BYTES + key.len() + stored_bytes);
        let value_number = match content {
            Content::String(_) | Content::Idem(_) => length(value_bytes),
            Content::Hash(_) => 0,
        };
        let cell = self.arena.get_mut(handle);
        put_u64(cell, DEADLINE_AT, deadline);
        put_u32(cell, INDEX_AT, Place::NOWHERE.index);
        put_u32(cell, TOUCHED_AT, 0);
        put_u32(cell, KEY_BYTES_AT, length(key.len()));
        put_u32(cell, VALUE_BYTES_AT, value_number);
        cell[FLAGS_AT] = FLAG_ENTRY | flags | (Place::NOWHERE.level << LEVEL_SHIFT);
        let value_at = HEADER_BYTES + key.len();
        cell[HEADER_BYTES..value_at].copy_from_slice(key);
        match content {
            Content::String(value) => cell[value_at..value_at + value_bytes].copy_from_slice(value),
            Content::Idem(record) => record.encode_into(&mut cell[value_at..value_at + value_bytes]),
            Content::Hash(value) => {
                self.hash_bytes += value.heap_bytes();
                let number = self.hashes.add(value);
                put_u32(self.arena.get_mut(handle), VALUE_BYTES_AT, number);
            }
        }
        handle
    }

    /// Frees an entry that stands in no wheel any more; answers its hash, which may be large.
    pub(super) fn remove(&mut self, handle: Handle) -> Option<HashValue> {
        let cell = self.arena.get(handle);
        let value = if cell[FLAGS_AT] & FLAG_HASH == 0 {
            None
        } else {
            let value = self.hashes.remove(read_u32(cell, VALUE_BYTES_AT));
            self.hash_bytes -= value.heap_bytes();
            Some(value)
        };
        self.free(handle);
        value
    }

    fn free(&mut self, handle: Handle) {
        self.arena.get_mut(handle)[FLAGS_AT] = 0;
        self.arena.remove(handle);
    }

    /// The next entry that has to move so that a page can go back, with what it is in now and what it has become; none when
    /// no page is worth it. Whoever calls puts the new handle where the old one was.
    pub(super) fn move_one(&mut self) -> Option<Moving> {
        let Some(evacuation) = &mut self.evacuation else {
            if self.arena.release_spare() {
                return Some(Moving::Nothing);
            }
            self.evacuation = Some(self.arena.begin_evacuation()?);
            return Some(Moving::Nothing);
        };
        let Some(from) = self.arena.next_to_move(evacuation) else {
            self.evacuation = None;
            return Some(Moving::Nothing);
        };
        if self.arena.get(from)[FLAGS_AT] & FLAG_ENTRY == 0 {
            return Some(Moving::Nothing);
        }
        let bytes = self.arena.get(from).to_vec();
        let to = self.arena.add(bytes.len());
        self.arena.get_mut(to).copy_from_slice(&bytes);
        self.free(from);
        Some(Moving::Entry { from, to })
    }

    pub(super) fn get(&self, handle: Handle) -> EntryRef<'_> {
        EntryRef {
            cell: self.arena.get(handle),
            hashes: &self.hashes,
        }
    }

    pub(super) fn set_deadline(&mut self, handle: Handle, deadline: u64) {
        put_u64(self.arena.get_mut(handle), DEADLINE_AT, deadline);
    }

    pub(super) fn set_place(&mut self, handle: Handle, place: Place) {
        let cell = self.arena.get_mut(handle);
        put_u32(cell, INDEX_AT, place.index);
        cell[FLAGS_AT] = (cell[FLAGS_AT] & 0x0f) | (place.level << LEVEL_SHIFT);
    }

    pub(super) fn set_touched(&mut self, handle: Handle, clock: u32) {
        put_u32(self.arena.get_mut(handle), TOUCHED_AT, clock);
    }

    /// Changes the fields of a hash and keeps count of its memory; `None` when the entry is none.
    pub(super) fn change_hash<R>(
        &mut self,
        handle: Handle,
        change: impl FnOnce(&mut HashValue) -> R,
    ) -> Option<R> {
        let cell = self.arena.get(handle);
        if cell[FLAGS_AT] & FLAG_HASH == 0 {
            return None;
        }
        let value = self.hashes.get_mut(read_u32(cell, VALUE_BYTES_AT));
        let before = value.heap_bytes();
        let result = change(value);
        self.hash_bytes = self.hash_bytes + value.heap_bytes() - before;
        Some(result)
    }

    /// See [`Arena::is_at_capacity`].
    pub(super) fn is_at_capacity(&self) -> bool {
        self.arena.is_at_capacity()
    }

    /// Bytes of everything stored.
    pub(super) fn used_bytes(&self) -> usize {
        self.arena.used_bytes() + self.hashes.memory_bytes() + self.hash_bytes
    }

    /// The same with what is kept free for later entries.
    pub(super) fn held_bytes(&self) -> usize {
        self.arena.held_bytes() + self.hashes.memory_bytes() + self.hash_bytes
    }

    /// Every entry's memory is counted, and nothing else's.
    #[cfg(test)]
    pub(super) fn check(&self, handles: &std::collections::HashSet<Handle>) {
        self.arena.check(handles);
        let hashes = handles
            .iter()
            .filter_map(|handle| match self.get(*handle).value() {
                ValueRef::Hash(value) => Some(value.heap_bytes()),
                ValueRef::String(_) => None,
            });
        assert_eq!(hashes.sum::<usize>(), self.hash_bytes);
    }

    pub(super) fn into_parts(self) -> (Arena, Slab<HashValue>) {
        (self.arena, self.hashes)
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a key or value fits one record, which is at most 512 MiB")
}

fn read_u64(cell: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(*cell[at..].first_chunk().expect("a cell has its whole header"))
}

fn read_u32(cell: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(*cell[at..].first_chunk().expect("a cell has its whole header"))
}

fn put_u64(cell: &mut [u8], at: usize, value: u64) {
    cell[at..at + 8].copy_from_slice(&value.to_ne_bytes());
}

fn put_u32(cell: &mut [u8], at: usize, value: u32) {
    cell[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

/// An entry as readers see it. It may have ended: compare [`EntryRef::deadline`] with your `now`.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'a> {
    cell: &'a [u8],
    hashes: &'a Slab<HashValue>,
}

/// The value of an entry.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    /// The bytes of a string (an IDEM record is one, too).
    String(&'a [u8]),
    /// Fields and their values; never empty.
    Hash(&'a HashValue),
}

impl<'a> EntryRef<'a> {
    /// The key.
    pub fn key(&self) -> &'a [u8] {
        &self.cell[HEADER_BYTES..self.value_at()]
    }

    /// The deadline in Unix ms, or none.
    pub fn deadline(&self) -> Deadline {
        Deadline::at(self.deadline_ms())
    }

    /// The value, borrowed.
    pub fn value(&self) -> ValueRef<'a> {
        let number = read_u32(self.cell, VALUE_BYTES_AT);
        if self.cell[FLAGS_AT] & FLAG_HASH != 0 {
            return ValueRef::Hash(self.hashes.get(number));
        }
        let at = self.value_at();
        ValueRef::String(&self.cell[at..at + number as usize])
    }

    /// Is it a string that is a well-formed stored IDEM record? Costs nothing: it was found out when it was written.
    pub fn is_idem(&self) -> bool {
        self.cell[FLAGS_AT] & FLAG_IDEM != 0
    }

    /// The clock that [`super::Keyspace::touch`] was given last; 0 before the first time. No record carries it.
    pub fn touched(&self) -> u32 {
        read_u32(self.cell, TOUCHED_AT)
    }

    /// Unix ms, 0 = none.
    pub(super) fn deadline_ms(&self) -> u64 {
        read_u64(self.cell, DEADLINE_AT)
    }

    /// Where the entry stands in its database's wheel; means nothing without a deadline.
    pub(super) fn place(&self) -> Place {
        Place {
            level: self.cell[FLAGS_AT] >> LEVEL_SHIFT,
            index: read_u32(self.cell, INDEX_AT),
        }
    }

    pub(super) fn is_hash(&self) -> bool {
        self.cell[FLAGS_AT] & FLAG_HASH != 0
    }

    fn value_at(&self) -> usize {
        HEADER_BYTES + read_u32(self.cell, KEY_BYTES_AT) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the memory of a large keyspace is made of.
    #[test]
    fn a_pending_record_is_compact() {
        let mut entries = Entries::default();
        let before = entries.used_bytes();
        entries.add(&[b'k'; 20], 5, Content::String(&[b'v'; 107]));
        let books = 4096;
        assert!(entries.used_bytes() - before <= 152 + books);
        assert_eq!(entries.get(entries.arena_first()).cell.len(), 152);
    }

    impl Entries {
        /// The first cell of the first page.
        fn arena_first(&self) -> Handle {
            Handle::from_bits(0)
        }
    }

    #[test]
    fn what_was_packed_is_read_back() {
        for (key, value) in [
            (&b""[..], &b""[..]),
            (b"k", b""),
            (b"", b"v"),
            (b"key", b"value"),
            (&[0xff; 300], &[7; 70000]),
        ] {
            let mut entries = Entries::default();
            let handle = entries.add(key, 77, Content::String(value));
            let place = Place {
                level: 6,
                index: 0xdead_beef,
            };
            entries.set_place(handle, place);
            entries.set_deadline(handle, u64::MAX);
            entries.set_touched(handle, 0x1234_5678);
            let entry = entries.get(handle);
            assert_eq!(entry.place(), place);
            assert_eq!(entry.deadline_ms(), u64::MAX);
            assert_eq!(entry.touched(), 0x1234_5678);
            assert_eq!(entry.key(), key);
            assert!(!entry.is_idem() && !entry.is_hash());
            let ValueRef::String(read) = entry.value() else {
                panic!("a string")
            };
            assert_eq!(read, value);
            assert!(entries.remove(handle).is_none());
        }
    }
}
