//! `walctl archive DIR --into STORE`: what is sealed of a log, kept where its server cannot remove it.
//!
//! The source is never judged as a whole and never written: each piece that is copied is checked for itself, so that a log
//! with a rotten end still gives what is good before it; nothing behind damage is copied ([`sealed`]). See [`store`](crate::store) for what a store looks like.
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
mod sealed;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use idem_wal::storage::{Dir, Storage};

pub(crate) use self::args::Args;
use self::check::Rotten;
use self::execute::{Done, execute};
use self::plan::{Planned, plan};
use self::sealed::Damage;
use crate::claimed;
use crate::confirm;
use crate::exit::{Exit, Failure};
use crate::log_end;
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::store::{self, Gap};
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
    claimed::refuse(&args.into, "an archive")?;
    let meter = Arc::new(Meter::new(output::leaves_room_for_a_bar()));
    let view = View::open(&args.dir, Arc::clone(&meter))?;
    let mut out = Out::stdout(!args.form.json).beside(Arc::clone(&meter));
    let mut asked = args.consent.yes;
    for _ in 0..ATTEMPTS {
        let mut plan = match plan(&view, &args.into)? {
            Planned::Plan(plan) => plan,
            Planned::Damaged(damage) => {
                meter.finish();
                let printed = report::nothing(&mut out, Some(&damage), None, args.form.json);
                output::printed(printed)?;
                eprintln!(
                    "walctl: {}: no good segment before it is sealed; nothing was archived",
                    args.dir.display()
                );
                return Ok(say(&view, &args.dir, &damage));
            }
            Planned::Unsealed(gap) => {
                meter.finish();
                output::printed(report::nothing(&mut out, None, gap.as_ref(), args.form.json))?;
                return unsealed(&view, args, gap);
            }
        };
        for note in &plan.notes {
            meter.aside(|| eprintln!("walctl: note: {note}"));
        }
        if args.consent.dry_run {
            meter.finish();
            output::printed(report::plan(&mut out, &plan, args.form.json))?;
            let damage = plan.damage.as_ref();
            return Ok(damage.map_or(Exit::Clean, |damage| say(&view, &args.dir, damage)));
        }
        let has_work = !(plan.segments.is_empty() && plan.snapshots.is_empty());
        let question = || format!("Copy {} bytes to {}?", plan.bytes(), plan.path.display());
        asked = asked || !has_work || confirm::ask(false, &question())?;
        if !asked {
            return Err(Failure::usage("not confirmed; nothing was written"));
        }
        let (totals, exit) = match execute(&view, &mut plan)? {
            Done::Copied(totals) => (totals, Exit::Clean),
            Done::Damaged(totals, damage) => (totals, say(&view, &args.dir, &damage)),
            Done::Gone => continue,
        };
        meter.finish();
        let mut rotten = if args.check {
            check::check(&view, &plan)?
        } else {
            Vec::new()
        };
        let exit = match exit {
            Exit::Clean if !rotten.is_empty() => Exit::Rot,
            Exit::Clean if args.check && plan.gap.is_some() => Exit::Hole,
            exit => exit,
        };
        let gap = plan.gap.as_ref().filter(|_| args.check);
        rotten.extend(gap.map(|gap| Rotten::gap(gap, &plan.path)));
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
        return Ok(exit);
    }
    Err(Failure::usage(
        "segments are removed faster than they are copied; a larger wal-keep-bytes keeps them longer",
    ))
}

/// A log whose first segment is not full yet; or none.
fn unsealed(view: &View, args: &Args, gap: Option<Gap>) -> Result<Exit, Failure> {
    let dir = args.dir.display();
    if view.list(Dir::Wal).map_err(Failure::io(&dir))?.is_empty() {
        // Perhaps a volume that is not mounted: a timer that archives nothing has to be noticed.
        return Err(Failure::usage(format!("{dir}: there is no log here")));
    }
    eprintln!("walctl: {dir}: no segment is sealed yet; nothing to archive");
    let Some(gap) = gap else {
        return Ok(Exit::Clean);
    };
    eprintln!("walctl: note: {gap}");
    Ok(if args.check { Exit::Hole } else { Exit::Clean })
}

/// Says what was not copied, and answers the code for it.
fn say(view: &View, dir: &Path, damage: &Damage) -> Exit {
    let advice = log_end::advice(view, dir, damage.what.file.as_deref());
    eprintln!(
        "walctl: {}: {}; nothing that follows is archived\nwalctl: {advice}",
        dir.display(),
        damage.what.words
    );
    damage.exit
}
