//! Whom the files of a data directory are for.
//!
//! A tool that root runs must not leave a control file that the server, which is somebody else, cannot read. A file is given
//! away as soon as it is open, before a byte is written and long before it gets the name that a start looks for: whoever
//! stops the tool at any moment finds the old file or one that can be read.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

use rustix::fs::{AtFlags, FileType, Stat, statat};

use super::FILE_MODE;

/// What a file's owner can do at least.
const OWNER_MODE: u32 = 0o600;
/// The bits of a mode that are permissions.
const PERMISSIONS: u32 = 0o777;

/// Owner and permissions of files in the data directory itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl Owner {
    /// The owner of the directory, and the permissions of the regular file that it has under this name, if any.
    pub(super) fn of(directory: &File, like: &str) -> io::Result<Owner> {
        let metadata = directory.metadata()?;
        let regular = statat(directory, like, AtFlags::SYMLINK_NOFOLLOW)
            .ok()
            .filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        Ok(Owner {
            uid: metadata.uid(),
            gid: metadata.gid(),
            mode: regular.map_or(FILE_MODE, |stat| stat.st_mode & PERMISSIONS | OWNER_MODE),
        })
    }

    /// Gives a file away. Only root can, and only the owner can change permissions: whoever cannot made the file as any
    /// other, and the server says what it cannot read.
    pub(super) fn give(self, file: &File, stat: &Stat) {
        if (stat.st_uid, stat.st_gid) != (self.uid, self.gid) {
            let _ = fchown(file, Some(self.uid), Some(self.gid));
        }
        if stat.st_mode & PERMISSIONS != self.mode {
            let _ = file.set_permissions(Permissions::from_mode(self.mode));
        }
    }
}
