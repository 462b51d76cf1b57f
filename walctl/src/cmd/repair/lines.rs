//! A plan as JSON: what `--json` prints, and what the backup keeps so that an interrupted repair can be gone on with.

use std::io::{self, Write};
use std::path::Path;

use idem_wal::recovery::{Judgement, Verdict};
use idem_wal::storage::Dir;
use serde::{Deserialize, Serialize};

use super::elsewhere::Elsewhere;
use super::loss::Loss;
use super::plan::{After, Change, Proposal};
use super::report::{Proposed, also};
use super::resume::Unfinished;
use crate::text::Escaped;

#[derive(Serialize)]
struct PlanLine<'a> {
    #[serde(flatten)]
    verdict: VerdictLine<'a>,
    plan: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<ChangeLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<LostLine<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<AfterLine>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    #[serde(flatten)]
    elsewhere: Option<ElsewhereLine<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backup_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    available_bytes: Option<u64>,
}

#[derive(Serialize)]
struct VerdictLine<'a> {
    verdict: &'static str,
    letter: char,
    end_lsn: u64,
    /// Absent when nothing tells.
    #[serde(skip_serializing_if = "is_zero")]
    log_time_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    /// What stands beside the verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<String>,
}

/// A change; in the backup, what is to be done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ChangeLine {
    pub(super) change: String,
    pub(super) file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) offset: Option<u64>,
    pub(super) bytes: u64,
    /// Of what becomes zeros: so much is copied, the rest is zeros already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
}

/// What is read again of the backup's description.
#[derive(Debug, Deserialize)]
pub(super) struct Recorded {
    pub(super) plan: String,
    #[serde(default)]
    pub(super) changes: Vec<ChangeLine>,
}

#[derive(Serialize)]
struct LostLine<'a> {
    from_lsn: u64,
    to_lsn: u64,
    #[serde(skip_serializing_if = "is_false")]
    to_lsn_at_least: bool,
    records: u64,
    unread_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_time_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_time_ms: Option<u64>,
    keys: usize,
    #[serde(skip_serializing_if = "is_false")]
    keys_at_least: bool,
    some_keys: Vec<KeyLine<'a>>,
}

#[derive(Serialize)]
struct KeyLine<'a> {
    db: u8,
    key: Escaped<'a>,
}

#[derive(Serialize)]
struct AfterLine {
    verdict: &'static str,
    letter: char,
    end_lsn: u64,
    #[serde(skip_serializing_if = "is_zero")]
    log_time_ms: u64,
}

#[derive(Serialize)]
struct ElsewhereLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    restore_to_lsn: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    archives: Vec<ArchiveLine<'a>>,
}

#[derive(Serialize)]
struct ArchiveLine<'a> {
    store: Escaped<'a>,
    end_lsn: u64,
}

#[derive(Serialize)]
struct UnfinishedLine<'a> {
    #[serde(flatten)]
    verdict: VerdictLine<'a>,
    /// The plan that was begun.
    unfinished: &'static str,
    backup: Escaped<'a>,
    changes: Vec<ChangeLine>,
}

#[derive(Serialize)]
struct DoneLine<'a> {
    repaired: bool,
    backup: Escaped<'a>,
    verdict: &'static str,
    letter: char,
    end_lsn: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the serializer hands over a reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the serializer hands over a reference"
)]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl From<&Change> for ChangeLine {
    fn from(change: &Change) -> ChangeLine {
        let line = |change_word: &str, file: String, offset, bytes| ChangeLine {
            change: change_word.to_owned(),
            file,
            offset,
            bytes,
            data_bytes: None,
            node: None,
        };
        match change {
            Change::Control { control, .. } => ChangeLine {
                node: Some(control.node.to_string()),
                ..line(
                    "replace",
                    "control".to_owned(),
                    None,
                    control.encode().len() as u64,
                )
            },
            Change::Header { name, header } => ChangeLine {
                node: Some(header.node.to_string()),
                ..line(
                    "header",
                    Dir::Wal.join(name),
                    Some(0),
                    header.encode_page().len() as u64,
                )
            },
            Change::Move { dir, name, bytes } => line("move", dir.join(name), None, *bytes),
            Change::Cut {
                name,
                offset,
                bytes,
                data_bytes,
            } => ChangeLine {
                data_bytes: Some(*data_bytes),
                ..line("zero", Dir::Wal.join(name), Some(*offset), *bytes)
            },
        }
    }
}

