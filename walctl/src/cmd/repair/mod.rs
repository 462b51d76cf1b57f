//! `walctl repair DIR`: what can be done about a directory that a server refuses, or would cut; and doing it.
//!
//! The verdict is the server's own. A plan is found by trying (`plan`, `cut`, `rebuild`), shown with what it takes away
//! (`loss`), and carried out (`execute`) only when it is named on the command line and confirmed, after a backup (`backup`)
//! is on disk. Only `execute` writes, through a storage of its own, with the directory's lock held.
//!
//! Invariants
//! * Before the backup is synced no byte of the directory has changed. Without space for it nothing is begun.
//! * What is promised of a plan is the verdict on the directory as it would be, from the server's function.
//! * A repair that is interrupted leaves a directory that is refused for the same reasons or is what the plan leads to, and
//!   a script that takes it back.

mod args;
mod backup;
mod cut;
mod execute;
mod loss;
mod overlay;
mod plan;
mod rebuild;
mod report;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use idem_protocol::UnixMs;
use idem_wal::control::CONTROL_NAME;
use idem_wal::lock::{DirLock, LOCK_WAIT, LockError};
use idem_wal::recovery::{Ignore, JudgeOptions, Judgement, judge};
use idem_wal::storage::{Dir, DiskStorage, Storage};

pub(crate) use self::args::Args;
use self::backup::Backup;
use self::execute::Trouble;
use self::loss::Loss;
use self::plan::{Change, Plan, Proposal};
use self::report::Proposed;
use crate::exit::{Exit, Failure};
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::view::View;
use crate::{confirm, store};

/// Room for the backup's description, its script, its directories and their growth.
const BACKUP_ROOM_BYTES: u64 = 64 << 10;

/// Proposes, or carries out.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let meter = Arc::new(Meter::new(true));
    let disk = match args.plan.filter(|_| !args.dry_run) {
        // Before the work, not after it.
        Some(_) => {
            confirm::check(args.yes)?;
            Some(locked(&args.dir)?)
        }
        None => None,
    };
    let view = match &disk {
        Some(disk) => View::on(disk.clone(), Arc::clone(&meter)),
        None => View::open(&args.dir, Arc::clone(&meter))?,
    };
    if disk.is_none() && view.is_live()? {
        return Err(in_use(&args.dir));
    }
    refuse_archive(&args.dir, &view)?;
    let judgement = judge_all(&view);
    let mut node = [0; 16];
    getrandom::fill(&mut node).map_err(|error| Failure::usage(format!("no random bytes: {error}")))?;
    let proposal = plan::propose(&view, &judgement, node)?;
    let loss = match &proposal {
        Proposal::Plan(plan) => {
            let promised = plan::promised(&judgement);
            loss::read(&view, &plan.cuts, promised)?
        }
        Proposal::Nothing | Proposal::Advice(_) => Loss::default(),
    };
    meter.finish();

    let backup_dir = backup::nearest(&args.dir, args.backup.as_deref());
    let proposed = Proposed {
        dir: &args.dir,
        judgement: &judgement,
        proposal: &proposal,
        loss: &loss,
        needed_bytes: needed_bytes(&args.dir, &backup_dir, &proposal),
        available_bytes: DiskStorage::open(&backup_dir)
            .and_then(|disk| disk.available_bytes())
            .ok(),
        is_wanted: disk.is_some(),
    };
    let mut out = Out::stdout(!args.json);
    output::printed(if args.json {
        report::json(&mut out, &proposed)
    } else {
        report::human(&mut out, &proposed)
    })?;
    for script in backup::unfinished(&args.dir) {
        eprintln!(
            "walctl: note: an earlier repair did not come to its end; sh {} takes back what it changed",
            script.display()
        );
    }
    if let (Some(named), Proposal::Plan(plan)) = (args.plan, &proposal)
        && named != plan.kind
    {
        return Err(Failure::usage(format!(
            "the plan for this directory is {}, not {}",
            plan.kind.word(),
            named.word()
        )));
    }
    let (Proposal::Plan(plan), Some(disk)) = (&proposal, disk) else {
        return Ok(judgement.verdict.into());
    };
    if !confirm::ask(args.yes, "carry out this plan?")? {
        return Err(Failure::usage("nothing was changed"));
    }
    let backup = repair(&disk, args, &proposed, plan)?;
    let judgement = judge_all(&view);
    output::printed(report::done(&mut out, args.json, backup.path(), &judgement))?;
    Ok(judgement.verdict.into())
}

