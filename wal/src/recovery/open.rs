//! From a verdict that starts the server to a log that can be written.
//!
//! In this order, each step durable before the next: what is cut is copied; the end of the newest segment is written again
//! from memory; everything accepted is synced, with its directories; the control file gives up the clean mark and promises
//! the new epoch; EpochStart is written and synced; the control file's history names it. Only then may anything be served:
//! no reply can reveal what a second crash would take back.

use std::io;

use idem_protocol::control::{Control, Role};
use idem_protocol::wal::{EpochReason, SegmentHeader, padded};
use idem_protocol::{ClusterId, Epoch, Lsn, NodeId, UnixMs};

use super::cases::Row;
use super::epoch::{Resume, first_spare, merged_history, next_epoch, open_epoch, salt};
use super::judgement::{Judgement, Verdict};
use super::repair;
use crate::batch::{Batch, Position};
use crate::control::ControlFile;
use crate::error::{FatalError, WriteError};
use crate::segment::create_segment;
use crate::storage::durable::sync_directory;
use crate::storage::{Dir, Storage};
use crate::writer::{LogWriter, WriterPosition};

/// What a start brings along.
pub struct OpenParams {
    /// The clock now. EpochStart carries it, or the log's time when that is later.
    pub now: UnixMs,
    /// Length of new segments, header included.
    pub segment_bytes: u64,
    /// Random bytes for ids, nonces and salts: different at every call.
    pub entropy: Box<dyn FnMut() -> [u8; 16] + Send>,
}

/// A log that is open for writing.
pub struct Opened<S: Storage> {
    /// For the wal thread.
    pub writer: LogWriter<S>,
    /// For the thread that decides.
    pub batch: Batch,
    /// For both, and for the publication of snapshots.
    pub control: ControlFile<S>,
    /// The epoch that begins.
    pub epoch: Epoch,
    /// The log's end, after EpochStart; all of it is on disk.
    pub end_lsn: Lsn,
    /// The log's time, that of EpochStart.
    pub log_time: UnixMs,
    /// The copy of what was cut, and what else was moved or removed, for the log.
    pub notes: Vec<String>,
}

/// Why a log was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The verdict does not start a server. Nothing was changed.
    #[error("the verdict is {}", .0.word())]
    Refused(Verdict),
    /// No space for something that the start needs.
    #[error("no space for {what}: {bytes} bytes are needed ({source})")]
    NoSpace {
        /// For what.
        what: String,
        /// How many bytes.
        bytes: u64,
        /// What the disk said.
        source: io::Error,
    },
    /// Any other error of the disk.
    #[error("{what}: {source}")]
    Io {
        /// The operation and the file.
        what: String,
        /// What the disk said.
        source: io::Error,
    },
    /// A failed sync.
    #[error(transparent)]
    Fatal(#[from] FatalError),
}

impl OpenError {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        OpenError::Io {
            what: what.into(),
            source,
        }
    }

    /// An error of a step that takes space: named as such when it is one.
    pub(crate) fn space(what: impl Into<String>, bytes: u64, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::WriteZero => {
                OpenError::NoSpace {
                    what: what.into(),
                    bytes,
                    source,
                }
            }
            _ => OpenError::io(what, source),
        }
    }

    pub(super) fn write(what: impl Into<String>, bytes: u64, error: WriteError) -> Self {
        match error {
            WriteError::Retry(source) => OpenError::space(what, bytes, source),
            WriteError::Fatal(fatal) => OpenError::Fatal(fatal),
        }
    }
}

/// Carries out what the verdict asks for and opens an epoch. `judgement` was made with `retain_tail`, of this directory, by
/// the process that holds its lock.
pub fn open<S: Storage>(
    storage: &S,
    judgement: Judgement,
    mut params: OpenParams,
) -> Result<Opened<S>, OpenError> {
    if !judgement.verdict.starts() || judgement.live {
        return Err(OpenError::Refused(judgement.verdict));
    }
    let mut notes: Vec<String> = Vec::new();
    let (control, position) = if judgement.row == Row::New {
        make_directory(storage, &mut params, &mut notes)?
    } else {
        take_over(storage, &judgement, &params, &mut notes)?
    };
    open_epoch(storage, control, position, EpochReason::Start, params, notes)
}

