//! The verdict: reads a directory, changes nothing, answers with a row.

use idem_protocol::wal::{FrameHeader, RawRecord, Record};
use idem_protocol::{Lsn, UnixMs};

use super::cases::Row;
use super::judgement::{Finding, FindingKind, Judgement};
use super::pass::{Outcome, Pass};
use super::repair;
use super::until::Until;
use crate::storage::{Dir, Storage};

/// How to judge.
#[derive(Clone, Copy, Debug, Default)]
pub struct JudgeOptions {
    /// Keep what [`open`](super::open) has to write again. Costs memory for the unwitnessed end of the log.
    pub retain_tail: bool,
    /// Read every snapshot to its end, also those that are not needed.
    pub all_snapshots: bool,
    /// Another process is writing: what lies beyond the newest synced mark is being written and no finding.
    pub live: bool,
}

/// Where a record or a frame lies.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Name of the segment.
    pub file: &'a str,
    /// Offset in it.
    pub offset: u64,
}

/// Takes what the judge reads, as it reads it. Until the verdict is there, all of it is provisional.
pub trait Sink {
    /// Forget everything: reading begins anew, with another snapshot or without one.
    fn reset(&mut self);
    /// An item of the snapshot that reading begins with.
    fn snapshot_item(&mut self, raw: &RawRecord<'_>, item: &Record<'_>);
    /// A record at or above the snapshot's start.
    fn record(&mut self, at: Place<'_>, raw: &RawRecord<'_>, record: &Record<'_>);
    /// A valid frame of a judged segment, before its records.
    fn frame(&mut self, at: Place<'_>, header: &FrameHeader) {
        let _ = (at, header);
    }
}

/// Takes nothing: for those who want only the verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignore;

impl Sink for Ignore {
    fn reset(&mut self) {}
    fn snapshot_item(&mut self, _: &RawRecord<'_>, _: &Record<'_>) {}
    fn record(&mut self, _: Place<'_>, _: &RawRecord<'_>, _: &Record<'_>) {}
}

/// A file of this name stands in the data directory while `walctl restore` makes it.
pub const RESTORE_MARK: &str = "restore.incomplete";
/// A file of this name stands in the data directory while `walctl repair` changes it, and names the backup.
pub const REPAIR_MARK: &str = "repair.incomplete";

/// The marks of those who change a directory in several steps, and what one that is left says. They come first and go last:
/// beside one, a part may be missing, not be changed yet, or not be on disk.
const MARKS: [(&str, &str); 2] = [
    (
        RESTORE_MARK,
        "a restore into this directory did not come to its end; walctl restore can be repeated, with the command in that file",
    ),
    (
        REPAIR_MARK,
        "a repair of this directory did not come to its end; walctl repair says how to finish it or to take it back",
    ),
];

/// How often a live directory is read again when it changed under the reader.
const LIVE_ATTEMPTS: usize = 5;

/// Reads the directory and says what it is.
///
/// Reads only, through `storage`. Memory is bounded by the largest frame, and with `retain_tail` by the end of the newest
/// segment that no witness vouches for.
pub fn judge<S: Storage>(storage: &S, options: &JudgeOptions, sink: &mut dyn Sink) -> Judgement {
    judge_until(storage, options, Until::End, sink)
}

/// As [`judge`], for an earlier state: reading begins with the newest valid snapshot that ends within `until`, or at lsn 0.
/// A snapshot is no state before its end, so a newer one cannot be gone back from; it is read and stays a witness.
///
/// The verdict is on all that is read, from that start to the end of the log, and the sink gets all of it: what is beyond
/// `until` is the sink's to leave out. `HOLE` may only mean that the log does not reach back far enough for this state.
pub fn judge_until<S: Storage>(
    storage: &S,
    options: &JudgeOptions,
    until: Until,
    sink: &mut dyn Sink,
) -> Judgement {
    let attempts = if options.live { LIVE_ATTEMPTS } else { 1 };
    let mut judgement = judge_once(storage, options, until, sink);
    for _ in 1..attempts {
        // Files go and grow while a live directory is read in pieces; what is really damaged is so the next time too.
        if !judgement.row.refuses() {
            break;
        }
        sink.reset();
        judgement = judge_once(storage, options, until, sink);
    }
    if options.live && !judgement.row.refuses() && judgement.row != Row::New {
        vouch(&mut judgement);
    }
    judgement.findings.extend(repair::obstacles(storage));
    for (row, message) in half_done(storage) {
        if judgement.row.refuses() {
            // Nothing starts anyway; that somebody was in the middle of it may be why.
            if row == Row::G {
                judgement
                    .findings
                    .push(Finding::new(FindingKind::Beside, message));
            }
            continue;
        }
        let finding = Finding::new(FindingKind::Row(row), message);
        judgement.findings.insert(0, finding);
        judgement.row = row;
        judgement.verdict = row.into();
    }
    judgement
}

/// What the marks say that are there; or that it is not known which are.
fn half_done<S: Storage>(storage: &S) -> Vec<(Row, String)> {
    match storage.list(Dir::Root) {
        Ok(names) => MARKS
            .into_iter()
            .filter(|(mark, _)| names.iter().any(|name| name == mark))
            .map(|(mark, what)| (Row::G, format!("{mark}: {what}")))
            .collect(),
        Err(error) => vec![(Row::I, format!("listing the data directory: {error}"))],
    }
}

/// Takes back what a live directory's verdict cannot know: only what a sync had covered is vouched for.
fn vouch(judgement: &mut Judgement) {
    let witnessed = judgement.end.as_ref().map_or(Lsn::ZERO, |end| end.witnessed);
    let unvouched = judgement.end.as_ref().map_or(0, |end| end.unvouched_records);
    judgement.live = true;
    judgement.records -= unvouched;
    judgement.end_lsn = witnessed.min(judgement.end_lsn);
    let vouched = judgement.end.as_ref().map(|end| end.vouched_time);
    let snapshot = judgement.snapshot.as_ref().map(|used| used.trailer.log_time);
    judgement.log_time = vouched.max(snapshot).unwrap_or_default();
    judgement.row = Row::B;
    judgement.verdict = Row::B.into();
    judgement
        .findings
        .retain(|finding| finding.kind == FindingKind::Beside);
}

fn judge_once<S: Storage>(
    storage: &S,
    options: &JudgeOptions,
    until: Until,
    sink: &mut dyn Sink,
) -> Judgement {
    // A snapshot that the log contradicts is found out only when the log has been read up to its end. There are at most
    // as many rounds as snapshots.
    let mut excluded: Vec<Lsn> = Vec::new();
    loop {
        match Pass::new(storage, options, until, &excluded).run(sink) {
            Outcome::Judged(judgement) => return *judgement,
            Outcome::SnapshotContradicted(start) => {
                assert!(
                    !excluded.contains(&start),
                    "an excluded snapshot is not used again"
                );
                excluded.push(start);
                sink.reset();
            }
        }
    }
}

/// The larger of two times; here because a log's time never goes back.
pub(super) fn later(a: UnixMs, b: UnixMs) -> UnixMs {
    a.max(b)
}
