//! The blocking half of the log: carries out the plans of the [`Batch`](crate::batch::Batch).
//!
//! Vocabulary: *written* is the lsn that the kernel has, *synced* the lsn that the disk has; `synced ≤ written` always. Both
//! count records only.
//!
//! Invariants
//! * A frame's synced mark is what had been written when the last successful sync was *called*: it never promises a byte
//!   that a sync did not cover.
//! * A seal is synced before the next frame is written, and so is the removal of the clean mark. So a frame that follows a
//!   missing seal is damage, and a clean mark with records after it cannot come from us.
//! * A write that failed has moved nothing: the same group may be written again, at the same place. A sync that failed is
//!   [`FatalError`]; every later call answers the same kind of error without touching the disk.
//!
//! Deliberately absent: threads, time, and the policy when to sync ([`crate::thread`] has it).

use std::io;

use idem_protocol::wal::{FrameHeader, Salt, SegmentHeader};
use idem_protocol::{ClusterId, Epoch, Lsn, NodeId};

use crate::batch::{Group, Placement, Position, Spare};
use crate::control::ControlFile;
pub use crate::error::{FatalError, WriteError};
use crate::segment::{ActiveSegment, Cursor, Rotation, open_segment};
use crate::storage::Storage;

/// Where recovery left the log, with what only the writer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterPosition {
    /// The end of the log and of its newest segment.
    pub position: Position,
    /// The newest segment's salt.
    pub salt: Salt,
    /// CRC-32 of all record bytes in the newest segment.
    pub segment_crc: u32,
    /// What is on disk; recovery has synced everything, so it is the end.
    pub synced: Lsn,
    /// The last EpochStart's.
    pub epoch: Epoch,
}

/// What the headers of new segments say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterParams {
    /// This node.
    pub node: NodeId,
    /// Its history.
    pub cluster: ClusterId,
}

/// Makes a random salt for each new segment; tests give fixed ones.
pub type SaltSource = Box<dyn FnMut() -> Salt + Send>;

/// Writes and syncs one log. Blocking; owned by one thread.
pub struct LogWriter<S: Storage> {
    storage: S,
    control: ControlFile<S>,
    params: WriterParams,
    salts: SaltSource,
    segment: ActiveSegment<S>,
    rotation: Option<Rotation<S>>,
    written: Lsn,
    synced: Lsn,
    epoch: Epoch,
    last_seal: bool,
    clean_mark: bool,
    /// A sync has failed: nothing may be written or promised any more.
    dead: bool,
}

impl<S: Storage> LogWriter<S> {
    /// Goes on writing where recovery stopped. Changes nothing on disk.
    pub fn resume(
        storage: S,
        control: ControlFile<S>,
        position: WriterPosition,
        params: WriterParams,
        salts: SaltSource,
    ) -> Result<Self, FatalError> {
        let WriterPosition {
            position: end,
            salt,
            segment_crc,
            synced,
            epoch,
        } = position;
        assert!(synced <= end.lsn, "nothing is synced that was not written");
        let opened = open_segment(&storage, end.segment_first);
        let (file, bytes) = opened.map_err(|error| FatalError::new("opening the newest segment", error))?;
        if bytes < end.segment_bytes {
            let short = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(FatalError::new(
                "the newest segment is shorter than it was judged",
                short,
            ));
        }
        let at = Cursor {
            first: end.segment_first,
            salt,
            bytes: end.segment_bytes,
            offset: end.offset,
        };
        let record_bytes = end.lsn.bytes_since(end.segment_first);
        assert_eq!(
            end.holds_record,
            record_bytes > 0,
            "a segment holds records when it spans any lsns"
        );
        let segment = ActiveSegment::new(storage.clone(), file, at, segment_crc, record_bytes);
        let clean_mark = control.read().clean_end.is_some();
        Ok(LogWriter {
            storage,
            control,
            params,
            salts,
            segment,
            rotation: None,
            written: end.lsn,
            synced,
            epoch,
            last_seal: end.last_seal,
            clean_mark,
            dead: false,
        })
    }

    /// Writes one group, after making its segment when it begins one. After `Retry` the same group must come again.
    pub fn write(&mut self, group: &mut Group) -> Result<(), WriteError> {
        assert_eq!(group.first, self.written, "groups are written in order");
        let result = self.try_write(group);
        self.note(result)
    }

    fn try_write(&mut self, group: &mut Group) -> Result<(), WriteError> {
        self.before_frame()?;
        if let Placement::Spare(spare) = group.placement
            // A repeated call finds the segment that the first one made.
            && self.segment.first() != group.first
        {
            self.rotate(spare, group.first)?;
        }
        let payload = group.end.bytes_since(group.first);
        let header = FrameHeader {
            payload_bytes: u32::try_from(payload).expect("the batch keeps groups below 4 GiB"),
            lsn: group.first,
            synced: self.synced,
            count: group.count,
            seal: false,
        };
        self.segment.write_group(&header, &mut group.bytes, group.crc)?;
        self.written = group.end;
        self.last_seal = false;
        Ok(())
    }

