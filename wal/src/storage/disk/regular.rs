//! Opening what has to be a plain file.
//!
//! A FIFO under the name of a segment would keep whoever opens it waiting for a writer that never comes, and a device would
//! answer with bytes that are no log's. So whatever is no regular file is refused, in words, by every open of this disk. A
//! link is followed: what it leads to counts.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, statat};

/// Opens `name` in `directory` when it is a regular file, or makes it where `flags` say so. Never waits.
pub(super) fn open_regular(
    directory: impl AsFd,
    name: &str,
    flags: OFlags,
    mode: Mode,
) -> io::Result<(File, Stat)> {
    // Looked at first: opening alone can do something to a device, and says little of a socket. What cannot be looked at is
    // left to the open itself, which knows why.
    if let Ok(stat) = statat(&directory, name, AtFlags::empty()) {
        check(&stat)?;
    }
    // The name may lead elsewhere by now. To a regular file the flags mean nothing.
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(openat(&directory, name, flags, mode)?);
    let stat = fstat(&file)?;
    check(&stat)?;
    Ok((file, stat))
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
