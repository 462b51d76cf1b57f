//! Where the log is to end, and what that changes.

use std::collections::BTreeMap;
use std::io;

use idem_protocol::Lsn;
use idem_protocol::wal::{
    SEGMENT_HEADER_BYTES, SegmentHeader, parse_segment_name, parse_snapshot_name, segment_name, snapshot_name,
};
use idem_wal::reader::{HeaderPage, SegmentReader, SnapshotProblem, Step, snapshot};
use idem_wal::recovery::{Finding, Judgement, Row};
use idem_wal::storage::{Dir, Storage, StorageFile};

use super::plan::Change;
use super::sparse;
use crate::exit::Failure;

/// A place between two frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// First lsn of the segment that it lies in.
    pub(super) first: Lsn,
    /// Offset in it.
    pub(super) offset: u64,
    /// The lsn there.
    pub(super) lsn: Lsn,
}

/// What was decided so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts {
    /// The end of the log; none while it stays where it is.
    pub(super) end: Option<Point>,
    /// Where segments in the middle (by first lsn) go on after the end that their successor names.
    pub(super) surplus: BTreeMap<Lsn, Point>,
    /// Segments (by first lsn) whose successor names another checksum than this, which is that of their records.
    pub(super) revouched: BTreeMap<Lsn, u32>,
}

impl Cuts {
    /// Takes in what a verdict complains about: of the directory as it is, or as it would be after the cuts so far. False
    /// when there is nothing more to cut.
    pub(super) fn take<S: Storage>(&mut self, storage: &S, found: &Judgement) -> Result<bool, Failure> {
        let segments = list_segments(storage)?;
        if found.row == Row::F
            && let Some((first, crc)) = found.reasons().find_map(other_crc)
        {
            return Ok(self.revouched.insert(first, crc) != Some(crc));
        }
        let mut at: Option<Point> = None;
        for reason in found.reasons().filter(|_| found.row == Row::J) {
            if let Some(point) = surplus(storage, &segments, reason)? {
                return Ok(self.surplus.insert(point.first, point) != Some(point));
            }
            let Some(place) = reason.place.as_ref().filter(|place| place.dir == Dir::Wal) else {
                continue;
            };
            let Some(first) = parse_segment_name(&place.name) else {
                continue;
            };
            let point = if place.offset < SEGMENT_HEADER_BYTES as u64 {
                end_before(storage, &segments, first)?
            } else {
                point_in(storage, first, |offset, _| offset > place.offset)?
            };
            let Some(point) = point else { return Ok(false) };
            if at.is_none_or(|known| point.lsn < known.lsn) {
                at = Some(point);
            }
        }
        let at = match (at, &found.end) {
            (Some(at), _) => at,
            (None, Some(end)) => Point {
                first: end.segment_first,
                offset: end.offset,
                lsn: found.end_lsn,
            },
            // The segment at L has no header: the log ends with the one before.
            (None, None) => {
                let after = segments.iter().copied().find(|first| *first >= found.end_lsn);
                let point = after.map(|first| end_before(storage, &segments, first));
                match point.transpose()?.flatten() {
                    Some(point) => point,
                    None => return Ok(false),
                }
            }
        };
        // The same place twice: cutting there was not enough, and never will be.
        let is_new = self
            .end
            .is_none_or(|known| at.lsn < known.lsn || at.first < known.first);
        self.end = Some(at);
        Ok(is_new)
    }
}

/// A segment that reads whole and has another checksum than its successor says: its first lsn and the checksum.
fn other_crc(reason: &Finding) -> Option<(Lsn, u32)> {
    let place = reason.place.as_ref().filter(|place| place.offset == 0)?;
    let first = parse_segment_name(&place.name)?;
    // What is said of the segment's begin is of its header, and so is that checksum.
    (reason.lsn? > first).then_some((first, reason.found_crc?))
}

