//! A plan in words and as JSON.

use std::io::{self, Write};
use std::path::Path;

use idem_wal::recovery::{Judgement, Verdict};
use idem_wal::storage::Dir;
use serde::Serialize;

use super::execute::UNDO;
use super::loss::Loss;
use super::plan::{After, Change, Kind, Plan, Proposal};
use crate::output::{Out, Tone};
use crate::text::{Escaped, Time};

/// Everything that is known before a decision.
pub(super) struct Proposed<'a> {
    pub(super) dir: &'a Path,
    pub(super) judgement: &'a Judgement,
    pub(super) proposal: &'a Proposal,
    pub(super) loss: &'a Loss,
    /// What the backup needs where it goes.
    pub(super) needed_bytes: u64,
    /// What there is.
    pub(super) available_bytes: Option<u64>,
    /// Whether it is about to be done.
    pub(super) is_wanted: bool,
}

#[derive(Serialize)]
struct PlanLine<'a> {
    verdict: &'static str,
    letter: char,
    end_lsn: u64,
    log_time_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    backup_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    available_bytes: Option<u64>,
}

#[derive(Serialize)]
struct ChangeLine {
    change: &'static str,
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
}

#[derive(Serialize)]
struct LostLine<'a> {
    from_lsn: u64,
    to_lsn: u64,
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
    log_time_ms: u64,
}

#[derive(Serialize)]
struct DoneLine {
    repaired: bool,
    backup: String,
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

fn change_line(change: &Change) -> ChangeLine {
    let line = |change_word, file: String, offset, bytes| ChangeLine {
        change: change_word,
        file,
        offset,
        bytes,
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
        Change::Cut { name, offset, bytes } => line("zero", Dir::Wal.join(name), Some(*offset), *bytes),
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

fn plan_line<'a>(proposed: &Proposed<'a>) -> PlanLine<'a> {
    let judgement = proposed.judgement;
    let (plan, advice) = match proposed.proposal {
        Proposal::Plan(plan) => (Some(plan.as_ref()), None),
        Proposal::Advice(advice) => (None, Some(advice.as_str())),
        Proposal::Nothing => (None, None),
    };
    let reason = judgement.reasons().next();
    let place = reason.and_then(|finding| finding.place.as_ref());
    let loss = proposed.loss;
    let lost = LostLine {
        from_lsn: loss.from.get(),
        to_lsn: loss.to.get(),
        records: loss.records,
        unread_bytes: loss.unread_bytes(),
        from_time_ms: loss.times.map(|(earliest, _)| earliest.get()),
        to_time_ms: loss.times.map(|(_, latest)| latest.get()),
        keys: loss.keys.len(),
        keys_at_least: loss.is_at_least(),
        some_keys: loss
            .samples
            .iter()
            .map(|(db, key)| KeyLine {
                db: *db,
                key: Escaped(key),
            })
            .collect(),
    };
    PlanLine {
        verdict: judgement.verdict.word(),
        letter: judgement.letter(),
        end_lsn: judgement.end_lsn.get(),
        log_time_ms: judgement.log_time.get(),
        reason: reason.map(|finding| finding.message.as_str()),
        file: place.map(|place| place.dir.join(&place.name)),
        offset: place.map(|place| place.offset),
        plan: plan.map(|plan| plan.kind.word()),
        advice,
        changes: plan
            .map(|plan| plan.changes.iter().map(change_line).collect())
            .unwrap_or_default(),
        lost: plan.map(|_| lost),
        after: plan.map(|plan| after_line(&plan.after)),
        notes: plan.map(|plan| plan.notes.as_slice()).unwrap_or_default(),
        backup_bytes: plan.map(|_| proposed.needed_bytes),
        available_bytes: proposed.available_bytes.filter(|_| plan.is_some()),
    }
}

/// One object; also what the backup has as its description.
pub(super) fn json(out: &mut impl Write, proposed: &Proposed<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &plan_line(proposed))?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The verdict, the plan, what it takes away, what comes of it.
pub(super) fn human(out: &mut Out, proposed: &Proposed<'_>) -> io::Result<()> {
    let paint = out.paint();
    let judgement = proposed.judgement;
    let tone = if judgement.verdict.starts() {
        Tone::Warning
    } else {
        Tone::Bad
    };
    let word = judgement.verdict.word();
    let letter = judgement.letter();
    match proposed.proposal {
        Proposal::Nothing => {
            writeln!(
                out,
                "{} (row {letter}): there is nothing to repair",
                paint.tone(Tone::Good, word)
            )?;
            return out.flush();
        }
        _ => writeln!(
            out,
            "{} (row {letter}): the log reads up to lsn {}, {}",
            paint.tone(tone, word),
            judgement.end_lsn,
            Time::from(judgement.log_time)
        )?,
    }
    for finding in judgement.reasons() {
        let place = finding.place.as_ref().map(|place| match place.offset {
            0 => format!("{}: ", place.dir.join(&place.name)),
            offset => format!("{} offset {offset}: ", place.dir.join(&place.name)),
        });
        writeln!(out, "  {}{}", place.unwrap_or_default(), finding.message)?;
    }
    match proposed.proposal {
        Proposal::Plan(plan) => write_plan(out, proposed, plan)?,
        Proposal::Advice(advice) => writeln!(out, "\n{advice}")?,
        Proposal::Nothing => {}
    }
    out.flush()
}

fn write_plan(out: &mut Out, proposed: &Proposed<'_>, plan: &Plan) -> io::Result<()> {
    writeln!(out, "\nplan      {}", plan.kind.word())?;
    for change in &plan.changes {
        writeln!(out, "  {}", in_words(change, plan.kind))?;
    }
    if plan.changes.is_empty() {
        writeln!(out, "  nothing has to be changed")?;
    }
    write_loss(out, proposed, plan)?;
    writeln!(
        out,
        "then      {} (row {}), the log ends at lsn {}, {}",
        Verdict::from(plan.after.row).word(),
        plan.after.row.letter(),
        plan.after.end_lsn,
        Time::from(plan.after.log_time)
    )?;
    for note in &plan.notes {
        writeln!(out, "note      {note}")?;
    }
    writeln!(out, "backup    needs {} bytes", proposed.needed_bytes)?;
    if let Some(available) = proposed.available_bytes {
        writeln!(out, "          {available} are free")?;
    }
    if proposed.is_wanted {
        return Ok(());
    }
    writeln!(
        out,
        "\nto do it: walctl repair {} --plan {}",
        proposed.dir.display(),
        plan.kind.word()
    )
}

fn write_loss(out: &mut Out, proposed: &Proposed<'_>, plan: &Plan) -> io::Result<()> {
    let loss = proposed.loss;
    if plan.cuts.end.is_none() && plan.cuts.surplus.is_empty() {
        return writeln!(out, "lost      nothing of the log");
    }
    let at_least = if loss.is_at_least() { "at least " } else { "" };
    write!(
        out,
        "lost      lsn {} to {}: {} records that can still be read, {} bytes that cannot",
        loss.from,
        loss.to,
        loss.records,
        loss.unread_bytes()
    )?;
    if let Some((earliest, latest)) = loss.times {
        write!(
            out,
            "\n          of {} to {}",
            Time::from(earliest),
            Time::from(latest)
        )?;
    }
    writeln!(out)?;
    if loss.samples.is_empty() {
        return Ok(());
    }
    write!(out, "keys      {at_least}{}: ", loss.keys.len())?;
    for (index, (db, key)) in loss.samples.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        write!(out, "{comma}{}", Escaped(key))?;
        if *db > 0 {
            write!(out, " (database {db})")?;
        }
    }
    let more = if loss.keys.len() > loss.samples.len() {
        ", …"
    } else {
        ""
    };
    writeln!(
        out,
        "{more}\n          to see it all: walctl dump {} --from-lsn {} --past-damage",
        proposed.dir.display(),
        loss.from
    )
}

