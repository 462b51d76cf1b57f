//! `walctl restore DIR --into NEW`: point-in-time recovery into a new data directory.
//!
//! The state at the target is rebuilt in memory, shown, and written as a snapshot with an epoch of its own behind it
//! ([`idem_wal::recovery::restore`]). The old directory is only read.

mod args;
mod origin;
mod place;
mod write;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use idem_wal::recovery::restore::Origin;
use serde::Serialize;

pub(crate) use self::args::Args;
pub(crate) use self::place::interrupted;
use crate::confirm;
use crate::exit::{Exit, Failure};
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::shell;
use crate::state::{Answer, State, rebuild};
use crate::text::Time;
use crate::view::View;

/// Rebuilds, shows, asks, writes.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    output::failing_in_json(args.form.json, restore(args))
}

fn restore(args: &Args) -> Result<Exit, Failure> {
    let dir = args.source()?;
    // Whatever is in the way is said before the log is read.
    place::check(&args.into, &dir)?;
    if !args.consent.dry_run {
        confirm::check(args.consent.yes)?;
    }
    let meter = Arc::new(Meter::new(true));
    let view = View::open(&dir, Arc::clone(&meter))?;
    let answer = rebuild(&view, args.until(), &mut ());
    meter.finish();
    let rebuilt = match answer? {
        Answer::State(rebuilt) => rebuilt,
        Answer::Refused(refusal) => return refusal.complain(&dir, args.form.json),
    };
    for note in rebuilt.notes() {
        eprintln!("walctl: note: {note}");
    }
    let state = &rebuilt.state;
    let origin = origin::origin(&view, &rebuilt, args.same_cluster)?;
    let mut summary = Summary::new(state, &origin);
    if args.consent.dry_run {
        summary.dry_run = true;
        return print(args, &summary);
    }
    let question = format!(
        "Restore {} keys as of lsn {}, {}, into {}?",
        summary.keys,
        state.lsn(),
        Time::from(state.time()),
        args.into.display()
    );
    if !confirm::ask(args.consent.yes, &question)? {
        return Err(Failure::usage("not confirmed; nothing was written"));
    }
    let command = again(args, state)?;
    let end = write::write(state, &origin, &args.into, summary.bytes, &command)?;
    summary.end_lsn = Some(end.get());
    summary.node = Some(origin.node.to_string());
    summary.cluster = Some(origin.cluster.to_string());
    // Whoever reads that this failed must not throw away, or make again, what is there.
    print(args, &summary).map_err(|failure| {
        let path = args.into.display();
        failure.after(format_args!(
            "the restore is complete at {path}, lsn {}",
            summary.lsn
        ))
    })
}

/// The command that makes the same state again, from anywhere; the new directory comes last.
fn again(args: &Args, state: &State) -> Result<String, Failure> {
    let word = |path: &Path| -> Result<String, Failure> {
        let path = std::path::absolute(path).map_err(Failure::io(path.display()))?;
        Ok(shell::word(&path))
    };
    let source = match (&args.from, &args.dir) {
        (Some(store), _) => format!("--from {}", word(store)?),
        (None, Some(dir)) => word(dir)?,
        (None, None) => String::new(),
    };
    let same = if args.same_cluster { " --same-cluster" } else { "" };
    Ok(format!(
        "walctl restore {source} --to-lsn {}{same}{}{}",
        state.lsn(),
        place::INTO,
        word(&args.into)?
    ))
}

/// What was, or would be, restored.
#[derive(Serialize)]
struct Summary {
    lsn: u64,
    time_ms: u64,
    epoch: u64,
    keys: usize,
    digest: String,
    /// The end of the new log, behind its first record.
    #[serde(skip_serializing_if = "Option::is_none")]
    end_lsn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    /// What it takes up on disk at first.
    bytes: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

impl Summary {
    fn new(state: &State, origin: &Origin) -> Summary {
        Summary {
            lsn: state.lsn().get(),
            time_ms: state.time().get(),
            epoch: origin.highest_epoch.saturating_add(1),
            keys: state.keys(),
            digest: state.digest().to_string(),
            end_lsn: None,
            node: None,
            cluster: None,
            bytes: write::bytes(state, origin),
            dry_run: false,
        }
    }
}

fn print(args: &Args, summary: &Summary) -> Result<Exit, Failure> {
    let mut out = Out::stdout(!args.form.json);
    let written = if args.form.json {
        serde_json::to_writer(&mut out, summary)
            .map_err(io::Error::from)
            .and_then(|()| out.end_line())
    } else {
        human(&mut out, summary, &args.into)
    };
    output::printed(written.and_then(|()| out.flush()))?;
    Ok(Exit::Clean)
}

fn human(out: &mut Out, summary: &Summary, into: &Path) -> io::Result<()> {
    let verb = if summary.dry_run { "would be" } else { "is" };
    let time = Time::from(idem_protocol::UnixMs::new(summary.time_ms));
    writeln!(out, "{} {verb} the state at lsn {}", into.display(), summary.lsn)?;
    writeln!(out, "time     {time}")?;
    writeln!(out, "keys     {}", summary.keys)?;
    writeln!(out, "digest   {}", summary.digest)?;
    writeln!(out, "epoch    {}", summary.epoch)?;
    if let (Some(node), Some(cluster)) = (&summary.node, &summary.cluster) {
        writeln!(out, "node     {node}")?;
        writeln!(out, "cluster  {cluster}")?;
    }
    writeln!(out, "bytes    {}", summary.bytes)
}