/// The first lsns of the segments, in order.
pub(super) fn list_segments<S: Storage>(storage: &S) -> Result<Vec<Lsn>, Failure> {
    let names = storage.list(Dir::Wal).map_err(Failure::io("listing wal"))?;
    let mut firsts: Vec<Lsn> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    firsts.sort_unstable();
    Ok(firsts)
}

/// A segment's header; none for one without a good copy.
pub(super) fn header<S: Storage>(storage: &S, first: Lsn) -> Result<Option<SegmentHeader>, Failure> {
    let name = segment_name(first);
    let read = storage
        .open(Dir::Wal, &name)
        .and_then(|file| HeaderPage::read(&file));
    let page = read.map_err(Failure::io(Dir::Wal.join(&name)))?;
    Ok(page.header().ok())
}

/// A frame that begins where the next segment does, in a segment that should end there.
fn surplus<S: Storage>(storage: &S, segments: &[Lsn], reason: &Finding) -> Result<Option<Point>, Failure> {
    let place = reason.place.as_ref().filter(|place| place.dir == Dir::Wal);
    let Some(first) = place.and_then(|place| parse_segment_name(&place.name)) else {
        return Ok(None);
    };
    let Some(next) = segments.iter().copied().find(|other| *other > first) else {
        return Ok(None);
    };
    if reason.lsn.is_none_or(|lsn| lsn <= next) || header(storage, next)?.is_none() {
        return Ok(None);
    }
    let point = point_in(storage, first, |_, lsn| lsn > next)?;
    Ok(point.filter(|point| point.lsn == next))
}

/// Where the log ends when this segment and all later ones go.
fn end_before<S: Storage>(storage: &S, segments: &[Lsn], first: Lsn) -> Result<Option<Point>, Failure> {
    match segments.iter().copied().rfind(|other| *other < first) {
        Some(before) => point_in(storage, before, |_, _| false),
        None => Ok(None),
    }
}

/// The begin of the first frame of a segment whose end (offset, lsn) lies too far; without such a one, where its frames end.
fn point_in<S: Storage>(
    storage: &S,
    first: Lsn,
    too_far: impl Fn(u64, Lsn) -> bool,
) -> Result<Option<Point>, Failure> {
    let Some(header) = header(storage, first)? else {
        return Ok(None);
    };
    let name = segment_name(first);
    let walk = || -> io::Result<Point> {
        let mut reader = SegmentReader::new(storage.open(Dir::Wal, &name)?, header)?;
        loop {
            let point = Point {
                first,
                offset: reader.offset(),
                lsn: reader.lsn(),
            };
            let is_frame = matches!(reader.next_frame()?, Step::Frame(_));
            if !is_frame || too_far(reader.offset(), reader.lsn()) {
                return Ok(point);
            }
        }
    };
    walk().map(Some).map_err(Failure::io(Dir::Wal.join(&name)))
}

/// What the cuts change, in the order in which it is done. `judgement` is the first one.
pub(super) fn changes<S: Storage>(
    storage: &S,
    judgement: &Judgement,
    cuts: &Cuts,
) -> Result<Vec<Change>, Failure> {
    let segments = list_segments(storage)?;
    let mut changes = Vec::new();
    if let Some(end) = cuts.end {
        let snapshots = snapshots_beyond(storage, end.lsn)?;
        changes.extend(control(storage, judgement, end, &snapshots)?);
        for start in snapshots.iter().rev() {
            changes.push(moved(storage, Dir::Snap, snapshot_name(*start))?);
        }
        for first in segments.iter().rev().filter(|first| **first > end.first) {
            changes.push(moved(storage, Dir::Wal, segment_name(*first))?);
        }
    }
    // What would go as a whole needs no change of its own.
    let stays = |first: Lsn| cuts.end.is_none_or(|end| first < end.first);
    for (before, crc) in &cuts.revouched {
        let next = segments.iter().copied().find(|first| first > before);
        let Some(next) = next.filter(|next| cuts.end.is_none_or(|end| *next <= end.first)) else {
            continue;
        };
        let mut header = header(storage, next)?;
        if let Some(header) = &mut header
            && let Some(predecessor) = &mut header.predecessor
        {
            predecessor.crc = *crc;
            changes.push(Change::Header {
                name: segment_name(next),
                header: *header,
            });
        }
    }
    let surplus = cuts.surplus.values().filter(|point| stays(point.first));
    for Point { first, offset, .. } in surplus.chain(&cuts.end).copied() {
        let name = segment_name(first);
        let used = used_after(storage, &name, offset);
        let (bytes, data_bytes) = used.map_err(Failure::io(Dir::Wal.join(&name)))?;
        if bytes > 0 {
            changes.push(Change::Cut {
                name,
                offset,
                bytes,
                data_bytes,
            });
        }
    }
    Ok(changes)
}