/// The verdict, with all snapshots read.
fn judge_all<S: Storage>(storage: &S) -> Judgement {
    let options = JudgeOptions {
        retain_tail: false,
        all_snapshots: true,
        live: false,
    };
    judge(storage, &options, &mut Ignore)
}

fn in_use(dir: &Path) -> Failure {
    Failure::usage(format!(
        "{}: in use by a server; what it has open cannot be repaired",
        dir.display()
    ))
}

/// The directory with its lock, held as long as any handle of it: what was judged is what is changed.
fn locked(dir: &Path) -> Result<DiskStorage, Failure> {
    let lock = DirLock::exclusive(dir, LOCK_WAIT).map_err(|error| match error {
        LockError::Held => in_use(dir),
        LockError::Io(error) => Failure::io(dir.display())(error),
    })?;
    lock.storage().map_err(Failure::io(dir.display()))
}

/// An archive reads like a data directory and is none: it is made anew from one.
fn refuse_archive(dir: &Path, view: &View) -> Result<(), Failure> {
    let names = view.list(Dir::Root).map_err(Failure::io(dir.display()))?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if has(store::CONTROL_NAME) && !has(CONTROL_NAME) {
        return Err(Failure::usage(format!(
            "{}: an archive is not repaired; repair the data directory, and archive it again",
            dir.display()
        )));
    }
    Ok(())
}

/// What the backup takes up where it goes.
fn needed_bytes(data: &Path, backup: &Path, proposal: &Proposal) -> u64 {
    let Proposal::Plan(plan) = proposal else { return 0 };
    let of = |change: &Change| match change {
        Change::Move { dir, bytes, .. } if !backup::renames(data, *dir, backup) => *bytes,
        other => other.copied_bytes(),
    };
    BACKUP_ROOM_BYTES + plan.changes.iter().map(of).sum::<u64>()
}

/// Backup, then changes.
fn repair(disk: &DiskStorage, args: &Args, proposed: &Proposed<'_>, plan: &Plan) -> Result<Backup, Failure> {
    let no_space = |why: &str| no_space(&args.dir, proposed.needed_bytes, why);
    // Room for the small things is tried: more than is free may not be needed.
    let copies = proposed.needed_bytes - BACKUP_ROOM_BYTES;
    if let Some(available) = proposed.available_bytes.filter(|available| *available < copies) {
        return Err(no_space(&format!("{available} are free")));
    }
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    let now = UnixMs::new(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let backup =
        Backup::create(&args.dir, args.backup.as_deref(), now).map_err(|failure| match &failure {
            Failure::Io { source, .. } if is_full(source) => no_space(&failure.to_string()),
            _ => failure,
        })?;
    let mut manifest = Vec::new();
    report::json(&mut manifest, proposed).map_err(Failure::io("the backup's description"))?;
    let undo = backup.undo(&plan.changes);
    let secured = execute::secure(disk, &backup, proposed.judgement, &plan.changes, &undo, &manifest);
    if let Err(Trouble { what, source }) = secured {
        backup.discard();
        return Err(if is_full(&source) {
            no_space(&format!("{what}: {source}"))
        } else {
            Failure::io(format_args!("nothing was changed: {what}"))(source)
        });
    }
    let mut made = 0;
    let carried = execute::carry_out(disk, &backup, &plan.changes, &mut |_| made += 1);
    backup::give_to_owner(&args.dir);
    if let Err(Trouble { what, source }) = carried {
        let script = backup.path().join(execute::UNDO);
        return Err(Failure::io(format_args!(
            "{made} of {} changes were made, sh {} takes them back, and repairing again goes on: {what}",
            plan.changes.len(),
            script.display()
        ))(source));
    }
    Ok(backup)
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull, WriteZero};
    matches!(error.kind(), StorageFull | QuotaExceeded | WriteZero)
}

fn no_space(dir: &Path, needed_bytes: u64, why: &str) -> Failure {
    let mut words = format!(
        "no space for the backup, nothing was changed: {needed_bytes} bytes are needed ({why}); --backup DIR can be on \
         another file system"
    );
    let spare_bytes = backup::spare_bytes(dir);
    if spare_bytes > 0 {
        let spares = dir.join("wal/spare-*");
        words += &format!(
            "; {} hold {spare_bytes} bytes, which no later start uses: they may be removed",
            spares.display()
        );
    }
    Failure::usage(words)
}
