//! JSON Lines: one object a finding, and a last one with the verdict.

use std::io::{self, Write};

use idem_wal::recovery::{Finding, FindingKind, UnjudgedSegment};
use idem_wal::storage::Dir;
use serde::Serialize;

use super::{Report, Where, shown};
use crate::cmd::verify::deep::DeepFinding;
use crate::output::Out;
use crate::text::Escaped;

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
    /// A history in a store.
    #[serde(skip_serializing_if = "is_false")]
    archived: bool,
    log_time_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(flatten)]
    place: Where,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<SnapshotLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deep: Option<DeepLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    below: Option<BelowLine>,
    segments: Vec<SegmentLine>,
    /// Log below the snapshot, which a start does not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_judged: Vec<UnjudgedLine>,
    /// Log that a start has to read, and that reading did not reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_read: Vec<UnjudgedLine>,
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

/// What was read of the log that the verdict leaves out.
#[derive(Serialize)]
struct BelowLine {
    segments: u64,
    records: u64,
    findings: u64,
}

/// A segment that was not read.
#[derive(Serialize)]
struct UnjudgedLine {
    file: String,
    first_lsn: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_lsn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_bytes: Option<u64>,
}

impl From<&UnjudgedSegment> for UnjudgedLine {
    fn from(segment: &UnjudgedSegment) -> Self {
        UnjudgedLine {
            file: Dir::Wal.join(&segment.name),
            first_lsn: segment.first.get(),
            end_lsn: segment.sealed.map(|(end, _)| end.get()),
            file_bytes: segment.file_bytes,
        }
    }
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

fn letter(finding: &Finding) -> Option<char> {
    match finding.kind {
        FindingKind::Row(row) => Some(row.letter()),
        FindingKind::Beside => None,
    }
}

/// One object a finding, and a last one with the verdict.
pub(in crate::cmd::verify) fn print(out: &mut Out, report: &Report<'_>) -> io::Result<()> {
    let Report {
        judgement,
        deep,
        below,
        ..
    } = *report;
    let below = below.filter(|below| below.segments > 0);
    let not_read = below.iter().flat_map(|below| &below.findings);
    for finding in shown(judgement).chain(not_read) {
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
        live: report.live,
        archived: report.archived,
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
        below: below.map(|below| BelowLine {
            segments: below.segments,
            records: below.records,
            findings: below.count,
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
        not_judged: judgement
            .unjudged_segments
            .iter()
            .map(UnjudgedLine::from)
            .collect(),
        not_read: judgement.unread_segments.iter().map(UnjudgedLine::from).collect(),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")?;
    out.flush()
}
