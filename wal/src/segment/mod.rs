//! Segments as files: their names, how one comes to be, and the one that is being written.
//!
//! Invariants
//! * A segment gets its name only when its header is synced, so that a `.wal` file without a good header is damage or the
//!   last moment before a power loss, never an ordinary state.
//! * Bytes beyond the last frame are zero, and synced as zeros, before the segment gets its name.
//! * Frames start at multiples of 8, never overlap, never leave the file, and leave room for a seal.
//!
//! Deliberately absent: where a group goes (the batch plans that) and what is read back (the reader does that).

use std::io;

use idem_protocol::Lsn;
use idem_protocol::wal::{SEGMENT_HEADER_BYTES, Salt, SegmentHeader, segment_name};

use crate::error::WriteError;
use crate::storage::durable::{sync_directory, sync_file, widen, write_all_at, zero_fill};
use crate::storage::{Dir, Storage, StorageFile};

mod active;
mod rotation;
mod spares;

pub(crate) use active::ActiveSegment;
pub(crate) use rotation::Rotation;
pub use spares::{SPARE_PREFIX, make_spare, spare_name};

/// What a segment is called in `wal` until its header is synced; removed at a start.
pub const NEW_SEGMENT_TEMPORARY: &str = "new.tmp";

/// Makes a segment without a spare: zero-filled to `bytes`, header, sync, name, sync of the directory. For the first segment
/// of a directory and for starts that need one. After `Retry` the temporary is removed and nothing else has changed.
pub fn create_segment<S: Storage>(
    storage: &S,
    header: &SegmentHeader,
    bytes: u64,
) -> Result<S::File, WriteError> {
    assert!(bytes >= widen(SEGMENT_HEADER_BYTES), "a segment has a header");
    let file = storage
        .create(Dir::Wal, NEW_SEGMENT_TEMPORARY)
        .map_err(WriteError::Retry)?;
    let filled = zero_fill(&file, 0, bytes).and_then(|()| write_all_at(&file, 0, &header.encode_page()));
    if let Err(error) = filled {
        // A half-filled file on a full disk keeps the space that the next attempt needs.
        let _ = storage.remove(Dir::Wal, NEW_SEGMENT_TEMPORARY);
        return Err(WriteError::Retry(error));
    }
    sync_file(storage, &file, Dir::Wal, NEW_SEGMENT_TEMPORARY)?;
    let name = segment_name(header.first_lsn);
    storage
        .rename(Dir::Wal, NEW_SEGMENT_TEMPORARY, &name)
        .map_err(WriteError::Retry)?;
    sync_directory(storage, Dir::Wal)?;
    Ok(file)
}

/// Opens the segment that begins at `first` for writing; returns the file and its length.
pub(crate) fn open_segment<S: Storage>(storage: &S, first: Lsn) -> io::Result<(S::File, u64)> {
    let file = storage.open_write(Dir::Wal, &segment_name(first))?;
    let bytes = file.len()?;
    Ok((file, bytes))
}

/// The salt and place of the frames that go into a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub(crate) first: Lsn,
    pub(crate) salt: Salt,
    /// Length of the file.
    pub(crate) bytes: u64,
    /// Where the next frame begins.
    pub(crate) offset: u64,
}