/// First the segment of lsn 0, durable, then the control file: without `control`, a directory is new.
fn make_directory<S: Storage>(
    storage: &S,
    params: &mut OpenParams,
    notes: &mut Vec<String>,
) -> Result<(ControlFile<S>, Resume), OpenError> {
    for dir in [Dir::Wal, Dir::Snap] {
        let what = || format!("making the directory {}", storage.describe(dir, ""));
        storage
            .create_dir(dir)
            .map_err(|error| OpenError::io(what(), error))?;
    }
    sync_directory(storage, Dir::Root)?;
    notes.extend(
        repair::remove_leftovers(storage)?
            .into_iter()
            .map(|name| format!("removed the leftover {name}")),
    );
    let (node, cluster) = (NodeId((params.entropy)()), ClusterId((params.entropy)()));
    let salt = salt(&mut params.entropy);
    let header = SegmentHeader {
        node,
        cluster,
        first_lsn: Lsn::ZERO,
        salt,
        epoch: Epoch::default(),
        predecessor: None,
    };
    create_segment(storage, &header, params.segment_bytes)
        .map_err(|error| OpenError::write("the first segment", params.segment_bytes, error))?;
    let first = Control {
        node,
        cluster,
        role: Role::Primary,
        promised_epoch: 1,
        promised_node: node,
        newest_segment: Some(Lsn::ZERO),
        ..Control::default()
    };
    let bytes = first.encode().len() as u64;
    let control = ControlFile::create(storage.clone(), first)
        .map_err(|error| OpenError::write("the control file", bytes, error))?;
    let position = Position {
        segment_first: Lsn::ZERO,
        segment_bytes: params.segment_bytes,
        offset: idem_protocol::wal::SEGMENT_HEADER_BYTES as u64,
        lsn: Lsn::ZERO,
        holds_record: false,
        last_seal: false,
        last_record_crc: 0,
        log_time: UnixMs::ZERO,
    };
    let writer = WriterPosition {
        position,
        salt,
        segment_crc: 0,
        synced: Lsn::ZERO,
        epoch: Epoch::default(),
    };
    Ok((control, Resume { writer, spare: None }))
}

fn take_over<S: Storage>(
    storage: &S,
    judgement: &Judgement,
    params: &OpenParams,
    notes: &mut Vec<String>,
) -> Result<(ControlFile<S>, Resume), OpenError> {
    let end = judgement.end.as_ref().expect("a log that starts has an end");
    let tail = end
        .tail
        .as_ref()
        .expect("the log was judged with its tail retained");
    let found = judgement
        .control
        .clone()
        .expect("a log that starts has a control file");
    let lsn = judgement.end_lsn;

    // A file that was cut within the zeros after its last frame gets them back: the next frame begins behind them.
    let offset = padded(end.offset);
    let position = Position {
        segment_first: end.segment_first,
        segment_bytes: end.segment_bytes.max(offset),
        offset,
        lsn,
        holds_record: lsn > end.segment_first,
        last_seal: end.last_seal,
        last_record_crc: end.last_record_crc,
        log_time: judgement.log_time,
    };

    // Only files are judged: an empty directory that somebody tidied away is made again.
    for dir in [Dir::Wal, Dir::Snap] {
        let what = || format!("making the directory {}", storage.describe(dir, ""));
        storage
            .create_dir(dir)
            .map_err(|error| OpenError::io(what(), error))?;
    }
    // What takes space comes first.
    notes.extend(
        repair::remove_leftovers(storage)?
            .into_iter()
            .map(|name| format!("removed the leftover {name}")),
    );
    let spare = first_spare(storage, position, params.segment_bytes)?;
    repair::probe_control_space(storage, &found)?;
    if judgement.row.cuts() {
        let copy = repair::copy_cut(storage, lsn, end, tail, params.now)?;
        notes.push(format!("what follows lsn {lsn} was copied to wal/{copy} and cut"));
    }
    if let Some(unborn) = &judgement.aside {
        let first = idem_protocol::wal::parse_segment_name(unborn).unwrap_or(lsn);
        let aside = repair::move_aside(storage, unborn, first, params.now)?;
        notes.push(format!(
            "the newest segment wal/{unborn} holds nothing; it is wal/{aside} now"
        ));
    }
    notes.extend(
        repair::prune_cuts(storage)?
            .into_iter()
            .map(|name| format!("removed the oldest copy {name}")),
    );

    // After row A the last thing that process did was a sync of the seal behind these bytes, and it succeeded.
    if judgement.row != Row::A {
        repair::rewrite_tail(storage, end, tail)?;
    }
    repair::complete_padding(storage, end)?;
    repair::sync_accepted(storage, judgement)?;

    let control = ControlFile::adopt(storage.clone(), found);
    let next = next_epoch(&control.read(), judgement);
    let bytes = control.read().encode().len() as u64;
    control
        .try_update(|control| {
            control.clean_end = None;
            control.promised_epoch = next;
            control.promised_node = control.node;
            control.newest_segment = Some(end.segment_first);
            control.history = merged_history(&control.history, &judgement.epochs, lsn);
        })
        .map_err(|error| OpenError::write("the control file", bytes, error))?;

    let writer = WriterPosition {
        position,
        salt: end.salt,
        segment_crc: end.segment_crc,
        synced: lsn,
        epoch: end.epoch,
    };
    Ok((control, Resume { writer, spare }))
}
