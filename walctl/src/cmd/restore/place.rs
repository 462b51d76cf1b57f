//! The new directory before anything is in it.
//!
//! While a restore writes, a file [`MARK`] stands in the directory; it is the first to come and the last to go, and holds the
//! command that finishes what was interrupted. With it and
//! without a control file, what else is there came from a restore that did not get to its end, and is removed. Without
//! it, whatever is there is somebody else's and a reason to refuse.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use idem_protocol::wal::{parse_segment_name, parse_snapshot_name};
use idem_wal::control::{CONTROL_NAME, CONTROL_SPARE, CONTROL_TEMPORARY};
use idem_wal::lock::{DirLock, LOCK_WAIT};
use idem_wal::segment::{NEW_SEGMENT_TEMPORARY, SPARE_PREFIX};
use idem_wal::snapshot::SNAPSHOT_TEMPORARY_SUFFIX;
use idem_wal::storage::durable::{read_exact_or_end, sync_directory, sync_file, write_all_at};
use idem_wal::storage::{Dir, DiskStorage, Storage};

use crate::claimed;
use crate::exit::Failure;
use crate::shell;

/// The file that says that a restore is not finished.
pub(super) const MARK: &str = idem_wal::recovery::RESTORE_MARK;
const MARK_TEXT: &str =
    "walctl restore writes here, or was interrupted; what it left may be removed. To finish it:\n";
/// No command is longer.
const MARK_BYTES_MAX: usize = 64 << 10;

/// Permissions of a new data directory, as the server makes it.
const DIR_MODE: u32 = 0o750;

/// A directory that is locked, empty and marked. Dropped before [`Place::keep`], it is emptied again.
pub(super) struct Place {
    path: PathBuf,
    storage: DiskStorage,
    _lock: DirLock,
    made: bool,
    kept: bool,
}

/// Says whether `path` could be restored into, and changes nothing.
pub(super) fn check(path: &Path, source: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let real = |path: &Path| fs::canonicalize(path).map_err(Failure::io(path.display()));
    let (parent, source) = (real(parent)?, real(source)?);
    if parent.starts_with(&source) || real(path).is_ok_and(|path| path == source) {
        return Err(Failure::usage(format!(
            "{} is in the directory that is to be restored from",
            path.display()
        )));
    }
    claimed::refuse(&parent, "a new data directory")?;
    match fs::metadata(path) {
        Ok(_) => {
            let storage = DiskStorage::open(path).map_err(Failure::io(path.display()))?;
            leftovers(&storage, path).map(|_| ())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::io(path.display())(error)),
    }
}

/// Whether there is room, as far as one can tell before.
fn room(storage: &DiskStorage, path: &Path, bytes: u64) -> Result<(), Failure> {
    let available = storage.available_bytes().map_err(Failure::io(path.display()))?;
    if available < bytes {
        return Err(Failure::usage(format!(
            "{}: {bytes} bytes are needed, and {available} are free",
            path.display()
        )));
    }
    Ok(())
}

/// The words for a directory in which a restore was interrupted: how it is finished. `dir` is the path of `storage`; nothing
/// without the mark.
pub(crate) fn interrupted<S: Storage>(storage: &S, dir: &Path) -> Option<String> {
    let file = storage.open(Dir::Root, MARK).ok()?;
    let mut bytes = vec![0; MARK_BYTES_MAX];
    let read = read_exact_or_end(&file, 0, &mut bytes).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..read]);
    // The directory may have been moved since.
    let command = text
        .strip_prefix(MARK_TEXT)
        .and_then(|command| command.rsplit_once(INTO))
        .map_or("walctl restore SOURCE --to-lsn LSN", |(command, _)| command);
    Some(format!(
        "a restore into this directory did not come to its end, and no server starts on it. The same one again removes what \
         was left, and finishes it:\n  {command}{INTO}{}",
        shell::word(dir)
    ))
}

/// What stands before the path of the new directory, which comes last.
pub(super) const INTO: &str = " --into ";

/// What may be removed: nothing of an empty directory, all of one that a restore left. Anything else is refused.
fn leftovers(storage: &DiskStorage, path: &Path) -> Result<Vec<(Dir, String)>, Failure> {
    let list = |dir| storage.list(dir).map_err(Failure::io(storage.describe(dir, "")));
    // The root of a file system of its own is as empty as it gets with this in it.
    let root: Vec<String> = list(Dir::Root)?
        .into_iter()
        .filter(|name| name != "lost+found")
        .collect();
    if root.is_empty() {
        return Ok(Vec::new());
    }
    let has = |name: &str| root.iter().any(|found| found == name);
    let not_empty = |name: &str| {
        Failure::usage(format!(
            "{} is not empty: it has {name}; a restore needs a directory of its own",
            path.display()
        ))
    };
    if has(CONTROL_NAME) && !has(MARK) {
        return Err(not_empty(CONTROL_NAME));
    }
    if !has(MARK) {
        return Err(not_empty(&root[0]));
    }
    let mut found = Vec::new();
    for dir in [Dir::Wal, Dir::Snap] {
        for name in list(dir)? {
            found.push((dir, name));
        }
    }
    let in_root = root
        .into_iter()
        .filter(|name| !matches!(name.as_str(), MARK) && name != Dir::Wal.path() && name != Dir::Snap.path());
    found.extend(in_root.map(|name| (Dir::Root, name)));
    match found.iter().find(|(dir, name)| !is_ours(*dir, name)) {
        Some((dir, name)) => Err(not_empty(&dir.join(name))),
        None => Ok(found),
    }
}

