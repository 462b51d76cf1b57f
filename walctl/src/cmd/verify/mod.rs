//! `walctl verify DIR`: the verdict that the server would come to, from the server's own function.
//!
//! All snapshots are read to their end, not only the one that a start would use. A live directory is judged up to its
//! newest synced mark; whether it is live is asked before and, when something is wrong, again afterwards: a server that
//! started meanwhile writes what would look like damage. Nor is it a finding when its server removes a snapshot before it was
//! read.
//!
//! With `--deep` the log is also replayed, and what the records say of one another is judged ([`deep`]). That changes no
//! verdict, since a server starts all the same, but the exit code.

mod args;
mod deep;
mod report;

use std::io;
use std::sync::Arc;

use idem_wal::recovery::{Finding, FindingKind, Ignore, JudgeOptions, Judgement, Verdict, judge};
use idem_wal::storage::Storage;

pub(crate) use self::args::Args;
use crate::exit::{Exit, Failure};
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::store;
use crate::view::View;

/// Judges and prints. A closed pipe changes nothing about the exit code: the verdict was asked for.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let meter = Arc::new(Meter::new(true));
    let view = View::open(&args.dir, Arc::clone(&meter))?;
    let (judgement, live) = judge_view(&view)?;
    let starts = judgement.verdict.starts();
    let deep = (args.deep && starts)
        .then(|| deep::run(&view, judgement.end_lsn, live))
        .transpose()?;
    meter.finish();
    if args.deep && !starts {
        eprintln!("walctl: --deep was left out: there is no state to replay to");
    }

    let mut out = Out::stdout(!args.json);
    output::printed(if args.json {
        report::json(&mut out, &judgement, live, deep.as_ref())
    } else {
        report::human(&mut out, &judgement, live, deep.as_ref())
    })?;
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

fn judge_view(view: &View) -> Result<(Judgement, bool), Failure> {
    let mut live = view.is_live()?;
    loop {
        let options = JudgeOptions {
            retain_tail: false,
            all_snapshots: true,
            live,
        };
        let mut judgement = judge(view, &options, &mut Ignore);
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
