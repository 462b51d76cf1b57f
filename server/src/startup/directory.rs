//! The data directory before anything in it is read: there or not, ours or somebody else's.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use idem_wal::lock::{DirLock, LOCK_WAIT, LockError};
use idem_wal::storage::DiskStorage;

use super::StartError;
use crate::exit::Exit;

/// Permissions of a new data directory: its owner, and reading for the group; the log holds clients' values.
const DIR_MODE: u32 = 0o750;

/// The lock of the directory when there is one; a file in its place is a configuration error.
pub(super) fn lock_existing(dir: &Path) -> Result<Option<DirLock>, StartError> {
    match std::fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => lock(dir).map(Some),
        Ok(_) => Err(StartError::usage(format!(
            "dir: {} is not a directory",
            dir.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(StartError::usage(format!(
            "dir: {}: a part of the path is not a directory",
            dir.display()
        ))),
        Err(error) => Err(cannot("look at", dir, &error)),
    }
}

pub(super) fn create(dir: &Path) -> Result<(), StartError> {
    let missing_parents = dir
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty() && !parent.exists());
    if let Some(parents) = missing_parents {
        DiskStorage::create(parents).map_err(|error| cannot("create", dir, &error))?;
    }
    match DirBuilder::new().mode(DIR_MODE).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(cannot("create", dir, &error));
        }
        Ok(()) | Err(_) => {}
    }
    // Its name has to last as long as what will be written below it.
    let parent = dir
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    std::fs::File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(|error| cannot("create", dir, &error))
}

pub(super) fn lock(dir: &Path) -> Result<DirLock, StartError> {
    DirLock::exclusive(dir, LOCK_WAIT).map_err(|error| match error {
        LockError::Held => StartError {
            exit: Exit::Locked,
            message: format!(
                "the data directory {} is in use by another process",
                dir.display()
            ),
        },
        LockError::Io(error) => cannot("lock", dir, &error),
    })
}

/// What a directory without a log may have in it and still be one of ours that was interrupted, or a volume of its own.
const EXPECTED_NAMES: [&str; 6] = [
    "wal",
    "snap",
    "diverged",
    "control.tmp",
    "control.spare",
    "lost+found",
];

/// A new log is what an operator expects once. In a directory that was there already it may as well be a mistyped path, or
/// the place of a volume that is not mounted, and then every operation could be acquired again: said, and not refused,
/// because an empty directory is also what a first start is given.
pub(super) fn doubt_new(dir: &Path) {
    let names = std::fs::read_dir(dir).into_iter().flatten().filter_map(|entry| {
        let name = entry.ok()?.file_name().to_string_lossy().into_owned();
        (!EXPECTED_NAMES.contains(&name.as_str())).then_some(name)
    });
    // A store of archives has no log of its own.
    let is_store = std::fs::read_dir(dir).into_iter().flatten().any(|entry| {
        let entry = entry.as_ref();
        entry.is_ok_and(|entry| is_archive(&entry.path()))
    });
    let dir = dir.display();
    if is_store {
        tracing::warn!(
            "`walctl archive` keeps logs in {dir}: `walctl restore --from {dir} --into NEW` makes a data directory of one"
        );
    }
    match names.min() {
        Some(foreign) => tracing::warn!(
            "{dir} has no log, and `{foreign}` in it is not idemd's: is it the right directory? A new log begins here; what \
             another one knew can be acquired again"
        ),
        None => tracing::warn!(
            "{dir} was there and has no log: if a volume should be mounted on it, stop now. A new log begins here; what \
             another one knew can be acquired again"
        ),
    }
}

/// What stands in the directory of a log that `walctl archive` keeps, and in no data directory.
const ARCHIVE_NAMES: [&str; 2] = ["manifest.json", "control.archived"];

/// Whether `dir` is one of those, as far as can be seen.
pub(super) fn is_archive(dir: &Path) -> bool {
    ARCHIVE_NAMES.iter().all(|name| dir.join(name).is_file())
}

pub(super) fn cannot(what: &str, dir: &Path, error: &io::Error) -> StartError {
    StartError::failure(format!(
        "cannot {what} the data directory {}: {error}",
        dir.display()
    ))
}
