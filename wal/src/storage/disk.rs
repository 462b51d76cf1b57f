//! The real disk: plain files below one directory, reached through descriptors of the directories and never through its
//! path again.
//!
//! `sync_data` is fdatasync, which also flushes a changed length. Nothing optional is asked of the file system, so nothing
//! optional can fail: no `fallocate`, no direct I/O, no locks here (see [`crate::lock`]).

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, Stat, StatxFlags, makedev, mkdirat, renameat, statat, statx};
use rustix::io::Errno;

use self::handles::Handles;
use self::owner::Owner;
use self::regular::open_regular;
use super::{Dir, Storage, StorageFile};

pub(crate) use self::regular::open_directory;

mod handles;
mod owner;
mod regular;

/// Raised by the first sync that fails, and shared by all handles of a directory. The process is about to end; until it
/// has, no other thread may write, sync or rename anything: a second sync of the same file would succeed without the
/// first one's data, and what it seemed to make durable could still be promised to somebody.
#[derive(Clone, Debug, Default)]
struct Halt(Arc<AtomicBool>);

impl Halt {
    /// An error once a sync has failed.
    fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::SeqCst) {
            return Err(io::Error::other("an earlier sync failed"));
        }
        Ok(())
    }

    /// Makes one sync, unless one has failed before.
    fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.check()?;
        sync().inspect_err(|_| self.0.store(true, Ordering::SeqCst))
    }
}

/// A data directory on the real disk.
#[derive(Clone, Debug)]
pub struct DiskStorage {
    handles: Arc<Handles>,
    halt: Halt,
    /// Whom files in the data directory itself are given to when they are opened for writing.
    owner: Option<Owner>,
    #[cfg(feature = "sabotage")]
    no_directory_sync: bool,
}

/// Permissions of new files before the umask: the log holds clients' values.
const FILE_MODE: u32 = 0o640;
/// The same for directories.
const DIR_MODE: u32 = 0o750;

impl DiskStorage {
    /// An existing data directory; an error when there is none or when it is something else.
    pub fn open(path: &Path) -> io::Result<DiskStorage> {
        Ok(DiskStorage::on(path, open_directory(path)?))
    }

    /// The directory behind a descriptor that is open already, such as the one that holds its lock. `path` is for messages.
    pub(crate) fn on(path: &Path, root: File) -> DiskStorage {
        DiskStorage {
            handles: Arc::new(Handles::new(path, root)),
            halt: Halt::default(),
            owner: None,
            #[cfg(feature = "sabotage")]
            no_directory_sync: false,
        }
    }

    /// As [`DiskStorage::open`], after making what is missing of the path. The names that were made are durable.
    pub fn create(path: &Path) -> io::Result<DiskStorage> {
        let mut missing = Vec::new();
        let mut at = Some(path);
        while let Some(step) = at.filter(|step| !step.as_os_str().is_empty()) {
            match fs::metadata(step) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(step),
                Err(error) => return Err(error),
            }
            at = step.parent();
        }
        for step in missing.into_iter().rev() {
            match fs::create_dir(step) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let parent = step.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        DiskStorage::open(path)
    }

    /// A handle for tools that root may run: every file in the data directory itself (not below it) that is opened for
    /// writing through it belongs from then on to whom the directory belongs, with the permissions that the file `like` has
    /// now.
    ///
    /// # Errors
    /// The directory cannot be looked at.
    pub fn for_owner(mut self, like: &str) -> io::Result<DiskStorage> {
        self.owner = Some(Owner::of(&self.handles.root, like)?);
        Ok(self)
    }

    /// The data directory as it was given.
    pub fn root(&self) -> &Path {
        &self.handles.path
    }

    /// Breaks this disk on purpose: `sync_dir` does nothing from now on, so that a power loss can take names that were
    /// promised. Exists only in builds that prove that the tests notice; never switched on in a product.
    #[cfg(feature = "sabotage")]
    pub fn set_sabotage_no_directory_sync(&mut self) {
        self.no_directory_sync = true;
    }

    fn open_with(&self, dir: Dir, name: &str, flags: OFlags) -> io::Result<DiskFile> {
        let opened = self.handles.with(dir, |below| open_regular(below, name, flags))?;
        if flags.contains(OFlags::RDWR) {
            self.give(dir, &opened);
        }
        Ok(self.file(opened))
    }

    /// To whom it is for, before anything is written.
    fn give(&self, dir: Dir, (file, stat): &(File, Stat)) {
        if let Some(owner) = self.owner.filter(|_| dir == Dir::Root) {
            owner.give(file, stat);
        }
    }

    fn file(&self, (file, stat): (File, Stat)) -> DiskFile {
        DiskFile {
            file,
            id: FileId::from(stat),
            halt: self.halt.clone(),
        }
    }
}

