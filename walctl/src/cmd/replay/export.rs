//! All live records in a file, one JSON object a line.
//!
//! The file appears under its name whole and synced, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::entry::Entry;
use crate::claimed;
use crate::exit::Failure;
use crate::lone_file::{self, Kind};
use crate::progress::Meter;
use crate::state::State;

const BUFFER_BYTES: usize = 1 << 16;

/// Says before the work what would be in the way after it.
pub(super) fn check(path: &Path, replace: bool, source: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let parent = fs::canonicalize(parent).map_err(Failure::io(path.display()))?;
    let source = fs::canonicalize(source).map_err(Failure::io(source.display()))?;
    if parent.starts_with(&source) {
        return Err(Failure::usage(format!(
            "{} is in the data directory; an export belongs elsewhere",
            path.display()
        )));
    }
    claimed::refuse_store(&parent, "an export")?;
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            Err(Failure::usage(format!("{} is not a file", path.display())))
        }
        // A copy of a file of a log, wherever it was put.
        Ok(_) if replace && is_of_log(path) => Err(Failure::usage(format!(
            "{} is a file of a log, and is not replaced",
            path.display()
        ))),
        Ok(_) if !replace => Err(Failure::usage(format!(
            "{} exists; --yes replaces it",
            path.display()
        ))),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::io(path.display())(error)),
    }
}

/// Whether the file was written as a part of a log. One that cannot be read is not asked.
fn is_of_log(path: &Path) -> bool {
    let file = lone_file::open(path, &Arc::new(Meter::new(false)));
    file.is_ok_and(|file| file.kind != Kind::Other)
}

/// Writes the file by way of a temporary one beside it.
pub(super) fn write(state: &State, path: &Path) -> Result<(), Failure> {
    let temporary = temporary(path)?;
    let written = fill(state, &temporary).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // Half an export on a full disk would only be in the way.
        let _ = fs::remove_file(&temporary);
        return Err(Failure::io(path.display())(error));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(Failure::io(parent.display()))
}

/// `NAME.PID.tmp`: two exports to one name do not write into each other's file.
fn temporary(path: &Path) -> Result<PathBuf, Failure> {
    let name = path.file_name();
    let name = name.ok_or_else(|| Failure::usage(format!("{} is not the name of a file", path.display())))?;
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

fn fill(state: &State, path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
    for (db, entry) in state.live() {
        serde_json::to_writer(&mut out, &Entry::new(db, &entry, true))?;
        out.write_all(b"\n")?;
    }
    out.into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()
}
