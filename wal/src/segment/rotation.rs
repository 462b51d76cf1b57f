//! From a spare to the newest segment, in an order that a crash may interrupt anywhere.
//!
//! ```text
//! (old segment synced to its end)
//! spare-<n> → new.tmp · header page, both copies · sync · new.tmp → <first lsn>.wal · sync of wal/ · control names it
//! (first frame)
//! ```
//!
//! Before the rename the new file is a temporary that a start removes. After it the successor's header vouches for the old
//! segment, which is complete. The control file names the segment before its first frame, so that a lost newest segment is
//! noticed. Each step is made once: after an error that may be repeated, [`Rotation::advance`] goes on where it stopped.

use idem_protocol::wal::{SEGMENT_HEADER_BYTES, SegmentHeader, segment_name};

use super::{ActiveSegment, Cursor, NEW_SEGMENT_TEMPORARY, spare_name};
use crate::batch::Spare;
use crate::control::ControlFile;
use crate::error::WriteError;
use crate::storage::durable::{sync_directory, sync_file, widen, write_all_at};
use crate::storage::{Dir, Storage, StorageFile};

/// A rotation that has begun.
pub(crate) struct Rotation<S: Storage> {
    spare: Spare,
    header: SegmentHeader,
    step: Step,
    file: Option<S::File>,
}

/// The step to be made next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Take,
    Open,
    Header,
    Name,
    Control,
    Done,
}

impl<S: Storage> Rotation<S> {
    /// Plans it; the old segment is synced to its end. Touches nothing.
    pub(crate) fn new(spare: Spare, header: SegmentHeader) -> Self {
        assert!(header.predecessor.is_some(), "a rotation follows a segment");
        Rotation {
            spare,
            header,
            step: Step::Take,
            file: None,
        }
    }

    /// The segment that it makes.
    pub(crate) fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Makes the steps that are left.
    pub(crate) fn advance(&mut self, storage: &S, control: &ControlFile<S>) -> Result<(), WriteError> {
        while self.step != Step::Done {
            self.step = self.make(storage, control)?;
        }
        Ok(())
    }

    fn make(&mut self, storage: &S, control: &ControlFile<S>) -> Result<Step, WriteError> {
        let first = self.header.first_lsn;
        match self.step {
            Step::Take => {
                let spare = spare_name(self.spare.number);
                storage
                    .rename(Dir::Wal, &spare, NEW_SEGMENT_TEMPORARY)
                    .map_err(WriteError::Retry)?;
                Ok(Step::Open)
            }
            Step::Open => {
                let file = storage
                    .open_write(Dir::Wal, NEW_SEGMENT_TEMPORARY)
                    .map_err(WriteError::Retry)?;
                let bytes = file.len().map_err(WriteError::Retry)?;
                assert_eq!(
                    bytes, self.spare.bytes,
                    "a spare has the length that was announced"
                );
                self.file = Some(file);
                Ok(Step::Header)
            }
            Step::Header => {
                let file = self.file.as_ref().expect("opened in the step before");
                write_all_at(file, 0, &self.header.encode_page()).map_err(WriteError::Retry)?;
                sync_file(storage, file, Dir::Wal, NEW_SEGMENT_TEMPORARY)?;
                Ok(Step::Name)
            }
            Step::Name => {
                let name = segment_name(first);
                storage
                    .rename(Dir::Wal, NEW_SEGMENT_TEMPORARY, &name)
                    .map_err(WriteError::Retry)?;
                sync_directory(storage, Dir::Wal)?;
                Ok(Step::Control)
            }
            Step::Control => {
                control.try_update(|control| control.newest_segment = Some(first))?;
                Ok(Step::Done)
            }
            Step::Done => Ok(Step::Done),
        }
    }

    /// The new segment, empty, once every step is made.
    pub(crate) fn finish(self, storage: S) -> ActiveSegment<S> {
        assert_eq!(
            self.step,
            Step::Done,
            "a segment is used when the control file names it"
        );
        let at = Cursor {
            first: self.header.first_lsn,
            salt: self.header.salt,
            bytes: self.spare.bytes,
            offset: widen(SEGMENT_HEADER_BYTES),
        };
        let file = self.file.expect("opened on the way here");
        ActiveSegment::new(storage, file, at, 0, 0)
    }
}