/// Which file it is, of all on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// That of the file which `path` leads to, and its length.
    ///
    /// Asks for nothing but number and length: since Linux 6.13 who asks for a file's times makes the next write give it new
    /// ones, and without a journal ext4 then writes the inode in each sync, a third more of its time.
    fn of_path(directory: impl AsFd, path: &str) -> rustix::io::Result<(FileId, u64)> {
        let wanted = StatxFlags::INO | StatxFlags::SIZE;
        match statx(&directory, path, AtFlags::empty(), wanted) {
            Ok(found) => {
                let id = FileId {
                    device: makedev(found.stx_dev_major, found.stx_dev_minor),
                    inode: found.stx_ino,
                };
                Ok((id, found.stx_size))
            }
            // An old kernel, or a sandbox that knows only older calls.
            Err(Errno::NOSYS | Errno::PERM) => {
                let stat = statat(directory, path, AtFlags::empty())?;
                Ok((FileId::from(stat), u64::try_from(stat.st_size).unwrap_or(0)))
            }
            Err(errno) => Err(errno),
        }
    }
}

impl From<Stat> for FileId {
    fn from(stat: Stat) -> FileId {
        FileId {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

impl Storage for DiskStorage {
    type File = DiskFile;

    fn list(&self, dir: Dir) -> io::Result<Vec<String>> {
        let listed = self.handles.with(dir, |below| {
            let mut names = Vec::new();
            for entry in rustix::fs::Dir::read_from(below)? {
                // A name that is no UTF-8 is not ours; it is shown with replacement characters and opened by nobody.
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            Ok(names)
        });
        match listed {
            Ok(mut names) => {
                names.sort_unstable();
                Ok(names)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn has_name(&self, dir: Dir, name: &str) -> io::Result<bool> {
        match self
            .handles
            .with(dir, |below| Ok(statat(below, name, AtFlags::SYMLINK_NOFOLLOW)?))
        {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn open(&self, dir: Dir, name: &str) -> io::Result<DiskFile> {
        self.open_with(dir, name, OFlags::RDONLY)
    }

    fn open_write(&self, dir: Dir, name: &str) -> io::Result<DiskFile> {
        self.open_with(dir, name, OFlags::RDWR)
    }

    fn create(&self, dir: Dir, name: &str) -> io::Result<DiskFile> {
        self.halt.check()?;
        let mode = Mode::from_raw_mode(FILE_MODE);
        let made = self
            .handles
            .with(dir, |below| regular::create_regular(below, name, mode))?;
        self.give(dir, &made);
        Ok(self.file(made))
    }

    fn rename(&self, dir: Dir, from: &str, to: &str) -> io::Result<()> {
        self.halt.check()?;
        self.handles
            .with(dir, |below| Ok(renameat(below, from, below, to)?))
    }

    fn remove(&self, dir: Dir, name: &str) -> io::Result<()> {
        self.halt.check()?;
        self.handles.with(dir, |below| regular::remove(below, name))
    }

    fn is_own(&self, dir: Dir, name: &str) -> io::Result<bool> {
        self.handles.with(dir, |below| regular::is_own(below, name))
    }

    fn obstacle(&self, dir: Dir, name: &str) -> io::Result<Option<String>> {
        self.handles.with(dir, |below| regular::obstacle(below, name))
    }

    fn sync_dir(&self, dir: Dir) -> io::Result<()> {
        #[cfg(feature = "sabotage")]
        if self.no_directory_sync {
            return Ok(());
        }
        self.halt.sync(|| self.handles.with(dir, File::sync_all))
    }

    fn create_dir(&self, dir: Dir) -> io::Result<()> {
        if dir == Dir::Root {
            // It is open, so it is there.
            return Ok(());
        }
        self.halt.check()?;
        match mkdirat(&self.handles.root, dir.path(), Mode::from_raw_mode(DIR_MODE)) {
            // A plain file in the way would only be noticed much later, in the middle of a write.
            Err(Errno::EXIST) => self.handles.with(dir, |_| Ok(())),
            other => Ok(other?),
        }
    }

    fn is_in_place(&self, dir: Dir, name: &str, file: &DiskFile, bytes: u64) -> io::Result<bool> {
        // By the whole path below the data directory, so that a replaced `wal` is noticed as well as a replaced file.
        match FileId::of_path(&self.handles.root, &dir.join(name)) {
            Ok((named, length)) if named == file.id => return Ok(length >= bytes),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if dir == Dir::Snap {
            // The next snapshot goes to where a restart would look. Not so the log: what it told is elsewhere.
            self.handles.forget_directory(dir);
        }
        Ok(false)
    }

    fn available_bytes(&self) -> io::Result<u64> {
        // `wal` may be a mount of its own.
        let stat = match self.handles.with(Dir::Wal, |wal| Ok(rustix::fs::fstatvfs(wal)?)) {
            Ok(stat) => stat,
            Err(_) => rustix::fs::fstatvfs(&self.handles.root)?,
        };
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn describe(&self, dir: Dir, name: &str) -> String {
        let directory = match dir {
            Dir::Root => self.handles.path.clone(),
            Dir::Wal | Dir::Snap | Dir::Diverged => self.handles.path.join(dir.path()),
        };
        directory.join(name).display().to_string()
    }
}

/// An open file on the real disk.
#[derive(Debug)]
pub struct DiskFile {
    file: File,
    id: FileId,
    halt: Halt,
}

impl StorageFile for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        self.halt.check()?;
        self.file.write_at(buf, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.halt.sync(|| self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.halt.sync(|| self.file.sync_all())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.halt.check()?;
        self.file.set_len(bytes)
    }
}

#[cfg(test)]
mod tests;
