//! File systems that only one server sees, and that go away by themselves.
//!
//! A mount namespace lives as long as a process is in it. The holder does nothing but wait for the end of its stdin:
//! when the test dies, however it dies, the pipe closes, the holder ends, and the mounts are gone.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use super::kill::Process;

/// A mount namespace and its holder.
#[derive(Debug)]
pub struct Namespace {
    holder: Process,
    user_namespace: bool,
    _stdin: ChildStdin,
}

impl Namespace {
    /// Runs a line of shell in a new namespace, with `arguments` as `$1`, `$2` …, and holds the namespace. The error says
    /// what this machine does not permit.
    pub fn new(script: &str, arguments: &[&OsStr]) -> Result<Namespace, String> {
        let user_namespace = !rustix::process::geteuid().is_root();
        let mut command = Command::new("unshare");
        if user_namespace {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "--propagation", "private", "sh", "-c"]);
        command
            .arg(format!("{script} && echo mounted && exec cat >/dev/null"))
            .arg("sh")
            .args(arguments);
        command
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
            return Err("a mount in a namespace of its own is not permitted".to_owned());
        }
        let namespace = Namespace {
            holder,
            user_namespace,
            _stdin: stdin,
        };
        let root = namespace.inside(Path::new("/"));
        std::fs::read_dir(root).map_err(|error| format!("no look into the namespace: {error}"))?;
        Ok(namespace)
    }

    /// The words before a command that runs in the namespace. The command keeps the pid.
    pub fn enter(&self) -> Vec<OsString> {
        let target = self.holder.pid().to_string();
        let mut words: Vec<OsString> = vec!["nsenter".into(), "--target".into(), target.into()];
        if self.user_namespace {
            words.extend(["--user", "--preserve-credentials"].map(OsString::from));
        }
        words.push("--mount".into());
        words
    }

    /// An absolute path of the namespace, as seen from outside.
    pub fn inside(&self, path: &Path) -> PathBuf {
        let relative = path.strip_prefix("/").expect("paths in a namespace are absolute");
        Path::new("/proc")
            .join(self.holder.pid().to_string())
            .join("root")
            .join(relative)
    }
}

/// A tmpfs of a few megabytes: it can be full.
#[derive(Debug)]
pub struct SmallDisk {
    namespace: Namespace,
    mount_point: PathBuf,
}

impl SmallDisk {
    /// Mounts a tmpfs of `bytes` over `mount_point`. The error says what this machine does not permit.
    pub fn mount(mount_point: &Path, bytes: u64) -> Result<SmallDisk, String> {
        let script = "mount -t tmpfs -o \"size=$1\" idem-test \"$2\"";
        let namespace = Namespace::new(script, &[bytes.to_string().as_ref(), mount_point.as_os_str()])?;
        Ok(SmallDisk {
            namespace,
            mount_point: mount_point.to_owned(),
        })
    }

    /// The words before a command that runs in the namespace.
    pub fn enter(&self) -> Vec<OsString> {
        self.namespace.enter()
    }

    /// The mounted directory, as seen from outside of the namespace.
    pub fn inside(&self) -> PathBuf {
        self.namespace.inside(&self.mount_point)
    }
}
