//! What is in a directory, before any frame is read: control file, names, headers, snapshots.

use std::io;

use idem_protocol::control::Control;
use idem_protocol::wal::{
    HeaderError, SEGMENT_HEADER_BYTES, SegmentHeader, parse_segment_name, segment_name,
};
use idem_protocol::{ClusterId, Lsn, NodeId};

use super::cases::Row;
use super::judge::Sink;
use super::judgement::{Finding, FindingKind};
use super::until::Until;
use crate::control::CONTROL_BYTES_MAX;
use crate::reader::{HeaderPage, Snapshot, SnapshotProblem, snapshot};
use crate::storage::{Dir, Storage, StorageFile, durable};

/// Its name.
pub(crate) const CONTROL_NAME: &str = "control";

/// The control file, as it was found.
#[derive(Debug)]
pub(super) enum ControlFound {
    Missing,
    Damaged,
    NewerFormat(u32),
    Unreadable(io::Error),
    Good(Box<Control>),
}

pub(super) fn read_control<S: Storage>(storage: &S) -> ControlFound {
    let file = match storage.open(Dir::Root, CONTROL_NAME) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return ControlFound::Missing,
        Err(error) => return ControlFound::Unreadable(error),
    };
    let bytes = match file.len().and_then(|bytes| match bytes {
        0..=CONTROL_BYTES_MAX => durable::read_all(&file, CONTROL_BYTES_MAX).map(Some),
        _ => Ok(None),
    }) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return ControlFound::Damaged,
        Err(error) => return ControlFound::Unreadable(error),
    };
    match Control::decode(&bytes) {
        Ok(control) => ControlFound::Good(Box::new(control)),
        Err(HeaderError::Damaged) => ControlFound::Damaged,
        Err(HeaderError::NewerFormat(format)) => ControlFound::NewerFormat(format),
    }
}

/// One segment of the directory.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub(super) name: String,
    pub(super) first: Lsn,
    /// Length and header page; an error for a file that cannot be read.
    pub(super) read: Result<(u64, HeaderPage), String>,
}

impl SegmentFile {
    pub(super) fn header(&self) -> Option<SegmentHeader> {
        self.read.as_ref().ok().and_then(|(_, page)| page.header().ok())
    }

    /// Whether it was read, and neither copy of its header is good.
    pub(super) fn has_lost_header(&self) -> bool {
        let page = self.read.as_ref().map(|(_, page)| page.header());
        page == Ok(Err(HeaderError::Damaged))
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.read.as_ref().map_or(0, |(bytes, _)| *bytes)
    }
}

/// The segments by first lsn, and the names in `wal` that end like one and are none.
pub(super) fn list_segments<S: Storage>(storage: &S) -> io::Result<(Vec<SegmentFile>, Vec<String>)> {
    let mut segments = Vec::new();
    let mut strange = Vec::new();
    for name in storage.list(Dir::Wal)? {
        let Some(first) = parse_segment_name(&name) else {
            if name.ends_with(".wal") {
                strange.push(name);
            }
            continue;
        };
        let read = storage
            .open(Dir::Wal, &name)
            .and_then(|file| Ok((file.len()?, HeaderPage::read(&file)?)))
            .map_err(|error| error.to_string());
        segments.push(SegmentFile { name, first, read });
    }
    segments.sort_by_key(|segment| segment.first);
    Ok((segments, strange))
}

/// True when a file holds nothing but zeros from `from` on.
pub(super) fn is_zero_from<S: Storage>(storage: &S, name: &str, from: u64) -> io::Result<bool> {
    let file = storage.open(Dir::Wal, name)?;
    let mut chunk = vec![0; 1 << 18];
    let mut offset = from;
    loop {
        match durable::read_exact_or_end(&file, offset, &mut chunk)? {
            0 => return Ok(true),
            read if chunk[..read].iter().any(|byte| *byte != 0) => return Ok(false),
            read => offset += read as u64,
        }
    }
}

