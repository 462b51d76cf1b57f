//! What a snapshot holds, in words and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use idem_protocol::snapshot::{SnapshotHeader, SnapshotTrailer};
use idem_protocol::wal::{FORMAT_VERSION, Opcode, RawRecord};
use idem_wal::reader::SnapshotProblem;
use serde::Serialize;

use crate::output::{Out, Tone};
use crate::text::{Crc, Escaped, Time};

/// What was found in the file, as far as it was read.
pub(super) struct Report {
    file: String,
    bytes: u64,
    pub(super) header: Option<SnapshotHeader>,
    pub(super) kinds: BTreeMap<Opcode, Kind>,
    pub(super) trailer: Option<SnapshotTrailer>,
    pub(super) problem: Option<SnapshotProblem>,
}

/// How much there is of one kind of item.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Kind {
    items: u64,
    bytes: u64,
}

impl Kind {
    pub(super) fn add(&mut self, raw: &RawRecord<'_>) {
        self.items += 1;
        self.bytes += raw.bytes.len() as u64;
    }
}

impl Report {
    pub(super) fn new(file: String, bytes: u64) -> Report {
        Report {
            file,
            bytes,
            header: None,
            kinds: BTreeMap::new(),
            trailer: None,
            problem: None,
        }
    }

    fn items(&self) -> u64 {
        self.kinds.values().map(|kind| kind.items).sum()
    }
}

#[derive(Serialize)]
struct ReportLine<'a> {
    snapshot: &'a str,
    valid: bool,
    bytes: u64,
    #[serde(flatten)]
    problem: Option<ProblemLine>,
    #[serde(flatten)]
    header: Option<HeaderLine>,
    /// Those before the damage, when there is some.
    items: u64,
    by_opcode: BTreeMap<String, Kind>,
    #[serde(flatten)]
    trailer: Option<TrailerLine<'a>>,
}

#[derive(Serialize)]
struct ProblemLine {
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_crc: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found_crc: Option<u32>,
}

#[derive(Serialize)]
struct HeaderLine {
    format: u32,
    cluster: String,
    start_lsn: u64,
}

#[derive(Serialize)]
struct TrailerLine<'a> {
    end_lsn: u64,
    log_time_ms: u64,
    epoch: u64,
    nonce: String,
    /// Of the record that ends at `end_lsn`.
    end_crc: u32,
    keys: u64,
    databases: BTreeMap<String, u64>,
    required: u8,
    members: Vec<MemberLine<'a>>,
    history: Vec<HistoryLine>,
}

#[derive(Serialize)]
struct MemberLine<'a> {
    node: String,
    address: Escaped<'a>,
}

#[derive(Serialize)]
struct HistoryLine {
    epoch: u64,
    nonce: String,
    node: String,
    first_lsn: u64,
}

impl From<&SnapshotProblem> for ProblemLine {
    fn from(problem: &SnapshotProblem) -> Self {
        let (reason, offset, crcs) = match problem {
            SnapshotProblem::Damaged { what, offset, crcs } => (what.clone(), Some(*offset), *crcs),
            SnapshotProblem::Unreadable { error, offset } => {
                (format!("cannot be read: {error}"), Some(*offset), None)
            }
            SnapshotProblem::NewerFormat(_) | SnapshotProblem::OtherCluster(_) => {
                (problem.to_string(), None, None)
            }
        };
        ProblemLine {
            reason,
            offset,
            expected_crc: crcs.map(|(expected, _)| expected),
            found_crc: crcs.map(|(_, found)| found),
        }
    }
}

fn keys(trailer: &SnapshotTrailer) -> u64 {
    let counts = trailer.databases.iter().map(|(_, keys)| *keys);
    counts.fold(0, u64::saturating_add)
}

