//! `walctl repair DIR`: what can be done about a directory that a server refuses, or would cut; and doing it.
//!
//! The verdict is the server's own. A plan is found by trying (`plan`, `cut`, `rebuild`), shown with what it takes away
//! (`loss`), and carried out (`perform`) only when it is named on the command line and confirmed, after a backup (`backup`)
//! is on disk. Only `execute` writes, through a storage of its own, with the directory's lock held.
//!
//! Invariants
//! * Before the backup is synced no byte of the directory has changed. Without space for it nothing is begun.
//! * What is promised of a plan is the verdict on the directory as it would be, from the server's function.
//! * A repair that is interrupted leaves a directory that no server starts on, a mark in it that names the backup, a script
//!   that takes it back, and what is needed to go on (`resume`). Without the mark, the directory is refused for the same
//!   reasons as before or is what the plan leads to, for whoever has lost the backup.

mod args;
mod backup;
mod backups;
mod cut;
mod elsewhere;
mod execute;
mod lines;
mod loss;
mod overlay;
mod perform;
mod place;
mod plan;
mod rebuild;
mod report;
mod resume;
mod space;
mod sparse;
#[cfg(test)]
mod tests;
mod undo;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use idem_wal::control::CONTROL_NAME;
use idem_wal::lock::{DirLock, LOCK_WAIT, LockError};
use idem_wal::recovery::{Ignore, JudgeOptions, Judgement, REPAIR_MARK, judge};
use idem_wal::storage::{Dir, DiskStorage, Storage};

pub(crate) use self::args::Args;
use self::backup::Backup;
use self::execute::Vault;
use self::loss::Loss;
use self::overlay::{Overlay, Patches};
use self::perform::{change, repair};
use self::plan::{Kind, Proposal};
use self::report::Proposed;
use self::resume::{Earlier, Unfinished};
use self::space::{available_bytes, needed_bytes};
use crate::cmd::restore;
use crate::exit::{Exit, Failure};
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::view::View;
use crate::{confirm, shell, store};

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
    if let Some(asked) = &args.backup {
        place::check_place(&args.dir, asked)?;
    }
    let earlier = match begun(&view, &args.dir, disk.is_some())? {
        Earlier::Begun(path) => match unfinished(&args.dir, path) {
            Ok((backup, unfinished)) => {
                meter.finish();
                return finish(args, &view, disk, &backup, &unfinished);
            }
            Err(words) => Some(words),
        },
        Earlier::Unclear(words) => Some(words),
        Earlier::None => None,
    };
    anew(args, &view, disk, &meter, earlier)
}

