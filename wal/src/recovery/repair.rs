//! The steps that a start takes on disk before the log is written again, each in an order that a crash may interrupt.
//!
//! Nothing here is reached with a verdict that refuses. Whatever a step needs in space it takes first: without it nothing
//! else has changed.

use std::io;

use idem_protocol::control::Control;
use idem_protocol::wal::padded;
use idem_protocol::{Lsn, UnixMs};

use super::judgement::{Finding, FindingKind, Judgement, LogEnd};
use super::open::OpenError;
use super::tail::TailImage;
use crate::control::{CONTROL_NAME, CONTROL_SPARE, CONTROL_TEMPORARY};
use crate::segment::{NEW_SEGMENT_TEMPORARY, SPARE_PREFIX};
use crate::storage::durable::{sync_directory, sync_file, write_all_at, zero_fill};
use crate::storage::{Dir, Storage};

/// So many files of cut tails are kept; the oldest goes first.
pub(crate) const CUT_FILES_MAX: usize = 16;

/// `cut-<lsn>-<time>.bin`
fn cut_name<S: Storage>(storage: &S, lsn: Lsn, time: UnixMs) -> io::Result<String> {
    let names = storage.list(Dir::Wal)?;
    let free = (time.get()..).map(|time| format!("cut-{:020}-{time}.bin", lsn.get()));
    Ok(free
        .into_iter()
        .find(|name| !names.contains(name))
        .expect("a directory has fewer names than there are numbers"))
}

/// The time in a cut file's name, for any other name nothing.
fn cut_time(name: &str) -> Option<u64> {
    name.strip_prefix("cut-")?
        .strip_suffix(".bin")?
        .split_once('-')?
        .1
        .parse()
        .ok()
}

/// The directories with files under temporary names.
const WITH_TEMPORARIES: [Dir; 3] = [Dir::Root, Dir::Wal, Dir::Snap];

/// Whether a name is a temporary one, of which a start takes away what it finds.
fn is_leftover(dir: Dir, name: &str) -> bool {
    match dir {
        Dir::Root => name == CONTROL_TEMPORARY,
        Dir::Wal => name == NEW_SEGMENT_TEMPORARY || name.starts_with(SPARE_PREFIX),
        Dir::Snap => name.ends_with(".tmp"),
        Dir::Diverged => false,
    }
}

/// Removes what earlier runs left under temporary names: never used, since nobody knows what of it reached the disk.
/// Returns what went, without the spares.
pub(crate) fn remove_leftovers<S: Storage>(storage: &S) -> Result<Vec<String>, OpenError> {
    let mut removed = Vec::new();
    for dir in WITH_TEMPORARIES {
        let names = storage
            .list(dir)
            .map_err(|error| OpenError::io("listing the data directory", error))?;
        for name in names.into_iter().filter(|name| is_leftover(dir, name)) {
            let what = || format!("removing {}", storage.describe(dir, &name));
            match storage.remove(dir, &name) {
                Ok(()) => {}
                // A name that is no UTF-8 is listed as one that is not there; none of ours is.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(OpenError::io(what(), error)),
            }
            // Spares are left by every run; what else is there tells of one that was interrupted.
            if !name.starts_with(SPARE_PREFIX) {
                removed.push(dir.join(&name));
            }
        }
    }
    Ok(removed)
}

/// What stands under temporary names that [`remove_leftovers`] cannot remove, or that cannot be made again, each with what
/// comes of it.
pub(super) fn obstacles<S: Storage>(storage: &S) -> Vec<Finding> {
    let mut found = Vec::new();
    for dir in WITH_TEMPORARIES {
        // A directory that cannot be listed is the verdict already.
        for name in storage.list(dir).unwrap_or_default() {
            let is_spare = dir == Dir::Root && name == CONTROL_SPARE;
            if !is_spare && !is_leftover(dir, &name) {
                continue;
            }
            let what = match storage.obstacle(dir, &name) {
                Ok(None) => continue,
                Ok(Some(what)) => what,
                Err(error) => format!("it cannot be looked at ({error})"),
            };
            let message = if is_spare {
                format!("{what}: no space can be kept ready for the control file; move it away")
            } else {
                format!("{what}: a start fails, because this name is for a temporary file; move it away")
            };
            found.push(Finding::new(FindingKind::Beside, message).at(dir, &name, 0));
        }
    }
    found
}

/// Copies what will be cut, from L to the last byte that is not zero. Durable when it returns.
pub(crate) fn copy_cut<S: Storage>(
    storage: &S,
    lsn: Lsn,
    end: &LogEnd,
    tail: &TailImage,
    time: UnixMs,
) -> Result<String, OpenError> {
    let bytes = tail.junk_end(end.offset) - end.offset;
    let name = cut_name(storage, lsn, time).map_err(|error| OpenError::io("listing wal", error))?;
    let written = storage.create(Dir::Wal, &name).and_then(|file| {
        // Zeros between two blocks stay a hole: a sparse segment may have more of them than the disk has space.
        for (offset, block) in tail.junk() {
            let from = offset - end.offset;
            let kept = block
                .len()
                .min(usize::try_from(bytes - from).unwrap_or(usize::MAX));
            write_all_at(&file, from, &block[..kept])?;
        }
        Ok(file)
    });
    let file = match written {
        Ok(file) => file,
        Err(error) => {
            // Half a copy helps nobody and holds the space that the next attempt needs.
            let _ = storage.remove(Dir::Wal, &name);
            return Err(OpenError::space(
                "copying the tail that is to be cut",
                tail.junk_bytes().min(bytes),
                error,
            ));
        }
    };
    sync_file(storage, &file, Dir::Wal, &name)?;
    sync_directory(storage, Dir::Wal)?;
    Ok(name)
}

