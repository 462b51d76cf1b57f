//! The verdict: reads a directory, changes nothing, answers with a row.

use idem_protocol::wal::{FrameHeader, RawRecord, Record};
use idem_protocol::{Lsn, UnixMs};

use super::cases::Row;
use super::judgement::{Finding, FindingKind, Judgement};
use super::pass::{Outcome, Pass};
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
    if !judgement.row.refuses()
        && let Some((row, message)) = half_restored(storage)
    {
        let finding = Finding::new(FindingKind::Row(row), message);
        judgement.findings.insert(0, finding);
        judgement.row = row;
        judgement.verdict = row.into();
    }
    judgement
}

/// Whether a part of a restored log may be missing, or not be on disk (the mark goes last), or whether that is not known.
fn half_restored<S: Storage>(storage: &S) -> Option<(Row, String)> {
    match storage.list(Dir::Root) {
        Ok(names) => names.iter().any(|name| name == RESTORE_MARK).then(|| {
            let what =
                "a restore into this directory did not come to its end; walctl restore can be repeated";
            (Row::G, format!("{RESTORE_MARK}: {what}"))
        }),
        Err(error) => Some((Row::I, format!("listing the data directory: {error}"))),
    }
}

/// Takes back what a live directory's verdict cannot know: only what a sync had covered is vouched for.
fn vouch(judgement: &mut Judgement) {
    let witnessed = judgement.end.as_ref().map_or(Lsn::ZERO, |end| end.witnessed);
    let unvouched = judgement.end.as_ref().map_or(0, |end| end.unvouched_records);
    judgement.live = true;
    judgement.records -= unvouched;
    judgement.end_lsn = witnessed.min(judgement.end_lsn);
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
