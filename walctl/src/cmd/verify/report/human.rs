//! In words: the verdict first, what was found, then what there is.

use std::io::{self, Write};

use idem_protocol::wal::SEGMENT_HEADER_BYTES;
use idem_wal::recovery::{Finding, FindingKind, Judgement, Row, SegmentSummary, UnjudgedSegment, Verdict};
use idem_wal::storage::Dir;

use super::{Report, Where, shown};
use crate::cmd::verify::deep::{Below, Deep};
use crate::output::{Out, Tone};
use crate::text::{Crc, Escaped, Time};

/// What the verdict means for whoever wants to start a server.
fn meaning(report: &Report<'_>) -> &'static str {
    match report.judgement.row {
        // Segments are archived when they are complete, and control without a clean mark.
        Row::B if report.archived => "an archived log, complete as far as it goes",
        Row::B if report.live => "complete up to the newest synced mark; a server is writing what follows",
        Row::New => "there is no log yet; a server would make one",
        Row::A => "complete, and closed by a clean shutdown",
        Row::B => "complete; it was not closed by a clean shutdown",
        Row::C => "bytes follow a cleanly closed log; a start copies them aside and cuts them off",
        Row::D => "it ends in a group that was never promised; a start copies it aside and cuts it off",
        Row::E => {
            "it ends in bytes that nothing vouches for or against; a start copies them aside, cuts them off and warns"
        }
        Row::F => "something that was promised is gone; a server refuses to start",
        Row::G => "a file is missing or short; a server refuses to start",
        Row::H => "of another node or cluster, or of a newer version; a server refuses to start",
        Row::J => "undamaged and impossible, a fault of what wrote it; a server refuses to start",
        Row::I => "it cannot be read; a server refuses to start",
    }
}

/// All of it.
pub(in crate::cmd::verify) fn print(out: &mut Out, report: &Report<'_>) -> io::Result<()> {
    let Report {
        judgement,
        live,
        deep,
        below,
        ..
    } = *report;
    let paint = out.paint();
    let tone = match judgement.verdict {
        Verdict::Clean | Verdict::New => Tone::Good,
        Verdict::TornTail | Verdict::UnprovenTail => Tone::Warning,
        Verdict::Rot | Verdict::Hole | Verdict::Foreign | Verdict::Bug | Verdict::IoError => Tone::Bad,
    };
    writeln!(
        out,
        "{} (row {}{}): {}",
        paint.tone(tone, judgement.verdict.word()),
        judgement.letter(),
        if live { ", live" } else { "" },
        meaning(report)
    )?;
    for finding in shown(judgement) {
        write_finding(out, finding, finding.kind == FindingKind::Row(judgement.row))?;
    }
    if judgement.verdict == Verdict::New {
        return out.flush();
    }
    if let Some(deep) = deep {
        write_deep(out, deep)?;
    }
    if let Some(below) = below.filter(|below| below.segments > 0) {
        write_below(out, below, deep.is_none())?;
    }
    write!(
        out,
        "\nlog end   lsn {}, {} records",
        judgement.end_lsn, judgement.records
    )?;
    if judgement.log_time > idem_protocol::UnixMs::ZERO {
        write!(out, ", newest {}", Time::from(judgement.log_time))?;
    }
    writeln!(out)?;
    if let Some(snapshot) = &judgement.snapshot {
        writeln!(
            out,
            "snapshot  {}, lsn {} to {}, {} items",
            Dir::Snap.join(&snapshot.name),
            snapshot.start,
            snapshot.end,
            snapshot.items
        )?;
    }
    write_segments(out, judgement)?;
    write_unjudged(out, report)?;
    out.flush()
}

fn write_finding(out: &mut Out, finding: &Finding, decides: bool) -> io::Result<()> {
    let place = Where::from(finding);
    write!(out, "  {}", if decides { "" } else { "also: " })?;
    if let Some(file) = &place.file {
        write!(out, "{file}")?;
        match place.offset {
            Some(offset) if offset > 0 => write!(out, " offset {offset}: ")?,
            _ => write!(out, ": ")?,
        }
    }
    writeln!(out, "{}", finding.message)?;
    let mut numbers = Vec::new();
    if let Some(lsn) = place.lsn {
        numbers.push(format!("lsn {lsn}"));
    }
    if let Some(promised) = place.promised_lsn {
        numbers.push(format!("promised lsn {promised}"));
    }
    if let (Some(expected), Some(found)) = (place.expected_crc, place.found_crc) {
        numbers.push(format!("expected CRC {}", Crc(expected)));
        numbers.push(format!("found CRC {}", Crc(found)));
    }
    if numbers.is_empty() {
        return Ok(());
    }
    writeln!(out, "    {}", numbers.join(", "))
}

/// `1 record`, `2 records`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn findings(count: u64) -> String {
    match count {
        0 => "nothing is wrong".to_owned(),
        count => counted(count, "finding"),
    }
}

