//! One entry: a packed string in one allocation, or a boxed hash.
//!
//! A packed string is `hash 8 | deadline 8 | place in the wheel 4 | key length 4 | flags 1 | key | value`. The value's
//! length follows from the allocation's. A record of IDEM with a 20-byte key and a value of 107 bytes takes 152 bytes and
//! 16 in its table; with a fingerprint of 64 and an owner of 32 bytes that is all that a pending operation costs, apart
//! from 8 in the wheel.

use std::mem::size_of;

use idem_protocol::Deadline;
use idem_protocol::idem::IdemRecord;

use super::hash_value::HashValue;
use super::table::Hashed;
use super::wheel::Place;

const HASH_AT: usize = 0;
const DEADLINE_AT: usize = 8;
const INDEX_AT: usize = 16;
const KEY_BYTES_AT: usize = 20;
const FLAGS_AT: usize = 24;
const HEADER_BYTES: usize = 25;

/// Flag: the value is a well-formed stored IDEM record.
const FLAG_IDEM: u8 = 1;
/// The wheel's level stands in the flags' upper half.
const LEVEL_SHIFT: u32 = 4;

/// What a table slot holds: 16 bytes, the discriminant in the pointer's niche.
#[derive(Debug)]
pub(super) enum Entry {
    Packed(Box<[u8]>),
    Hash(Box<HashEntry>),
}

/// A hash with its key.
#[derive(Debug)]
pub(super) struct HashEntry {
    hash: u64,
    deadline: u64,
    place: Place,
    key: Box<[u8]>,
    pub(super) value: HashValue,
}

impl Entry {
    /// A string; finds out by itself whether it is an IDEM record.
    pub(super) fn string(hash: u64, key: &[u8], deadline: Deadline, value: &[u8]) -> Self {
        let flags = if IdemRecord::decode_stored(value).is_ok() {
            FLAG_IDEM
        } else {
            0
        };
        Self::pack(hash, key, deadline, flags, value.len(), |out| {
            out.extend_from_slice(value)
        })
    }

    /// An IDEM record, packed as the string that it is.
    pub(super) fn idem(hash: u64, key: &[u8], deadline: Deadline, record: &IdemRecord<'_>) -> Self {
        Self::pack(hash, key, deadline, FLAG_IDEM, record.encoded_len(), |out| {
            record.encode(out)
        })
    }

    pub(super) fn hash(hash: u64, key: &[u8], deadline: Deadline, value: HashValue) -> Self {
        Self::Hash(Box::new(HashEntry {
            hash,
            deadline: deadline.get(),
            place: Place::NOWHERE,
            key: key.into(),
            value,
        }))
    }

    fn pack(
        hash: u64,
        key: &[u8],
        deadline: Deadline,
        flags: u8,
        value_bytes: usize,
        value: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let key_bytes = u32::try_from(key.len()).expect("a key fits one record, which is at most 512 MiB");
        // Exactly as large as needed: `into_boxed_slice` then hands the same allocation on.
        let mut bytes = Vec::with_capacity(HEADER_BYTES + key.len() + value_bytes);
        bytes.extend_from_slice(&hash.to_ne_bytes());
        bytes.extend_from_slice(&deadline.get().to_ne_bytes());
        bytes.extend_from_slice(&Place::NOWHERE.index.to_ne_bytes());
        bytes.extend_from_slice(&key_bytes.to_ne_bytes());
        bytes.push(flags | (Place::NOWHERE.level << LEVEL_SHIFT));
        bytes.extend_from_slice(key);
        value(&mut bytes);
        debug_assert_eq!(bytes.len(), bytes.capacity(), "the value is as long as was said");
        Self::Packed(bytes.into_boxed_slice())
    }

    pub(super) fn key(&self) -> &[u8] {
        match self {
            Self::Packed(bytes) => &bytes[HEADER_BYTES..packed_value_at(bytes)],
            Self::Hash(entry) => &entry.key,
        }
    }

    /// Unix ms, 0 = none.
    pub(super) fn deadline(&self) -> u64 {
        match self {
            Self::Packed(bytes) => read_u64(bytes, DEADLINE_AT),
            Self::Hash(entry) => entry.deadline,
        }
    }

    pub(super) fn set_deadline(&mut self, deadline: u64) {
        match self {
            Self::Packed(bytes) => {
                bytes[DEADLINE_AT..DEADLINE_AT + 8].copy_from_slice(&deadline.to_ne_bytes())
            }
            Self::Hash(entry) => entry.deadline = deadline,
        }
    }

