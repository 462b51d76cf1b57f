//! What there is to copy, and where it goes.

use std::io;
use std::path::{Path, PathBuf};

use idem_protocol::wal::{parse_snapshot_name, snapshot_name};
use idem_protocol::{ClusterId, Lsn};
use idem_wal::reader::{Snapshot, snapshot};
use idem_wal::storage::{Dir, Storage, StorageFile};

use crate::chain::{self, Sealed};
use crate::exit::Failure;
use crate::store::{self, Manifest};
use crate::view::View;

/// What a run would do.
pub(super) struct Plan {
    /// The history's directory, there or not.
    pub(super) path: PathBuf,
    /// What it says now.
    pub(super) manifest: Manifest,
    pub(super) segments: Vec<SegmentCopy>,
    pub(super) snapshots: Vec<SnapshotCopy>,
    /// What a person has to know, a line each.
    pub(super) notes: Vec<String>,
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

/// Looks at both sides; nothing when the log has no sealed segment yet.
pub(super) fn plan(view: &View, store: &Path) -> Result<Option<Plan>, Failure> {
    let chain = chain::read(view).map_err(Failure::io("reading the headers of the segments"))?;
    let sealed = chain::sealed(&chain);
    let (Some(first), Some(last)) = (sealed.first(), sealed.last()) else {
        return Ok(None);
    };
    let (cluster, node) = (first.link.header.cluster, first.link.header.node);
    let ids = (cluster.to_string(), node.to_string());
    let histories = store::histories(store)?;
    let name = store::history_name(&sealed).expect("there is a sealed segment");
    let path = store.join(name);
    let is_taken = histories.iter().any(|(known, _)| *known == path);
    let known = histories.into_iter().filter(|(_, manifest)| {
        (&manifest.cluster, &manifest.node) == (&ids.0, &ids.1) && manifest.is_continued_by(&sealed)
    });
    // Of several that fit, the one that reaches furthest.
    let known = known.max_by_key(|(_, manifest)| manifest.range().map(|(_, end)| end));
    let (path, manifest) = match known {
        Some(known) => known,
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
    let begin = manifest.range().map_or(first.link.first(), |(begin, _)| begin);
    let snapshots = snapshots(view, cluster, &manifest, begin, end, &mut notes)?;
    Ok(Some(Plan {
        path,
        manifest,
        segments,
        snapshots,
        notes,
    }))
}

/// Good snapshots that are not archived yet and lie between `begin` and `end`.
fn snapshots(
    view: &View,
    cluster: ClusterId,
    manifest: &Manifest,
    begin: Lsn,
    end: Lsn,
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
        .filter(|start| *start >= begin && !known(*start))
    {
        let name = snapshot_name(start);
        let snapshot = match snapshot::read(view, &name, Some(cluster), &mut |_, _| {}) {
            Ok(snapshot) => snapshot,
            Err(problem) => {
                // Gone, most likely: its server needs it no more. A damaged one is nothing to keep either.
                notes.push(format!("{} is left out: {problem}", Dir::Snap.join(&name)));
                continue;
            }
        };
        let ends = snapshot.trailer.end_lsn;
        if ends > end {
            notes.push(format!(
                "{} ends at lsn {ends}, in a segment that is still written; it is archived after that",
                Dir::Snap.join(&name)
            ));
        } else {
            copies.push(SnapshotCopy { snapshot });
        }
    }
    Ok(copies)
}
