//! The refusals of a storage that can only be looked at, once for all of them.
//!
//! A mistake in a command must not become a change of somebody's log: what it has in hand then has no way to write. Which
//! calls those are is said here, so that a new one of the traits is refused everywhere or nowhere compiles.

use std::io;

/// The answer to every call that would write.
pub(crate) fn refused<T>(why: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, why))
}

/// In an `impl Storage`: everything that would change the directory.
macro_rules! refuse_changes {
    ($why:expr) => {
        fn open_write(&self, _: Dir, _: &str) -> io::Result<Self::File> {
            $crate::read_only::refused($why)
        }

        fn create(&self, _: Dir, _: &str) -> io::Result<Self::File> {
            $crate::read_only::refused($why)
        }

        fn rename(&self, _: Dir, _: &str, _: &str) -> io::Result<()> {
            $crate::read_only::refused($why)
        }

        fn remove(&self, _: Dir, _: &str) -> io::Result<()> {
            $crate::read_only::refused($why)
        }

        fn sync_dir(&self, _: Dir) -> io::Result<()> {
            $crate::read_only::refused($why)
        }

        fn create_dir(&self, _: Dir) -> io::Result<()> {
            $crate::read_only::refused($why)
        }
    };
}

/// In an `impl StorageFile`: everything that would change the file.
macro_rules! refuse_writes {
    ($why:expr) => {
        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<usize> {
            $crate::read_only::refused($why)
        }

        fn sync_data(&self) -> io::Result<()> {
            $crate::read_only::refused($why)
        }

        fn sync_all(&self) -> io::Result<()> {
            $crate::read_only::refused($why)
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            $crate::read_only::refused($why)
        }
    };
}

pub(crate) use {refuse_changes, refuse_writes};

/// For tests: whatever would write is refused by `storage` and by `file` of it.
#[cfg(test)]
pub(crate) fn check<S: idem_wal::storage::Storage>(storage: &S, file: &S::File) {
    use idem_wal::storage::{Dir, StorageFile};
    let refusals = [
        storage.open_write(Dir::Wal, "a").err(),
        storage.create(Dir::Wal, "b").err(),
        storage.rename(Dir::Wal, "a", "b").err(),
        storage.remove(Dir::Wal, "a").err(),
        storage.sync_dir(Dir::Wal).err(),
        storage.create_dir(Dir::Snap).err(),
        file.write_at(0, b"x").err(),
        file.sync_data().err(),
        file.sync_all().err(),
        file.set_len(0).err(),
    ];
    for refusal in refusals {
        let kind = refusal.expect("it would write").kind();
        assert_eq!(kind, io::ErrorKind::ReadOnlyFilesystem);
    }
}