fn in_words(change: &Change, kind: Kind) -> String {
    match change {
        Change::Control { control, .. } if kind == Kind::Control => {
            format!("control: made anew, of node {}", control.node)
        }
        Change::Control { .. } => "control: replaced, without what lies beyond the new end".to_owned(),
        Change::Header { name, header } if kind == Kind::Control => {
            format!("wal/{name}: its header becomes that of node {}", header.node)
        }
        Change::Header { name, .. } => {
            format!("wal/{name}: its header gets the checksum of the records before it")
        }
        Change::Move { dir, name, bytes } => {
            format!("{}: {bytes} bytes, moved to the backup", dir.join(name))
        }
        Change::Cut { name, offset, bytes } => {
            format!("wal/{name}: {bytes} bytes from offset {offset} on are copied and become zeros")
        }
    }
}

/// What became of it.
pub(super) fn done(out: &mut Out, json: bool, backup: &Path, judgement: &Judgement) -> io::Result<()> {
    if json {
        let line = DoneLine {
            repaired: judgement.verdict.starts(),
            backup: Escaped(backup.as_os_str().as_encoded_bytes()).to_string(),
            verdict: judgement.verdict.word(),
            letter: judgement.letter(),
            end_lsn: judgement.end_lsn.get(),
        };
        serde_json::to_writer(&mut *out, &line)?;
        writeln!(out)?;
    } else {
        writeln!(
            out,
            "\ndone: {} (row {}), the log ends at lsn {}; sh {} takes it back",
            judgement.verdict.word(),
            judgement.letter(),
            judgement.end_lsn,
            backup.join(UNDO).display()
        )?;
    }
    out.flush()
}
