//! The phases: medians over the rounds, and ratios within them.

use std::time::Duration;

use super::table::table;
use super::{digits, median};
use crate::bench::number;
use crate::bench::rates::{Run, Shape};
use crate::bench::server::System;
use crate::bench::wire::Phase;
use crate::process::Policy;

/// The runs of one phase in one shape under one policy, both servers, all rounds.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// `appendfsync`.
    pub policy: Policy,
    /// Clients.
    pub shape: Shape,
    /// What was done.
    pub phase: Phase,
    runs: Vec<&'a Run>,
}

impl Cell<'_> {
    /// Those that were measured, in the order in which they were.
    pub fn all(runs: &[Run]) -> Vec<Cell<'_>> {
        let mut cells: Vec<Cell<'_>> = Vec::new();
        for run in runs {
            let (policy, shape, phase) = (run.policy, run.shape, run.phase);
            let same = |cell: &&mut Cell<'_>| (cell.policy, cell.shape, cell.phase) == (policy, shape, phase);
            match cells.iter_mut().find(same) {
                Some(cell) => cell.runs.push(run),
                None => cells.push(Cell {
                    policy,
                    shape,
                    phase,
                    runs: vec![run],
                }),
            }
        }
        cells
    }

    /// Median of what `of` takes from each run of a server.
    pub fn median(&self, system: System, of: impl Fn(&Run) -> f64) -> f64 {
        median(self.of(system).map(of)).unwrap_or(f64::NAN)
    }

    /// Median over the rounds of idemd's rate by Redis's rate.
    pub fn ratio(&self) -> f64 {
        let ratios = self.of(System::Idemd).filter_map(|idemd| {
            let redis = self.of(System::Redis).find(|redis| redis.round == idemd.round)?;
            Some(idemd.rate / redis.rate)
        });
        median(ratios).unwrap_or(f64::NAN)
    }

    /// CPU time of a server for an operation, in microseconds: user, system. Over all rounds together, because the kernel
    /// counts in hundredths of a second.
    pub fn cpu_usec(&self, system: System) -> [f64; 2] {
        let operations: u64 = self.of(system).map(|run| run.operations).sum();
        let user: Duration = self.of(system).map(|run| run.cpu.user).sum();
        let kernel: Duration = self.of(system).map(|run| run.cpu.system).sum();
        [user, kernel].map(|time| time.as_secs_f64() * 1e6 / number(operations))
    }

    fn of(&self, system: System) -> impl Iterator<Item = &Run> {
        self.runs.iter().copied().filter(move |run| run.system == system)
    }

    fn name(&self) -> String {
        format!(
            "{} {}×{} {}",
            self.policy.word(),
            self.shape.connections,
            self.shape.depth,
            self.phase.word()
        )
    }
}

pub(super) fn render(runs: &[Run]) -> String {
    let cells = Cell::all(runs);
    if cells.is_empty() {
        return String::new();
    }
    let others = || runs.iter().map(|run| 100.0 * run.others_share);
    let busiest = runs
        .iter()
        .map(|run| 100.0 * run.generator_share)
        .fold(0.0, f64::max);
    // A generator that has no time left measures itself.
    let warning = if busiest > 90.0 {
        " **The generator's core was over 90 % busy: what it measured there is a lower bound.**"
    } else {
        ""
    };
    format!(
        "### Rates\n\nOperations a second. The ratio is the median of the rounds' ratios. Other processes took {:.0} % of \
         the machine meanwhile (median; at most {:.0} %); the generator's core was at most {busiest:.0} % busy with it.\
         {warning}\n\n{}\
         ### Latencies\n\nMicroseconds at full load, idemd / Redis; the median of the rounds, and for max the longest of \
         all.\n\n{}\
         ### CPU and log\n\nMicroseconds of the server's CPU and bytes of its log for an operation, idemd / Redis; CPU over \
         all rounds.\n\n{}",
        median(others()).unwrap_or(0.0),
        others().fold(0.0, f64::max),
        rates(&cells),
        latencies(&cells),
        costs(&cells)
    )
}

fn rates(cells: &[Cell<'_>]) -> String {
    let rows: Vec<_> = cells
        .iter()
        .map(|cell| {
            let rate = |system| format!("{:.0}", cell.median(system, |run| run.rate));
            let busy = |system| format!("{:.0} %", 100.0 * cell.median(system, |run| run.generator_share));
            [
                cell.name(),
                rate(System::Idemd),
                rate(System::Redis),
                digits(cell.ratio(), 2),
                busy(System::Idemd),
                busy(System::Redis),
            ]
        })
        .collect();
    table(
        [
            "policy, connections×depth, phase",
            "idemd",
            "Redis",
            "ratio",
            "generator busy: idemd",
            "Redis",
        ],
        &rows,
    )
}

fn latencies(cells: &[Cell<'_>]) -> String {
    let rows: Vec<_> = cells
        .iter()
        .map(|cell| {
            let both = |index: usize| {
                let of = |system| cell.median(system, |run| number(run.latency_ns[index]) / 1e3);
                format!("{:.0} / {:.0}", of(System::Idemd), of(System::Redis))
            };
            let longest = |system| cell.of(system).map(|run| run.latency_ns[3]).max().unwrap_or(0) / 1000;
            let max = format!("{} / {}", longest(System::Idemd), longest(System::Redis));
            [cell.name(), both(0), both(1), both(2), max]
        })
        .collect();
    table(
        ["policy, connections×depth, phase", "p50", "p99", "p99.9", "max"],
        &rows,
    )
}

fn costs(cells: &[Cell<'_>]) -> String {
    let rows: Vec<_> = cells
        .iter()
        .map(|cell| {
            let [user, kernel] = cell.cpu_usec(System::Idemd);
            let [redis_user, redis_kernel] = cell.cpu_usec(System::Redis);
            let bytes = |system| cell.median(system, |run| run.logged_bytes / number(run.operations));
            [
                cell.name(),
                format!("{user:.2} / {redis_user:.2}"),
                format!("{kernel:.2} / {redis_kernel:.2}"),
                digits(user / redis_user, 2),
                format!("{:.1} / {:.1}", bytes(System::Idemd), bytes(System::Redis)),
            ]
        })
        .collect();
    table(
        [
            "policy, connections×depth, phase",
            "user",
            "system",
            "user ratio",
            "logged",
        ],
        &rows,
    )
}
