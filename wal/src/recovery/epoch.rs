//! The epoch that begins where a log goes on: after a start, or after a restoration.
//!
//! An epoch begins with EpochStart, the first record that its process writes. Its number is above all that the directory
//! knows of, its nonce tells it from an epoch of that number in a copy of the directory. The record is synced before the
//! control file's history names it, and only then may anything be served; an entry that a crash kept from being written is
//! added by the next start from the log, which wins.
//!
//! Room for the record is made before anything is promised ([`first_spare`]), so that a full disk is found out early.
//!
//! Deliberately absent: where a log goes on. Who opens an epoch brings the place along ([`Resume`]).

use idem_protocol::control::Control;
use idem_protocol::wal::{EpochReason, Record, Salt};
use idem_protocol::{Epoch, HistoryEntry, Lsn, NodeId};

use super::judgement::Judgement;
use super::open::{OpenError, OpenParams, Opened};
use crate::batch::{Batch, GROUP_BYTES_MAX, NotReserved, Position, Spare};
use crate::control::ControlFile;
use crate::segment::make_spare;
use crate::storage::Storage;
use crate::writer::{LogWriter, SaltSource, WriterParams, WriterPosition};

/// The history keeps so many epochs; older ones matter to nobody whose log is still kept.
pub(super) const HISTORY_MAX: usize = 1024;

/// Where to go on, and a spare when the segment has no room for the first record.
pub(super) struct Resume {
    pub(super) writer: WriterPosition,
    pub(super) spare: Option<Spare>,
}

pub(super) fn salt(entropy: &mut dyn FnMut() -> [u8; 16]) -> Salt {
    let [bytes, _] = halves(entropy());
    Salt(bytes)
}

fn halves(bytes: [u8; 16]) -> [[u8; 8]; 2] {
    let (low, high) = bytes.split_at(8);
    [
        low.try_into().expect("eight of sixteen bytes"),
        high.try_into().expect("eight of sixteen bytes"),
    ]
}

/// The bytes of the first record of every epoch.
pub(super) fn epoch_start_bytes() -> u64 {
    epoch_start(
        Epoch::default(),
        NodeId::default(),
        Epoch::default(),
        EpochReason::Start,
    )
    .encoded_len()
}

fn epoch_start(epoch: Epoch, node: NodeId, previous: Epoch, reason: EpochReason) -> Record<'static> {
    Record::EpochStart {
        epoch,
        node,
        previous,
        reason,
    }
}

/// A spare, when EpochStart does not fit where the log ends.
pub(super) fn first_spare<S: Storage>(
    storage: &S,
    position: Position,
    segment_bytes: u64,
) -> Result<Option<Spare>, OpenError> {
    let mut trial = Batch::new(position, GROUP_BYTES_MAX);
    trial.set_segment_bytes(segment_bytes);
    match trial.reserve(epoch_start_bytes()) {
        Ok(()) => Ok(None),
        Err(NotReserved::NeedsSpare { bytes }) => {
            let spare = Spare { number: 0, bytes };
            make_spare(storage, spare, &mut || {})
                .map_err(|error| OpenError::write("the next segment", bytes, error))?;
            Ok(Some(spare))
        }
        Err(NotReserved::GroupFull) => unreachable!("the group is empty"),
    }
}

pub(super) fn next_epoch(control: &Control, judgement: &Judgement) -> u64 {
    let known = control
        .history
        .iter()
        .chain(&judgement.epochs)
        .map(|entry| entry.epoch.number);
    let end = judgement.end.as_ref().map(|end| end.epoch.number);
    known
        .chain(end)
        .chain([control.promised_epoch])
        .max()
        .unwrap_or(0)
        + 1
}

/// The control file's history, corrected by the log, which wins: what lies at or beyond the log's end never came to be
/// durable, and an epoch whose entry was not written before a crash is added.
pub(super) fn merged_history(known: &[HistoryEntry], read: &[HistoryEntry], end: Lsn) -> Vec<HistoryEntry> {
    let mut history: Vec<HistoryEntry> = known
        .iter()
        .filter(|entry| entry.first_lsn < end)
        .copied()
        .collect();
    for entry in read {
        if !history.contains(entry) {
            history.push(*entry);
        }
    }
    history.sort_by_key(|entry| entry.first_lsn);
    let surplus = history.len().saturating_sub(HISTORY_MAX - 1);
    history.drain(..surplus);
    history
}

pub(super) fn open_epoch<S: Storage>(
    storage: &S,
    control: ControlFile<S>,
    resume: Resume,
    reason: EpochReason,
    mut params: OpenParams,
    notes: Vec<String>,
) -> Result<Opened<S>, OpenError> {
    let Resume {
        writer: position,
        spare,
    } = resume;
    let known = control.read();
    let mut batch = Batch::new(position.position, GROUP_BYTES_MAX);
    batch.set_segment_bytes(params.segment_bytes);
    if let Some(spare) = spare {
        batch.spare_ready(spare);
    }
    let number = known.promised_epoch;
    let [nonce, _] = halves((params.entropy)());
    let epoch = Epoch {
        number,
        nonce: u64::from_le_bytes(nonce),
    };
    let mut entropy = params.entropy;
    let salts: SaltSource = Box::new(move || salt(&mut entropy));
    let writer_params = WriterParams {
        node: known.node,
        cluster: known.cluster,
    };
    let mut writer = LogWriter::resume(storage.clone(), control.clone(), position, writer_params, salts)?;

    let first_lsn = batch.appended();
    let log_time = params.now.max(batch.log_time());
    batch
        .reserve(epoch_start_bytes())
        .expect("room for the first record was made above");
    batch.append(
        log_time,
        0,
        &epoch_start(epoch, known.node, position.epoch, reason),
    );
    let mut group = batch.take(Vec::new()).expect("the group holds EpochStart");
    let bytes = group.bytes.len() as u64;
    writer
        .write(&mut group)
        .map_err(|error| OpenError::write("the first record", bytes, error))?;
    writer.sync()?;
    writer.set_epoch(epoch);
    let entry = HistoryEntry {
        epoch,
        node: known.node,
        first_lsn,
    };
    let bytes = known.encode().len() as u64;
    control
        .try_update(|control| {
            control.promised_epoch = number;
            control.promised_node = control.node;
            control.history.push(entry);
        })
        .map_err(|error| OpenError::write("the control file", bytes, error))?;
    assert_eq!(
        writer.synced(),
        batch.appended(),
        "everything is on disk before anything is served"
    );
    Ok(Opened {
        writer,
        end_lsn: batch.appended(),
        log_time,
        batch,
        control,
        epoch,
        notes,
    })
}