/// Removes the oldest copies beyond the number that is kept; returns their names.
pub(crate) fn prune_cuts<S: Storage>(storage: &S) -> Result<Vec<String>, OpenError> {
    let names = storage
        .list(Dir::Wal)
        .map_err(|error| OpenError::io("listing wal", error))?;
    let mut cuts: Vec<_> = names
        .into_iter()
        .filter_map(|name| Some((cut_time(&name)?, name)))
        .collect();
    cuts.sort();
    let mut removed = Vec::new();
    let surplus = cuts.len().saturating_sub(CUT_FILES_MAX);
    for (_, name) in cuts.into_iter().take(surplus) {
        storage
            .remove(Dir::Wal, &name)
            .map_err(|error| OpenError::io(format!("removing wal/{name}"), error))?;
        removed.push(Dir::Wal.join(&name));
    }
    Ok(removed)
}

/// Gives a newest segment that was never born a name that no reader looks at.
pub(crate) fn move_aside<S: Storage>(
    storage: &S,
    name: &str,
    lsn: Lsn,
    time: UnixMs,
) -> Result<String, OpenError> {
    let aside = cut_name(storage, lsn, time).map_err(|error| OpenError::io("listing wal", error))?;
    storage
        .rename(Dir::Wal, name, &aside)
        .map_err(|error| OpenError::io(format!("renaming wal/{name}"), error))?;
    sync_directory(storage, Dir::Wal)?;
    Ok(aside)
}

/// Sees that the control file can be replaced later, before anything is changed. The space that an earlier change left
/// behind takes the first of a start's two changes; this is for the second.
pub(crate) fn probe_control_space<S: Storage>(storage: &S, control: &Control) -> Result<(), OpenError> {
    // Two more epochs than there are: the promise and the history entry that this start adds.
    let bytes = vec![0; control.encode().len() + 128];
    let written = storage
        .create(Dir::Root, CONTROL_TEMPORARY)
        .and_then(|file| write_all_at(&file, 0, &bytes));
    if let Err(error) = written {
        let _ = storage.remove(Dir::Root, CONTROL_TEMPORARY);
        let what = format!("replacing {}", storage.describe(Dir::Root, CONTROL_NAME));
        return Err(OpenError::space(what, bytes.len() as u64, error));
    }
    Ok(())
}

/// Writes the newest segment again in place, from its first frame above the highest witness to the end of the file, zeros
/// included, out of the bytes that were judged.
///
/// A sync that failed before the last process ended may have left pages that the kernel takes for clean and the disk never
/// got. Marks written from now on vouch for these bytes, so they have to be there: dirty again, and synced.
pub(crate) fn rewrite_tail<S: Storage>(storage: &S, end: &LogEnd, tail: &TailImage) -> Result<(), OpenError> {
    let what = || format!("writing {}", storage.describe(Dir::Wal, &end.segment));
    let failed = |error: io::Error| OpenError::space(what(), 0, error);
    let file = storage
        .open_write(Dir::Wal, &end.segment)
        .map_err(|error| OpenError::io(what(), error))?;
    let mut at = tail.rewrite_from(end.offset);
    for (offset, bytes) in tail.frames() {
        assert_eq!(offset, at, "held frames follow one another");
        write_all_at(&file, offset, bytes).map_err(failed)?;
        at = offset + bytes.len() as u64;
    }
    assert_eq!(at, end.offset, "the held frames end at L");
    zero_fill(&file, end.offset, tail.file_bytes()).map_err(failed)?;
    sync_file(storage, &file, Dir::Wal, &end.segment)?;
    Ok(())
}

/// Writes what is missing of the zeros between the last frame and the place of the next one. The caller syncs.
pub(crate) fn complete_padding<S: Storage>(storage: &S, end: &LogEnd) -> Result<(), OpenError> {
    let to = padded(end.offset);
    if to <= end.segment_bytes {
        return Ok(());
    }
    let what = || format!("writing {}", storage.describe(Dir::Wal, &end.segment));
    let file = storage
        .open_write(Dir::Wal, &end.segment)
        .map_err(|error| OpenError::io(what(), error))?;
    zero_fill(&file, end.offset, to).map_err(|error| OpenError::space(what(), to - end.offset, error))
}

/// Syncs everything that the verdict accepted: whatever follows may vouch for it.
pub(crate) fn sync_accepted<S: Storage>(storage: &S, judgement: &Judgement) -> Result<(), OpenError> {
    for segment in &judgement.segments {
        let what = || format!("opening {}", storage.describe(Dir::Wal, &segment.name));
        let file = storage
            .open_write(Dir::Wal, &segment.name)
            .map_err(|error| OpenError::io(what(), error))?;
        sync_file(storage, &file, Dir::Wal, &segment.name)?;
    }
    if let Some(snapshot) = &judgement.snapshot {
        // A copied directory may have it in the cache only, and the log before it is gone.
        let what = || format!("opening {}", storage.describe(Dir::Snap, &snapshot.name));
        let file = storage
            .open_write(Dir::Snap, &snapshot.name)
            .map_err(|error| OpenError::io(what(), error))?;
        sync_file(storage, &file, Dir::Snap, &snapshot.name)?;
    }
    for dir in [Dir::Wal, Dir::Snap, Dir::Root] {
        sync_directory(storage, dir)?;
    }
    Ok(())
}
