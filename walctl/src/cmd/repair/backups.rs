//! The backups that are there already: what is left of those whose repair stopped before it changed anything, and those that
//! are whole.
//!
//! A directory is one of the first only when it says so itself and holds nothing but what a backup may hold; whatever else
//! lies in the same place is somebody's, and stays. It is emptied so that what says what it is goes last: a removal that is
//! interrupted is begun anew the next time.
//!
//! Deliberately absent: removing a whole backup. That is the operator's to do.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use idem_wal::control::{CONTROL_NAME, CONTROL_SPARE, CONTROL_TEMPORARY};
use idem_wal::storage::Dir;

use super::backup::{MARK_PART, PREFIX};
use super::execute::{self, MANIFEST, MARK_COPY, UNDO};
use crate::exit::Failure;

/// Removes what is left of backups whose repair stopped before it changed anything: in the place that was asked for, or
/// beside the log. Whatever else lies there is somebody's. Answers what was removed.
pub(super) fn sweep(data: &Path, asked: Option<&Path>) -> Result<Vec<PathBuf>, Failure> {
    let places = match asked {
        Some(asked) => vec![asked.to_owned()],
        None => {
            let entries = fs::read_dir(data).map_err(Failure::io(data.display()))?;
            let named = entries
                .flatten()
                .filter(|entry| entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()));
            named.map(|entry| entry.path()).collect()
        }
    };
    let mut swept = Vec::new();
    for place in places {
        let left = is_unbegun(&place).and_then(|left| {
            if left {
                empty(&place, asked.is_none())?;
            }
            Ok(left)
        });
        if left.map_err(Failure::io(place.display()))? {
            swept.push(place);
        }
    }
    Ok(swept)
}

/// What a backup has beside the directories. What says that nothing was changed comes first.
const FILES: [&str; 9] = [
    execute::UNBEGUN,
    MARK_PART,
    MARK_COPY,
    MANIFEST,
    UNDO,
    execute::CONTROL_AFTER,
    CONTROL_NAME,
    CONTROL_TEMPORARY,
    CONTROL_SPARE,
];

/// Whether a directory holds the beginning of a backup, and nothing else.
fn is_unbegun(place: &Path) -> io::Result<bool> {
    if !place.join(execute::UNBEGUN).is_file() {
        return Ok(false);
    }
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() && [Dir::Wal, Dir::Snap].iter().any(|dir| name == dir.path()) {
            for below in fs::read_dir(entry.path())? {
                // Copies of segments and snapshots, or of parts of them.
                let name = below?.file_name();
                if name != execute::PART && !name.as_bytes().first().is_some_and(u8::is_ascii_digit) {
                    return Ok(false);
                }
            }
        } else if !FILES.iter().any(|ours| name == *ours) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes what is in it, what says what it is last; and itself.
fn empty(place: &Path, with_itself: bool) -> io::Result<()> {
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    };
    for dir in [Dir::Wal, Dir::Snap] {
        gone(fs::remove_dir_all(place.join(dir.path())))?;
    }
    for name in FILES.iter().rev() {
        gone(fs::remove_file(place.join(name)))?;
    }
    if with_itself {
        fs::remove_dir(place)?;
    }
    Ok(())
}

/// The backups in a data directory that are whole, in the order of their names. Some may be of earlier repairs.
pub(super) fn all_in(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()))
        .map(|entry| entry.path())
        .filter(|path| {
            [UNDO, MANIFEST, MARK_COPY]
                .iter()
                .all(|name| path.join(name).is_file())
        })
        .filter(|path| !path.join(execute::UNBEGUN).exists())
        .collect();
    found.sort();
    found
}
