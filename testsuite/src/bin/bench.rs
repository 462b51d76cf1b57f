//! `bench`: the same job side by side with Redis. `cargo xtask bench` builds what it needs and runs it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use idem_testsuite::bench::only::Only;
use idem_testsuite::bench::pin::Cores;
use idem_testsuite::bench::server::Site;
use idem_testsuite::bench::{Failure, Options, report, run};

/// Runs the same job on idemd and on redis-server, in turns, and compares.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
struct Flags {
    /// Rounds; medians are taken over them.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Pending records for memory, pauses, recovery and snapshots.
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// A few hundred operations and one round: whether it works, not how fast.
    #[arg(long)]
    quick: bool,
    /// Only some of: rates, latency, insert, snapshot; always, everysec; c1, c50; d1, d16; begin, probe, complete, replay.
    /// Separated by commas.
    #[arg(long, value_name = "WORDS", value_parser = Only::parse, default_value = "", hide_default_value = true)]
    only: Only,
    /// Seconds of each phase.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Where servers get their directories; both on the file system of this one.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The server under test [default: beside this program].
    #[arg(long, value_name = "FILE")]
    idemd: Option<PathBuf>,
}

fn main() -> ExitCode {
    match measure(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure(flags: &Flags) -> Result<(), Failure> {
    let here = std::env::current_exe().map_err(Failure::io("looking for this program"))?;
    let beside = |name: &str| here.with_file_name(name);
    let parent = flags.dir.clone().unwrap_or_else(|| beside(""));
    let root = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&parent)
        .map_err(Failure::io(format_args!(
            "making a directory in {}",
            parent.display()
        )))?;
    let site = Site {
        idemd: flags.idemd.clone().unwrap_or_else(|| beside("idemd")),
        redis: PathBuf::from("redis-server"),
        root: root.path().to_owned(),
        cores: Cores::choose()?,
    };
    let options = Options {
        rounds: if flags.quick { 1 } else { flags.rounds.max(1) },
        records: if flags.quick { 300 } else { flags.records },
        phase_time: Duration::try_from_secs_f64(flags.seconds)
            .map_err(|_| Failure::new("--seconds is no time"))?,
        phase_operations: if flags.quick { 300 } else { u64::MAX },
        only: flags.only.clone(),
        verbose: true,
    };
    let results = run(&site, &options)?;
    println!("{}", report::render(&results));
    Ok(())
}
