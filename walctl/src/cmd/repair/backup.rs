//! The backup on the real disk: a directory with what was changed, and the script that gives it back.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use idem_protocol::UnixMs;
use idem_wal::control::{CONTROL_NAME, CONTROL_SPARE};
use idem_wal::segment::SPARE_PREFIX;
use idem_wal::storage::{Dir, DiskStorage};
use jiff::Timestamp;

use super::execute::{CONTROL_AFTER, UNDO, UNFINISHED, Vault, copy_name};
use super::plan::Change;
use crate::exit::Failure;

/// What the names of backups in a data directory begin with.
const PREFIX: &str = "backup-";

/// The backup of one repair.
#[derive(Debug)]
pub(super) struct Backup {
    /// The data directory.
    data: PathBuf,
    path: PathBuf,
    store: DiskStorage,
    /// The user's own empty directory stays when there is nothing to keep.
    was_there: bool,
}

/// `backup-20260131T120000Z`, in UTC.
fn name(now: UnixMs) -> String {
    let stamp = i64::try_from(now.get())
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    match stamp {
        Some(stamp) => format!("{PREFIX}{}", stamp.strftime("%Y%m%dT%H%M%SZ")),
        None => format!("{PREFIX}{now}"),
    }
}

impl Backup {
    /// A new directory: the one that was asked for, or one in the data directory.
    pub(super) fn create(data: &Path, asked: Option<&Path>, now: UnixMs) -> Result<Backup, Failure> {
        let (path, was_there) = match asked {
            Some(path) => {
                let mut entries = match fs::read_dir(path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                    other => Some(other.map_err(Failure::io(path.display()))?),
                };
                if entries.as_mut().is_some_and(|entries| entries.next().is_some()) {
                    return Err(Failure::usage(format!(
                        "--backup {}: the directory is not empty",
                        path.display()
                    )));
                }
                (path.to_owned(), entries.is_some())
            }
            None => {
                let first = name(now);
                let more = (2..).map(|number| format!("{first}-{number}"));
                let mut names = std::iter::once(first.clone()).chain(more);
                let free = names.find(|name| !data.join(name).exists());
                (data.join(free.expect("there are more numbers than files")), false)
            }
        };
        let store = DiskStorage::create(&path).map_err(Failure::io(path.display()))?;
        let absolute = fs::canonicalize(data).map_err(Failure::io(data.display()))?;
        Ok(Backup {
            data: absolute,
            path,
            store,
            was_there,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it: nothing was changed, so there is nothing to keep. Whatever is in it was made by this process.
    pub(super) fn discard(self) {
        let removed = fs::remove_dir_all(&self.path);
        if self.was_there && removed.is_ok() {
            let _ = fs::create_dir(&self.path);
        }
    }

    /// A shell script that gives everything back, whether all of the changes were made or some.
    pub(super) fn undo(&self, changes: &[Change]) -> Vec<u8> {
        let mut script = Vec::new();
        let mut line = |parts: &[&[u8]]| {
            parts.iter().for_each(|part| script.extend_from_slice(part));
            script.push(b'\n');
        };
        line(&[b"#!/bin/sh"]);
        line(&[b"# Gives a data directory back what walctl repair changed, as long as no server has started on it since."]);
        line(&[b"set -eu"]);
        line(&[b"B=$(cd \"$(dirname \"$0\")\" && pwd)"]);
        line(&[b"D=", &quoted(self.data.as_os_str().as_bytes())]);
        if self
            .path
            .parent()
            .and_then(|parent| fs::canonicalize(parent).ok())
            .as_deref()
            == Some(&self.data)
        {
            line(&[b"D=$(dirname \"$B\")"]);
        }
        line(&[b"exec 9<\"$D\""]);
        line(&[b"if command -v flock >/dev/null && ! flock -n 9; then echo \"undo: $D is in use\" >&2; exit 1; fi"]);
        let control = |text: &str| {
            text.replace("CONTROL", CONTROL_NAME)
                .replace("AFTER", CONTROL_AFTER)
        };
        line(&[control(
            "if [ -e \"$D/CONTROL\" ] && ! cmp -s \"$D/CONTROL\" \"$B/AFTER\" && ! cmp -s \"$D/CONTROL\" \"$B/CONTROL\"; then",
        )
        .as_bytes()]);
        line(&[b"  echo \"undo: a server has started on $D since\" >&2; exit 1"]);
        line(&[b"fi"]);
        for change in changes.iter().rev() {
            let copied = copy_name(change).unwrap_or_default();
            match change {
                Change::Control { .. } => {
                    let text = "if [ -e \"$B/CONTROL\" ]; then cp -p \"$B/CONTROL\" \"$D/control.undo\" && mv \"$D/control.undo\" \
                                \"$D/CONTROL\"; else rm -f \"$D/CONTROL\"; fi";
                    line(&[control(text).as_bytes()]);
                }
                // Names of segments and snapshots are digits and a dot: they need no quoting.
                Change::Move { dir, name, .. } => {
                    let place = dir.join(name);
                    let text = format!("if [ -e \"$B/{place}\" ]; then mv \"$B/{place}\" \"$D/{place}\"; fi");
                    line(&[text.as_bytes()]);
                }
                Change::Header { name, .. } => line(&[overwrite(&copied, name, 0).as_bytes()]),
                Change::Cut { name, offset, .. } => line(&[overwrite(&copied, name, *offset).as_bytes()]),
            }
        }
        line(&[control(
            "if [ -e \"$D/CONTROL\" ]; then chown --reference=\"$D\" \"$D/CONTROL\" || true; fi",
        )
        .as_bytes()]);
        line(&[format!("rm -f \"$B/{UNFINISHED}\"").as_bytes()]);
        line(&[b"sync"]);
        script
    }
}

fn overwrite(copied: &str, name: &str, offset: u64) -> String {
    format!(
        "dd if=\"$B/wal/{copied}\" of=\"$D/wal/{name}\" bs=1M seek={offset} oflag=seek_bytes conv=notrunc,fsync \
         status=none"
    )
}

/// A word of a shell, whatever is in it.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut word = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => word.extend_from_slice(b"'\\''"),
            byte => word.push(*byte),
        }
    }
    word.push(b'\'');
    word
}

