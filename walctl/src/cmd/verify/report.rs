//! A judgement in words and as JSON.

use std::io::{self, Write};

use idem_protocol::wal::SEGMENT_HEADER_BYTES;
use idem_wal::recovery::{Finding, FindingKind, Judgement, Row, Verdict};
use idem_wal::storage::Dir;
use serde::Serialize;

use super::deep::{Deep, DeepFinding};
use crate::output::{Out, Tone};
use crate::text::{Crc, Escaped, Time};

/// Where something was found, and what should be there.
#[derive(Default, Serialize)]
struct Where {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lsn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    promised_lsn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_crc: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found_crc: Option<u32>,
}

#[derive(Serialize)]
struct FindingLine<'a> {
    finding: &'a str,
    /// The row that it is a reason for; none for what stands beside the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    letter: Option<char>,
    #[serde(flatten)]
    place: Where,
}

#[derive(Serialize)]
struct VerdictLine<'a> {
    verdict: &'static str,
    letter: char,
    end_lsn: u64,
    records: u64,
    #[serde(skip_serializing_if = "is_false")]
    live: bool,
    log_time_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(flatten)]
    place: Where,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<SnapshotLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deep: Option<DeepLine>,
    segments: Vec<SegmentLine>,
}

/// What the replay judged.
#[derive(Serialize)]
struct DeepLine {
    from_lsn: u64,
    to_lsn: u64,
    records: u64,
    snapshots: u64,
    findings: u64,
}

/// What it found.
#[derive(Serialize)]
struct DeepFindingLine<'a> {
    finding: &'a str,
    kind: &'a str,
    lsn: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    db: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Escaped<'a>>,
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
}

impl<'a> From<&'a DeepFinding> for DeepFindingLine<'a> {
    fn from(found: &'a DeepFinding) -> Self {
        DeepFindingLine {
            finding: &found.message,
            kind: found.kind,
            lsn: found.lsn.get(),
            time_ms: found.time.map(idem_protocol::UnixMs::get),
            db: found.key.as_ref().map(|(db, _)| *db),
            key: found.key.as_ref().map(|(_, key)| Escaped(key)),
            file: &found.file,
            offset: found.offset,
        }
    }
}

#[derive(Serialize)]
struct SnapshotLine {
    file: String,
    start_lsn: u64,
    end_lsn: u64,
    items: u64,
}

#[derive(Serialize)]
struct SegmentLine {
    file: String,
    first_lsn: u64,
    end_lsn: u64,
    records: u64,
    groups: u64,
    seals: u64,
    used_bytes: u64,
    file_bytes: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the serializer hands over a reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

impl From<&Finding> for Where {
    fn from(finding: &Finding) -> Self {
        Where {
            file: finding.place.as_ref().map(|place| {
                let file = place.dir.join(&place.name);
                match file.trim_end_matches('/') {
                    "" => ".".to_owned(),
                    path => path.to_owned(),
                }
            }),
            offset: finding.place.as_ref().map(|place| place.offset),
            lsn: finding.lsn.map(idem_protocol::Lsn::get),
            promised_lsn: finding.promised.map(idem_protocol::Lsn::get),
            expected_crc: finding.expected_crc,
            found_crc: finding.found_crc,
        }
    }
}

fn letter(finding: &Finding) -> Option<char> {
    match finding.kind {
        FindingKind::Row(row) => Some(row.letter()),
        FindingKind::Beside => None,
    }
}

/// What is worth showing: reasons of the deciding row first, then what stands beside it, then reasons for other refusals.
/// A row that only cuts says the same as the deciding one in other words.
fn shown(judgement: &Judgement) -> impl Iterator<Item = &Finding> {
    let matters = |finding: &&Finding| match finding.kind {
        FindingKind::Beside => true,
        FindingKind::Row(row) => row == judgement.row || row.refuses(),
    };
    judgement.findings.iter().filter(matters)
}

/// One object a finding, and a last one with the verdict.
pub(super) fn json(out: &mut Out, judgement: &Judgement, live: bool, deep: Option<&Deep>) -> io::Result<()> {
    for finding in shown(judgement) {
        let line = FindingLine {
            finding: &finding.message,
            letter: letter(finding),
            place: finding.into(),
        };
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    for finding in deep.iter().flat_map(|deep| &deep.findings) {
        serde_json::to_writer(&mut *out, &DeepFindingLine::from(finding))?;
        out.write_all(b"\n")?;
    }
    let reason = judgement.reasons().next();
    let line = VerdictLine {
        verdict: judgement.verdict.word(),
        letter: judgement.letter(),
        end_lsn: judgement.end_lsn.get(),
        records: judgement.records,
        live,
        log_time_ms: judgement.log_time.get(),
        reason: reason.map(|finding| finding.message.as_str()),
        place: reason.map(Where::from).unwrap_or_default(),
        snapshot: judgement.snapshot.as_ref().map(|snapshot| SnapshotLine {
            file: Dir::Snap.join(&snapshot.name),
            start_lsn: snapshot.start.get(),
            end_lsn: snapshot.end.get(),
            items: snapshot.items,
        }),
        deep: deep.map(|deep| DeepLine {
            from_lsn: deep.from.get(),
            to_lsn: deep.to.get(),
            records: deep.records,
            snapshots: deep.snapshots,
            findings: deep.count,
        }),
        segments: judgement
            .segments
            .iter()
            .map(|segment| SegmentLine {
                file: Dir::Wal.join(&segment.name),
                first_lsn: segment.first.get(),
                end_lsn: segment.end.get(),
                records: segment.records,
                groups: segment.frames,
                seals: segment.seals,
                used_bytes: segment.used_bytes,
                file_bytes: segment.file_bytes,
            })
            .collect(),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// What the verdict means for whoever wants to start a server.
fn meaning(row: Row, live: bool) -> &'static str {
    match row {
        Row::B if live => "complete up to the newest synced mark; a server is writing what follows",
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

/// The verdict first, what was found, then what there is.
pub(super) fn human(out: &mut Out, judgement: &Judgement, live: bool, deep: Option<&Deep>) -> io::Result<()> {
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
        meaning(judgement.row, live)
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

/// What the replay found, and what it judged.
fn write_deep(out: &mut Out, deep: &Deep) -> io::Result<()> {
    let paint = out.paint();
    let tone = if deep.count == 0 { Tone::Good } else { Tone::Bad };
    let findings = match deep.count {
        0 => "nothing is wrong".to_owned(),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    writeln!(
        out,
        "\ndeep      {}: {} records from lsn {} to {}, {} snapshots compared",
        paint.tone(tone, findings),
        deep.records,
        deep.from,
        deep.to,
        deep.snapshots
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

/// What there is in each judged segment. The unused rest of a segment is space made ready, not waste.
fn write_segments(out: &mut Out, judgement: &Judgement) -> io::Result<()> {
    if judgement.segments.is_empty() {
        return Ok(());
    }
    let heads = [
        "segment",
        "first lsn",
        "end lsn",
        "records",
        "groups",
        "seals",
        "used",
        "file bytes",
    ];
    let header = SEGMENT_HEADER_BYTES as u64;
    let rows: Vec<[String; 8]> = judgement
        .segments
        .iter()
        .map(|segment| {
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
        })
        .collect();
    let heads = heads.map(str::to_owned);
    let width = |column: usize| {
        let cells = rows.iter().chain([&heads]);
        cells.map(|row| row[column].len()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    writeln!(out)?;
    for row in [&heads].into_iter().chain(&rows) {
        write!(out, "{:<width$}", row[0], width = widths[0])?;
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            write!(out, "  {cell:>width$}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
