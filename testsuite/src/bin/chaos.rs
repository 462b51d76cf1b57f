//! `chaos`: the kill loop as a command, for hours instead of seconds.
//!
//! Without `--seed` every run has a new plan, and says which; the same seed gives the same plan again (the machine's own
//! timing stays the machine's). `idemd` and `walctl` are built by cargo when it started this command, otherwise taken
//! from beside it.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use idem_testsuite::kill_loop::{Site, run};
use idem_testsuite::process::{IdemdOptions, Policy};
use idem_testsuite::testdir::TestDir;

/// Kills a server again and again, and compares what is there with what clients were told.
#[derive(Debug, Parser)]
#[command(version)]
struct Flags {
    /// Cycles for each policy.
    #[arg(long, default_value_t = 100)]
    cycles: u64,
    /// The plan [default: a new one].
    #[arg(long)]
    seed: Option<u64>,
    /// Only this appendfsync policy: always, everysec, no [default: all three, one after the other].
    #[arg(long, value_parser = policy)]
    appendfsync: Option<Policy>,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let seed = flags.seed.unwrap_or_else(seed_of_now);
    let policies = flags
        .appendfsync
        .map_or(Policy::ALL.to_vec(), |policy| vec![policy]);
    for policy in policies {
        let mut dir = TestDir::new(&format!("chaos-{}", policy.word()), seed);
        let options = IdemdOptions::default().policy(policy).small_files();
        println!(
            "{}: {} cycles with seed {seed} in {}",
            policy.word(),
            flags.cycles,
            dir.path().display()
        );
        match run(&Site::new(&dir.data(), options), seed, flags.cycles) {
            Ok(summary) => println!("{}: {summary:?}", policy.word()),
            Err(violation) => {
                eprintln!("{violation}");
                eprintln!("the data directory is kept: {}", dir.keep().display());
                let (cycles, policy) = (flags.cycles, policy.word());
                eprintln!("repeat with: chaos --seed {seed} --cycles {cycles} --appendfsync {policy}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn policy(text: &str) -> Result<Policy, String> {
    let found = Policy::ALL.into_iter().find(|policy| policy.word() == text);
    found.ok_or_else(|| "none of always, everysec, no".to_owned())
}

/// Any number will do, as long as it is printed.
fn seed_of_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs()
}