    /// What must be on disk before any frame is.
    fn before_frame(&mut self) -> Result<(), WriteError> {
        self.check_alive()?;
        if self.last_seal && self.segment.is_dirty() {
            self.sync_segment()?;
        }
        if self.clean_mark {
            self.control.try_update(|control| control.clean_end = None)?;
            self.clean_mark = false;
        }
        Ok(())
    }

    fn rotate(&mut self, spare: Spare, first: Lsn) -> Result<(), WriteError> {
        if self.rotation.is_none() {
            self.sync_segment()?;
            // A clean one was looked at when it was synced, perhaps long ago; nobody looks again once it has a successor.
            self.segment.check_in_place()?;
            let header = SegmentHeader {
                node: self.params.node,
                cluster: self.params.cluster,
                first_lsn: first,
                salt: (self.salts)(),
                epoch: self.epoch,
                predecessor: Some(self.segment.as_predecessor(first)),
            };
            self.rotation = Some(Rotation::new(spare, header));
        }
        let rotation = self.rotation.as_mut().expect("begun just above");
        assert_eq!(
            rotation.header().first_lsn,
            first,
            "a rotation is finished by the group that began it"
        );
        rotation.advance(&self.storage, &self.control)?;
        if let Some(done) = self.rotation.take() {
            self.segment = done.finish(self.storage.clone());
        }
        Ok(())
    }

    /// Syncs what has been written; returns the synced lsn.
    pub fn sync(&mut self) -> Result<Lsn, FatalError> {
        let result = self.check_alive().and_then(|()| self.sync_segment());
        self.dead |= result.is_err();
        result.map(|()| self.synced)
    }

    fn sync_segment(&mut self) -> Result<(), FatalError> {
        // Taken before the call: what is written while a sync runs is not covered by it.
        let called_at = self.written;
        if self.segment.is_dirty() {
            self.segment.sync()?;
        }
        assert!(self.synced <= called_at, "the synced position never goes back");
        self.synced = called_at;
        Ok(())
    }

    /// To be called before anybody is told of what is written and not synced; a sync looks by itself. An error when the log
    /// was taken away under the running server.
    pub fn check_in_place(&mut self) -> Result<(), FatalError> {
        let result = self.check_alive().and_then(|()| self.segment.check_in_place());
        self.dead |= result.is_err();
        result
    }

    /// Writes a seal at the end, unless the last frame is one or there is no room for it. Not synced by this call.
    pub fn seal(&mut self) -> Result<(), WriteError> {
        let result = self.try_seal();
        self.note(result)
    }

    fn try_seal(&mut self) -> Result<(), WriteError> {
        if self.last_seal {
            return self.check_alive().map_err(WriteError::Fatal);
        }
        self.before_frame()?;
        let header = FrameHeader {
            payload_bytes: 0,
            lsn: self.written,
            synced: self.synced,
            count: 0,
            seal: true,
        };
        self.last_seal = self.segment.write_seal(&header).map_err(WriteError::Retry)?;
        Ok(())
    }

    /// The end of a clean run: sync, seal, sync, clean mark. Nothing is written after it.
    pub fn shut_down(&mut self) -> Result<(), WriteError> {
        let result = self.try_shut_down();
        self.note(result)
    }

    fn try_shut_down(&mut self) -> Result<(), WriteError> {
        self.check_alive()?;
        self.sync_segment()?;
        self.try_seal()?;
        self.sync_segment()?;
        let end = self.written;
        self.control.try_update(|control| control.clean_end = Some(end))?;
        self.clean_mark = true;
        Ok(())
    }

    fn check_alive(&self) -> Result<(), FatalError> {
        if self.dead {
            let error = io::Error::other("an earlier sync failed");
            return Err(FatalError::new("writing the log", error));
        }
        Ok(())
    }

    fn note(&mut self, result: Result<(), WriteError>) -> Result<(), WriteError> {
        self.dead |= matches!(result, Err(WriteError::Fatal(_)));
        result
    }

    /// The lsn that the kernel has.
    pub fn written(&self) -> Lsn {
        self.written
    }

    /// The lsn that the disk has.
    pub fn synced(&self) -> Lsn {
        self.synced
    }

    /// Whether anything, a seal included, waits for a sync.
    pub fn is_dirty(&self) -> bool {
        self.segment.is_dirty()
    }

    /// First lsn of the segment that is being written.
    pub fn segment_first(&self) -> Lsn {
        self.segment.first()
    }

    /// The last EpochStart's epoch, as new segments' headers will say it.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// To be called once an EpochStart has been written.
    pub fn set_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }
}

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;
