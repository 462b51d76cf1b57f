//! A repair that was begun and did not come to its end: finding it, and what is left to do.
//!
//! The mark in the data directory names the backup, and the backup has the plan: its changes in their order, with the bytes
//! that they lead to. Made again from the first on, they lead to the end whatever had been made of them. So nothing has to be
//! told from the state in between, which may look like another node's log.
//!
//! The mark is there as a whole or not at all, before anything else changes. So one that names no backup is somebody else's
//! doing, and says nothing about what was changed.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use idem_protocol::control::Control;
use idem_protocol::wal::{SegmentHeader, parse_segment_name, parse_snapshot_name};
use idem_wal::control::{CONTROL_BYTES_MAX, CONTROL_NAME};
use idem_wal::recovery::REPAIR_MARK;
use idem_wal::storage::durable::{read_all, read_exact_or_end};
use idem_wal::storage::{Dir, Storage, StorageFile};

use super::execute::{CONTROL_AFTER, MANIFEST, header_after};
use super::lines::{ChangeLine, Recorded};
use super::plan::{Change, Kind};
use crate::exit::Failure;

/// The most bytes that a mark is read with: it has one path.
const MARK_BYTES_MAX: u64 = 64 << 10;
/// The same for the description of a backup: a line of some hundred bytes for each change.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// A repair that can be gone on with.
#[derive(Debug)]
pub(super) struct Unfinished {
    /// Its backup.
    pub(super) backup: PathBuf,
    pub(super) kind: Kind,
    /// All of its changes, the ones that were made too.
    pub(super) changes: Vec<Change>,
}

/// What the mark leads to.
#[derive(Debug)]
pub(super) enum Earlier {
    /// There is none.
    None,
    /// Files may have been changed, and it does not say where the backup is; in words why.
    Unclear(String),
    /// It names this backup.
    Begun(PathBuf),
}

/// What the mark in the directory says.
pub(super) fn mark(backup: &Path) -> Vec<u8> {
    let mut bytes = backup.as_os_str().as_bytes().to_vec();
    bytes.push(b'\n');
    bytes
}

/// Looks for the mark. `dir` is the path of `storage`.
pub(super) fn earlier<S: Storage>(storage: &S, dir: &Path) -> Result<Earlier, Failure> {
    // On a full disk it is a link.
    if let Ok(path) = std::fs::read_link(dir.join(REPAIR_MARK)) {
        return Ok(Earlier::Begun(dir.join(path)));
    }
    let read = storage
        .open(Dir::Root, REPAIR_MARK)
        .and_then(|file| read_all(&file, MARK_BYTES_MAX));
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            return Ok(Earlier::Unclear(error.to_string()));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Earlier::None),
        Err(error) => return Err(Failure::io(storage.describe(Dir::Root, REPAIR_MARK))(error)),
    };
    Ok(match bytes.strip_suffix(b"\n") {
        // A name alone is that of a directory beside it.
        Some(path) if !path.is_empty() => Earlier::Begun(dir.join(OsStr::from_bytes(path))),
        _ => Earlier::Unclear("it is empty, or not whole".to_owned()),
    })
}

/// The plan that a backup is of; an error in words.
pub(super) fn recorded<B: Storage>(store: &B) -> Result<(Kind, Vec<Change>), String> {
    let read_up_to = |dir, name: &str, bytes_max| {
        let bytes = store.open(dir, name).and_then(|file| read_all(&file, bytes_max));
        bytes.map_err(|error| format!("{}: {error}", dir.join(name)))
    };
    let read = |dir, name: &str| read_up_to(dir, name, CONTROL_BYTES_MAX);
    let Recorded { plan, changes } =
        serde_json::from_slice(&read_up_to(Dir::Root, MANIFEST, MANIFEST_BYTES_MAX)?)
            .map_err(|error| format!("{MANIFEST}: {error}"))?;
    let kind = Kind::from_str(&plan, false)?;
    let change = |line: &ChangeLine| -> Result<Change, String> {
        let bad = || format!("{MANIFEST}: no change: {} {}", line.change, line.file);
        if line.change == "replace" && line.file == CONTROL_NAME {
            let control = Control::decode(&read(Dir::Root, CONTROL_AFTER)?);
            return Ok(Change::Control {
                control: Box::new(control.map_err(|error| format!("{CONTROL_AFTER}: {error}"))?),
                old_bytes: None,
            });
        }
        let (dir, name) = place(&line.file).ok_or_else(bad)?;
        Ok(match (line.change.as_str(), dir) {
            ("move", _) => Change::Move {
                dir,
                name,
                bytes: line.bytes,
            },
            ("header", Dir::Wal) => {
                let after = header_after(&name);
                let header = SegmentHeader::decode(&read(Dir::Wal, &after)?);
                Change::Header {
                    header: header.map_err(|error| format!("{after}: {error}"))?,
                    name,
                }
            }
            ("zero", Dir::Wal) => Change::Cut {
                name,
                offset: line.offset.ok_or_else(bad)?,
                bytes: line.bytes,
                data_bytes: line.data_bytes.unwrap_or(line.bytes),
            },
            _ => return Err(bad()),
        })
    };
    let changes = changes.iter().map(change).collect::<Result<_, _>>()?;
    Ok((kind, changes))
}

