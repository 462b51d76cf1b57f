//! Directories that belong to a log: a data directory, or a history in a store. What a command writes for somebody (an export,
//! a new data directory, a store, the backup of a repair) is never put into one, whichever log the command was asked about:
//! a file of the same name would be replaced, and a strange one would stand in the way of a server.
//!
//! Told by what is there, not by whether it is good: a damaged directory is one all the same.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use idem_protocol::control;
use idem_protocol::wal::parse_segment_name;
use idem_wal::control::CONTROL_NAME;
use idem_wal::storage::Dir;

use crate::exit::Failure;
use crate::store;

/// Refuses `path`, which need not be there, when it is such a directory or lies in one. `what` would be put there.
pub(crate) fn refuse(path: &Path, what: &str) -> Result<(), Failure> {
    let Some(holder) = holder(path) else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "{}: {} has a log in it; {what} belongs elsewhere",
        path.display(),
        holder.display()
    )))
}

/// As [`refuse`], and also for a store itself.
pub(crate) fn refuse_store(path: &Path, what: &str) -> Result<(), Failure> {
    refuse(path, what)?;
    // What cannot be read as a store is none that could be spoiled; a manifest that is damaged makes one all the same.
    let is_store =
        store::histories(path).map_or_else(|_| has_history(path), |histories| !histories.is_empty());
    if is_store {
        return Err(Failure::usage(format!(
            "{}: this is a store of archived logs; {what} belongs elsewhere",
            path.display()
        )));
    }
    Ok(())
}

fn has_history(store: &Path) -> bool {
    let entries = fs::read_dir(store).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| path.join(store::MANIFEST_NAME).exists() && holds_log(&path))
}

/// The directory with the log: `path`, or one above it.
fn holder(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().find_map(|part| {
        let part = if part.as_os_str().is_empty() {
            Path::new(".")
        } else {
            part
        };
        fs::canonicalize(part).ok()
    })?;
    let mut above = there.ancestors();
    above.find(|part| holds_log(part)).map(Path::to_owned)
}

fn holds_log(path: &Path) -> bool {
    let is_control = |name: &str| begins_like_control(&path.join(name));
    if is_control(CONTROL_NAME) || is_control(store::CONTROL_NAME) {
        return true;
    }
    let wal = path.join(Dir::Wal.path());
    if !wal.is_dir() {
        return false;
    }
    let beside = [
        CONTROL_NAME,
        store::CONTROL_NAME,
        store::MANIFEST_NAME,
        Dir::Snap.path(),
    ];
    beside.iter().any(|name| path.join(name).exists()) || {
        let names = fs::read_dir(wal).into_iter().flatten().flatten();
        let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
        names.any(|name| parse_segment_name(&name).is_some())
    }
}

/// Whether it is a regular file with the first bytes of a control file.
fn begins_like_control(path: &Path) -> bool {
    // Nobody waits for a FIFO.
    if !path.is_file() {
        return false;
    }
    let mut begin = [0; control::MAGIC.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == control::MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_a_log_is_told_by_what_is_in_it() {
        for (files, expected) in [
            (&[][..], false),
            (&["wal/x"], false),
            (&["control"], false),
            (&["manifest.json"], false),
            (&["snap/x", "notes"], false),
            (&["wal/00000000000000000000.wal"], true),
            (&["wal/x", "snap/x"], true),
            (&["wal/x", "control"], true),
            (&["wal/x", "control.archived"], true),
            (&["wal/x", "manifest.json"], true),
        ] {
            let directory = tempfile::tempdir().unwrap();
            for file in files {
                let path = directory.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, b"some bytes").unwrap();
            }
            assert_eq!(holds_log(directory.path()), expected, "{files:?}");
            for below in ["new", "wal/new", "a/b/new"] {
                let found = refuse(&directory.path().join(below), "it");
                assert_eq!(found.is_err(), expected, "{files:?} {below}");
            }
        }
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("control"), control::MAGIC).unwrap();
        assert!(holds_log(directory.path()));
    }
}
