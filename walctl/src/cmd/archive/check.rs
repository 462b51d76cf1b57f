//! `--check`: whether what was archived is still what it was, and what to do where it is not.

use idem_wal::storage::{Dir, DiskStorage, Storage};
use serde::Serialize;

use super::copy;
use super::plan::Plan;
use crate::exit::Failure;
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
    Ok(rotten)
}

impl Rotten {
    /// For people, without the program's name.
    pub(super) fn lines(&self) -> [String; 2] {
        [
            format!("archived {}: {}", self.file, self.finding),
            format!("  {}", self.remedy),
        ]
    }
}
