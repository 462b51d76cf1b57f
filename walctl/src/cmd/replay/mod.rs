//! `walctl replay DIR`: the state that a log stands for, at its end or at an earlier position.
//!
//! It prints how many keys there are and the digest of all of them, or one key, and writes all of them to a file.

mod args;
mod entry;
mod export;
mod trace;

use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;

pub(crate) use self::args::Args;
use crate::exit::{Exit, Failure};
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::state::{Answer, State, rebuild};
use crate::text::{Escaped, Time};
use crate::view::View;
use entry::Entry;
use trace::Trace;

/// Rebuilds the state and prints what was asked for.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    output::failing_in_json(args.json, replay(args))
}

fn replay(args: &Args) -> Result<Exit, Failure> {
    if let Some(path) = &args.export {
        export::check(path, args.yes, &args.dir)?;
    }
    let meter = Arc::new(Meter::new(true));
    let view = View::open(&args.dir, Arc::clone(&meter))?;
    let mut trace = args.key.as_ref().map(|key| Trace::new(&key.0));
    let answer = match trace.as_mut() {
        Some(trace) => rebuild(&view, args.until(), trace),
        None => rebuild(&view, args.until(), &mut ()),
    };
    meter.finish();
    let rebuilt = match answer? {
        Answer::State(rebuilt) => rebuilt,
        Answer::Refused(refusal) => return refusal.complain(&args.dir, args.json),
    };
    for note in rebuilt.notes() {
        eprintln!("walctl: note: {note}");
    }
    let state = &rebuilt.state;
    if let Some(path) = &args.export {
        export::write(state, path)?;
    }
    let mut out = Out::stdout(!args.json);
    let printed = output::printed(match &trace {
        Some(trace) => print_key(&mut out, args, state, trace),
        None => print_totals(&mut out, args.json, state),
    });
    printed.map_err(|failure| match &args.export {
        Some(path) => failure.after(format_args!("the export is complete at {}", path.display())),
        None => failure,
    })?;
    Ok(Exit::Clean)
}

#[derive(Serialize)]
struct Totals {
    lsn: u64,
    time_ms: u64,
    keys: usize,
    digest: String,
}

fn print_totals(out: &mut Out, json: bool, state: &State) -> io::Result<()> {
    let totals = Totals {
        lsn: state.lsn().get(),
        time_ms: state.time().get(),
        keys: state.keys(),
        digest: state.digest().to_string(),
    };
    if json {
        serde_json::to_writer(&mut *out, &totals)?;
        out.end_line()?;
    } else {
        writeln!(out, "lsn     {}", totals.lsn)?;
        writeln!(out, "time    {}", Time::from(state.time()))?;
        writeln!(out, "keys    {}", totals.keys)?;
        writeln!(out, "digest  {}", totals.digest)?;
    }
    out.flush()
}

/// One line for each database that has the key.
fn print_key(out: &mut Out, args: &Args, state: &State, trace: &Trace<'_>) -> io::Result<()> {
    let databases = args.db.map_or(0..=u8::MAX, |db| db..=db);
    let mut found = false;
    for db in databases.clone() {
        let Some(entry) = state.get(db, trace.key()) else {
            continue;
        };
        found = true;
        let mut line = Entry::new(db, &entry, args.values);
        if let Some(last) = trace.last(db) {
            line.lsn = Some(last.lsn.get());
            line.time_ms = Some(last.time.get());
            line.opcode = Some(last.opcode.to_byte());
            line.name = Some(last.opcode.name());
        }
        if args.json {
            serde_json::to_writer(&mut *out, &line)?;
        } else {
            let paint = out.paint();
            line.human(out, paint)?;
        }
        out.end_line()?;
    }
    if !found {
        explain_nothing(state, trace, databases);
    }
    out.flush()
}

/// Why there is no such key, as far as the log that was read tells.
fn explain_nothing(state: &State, trace: &Trace<'_>, databases: std::ops::RangeInclusive<u8>) {
    eprintln!(
        "walctl: no key {} at lsn {}, {}",
        Escaped(trace.key()),
        state.lsn(),
        Time::from(state.time())
    );
    for db in databases {
        let Some(last) = trace.last(db) else { continue };
        let ended = state.keyspace().get(db, trace.key());
        let ended = ended.map_or(String::new(), |entry| {
            format!("; it ended at {}", Time::from(entry.deadline()))
        });
        eprintln!(
            "walctl: its last record in database {db} is {} at lsn {}, {}{ended}",
            last.opcode.name(),
            last.lsn,
            Time::from(last.time)
        );
    }
}
