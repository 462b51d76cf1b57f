//! The backup on the real disk: a directory with what was changed, and the script that gives it back ([`undo`]).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use idem_protocol::UnixMs;
use idem_wal::control::{CONTROL_SPARE, CONTROL_TEMPORARY};
use idem_wal::recovery::REPAIR_MARK;
use idem_wal::storage::{Dir, DiskStorage};
use jiff::Timestamp;

use super::execute::{self, MARK_COPY, Trouble, Vault};
use super::plan::Change;
use super::{place, resume, undo};
use crate::exit::Failure;

/// What the names of backups in a data directory begin with.
pub(super) const PREFIX: &str = "backup-";

/// The mark before it gets its name, in the backup.
pub(super) const MARK_PART: &str = "mark.part";
/// The same in the data directory, where a backup on another file system takes the place of one that is lost.
pub(super) const MARK_TEMPORARY: &str = "repair.incomplete.new";

/// The backup of one repair.
#[derive(Debug)]
pub(super) struct Backup {
    /// The data directory.
    data: PathBuf,
    path: PathBuf,
    /// It, as a place for files.
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
                    let what = if path.join(execute::MANIFEST).exists() {
                        "it has the backup of an earlier repair, which is kept; name another directory"
                    } else {
                        "the directory is not empty"
                    };
                    return Err(Failure::usage(format!("--backup {}: {what}", path.display())));
                }
                (path.to_owned(), entries.is_some())
            }
            None => {
                let first = name(now);
                let more = (2..).map(|number| format!("{first}-{number}"));
                let mut names = std::iter::once(first.clone()).chain(more);
                let free = names.find(|name| fs::symlink_metadata(data.join(name)).is_err());
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

    /// The one that the mark of an unfinished repair names.
    pub(super) fn reopen(data: &Path, path: PathBuf) -> Result<Backup, Failure> {
        let store = DiskStorage::open(&path).map_err(Failure::io(path.display()))?;
        Ok(Backup {
            data: fs::canonicalize(data).map_err(Failure::io(data.display()))?,
            path,
            store,
            was_there: true,
        })
    }

    /// Its path from the data directory on, when it lies there and moves along with it.
    fn inside(&self) -> Option<PathBuf> {
        let path = fs::canonicalize(&self.path).ok()?;
        let below = path.strip_prefix(&self.data).ok()?;
        (!below.as_os_str().is_empty()).then(|| below.to_owned())
    }

    /// Whether `asked` is this directory.
    pub(super) fn is_at(&self, asked: &Path) -> bool {
        let real = |path: &Path| fs::canonicalize(path).ok();
        real(asked).is_some_and(|asked| Some(asked) == real(&self.path))
    }

    /// A shell script that gives everything back, whether all of the changes were made or some.
    pub(super) fn undo(&self, changes: &[Change]) -> Result<Vec<u8>, Failure> {
        let levels = self.inside().map(|below| below.components().count());
        undo::script(&self.data, levels, changes)
            .map_err(Failure::io("what stands where something is to be changed"))
    }

    /// Says in the directory that a repair was begun. Before it returns nothing else has changed.
    ///
    /// The mark is the backup's own copy under a second name: it is there as a whole or not at all, leaves no temporary
    /// behind, and a full disk has room for it. From another file system it is a link that leads to the backup.
    pub(super) fn set_mark(&self) -> io::Result<()> {
        let mark = self.data.join(REPAIR_MARK);
        let part = self.path.join(MARK_PART);
        let named = fs::hard_link(self.path.join(MARK_COPY), &part).and_then(|()| fs::rename(&part, &mark));
        if named.is_err() {
            let _ = fs::remove_file(&part);
            // One that leads to a backup which is lost may be there.
            let part = self.data.join(MARK_TEMPORARY);
            match fs::remove_file(&part) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            match symlink(self.place(), &mark) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    symlink(self.place(), &part)?;
                    fs::rename(&part, &mark)?;
                }
                other => other?,
            }
        }
        File::open(&self.data)?.sync_all()
    }

    /// Makes sure of a mark that was found.
    pub(super) fn sync_mark(&self, disk: &DiskStorage) -> Result<(), Trouble> {
        let mark = fs::symlink_metadata(self.data.join(REPAIR_MARK));
        if mark.is_ok_and(|found| found.is_symlink()) {
            return execute::sync_dir(disk, Dir::Root);
        }
        execute::sync_mark(disk)
    }

    /// Where it is, for somebody in the data directory.
    fn place(&self) -> PathBuf {
        self.inside().unwrap_or_else(|| {
            let absolute = fs::canonicalize(&self.path);
            absolute.unwrap_or_else(|_| self.path.clone())
        })
    }

    /// Removes links in the places through which a new control file comes to be: what they lead to is not the directory's,
    /// and is not to be written to. The script makes them again.
    pub(super) fn remove_links(&self, changes: &[Change]) -> io::Result<()> {
        let is_replaced = |change: &Change| matches!(change, Change::Control { .. });
        if !changes.iter().any(is_replaced) {
            return Ok(());
        }
        for name in [CONTROL_TEMPORARY, CONTROL_SPARE] {
            let path = self.data.join(name);
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

impl Vault for Backup {
    type Store = DiskStorage;

    fn store(&self) -> &DiskStorage {
        &self.store
    }

    fn renames(&self, dir: Dir) -> bool {
        place::renames(&self.data, dir, &self.path)
    }

    fn adopt(&self, dir: Dir, name: &str) -> io::Result<()> {
        let place = Path::new(dir.path()).join(name);
        fs::rename(self.data.join(&place), self.path.join(&place))
    }

    fn mark(&self) -> Vec<u8> {
        resume::mark(&self.place())
    }
}

#[cfg(test)]
mod tests {
    use idem_wal::control::CONTROL_NAME;

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

    /// Whoever stops a repair at any moment, as root too, leaves a control file that the server can read.
    #[test]
    fn a_control_file_is_its_owners_before_the_mark_goes() {
        use idem_protocol::control::Control;
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let is_root = fs::metadata(data).unwrap().uid() == 0 && chown(data, Some(1000), Some(1001)).is_ok();
        for spare in [None, Some(0o604)] {
            let write = |name: &str, bytes: &[u8], mode| {
                fs::write(data.join(name), bytes).unwrap();
                fs::set_permissions(data.join(name), fs::Permissions::from_mode(mode)).unwrap();
            };
            write(CONTROL_NAME, &Control::default().encode(), 0o600);
            let _ = fs::remove_file(data.join(CONTROL_SPARE));
            if let Some(mode) = spare {
                write(CONTROL_SPARE, &[0; 9000], mode);
            }
            let backup = Backup::create(data, None, UnixMs::ZERO).unwrap();
            fs::write(backup.path().join(MARK_COPY), backup.mark()).unwrap();
            backup.set_mark().unwrap();
            assert_eq!(fs::read(data.join(REPAIR_MARK)).unwrap(), backup.mark());
            let change = Change::Control {
                control: Box::new(Control {
                    promised_epoch: 3,
                    ..Control::default()
                }),
                old_bytes: None,
            };
            let disk = super::super::locked(data).unwrap();
            let mut made = 0;
            execute::carry_out(&disk, &backup, &[change], &mut |_| {
                made += 1;
                assert!(data.join(REPAIR_MARK).exists());
                for name in [CONTROL_NAME, CONTROL_SPARE] {
                    let found = fs::metadata(data.join(name)).unwrap();
                    assert_eq!(found.mode() & 0o777, 0o600, "{name} {spare:?}");
                    if is_root {
                        assert_eq!((found.uid(), found.gid()), (1000, 1001), "{name} {spare:?}");
                    }
                }
            })
            .unwrap();
            assert_eq!(made, 1);
            assert!(!data.join(REPAIR_MARK).exists());
        }
    }
}
