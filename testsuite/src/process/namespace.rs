//! A small file system that only one server sees, and that goes away by itself.
//!
//! A mount namespace lives as long as a process is in it. The holder does nothing but wait for the end of its stdin:
//! when the test dies, however it dies, the pipe closes, the holder ends, and the mount is gone.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use super::kill::Process;

/// A mount namespace with a tmpfs in it.
#[derive(Debug)]
pub struct SmallDisk {
    holder: Process,
    mount_point: PathBuf,
    user_namespace: bool,
    _stdin: ChildStdin,
}

impl SmallDisk {
    /// Mounts a tmpfs of `bytes` over `mount_point`. The error says what this machine does not permit.
    pub fn mount(mount_point: &Path, bytes: u64) -> Result<SmallDisk, String> {
        let user_namespace = !rustix::process::geteuid().is_root();
        let mut command = Command::new("unshare");
        if user_namespace {
            command.args(["--user", "--map-root-user"]);
        }
        let script = "mount -t tmpfs -o \"size=$1\" idem-test \"$2\" && echo mounted && exec cat >/dev/null";
        command.args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
            &bytes.to_string(),
        ]);
        command
            .arg(mount_point)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command
            .spawn()
            .map_err(|error| format!("unshare does not start: {error}"))?;
        let stdin = child.stdin.take().expect("stdin is a pipe");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let holder = Process::new(child);
        // Either the word or the end of the pipe comes: no timeout is needed.
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        if read.is_err() || line != "mounted\n" {
            return Err("a private mount of a tmpfs is not permitted".to_owned());
        }
        let disk = SmallDisk {
            holder,
            mount_point: mount_point.to_owned(),
            user_namespace,
            _stdin: stdin,
        };
        std::fs::read_dir(disk.inside()).map_err(|error| format!("no look into the namespace: {error}"))?;
        Ok(disk)
    }

    /// The words before a command that runs in the namespace. The command keeps the pid.
    pub fn enter(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![
            "nsenter".into(),
            "--target".into(),
            self.holder.pid().to_string().into(),
        ];
        if self.user_namespace {
            words.extend(["--user", "--preserve-credentials"].map(OsString::from));
        }
        words.push("--mount".into());
        words
    }

    /// The mounted directory, as seen from outside of the namespace.
    pub fn inside(&self) -> PathBuf {
        let relative = self
            .mount_point
            .strip_prefix("/")
            .expect("mount points are absolute");
        Path::new("/proc")
            .join(self.holder.pid().to_string())
            .join("root")
            .join(relative)
    }
}
