//! What goes in and comes out of the batch, as values.

use idem_protocol::{Lsn, UnixMs};

/// Where the log ends, as recovery found it and the batch goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The newest segment's first lsn.
    pub segment_first: Lsn,
    /// Its file's length in bytes; all of it is zeroed and synced beyond `offset`.
    pub segment_bytes: u64,
    /// Where the next frame begins in it.
    pub offset: u64,
    /// The log's end.
    pub lsn: Lsn,
    /// Whether the segment holds a record.
    pub holds_record: bool,
    /// Whether its last frame is a seal.
    pub last_seal: bool,
    /// CRC of the record that ends at `lsn`, 0 at lsn 0.
    pub last_record_crc: u32,
    /// Time of that record.
    pub log_time: UnixMs,
}

/// A zeroed, synced file that waits to become a segment: `wal/spare-<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Part of its name.
    pub number: u32,
    /// Its length.
    pub bytes: u64,
}

/// Where a group goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The current segment, at its next frame.
    Here,
    /// This spare, which becomes the next segment.
    Spare(Spare),
}

/// One frame to be written.
#[derive(Clone, Debug)]
pub struct Group {
    /// The frame: 32 bytes for the header, the records, zeros up to a multiple of 8.
    pub bytes: Vec<u8>,
    /// Lsn of the first record.
    pub first: Lsn,
    /// Lsn after the last.
    pub end: Lsn,
    /// Records, at least 1.
    pub count: u32,
    /// CRC-32 of the record bytes alone.
    pub crc: u32,
    /// True when all it holds are Clock records: it needs no seal after it.
    pub clock_only: bool,
    /// Another group is handed over together with this one: one sync, after the last of them, covers both.
    pub followed: bool,
    /// Where it goes.
    pub placement: Placement,
}

/// A seal to be written at this position, after the last group that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The log's end.
    pub lsn: Lsn,
}

/// Why there is no space for a command's records now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReserved {
    /// The open group must be taken first.
    GroupFull,
    /// A spare of at least this many file bytes must be made first.
    NeedsSpare {
        /// The file's length.
        bytes: u64,
    },
}
