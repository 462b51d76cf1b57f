//! The segment that is being written: frames at its end, syncs, the checksum of what it holds.

use std::io;

use crc32fast::Hasher;
use idem_protocol::Lsn;
use idem_protocol::wal::{FRAME_HEADER_BYTES, FrameHeader, Predecessor, segment_name};

use super::Cursor;
use crate::error::{FatalError, WriteError};
use crate::storage::durable::{sync_file, widen, write_all_at, zero_fill};
use crate::storage::{Dir, Storage};

const SEAL_BYTES: u64 = FRAME_HEADER_BYTES as u64;

/// The newest segment.
pub(crate) struct ActiveSegment<S: Storage> {
    storage: S,
    file: S::File,
    name: String,
    at: Cursor,
    /// Over all record bytes of the segment, combined group by group.
    crc: Hasher,
    /// Something was written since the last sync.
    dirty: bool,
}

impl<S: Storage> ActiveSegment<S> {
    /// `crc` is that of the `record_bytes` bytes of records that it holds.
    pub(crate) fn new(storage: S, file: S::File, at: Cursor, crc: u32, record_bytes: u64) -> Self {
        assert!(
            at.offset <= at.bytes && at.offset.is_multiple_of(8),
            "the next frame lies in the file, at a multiple of 8"
        );
        let crc = Hasher::new_with_initial_len(crc, record_bytes);
        ActiveSegment {
            storage,
            file,
            name: segment_name(at.first),
            at,
            crc,
            dirty: false,
        }
    }

    pub(crate) fn first(&self) -> Lsn {
        self.at.first
    }

    /// Writes a group's frame at the end; on an error nothing has moved and the same frame can be written again.
    pub(crate) fn write_group(
        &mut self,
        header: &FrameHeader,
        frame: &mut [u8],
        crc: u32,
    ) -> Result<(), WriteError> {
        assert_eq!(
            widen(frame.len()),
            header.frame_bytes(),
            "a frame is header, records and padding"
        );
        let needed = self.at.offset + header.frame_bytes() + SEAL_BYTES;
        if needed > self.at.bytes {
            self.grow(needed, header.lsn)?;
        }
        frame[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode(self.at.salt));
        self.write(frame).map_err(WriteError::Retry)?;
        self.crc.combine(&Hasher::new_with_initial_len(
            crc,
            u64::from(header.payload_bytes),
        ));
        Ok(())
    }

    /// Writes a seal at the end. False, and nothing is written, when there is no room for one.
    pub(crate) fn write_seal(&mut self, header: &FrameHeader) -> io::Result<bool> {
        assert!(
            header.seal && header.payload_bytes == 0,
            "a seal is an empty frame"
        );
        if self.at.offset + SEAL_BYTES > self.at.bytes {
            return Ok(false);
        }
        self.write(&header.encode(self.at.salt))?;
        Ok(true)
    }

    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        // Also half a frame has to be synced before the file may count as clean.
        self.dirty = true;
        write_all_at(&self.file, self.at.offset, frame)?;
        self.at.offset += widen(frame.len());
        assert!(
            self.at.offset <= self.at.bytes,
            "the plan keeps frames inside their file"
        );
        Ok(())
    }

    /// Makes a segment longer that holds no record and so cannot be followed; zeroed and synced before it is used.
    fn grow(&mut self, bytes: u64, lsn: Lsn) -> Result<(), WriteError> {
        assert_eq!(
            self.at.first, lsn,
            "only a segment without records is made longer; others are followed"
        );
        zero_fill(&self.file, self.at.bytes, bytes).map_err(WriteError::Retry)?;
        sync_file(&self.storage, &self.file, Dir::Wal, &self.name)?;
        self.at.bytes = bytes;
        Ok(())
    }

    /// Whether a sync has anything to do.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Syncs what was written. After an error the process ends: nobody syncs this file again.
    pub(crate) fn sync(&mut self) -> Result<(), FatalError> {
        sync_file(&self.storage, &self.file, Dir::Wal, &self.name)?;
        self.check_in_place()?;
        self.dirty = false;
        Ok(())
    }

    /// A restart finds by name what this process writes through its descriptor. When the two part (a log that was removed,
    /// cut, or replaced by a copy, under the running server) nothing more may be told: the process ends.
    pub(crate) fn check_in_place(&self) -> Result<(), FatalError> {
        let what = || format!("looking at {}", self.storage.describe(Dir::Wal, &self.name));
        let in_place = self
            .storage
            .is_in_place(Dir::Wal, &self.name, &self.file, self.at.bytes);
        if in_place.map_err(|error| FatalError::new(what(), error))? {
            return Ok(());
        }
        let gone = io::Error::other("it was removed, replaced or cut while the server was writing it");
        Err(FatalError::new(what(), gone))
    }

    /// What a successor's header says about this segment, complete up to `end`.
    pub(crate) fn as_predecessor(&self, end: Lsn) -> Predecessor {
        assert!(
            !self.dirty,
            "a segment is synced to its end before its successor's header is written"
        );
        assert!(
            end > self.at.first,
            "a segment that holds no record has no successor"
        );
        Predecessor {
            first_lsn: self.at.first,
            end_lsn: end,
            crc: self.crc.clone().finalize(),
        }
    }
}
