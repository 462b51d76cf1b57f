//! A bounded reader over bytes that somebody else wrote.
//!
//! Every decoder of this crate reads through it, so that a length is compared with what is left before anything is
//! sliced, and an error can say at which offset it arose.

use crate::{Epoch, Lsn, NodeId, UnixMs};

/// The input ended, or a length points past its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{needed} bytes needed at offset {offset}, {left} left")]
pub struct Short {
    /// Where the read began.
    pub offset: usize,
    /// How many bytes it wanted.
    pub needed: u64,
    /// How many there were.
    pub left: usize,
}

/// Reads little-endian values from a slice, front to back.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, offset: 0 }
    }

    /// Bytes read so far.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes left.
    pub const fn left(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// True at the end.
    pub const fn is_at_end(&self) -> bool {
        self.left() == 0
    }

    /// Everything that is left, consumed.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.offset..];
        self.offset = self.bytes.len();
        rest
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: u64) -> Result<&'a [u8], Short> {
        let short = Short {
            offset: self.offset,
            needed: count,
            left: self.left(),
        };
        let count = usize::try_from(count).map_err(|_| short)?;
        if count > self.left() {
            return Err(short);
        }
        let taken = &self.bytes[self.offset..self.offset + count];
        self.offset += count;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let taken = self.take(N as u64)?;
        Ok(taken.try_into().expect("take returned as many bytes as asked"))
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Short> {
        Ok(self.array::<1>()?[0])
    }

    /// A little-endian u32.
    pub fn u32(&mut self) -> Result<u32, Short> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A little-endian u64.
    pub fn u64(&mut self) -> Result<u64, Short> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A position.
    pub fn lsn(&mut self) -> Result<Lsn, Short> {
        Ok(Lsn::new(self.u64()?))
    }

    /// A time in eight bytes; the inner error is one that lies past [`UnixMs::MAX`], which no writer has.
    pub fn time(&mut self) -> Result<Result<UnixMs, u64>, Short> {
        let ms = self.u64()?;
        Ok(if ms > UnixMs::MAX.get() {
            Err(ms)
        } else {
            Ok(UnixMs::new(ms))
        })
    }

    /// An epoch: number, nonce.
    pub fn epoch(&mut self) -> Result<Epoch, Short> {
        Ok(Epoch {
            number: self.u64()?,
            nonce: self.u64()?,
        })
    }

    /// A node id.
    pub fn node(&mut self) -> Result<NodeId, Short> {
        Ok(NodeId(self.array()?))
    }

    /// A string as bodies have it: u32 length, bytes.
    pub fn string(&mut self) -> Result<&'a [u8], Short> {
        let length = self.u32()?;
        self.take(u64::from(length))
    }
}

/// The little-endian u32 at `offset` of a slice that is known to be long enough.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(
        bytes[offset..offset + 4]
            .try_into()
            .expect("four bytes were sliced"),
    )
}

/// The little-endian u64 at `offset` of a slice that is known to be long enough.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(
        bytes[offset..offset + 8]
            .try_into()
            .expect("eight bytes were sliced"),
    )
}

/// Appends a string as bodies have it: u32 length, bytes.
///
/// # Panics
/// For a string of 4 GiB and more: no caller may hold one (records end at 512 MiB).
pub(crate) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("strings of records are bounded by the record limit");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Appends an epoch: number, nonce.
pub(crate) fn put_epoch(out: &mut Vec<u8>, epoch: Epoch) {
    out.extend_from_slice(&epoch.number.to_le_bytes());
    out.extend_from_slice(&epoch.nonce.to_le_bytes());
}
