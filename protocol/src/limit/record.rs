//! The marker of ONCE and the 29-byte record of LIMIT.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 3 | magic `LMT` |
//! | 3 | 1 | format version 1 |
//! | 4 | 1 | mode: 0 fixed, 1 sliding, 2 tokens |
//! | 5 | 4 | max: of the call that wrote the record; 1–2147483647, a bucket's 1–1000000 |
//! | 9 | 4 | window, ms; 1–4294967295 |
//! | 13 | 8 | window start, Unix ms, below 2^48; a bucket's last withdrawal |
//! | 21 | 8 | fixed and sliding: count u32, previous u32; tokens: level u64 in 1/2^20 token |
//!
//! Only a call that fits writes a record. So the count is 1 to max, a bucket's level at least one token below full; and a
//! fixed window has no previous one. Other bytes are no record.

use super::rule::Mode;
use crate::UnixMs;
use crate::cursor::{u32_at, u64_at};

/// What ONCE stores: the marker is there, or it is not.
pub const ONCE_MARKER: &[u8] = b"1";
/// The first three bytes of every counter record.
pub const MAGIC: [u8; 3] = *b"LMT";
/// The version that this code writes and reads.
pub const FORMAT_VERSION: u8 = 1;
/// The size of a counter record.
pub const RECORD_BYTES: usize = 29;
/// Most calls per window; the least is 1.
pub const MAX_MAX: u32 = 2_147_483_647;
/// The largest bucket; the smallest has one token.
pub const BUCKET_MAX: u32 = 1_000_000;
/// Parts of one token in a bucket's level.
pub const TOKEN_PARTS: u64 = 1 << 20;

/// What has been used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// A window that the first call opens.
    Fixed {
        /// Calls in this window.
        count: u32,
        /// Kept for the layout; 0 in a fixed window.
        previous: u32,
    },
    /// The previous window counts by its overlap.
    Sliding {
        /// Calls in this window.
        count: u32,
        /// Calls in the window before.
        previous: u32,
    },
    /// A bucket that refills.
    Tokens {
        /// What was in it at the start, in 1/2^20 token.
        level: u64,
    },
}

/// A counter record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRecord {
    /// Calls per window, or the size of the bucket, as the call that wrote the record had it.
    pub max: u32,
    /// The window, in milliseconds.
    pub window_ms: u32,
    /// When the window (or the last refill) began, in Unix milliseconds.
    pub start_ms: u64,
    /// What has been used.
    pub usage: Usage,
}

impl LimitRecord {
    /// How the record counts.
    pub const fn mode(&self) -> Mode {
        match self.usage {
            Usage::Fixed { .. } => Mode::Fixed,
            Usage::Sliding { .. } => Mode::Sliding,
            Usage::Tokens { .. } => Mode::Tokens,
        }
    }

    /// The bytes of the record.
    ///
    /// # Panics
    /// When a field is outside its bounds: arguments are checked before a record is made.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        assert!(self.within_bounds(), "what is stored has been checked: {self:?}");
        let mut out = [0; RECORD_BYTES];
        let tail = match self.usage {
            Usage::Fixed { count, previous } | Usage::Sliding { count, previous } => {
                u64::from(count) | u64::from(previous) << 32
            }
            Usage::Tokens { level } => level,
        };
        out[..3].copy_from_slice(&MAGIC);
        out[3] = FORMAT_VERSION;
        out[4] = self.mode().to_byte();
        out[5..9].copy_from_slice(&self.max.to_le_bytes());
        out[9..13].copy_from_slice(&self.window_ms.to_le_bytes());
        out[13..21].copy_from_slice(&self.start_ms.to_le_bytes());
        out[21..29].copy_from_slice(&tail.to_le_bytes());
        out
    }

    /// Reads a record; `None` for anything that [`LimitRecord::encode`] would not write.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != RECORD_BYTES || bytes[..3] != MAGIC || bytes[3] != FORMAT_VERSION {
            return None;
        }
        let (count, previous) = (u32_at(bytes, 21), u32_at(bytes, 25));
        let usage = match bytes[4] {
            0 => Usage::Fixed { count, previous },
            1 => Usage::Sliding { count, previous },
            2 => Usage::Tokens {
                level: u64_at(bytes, 21),
            },
            _ => return None,
        };
        let record = LimitRecord {
            max: u32_at(bytes, 5),
            window_ms: u32_at(bytes, 9),
            start_ms: u64_at(bytes, 13),
            usage,
        };
        record.within_bounds().then_some(record)
    }

    /// Whether some call could have written this.
    fn within_bounds(&self) -> bool {
        let counted = |count: u32| (1..=self.max).contains(&count);
        let usage = match self.usage {
            Usage::Fixed { count, previous } => self.max <= MAX_MAX && counted(count) && previous == 0,
            Usage::Sliding { count, previous } => {
                self.max <= MAX_MAX && counted(count) && previous <= MAX_MAX
            }
            Usage::Tokens { level } => {
                (1..=BUCKET_MAX).contains(&self.max) && level <= u64::from(self.max - 1) * TOKEN_PARTS
            }
        };
        usage && self.window_ms != 0 && self.start_ms <= UnixMs::MAX.get()
    }
}
