//! `LATENCY`: slow moments of the server ([`latency`](crate::latency)).

use std::fmt::Write as _;

use idem_protocol::command::{SubcommandId, docs};
use idem_protocol::resp::encode::Reply;

use super::introspect::shorten;
use super::{Call, Decided, View, count, shown};
use crate::decision::Decision;
use crate::deed::Deed;
use crate::latency::{LatencyEvent, Sample, Series};

/// Columns of a picture: so many of the last seconds are drawn.
const COLUMNS: usize = 80;
/// Lines of a picture.
const ROWS: u64 = 4;

const OFF: &str = "Latency monitoring is off. CONFIG SET latency-monitor-threshold <milliseconds> has slow commands and \
                   slow syncs of the log noted from then on.\n";

const NOTHING: &str =
    "Nothing was slow: no command and no sync of the log took as long as latency-monitor-threshold.\n";

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let kept = |event| kept(view, event);
    Ok(Decision::reply(match call.subcommand() {
        Some(SubcommandId::LatencyDoctor) => Reply::Verbatim("txt", doctor(view).into()),
        Some(SubcommandId::LatencyGraph) => {
            let named = LatencyEvent::by_name(call.arg(2), false);
            let series = named.and_then(|event| kept(event).map(|series| (event, series)));
            let (event, series) = series
                .ok_or_else(|| format!("ERR No samples available for event '{}'", shown(call.arg(2))))?;
            Reply::Verbatim("txt", graph(event, series, view.clock().get() / 1000).into())
        }
        Some(SubcommandId::LatencyHistogram) => Reply::Map(Vec::new()),
        Some(SubcommandId::LatencyHistory) => {
            let series = LatencyEvent::by_name(call.arg(2), false).and_then(kept);
            Reply::Array(series.map_or_else(Vec::new, |series| series.samples().map(sample).collect()))
        }
        Some(SubcommandId::LatencyLatest) => {
            let all = LatencyEvent::ALL.into_iter();
            Reply::Array(all.filter_map(|event| latest(event, kept(event)?)).collect())
        }
        Some(SubcommandId::LatencyReset) => {
            let mut named: Vec<LatencyEvent> = if call.args.len() == 2 {
                LatencyEvent::ALL.into()
            } else {
                let names = call.args.tail(2);
                LatencyEvent::ALL
                    .into_iter()
                    .filter(|event| {
                        names
                            .iter()
                            .any(|name| LatencyEvent::by_name(name, true) == Some(*event))
                    })
                    .collect()
            };
            named.retain(|event| kept(*event).is_some());
            let reply = Reply::Int(count(named.len()));
            return Ok(Decision::deed(Deed::ResetLatency(named), reply));
        }
        _ => shorten(docs::help_reply(call.route.spec)),
    }))
}

/// What is kept of a kind, without what a transaction has asked to be forgotten before this.
fn kept<'k>(view: &View<'k>, event: LatencyEvent) -> Option<&'k Series> {
    let forgets = |deed: &Deed| matches!(deed, Deed::ResetLatency(events) if events.contains(&event));
    if view.deeds().iter().any(forgets) {
        return None;
    }
    view.monitoring().latency().series(event)
}

fn number<'k>(number: u64) -> Reply<'k> {
    Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn sample<'k>(sample: Sample) -> Reply<'k> {
    Reply::Array(vec![number(sample.seconds), number(sample.ms)])
}

fn latest<'k>(event: LatencyEvent, series: &Series) -> Option<Reply<'k>> {
    let last = series.latest()?;
    Some(Reply::Array(vec![
        Reply::text(event.name()),
        number(last.seconds),
        number(last.ms),
        number(series.worst_ms()),
    ]))
}

/// A line for each kind, and where to look next.
fn doctor(view: &View<'_>) -> String {
    let mut text = String::new();
    for event in LatencyEvent::ALL {
        let Some(series) = kept(view, event) else {
            continue;
        };
        let samples = series.samples();
        let (seconds, total) = (samples.len() as u64, samples.map(|sample| sample.ms).sum::<u64>());
        let hint = match event {
            LatencyEvent::Command => "SLOWLOG GET shows which commands they were.",
            LatencyEvent::FastCommand => {
                "None of these has much to do: the machine was busy, or a large request or reply was moved. SLOWLOG GET \
                 shows which they were."
            }
            LatencyEvent::WalSync => {
                "The disk was slow: replies wait for it. INFO wal has the quantiles of all syncs; what else writes to \
                 this disk?"
            }
        };
        writeln!(
            text,
            "{}: {seconds} seconds with slow moments, {} ms on average, the worst ever {} ms. {hint}",
            event.name(),
            total / seconds.max(1),
            series.worst_ms()
        )
        .expect("a string takes every write");
    }
    if !text.is_empty() {
        return text;
    }
    let is_on = view.monitoring().thresholds().latency_ms != 0;
    if is_on { NOTHING } else { OFF }.to_owned()
}

/// Seconds from left to right, the newest at the right, and as high as they were slow; how long ago the first and the
/// last were stands below.
fn graph(event: LatencyEvent, series: &Series, now: u64) -> String {
    let samples = series.samples();
    let skipped = samples.len().saturating_sub(COLUMNS);
    let shown: Vec<Sample> = samples.skip(skipped).collect();
    let high = shown.iter().map(|sample| sample.ms).max().unwrap_or(0);
    let low = shown.iter().map(|sample| sample.ms).min().unwrap_or(0);
    let mut text = format!(
        "{} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        event.name(),
        series.worst_ms(),
        "-".repeat(COLUMNS)
    );
    for row in (0..ROWS).rev() {
        let line: String = shown
            .iter()
            .map(|sample| {
                // In this row's units of half a line, how much of the column is above the row's foot.
                let halves = (sample.ms * ROWS * 2).div_ceil(high.max(1));
                match halves.saturating_sub(row * 2) {
                    0 => ' ',
                    1 => '_',
                    _ => '#',
                }
            })
            .collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let ago = |sample: Option<&Sample>| sample.map_or(0, |sample| now.saturating_sub(sample.seconds));
    writeln!(
        text,
        "{} s ago to {} s ago",
        ago(shown.first()),
        ago(shown.last())
    )
    .expect("a string takes every write");
    text
}
