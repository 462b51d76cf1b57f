//! A real file system that can lose power: what was synced stays, what was not is gone.
//!
//! An ext4 image is mounted through a loop device in a mount namespace of its own. `EXT4_IOC_SHUTDOWN` stops it as a
//! power loss would: nothing more reaches the image, the journal's open transaction included. After unmounting and
//! mounting again, only what had been synced is there.
//!
//! What this shows and a SIGKILL cannot: that a reply came after its sync. What it cannot show: ext4 commits a file's name
//! together with its data, so that a forgotten directory sync loses nothing here (traces show that one).
//!
//! The ioctl is sent by perl, which every Debian has: this workspace has no `unsafe` to send one itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::namespace::Namespace;

/// `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`.
const CUT: &str = "open(my $fs, '<', $ARGV[0]) or die $!; my $flags = pack('L', 2); ioctl($fs, 0x8004587D, $flags) or die $!;";

/// A mounted image.
#[derive(Debug)]
pub struct LossyDisk {
    namespace: Namespace,
    image: PathBuf,
    mount_point: PathBuf,
}

impl LossyDisk {
    /// Makes an image of `bytes` in `directory` and mounts it at `directory/disk`. The error says what this machine does
    /// not permit.
    pub fn new(directory: &Path, bytes: u64) -> Result<LossyDisk, String> {
        let (image, mount_point) = (directory.join("image"), directory.join("disk"));
        let file = std::fs::File::create(&image).and_then(|file| file.set_len(bytes));
        file.map_err(|error| format!("no image: {error}"))?;
        std::fs::create_dir(&mount_point).map_err(|error| format!("no mount point: {error}"))?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        run(Command::new("perl").args(["-e", "1"]))?;
        let namespace = Namespace::new(MOUNT, &[image.as_os_str(), mount_point.as_os_str()])?;
        Ok(LossyDisk {
            namespace,
            image,
            mount_point,
        })
    }

    /// The mounted directory, as a server in the namespace sees it.
    pub fn path(&self) -> &Path {
        &self.mount_point
    }

    /// The mounted directory, as seen from outside of the namespace.
    pub fn inside(&self) -> PathBuf {
        self.namespace.inside(&self.mount_point)
    }

    /// The words before a command that runs in the namespace.
    pub fn enter(&self) -> Vec<OsString> {
        self.namespace.enter()
    }

    /// The power goes: from now on nothing reaches the disk. Whoever still runs on it gets errors.
    pub fn cut(&self) {
        let mut command = self.command("perl");
        run(command.args(["-e", CUT]).arg(&self.mount_point)).expect("a mounted ext4 can be shut down");
    }

    /// The power is back. Nobody may use the old mount any more.
    pub fn restore(&self) {
        let mut command = self.command("sh");
        command.args(["-c", "umount \"$2\" && mount -o loop \"$1\" \"$2\"", "sh"]);
        run(command.arg(&self.image).arg(&self.mount_point))
            .expect("an image that was mounted can be mounted again");
    }

    fn command(&self, program: &str) -> Command {
        let words = self.enter();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program);
        command
    }
}

/// Mounts `$1` at `$2`.
const MOUNT: &str = "mount -o loop \"$1\" \"$2\"";

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| format!("{} does not start: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}
