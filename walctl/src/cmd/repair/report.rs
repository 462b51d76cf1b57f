//! A plan in words.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use idem_protocol::UnixMs;
use idem_wal::recovery::{Finding, FindingKind, Judgement, Verdict};

use super::elsewhere::Elsewhere;
use super::execute::UNDO;
use super::loss::Loss;
use super::plan::{Change, Kind, Plan, Proposal};
use super::resume::Unfinished;
use crate::output::{Out, Tone};
use crate::text::{Escaped, Time};

/// Everything that is known before a decision.
pub(super) struct Proposed<'a> {
    pub(super) dir: &'a Path,
    pub(super) judgement: &'a Judgement,
    pub(super) proposal: &'a Proposal,
    pub(super) loss: &'a Loss,
    /// Other ways, where the plan loses something or there is none.
    pub(super) elsewhere: Option<&'a Elsewhere>,
    /// What the backup needs where it goes.
    pub(super) needed_bytes: u64,
    /// What there is.
    pub(super) available_bytes: Option<u64>,
    /// Whether it is about to be done.
    pub(super) is_wanted: bool,
}

/// The verdict, the plan, what it takes away, what comes of it.
pub(super) fn human(out: &mut Out, proposed: &Proposed<'_>) -> io::Result<()> {
    let paint = out.paint();
    let judgement = proposed.judgement;
    if matches!(proposed.proposal, Proposal::Nothing) {
        let word = paint.tone(Tone::Good, judgement.verdict.word());
        let letter = judgement.letter();
        writeln!(out, "{word} (row {letter}): there is nothing to repair")?;
        return out.flush();
    }
    write_verdict(out, judgement)?;
    match proposed.proposal {
        Proposal::Plan(plan) => write_plan(out, proposed, plan)?,
        Proposal::Advice(advice) => {
            writeln!(out, "\n{advice}")?;
            write_elsewhere(out, proposed, "\nto restore:", "           ")?;
        }
        Proposal::Nothing => {}
    }
    out.flush()
}

fn write_verdict(out: &mut Out, judgement: &Judgement) -> io::Result<()> {
    let tone = if judgement.verdict.starts() {
        Tone::Warning
    } else {
        Tone::Bad
    };
    writeln!(
        out,
        "{} (row {}): the log reads up to lsn {}, {}",
        out.paint().tone(tone, judgement.verdict.word()),
        judgement.letter(),
        judgement.end_lsn,
        At(judgement.log_time)
    )?;
    for finding in judgement.reasons() {
        writeln!(out, "  {}", in_place(finding))?;
    }
    for words in also(judgement) {
        writeln!(out, "  also: {words}")?;
    }
    Ok(())
}

/// What stands beside the verdict, and the reasons of other rows that refuse.
pub(super) fn also(judgement: &Judgement) -> impl Iterator<Item = String> {
    let decided = judgement.row;
    let matters = move |finding: &&Finding| match finding.kind {
        FindingKind::Row(row) => row != decided && row.refuses(),
        FindingKind::Beside => true,
    };
    judgement.findings.iter().filter(matters).map(in_place)
}

fn in_place(finding: &Finding) -> String {
    let place = finding.place.as_ref().map(|place| match place.offset {
        0 => format!("{}: ", place.dir.join(&place.name)),
        offset => format!("{} offset {offset}: ", place.dir.join(&place.name)),
    });
    format!("{}{}", place.unwrap_or_default(), finding.message)
}

/// A time, or that there is none.
struct At(UnixMs);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            UnixMs::ZERO => f.write_str("time unknown"),
            time => write!(f, "{}", Time::from(time)),
        }
    }
}

/// A repair that was begun: what there is to choose from.
pub(super) fn unfinished(
    out: &mut Out,
    dir: &Path,
    judgement: &Judgement,
    unfinished: &Unfinished,
    is_wanted: bool,
) -> io::Result<()> {
    write_verdict(out, judgement)?;
    let (kind, backup) = (unfinished.kind, unfinished.backup.display());
    writeln!(
        out,
        "\nbegun     a repair with the plan {} did not come to its end; no server starts before it does, or is taken back",
        kind.word()
    )?;
    for change in &unfinished.changes {
        writeln!(out, "  {}", in_words(change, kind))?;
    }
    writeln!(out, "backup    {backup}")?;
    if !is_wanted {
        writeln!(
            out,
            "\nto finish it: walctl repair {} --plan {}\nto take it back: sh {}",
            dir.display(),
            kind.word(),
            unfinished.backup.join(UNDO).display()
        )?;
    }
    out.flush()
}

/// The commands that make a new directory instead, behind these words.
fn write_elsewhere(out: &mut Out, proposed: &Proposed<'_>, first: &str, next: &str) -> io::Result<()> {
    let Some(elsewhere) = proposed.elsewhere else {
        return Ok(());
    };
    let mut lead = first;
    if let Some(latest) = elsewhere.latest {
        writeln!(
            out,
            "{lead} walctl restore {} --into NEW --to-lsn {latest}",
            proposed.dir.display()
        )?;
        lead = next;
    }
    for (store, end) in &elsewhere.archives {
        writeln!(
            out,
            "{lead} walctl restore --from {} --into NEW --to-lsn {end}",
            store.display()
        )?;
        lead = next;
    }
    if elsewhere.archives.is_empty() {
        writeln!(
            out,
            "{lead} walctl restore --from STORE --into NEW --to-time TIME, where walctl archive has copied this log to a STORE"
        )?;
    }
    Ok(())
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
        At(plan.after.log_time)
    )?;
    for note in &plan.notes {
        writeln!(out, "note      {note}")?;
    }
    write_elsewhere(out, proposed, "instead  ", "         ")?;
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
    let range = match loss.is_open {
        false => format!("lsn {} to {}", loss.from, loss.to),
        true if loss.to > loss.from => format!("lsn {} to at least {}", loss.from, loss.to),
        true => format!("from lsn {} on, nobody knows how much", loss.from),
    };
    write!(
        out,
        "lost      {range}: {} records that can still be read, {} bytes that cannot",
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
        Change::Cut {
            name,
            offset,
            bytes,
            data_bytes,
        } if data_bytes < bytes => format!(
            "wal/{name}: {bytes} bytes from offset {offset} on become zeros; {data_bytes} are not yet, and are copied"
        ),
        Change::Cut {
            name, offset, bytes, ..
        } => format!("wal/{name}: {bytes} bytes from offset {offset} on are copied and become zeros"),
    }
}

/// What became of it.
pub(super) fn done(out: &mut Out, backup: &Path, judgement: &Judgement) -> io::Result<()> {
    writeln!(
        out,
        "\ndone: {} (row {}), the log ends at lsn {}; sh {} takes it back",
        judgement.verdict.word(),
        judgement.letter(),
        judgement.end_lsn,
        backup.join(UNDO).display()
    )?;
    out.flush()
}
