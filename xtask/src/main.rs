//! The task runner of this workspace: `cargo xtask TASK`. There is no other one.
//!
//! A task is a file of its own that builds what it needs with the cargo that runs it (the variable `CARGO`), prints for a
//! person, and ends with 0 or with 1 and a line that says what does not hold.
//!
//! Deliberately absent: anything that a plain `cargo` command does as well.

#![forbid(unsafe_code)]

mod bench;
mod binaries;
mod ci;
mod demo;
mod failure;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use ci::Tier;
use failure::Failure;

const EXAMPLES: &str = "\
Examples:
  cargo xtask demo
  cargo xtask bench --only rates,always
  cargo xtask ci
  IDEM_KILL_CYCLES=1000 cargo xtask ci long";

/// Runs a task of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    task: Option<Task>,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Shows the main job: begin, complete, a replayed duplicate, SIGKILL in a stream of writes, and a restart that has
    /// everything acknowledged. Takes seconds after the build.
    Demo,
    /// Measures idemd beside redis-server, doing the same job in turns. `cargo xtask bench --help` lists its options.
    #[command(disable_help_flag = true)]
    Bench {
        /// For the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Runs what continuous integration runs.
    Ci {
        /// quick: minutes. long: the same with hundreds of kill cycles and thousands of crash histories.
        #[arg(value_enum, default_value_t = Tier::Quick)]
        tier: Tier,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Some(Task::Demo) => demo::run(),
        Some(Task::Bench { arguments }) => bench::run(&arguments),
        Some(Task::Ci { tier }) => ci::run(tier),
        // Somebody who asks for nothing wants to know what there is.
        None => Cli::command()
            .print_help()
            .map_err(Failure::io("printing the help")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}
