//! A new log that begins in the middle: a snapshot of some state, and an epoch of its own that goes on from there.
//!
//! ```text
//! begin:  wal/ and snap/, their names synced · segment of the cut lsn, synced and named · snapshot, under a temporary name
//! finish: (snapshot synced) its name, synced · EpochStart (restore), synced · control
//! ```
//!
//! The segment comes first and the control file last: in between the directory has a segment and no control file, which no
//! start accepts, nor takes for an empty one. A copy that was interrupted is never served, and with the control file
//! everything that it needs is on disk. (At lsn 0 the state is that of an empty directory.)
//!
//! The new log has a node of its own and an epoch above all that the old one knew, so that where both have the same lsn
//! they are never taken for the same record.

use idem_protocol::control::{Control, Role};
use idem_protocol::wal::{EpochReason, SEGMENT_HEADER_BYTES, Salt, SegmentHeader, snapshot_name};
use idem_protocol::{ClusterId, Epoch, HistoryEntry, Lsn, NodeId, UnixMs};

use super::epoch::{HISTORY_MAX, Resume, epoch_start_bytes, open_epoch, salt};
use super::open::{OpenError, OpenParams, Opened};
use crate::batch::Position;
use crate::control::ControlFile;
use crate::segment::create_segment;
use crate::snapshot::{FinishedSnapshot, SnapshotWriter};
use crate::storage::durable::sync_directory;
use crate::storage::{Dir, Storage};
use crate::writer::WriterPosition;

/// Where a new log begins, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The new node.
    pub node: NodeId,
    /// The history that it belongs to: a new one, or the old one's when that is gone.
    pub cluster: ClusterId,
    /// The end of the last record in the state.
    pub lsn: Lsn,
    /// The log's time there; EpochStart carries it, too, so that it ends no key.
    pub log_time: UnixMs,
    /// CRC of the record that ends there, 0 at lsn 0.
    pub last_record_crc: u32,
    /// The epochs that began below it, in order.
    pub history: Vec<HistoryEntry>,
    /// The highest epoch that anything in the old directory knows of; the new one is the next.
    pub highest_epoch: u64,
}

impl Origin {
    /// The epoch that the last record belongs to.
    pub fn epoch(&self) -> Epoch {
        self.history.last().map_or(Epoch::default(), |entry| entry.epoch)
    }
}

/// A restore that has begun.
pub struct Restoration<S: Storage> {
    storage: S,
    origin: Origin,
    params: OpenParams,
    segment_bytes: u64,
    salt: Salt,
}

impl<S: Storage> Restoration<S> {
    /// Makes the directories and the segment in an empty data directory, and begins the snapshot of the state at
    /// `origin.lsn`. `params.now` is not used.
    pub fn begin(
        storage: &S,
        origin: Origin,
        mut params: OpenParams,
    ) -> Result<(Restoration<S>, SnapshotWriter<S>), OpenError> {
        for dir in [Dir::Wal, Dir::Snap] {
            let what = || format!("making the directory {}", storage.describe(dir, ""));
            storage
                .create_dir(dir)
                .map_err(|error| OpenError::space(what(), 0, error))?;
        }
        sync_directory(storage, Dir::Root)?;
        let salt = salt(&mut params.entropy);
        let header = SegmentHeader {
            node: origin.node,
            cluster: origin.cluster,
            first_lsn: origin.lsn,
            salt,
            epoch: origin.epoch(),
            predecessor: None,
        };
        let least = SEGMENT_HEADER_BYTES as u64 + 2 * epoch_start_bytes();
        let segment_bytes = params.segment_bytes.max(least);
        create_segment(storage, &header, segment_bytes)
            .map_err(|error| OpenError::write("the first segment", segment_bytes, error))?;
        let snapshot = SnapshotWriter::begin(storage.clone(), origin.cluster, origin.lsn)
            .map_err(|error| OpenError::space("the snapshot", 0, error))?;
        let restoration = Restoration {
            storage: storage.clone(),
            origin,
            params,
            segment_bytes,
            salt,
        };
        Ok((restoration, snapshot))
    }

    /// Names the snapshot, which is the finished one of [`Restoration::begin`], opens the epoch, and last of all writes the
    /// control file.
    pub fn finish(self, snapshot: &FinishedSnapshot) -> Result<Opened<S>, OpenError> {
        let Restoration {
            storage,
            origin,
            mut params,
            segment_bytes,
            salt,
        } = self;
        let lsn = origin.lsn;
        assert_eq!(
            (snapshot.start, snapshot.end),
            (lsn, lsn),
            "the snapshot is of the state at the cut"
        );
        let name = snapshot_name(lsn);
        storage
            .rename(Dir::Snap, &snapshot.temporary, &name)
            .map_err(|error| OpenError::space(format!("naming snap/{name}"), 0, error))?;
        sync_directory(&storage, Dir::Snap)?;

        let surplus = origin.history.len().saturating_sub(HISTORY_MAX - 1);
        // Held in memory: the first change, which is made after EpochStart is on disk, writes it.
        let control = ControlFile::adopt(
            storage.clone(),
            Control {
                node: origin.node,
                cluster: origin.cluster,
                role: Role::Primary,
                promised_epoch: origin.highest_epoch.saturating_add(1),
                promised_node: origin.node,
                history: origin.history[surplus..].to_vec(),
                newest_snapshot: Some(lsn),
                newest_segment: Some(lsn),
                ..Control::default()
            },
        );
        let position = Position {
            segment_first: lsn,
            segment_bytes,
            offset: SEGMENT_HEADER_BYTES as u64,
            lsn,
            holds_record: false,
            last_seal: false,
            last_record_crc: origin.last_record_crc,
            log_time: origin.log_time,
        };
        let writer = WriterPosition {
            position,
            salt,
            segment_crc: 0,
            synced: lsn,
            epoch: origin.epoch(),
        };
        params.now = origin.log_time;
        let resume = Resume { writer, spare: None };
        open_epoch(
            &storage,
            control,
            resume,
            EpochReason::Restore,
            params,
            Vec::new(),
        )
    }
}

#[cfg(test)]
mod tests;