    /// Where the entry stands in its database's wheel; means nothing without a deadline.
    pub(super) fn place(&self) -> Place {
        match self {
            Self::Packed(bytes) => Place {
                level: bytes[FLAGS_AT] >> LEVEL_SHIFT,
                index: read_u32(bytes, INDEX_AT),
            },
            Self::Hash(entry) => entry.place,
        }
    }

    pub(super) fn set_place(&mut self, place: Place) {
        match self {
            Self::Packed(bytes) => {
                bytes[INDEX_AT..INDEX_AT + 4].copy_from_slice(&place.index.to_ne_bytes());
                bytes[FLAGS_AT] = (bytes[FLAGS_AT] & 0x0f) | (place.level << LEVEL_SHIFT);
            }
            Self::Hash(entry) => entry.place = place,
        }
    }

    pub(super) fn is_idem(&self) -> bool {
        match self {
            Self::Packed(bytes) => bytes[FLAGS_AT] & FLAG_IDEM != 0,
            Self::Hash(_) => false,
        }
    }

    pub(super) fn hash_value(&self) -> Option<&HashValue> {
        match self {
            Self::Packed(_) => None,
            Self::Hash(entry) => Some(&entry.value),
        }
    }

    pub(super) fn hash_value_mut(&mut self) -> Option<&mut HashValue> {
        match self {
            Self::Packed(_) => None,
            Self::Hash(entry) => Some(&mut entry.value),
        }
    }

    /// Bytes allocated for this entry beside its table slot.
    pub(super) fn memory_bytes(&self) -> u64 {
        let bytes = match self {
            Self::Packed(bytes) => bytes.len(),
            Self::Hash(entry) => size_of::<HashEntry>() + entry.key.len() + entry.value.heap_bytes(),
        };
        u64::try_from(bytes).expect("what is in memory can be counted in 64 bits")
    }
}

impl Hashed for Entry {
    fn hash(&self) -> u64 {
        match self {
            Self::Packed(bytes) => read_u64(bytes, HASH_AT),
            Self::Hash(entry) => entry.hash,
        }
    }
}

fn packed_value_at(bytes: &[u8]) -> usize {
    HEADER_BYTES + read_u32(bytes, KEY_BYTES_AT) as usize
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(
        *bytes[at..]
            .first_chunk()
            .expect("a packed entry has its whole header"),
    )
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(
        *bytes[at..]
            .first_chunk()
            .expect("a packed entry has its whole header"),
    )
}

/// An entry as readers see it. It may have ended: compare [`EntryRef::deadline`] with your `now`.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'a>(&'a Entry);

/// The value of an entry.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    /// The bytes of a string (an IDEM record is one, too).
    String(&'a [u8]),
    /// Fields and their values; never empty.
    Hash(&'a HashValue),
}

impl<'a> EntryRef<'a> {
    pub(super) fn new(entry: &'a Entry) -> Self {
        Self(entry)
    }

    /// The key.
    pub fn key(&self) -> &'a [u8] {
        self.0.key()
    }

    /// The deadline in Unix ms, or none.
    pub fn deadline(&self) -> Deadline {
        Deadline::at(self.0.deadline())
    }

    /// The value, borrowed.
    pub fn value(&self) -> ValueRef<'a> {
        match self.0 {
            Entry::Packed(bytes) => ValueRef::String(&bytes[packed_value_at(bytes)..]),
            Entry::Hash(entry) => ValueRef::Hash(&entry.value),
        }
    }

    /// Is it a string that is a well-formed stored IDEM record? Costs nothing: it was found out when it was written.
    pub fn is_idem(&self) -> bool {
        self.0.is_idem()
    }

    /// The keyed hash of the key ([`super::Keyspace::key_hash`]), without computing it.
    pub fn key_hash(&self) -> u64 {
        self.0.hash()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the memory of a large keyspace is made of.
    #[test]
    fn entries_are_compact() {
        assert!(size_of::<Entry>() <= 16, "a table slot");
        let entry = Entry::string(1, &[b'k'; 20], Deadline::at(5), &[b'v'; 107]);
        assert!(
            entry.memory_bytes() <= 160,
            "a pending record: {}",
            entry.memory_bytes()
        );
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
            let mut entry = Entry::string(0x0123_4567_89ab_cdef, key, Deadline::at(77), value);
            let place = Place {
                level: 6,
                index: 0xdead_beef,
            };
            entry.set_place(place);
            assert_eq!(entry.place(), place);
            entry.set_deadline(u64::MAX);
            assert_eq!(entry.deadline(), u64::MAX);
            assert_eq!(Hashed::hash(&entry), 0x0123_4567_89ab_cdef);
            assert_eq!(entry.key(), key);
            assert!(!entry.is_idem());
            let ValueRef::String(read) = EntryRef::new(&entry).value() else {
                panic!("a string")
            };
            assert_eq!(read, value);
        }
    }
}
