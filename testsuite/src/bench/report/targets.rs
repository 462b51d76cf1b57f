//! What idemd has to reach beside Redis, and whether this run did.
//!
//! A number that fell short stays in the table with its word. What was not measured is said, too.

use std::time::Duration;

use super::median;
use super::phases::Cell;
use super::table::table;
use crate::bench::million::Insert;
use crate::bench::server::System;
use crate::bench::wire::{KEY_AND_RECORD_BYTES, Phase};
use crate::bench::{Results, number};
use crate::process::Policy;

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    row: String,
    at_least: String,
    reached: String,
    /// `None`: not measured.
    ok: Option<bool>,
}

impl Target {
    /// Whether it was measured and not reached.
    pub fn is_short(&self) -> bool {
        self.ok == Some(false)
    }
}

/// All lines.
pub fn all(results: &Results) -> Vec<Target> {
    let cells = Cell::all(&results.runs);
    let mut targets = Vec::new();
    for (phase, depth, least) in [
        (Phase::Begin, 1, 1.8),
        (Phase::Complete, 1, 1.4),
        (Phase::Replay, 1, 1.5),
        (Phase::Begin, 16, 4.5),
        (Phase::Complete, 16, 3.0),
        (Phase::Replay, 16, 5.0),
    ] {
        targets.push(ratio(&cells, Policy::Always, phase, depth, least));
    }
    targets.push(ratio(&cells, Policy::Everysec, Phase::Begin, 16, 4.0));
    targets.push(user_cpu(&cells, 1));
    targets.push(user_cpu(&cells, 16));
    targets.extend(inserted(&results.inserts));
    targets.push(one_client(results));
    targets.extend(snapshot(results));
    targets
}

pub(super) fn render(targets: &[Target]) -> String {
    let rows: Vec<_> = targets
        .iter()
        .map(|target| {
            let word = match target.ok {
                Some(true) => "ok",
                Some(false) => "short",
                None => "not measured",
            };
            [
                target.row.clone(),
                target.at_least.clone(),
                target.reached.clone(),
                word.to_owned(),
            ]
        })
        .collect();
    table(["what", "has to reach", "reached", ""], &rows)
}

/// A line for one number, which has to be at least (or at most) `limit`.
fn line(row: impl Into<String>, at_least: impl Into<String>, reached: Option<(String, bool)>) -> Target {
    let (reached, ok) = reached.map_or(("–".to_owned(), None), |(text, ok)| (text, Some(ok)));
    Target {
        row: row.into(),
        at_least: at_least.into(),
        reached,
        ok,
    }
}

