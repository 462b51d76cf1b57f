//! What continuous integration runs, here: the script `.ci/run`, with larger numbers for the long tier.

use std::process::Command;

use clap::ValueEnum;

use crate::binaries::workspace;
use crate::failure::Failure;

/// How much time there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tier {
    /// Every push.
    Quick,
    /// Every night.
    Long,
}

/// What the long tier asks of tests that repeat themselves with new seeds. What the caller has set already wins.
const LONG: &[(&str, &str)] = &[
    // Starts of the real server after a SIGKILL.
    ("IDEM_KILL_CYCLES", "300"),
    // Histories of crashes, power losses and damage on the simulated disk.
    ("IDEM_HISTORIES", "20000"),
    ("PROPTEST_CASES", "4096"),
    // Repetitions of every attack; with more than one, limits that take a minute are waited for.
    ("IDEM_HOSTILE_ROUNDS", "5"),
    // Ten thousand changed inputs for each target of the fuzzer.
    ("IDEM_FUZZ_ROUNDS", "100"),
];

/// Runs the script to its end.
pub(crate) fn run(tier: Tier) -> Result<(), Failure> {
    let mut command = Command::new(workspace().join(".ci/run"));
    command.current_dir(workspace());
    if tier == Tier::Long {
        for (name, value) in LONG {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
    }
    let status = command.status().map_err(Failure::io("starting .ci/run"))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!(".ci/run failed: {status}")))
    }
}