impl Vault for Backup {
    type Store = DiskStorage;

    fn store(&self) -> &DiskStorage {
        &self.store
    }

    fn renames(&self, dir: Dir) -> bool {
        renames(&self.data, dir, &self.path)
    }

    fn adopt(&self, dir: Dir, name: &str) -> io::Result<()> {
        let place = Path::new(dir.path()).join(name);
        fs::rename(self.data.join(&place), self.path.join(&place))
    }
}

/// Gives the new control file to whom the directory belongs: a repair by root must not keep the server out. What the server
/// cannot read it will say, so that failing to do this is no failure of the repair.
pub(super) fn give_to_owner(data: &Path) {
    let Ok(owner) = fs::metadata(data) else { return };
    for name in [CONTROL_NAME, CONTROL_SPARE] {
        let path = data.join(name);
        let is_other = |found: &fs::Metadata| (found.uid(), found.gid()) != (owner.uid(), owner.gid());
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && is_other(&found)) {
            let _ = chown(&path, Some(owner.uid()), Some(owner.gid()));
        }
    }
}

/// What the spares of the log take up: no start uses those of an earlier one.
pub(super) fn spare_bytes(data: &Path) -> u64 {
    let entries = fs::read_dir(data.join(Dir::Wal.path()))
        .into_iter()
        .flatten()
        .flatten();
    let spares = entries.filter(|entry| entry.file_name().as_bytes().starts_with(SPARE_PREFIX.as_bytes()));
    spares
        .filter_map(|entry| Some(entry.metadata().ok()?.blocks() * 512))
        .sum()
}

/// Whether both lie on one file system. `wal` and `snap` may be mounts of their own.
pub(super) fn renames(data: &Path, dir: Dir, backup: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
    let here = device(&data.join(dir.path()));
    here.is_some() && here == device(backup)
}

/// The directory in which a backup would be made: of it, one can ask which file system it is.
pub(super) fn nearest(data: &Path, asked: Option<&Path>) -> PathBuf {
    let asked = asked.unwrap_or(data);
    let mut existing = asked.ancestors().filter(|path| !path.as_os_str().is_empty());
    existing
        .find(|path| path.is_dir())
        .unwrap_or(Path::new("."))
        .to_owned()
}

/// The scripts of repairs in this directory that did not come to their end.
pub(super) fn unfinished(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data).into_iter().flatten().flatten();
    let backups = entries.filter(|entry| entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()));
    let mut scripts: Vec<PathBuf> = backups
        .map(|entry| entry.path())
        .filter(|path| path.join(UNFINISHED).exists())
        .map(|path| path.join(UNDO))
        // Without the script it stopped before it changed anything.
        .filter(|script| script.exists())
        .collect();
    scripts.sort();
    scripts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_named_after_its_time_and_never_twice() {
        let directory = tempfile::tempdir().unwrap();
        let now = UnixMs::new(1_767_225_600_007);
        for expected in ["", "-2", "-3"] {
            let backup = Backup::create(directory.path(), None, now).unwrap();
            let path = directory
                .path()
                .join(format!("backup-20260101T000000Z{expected}"));
            assert_eq!(backup.path(), path);
        }
    }

    #[test]
    fn a_directory_of_the_users_has_to_be_empty_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let asked = directory.path().join("asked");
        let create = || Backup::create(directory.path(), Some(&asked), UnixMs::ZERO);
        create().unwrap().discard();
        assert!(!asked.exists());
        fs::create_dir(&asked).unwrap();
        let backup = create().unwrap();
        fs::write(asked.join("copy"), b"").unwrap();
        assert!(create().is_err(), "not empty");
        backup.discard();
        assert_eq!(fs::read_dir(&asked).unwrap().count(), 0);
    }

    #[test]
    fn words_of_a_shell_are_quoted() {
        for (bytes, expected) in [
            (&b"plain"[..], &b"'plain'"[..]),
            (b"a b$(c)", b"'a b$(c)'"),
            (b"it's", b"'it'\\''s'"),
        ] {
            assert_eq!(quoted(bytes), expected);
        }
    }
}
