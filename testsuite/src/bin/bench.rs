//! `bench`: the same job side by side with Redis. `cargo xtask bench` builds what it needs and runs it.
//!
//! The report is Markdown on stdout; what is going on goes to stderr.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use idem_testsuite::bench::drive::{self, Drive};
use idem_testsuite::bench::only::Only;
use idem_testsuite::bench::pin::Cores;
use idem_testsuite::bench::report::{self, targets};
use idem_testsuite::bench::server::Site;
use idem_testsuite::bench::wire::Phase;
use idem_testsuite::bench::{Failure, Options, Results, machine, run};

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench                                        everything: a quarter of an hour
  cargo xtask bench --only rates,always,c50 --rounds 7     the phases with 50 connections
  cargo xtask bench --load begin --conns 50 --depth 16 --seconds 10 --addr 127.0.0.1:6379
                                                           one phase, for a profiler";

/// Runs the same job on idemd and on redis-server, in turns, and compares.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench", after_help = EXAMPLES)]
struct Flags {
    /// Rounds; medians are taken over them.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Pending records for memory, pauses, recovery and snapshots.
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// A few hundred operations and one round: whether the benchmark works, not how fast anything is.
    #[arg(long, conflicts_with_all = ["strict", "write_docs"])]
    quick: bool,
    /// Only some of: rates, latency, insert, snapshot; always, everysec; c1, c50; d1, d16; begin, probe, complete, replay.
    /// Separated by commas; words of one kind add up, kinds restrict each other.
    #[arg(long, value_name = "WORDS", value_parser = Only::parse, default_value = "", hide_default_value = true)]
    only: Only,
    /// Seconds of each phase.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Writes the report to a file, too, anew after each round.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Puts the report into docs/benchmarks.md.
    #[arg(long)]
    write_docs: bool,
    /// Ends with 1 when something fell short of what it has to reach.
    #[arg(long)]
    strict: bool,
    /// Where servers get their directories, on the file system that is measured [default: beside this program].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The server under test [default: beside this program].
    #[arg(long, value_name = "FILE")]
    idemd: Option<PathBuf>,
    /// The tool that reads its log [default: beside this program].
    #[arg(long, value_name = "FILE")]
    walctl: Option<PathBuf>,
    /// The other server.
    #[arg(long, value_name = "FILE", default_value = "redis-server")]
    redis: PathBuf,
    /// Drives one phase (begin, probe, complete, replay, ping) against the server at --addr, and compares nothing.
    #[arg(long, value_name = "PHASE", value_parser = phase, requires = "addr")]
    load: Option<Phase>,
    /// With --load: where the server listens.
    #[arg(long, value_name = "HOST:PORT", requires = "load")]
    addr: Option<SocketAddr>,
    /// With --load: connections.
    #[arg(long, default_value_t = 50, requires = "load")]
    conns: usize,
    /// With --load: requests of one write.
    #[arg(long, default_value_t = 1, requires = "load")]
    depth: u64,
    /// With --load: keys that are begun, or completed, before the phase.
    #[arg(long, default_value_t = 200_000, requires = "load")]
    keys: u64,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = match (flags.load, flags.addr) {
        (Some(phase), Some(address)) => drive(&flags, phase, address),
        _ => compare(&flags),
    };
    match done {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn compare(flags: &Flags) -> Result<ExitCode, Failure> {
    require_redis(&flags.redis)?;
    let here = std::env::current_exe().map_err(Failure::io("looking for this program"))?;
    let beside = |given: &Option<PathBuf>, name| given.clone().unwrap_or_else(|| here.with_file_name(name));
    let parent = beside(&flags.dir, "");
    let root = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&parent)
        .map_err(Failure::io(format_args!(
            "making a directory in {}",
            parent.display()
        )))?;
    let site = Site {
        idemd: beside(&flags.idemd, "idemd"),
        walctl: beside(&flags.walctl, "walctl"),
        redis: flags.redis.clone(),
        root: root.path().to_owned(),
        cores: Cores::choose()?,
    };
    let options = Options {
        rounds: if flags.quick { 1 } else { flags.rounds.max(1) },
        records: if flags.quick { 300 } else { flags.records.max(1) },
        phase_time: if flags.quick { QUICK } else { time(flags)? },
        snapshot_time: if flags.quick {
            Duration::from_millis(200)
        } else {
            2 * time(flags)?
        },
        phase_operations: if flags.quick { 300 } else { u64::MAX },
        settle: !flags.quick,
        only: flags.only.clone(),
        verbose: true,
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let machine = machine::describe(&site, &without_paths(&arguments).join(" "));
    let render = |results: &Results| {
        if flags.quick {
            report::check_of_the_tool(&machine, results)
        } else {
            report::render(&machine, results)
        }
    };
    let results = run(&site, &options, |so_far| match &flags.out {
        Some(path) => std::fs::write(path, render(so_far)).map_err(Failure::io(path.display())),
        None => Ok(()),
    })?;
    let report = render(&results);
    println!("{report}");
    if flags.write_docs {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md");
        report::docs::write(&page, &report)?;
    }
    let short = targets::all(&results).iter().any(targets::Target::is_short);
    Ok(if flags.strict && short {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn drive(flags: &Flags, phase: Phase, address: SocketAddr) -> Result<ExitCode, Failure> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let measured = Drive {
        address,
        phase,
        connections: flags.conns.max(1),
        depth: flags.depth.max(1),
        time: time(flags)?,
        keys: flags.keys.max(1),
        // Keys have room for 56 bits: a run of each second has 16 million of its own.
        first: since.as_secs() << 24,
    }
    .run()?;
    println!("{}", drive::line(&measured));
    Ok(ExitCode::SUCCESS)
}

/// Long enough for a few hundred operations on any disk.
const QUICK: Duration = Duration::from_secs(5);

fn time(flags: &Flags) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(flags.seconds).map_err(|_| Failure::new("--seconds is no time"))
}

fn phase(text: &str) -> Result<Phase, String> {
    let mut all = Phase::JOB.into_iter().chain([Phase::Ping]);
    all.find(|phase| phase.word() == text)
        .ok_or_else(|| "none of begin, probe, complete, replay, ping".to_owned())
}

/// Without the other side there is nothing to compare with.
fn require_redis(redis: &Path) -> Result<(), Failure> {
    let there = Command::new(redis)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if there {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "{} does not run; on Debian and Ubuntu: apt-get install redis-server",
            redis.display()
        )))
    }
}

/// The command as somebody else can repeat it: where programs and reports lie on this machine is left out.
fn without_paths(arguments: &[String]) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word.split_once('=').map_or(word, |(name, _)| name) {
            "--idemd" | "--walctl" | "--out" | "--dir" | "--redis" => {
                if !word.contains('=') {
                    words.next();
                }
            }
            _ => kept.push(word),
        }
    }
    kept
}
