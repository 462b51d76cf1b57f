//! The benchmark: the same job, done by idemd and by `redis-server`, side by side in one run.
//!
//! # Vocabulary
//!
//! * **job** — begin, probe, complete, replay ([`wire`]). Redis does it with two Lua scripts of equal meaning
//!   ([`scripts`]); that both mean the same is checked before anything is measured ([`selfcheck`]).
//! * **shape** — connections × depth: how many clients, and how many requests each has on its way ([`rates`]).
//! * **round** — everything once, both servers in turns. What counts is the median over the rounds.
//! * **ratio** — idemd's number by Redis's number of the same round.
//! * **generator** — the closed loop that asks and checks each reply ([`load`]), on a core of its own.
//!
//! # Invariants
//!
//! * Both servers get the same: core, file system, policy, requests in number and meaning, turns.
//! * A reply that is not the right one fails the run. There is no fast wrong answer.
//! * Servers end with the benchmark, and their directories go, whatever becomes of it.
//! * Absolute numbers are reported and judged by nobody: no test depends on the speed of a machine.
//!
//! # Deliberately absent
//!
//! Tuning of either server beyond what makes them equal, and tests of correctness: those are elsewhere.

pub mod disk;
pub mod drive;
pub mod latency;
pub mod load;
pub mod machine;
pub mod million;
pub mod only;
pub mod pin;
pub mod rates;
pub mod report;
pub mod scripts;
pub mod selfcheck;
pub mod server;
pub mod wire;

use std::fmt::Display;
use std::io;
use std::time::Duration;

use latency::Latency;
use million::{Insert, Snapshot};
use only::Only;
use rates::Run;
use server::{Site, System};

/// Why there is no result: one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// In words.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure(message.into())
    }

    /// For `map_err`: the system's error at doing `what`.
    pub fn io(what: impl Display) -> impl FnOnce(io::Error) -> Failure {
        move |error| Failure(format!("{what}: {error}"))
    }

    /// The same for calls of `rustix`.
    pub fn errno(what: impl Display) -> impl FnOnce(rustix::io::Errno) -> Failure {
        move |error| Failure(format!("{what}: {error}"))
    }
}

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds; at least one.
    pub rounds: usize,
    /// Pending records for memory, pauses, recovery and snapshots.
    pub records: u64,
    /// A phase ends after so long …
    pub phase_time: Duration,
    /// … or after so many operations.
    pub phase_operations: u64,
    /// Snapshots are taken for so long, and for so long none before; but one is taken in any case.
    pub snapshot_time: Duration,
    /// Waits until a server has nothing else to do, before it is measured.
    pub settle: bool,
    /// Which parts.
    pub only: Only,
    /// Says on stderr what is done.
    pub verbose: bool,
}

impl Options {
    /// A line for whoever waits.
    pub fn progress(&self, text: &str) {
        if self.verbose {
            eprintln!("{text}");
        }
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Part `rates`.
    pub runs: Vec<Run>,
    /// Part `latency`.
    pub latencies: Vec<Latency>,
    /// Part `insert`.
    pub inserts: Vec<Insert>,
    /// Part `snapshot`.
    pub snapshots: Vec<Snapshot>,
}

/// Measures. What there is after each round is handed to `after`: a run that is ended early has not been for nothing.
pub fn run(
    site: &Site,
    options: &Options,
    after: impl Fn(&Results) -> Result<(), Failure>,
) -> Result<Results, Failure> {
    if let Some(cores) = site.cores {
        pin::move_to(cores.generator)?;
    }
    let mut results = Results::default();
    for round in 0..options.rounds {
        if options.only.part("rates") {
            rates::round(site, options, round, &mut results.runs)?;
        }
        if options.only.part("latency") {
            results.latencies.push(latency::round(site, options, round)?);
        }
        if options.only.part("insert") || options.only.part("snapshot") {
            for system in System::in_turns(round) {
                let (insert, snapshot) = million::round(site, options, round, system)?;
                results.inserts.extend(insert);
                results.snapshots.extend(snapshot);
            }
        }
        after(&results)?;
    }
    Ok(results)
}

/// A size or an index, where 64 bits are wanted.
fn count(number: usize) -> u64 {
    u64::try_from(number).expect("a usize has at most 64 bits")
}

/// For rates and averages: exact up to 2^53, close enough beyond.
#[allow(clippy::cast_precision_loss)]
fn number(count: u64) -> f64 {
    count as f64
}