/// Finds a plan, shows it, and carries it out when that is wanted. `earlier` are the words for an unfinished repair that
/// cannot be gone on with.
fn anew(
    args: &Args,
    view: &View,
    disk: Option<DiskStorage>,
    meter: &Meter,
    earlier: Option<String>,
) -> Result<Exit, Failure> {
    // What its mark says of the directory is said in words; the plan is for the files.
    let mut hidden = Patches::default();
    hidden.hidden.insert((Dir::Root, REPAIR_MARK.to_owned()));
    let files = Overlay::new(view.clone(), hidden);
    let judgement = judge_all(&files);
    let mut node = [0; 16];
    getrandom::fill(&mut node).map_err(|error| Failure::usage(format!("no random bytes: {error}")))?;
    // No plan leads from half of a new directory to a whole one.
    let restored = restore::interrupted(&files, &args.dir);
    let is_restore = restored.is_some();
    let proposal = match restored {
        Some(words) => Proposal::Advice(words),
        None => plan::propose(&files, &judgement, earlier.is_some(), node)?,
    };
    let loss = match &proposal {
        Proposal::Plan(plan) => {
            let promised = plan::promised(&judgement);
            loss::read(&files, &plan.cuts, promised, judgement.is_cut_short())?
        }
        Proposal::Nothing | Proposal::Advice(_) => Loss::default(),
    };
    let loses = match &proposal {
        Proposal::Plan(plan) => plan.kind == Kind::AcceptLoss && !loss.is_nothing(),
        Proposal::Advice(_) => true,
        Proposal::Nothing => false,
    };
    let elsewhere = (loses && !is_restore).then(|| elsewhere::look(view, &args.dir, &judgement));
    meter.finish();

    let backup_dir = place::nearest(&args.dir, args.backup.as_deref());
    let proposed = Proposed {
        dir: &args.dir,
        judgement: &judgement,
        proposal: &proposal,
        loss: &loss,
        elsewhere: elsewhere.as_ref(),
        needed_bytes: needed_bytes(&args.dir, &backup_dir, &proposal),
        available_bytes: available_bytes(&args.dir, args.backup.as_deref()),
        is_wanted: disk.is_some(),
    };
    let mut out = Out::stdout(!args.json);
    output::printed(if args.json {
        lines::plan(&mut out, &proposed)
    } else {
        report::human(&mut out, &proposed)
    })?;
    let was_begun = earlier.is_some();
    if let Some(words) = earlier {
        let mark = args.dir.join(REPAIR_MARK);
        let left = match proposal {
            Proposal::Nothing => "the files are good without it; remove that file, and a server starts",
            _ => "this plan is for the files as they are",
        };
        eprintln!(
            "walctl: {}: an earlier repair is not finished: {words}; {left}",
            mark.display()
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
        // The mark is a reason for nobody to start.
        return Ok(match judgement.verdict {
            verdict if verdict.starts() && was_begun => Exit::Hole,
            verdict => verdict.into(),
        });
    };
    if !confirm::ask(args.yes, "carry out this plan?")? {
        return Err(Failure::usage("nothing was changed"));
    }
    let backup = repair(&disk, args, &proposed, plan)?;
    conclude(&mut out, args, view, &backup)
}

/// What the mark leads to. One that names no backup may stand in the middle of anything: the backup that fits is looked for,
/// and where several do, nothing is changed before somebody has said which.
fn begun(view: &View, dir: &Path, is_wanted: bool) -> Result<Earlier, Failure> {
    let words = match resume::earlier(view, dir)? {
        Earlier::Unclear(words) => words,
        clear => return Ok(clear),
    };
    let fits = |path: &PathBuf| {
        let store = DiskStorage::open(path);
        store.is_ok_and(|store| resume::is_untouched(view, &store).unwrap_or(false))
    };
    let mut fitting: Vec<PathBuf> = backups::all_in(dir).into_iter().filter(fits).collect();
    if fitting.len() == 1 {
        return Ok(Earlier::Begun(fitting.remove(0)));
    }
    let mark = dir.join(REPAIR_MARK);
    let words = format!("{words}, so it does not say where its backup is; files may have been changed");
    if fitting.is_empty() {
        return Ok(Earlier::Unclear(format!(
            "{words}, and undo.sh in the backup, if it is elsewhere, takes that back"
        )));
    }
    let scripts = fitting
        .iter()
        .map(|path| format!("sh {}", shell::word(&path.join(execute::UNDO))));
    let words = format!(
        "{words}; one of these takes that back: {}",
        scripts.collect::<Vec<_>>().join(", ")
    );
    if is_wanted {
        return Err(Failure::usage(format!(
            "{}: {words}; nothing was changed",
            mark.display()
        )));
    }
    Ok(Earlier::Unclear(words))
}

/// The repair that the mark leads to, with its backup; in words why it cannot be gone on with.
fn unfinished(dir: &Path, path: PathBuf) -> Result<(Backup, Unfinished), String> {
    let backup =
        Backup::reopen(dir, path).map_err(|error| format!("its backup cannot be opened: {error}"))?;
    let (kind, changes) = resume::recorded(backup.store())
        .map_err(|error| format!("its backup {} cannot be read: {error}", backup.path().display()))?;
    let unfinished = Unfinished {
        backup: backup.path().to_owned(),
        kind,
        changes,
    };
    Ok((backup, unfinished))
}

/// Shows a repair that was begun, and carries it out to its end when that is wanted.
fn finish(
    args: &Args,
    view: &View,
    disk: Option<DiskStorage>,
    backup: &Backup,
    unfinished: &Unfinished,
) -> Result<Exit, Failure> {
    let judgement = judge_all(view);
    let mut out = Out::stdout(!args.json);
    output::printed(if args.json {
        lines::unfinished(&mut out, &judgement, unfinished)
    } else {
        report::unfinished(&mut out, &args.dir, &judgement, unfinished, disk.is_some())
    })?;
    let script = backup.path().join(execute::UNDO);
    // The same command as the one that was interrupted says the same backup.
    let is_other = args.backup.as_deref().is_some_and(|asked| !backup.is_at(asked));
    if args.plan.is_some_and(|named| named != unfinished.kind) || is_other {
        return Err(Failure::usage(format!(
            "the repair that was begun has to be finished first, with --plan {} and the backup that it has, or taken back with \
             sh {}",
            unfinished.kind.word(),
            script.display()
        )));
    }
    let Some(disk) = disk else {
        return Ok(judgement.verdict.into());
    };
    let control = args.dir.join(CONTROL_NAME);
    if !resume::is_untouched(&disk, backup.store()).map_err(Failure::io(control.display()))? {
        return Err(Failure::usage(format!(
            "{}: neither what the repair found nor what it leads to; somebody has changed the directory since",
            control.display()
        )));
    }
    if !confirm::ask(args.yes, "finish this repair?")? {
        return Err(Failure::usage("nothing was changed"));
    }
    backup.sync_mark(&disk)?;
    execute::begun(backup.store())?;
    change(&disk, backup, &unfinished.changes)?;
    conclude(&mut out, args, view, backup)
}

/// What became of it.
fn conclude(out: &mut Out, args: &Args, view: &View, backup: &Backup) -> Result<Exit, Failure> {
    let judgement = judge_all(view);
    output::printed(if args.json {
        lines::done(out, backup.path(), &judgement)
    } else {
        report::done(out, backup.path(), &judgement)
    })?;
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
    // What root writes here is for whoever runs the server.
    lock.storage()
        .and_then(|disk| disk.for_owner(CONTROL_NAME))
        .map_err(Failure::io(dir.display()))
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
