//! Faults and traces at the system calls of the real binary, by strace.
//!
//! Two ways, which differ in where counting begins (`when=K` counts per thread):
//! * [`Strace::launch`] gives words to put before the server's command: everything from the first call on is seen.
//!   `strace -D` leaves the server our direct child with its own exit code.
//! * [`Strace::attach`] takes a server that is ready: its log thread has made no call yet that counts.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::kill::Process;

/// The calls that matter to the promise: what reaches files, names, and clients.
const TRACED: &str = "trace=write,writev,pwrite64,pwritev,pwritev2,fdatasync,fsync,sync_file_range,ftruncate,\
                      fallocate,rename,renameat,renameat2,unlink,unlinkat,sendto,sendmsg,sendmmsg";

/// A strace that is attached to a server. Dropping it detaches.
#[derive(Debug)]
pub struct Strace {
    process: Process,
    log: PathBuf,
}

impl Strace {
    /// Whether strace is here and may trace and inject.
    pub fn available() -> bool {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        *AVAILABLE.get_or_init(|| {
            Command::new("strace")
                .args([
                    "-f",
                    "-D",
                    "-o",
                    "/dev/null",
                    "-e",
                    "inject=getpid:error=EIO",
                    "true",
                ])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        })
    }

    /// The words before a command that is traced from its start. `injections` as strace takes them after `inject=`.
    pub fn launch(log: &Path, injections: &[&str]) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["strace", "-D", "-f"].map(OsString::from).into();
        words.extend(arguments(log, injections));
        words
    }

    /// Attaches to all threads of a running process, and returns when it has.
    pub fn attach(pid: u32, log: &Path, injections: &[&str]) -> Strace {
        Strace::attach_to(pid, &["-f"], log, injections)
    }

    /// Attaches to the thread of that name alone: what other threads do (spares are written with the same calls as
    /// groups) neither counts nor fails.
    pub fn attach_thread(pid: u32, name: &str, log: &Path, injections: &[&str]) -> Strace {
        Strace::attach_to(thread_id(pid, name), &[], log, injections)
    }

    fn attach_to(pid: u32, flags: &[&str], log: &Path, injections: &[&str]) -> Strace {
        let mut command = Command::new("strace");
        command.args(flags);
        command
            .args(arguments(log, injections))
            .arg("-p")
            .arg(pid.to_string());
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let stderr = child.stderr.take().expect("stderr is a pipe");
        let process = Process::new(child);
        let (attached, wait) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if attached.send(line).is_err() {
                    // Nobody waits any more; the pipe is still emptied.
                }
            }
        });
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            match wait.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains("attached") => break,
                Ok(_) => {}
                Err(_) => panic!("strace did not attach to {pid} within ten seconds"),
            }
        }
        Strace {
            process,
            log: log.to_owned(),
        }
    }

    /// Waits until strace has written its log out, which it does when the traced process has ended.
    pub fn finish(self) -> PathBuf {
        self.process
            .wait_exit(Duration::from_secs(10))
            .expect("strace ends with the process that it traces");
        self.log.clone()
    }
}

/// The thread of a process that has this name. A thread names itself, and a new one may not have come to it yet.
fn thread_id(pid: u32, name: &str) -> u32 {
    let has_name = |id: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/task/{id}/comm")).is_ok_and(|found| found.trim() == name)
    };
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
        let mut ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<u32>().ok());
        if let Some(id) = ids.find(has_name) {
            return id;
        }
        assert!(Instant::now() < end, "{pid} has no thread called {name}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn arguments(log: &Path, injections: &[&str]) -> Vec<OsString> {
    // -y names the file of each descriptor, -ttt and -T give times, -s 0 leaves the data out.
    let mut words: Vec<OsString> = ["-y", "-ttt", "-T", "-s", "0", "-e", TRACED, "-o"]
        .map(OsString::from)
        .into();
    words.push(log.into());
    for injection in injections {
        words.push("-e".into());
        words.push(format!("inject={injection}").into());
    }
    words
}