fn ratio(cells: &[Cell<'_>], policy: Policy, phase: Phase, depth: u64, least: f64) -> Target {
    let cell = cells.iter().find(|cell| {
        (cell.policy, cell.phase) == (policy, phase)
            && (cell.shape.connections, cell.shape.depth) == (50, depth)
    });
    line(
        format!(
            "{}: {} a second, 50 connections, depth {depth}",
            policy.word(),
            phase.word()
        ),
        format!("{least} × Redis"),
        cell.map(Cell::ratio)
            .map(|ratio| (format!("{ratio:.2} ×"), ratio >= least)),
    )
}

/// The worst phase counts, and is named.
fn user_cpu(cells: &[Cell<'_>], depth: u64) -> Target {
    let chosen = cells.iter().filter(|cell| {
        cell.policy == Policy::Always && (cell.shape.connections, cell.shape.depth) == (50, depth)
    });
    let shares = chosen.map(|cell| {
        let [ours, redis] = System::BOTH.map(|system| cell.cpu_usec(system)[0]);
        (ours / redis, cell.phase.word())
    });
    // Hundredths of a second are nothing in a short run: no ratio then.
    let worst = shares
        .filter(|(share, _)| share.is_finite())
        .max_by(|one, two| one.0.total_cmp(&two.0));
    line(
        format!("always: user CPU for an operation, 50 connections, depth {depth}"),
        "at most 0.3 of Redis",
        worst.map(|(share, phase)| (format!("{share:.2} ({phase})"), share <= 0.3)),
    )
}

fn inserted(all: &[Insert]) -> Vec<Target> {
    let idemd = || all.iter().filter(|insert| insert.system == System::Idemd);
    let middle = |of: fn(&Insert) -> f64| median(idemd().map(of));
    let least_bytes = 1.35 * number(KEY_AND_RECORD_BYTES);
    let pauses = Pauses::of(idemd().map(|insert| (insert.pause, insert.slowest_sync)));
    vec![
        line(
            "memory for a pending record",
            "at most 210 bytes (aim 180)",
            middle(|insert| insert.memory_bytes).map(|bytes| (format!("{bytes:.0} bytes"), bytes <= 210.0)),
        ),
        line(
            "logged for a BEGIN, 50 connections, depth 1",
            format!("at most {least_bytes:.0} bytes"),
            middle(|insert| number(insert.logged_bytes) / number(insert.records))
                .map(|bytes| (format!("{bytes:.1} bytes"), bytes <= least_bytes)),
        ),
        line(
            "recovery",
            "0.8 million transitions a second (aim 2)",
            middle(|insert| number(insert.records) / insert.recovery.as_secs_f64() / 1e6)
                .map(|rate| (format!("{rate:.2} million"), rate >= 0.8)),
        ),
        // The one reader that a start uses too. The time of a start holds the applying as well: it is judged by
        // transitions.
        line(
            "reading the log from cache (walctl verify; a start has the same reader)",
            "500 MB/s",
            median(idemd().filter_map(|insert| Some(megabytes(insert, insert.verify?))))
                .map(|rate| (format!("{rate:.0} MB/s"), rate >= 500.0)),
        ),
        pauses.line("longest pause while a million keys are inserted"),
    ]
}

/// Bytes of the log in millions a second.
pub(super) fn megabytes(insert: &Insert, took: Duration) -> f64 {
    number(insert.logged_bytes) / took.as_secs_f64() / 1e6
}

fn one_client(results: &Results) -> Target {
    let factor = median(results.latencies.iter().map(|latency| {
        number(latency.idemd_begin_ns.saturating_sub(latency.ping_ns)) / number(latency.bare_ns())
    }));
    line(
        "always: one connection, depth 1: p50 of BEGIN less a round trip",
        "at most 1.5 × bare write and sync",
        factor.map(|factor| (format!("{factor:.2} ×"), factor <= 1.5)),
    )
}

fn snapshot(results: &Results) -> [Target; 2] {
    let idemd = || {
        results
            .snapshots
            .iter()
            .filter(|snapshot| snapshot.system == System::Idemd)
    };
    let share = median(idemd().map(|snapshot| snapshot.rates[1] / snapshot.rates[0]));
    let pauses = Pauses::of(idemd().map(|snapshot| (snapshot.pauses[1], snapshot.slowest_sync)));
    [
        line(
            "BEGIN while a million keys are saved",
            "at least 0.6 of undisturbed",
            share.map(|share| (format!("{share:.2}"), share >= 0.6)),
        ),
        pauses.line("longest pause while a million keys are saved"),
    ]
}

/// Pauses in milliseconds, and how far each was beyond the slowest sync of its run.
struct Pauses {
    pause: Option<f64>,
    beyond: Option<f64>,
    worst: Option<f64>,
}

impl Pauses {
    fn of(pairs: impl Iterator<Item = (Duration, Option<Duration>)>) -> Pauses {
        let pairs: Vec<(f64, f64)> = pairs
            .map(|(pause, sync)| {
                let [pause, sync] = [pause, sync.unwrap_or_default()].map(|time| time.as_secs_f64() * 1e3);
                (pause, pause - sync)
            })
            .collect();
        Pauses {
            pause: median(pairs.iter().map(|(pause, _)| *pause)),
            beyond: median(pairs.iter().map(|(_, beyond)| *beyond)),
            worst: pairs.iter().map(|(_, beyond)| *beyond).max_by(f64::total_cmp),
        }
    }

    /// The median of the rounds counts; the worst round is told.
    fn line(&self, row: &str) -> Target {
        let reached = match (self.pause, self.beyond, self.worst) {
            (Some(pause), Some(beyond), Some(worst)) => Some((
                format!("{pause:.1} ms: slowest sync {beyond:+.1} (worst round {worst:+.1})"),
                beyond <= 5.0,
            )),
            _ => None,
        };
        line(row, "at most the slowest sync + 5 ms", reached)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Pauses, all};
    use crate::bench::Results;

    #[test]
    fn nothing_measured_is_neither_ok_nor_short() {
        let targets = all(&Results::default());
        assert!(targets.len() >= 16, "{}", targets.len());
        assert!(
            targets
                .iter()
                .all(|target| target.ok.is_none() && !target.is_short())
        );
    }

    #[test]
    fn a_pause_is_judged_by_what_it_is_beyond_the_slowest_sync() {
        let ms = Duration::from_millis;
        for (pairs, ok) in [
            (
                vec![
                    (ms(20), Some(ms(18))),
                    (ms(90), Some(ms(10))),
                    (ms(9), Some(ms(8))),
                ],
                true,
            ),
            (vec![(ms(9), Some(ms(3)))], false),
            (vec![(ms(4), None)], true),
        ] {
            let target = Pauses::of(pairs.into_iter()).line("row");
            assert_eq!(target.ok, Some(ok), "{target:?}");
        }
    }
}