fn trailer_line(trailer: &SnapshotTrailer) -> TrailerLine<'_> {
    TrailerLine {
        end_lsn: trailer.end_lsn.get(),
        log_time_ms: trailer.log_time.get(),
        epoch: trailer.epoch.number,
        nonce: format!("{:016x}", trailer.epoch.nonce),
        end_crc: trailer.end_crc,
        keys: keys(trailer),
        databases: trailer
            .databases
            .iter()
            .map(|(db, keys)| (db.to_string(), *keys))
            .collect(),
        required: trailer.required,
        members: trailer
            .members
            .iter()
            .map(|member| MemberLine {
                node: member.node.to_string(),
                address: Escaped(member.address.as_bytes()),
            })
            .collect(),
        history: trailer
            .history
            .iter()
            .map(|entry| HistoryLine {
                epoch: entry.epoch.number,
                nonce: format!("{:016x}", entry.epoch.nonce),
                node: entry.node.to_string(),
                first_lsn: entry.first_lsn.get(),
            })
            .collect(),
    }
}

/// One object.
pub(super) fn json(out: &mut Out, report: &Report) -> io::Result<()> {
    let line = ReportLine {
        snapshot: &report.file,
        valid: report.problem.is_none(),
        bytes: report.bytes,
        problem: report.problem.as_ref().map(ProblemLine::from),
        header: report.header.map(|header| HeaderLine {
            format: FORMAT_VERSION,
            cluster: header.cluster.to_string(),
            start_lsn: header.start_lsn.get(),
        }),
        items: report.items(),
        by_opcode: report
            .kinds
            .iter()
            .map(|(opcode, kind)| (opcode.to_byte().to_string(), *kind))
            .collect(),
        trailer: report.trailer.as_ref().map(trailer_line),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The answer first, then what there is; `after_items` leaves a line blank between the items and this.
pub(super) fn human(out: &mut Out, report: &Report, after_items: bool) -> io::Result<()> {
    if after_items && report.items() > 0 {
        writeln!(out)?;
    }
    let paint = out.paint();
    match &report.problem {
        None => writeln!(
            out,
            "{}: a whole snapshot, checksum good",
            paint.tone(Tone::Good, "VALID")
        )?,
        Some(problem) => {
            let word = match problem {
                SnapshotProblem::Damaged { .. } => "DAMAGED",
                SnapshotProblem::Unreadable { .. } => "UNREADABLE",
                SnapshotProblem::NewerFormat(_) | SnapshotProblem::OtherCluster(_) => "FOREIGN",
            };
            let line = ProblemLine::from(problem);
            write!(out, "{}: {}", paint.tone(Tone::Bad, word), line.reason)?;
            if let Some(offset) = line.offset {
                write!(out, ", at offset {offset}")?;
            }
            writeln!(out)?;
        }
    }
    writeln!(out, "\nfile       {}, {} bytes", report.file, report.bytes)?;
    if let Some(header) = &report.header {
        writeln!(out, "cluster    {}, format {FORMAT_VERSION}", header.cluster)?;
        writeln!(out, "start lsn  {}", header.start_lsn)?;
    }
    if let Some(trailer) = &report.trailer {
        trailer_words(out, trailer)?;
    }
    let before = if report.problem.is_some() && report.header.is_some() {
        " before the damage"
    } else {
        ""
    };
    writeln!(out, "items      {}{before}", report.items())?;
    for (opcode, kind) in &report.kinds {
        let (items, bytes) = (kind.items, kind.bytes);
        writeln!(out, "  {:<12} {items:>12}  {bytes:>14} B", opcode.name())?;
    }
    let Some(trailer) = &report.trailer else {
        return out.flush();
    };
    writeln!(out, "keys       {}", keys(trailer))?;
    for (db, keys) in &trailer.databases {
        writeln!(out, "  {:<12} {keys:>12}", format!("database {db}"))?;
    }
    out.flush()
}

fn trailer_words(out: &mut Out, trailer: &SnapshotTrailer) -> io::Result<()> {
    writeln!(
        out,
        "end lsn    {}, {}, CRC {} of the record that ends there",
        trailer.end_lsn,
        Time::from(trailer.log_time),
        Crc(trailer.end_crc)
    )?;
    writeln!(out, "epoch      {}", trailer.epoch)?;
    for entry in &trailer.history {
        writeln!(
            out,
            "  epoch {} from lsn {}, node {}",
            entry.epoch, entry.first_lsn, entry.node
        )?;
    }
    if trailer.members.is_empty() {
        return Ok(());
    }
    writeln!(out, "members    {} required", trailer.required)?;
    for member in &trailer.members {
        writeln!(out, "  {}  {}", member.node, Escaped(member.address.as_bytes()))?;
    }
    Ok(())
}
