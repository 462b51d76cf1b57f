//! One reading of a directory, from the control file to what stands after L.
//!
//! [`Pass::run`] is the order of things: what is there (`inventory`), whether it fits together (`checks`), frame by frame up
//! to L (`frames`), what stands behind it and beside it (`after`), and the row.

mod after;
mod checks;
mod frames;

use std::collections::VecDeque;

use idem_protocol::{Epoch, HistoryEntry, Lsn, UnixMs};

use super::cases::{Evidence, Row};
use super::inventory::{self, ControlFound, SegmentFile, Snapshots};
use super::judge::{JudgeOptions, Sink, later};
use super::judgement::{
    Finding, FindingKind, Judgement, LogEnd, SegmentSummary, SnapshotSummary, UnjudgedSegment,
};
use super::tail::TailImage;
use super::until::Until;
use crate::reader::{SegmentReader, Stop, snapshot};
use crate::storage::{Dir, Storage};

/// What a reading ends with.
pub(super) enum Outcome {
    Judged(Box<Judgement>),
    /// The log has another record where this snapshot ends: read again without it.
    SnapshotContradicted(Lsn),
}

/// The state of one reading.
pub(super) struct Pass<'a, S: Storage> {
    storage: &'a S,
    options: &'a JudgeOptions,
    until: Until,
    excluded: &'a [Lsn],
    evidence: Evidence,
    findings: Vec<Finding>,
    segments: Vec<SegmentSummary>,
    epochs: Vec<HistoryEntry>,
    records: u64,
    /// Segments wholly below the snapshot.
    unjudged: Vec<UnjudgedSegment>,
    /// Segments behind the one with L.
    unread: VecDeque<UnjudgedSegment>,
    /// Of a live directory: each frame above the highest mark so far.
    unvouched: VecDeque<Unvouched>,
    /// Of a live directory: the time of the newest record below it.
    vouched_time: UnixMs,
    /// Where the last valid frame ends, and the time of the newest record so far.
    read_to: Lsn,
    read_time: UnixMs,
    /// Where the snapshot that reading began with ends, and when.
    base: Option<(Lsn, UnixMs)>,
    epoch: Epoch,
    /// The highest synced mark of a valid frame.
    mark: Lsn,
    last_record_crc: u32,
    /// Ends of snapshots that the log has to agree with, and whether it does.
    ends: Vec<SnapshotEnd>,
}

struct SnapshotEnd {
    start: Lsn,
    end: Lsn,
    crc: u32,
    used: bool,
    agreed: bool,
}

/// A frame that no mark covers yet.
struct Unvouched {
    end: Lsn,
    records: u64,
    /// The log's time at its end.
    time: UnixMs,
}

/// Where reading stopped.
struct Reached<S: Storage> {
    segment: SegmentFile,
    reader: Option<SegmentReader<S::File>>,
    offset: u64,
    lsn: Lsn,
    is_newest: bool,
    segment_crc: u32,
    last_seal: bool,
    stop: Option<Stop>,
    /// The next segment, when the log reads up to its first lsn and its header is lost.
    lost_next: Option<String>,
    tail: Option<TailImage>,
}

impl<'a, S: Storage> Pass<'a, S> {
    pub(super) fn new(storage: &'a S, options: &'a JudgeOptions, until: Until, excluded: &'a [Lsn]) -> Self {
        Pass {
            storage,
            options,
            until,
            excluded,
            evidence: Evidence::default(),
            findings: Vec::new(),
            segments: Vec::new(),
            epochs: Vec::new(),
            records: 0,
            unjudged: Vec::new(),
            unread: VecDeque::new(),
            unvouched: VecDeque::new(),
            vouched_time: UnixMs::ZERO,
            read_to: Lsn::ZERO,
            read_time: UnixMs::ZERO,
            base: None,
            epoch: Epoch::default(),
            mark: Lsn::ZERO,
            last_record_crc: 0,
            ends: Vec::new(),
        }
    }

    fn note(&mut self, row: Row, finding: Finding) {
        let flag = match row {
            Row::I => &mut self.evidence.read_failed,
            Row::H => &mut self.evidence.foreign,
            Row::G => &mut self.evidence.incomplete,
            Row::J => &mut self.evidence.impossible,
            _ => unreachable_row(row),
        };
        *flag = true;
        self.findings.push(Finding {
            kind: FindingKind::Row(row),
            ..finding
        });
    }

    fn reason(&mut self, row: Row, message: impl Into<String>) -> &mut Finding {
        self.findings.push(Finding::new(FindingKind::Row(row), message));
        self.findings.last_mut().expect("a finding was pushed")
    }

    fn read_failed(&mut self, what: &str, dir: Dir, name: &str, error: &dyn std::fmt::Display) {
        let message = format!("{what} cannot be read: {error}");
        let finding = Finding::new(FindingKind::Row(Row::I), message).at(dir, name, 0);
        // What cannot even be opened is met again where its frames would be read.
        if !self.findings.contains(&finding) {
            self.note(Row::I, finding);
        }
    }

