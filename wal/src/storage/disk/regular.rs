//! Opening what has to be a plain file.
//!
//! A FIFO under the name of a segment would keep whoever opens it waiting for a writer that never comes, and a device would
//! answer with bytes that are no log's. So whatever is no regular file is refused, in words, by every open of this disk. A
//! link is followed: what it leads to counts.
//!
//! Making one is another matter: a link, or a second name, under the name of a temporary leads to a file that belongs to
//! somebody else. So a new file is always one of its own, and what has its name goes first ([`create_regular`]).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, statat, unlinkat};
use rustix::io::Errno;

/// Opens `name` in `directory` when it is a regular file. Never waits.
pub(super) fn open_regular(directory: impl AsFd, name: &str, flags: OFlags) -> io::Result<(File, Stat)> {
    // Looked at first: opening alone can do something to a device, and says little of a socket. What cannot be looked at is
    // left to the open itself, which knows why.
    if let Ok(stat) = statat(&directory, name, AtFlags::empty()) {
        check(&stat)?;
    }
    // The name may lead elsewhere by now. To a regular file the flags mean nothing.
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(openat(&directory, name, flags, Mode::empty())?);
    let stat = fstat(&file)?;
    check(&stat)?;
    Ok((file, stat))
}

/// Makes a new, empty file; whatever has its name goes, be it a link, a FIFO or an empty directory. Never follows a link,
/// never writes over a file that another name leads to.
pub(super) fn create_regular(directory: impl AsFd, name: &str, mode: Mode) -> io::Result<(File, Stat)> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let opened = match openat(&directory, name, flags, mode) {
        Err(Errno::EXIST) => {
            remove(&directory, name)?;
            // Once: somebody who puts it there again and again is told.
            openat(&directory, name, flags, mode)
        }
        other => other,
    };
    let file = File::from(opened?);
    let stat = fstat(&file)?;
    Ok((file, stat))
}

/// Takes a name away, of whatever it is; of a directory only when that is empty.
pub(super) fn remove(directory: impl AsFd, name: &str) -> io::Result<()> {
    match unlinkat(&directory, name, AtFlags::empty()) {
        // Which of the two it is for a directory depends on the system.
        Err(Errno::ISDIR | Errno::PERM) if is_directory(&directory, name)? => {}
        other => return Ok(other?),
    }
    match unlinkat(&directory, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, NOT_EMPTY))
        }
        other => Ok(other?),
    }
}

/// Whether a name leads to a regular file that no other name leads to. A link is none.
pub(super) fn is_own(directory: impl AsFd, name: &str) -> io::Result<bool> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink == 1)
}

/// Why [`remove`] could not take a name away, as far as looking tells; nothing when it could, or when there is none.
pub(super) fn obstacle(directory: impl AsFd, name: &str) -> io::Result<Option<String>> {
    match is_directory(&directory, name) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let below = openat(&directory, name, flags, Mode::empty())?;
    for entry in rustix::fs::Dir::read_from(below)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(Some(NOT_EMPTY.to_owned()));
        }
    }
    Ok(None)
}

/// What is said of a directory in the way of a file.
const NOT_EMPTY: &str = "it is a directory that is not empty";

fn is_directory(directory: impl AsFd, name: &str) -> io::Result<bool> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Opens a directory by its path. Never waits, whatever is there.
pub(crate) fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::empty())?))
}

/// An error in words for whatever is no regular file.
fn check(stat: &Stat) -> io::Result<()> {
    let (kind, what) = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => (io::ErrorKind::IsADirectory, "a directory"),
        FileType::Fifo => (io::ErrorKind::InvalidInput, "a FIFO"),
        FileType::Socket => (io::ErrorKind::InvalidInput, "a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => (io::ErrorKind::InvalidInput, "a device"),
        FileType::Symlink | FileType::Unknown => (io::ErrorKind::InvalidInput, "of no known kind"),
    };
    Err(io::Error::new(
        kind,
        format!("it is {what}, and not a regular file"),
    ))
}