/// What the replay found, and what it judged.
fn write_deep(out: &mut Out, deep: &Deep) -> io::Result<()> {
    let paint = out.paint();
    let tone = if deep.count == 0 { Tone::Good } else { Tone::Bad };
    writeln!(
        out,
        "\ndeep      {}: {} from lsn {} to {}, {} compared",
        paint.tone(tone, findings(deep.count)),
        counted(deep.records, "record"),
        deep.from,
        deep.to,
        counted(deep.snapshots, "snapshot")
    )?;
    for found in &deep.findings {
        write!(out, "  lsn {}", found.lsn)?;
        if let Some(time) = found.time {
            write!(out, "  {}", Time::from(time))?;
        }
        if let Some((db, key)) = &found.key {
            write!(out, "  db {db}  {}", Escaped(key))?;
        }
        writeln!(out, "  {}: {}", found.kind, found.message)?;
        write!(out, "    {}", found.file)?;
        match found.offset {
            Some(offset) => writeln!(out, " offset {offset}")?,
            None => writeln!(out)?,
        }
    }
    let left = deep.count.saturating_sub(deep.findings.len() as u64);
    if left > 0 {
        writeln!(out, "  and {left} more")?;
    }
    Ok(())
}

/// What is wrong with the log that a start does not read.
fn write_below(out: &mut Out, below: &Below, is_first: bool) -> io::Result<()> {
    let paint = out.paint();
    let tone = if below.count == 0 { Tone::Good } else { Tone::Bad };
    writeln!(
        out,
        "{}below     {}: {} in {} that a start does not read",
        if is_first { "\n" } else { "" },
        paint.tone(tone, findings(below.count)),
        counted(below.records, "record"),
        counted(below.segments, "segment")
    )?;
    for finding in &below.findings {
        write_finding(out, finding, true)?;
    }
    match below.count.saturating_sub(below.findings.len() as u64) {
        0 => Ok(()),
        left => writeln!(out, "  and {left} more"),
    }
}

/// How the columns are called.
const HEADS: [&str; 8] = [
    "segment",
    "first lsn",
    "end lsn",
    "records",
    "groups",
    "seals",
    "used",
    "file bytes",
];

/// A segment as a row. The unused rest of it is space made ready, not waste.
fn judged_row(segment: &SegmentSummary) -> [String; 8] {
    let header = SEGMENT_HEADER_BYTES as u64;
    let usable = segment.file_bytes.saturating_sub(header).max(1);
    let used = segment.used_bytes.saturating_sub(header).saturating_mul(100) / usable;
    [
        Dir::Wal.join(&segment.name),
        segment.first.to_string(),
        segment.end.to_string(),
        segment.records.to_string(),
        segment.frames.to_string(),
        segment.seals.to_string(),
        format!("{used} %"),
        segment.file_bytes.to_string(),
    ]
}

fn unjudged_row(segment: &UnjudgedSegment) -> [String; 8] {
    let or_unknown = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    [
        Dir::Wal.join(&segment.name),
        segment.first.to_string(),
        or_unknown(segment.sealed.map(|(end, _)| end.get())),
        "-".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        or_unknown(segment.file_bytes),
    ]
}

/// What there is in each segment, oldest first.
fn write_segments(out: &mut Out, judgement: &Judgement) -> io::Result<()> {
    let unjudged = judgement.unjudged_segments.iter().map(unjudged_row);
    let judged = judgement.segments.iter().map(judged_row);
    let unread = judgement.unread_segments.iter().map(unjudged_row);
    let rows: Vec<([String; 8], &str)> = unjudged
        .map(|row| (row, "  not judged"))
        .chain(judged.map(|row| (row, "")))
        .chain(unread.map(|row| (row, "  not read")))
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let heads = (HEADS.map(str::to_owned), "");
    let widths: [usize; 8] = std::array::from_fn(|column| {
        let cells = rows.iter().chain([&heads]);
        cells.map(|(row, _)| row[column].len()).max().unwrap_or(0)
    });
    writeln!(out)?;
    for (row, remark) in [&heads].into_iter().chain(&rows) {
        write!(out, "{:<width$}", row[0], width = widths[0])?;
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            write!(out, "  {cell:>width$}")?;
        }
        writeln!(out, "{remark}")?;
    }
    Ok(())
}

/// Says that some of them were left out, and what looks at them.
fn write_unjudged(out: &mut Out, report: &Report<'_>) -> io::Result<()> {
    let (are, they) = match report.judgement.unjudged_segments.len() {
        0 => return Ok(()),
        1 => ("1 segment lies".to_owned(), "it is"),
        count => (format!("{count} segments lie"), "they are"),
    };
    write!(
        out,
        "\n{are} wholly below the snapshot: a start does not read that far, and {they} not judged"
    )?;
    match report.below {
        Some(_) => writeln!(out, "; --deep has read what there is"),
        None => writeln!(
            out,
            ". To read all of it: walctl verify --deep {}",
            report.dir.display()
        ),
    }
}