/// The snapshots that a log with this end contradicts: they reach beyond it, or are damaged and would begin there.
fn snapshots_beyond<S: Storage>(storage: &S, end: Lsn) -> Result<Vec<Lsn>, Failure> {
    let names = storage.list(Dir::Snap).map_err(Failure::io("listing snap"))?;
    let mut starts: Vec<Lsn> = names
        .iter()
        .filter_map(|name| parse_snapshot_name(name))
        .collect();
    starts.sort_unstable();
    starts.retain(|start| {
        let read = snapshot::read(storage, &snapshot_name(*start), None, &mut |_, _| {});
        match read {
            Ok(snapshot) => snapshot.trailer.end_lsn > end,
            Err(SnapshotProblem::Damaged { .. }) => *start > end,
            // Nobody knows what these say.
            Err(_) => false,
        }
    });
    Ok(starts)
}

/// The control file without what the end contradicts; none when it contradicts nothing.
fn control<S: Storage>(
    storage: &S,
    judgement: &Judgement,
    end: Point,
    gone: &[Lsn],
) -> Result<Option<Change>, Failure> {
    let Some(found) = &judgement.control else {
        return Ok(None);
    };
    let mut next = found.clone();
    next.newest_segment = found.newest_segment.map(|named| named.min(end.first));
    next.clean_end = found.clean_end.filter(|clean| *clean == end.lsn);
    // An epoch is noted when its first record is on disk; without that record it never was.
    next.history.retain(|entry| entry.first_lsn <= end.lsn);
    if found.newest_snapshot.is_some_and(|start| gone.contains(&start)) {
        let names = storage.list(Dir::Snap).map_err(Failure::io("listing snap"))?;
        let starts = names.iter().filter_map(|name| parse_snapshot_name(name));
        next.newest_snapshot = starts.filter(|start| !gone.contains(start)).max();
    }
    if next == *found {
        return Ok(None);
    }
    let old_bytes = Some(found.encode().len() as u64);
    Ok(Some(Change::Control {
        control: Box::new(next),
        old_bytes,
    }))
}

fn moved<S: Storage>(storage: &S, dir: Dir, name: String) -> Result<Change, Failure> {
    let bytes = storage.open(dir, &name).and_then(|file| file.len());
    let bytes = bytes.map_err(Failure::io(dir.join(&name)))?;
    Ok(Change::Move { dir, name, bytes })
}

/// Bytes from `offset` to behind the last one that is not zero, and those of them in pages that are not zero.
fn used_after<S: Storage>(storage: &S, name: &str, offset: u64) -> io::Result<(u64, u64)> {
    let file = storage.open(Dir::Wal, name)?;
    let (mut used, mut data) = (0, 0);
    sparse::runs(&file, offset, u64::MAX, &mut |at, run| {
        let last = run.iter().rposition(|byte| *byte != 0);
        used = at - offset + last.map_or(0, |last| last as u64 + 1);
        data += run.len() as u64;
        Ok(())
    })?;
    Ok((used, data.min(used)))
}
