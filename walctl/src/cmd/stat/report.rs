//! The numbers in words and as JSON.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Write};

use idem_protocol::wal::Opcode;
use idem_protocol::{Lsn, UnixMs};
use serde::Serialize;

use super::histogram::Count;
use super::sketch::Heavy;
use super::tally::Tally;
use crate::output::{Out, Tone};
use crate::text::{Escaped, Time};

/// What is to be shown.
pub(super) struct Report<'a> {
    pub(super) tally: &'a Tally,
    pub(super) end: Lsn,
    pub(super) largest: Vec<Heavy>,
}

#[derive(Serialize)]
struct ReportLine<'a> {
    records: u64,
    bytes: u64,
    first_lsn: u64,
    end_lsn: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_time_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_time_ms: Option<u64>,
    by_opcode: BTreeMap<u8, OpcodeLine>,
    in_transactions: BTreeMap<u8, OpcodeLine>,
    by_database: &'a BTreeMap<u8, Count>,
    idempotency: StatesLine,
    segments: u64,
    groups: u64,
    seals: u64,
    header_bytes: u64,
    padding_bytes: u64,
    group_records: Vec<SizeLine>,
    record_bytes: Vec<SizeLine>,
    time_step_ms: u64,
    times: Vec<TimeLine>,
    largest_keys: Vec<KeyLine<'a>>,
    largest_keys_exact: bool,
    largest_keys_missing_bytes_max: u64,
}

#[derive(Serialize)]
struct OpcodeLine {
    name: &'static str,
    #[serde(flatten)]
    count: Count,
}

#[derive(Serialize)]
struct StatesLine {
    pending: u64,
    completed: u64,
    aborted: u64,
    result_bytes: u64,
}

/// A class of sizes: up to this one, above that of the class before.
#[derive(Serialize)]
struct SizeLine {
    up_to: u64,
    /// Records, or groups.
    count: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct TimeLine {
    from_ms: u64,
    #[serde(flatten)]
    count: Count,
}

#[derive(Serialize)]
struct KeyLine<'a> {
    db: u8,
    key: Escaped<'a>,
    /// Of a key that is too long to be kept: its whole length, and `key` is its beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_bytes: Option<usize>,
    bytes: u64,
    records: u64,
}

fn by_kind(counts: &BTreeMap<Opcode, Count>) -> BTreeMap<u8, OpcodeLine> {
    let line = |(opcode, count): (&Opcode, &Count)| {
        let name = opcode.name();
        (opcode.to_byte(), OpcodeLine { name, count: *count })
    };
    counts.iter().map(line).collect()
}

fn by_size(classes: impl Iterator<Item = (u64, Count)>) -> Vec<SizeLine> {
    let line = |(up_to, count): (u64, Count)| SizeLine {
        up_to,
        count: count.records,
        bytes: count.bytes,
    };
    classes.map(line).collect()
}

/// One object.
pub(super) fn json(out: &mut Out, report: &Report<'_>) -> io::Result<()> {
    let tally = report.tally;
    let missing = tally.keys.missing_bytes_max();
    let line = ReportLine {
        records: tally.all.records,
        bytes: tally.all.bytes,
        first_lsn: tally.first_lsn.unwrap_or_default().get(),
        end_lsn: report.end.get(),
        first_time_ms: tally.times.map(|(first, _)| first.get()),
        last_time_ms: tally.times.map(|(_, last)| last.get()),
        by_opcode: by_kind(&tally.by_opcode),
        in_transactions: by_kind(&tally.parts),
        by_database: &tally.by_database,
        idempotency: StatesLine {
            pending: tally.states.pending,
            completed: tally.states.completed,
            aborted: tally.states.aborted,
            result_bytes: tally.states.result_bytes,
        },
        segments: tally.layout.segments,
        groups: tally.layout.groups,
        seals: tally.layout.seals,
        header_bytes: tally.layout.header_bytes,
        padding_bytes: tally.layout.padding_bytes,
        group_records: by_size(tally.group_records.classes()),
        record_bytes: by_size(tally.record_sizes.classes()),
        time_step_ms: tally.by_time.step_ms(),
        times: tally
            .by_time
            .classes()
            .map(|(from_ms, count)| TimeLine { from_ms, count })
            .collect(),
        largest_keys: report.largest.iter().map(key_line).collect(),
        largest_keys_exact: missing == 0,
        largest_keys_missing_bytes_max: missing,
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")?;
    out.flush()
}

fn key_line(key: &Heavy) -> KeyLine<'_> {
    KeyLine {
        db: key.db,
        key: Escaped(&key.start),
        key_bytes: (key.key_bytes > key.start.len()).then_some(key.key_bytes),
        bytes: key.bytes,
        records: key.records,
    }
}

/// Widest bar of a histogram, in characters.
const BAR_WIDTH: u64 = 30;

