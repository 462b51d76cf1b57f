//! The parts beside the phases: one client, a million records, snapshots.

use std::time::Duration;

use super::median;
use super::table::table;
use super::targets::megabytes;
use crate::bench::latency::Latency;
use crate::bench::million::{Insert, Snapshot};
use crate::bench::number;
use crate::bench::server::System;

pub(super) fn latencies(all: &[Latency]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let usec = |of: fn(&Latency) -> u64| {
        let middle = median(all.iter().map(|latency| number(of(latency)) / 1e3));
        format!("{:.0}", middle.unwrap_or(f64::NAN))
    };
    let rows = [
        (
            "bare write of 200 bytes and fdatasync, into a file of zeros",
            usec(Latency::bare_ns),
        ),
        (
            "the same, at the end of a growing file",
            usec(|latency| latency.bare[0].growing_ns.midpoint(latency.bare[1].growing_ns)),
        ),
        (
            "PING, a round trip on the loopback",
            usec(|latency| latency.ping_ns),
        ),
        ("BEGIN, idemd", usec(|latency| latency.idemd_begin_ns)),
        ("BEGIN, Redis", usec(|latency| latency.redis_begin_ns)),
    ]
    .map(|(what, usec)| [what.to_owned(), usec]);
    format!(
        "### One client\n\nMedian latency in microseconds, `always`, one connection, depth 1.\n\n{}",
        table(["what", "p50"], &rows)
    )
}

pub(super) fn inserts(all: &[Insert]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let records = all.iter().map(|insert| insert.records).max().unwrap_or(0);
    let row =
        |what: &str, of: &dyn Fn(&Insert) -> Option<String>, middle: &dyn Fn(&Insert) -> Option<f64>| {
            // The run in the middle speaks, so that its text is that of a run which happened.
            let cell = |system: System| {
                let mut values: Vec<(f64, &Insert)> = all
                    .iter()
                    .filter(|insert| insert.system == system)
                    .filter_map(|insert| Some((middle(insert)?, insert)))
                    .collect();
                values.sort_by(|one, two| one.0.total_cmp(&two.0));
                let run = values.get(values.len() / 2).and_then(|(_, insert)| of(insert));
                run.unwrap_or_else(|| "–".to_owned())
            };
            [what.to_owned(), cell(System::Idemd), cell(System::Redis)]
        };
    let plain = |what: &str, digits: usize, of: &dyn Fn(&Insert) -> Option<f64>| {
        row(what, &|insert| Some(format!("{:.digits$}", of(insert)?)), of)
    };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let rows = [
        plain("BEGINs a second", 0, &|insert| Some(insert.rate)),
        plain("resident bytes for a record", 0, &|insert| {
            Some(insert.memory_bytes)
        }),
        plain("logged bytes for a record", 1, &|insert| {
            Some(number(insert.logged_bytes) / number(insert.records))
        }),
        plain("longest pause of a client, ms", 1, &|insert| {
            Some(ms(insert.pause))
        }),
        plain("slowest sync, ms", 1, &|insert| insert.slowest_sync.map(ms)),
        plain("start after SIGKILL, seconds", 2, &|insert| {
            Some(insert.recovery.as_secs_f64())
        }),
        plain("transitions read back, million a second", 2, &|insert| {
            Some(number(insert.records) / insert.recovery.as_secs_f64() / 1e6)
        }),
        plain("log read back, MB/s", 0, &|insert| {
            Some(megabytes(insert, insert.recovery))
        }),
        plain("walctl verify, MB/s", 0, &|insert| {
            Some(megabytes(insert, insert.verify?))
        }),
    ];
    format!(
        "### {records} pending records\n\n`always`, 50 connections, depth 1; the run in the middle of all rounds for each \
         line.\n\n{}",
        table(["what", "idemd", "Redis"], &rows)
    )
}

pub(super) fn snapshots(all: &[Snapshot]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let cell = |system: System, of: &dyn Fn(&Snapshot) -> Option<f64>, digits: usize| {
        let chosen = all.iter().filter(|snapshot| snapshot.system == system);
        median(chosen.filter_map(of)).map_or("–".to_owned(), |value| format!("{value:.digits$}"))
    };
    let row = |what: &str, digits: usize, of: &dyn Fn(&Snapshot) -> Option<f64>| {
        [
            what.to_owned(),
            cell(System::Idemd, of, digits),
            cell(System::Redis, of, digits),
        ]
    };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let rows = [
        row("BEGINs a second, undisturbed", 0, &|snapshot| {
            Some(snapshot.rates[0])
        }),
        row("BEGINs a second, while snapshots run", 0, &|snapshot| {
            Some(snapshot.rates[1])
        }),
        row("part of undisturbed", 2, &|snapshot| {
            Some(snapshot.rates[1] / snapshot.rates[0])
        }),
        row("longest pause undisturbed, ms", 1, &|snapshot| {
            Some(ms(snapshot.pauses[0]))
        }),
        row("longest pause while snapshots run, ms", 1, &|snapshot| {
            Some(ms(snapshot.pauses[1]))
        }),
        row("slowest sync of both, ms", 1, &|snapshot| {
            snapshot.slowest_sync.map(ms)
        }),
        row("seconds of a snapshot", 2, &|snapshot| {
            Some(snapshot.took.as_secs_f64() / number(snapshot.snapshots))
        }),
    ];
    format!(
        "### Snapshots while serving\n\nBGSAVE of those records, one after the other, beside BEGINs: `always`, 50 connections, \
         depth 1; medians.\n\n{}",
        table(["what", "idemd", "Redis"], &rows)
    )
}