/// A segment or a snapshot.
fn place(file: &str) -> Option<(Dir, String)> {
    let (dir, name) = file.split_once('/')?;
    match dir {
        "wal" => parse_segment_name(name).map(|_| (Dir::Wal, name.to_owned())),
        "snap" => parse_snapshot_name(name).map(|_| (Dir::Snap, name.to_owned())),
        _ => None,
    }
}

/// Whether the control file is still what the repair found, or what it leads to: whatever has another one has gone on.
pub(super) fn is_untouched<S: Storage, B: Storage>(storage: &S, store: &B) -> io::Result<bool> {
    // Of any length: what was damaged may be so in its length, too.
    let now = match storage.open(Dir::Root, CONTROL_NAME) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        now => now?,
    };
    for name in [CONTROL_NAME, CONTROL_AFTER] {
        let known = match store.open(Dir::Root, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            known => known?,
        };
        if is_same(&now, &known)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether two files hold the same bytes.
fn is_same(a: &impl StorageFile, b: &impl StorageFile) -> io::Result<bool> {
    if a.len()? != b.len()? {
        return Ok(false);
    }
    let (mut left, mut right) = ([0; 16 << 10], [0; 16 << 10]);
    let mut at = 0;
    loop {
        let read = read_exact_or_end(a, at, &mut left)?;
        if read_exact_or_end(b, at, &mut right)? != read || left[..read] != right[..read] {
            return Ok(false);
        }
        if read < left.len() {
            return Ok(true);
        }
        at += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_wal::storage::sim::SimDisk;

    #[test]
    fn a_mark_names_a_backup_once_it_is_whole() {
        let dir = Path::new("/data");
        for (bytes, expected) in [
            (None, "None"),
            (Some(&b""[..]), "Unclear(\"it is empty, or not whole\")"),
            (Some(b"\n"), "Unclear(\"it is empty, or not whole\")"),
            (Some(b"/back"), "Unclear(\"it is empty, or not whole\")"),
            (Some(b"/backup\n"), "Begun(\"/backup\")"),
            (Some(b"backup-1\n"), "Begun(\"/data/backup-1\")"),
        ] {
            let disk = SimDisk::new();
            if let Some(bytes) = bytes {
                disk.put(Dir::Root, REPAIR_MARK, bytes);
            }
            let found = earlier(&disk.storage(), dir).unwrap();
            assert_eq!(format!("{found:?}"), expected, "{bytes:?}");
        }
    }

    #[test]
    fn what_a_backup_does_not_say_whole_is_not_done() {
        for (manifest, words) in [
            ("", "EOF"),
            ("{\"plan\":\"mend\",\"changes\":[]}", "mend"),
            (
                "{\"plan\":\"control\",\"changes\":[{\"change\":\"move\",\"file\":\"../x\",\"bytes\":1}]}",
                "no change",
            ),
            (
                "{\"plan\":\"control\",\"changes\":[{\"change\":\"zero\",\"file\":\"wal/00000000000000000000.wal\",\"bytes\":1}]}",
                "no change",
            ),
            (
                "{\"plan\":\"control\",\"changes\":[{\"change\":\"replace\",\"file\":\"control\",\"bytes\":1}]}",
                "control.after",
            ),
        ] {
            let disk = SimDisk::new();
            disk.put(Dir::Root, MANIFEST, manifest.as_bytes());
            let error = recorded(&disk.storage()).unwrap_err();
            assert!(error.contains(words), "{manifest}: {error}");
        }
    }
}