/// A directory without `control` and without snapshots that has no segment, or only that of lsn 0 with nothing but zeros
/// after its header: it was being made when the process ended, and nothing was ever promised from it.
pub(super) fn is_new<S: Storage>(
    storage: &S,
    control: &ControlFound,
    segments: &[SegmentFile],
    has_snapshots: bool,
) -> io::Result<bool> {
    if !matches!(control, ControlFound::Missing) || has_snapshots {
        return Ok(false);
    }
    match segments {
        [] => Ok(true),
        [only] if only.first == Lsn::ZERO => {
            is_zero_from(storage, &segment_name(Lsn::ZERO), SEGMENT_HEADER_BYTES as u64)
        }
        _ => Ok(false),
    }
}

/// Whose files these should be: what the control file says, else the newest segment.
pub(super) fn identity(control: &ControlFound, segments: &[SegmentFile]) -> Option<(NodeId, ClusterId)> {
    match control {
        ControlFound::Good(control) => Some((control.node, control.cluster)),
        _ => segments
            .iter()
            .rev()
            .find_map(|segment| segment.header())
            .map(|header| (header.node, header.cluster)),
    }
}

/// What became of the snapshots.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// The newest valid one: reading begins with it.
    pub(super) used: Option<Snapshot>,
    /// Older valid ones, when all were asked for.
    pub(super) others: Vec<Snapshot>,
    pub(super) findings: Vec<Finding>,
}

/// Reads the snapshots from the newest on until one is valid and ends within `until`, and the others' headers, or all of
/// them with `all`.
/// The items of the valid one are in the sink then, and nothing else.
pub(super) fn read_snapshots<S: Storage>(
    storage: &S,
    starts: &[Lsn],
    excluded: &[Lsn],
    until: Until,
    cluster: Option<ClusterId>,
    all: bool,
    sink: &mut dyn Sink,
) -> Snapshots {
    let mut result = Snapshots::default();
    for start in starts.iter().rev() {
        let name = idem_protocol::wal::snapshot_name(*start);
        if excluded.contains(start) {
            let message = "the log contradicts this snapshot; it is not used";
            result.findings.push(
                Finding::new(FindingKind::Beside, message)
                    .at(Dir::Snap, &name, 0)
                    .lsn(*start),
            );
            continue;
        }
        let read = if result.used.is_none() {
            let read = snapshot::read(storage, &name, cluster, &mut |raw, record| {
                sink.snapshot_item(raw, record)
            });
            if read.is_err() {
                sink.reset();
            }
            read.map(Some)
        } else if all {
            snapshot::read(storage, &name, cluster, &mut |_, _| {}).map(Some)
        } else {
            snapshot::read_header(storage, &name).and_then(|header| match cluster {
                Some(cluster) if cluster != header.cluster => {
                    Err(SnapshotProblem::OtherCluster(header.cluster))
                }
                _ => Ok(None),
            })
        };
        match read {
            Ok(None) => {}
            Ok(Some(snapshot)) if !until.holds(snapshot.trailer.end_lsn, snapshot.trailer.log_time) => {
                if result.used.is_none() {
                    sink.reset();
                }
                result.others.push(snapshot);
            }
            Ok(Some(snapshot)) if result.used.is_none() => result.used = Some(snapshot),
            Ok(Some(snapshot)) => result.others.push(snapshot),
            Err(problem) => {
                let (kind, offset) = match &problem {
                    SnapshotProblem::Damaged { offset, .. } | SnapshotProblem::Unreadable { offset, .. } => {
                        (FindingKind::Beside, *offset)
                    }
                    SnapshotProblem::NewerFormat(_) | SnapshotProblem::OtherCluster(_) => {
                        (FindingKind::Row(Row::H), 0)
                    }
                };
                let message = format!("snapshot cannot be used: {problem}");
                let mut finding = Finding::new(kind, message)
                    .at(Dir::Snap, &name, offset)
                    .lsn(*start);
                if let SnapshotProblem::Damaged {
                    crcs: Some((expected, found)),
                    ..
                } = problem
                {
                    finding = finding.crcs(expected, found);
                }
                result.findings.push(finding);
            }
        }
    }
    result
}
