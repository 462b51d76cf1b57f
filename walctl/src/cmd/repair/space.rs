//! Room for a backup: what it takes up, what is free, and the words when that is not enough.
//!
//! What is moved within a file system needs no room, and zeros that take up nothing are not copied. So what is needed is an
//! upper bound that is close, and what is free is only compared with the copies; the small things are tried.
//!
//! Deliberately absent: making room. What could go is named, and stays.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use idem_wal::segment::SPARE_PREFIX;
use idem_wal::storage::{Dir, DiskStorage, Storage};

use super::place;
use super::plan::{Change, Proposal};
use crate::exit::Failure;

/// Room for the backup's description, its script, its directories and their growth.
pub(super) const BACKUP_ROOM_BYTES: u64 = 64 << 10;

/// What the backup takes up where it goes.
pub(super) fn needed_bytes(data: &Path, backup: &Path, proposal: &Proposal) -> u64 {
    let Proposal::Plan(plan) = proposal else { return 0 };
    let of = |change: &Change| match change {
        Change::Move { dir, name, bytes } if !place::renames(data, *dir, backup) => {
            held_bytes(&data.join(dir.path()).join(name)).min(*bytes)
        }
        other => other.copied_bytes(),
    };
    BACKUP_ROOM_BYTES + plan.changes.iter().map(of).sum::<u64>()
}

/// What a file takes up on disk, where that can be told: zeros that take up nothing are not copied.
fn held_bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(u64::MAX, |found| found.blocks().saturating_mul(512))
}

/// What is free where the backup goes, if that can be told.
pub(super) fn available_bytes(data: &Path, asked: Option<&Path>) -> Option<u64> {
    let disk = DiskStorage::open(&place::nearest(data, asked));
    disk.and_then(|disk| disk.available_bytes()).ok()
}

pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull, WriteZero};
    matches!(error.kind(), StorageFull | QuotaExceeded | WriteZero)
}

pub(super) fn no_space(dir: &Path, needed_bytes: u64, why: &str) -> Failure {
    let mut words = format!(
        "no space for the backup, nothing was changed: {needed_bytes} bytes are needed ({why}); --backup DIR can be on \
         another file system"
    );
    let spare_bytes = spare_bytes(dir);
    if spare_bytes > 0 {
        let spares = dir.join("wal/spare-*");
        words += &format!(
            "; {} hold {spare_bytes} bytes, which no later start uses: they may be removed",
            spares.display()
        );
    }
    Failure::usage(words)
}

/// What the spares of the log take up: no start uses those of an earlier one.
fn spare_bytes(data: &Path) -> u64 {
    let entries = fs::read_dir(data.join(Dir::Wal.path()))
        .into_iter()
        .flatten()
        .flatten();
    let spares = entries.filter(|entry| entry.file_name().as_bytes().starts_with(SPARE_PREFIX.as_bytes()));
    spares
        .filter_map(|entry| Some(entry.metadata().ok()?.blocks() * 512))
        .sum()
}