/// Whether a restore makes files of this name.
fn is_ours(dir: Dir, name: &str) -> bool {
    match dir {
        // No server starts while the mark is there: this is the control file of the restore.
        Dir::Root => matches!(name, CONTROL_NAME | CONTROL_TEMPORARY | CONTROL_SPARE),
        Dir::Wal => {
            name == NEW_SEGMENT_TEMPORARY
                || name.starts_with(SPARE_PREFIX)
                || parse_segment_name(name).is_some()
        }
        Dir::Snap => parse_snapshot_name(name).is_some() || name.ends_with(SNAPSHOT_TEMPORARY_SUFFIX),
        Dir::Diverged => false,
    }
}

impl Place {
    /// Makes the directory when it is not there, locks it, removes what an interrupted restore left, and marks it with the
    /// command that repeats this one. Without room for `bytes` nothing is made.
    pub(super) fn take(path: &Path, bytes: u64, command: &str) -> Result<Place, Failure> {
        if matches!(fs::metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound) {
            // A full disk may have no room for a directory either.
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            if let Ok(parent) = DiskStorage::open(parent.unwrap_or(Path::new("."))) {
                room(&parent, path, bytes)?;
            }
        }
        let made = match DirBuilder::new().mode(DIR_MODE).create(path) {
            Ok(()) => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let parent = parent.unwrap_or(Path::new("."));
                let synced = File::open(parent).and_then(|parent| parent.sync_all());
                synced.map_err(Failure::io(parent.display()))?;
                true
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Failure::usage(format!(
                    "{}: the directory in which it is to be made does not exist",
                    path.display()
                )));
            }
            Err(error) => return Err(Failure::io(path.display())(error)),
        };
        let lock = DirLock::exclusive(path, LOCK_WAIT)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
        let storage = lock.storage().map_err(Failure::io(path.display()))?;
        let left = leftovers(&storage, path)?;
        let place = Place {
            path: path.to_owned(),
            storage,
            _lock: lock,
            made,
            kept: false,
        };
        place.remove(&left)?;
        // Found out before gigabytes are written. What others take meanwhile is found out when it is missing.
        room(&place.storage, path, bytes)?;
        place.mark(command)?;
        Ok(place)
    }

    pub(super) fn storage(&self) -> &DiskStorage {
        &self.storage
    }

    fn mark(&self, command: &str) -> Result<(), Failure> {
        let storage = &self.storage;
        storage
            .create(Dir::Root, MARK)
            .and_then(|file| {
                write_all_at(&file, 0, format!("{MARK_TEXT}{command}\n").as_bytes())?;
                Ok(file)
            })
            .map_err(Failure::io(storage.describe(Dir::Root, MARK)))
            .and_then(|file| {
                sync_file(storage, &file, Dir::Root, MARK)
                    .and_then(|()| sync_directory(storage, Dir::Root))
                    .map_err(|error| Failure::usage(error.to_string()))
            })
    }

    fn remove(&self, left: &[(Dir, String)]) -> Result<(), Failure> {
        for (dir, name) in left {
            let removed = self.storage.remove(*dir, name);
            removed.map_err(Failure::io(self.storage.describe(*dir, name)))?;
        }
        Ok(())
    }

    /// Everything is on disk: takes the mark away.
    pub(super) fn keep(mut self) -> Result<(), Failure> {
        self.kept = true;
        let storage = &self.storage;
        storage
            .remove(Dir::Root, MARK)
            .map_err(Failure::io(storage.describe(Dir::Root, MARK)))?;
        sync_directory(storage, Dir::Root).map_err(|error| Failure::usage(error.to_string()))
    }
}

impl Drop for Place {
    /// After an error. What cannot be removed now is removed by the next restore, since it stands beside the mark.
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let Ok(left) = leftovers(&self.storage, &self.path) else {
            // With a control file it is a log already.
            return;
        };
        if self.remove(&left).is_ok() {
            for dir in [Dir::Wal, Dir::Snap] {
                let _ = fs::remove_dir(self.path.join(dir.path()));
            }
            let _ = self.storage.remove(Dir::Root, MARK);
            if self.made {
                let _ = fs::remove_dir(&self.path);
            }
        }
    }
}
