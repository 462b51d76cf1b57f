//! `--check`: whether what was archived is still what it was, and what to do where it is not.

use std::path::Path;

use idem_wal::reader::HeaderPage;
use idem_wal::storage::{Dir, DiskStorage, Storage};
use serde::Serialize;

use super::copy;
use super::plan::Plan;
use crate::exit::Failure;
use crate::store::{self, Gap, Manifest};
use crate::view::View;

/// An archived file that is not what it was.
#[derive(Debug, Serialize)]
pub(super) struct Rotten {
    /// What is wrong.
    finding: String,
    /// Path of the file in the store.
    file: String,
    /// What brings it back, or what there is to do without it.
    remedy: String,
}

/// Reads every archived file. `view` is the directory that they came from.
pub(super) fn check(view: &View, plan: &Plan) -> Result<Vec<Rotten>, Failure> {
    let target = DiskStorage::open(&plan.path).map_err(Failure::io(plan.path.display()))?;
    let segments = plan.manifest.segments.iter();
    let segments = segments.map(|entry| (Dir::Wal, &entry.file, entry.bytes, entry.crc));
    let snapshots = plan.manifest.snapshots.iter();
    let snapshots = snapshots.map(|entry| (Dir::Snap, &entry.file, entry.bytes, entry.crc));
    let mut rotten = Vec::new();
    for (dir, name, bytes, crc) in segments.chain(snapshots) {
        let found = target.open(dir, name).and_then(|file| copy::checksum(&file));
        let finding = match found {
            Ok(found) if found == (bytes, crc) => continue,
            Ok((found_bytes, found_crc)) => {
                format!("{found_bytes} bytes with CRC {found_crc:08x} instead of {bytes} with {crc:08x}")
            }
            Err(error) => error.to_string(),
        };
        // What is archived of a file is all of it, and neither a sealed segment nor a snapshot changes.
        let source = view.open(dir, name).and_then(|file| copy::checksum(&file));
        let (from, to) = (view.describe(dir, name), target.describe(dir, name));
        let remedy = if source.is_ok_and(|found| found == (bytes, crc)) {
            format!("the directory still has it, undamaged: cp {from} {to}")
        } else {
            format!(
                "{from} is not it any more: take it from another archive of this log; walctl verify {0} says what is left \
                 of this one, and walctl archive {1} --into ANOTHER-STORE --yes archives anew what the directory has",
                plan.path.display(),
                view.describe(Dir::Root, "").trim_end_matches('/')
            )
        };
        rotten.push(Rotten {
            finding,
            file: to,
            remedy,
        });
    }
    rotten.extend(seams(view, plan)?);
    Ok(rotten)
}

/// Segments that do not go on from the one that is archived before them, in each history of the node: which one the directory
/// goes on with says nothing about the others. Only headers are read.
fn seams(view: &View, plan: &Plan) -> Result<Vec<Rotten>, Failure> {
    let mut histories = store::histories(plan.path.parent().unwrap_or(Path::new(".")))?;
    let ids = |manifest: &Manifest| (manifest.cluster.clone(), manifest.node.clone());
    histories.retain(|(_, manifest)| ids(manifest) == ids(&plan.manifest));
    let mut found = Vec::new();
    for (path, manifest) in histories {
        let target = DiskStorage::open(&path).map_err(Failure::io(path.display()))?;
        for entry in &manifest.segments {
            let page = target
                .open(Dir::Wal, &entry.file)
                .and_then(|file| HeaderPage::read(&file));
            // One that cannot be read is found by its checksum.
            let Ok(Ok(header)) = page.map(|page| page.header()) else {
                continue;
            };
            if !manifest.precedes(&header) {
                found.push(Rotten::seam(view, &target, &entry.file));
            }
        }
    }
    Ok(found)
}

impl Rotten {
    /// A segment that goes on from another one than is archived before it.
    fn seam(view: &View, target: &DiskStorage, name: &str) -> Rotten {
        Rotten {
            finding: "it goes on from another log than is archived before it: two servers have written as the same node, each \
                      in a copy of one directory"
                .to_owned(),
            file: target.describe(Dir::Wal, name),
            remedy: format!(
                "what is archived there from this segment on is of another history than what is before it, of which every \
                 state can be restored: walctl archive {} --into ANOTHER-STORE --yes archives anew what the directory has",
                view.describe(Dir::Root, "").trim_end_matches('/'),
            ),
        }
    }

    /// What is missing of the log before the history at `path`.
    pub(super) fn gap(gap: &Gap, path: &Path) -> Rotten {
        Rotten {
            finding: gap.to_string(),
            file: path.display().to_string(),
            remedy: format!(
                "nothing brings it back, unless another archive of this log has it. When {0} is needed no longer, remove it: \
                 nothing is missing between the histories then",
                gap.before.display()
            ),
        }
    }

    /// For people, without the program's name.
    pub(super) fn lines(&self) -> [String; 2] {
        [
            format!("archived {}: {}", self.file, self.finding),
            format!("  {}", self.remedy),
        ]
    }
}
