//! What there is to copy, and where it goes.

use std::io;
use std::path::{Path, PathBuf};

use idem_protocol::wal::{parse_snapshot_name, snapshot_name};
use idem_protocol::{ClusterId, Lsn};
use idem_wal::reader::{Snapshot, SnapshotProblem, snapshot};
use idem_wal::storage::{Dir, Storage, StorageFile};

use super::sealed::{self, Damage};
use crate::chain::Sealed;
use crate::exit::Failure;
use crate::store::{self, Gap, Manifest};
use crate::view::View;

/// What a run would do.
pub(super) struct Plan {
    /// The history's directory, there or not.
    pub(super) path: PathBuf,
    /// What it says now.
    pub(super) manifest: Manifest,
    pub(super) segments: Vec<SegmentCopy>,
    pub(super) snapshots: Vec<SnapshotCopy>,
    /// Why nothing behind the segments can be copied.
    pub(super) damage: Option<Damage>,
    /// What of the log is in none of the store's histories, just before this one.
    pub(super) gap: Option<Gap>,
    /// What a person has to know, a line each.
    pub(super) notes: Vec<String>,
}

/// What there is to do.
pub(super) enum Planned {
    /// No segment has a successor yet.
    Unsealed(Option<Gap>),
    /// There is damage before the first one that has.
    Damaged(Damage),
    /// This.
    Plan(Box<Plan>),
}

/// A segment that is not archived yet.
pub(super) struct SegmentCopy {
    pub(super) sealed: Sealed,
    pub(super) bytes: u64,
}

/// A snapshot that is not archived yet.
pub(super) struct SnapshotCopy {
    pub(super) snapshot: Snapshot,
}

impl Plan {
    /// How many bytes are to be written, without the manifest.
    pub(super) fn bytes(&self) -> u64 {
        let segments = self.segments.iter().map(|copy| copy.bytes);
        let snapshots = self.snapshots.iter().map(|copy| copy.snapshot.bytes);
        segments.chain(snapshots).fold(0, u64::saturating_add)
    }
}

/// Looks at both sides.
pub(super) fn plan(view: &View, store: &Path) -> Result<Planned, Failure> {
    let sealed::Found {
        sealed,
        last: newest,
        mut damage,
    } = sealed::find(view)?;
    let (Some(first), Some(last)) = (sealed.first(), sealed.last()) else {
        return Ok(match (damage, newest) {
            (Some(damage), _) => Planned::Damaged(damage),
            (None, None) => Planned::Unsealed(None),
            (None, Some(link)) => {
                let ids = (link.header.cluster, link.header.node);
                Planned::Unsealed(store::gap(&store::histories(store)?, ids, link.first()))
            }
        });
    };
    let (cluster, node) = (first.link.header.cluster, first.link.header.node);
    let histories = store::histories(store)?;
    let name = store::history_name(&sealed).expect("there is a sealed segment");
    let path = store.join(name);
    let is_taken = histories.iter().any(|(known, _)| *known == path);
    let known = histories
        .iter()
        .filter(|(_, manifest)| manifest.is_of(cluster, node) && manifest.is_continued_by(&sealed));
    // Of several that fit, the one that reaches furthest.
    let known = known.max_by_key(|(_, manifest)| manifest.range().map(|(_, end)| end));
    let (path, manifest) = match known {
        Some(known) => known.clone(),
        None if is_taken => {
            return Err(Failure::usage(format!(
                "{}: it holds other segments than this log has, written in the same epoch; nothing was copied",
                path.display()
            )));
        }
        None => (path, Manifest::new(cluster, node)),
    };
    let archived_to = manifest.range().map_or(Lsn::ZERO, |(_, end)| end);
    let mut segments = Vec::new();
    for sealed in &sealed {
        if sealed.link.first() >= archived_to {
            let bytes = match view.open(Dir::Wal, &sealed.link.name).and_then(|file| file.len()) {
                Ok(bytes) => bytes,
                // A server removed it just now; copying finds that out, and everything is looked at again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                Err(error) => return Err(Failure::io("a segment")(error)),
            };
            segments.push(SegmentCopy {
                sealed: sealed.clone(),
                bytes,
            });
        }
    }
    let mut notes = Vec::new();
    let end = last.end.max(archived_to);
    let range = manifest.range();
    let begin = range.map_or(first.link.first(), |(begin, _)| begin);
    let gap = store::gap(&histories, (cluster, node), begin);
    // It cannot be mended any more: said once, and whenever somebody asks.
    if let Some(gap) = gap.as_ref().filter(|_| range.is_none()) {
        notes.push(gap.to_string());
    }
    if let Some(Damage { what, .. }) = &mut damage {
        let mut entries = manifest.segments.iter();
        if let Some(entry) = entries.find(|entry| Some(&entry.file) == what.file.as_ref()) {
            let archived = path.join(Dir::Wal.join(&entry.file));
            what.words += &format!("; it was archived before: {}", archived.display());
        }
    }
    let wanted = Wanted {
        cluster,
        begin,
        end,
        is_damaged: damage.is_some(),
    };
    let snapshots = snapshots(view, &manifest, &wanted, &mut notes)?;
    Ok(Planned::Plan(Box::new(Plan {
        path,
        manifest,
        segments,
        snapshots,
        damage,
        gap,
        notes,
    })))
}

/// Which snapshots are of use.
struct Wanted {
    cluster: ClusterId,
    /// What will be archived of the log.
    begin: Lsn,
    end: Lsn,
    /// Whether it ends there because of damage.
    is_damaged: bool,
}

/// Good snapshots that are not archived yet and lie within what will be of the log.
fn snapshots(
    view: &View,
    manifest: &Manifest,
    wanted: &Wanted,
    notes: &mut Vec<String>,
) -> Result<Vec<SnapshotCopy>, Failure> {
    let names = view
        .list(Dir::Snap)
        .map_err(Failure::io("listing the snapshots"))?;
    let mut starts: Vec<Lsn> = names
        .iter()
        .filter_map(|name| parse_snapshot_name(name))
        .collect();
    starts.sort_unstable();
    let known = |start: Lsn| {
        let mut entries = manifest.snapshots.iter();
        entries.any(|entry| entry.start_lsn == start.get())
    };
    let mut copies = Vec::new();
    for start in starts
        .into_iter()
        .filter(|start| *start >= wanted.begin && !known(*start))
    {
        let name = snapshot_name(start);
        let snapshot = match snapshot::read(view, &name, Some(wanted.cluster), &mut |_, _| {}) {
            Ok(snapshot) => snapshot,
            Err(SnapshotProblem::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                // It keeps the two newest ones.
                notes.push(format!(
                    "{} was removed by its server before it was copied; a newer one takes its place",
                    Dir::Snap.join(&name)
                ));
                continue;
            }
            Err(problem) => {
                // A damaged one is nothing to keep.
                notes.push(format!("{} is left out: {problem}", Dir::Snap.join(&name)));
                continue;
            }
        };
        let ends = snapshot.trailer.end_lsn;
        if ends > wanted.end {
            let why = if wanted.is_damaged {
                "behind the damage, and is not archived"
            } else {
                "in a segment that is still written: it can be archived when that is full, unless its server has removed \
                 it by then for a newer one, which takes its place"
            };
            notes.push(format!("{} ends at lsn {ends}, {why}", Dir::Snap.join(&name)));
        } else {
            copies.push(SnapshotCopy { snapshot });
        }
    }
    Ok(copies)
}