    pub(super) fn run(mut self, sink: &mut dyn Sink) -> Outcome {
        let found = inventory::read_control(self.storage);
        let in_dir = |dir: Dir| move |error| (dir, error);
        let listed = inventory::list_segments(self.storage)
            .map_err(in_dir(Dir::Wal))
            .and_then(|segments| {
                let snapshots = snapshot::list(self.storage).map_err(in_dir(Dir::Snap))?;
                Ok((segments, snapshots))
            });
        let ((mut segments, strange), (starts, strange_snapshots)) = match listed {
            Ok(listed) => listed,
            Err((dir, error)) => {
                self.read_failed("the directory", dir, "", &error);
                return self.finish(&found, Snapshots::default(), None, None, None);
            }
        };
        match inventory::is_new(
            self.storage,
            &found,
            &segments,
            !starts.is_empty() || !strange_snapshots.is_empty(),
        ) {
            Ok(true) if strange.is_empty() => {
                return Outcome::Judged(Box::new(self.judgement(Row::New, None, Lsn::ZERO)));
            }
            Ok(_) => {}
            Err(error) => self.read_failed("the only segment", Dir::Wal, &segments[0].name, &error),
        }
        self.check_control(&found);
        for name in strange {
            let finding = Finding::new(
                FindingKind::Row(Row::G),
                "not the name of a segment, though it ends in .wal",
            );
            self.note(Row::G, finding.at(Dir::Wal, &name, 0));
        }
        for name in strange_snapshots {
            let finding = Finding::new(FindingKind::Beside, "not the name of a snapshot; it is not used");
            self.findings.push(finding.at(Dir::Snap, &name, 0));
        }
        let identity = inventory::identity(&found, &segments);
        self.check_headers(&segments, identity);
        let cluster = identity.map(|(_, cluster)| cluster);
        let mut snapshots = inventory::read_snapshots(
            self.storage,
            &starts,
            self.excluded,
            self.until,
            cluster,
            self.options.all_snapshots,
            sink,
        );
        for finding in std::mem::take(&mut snapshots.findings) {
            if finding.kind == FindingKind::Beside {
                self.findings.push(finding);
            } else {
                self.note(Row::H, finding);
            }
        }
        let start = snapshots
            .used
            .as_ref()
            .map_or(Lsn::ZERO, |snapshot| snapshot.header.start_lsn);

        let aside = match self.take_unborn(&mut segments) {
            Ok(aside) => aside,
            Err((name, error)) => {
                self.read_failed("the newest segment", Dir::Wal, &name, &error);
                None
            }
        };
        self.check_newest(&found, &segments);
        let judged = segments
            .partition_point(|segment| segment.first <= start)
            .saturating_sub(1);
        self.check_kept(segments.get(..=judged).unwrap_or_default());
        let judged: Vec<SegmentFile> = segments.drain(judged.min(segments.len())..).collect();
        if judged.is_empty() {
            self.note(
                Row::G,
                Finding::new(FindingKind::Row(Row::G), "no segment of the log is left"),
            );
            return self.finish(&found, snapshots, None, aside, Some(start));
        }
        for segment in &judged {
            if let Err(error) = &segment.read {
                self.read_failed("a segment", Dir::Wal, &segment.name, error);
            }
        }
        self.check_chain(&judged, start);
        self.expect_ends(&snapshots, &judged[0]);
        let reached = match self.read(judged, start, sink) {
            Ok(reached) => reached,
            Err((name, error)) => {
                self.read_failed("a segment", Dir::Wal, &name, &error);
                return self.finish(&found, snapshots, None, aside, Some(start));
            }
        };
        for end in &self.ends {
            if end.used && !end.agreed && end.end <= reached.lsn {
                return Outcome::SnapshotContradicted(end.start);
            }
        }
        self.finish(&found, snapshots, Some(reached), aside, Some(start))
    }

    fn finish(
        mut self,
        found: &ControlFound,
        snapshots: Snapshots,
        reached: Option<Reached<S>>,
        aside: Option<String>,
        start: Option<Lsn>,
    ) -> Outcome {
        let control = match found {
            ControlFound::Good(control) => Some(control.as_ref().clone()),
            _ => None,
        };
        let lsn = match &reached {
            Some(reached) => reached.lsn,
            // A read failed on the way, or there is nothing to read.
            None => self.read_to.max(start.unwrap_or_default()),
        };
        let end = reached.and_then(|reached| self.look_after(reached, &snapshots, control.as_ref()));
        for stale in self
            .ends
            .iter()
            .filter(|end| !end.used && !end.agreed && end.end <= lsn)
        {
            let name = idem_protocol::wal::snapshot_name(stale.start);
            let finding = Finding::new(
                FindingKind::Beside,
                "the log contradicts this snapshot; it would not be used",
            );
            self.findings.push(finding.at(Dir::Snap, &name, 0).lsn(stale.end));
        }
        let row = self.evidence.classify();
        let mut judgement = self.judgement(row, end, lsn);
        judgement.control = control;
        judgement.aside = aside;
        judgement.snapshot = snapshots.used.map(|used| SnapshotSummary {
            name: used.name,
            start: used.header.start_lsn,
            end: used.trailer.end_lsn,
            items: used.items,
            trailer: used.trailer,
        });
        Outcome::Judged(Box::new(judgement))
    }

    fn judgement(self, row: Row, end: Option<LogEnd>, end_lsn: Lsn) -> Judgement {
        let mut findings = self.findings;
        findings.sort_by_key(|finding| finding.kind != FindingKind::Row(row));
        // A snapshot's time is that of its end. A log that does not reach it is as old as its own last record.
        let base_time = self.base.filter(|(end, _)| *end <= end_lsn).map(|(_, time)| time);
        Judgement {
            verdict: row.into(),
            row,
            live: false,
            end_lsn,
            log_time: later(self.read_time, base_time.unwrap_or_default()),
            records: self.records,
            unjudged_segments: self.unjudged,
            unread_segments: self.unread.into(),
            findings,
            segments: self.segments,
            control: None,
            snapshot: None,
            epochs: self.epochs,
            end,
            aside: None,
        }
    }
}

fn unreachable_row(row: Row) -> ! {
    unreachable!("row {row:?} has no flag of its own")
}
