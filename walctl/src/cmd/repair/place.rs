//! Where a backup may be made, and which file system that is.
//!
//! It must not be taken for a part of a log, of this one or another, nor stand under a name that the server or `walctl` gives
//! to something else. Paths are compared without links, also where they lead to what is not there yet.
//!
//! Deliberately absent: making anything. Whether the directory is there, and empty, is seen when it is made.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use idem_wal::control::{CONTROL_NAME, CONTROL_SPARE, CONTROL_TEMPORARY};
use idem_wal::recovery::{REPAIR_MARK, RESTORE_MARK};
use idem_wal::storage::Dir;

use super::backup::MARK_TEMPORARY;
use super::execute::{self, MANIFEST};
use super::undo;
use crate::claimed;
use crate::exit::Failure;
use crate::store;

/// The directory in which a backup would be made: of it, one can ask which file system it is.
pub(super) fn nearest(data: &Path, asked: Option<&Path>) -> PathBuf {
    let asked = asked.unwrap_or(data);
    let mut existing = asked.ancestors().filter(|path| !path.as_os_str().is_empty());
    existing
        .find(|path| path.is_dir())
        .unwrap_or(Path::new("."))
        .to_owned()
}

/// Whether both lie on one file system. `wal` and `snap` may be mounts of their own.
pub(super) fn renames(data: &Path, dir: Dir, backup: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
    let here = device(&data.join(dir.path()));
    here.is_some() && here == device(backup)
}

/// Refuses a place for the backup in which it would be taken for a part of the log, or be in the way of one.
pub(super) fn check_place(data: &Path, asked: &Path) -> Result<(), Failure> {
    let no = |why: String| Failure::usage(format!("--backup {}: {why}", asked.display()));
    let data = fs::canonicalize(data).map_err(Failure::io(data.display()))?;
    let place = resolved(asked).map_err(|error| no(error.to_string()))?;
    if place == data {
        return Err(no("it is the data directory itself".to_owned()));
    }
    if !place.starts_with(&data) {
        // The backup of the same command before looks like a directory of a log, and is none.
        let is_backup = [execute::UNBEGUN, MANIFEST]
            .iter()
            .any(|name| place.join(name).is_file());
        let free = if is_backup {
            place.parent().unwrap_or(&place)
        } else {
            &place
        };
        claimed::refuse(free, "a backup")?;
    }
    for dir in [Dir::Wal, Dir::Snap, Dir::Diverged] {
        let below = data.join(dir.path());
        // It may be a link to another disk.
        let real = fs::canonicalize(&below).unwrap_or_else(|_| below.clone());
        if place.starts_with(&real) || place.starts_with(&below) {
            return Err(no(format!("it is in {}, which is the server's", dir.path())));
        }
    }
    let first = place
        .strip_prefix(&data)
        .ok()
        .and_then(|below| below.iter().next());
    match first.and_then(|name| name.to_str()).filter(|name| is_taken(name)) {
        Some(name) => Err(no(format!(
            "{name} in a data directory is a name that the server or walctl uses"
        ))),
        None => Ok(()),
    }
}

/// Whether a file of this name in a data directory means something.
fn is_taken(name: &str) -> bool {
    [
        CONTROL_NAME,
        CONTROL_TEMPORARY,
        CONTROL_SPARE,
        MARK_TEMPORARY,
        undo::UNDO_TEMPORARY,
        store::CONTROL_NAME,
        store::MANIFEST_NAME,
        RESTORE_MARK,
        REPAIR_MARK,
    ]
    .contains(&name)
}

/// The path without links, also of what is not there yet.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let existing = path
        .ancestors()
        .find_map(|at| Some((at, fs::canonicalize(at).ok()?)));
    let Some((at, real)) = existing else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let rest = path.strip_prefix(at).unwrap_or(Path::new(""));
    if rest
        .components()
        .any(|step| !matches!(step, Component::Normal(_)))
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it goes back (..) from a directory that is not there",
        ));
    }
    // An empty rest would add a slash.
    Ok(if rest.as_os_str().is_empty() {
        real
    } else {
        real.join(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_the_logs_is_none_for_a_backup() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        fs::create_dir_all(data.join("wal")).unwrap();
        fs::create_dir(directory.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", data.join("snap")).unwrap();
        std::os::unix::fs::symlink("data", directory.path().join("link")).unwrap();
        for (asked, is_good) in [
            ("data", false),
            ("data/", false),
            ("link", false),
            ("data/wal", false),
            ("data/wal/x", false),
            ("data/wal/x/y", false),
            ("link/wal/x", false),
            ("data/old/../wal/x", false),
            ("data/snap", false),
            ("data/snap/x", false),
            ("elsewhere/x", false),
            ("data/diverged", false),
            ("data/control", false),
            ("data/control.tmp", false),
            ("data/control.spare/x", false),
            ("data/control.undo", false),
            ("data/control.archived", false),
            ("data/manifest.json", false),
            ("data/repair.incomplete", false),
            ("data/restore.incomplete", false),
            ("data/backup", true),
            ("data/backups/first", true),
            ("data/walrus", true),
            ("elsewhere/../new", true),
            ("new/x", true),
        ] {
            let answer = check_place(&data, &directory.path().join(asked));
            assert_eq!(answer.is_ok(), is_good, "{asked}: {answer:?}");
        }
    }
}
