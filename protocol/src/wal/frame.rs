//! A frame: one group commit, one write, one sync. Local to a node.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic `IFRM` |
//! | 4 | 4 | payload length (whole records) |
//! | 8 | 8 | lsn of the first record |
//! | 16 | 8 | synced lsn: what had been written when the last successful sync was *called* |
//! | 24 | 4 | record count; bit 31 = seal |
//! | 28 | 4 | CRC-32 over the segment's 8 salt bytes, then bytes 0–27 |
//! | 32 | … | records; frames start at multiples of 8, padding is zero |
//!
//! The salt is random per segment. It keeps bytes that a client stored in a value, or that an older use of a file left
//! behind, from passing as a frame.

use crate::Lsn;
use crate::cursor::{u32_at, u64_at};

/// Bytes before the records.
pub const FRAME_HEADER_BYTES: usize = 32;
/// Frames start at multiples of this.
pub const FRAME_ALIGN: u64 = 8;
/// The first four bytes of a frame.
pub const MAGIC: [u8; 4] = *b"IFRM";

const SEAL: u32 = 1 << 31;

/// Random bytes of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Salt(pub [u8; 8]);

/// What precedes a group of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of whole records that follow.
    pub payload_bytes: u32,
    /// Position of the first of them.
    pub lsn: Lsn,
    /// What had been written on this node when its last successful sync was called.
    pub synced: Lsn,
    /// How many records follow, below 2^31.
    pub count: u32,
    /// An empty frame that ends a quiet log, so that the last real group has a witness too.
    pub seal: bool,
}

/// `bytes` up to the next multiple of 8; what passes 2^64 stays there.
pub const fn padded(bytes: u64) -> u64 {
    bytes.saturating_add(FRAME_ALIGN - 1) / FRAME_ALIGN * FRAME_ALIGN
}

impl FrameHeader {
    /// The header of a seal at `end`.
    pub const fn seal(end: Lsn, synced: Lsn) -> Self {
        FrameHeader {
            payload_bytes: 0,
            lsn: end,
            synced,
            count: 0,
            seal: true,
        }
    }

    /// The 32 bytes of the header, for a segment with this salt.
    ///
    /// # Panics
    /// When `count` takes the seal's bit.
    pub fn encode(&self, salt: Salt) -> [u8; FRAME_HEADER_BYTES] {
        assert!(self.count < SEAL, "a group has fewer than 2^31 records");
        let mut out = [0; FRAME_HEADER_BYTES];
        out[..4].copy_from_slice(&MAGIC);
        out[4..8].copy_from_slice(&self.payload_bytes.to_le_bytes());
        out[8..16].copy_from_slice(&self.lsn.get().to_le_bytes());
        out[16..24].copy_from_slice(&self.synced.get().to_le_bytes());
        let count = self.count | if self.seal { SEAL } else { 0 };
        out[24..28].copy_from_slice(&count.to_le_bytes());
        let crc = header_crc(salt, &out[..28]);
        out[28..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The header at the front of `bytes`, or `None` when there is none for a segment with this salt.
    pub fn decode(bytes: &[u8], salt: Salt) -> Option<Self> {
        let bytes = bytes.get(..FRAME_HEADER_BYTES)?;
        if bytes[..4] != MAGIC || u32_at(bytes, 28) != header_crc(salt, &bytes[..28]) {
            return None;
        }
        let count = u32_at(bytes, 24);
        Some(FrameHeader {
            payload_bytes: u32_at(bytes, 4),
            lsn: Lsn::new(u64_at(bytes, 8)),
            synced: Lsn::new(u64_at(bytes, 16)),
            count: count & !SEAL,
            seal: count & SEAL != 0,
        })
    }

    /// The position after the last record; `None` when it passes 2^64.
    pub fn end(&self) -> Option<Lsn> {
        self.lsn.checked_plus(u64::from(self.payload_bytes))
    }

    /// Header, records and padding, in bytes.
    pub fn frame_bytes(&self) -> u64 {
        padded(FRAME_HEADER_BYTES as u64 + u64::from(self.payload_bytes))
    }
}

fn header_crc(salt: Salt, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.0);
    hasher.update(bytes);
    hasher.finalize()
}
