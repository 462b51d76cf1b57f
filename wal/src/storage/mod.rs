//! Everything the log does to a disk, as one trait with two implementations.
//!
//! Vocabulary: a *directory* is one of the four in [`Dir`], relative to the data directory; a *name* is a plain file name
//! in it. A file's bytes are durable after a successful [`StorageFile::sync_data`]; a name (created, renamed, removed) is
//! durable after a successful [`Storage::sync_dir`] of its directory. Neither implies the other.
//!
//! Invariants
//! * Nothing in this crate touches a disk except through this trait, so that the simulated disk sees every operation that
//!   the real one would.
//! * Every call says what happened: an error is passed on, never swallowed and never repeated here. In particular a failed
//!   sync is not repeated by anybody: the kernel may have marked the pages clean, and a second sync would succeed without
//!   having written them.
//!
//! Deliberately absent: file descriptors, paths (except in messages), buffering, O_DIRECT, memory maps, file times. The
//! idioms that need several calls in the right order are in [`durable`].

use std::io;

pub mod disk;
pub mod durable;
pub mod sim;

pub use disk::{DiskFile, DiskStorage};

/// A directory of the log, relative to the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dir {
    /// The data directory itself: the control file.
    Root,
    /// Segments, spares, what recovery cut.
    Wal,
    /// Snapshots.
    Snap,
    /// Tails that were given up after a failover.
    Diverged,
}

impl Dir {
    /// All of them, parents first.
    pub const ALL: [Dir; 4] = [Dir::Root, Dir::Wal, Dir::Snap, Dir::Diverged];

    /// The path below the data directory; empty for [`Dir::Root`].
    pub const fn path(self) -> &'static str {
        match self {
            Dir::Root => "",
            Dir::Wal => "wal",
            Dir::Snap => "snap",
            Dir::Diverged => "diverged",
        }
    }

    /// `wal/NAME`, or `NAME` in the data directory: how messages name a file when no full path is known.
    pub fn join(self, name: &str) -> String {
        match self {
            Dir::Root => name.to_owned(),
            Dir::Wal | Dir::Snap | Dir::Diverged => format!("{}/{name}", self.path()),
        }
    }
}

/// A disk with one data directory on it. Clones are handles to the same directory.
pub trait Storage: Clone + Send + Sync + 'static {
    /// An open file.
    type File: StorageFile;

    /// The names in `dir`, sorted (of files and directories alike); a missing directory is an empty list.
    fn list(&self, dir: Dir) -> io::Result<Vec<String>>;
    /// Whether `dir` has this name, whatever it stands for: also a link that leads nowhere.
    fn has_name(&self, dir: Dir, name: &str) -> io::Result<bool> {
        Ok(self.list(dir)?.iter().any(|found| found == name))
    }
    /// Opens an existing file for reading.
    fn open(&self, dir: Dir, name: &str) -> io::Result<Self::File>;
    /// Opens an existing file for reading and writing.
    fn open_write(&self, dir: Dir, name: &str) -> io::Result<Self::File>;
    /// Makes a new, empty file for reading and writing. What has that name goes: a file (whoever has it open, or under another
    /// name, keeps it), a link, an empty directory.
    fn create(&self, dir: Dir, name: &str) -> io::Result<Self::File>;
    /// Gives a file another name in the same directory; a file that has that name is replaced.
    fn rename(&self, dir: Dir, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name, be it that of a file, a link or an empty directory.
    fn remove(&self, dir: Dir, name: &str) -> io::Result<()>;
    /// Whether a name is that of a regular file which no other name leads to, so that writing into it changes nothing else.
    fn is_own(&self, dir: Dir, name: &str) -> io::Result<bool> {
        let _ = (dir, name);
        Ok(true)
    }
    /// What is under a name that [`Storage::remove`] could not remove, in words; nothing when it could, or when there is none.
    fn obstacle(&self, dir: Dir, name: &str) -> io::Result<Option<String>> {
        let _ = (dir, name);
        Ok(None)
    }
    /// Makes the names in `dir` durable. An error means that the process has to end.
    fn sync_dir(&self, dir: Dir) -> io::Result<()>;
    /// Makes the directory; fine when it is there. Its own name is durable after a sync of [`Dir::Root`].
    fn create_dir(&self, dir: Dir) -> io::Result<()>;
    /// Whether the open `file` is still what the data directory has under this name, with at least so many bytes. Somebody who
    /// removes, replaces or cuts files of a running server takes away what it has told.
    fn is_in_place(&self, dir: Dir, name: &str, file: &Self::File, bytes: u64) -> io::Result<bool> {
        let _ = (dir, name, file, bytes);
        Ok(true)
    }
    /// Bytes that an unprivileged process may still write where the log is.
    fn available_bytes(&self) -> io::Result<u64>;
    /// The file's path for messages. No other use.
    fn describe(&self, dir: Dir, name: &str) -> String;
}

/// An open file with positioned reads and writes. Closing it neither syncs nor reports anything.
pub trait StorageFile: Send + Sync + 'static {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// True when the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reads up to `buf.len()` bytes at `offset`; fewer is no error, 0 is the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes up to `buf.len()` bytes at `offset`, returns how many; fewer is no error.
    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize>;
    /// Makes the bytes and the length durable. An error means that the process has to end.
    fn sync_data(&self) -> io::Result<()>;
    /// As [`StorageFile::sync_data`], and the file's other metadata.
    fn sync_all(&self) -> io::Result<()>;
    /// Cuts the file, or makes it longer with zeros (a hole, not reserved space).
    fn set_len(&self, bytes: u64) -> io::Result<()>;
}
