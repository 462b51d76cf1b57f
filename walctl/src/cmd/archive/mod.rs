//! `walctl archive DIR --into STORE`: what is sealed of a log, kept where its server cannot remove it.
//!
//! The source is never judged as a whole and never written: each piece that is copied is checked for itself, so that a log
//! with a rotten end still gives what is good before it. See [`store`](crate::store) for what a store looks like.
//!
//! Order, each step durable before the next: a file, then the manifest that names it; at last the control file. A run that
//! was killed is finished by the next one, and until its first run is finished an archive has no control file and is read by
//! nothing.

mod args;
mod check;
mod copy;
mod execute;
mod plan;
mod report;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use idem_wal::storage::{Dir, Storage};

pub(crate) use self::args::Args;
use self::check::Rotten;
use self::execute::{Done, execute};
use self::plan::plan;
use crate::confirm;
use crate::exit::{Exit, Failure};
use crate::log_end;
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::store;
use crate::view::View;

/// How often a run begins anew because the server removed what was about to be copied.
const ATTEMPTS: usize = 5;
/// How long another run on the same history is waited for.
const LOCK_WAIT: Duration = Duration::from_millis(200);

/// Whether `path`, or what there is of it already, lies in `dir`.
fn is_below(path: &Path, dir: &Path) -> bool {
    let Ok(dir) = std::fs::canonicalize(dir) else {
        return false;
    };
    let mut there = path.ancestors().filter_map(|part| {
        let part = if part.as_os_str().is_empty() {
            Path::new(".")
        } else {
            part
        };
        std::fs::canonicalize(part).ok()
    });
    there.next().is_some_and(|part| part.starts_with(&dir))
}

/// Copies what is not there yet.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    output::failing_in_json(args.form.json, archive(args))
}

fn archive(args: &Args) -> Result<Exit, Failure> {
    if args.into.join(store::MANIFEST_NAME).exists() || args.into.join("wal").exists() {
        return Err(Failure::usage(format!(
            "{}: this is one log, not a store; --into takes the directory that holds the histories",
            args.into.display()
        )));
    }
    if is_below(&args.into, &args.dir) {
        return Err(Failure::usage(format!(
            "{} is in the data directory; an archive belongs elsewhere",
            args.into.display()
        )));
    }
    let meter = Arc::new(Meter::new(output::leaves_room_for_a_bar()));
    let view = View::open(&args.dir, Arc::clone(&meter))?;
    let mut out = Out::stdout(!args.form.json).beside(Arc::clone(&meter));
    let mut asked = args.consent.yes;
    for _ in 0..ATTEMPTS {
        let Some(mut plan) = plan(&view, &args.into)? else {
            if view
                .list(Dir::Wal)
                .map_err(Failure::io(args.dir.display()))?
                .is_empty()
            {
                // Perhaps a volume that is not mounted: a timer that archives nothing has to be noticed.
                return Err(Failure::usage(format!(
                    "{}: there is no log here",
                    args.dir.display()
                )));
            }
            eprintln!(
                "walctl: {}: no segment is sealed yet; nothing to archive",
                args.dir.display()
            );
            return Ok(Exit::Clean);
        };
        for note in &plan.notes {
            meter.aside(|| eprintln!("walctl: note: {note}"));
        }
        if args.consent.dry_run {
            meter.finish();
            output::printed(report::plan(&mut out, &plan, args.form.json))?;
            return Ok(Exit::Clean);
        }
        let has_work = !(plan.segments.is_empty() && plan.snapshots.is_empty());
        let question = || format!("Copy {} bytes to {}?", plan.bytes(), plan.path.display());
        asked = asked || !has_work || confirm::ask(false, &question())?;
        if !asked {
            return Err(Failure::usage("not confirmed; nothing was written"));
        }
        let (totals, exit) = match execute(&view, &mut plan)? {
            Done::Copied(totals) => (totals, Exit::Clean),
            Done::Damaged(totals, what) => {
                let advice = log_end::advice(&view, &args.dir, what.file.as_deref());
                eprintln!("walctl: {}: {}\nwalctl: {advice}", args.dir.display(), what.words);
                (totals, Exit::Rot)
            }
            Done::Gone => continue,
        };
        meter.finish();
        let rotten = if args.check {
            check::check(&view, &plan)?
        } else {
            Vec::new()
        };
        for line in rotten.iter().flat_map(Rotten::lines) {
            eprintln!("walctl: {line}");
        }
        let printed = report::rotten(&mut out, &rotten, args.form.json)
            .and_then(|()| report::totals(&mut out, &totals, args.form.json));
        output::printed(printed).map_err(|failure| {
            failure.after(format_args!(
                "what is sealed is archived in {}",
                plan.path.display()
            ))
        })?;
        return Ok(if rotten.is_empty() { exit } else { Exit::Rot });
    }
    Err(Failure::usage(
        "segments are removed faster than they are copied; a larger wal-keep-bytes keeps them longer",
    ))
}
