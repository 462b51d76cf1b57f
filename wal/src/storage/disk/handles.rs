//! Descriptors of the directories, opened once.
//!
//! Everything is named relative to them: a data directory that is moved, or a link that is pointed elsewhere, while a server
//! runs takes the server along and never shows it somebody else's files. And a sync of a directory needs no new descriptor,
//! so that it cannot fail for want of one.
//!
//! The data directory's own is there from the beginning. One below it is opened when it is needed first, and again when
//! the directory was removed meanwhile, or when who uses it has seen another one in its place. Never so the log's: a server
//! whose log was taken away must not go on in another one.
//!
//! Deliberately absent: the path, except for messages, and what is done with a descriptor.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, openat};

use crate::storage::Dir;

/// Those of one data directory.
#[derive(Debug)]
pub(super) struct Handles {
    /// As it was given: for messages only.
    pub(super) path: PathBuf,
    pub(super) root: File,
    below: Mutex<[Option<Arc<File>>; 3]>,
}

impl Handles {
    pub(super) fn new(path: &Path, root: File) -> Handles {
        Handles {
            path: path.to_owned(),
            root,
            below: Mutex::default(),
        }
    }

    /// Does something with the descriptor of a directory, which is opened now if it has not been before. One that was
    /// removed meanwhile and made again is found again.
    pub(super) fn with<T>(&self, dir: Dir, call: impl Fn(&File) -> io::Result<T>) -> io::Result<T> {
        let Some(index) = index_of(dir) else {
            return call(&self.root);
        };
        let directory = self.below(dir, index)?;
        match call(&directory) {
            // Not so the log's own: a server whose log was taken away must not go on in another one.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && dir != Dir::Wal && is_removed(&directory) =>
            {
                self.forget(index, &directory);
                call(&*self.below(dir, index)?)
            }
            other => other,
        }
    }

    /// Opens it by its name again when it is needed next.
    pub(super) fn forget_directory(&self, dir: Dir) {
        if let Some(index) = index_of(dir) {
            let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
            below[index] = None;
        }
    }

    fn forget(&self, index: usize, removed: &Arc<File>) {
        let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        below[index].take_if(|known| Arc::ptr_eq(known, removed));
    }

    fn below(&self, dir: Dir, index: usize) -> io::Result<Arc<File>> {
        // Held for a moment only: calls that wait for the disk are made on a handle of their own.
        let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &below[index] {
            return Ok(Arc::clone(known));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(&self.root, dir.path(), flags, Mode::empty())?;
        let file = Arc::new(File::from(opened));
        below[index] = Some(Arc::clone(&file));
        Ok(file)
    }
}

/// The place in [`Handles::below`]; none for the data directory itself.
const fn index_of(dir: Dir) -> Option<usize> {
    match dir {
        Dir::Root => None,
        Dir::Wal => Some(0),
        Dir::Snap => Some(1),
        Dir::Diverged => Some(2),
    }
}

/// Whether no name leads to a directory any more.
fn is_removed(directory: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    directory.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
}