fn verdict_line(judgement: &Judgement) -> VerdictLine<'_> {
    let reason = judgement.reasons().next();
    let place = reason.and_then(|finding| finding.place.as_ref());
    VerdictLine {
        verdict: judgement.verdict.word(),
        letter: judgement.letter(),
        end_lsn: judgement.end_lsn.get(),
        log_time_ms: judgement.log_time.get(),
        reason: reason.map(|finding| finding.message.as_str()),
        file: place.map(|place| place.dir.join(&place.name)),
        offset: place.map(|place| place.offset),
        also: also(judgement).collect(),
    }
}

fn lost_line(loss: &Loss) -> LostLine<'_> {
    let samples = loss.samples.iter().map(|(db, key)| KeyLine {
        db: *db,
        key: Escaped(key),
    });
    LostLine {
        from_lsn: loss.from.get(),
        to_lsn: loss.to.get(),
        to_lsn_at_least: loss.is_open,
        records: loss.records,
        unread_bytes: loss.unread_bytes(),
        from_time_ms: loss.times.map(|(earliest, _)| earliest.get()),
        to_time_ms: loss.times.map(|(_, latest)| latest.get()),
        keys: loss.keys.len(),
        keys_at_least: loss.is_at_least(),
        some_keys: samples.collect(),
    }
}

fn after_line(after: &After) -> AfterLine {
    AfterLine {
        verdict: Verdict::from(after.row).word(),
        letter: after.row.letter(),
        end_lsn: after.end_lsn.get(),
        log_time_ms: after.log_time.get(),
    }
}

fn elsewhere_line(elsewhere: &Elsewhere) -> ElsewhereLine<'_> {
    let archives = elsewhere.archives.iter().map(|(store, end)| ArchiveLine {
        store: text(store),
        end_lsn: end.get(),
    });
    ElsewhereLine {
        restore_to_lsn: elsewhere.latest.map(idem_protocol::Lsn::get),
        archives: archives.collect(),
    }
}

fn text(path: &Path) -> Escaped<'_> {
    Escaped(path.as_os_str().as_encoded_bytes())
}

fn plan_line<'a>(proposed: &Proposed<'a>) -> PlanLine<'a> {
    let (plan, advice) = match proposed.proposal {
        Proposal::Plan(plan) => (Some(plan.as_ref()), None),
        Proposal::Advice(advice) => (None, Some(advice.as_str())),
        Proposal::Nothing => (None, None),
    };
    PlanLine {
        verdict: verdict_line(proposed.judgement),
        plan: plan.map(|plan| plan.kind.word()),
        advice,
        changes: plan
            .map(|plan| plan.changes.iter().map(ChangeLine::from).collect())
            .unwrap_or_default(),
        lost: plan.map(|_| lost_line(proposed.loss)),
        after: plan.map(|plan| after_line(&plan.after)),
        notes: plan.map(|plan| plan.notes.as_slice()).unwrap_or_default(),
        elsewhere: proposed.elsewhere.map(elsewhere_line),
        backup_bytes: plan.map(|_| proposed.needed_bytes),
        available_bytes: proposed.available_bytes.filter(|_| plan.is_some()),
    }
}

fn written(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// One object; also what the backup has as its description.
pub(super) fn plan(out: &mut impl Write, proposed: &Proposed<'_>) -> io::Result<()> {
    written(out, &plan_line(proposed))
}

/// A repair that was begun.
pub(super) fn unfinished(
    out: &mut impl Write,
    judgement: &Judgement,
    unfinished: &Unfinished,
) -> io::Result<()> {
    let line = UnfinishedLine {
        verdict: verdict_line(judgement),
        unfinished: unfinished.kind.word(),
        backup: text(&unfinished.backup),
        changes: unfinished.changes.iter().map(ChangeLine::from).collect(),
    };
    written(out, &line)
}

/// What became of it.
pub(super) fn done(out: &mut impl Write, backup: &Path, judgement: &Judgement) -> io::Result<()> {
    let line = DoneLine {
        repaired: judgement.verdict.starts(),
        backup: text(backup),
        verdict: judgement.verdict.word(),
        letter: judgement.letter(),
        end_lsn: judgement.end_lsn.get(),
    };
    written(out, &line)
}