/// A table for each question.
pub(super) fn human(out: &mut Out, report: &Report<'_>) -> io::Result<()> {
    let tally = report.tally;
    let first = tally.first_lsn.unwrap_or_default();
    writeln!(
        out,
        "{} records, {} bytes, lsn {first} to {}",
        tally.all.records, tally.all.bytes, report.end
    )?;
    if let Some((first, last)) = tally.times {
        writeln!(out, "{} to {}", Time::from(first), Time::from(last))?;
    }
    layout(out, tally)?;

    heading(out, "by kind", "records", "bytes")?;
    for (opcode, count) in &tally.by_opcode {
        row(
            out,
            format_args!("{:>2} {}", opcode.to_byte(), opcode.name()),
            *count,
        )?;
    }
    if !tally.parts.is_empty() {
        heading(out, "in transactions", "records", "bytes")?;
        for (opcode, count) in &tally.parts {
            row(
                out,
                format_args!("{:>2} {}", opcode.to_byte(), opcode.name()),
                *count,
            )?;
        }
    }
    let states = &tally.states;
    if states.pending + states.completed + states.aborted > 0 {
        writeln!(
            out,
            "\nIDEM: {} begun, {} completed with {} bytes of results, {} aborted",
            states.pending, states.completed, states.result_bytes, states.aborted
        )?;
    }
    if !tally.by_database.is_empty() {
        heading(out, "by database", "records", "bytes")?;
        for (db, count) in &tally.by_database {
            row(out, db, *count)?;
        }
    }
    sizes(out, "bytes of a record", "records", tally.record_sizes.classes())?;
    sizes(out, "records of a group", "groups", tally.group_records.classes())?;
    times(out, tally)?;
    keys(out, report)
}

/// How the records lie in files.
fn layout(out: &mut Out, tally: &Tally) -> io::Result<()> {
    let layout = &tally.layout;
    writeln!(
        out,
        "segments {}, groups {}, seals {}, headers {} B, padding {} B",
        layout.segments, layout.groups, layout.seals, layout.header_bytes, layout.padding_bytes
    )
}

fn heading(out: &mut Out, what: &str, count: &str, bytes: &str) -> io::Result<()> {
    writeln!(out, "\n{what:<26} {count:>12} {bytes:>16}")
}

fn row(out: &mut Out, what: impl Display, count: Count) -> io::Result<()> {
    let what = what.to_string();
    writeln!(out, "  {what:<24} {:>12} {:>16}", count.records, count.bytes)
}

fn bar_row(out: &mut Out, what: impl Display, count: Count, most: u64) -> io::Result<()> {
    let what = what.to_string();
    // What is there at all is seen.
    let width = u128::from(count.records) * u128::from(BAR_WIDTH) / u128::from(most.max(1));
    let width = usize::try_from(width).unwrap_or(0).max(1);
    let paint = out.paint();
    let bar = paint.tone(Tone::Quiet, "#".repeat(width));
    writeln!(
        out,
        "  {what:<24} {:>12} {:>16}  {bar}",
        count.records, count.bytes
    )
}

fn sizes(
    out: &mut Out,
    what: &str,
    unit: &str,
    classes: impl Iterator<Item = (u64, Count)>,
) -> io::Result<()> {
    let classes: Vec<_> = classes.collect();
    let Some(most) = classes.iter().map(|(_, count)| count.records).max() else {
        return Ok(());
    };
    heading(out, what, unit, "bytes")?;
    for (up_to, count) in classes {
        let from = up_to / 2 + 1;
        let range = if from >= up_to {
            up_to.to_string()
        } else {
            format!("{from} to {up_to}")
        };
        bar_row(out, range, count, most)?;
    }
    Ok(())
}

fn times(out: &mut Out, tally: &Tally) -> io::Result<()> {
    let classes: Vec<_> = tally.by_time.classes().collect();
    let Some(most) = classes.iter().map(|(_, count)| count.records).max() else {
        return Ok(());
    };
    let step = step_words(tally.by_time.step_ms());
    heading(out, &format!("by time, {step} each"), "records", "bytes")?;
    for (from_ms, count) in classes {
        bar_row(out, Time::from(UnixMs::new(from_ms)), count, most)?;
    }
    Ok(())
}

fn step_words(step_ms: u64) -> String {
    for (unit_ms, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min")] {
        if step_ms.is_multiple_of(unit_ms) {
            return format!("{} {unit}", step_ms / unit_ms);
        }
    }
    format!("{} s", step_ms / 1000)
}

fn keys(out: &mut Out, report: &Report<'_>) -> io::Result<()> {
    let missing = report.tally.keys.missing_bytes_max();
    if report.largest.is_empty() {
        if missing > 0 {
            writeln!(
                out,
                "\nno key stands out: none has surely more than {missing} bytes"
            )?;
        }
        return out.flush();
    }
    writeln!(
        out,
        "\nlargest keys\n{:>14} {:>16} {:>4}  key",
        "records", "bytes", "db"
    )?;
    for key in &report.largest {
        write!(
            out,
            "{:>14} {:>16} {:>4}  {}",
            key.records,
            key.bytes,
            key.db,
            Escaped(&key.start)
        )?;
        if key.key_bytes > key.start.len() {
            write!(out, "… ({} bytes)", key.key_bytes)?;
        }
        writeln!(out)?;
    }
    if missing > 0 {
        writeln!(
            out,
            "  more different keys than are counted exactly: these are least numbers, at most {missing} bytes are \
             missing from each"
        )?;
    }
    out.flush()
}
