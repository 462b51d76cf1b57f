//! One process per data directory: `flock` on the directory itself.
//!
//! There is no lock file, so there is none to be left behind: the kernel lets go of the lock when the process ends, however
//! it ends. Tools do not take the lock; they ask with [`probe_shared`] whether somebody has it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How long a start tries before it says that the directory is taken: a predecessor may be in its last moments.
pub const LOCK_WAIT: Duration = Duration::from_millis(200);

/// How often a start tries meanwhile.
const LOCK_STEP: Duration = Duration::from_millis(10);

/// The exclusive lock on a data directory; held until dropped.
#[derive(Debug)]
pub struct DirLock {
    // Closing the descriptor releases the lock.
    _directory: File,
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
        let directory = File::open(path)?;
        let give_up = Instant::now() + wait;
        loop {
            match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    return Ok(DirLock {
                        _directory: directory,
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

/// Asks once, without waiting, whether a server has the directory, and lets go at once.
pub fn probe_shared(path: &Path) -> io::Result<Liveness> {
    let directory = File::open(path)?;
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
