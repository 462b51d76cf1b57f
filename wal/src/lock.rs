//! One process per data directory: `flock` on the directory itself.
//!
//! There is no lock file, so there is none to be left behind: the kernel lets go of the lock when the process ends, however
//! it ends. Tools do not take the lock; they ask with [`probe_shared`] whether somebody has it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::storage::DiskStorage;
use crate::storage::disk::open_directory;

/// How long a start tries before it says that the directory is taken: a predecessor may be in its last moments.
pub const LOCK_WAIT: Duration = Duration::from_millis(200);

/// How often a start tries meanwhile.
const LOCK_STEP: Duration = Duration::from_millis(10);

/// The exclusive lock on a data directory; held until dropped.
#[derive(Debug)]
pub struct DirLock {
    path: PathBuf,
    // Closing the descriptor releases the lock.
    directory: File,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("the data directory is in use by another process")]
    Held,
    /// The directory cannot be opened or locked.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Whether a server has a directory open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Nobody has it.
    Free,
    /// A server has it, and may write at any moment.
    Live,
}

impl DirLock {
    /// Takes the lock of an existing directory, trying for `wait` (see [`LOCK_WAIT`]).
    pub fn exclusive(path: &Path, wait: Duration) -> Result<DirLock, LockError> {
        let directory = open_directory(path)?;
        let give_up = Instant::now() + wait;
        loop {
            match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    return Ok(DirLock {
                        path: path.to_owned(),
                        directory,
                    });
                }
                Err(Errno::WOULDBLOCK) if Instant::now() >= give_up => return Err(LockError::Held),
                // A tool's probe holds a shared lock for an instant: trying again gets past it.
                Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_STEP),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(LockError::Io(errno.into())),
            }
        }
    }
}

impl DirLock {
    /// The disk below the very directory that is locked, whatever its path leads to by now. As long as a handle of it is
    /// left, the lock is, too.
    pub fn storage(&self) -> io::Result<DiskStorage> {
        Ok(DiskStorage::on(&self.path, self.directory.try_clone()?))
    }
}

/// Asks once, without waiting, whether a server has the directory, and lets go at once.
pub fn probe_shared(path: &Path) -> io::Result<Liveness> {
    let directory = open_directory(path)?;
    loop {
        match flock(&directory, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                flock(&directory, FlockOperation::Unlock)?;
                return Ok(Liveness::Free);
            }
            Err(Errno::WOULDBLOCK) => return Ok(Liveness::Live),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_is_refused_and_a_dropped_one_is_free() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(probe_shared(directory.path()).unwrap(), Liveness::Free);
        let lock = DirLock::exclusive(directory.path(), LOCK_WAIT).unwrap();
        assert_eq!(probe_shared(directory.path()).unwrap(), Liveness::Live);
        let second = DirLock::exclusive(directory.path(), Duration::ZERO);
        assert!(matches!(second, Err(LockError::Held)));
        drop(lock);
        assert_eq!(probe_shared(directory.path()).unwrap(), Liveness::Free);
        DirLock::exclusive(directory.path(), Duration::ZERO).unwrap();
    }

    #[test]
    fn a_directory_that_is_moved_takes_its_server_along() {
        use crate::storage::{Dir, Storage, StorageFile};
        let parent = tempfile::tempdir().unwrap();
        let (path, aside) = (parent.path().join("data"), parent.path().join("aside"));
        std::fs::create_dir(&path).unwrap();
        let lock = DirLock::exclusive(&path, Duration::ZERO).unwrap();
        let storage = lock.storage().unwrap();
        storage.create_dir(Dir::Wal).unwrap();
        std::fs::rename(&path, &aside).unwrap();
        std::fs::create_dir_all(path.join("wal")).unwrap();
        let second = DirLock::exclusive(&path, Duration::ZERO).unwrap();
        let file = storage.create(Dir::Wal, "a").unwrap();
        file.write_at(0, b"x").unwrap();
        storage.rename(Dir::Wal, "a", "b").unwrap();
        storage.sync_dir(Dir::Wal).unwrap();
        assert_eq!(storage.list(Dir::Wal).unwrap(), ["b"]);
        assert_eq!(std::fs::read(aside.join("wal/b")).unwrap(), b"x");
        assert!(second.storage().unwrap().list(Dir::Wal).unwrap().is_empty());
        // The lock is the descriptor's: it lasts as long as any handle.
        drop(lock);
        assert!(matches!(
            DirLock::exclusive(&aside, Duration::ZERO),
            Err(LockError::Held)
        ));
        drop((storage, file));
        DirLock::exclusive(&aside, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_missing_directory_is_an_error_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        assert!(matches!(
            DirLock::exclusive(&missing, Duration::ZERO),
            Err(LockError::Io(_))
        ));
        assert!(probe_shared(&missing).is_err());
    }
}
