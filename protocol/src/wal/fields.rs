//! The repeated parts of record bodies: borrowed from a command's arguments on the way in, from the log's bytes on the
//! way out, with one iterator for both.
//!
//! The encoded form is walked once when a body is decoded; iterating later cannot fail.

use crate::cursor::{Cursor, put_string};
use crate::wal::RECORD_BYTES_MAX;
use crate::wal::record::BodyError;
use crate::{Member, NodeId};

/// A field of a hash with its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// Fields and values of a hash.
#[derive(Clone, Copy, Debug)]
pub enum Pairs<'a> {
    /// From a command.
    Slice(&'a [Pair<'a>]),
    /// From a body: `count` pairs of strings, checked.
    Encoded {
        /// How many pairs.
        count: u32,
        /// The bytes after the count.
        bytes: &'a [u8],
    },
}

/// Fields of a hash.
#[derive(Clone, Copy, Debug)]
pub enum Strings<'a> {
    /// From a command.
    Slice(&'a [&'a [u8]]),
    /// From a body: `count` strings, checked.
    Encoded {
        /// How many strings.
        count: u32,
        /// The bytes after the count.
        bytes: &'a [u8],
    },
}

/// The list of members.
#[derive(Clone, Copy, Debug)]
pub enum MemberList<'a> {
    /// From the node's own list.
    Slice(&'a [Member]),
    /// From a body: `count` members, checked.
    Encoded {
        /// How many members.
        count: u32,
        /// The bytes after the count.
        bytes: &'a [u8],
    },
}

pub(super) const CHECKED: &str = "the body was walked when it was decoded";

fn string_len(bytes: &[u8]) -> u64 {
    4 + bytes.len() as u64
}

pub(super) fn count_u32(count: usize) -> u32 {
    u32::try_from(count).expect("a command has fewer than 2^32 arguments")
}

fn strings(bytes: &[u8], count: u32) -> impl Iterator<Item = &[u8]> {
    let mut cursor = Cursor::new(bytes);
    (0..count).map(move |_| cursor.string().expect(CHECKED))
}

impl<'a> Pairs<'a> {
    /// How many pairs.
    pub const fn len(&self) -> usize {
        match self {
            Pairs::Slice(pairs) => pairs.len(),
            Pairs::Encoded { count, .. } => *count as usize,
        }
    }

    /// True for none, which no valid record has.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Field and value, in order.
    pub fn iter(&self) -> impl Iterator<Item = Pair<'a>> + use<'a> {
        let (slice, count, bytes): (&'a [Pair<'a>], u32, &'a [u8]) = match *self {
            Pairs::Slice(pairs) => (pairs, 0, &[]),
            Pairs::Encoded { count, bytes } => (&[], count, bytes),
        };
        let mut cursor = Cursor::new(bytes);
        let encoded =
            (0..count).map(move |_| (cursor.string().expect(CHECKED), cursor.string().expect(CHECKED)));
        slice.iter().copied().chain(encoded)
    }

    pub(crate) fn body_len(&self) -> u64 {
        4 + match *self {
            Pairs::Slice(pairs) => pairs
                .iter()
                .map(|(field, value)| string_len(field) + string_len(value))
                .sum(),
            Pairs::Encoded { bytes, .. } => bytes.len() as u64,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&count_u32(self.len()).to_le_bytes());
        for (field, value) in self.iter() {
            put_string(out, field);
            put_string(out, value);
        }
    }

    /// Takes everything that is left in `cursor`.
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, BodyError> {
        let count = nonzero_count(cursor)?;
        let bytes = cursor.rest();
        walk(bytes, u64::from(count) * 2)?;
        Ok(Pairs::Encoded { count, bytes })
    }
}

impl<'a> From<&'a [Pair<'a>]> for Pairs<'a> {
    fn from(pairs: &'a [Pair<'a>]) -> Self {
        Pairs::Slice(pairs)
    }
}

impl<'a> Strings<'a> {
    /// How many strings.
    pub const fn len(&self) -> usize {
        match self {
            Strings::Slice(strings) => strings.len(),
            Strings::Encoded { count, .. } => *count as usize,
        }
    }

