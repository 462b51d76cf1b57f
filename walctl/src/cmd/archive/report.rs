//! What a run prints: the files of its plan, and the totals.

use std::io::{self, Write};

use idem_wal::storage::Dir;
use serde::Serialize;

use super::check::Rotten;
use super::plan::Plan;
use super::sealed::Damage;
use crate::output::Out;
use crate::store::{self, Gap};

/// What a run did, or would do.
#[derive(Default, Serialize)]
pub(super) struct Totals {
    pub(super) into: String,
    pub(super) first_lsn: u64,
    pub(super) end_lsn: u64,
    pub(super) segments_copied: u64,
    pub(super) snapshots_copied: u64,
    pub(super) bytes_copied: u64,
    pub(super) restorable: bool,
    pub(super) dry_run: bool,
    /// What is missing before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gap: Option<GapLine>,
    /// Why the rest of the log was not copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) damage: Option<DamageLine>,
}

#[derive(Serialize)]
pub(super) struct GapLine {
    from_lsn: u64,
    to_lsn: u64,
    /// The history that ends where it begins.
    before: String,
}

impl From<&Gap> for GapLine {
    fn from(gap: &Gap) -> GapLine {
        GapLine {
            from_lsn: gap.from.get(),
            to_lsn: gap.to.get(),
            before: gap.before.display().to_string(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct DamageLine {
    finding: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

impl From<&Damage> for DamageLine {
    fn from(damage: &Damage) -> DamageLine {
        DamageLine {
            finding: damage.what.words.clone(),
            file: damage.what.file.as_ref().map(|name| Dir::Wal.join(name)),
        }
    }
}

/// An object for damage with nothing before it that could be archived, or for a gap of a log with nothing sealed yet.
pub(super) fn nothing(
    out: &mut Out,
    damage: Option<&Damage>,
    gap: Option<&Gap>,
    json: bool,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct Nothing {
        segments_copied: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        gap: Option<GapLine>,
        #[serde(skip_serializing_if = "Option::is_none")]
        damage: Option<DamageLine>,
    }
    if json && (damage.is_some() || gap.is_some()) {
        let line = Nothing {
            segments_copied: 0,
            gap: gap.map(GapLine::from),
            damage: damage.map(DamageLine::from),
        };
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// A file of the plan.
#[derive(Serialize)]
struct FileLine {
    file: String,
    bytes: u64,
}

/// An object for each archived file that is not what it was; people are told on stderr.
pub(super) fn rotten(out: &mut Out, rotten: &[Rotten], json: bool) -> io::Result<()> {
    for line in rotten.iter().filter(|_| json) {
        serde_json::to_writer(&mut *out, line)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Each file that would be copied, and what the archive would hold then.
pub(super) fn plan(out: &mut Out, plan: &Plan, json: bool) -> io::Result<()> {
    let segments = plan.segments.iter();
    let segments = segments.map(|copy| (Dir::Wal.join(&copy.sealed.link.name), copy.bytes));
    let snapshots = plan.snapshots.iter();
    let snapshots = snapshots.map(|copy| (Dir::Snap.join(&copy.snapshot.name), copy.snapshot.bytes));
    for (file, bytes) in segments.chain(snapshots) {
        if json {
            serde_json::to_writer(&mut *out, &FileLine { file, bytes })?;
            out.write_all(b"\n")?;
        } else {
            writeln!(out, "copy {file}, {bytes} bytes")?;
        }
    }
    let mut manifest = plan.manifest.clone();
    manifest
        .snapshots
        .extend(plan.snapshots.iter().map(|copy| store::SnapshotEntry {
            file: copy.snapshot.name.clone(),
            start_lsn: copy.snapshot.header.start_lsn.get(),
            end_lsn: copy.snapshot.trailer.end_lsn.get(),
            bytes: copy.snapshot.bytes,
            crc: 0,
        }));
    manifest
        .segments
        .extend(plan.segments.iter().map(|copy| store::SegmentEntry {
            file: copy.sealed.link.name.clone(),
            first_lsn: copy.sealed.link.first().get(),
            end_lsn: copy.sealed.end.get(),
            records_crc: copy.sealed.crc,
            first_time_ms: 0,
            last_time_ms: 0,
            bytes: copy.bytes,
            crc: 0,
        }));
    let (first, end) = manifest.range().unwrap_or_default();
    let totals = Totals {
        into: plan.path.display().to_string(),
        first_lsn: first.get(),
        end_lsn: end.get(),
        segments_copied: plan.segments.len() as u64,
        snapshots_copied: plan.snapshots.len() as u64,
        bytes_copied: plan.bytes(),
        restorable: manifest.is_restorable(),
        dry_run: true,
        gap: plan.gap.as_ref().map(GapLine::from),
        damage: plan.damage.as_ref().map(DamageLine::from),
    };
    self::totals(out, &totals, json)
}

/// What became of a run.
pub(super) fn totals(out: &mut Out, totals: &Totals, json: bool) -> io::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, totals)?;
        out.write_all(b"\n")?;
        return out.flush();
    }
    let verb = if totals.dry_run { "would copy" } else { "copied" };
    writeln!(
        out,
        "{verb} {} segments and {} snapshots, {} bytes; {} holds lsn {} to {}{}",
        totals.segments_copied,
        totals.snapshots_copied,
        totals.bytes_copied,
        totals.into,
        totals.first_lsn,
        totals.end_lsn,
        if totals.restorable {
            ""
        } else {
            ", and no snapshot to begin with yet"
        }
    )?;
    out.flush()
}
