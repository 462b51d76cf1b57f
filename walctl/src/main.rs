//! `walctl`: looks at the log of an `idemd` data directory, and makes something of it.
//!
//! Vocabulary: an *lsn* is a position in the stream of records, counted in record bytes since the log began; the *verdict*
//! is what a start of the server would make of the directory, one row of the recovery table; a directory is *live* while a
//! server holds its lock.
//!
//! Invariants
//! * Looking changes nothing: every command sees a data directory through [`view::View`], which refuses whatever is not a
//!   read; the lock is asked about, and held only for the time of a repair. What writes (a restore, an archive, a repair,
//!   an export) does so in modules of its own, after a question or `--yes`, and shows with `--dry-run` what it would do.
//! * Data goes to stdout, everything else to stderr. A reader that closes the pipe has had enough: that is success.
//! * Bytes that are no text are written the same way everywhere ([`text::Escaped`]), and read back from the command line in
//!   that form.
//! * Memory is bounded by the largest frame of the log, whatever is printed of it; what rebuilds the [`state`] needs what a
//!   server needs for it.
//!
//! Deliberately absent: any parser of a log's bytes (the `wal` crate's reader and verdict are the server's own), any state
//! machine (the `engine` crate's `apply` is), and taking part in a running server.
//!
//! `main` is flags and glue; one file per command is in [`cmd`].

#![forbid(unsafe_code)]

/// The standard one panics when stderr cannot be written to: a reader that has closed the pipe, a full disk. Whether anybody
/// reads what is said changes nothing about what was done, nor about the exit code.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

mod args_common;
mod chain;
mod claimed;
mod cli;
mod cmd;
mod confirm;
mod exit;
mod generate;
mod line;
mod log_end;
mod lone_file;
mod output;
mod parse;
mod progress;
mod read_only;
mod scan;
mod shell;
mod skipped;
mod state;
mod store;
mod text;
mod view;
mod vouched;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use exit::{Exit, Failure};
use output::Out;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are asked for; they go to stdout, and a closed pipe there is no mistake either. Whether a
            // complaint reaches stderr changes nothing about it.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Failed
            } else {
                Exit::Clean
            }
            .into();
        }
    };
    match run(&cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("walctl: {failure}");
            Exit::Failed.into()
        }
    }
}

fn run(cli: &Cli) -> Result<Exit, Failure> {
    if let Some(what) = cli.generate {
        let mut out = Out::stdout(false);
        return generate::write(what, &mut out);
    }
    match &cli.command {
        Some(Command::Verify(args)) => cmd::verify::run(args),
        Some(Command::Dump(args)) => cmd::dump::run(args),
        Some(Command::History(args)) => cmd::history::run(args),
        Some(Command::Stat(args)) => cmd::stat::run(args),
        Some(Command::Snapshot(args)) => cmd::snapshot::run(args),
        Some(Command::Replay(args)) => cmd::replay::run(args),
        Some(Command::Restore(args)) => cmd::restore::run(args),
        Some(Command::Diff(args)) => cmd::diff::run(args),
        Some(Command::Archive(args)) => cmd::archive::run(args),
        Some(Command::Repair(args)) => cmd::repair::run(args),
        None => Err(Failure::usage("a command is needed; walctl --help lists them")),
    }
}
