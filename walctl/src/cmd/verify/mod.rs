//! `walctl verify DIR`: the verdict that the server would come to, from the server's own function.
//!
//! All snapshots are read to their end, not only the one that a start would use. A live directory is judged up to its
//! newest synced mark; whether it is live is asked before and, when something is wrong, again afterwards: a server that
//! started meanwhile writes what would look like damage. Nor is it a finding when its server removes a snapshot before it was
//! read.
//!
//! With `--deep` the log is also replayed, and what the records say of one another is judged ([`deep`]). That changes no
//! verdict, since a server starts all the same, but the exit code. The log that a start does not read is then read, too; what
//! is wrong with it is a finding beside the verdict, and changes neither.

mod args;
mod deep;
mod report;

use std::io;
use std::path::Path;
use std::sync::Arc;

use idem_wal::control::CONTROL_NAME;
use idem_wal::recovery::{Finding, FindingKind, Ignore, JudgeOptions, Judgement, Verdict, judge};
use idem_wal::storage::Storage;

pub(crate) use self::args::Args;
use self::report::Report;
use crate::exit::{Exit, Failure};
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::store;
use crate::view::View;
use crate::vouched;

/// Judges and prints. A closed pipe changes nothing about the exit code: the verdict was asked for.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let meter = Arc::new(Meter::new(true));
    let view = View::open(&args.dir, Arc::clone(&meter))?;
    let (mut judgement, live) = judge_view(&view)?;
    let starts = judgement.verdict.starts();
    let below = args
        .deep
        .then(|| deep::below::read(&view, &judgement.unjudged_segments));
    let deep = (args.deep && starts)
        .then(|| deep::run(&view, judgement.end_lsn, live))
        .transpose()?;
    vouched::amend(&view, &mut judgement, args.deep);
    meter.finish();
    if args.deep && !starts {
        eprintln!("walctl: --deep was left out: there is no state to replay to");
    }

    let mut out = Out::stdout(!args.json);
    let archived = is_archived(&args.dir);
    let report = Report {
        dir: &args.dir,
        judgement: &judgement,
        live,
        archived,
        deep: deep.as_ref(),
        below: below.as_ref(),
    };
    output::printed(if args.json {
        report::json(&mut out, &report)
    } else {
        report::human(&mut out, &report)
    })?;
    if archived {
        say_what_it_is(&args.dir, &judgement);
    }
    if judgement.verdict == Verdict::New {
        // A mistyped path looks the same as a directory that waits for its first server.
        eprintln!("walctl: {}: there is no log here", args.dir.display());
        for (history, _) in store::histories(&args.dir).unwrap_or_default() {
            eprintln!("walctl: an archived log is in {}", history.display());
        }
    }
    let is_wrong = deep.is_some_and(|deep| deep.count > 0);
    Ok(if is_wrong {
        Exit::Bug
    } else {
        judgement.verdict.into()
    })
}

/// Whether it is a history in a store. A manifest that is damaged is one all the same.
fn is_archived(dir: &Path) -> bool {
    let is_there = |name| std::fs::symlink_metadata(dir.join(name)).is_ok();
    is_there(store::MANIFEST_NAME) && !is_there(CONTROL_NAME)
}

/// An archived log reads like a data directory, and is none: the checksums that vouch for its files are in the manifest, and
/// the way to a server leads over a restore.
fn say_what_it_is(dir: &Path, judgement: &Judgement) {
    let store = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let (dir, store) = (dir.display(), store.unwrap_or(Path::new(".")).display());
    eprintln!(
        "walctl: {dir}: this is an archived log, and no server starts in it\n\
         walctl: to compare every file with its checksum: walctl archive DIR --into {store} --check, where DIR is the data \
         directory\n\
         walctl: to make a data directory of it: walctl restore --from {dir} --into NEW --to-lsn {}",
        judgement.end_lsn
    );
}

fn judge_view(view: &View) -> Result<(Judgement, bool), Failure> {
    let mut live = view.is_live()?;
    loop {
        let options = JudgeOptions {
            retain_tail: false,
            all_snapshots: true,
            live,
        };
        let mut judgement = judge(view, &options, &mut Ignore);
        vouched::amend(view, &mut judgement, false);
        if !live && judgement.verdict != Verdict::Clean && view.is_live()? {
            live = true;
            continue;
        }
        if live {
            forget_removed(view, &mut judgement.findings);
        }
        return Ok((judgement, live));
    }
}

/// Takes back what stands beside the verdict about files that are gone by now: their server needs them no more.
fn forget_removed<S: Storage>(storage: &S, findings: &mut Vec<Finding>) {
    findings.retain(|finding| {
        let Some(place) = finding.place.as_ref().filter(|place| !place.name.is_empty()) else {
            return true;
        };
        let is_gone = || {
            let error = storage.open(place.dir, &place.name).err();
            error.is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        finding.kind != FindingKind::Beside || !is_gone()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_wal::recovery::{Found, Row};
    use idem_wal::storage::{Dir, DiskStorage};

    #[test]
    fn what_stands_beside_the_verdict_is_said_of_files_that_are_still_there() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("snap")).unwrap();
        std::fs::write(directory.path().join("snap/there"), b"").unwrap();
        let storage = DiskStorage::open(directory.path()).unwrap();
        let finding = |kind, message: &str, name: Option<&str>| Finding {
            kind,
            message: message.to_owned(),
            place: name.map(|name| Found {
                dir: Dir::Snap,
                name: name.to_owned(),
                offset: 0,
            }),
            lsn: None,
            promised: None,
            expected_crc: None,
            found_crc: None,
        };
        let mut findings = vec![
            finding(FindingKind::Beside, "damaged", Some("there")),
            finding(FindingKind::Beside, "removed", Some("gone")),
            finding(FindingKind::Beside, "of a directory", Some("")),
            finding(FindingKind::Beside, "of none", None),
            finding(FindingKind::Row(Row::G), "a reason", Some("gone")),
        ];
        forget_removed(&storage, &mut findings);
        let left: Vec<&str> = findings.iter().map(|finding| &finding.message[..]).collect();
        assert_eq!(left, ["damaged", "of a directory", "of none", "a reason"]);
    }
}