    /// True for none, which no valid record has.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (slice, count, bytes): (&'a [&'a [u8]], u32, &'a [u8]) = match *self {
            Strings::Slice(strings) => (strings, 0, &[]),
            Strings::Encoded { count, bytes } => (&[], count, bytes),
        };
        slice.iter().copied().chain(strings(bytes, count))
    }

    pub(crate) fn body_len(&self) -> u64 {
        4 + match *self {
            Strings::Slice(strings) => strings.iter().map(|string| string_len(string)).sum(),
            Strings::Encoded { bytes, .. } => bytes.len() as u64,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&count_u32(self.len()).to_le_bytes());
        self.iter().for_each(|string| put_string(out, string));
    }

    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, BodyError> {
        let count = nonzero_count(cursor)?;
        let bytes = cursor.rest();
        walk(bytes, u64::from(count))?;
        Ok(Strings::Encoded { count, bytes })
    }
}

impl<'a> From<&'a [&'a [u8]]> for Strings<'a> {
    fn from(strings: &'a [&'a [u8]]) -> Self {
        Strings::Slice(strings)
    }
}

impl<'a> MemberList<'a> {
    /// How many members.
    pub const fn len(&self) -> usize {
        match self {
            MemberList::Slice(members) => members.len(),
            MemberList::Encoded { count, .. } => *count as usize,
        }
    }

    /// True for none, which no valid record has.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Node id and address, in order.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &'a [u8])> + use<'a> {
        let (slice, count, bytes): (&'a [Member], u32, &'a [u8]) = match *self {
            MemberList::Slice(members) => (members, 0, &[]),
            MemberList::Encoded { count, bytes } => (&[], count, bytes),
        };
        let mut cursor = Cursor::new(bytes);
        let encoded =
            (0..count).map(move |_| (cursor.node().expect(CHECKED), cursor.string().expect(CHECKED)));
        slice
            .iter()
            .map(|member| (member.node, member.address.as_bytes()))
            .chain(encoded)
    }

    /// The list, owned.
    pub fn to_members(&self) -> Vec<Member> {
        self.iter()
            .map(|(node, address)| Member {
                node,
                address: String::from_utf8_lossy(address).into_owned(),
            })
            .collect()
    }

    pub(crate) fn body_len(&self) -> u64 {
        4 + match *self {
            MemberList::Slice(members) => members
                .iter()
                .map(|member| 16 + string_len(member.address.as_bytes()))
                .sum(),
            MemberList::Encoded { bytes, .. } => bytes.len() as u64,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&count_u32(self.len()).to_le_bytes());
        for (node, address) in self.iter() {
            out.extend_from_slice(&node.0);
            put_string(out, address);
        }
    }

    /// Reads a list that may be empty (as in the control file) and leaves what follows it.
    pub(crate) fn read_members(cursor: &mut Cursor<'a>) -> Result<Vec<Member>, BodyError> {
        let count = cursor.u32()?;
        let mut members = Vec::new();
        for _ in 0..count {
            let node = cursor.node()?;
            let address = std::str::from_utf8(cursor.string()?).map_err(|_| BodyError::AddressNotUtf8)?;
            members.push(Member {
                node,
                address: address.to_owned(),
            });
        }
        Ok(members)
    }

    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, BodyError> {
        let count = nonzero_count(cursor)?;
        let bytes = cursor.rest();
        let mut members = Cursor::new(bytes);
        for _ in 0..count {
            members.node()?;
            std::str::from_utf8(members.string()?).map_err(|_| BodyError::AddressNotUtf8)?;
        }
        if members.is_at_end() {
            Ok(MemberList::Encoded { count, bytes })
        } else {
            Err(BodyError::TrailingBytes)
        }
    }
}

pub(super) fn nonzero_count(cursor: &mut Cursor<'_>) -> Result<u32, BodyError> {
    match cursor.u32()? {
        0 => Err(BodyError::EmptyList),
        count => Ok(count),
    }
}

/// Checks that `bytes` are exactly `count` strings. Ends with the bytes, whatever count is claimed.
fn walk(bytes: &[u8], count: u64) -> Result<(), BodyError> {
    debug_assert!(bytes.len() as u64 <= RECORD_BYTES_MAX);
    let mut cursor = Cursor::new(bytes);
    for _ in 0..count {
        cursor.string()?;
    }
    if cursor.is_at_end() {
        Ok(())
    } else {
        Err(BodyError::TrailingBytes)
    }
}
