//! `walctl verify DIR`: the verdict that the server would come to, from the server's own function.
//!
//! All snapshots are read to their end, not only the one that a start would use. A live directory is judged up to its
//! newest synced mark; whether it is live is asked before and, when something is wrong, again afterwards: a server that
//! started meanwhile writes what would look like damage.

mod report;

use std::sync::Arc;

use idem_wal::recovery::{Ignore, JudgeOptions, Judgement, Verdict, judge};

use crate::cli::VerifyArgs;
use crate::exit::{Exit, Failure};
use crate::output::{self, Out};
use crate::progress::Meter;
use crate::view::View;

/// Judges and prints. A closed pipe changes nothing about the exit code: the verdict was asked for.
pub(crate) fn run(args: &VerifyArgs) -> Result<Exit, Failure> {
    if args.deep {
        return Err(Failure::usage(
            "--deep is not available in this version; without it, every byte of the log is checked, but not the order \
             of states per key",
        ));
    }
    let meter = Arc::new(Meter::new(true));
    let view = View::open(&args.dir, Arc::clone(&meter))?;
    let (judgement, live) = judge_view(&view)?;
    meter.finish();

    let mut out = Out::stdout(!args.json);
    output::printed(if args.json {
        report::json(&mut out, &judgement, live)
    } else {
        report::human(&mut out, &judgement, live)
    })?;
    if judgement.verdict == Verdict::New {
        // A mistyped path looks the same as a directory that waits for its first server.
        eprintln!("walctl: {}: there is no log here", args.dir.display());
    }
    Ok(judgement.verdict.into())
}

fn judge_view(view: &View) -> Result<(Judgement, bool), Failure> {
    let mut live = view.is_live()?;
    loop {
        let options = JudgeOptions {
            retain_tail: false,
            all_snapshots: true,
            live,
        };
        let judgement = judge(view, &options, &mut Ignore);
        if !live && judgement.verdict != Verdict::Clean && view.is_live()? {
            live = true;
            continue;
        }
        return Ok((judgement, live));
    }
}
