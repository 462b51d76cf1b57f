//! A running `idemd`: started on a free port, awaited by its ready line, killed when the test lets go of it.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;

use super::client::Client;
use super::kill::Process;
use super::ready::Ready;

/// How long a start may take. A start that hangs is a failure, a slow machine is none.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);

/// `appendfsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// A sync before every reply that reveals a change.
    Always,
    /// A sync twice a second.
    Everysec,
    /// No sync by the server.
    No,
}

impl Policy {
    /// All three.
    pub const ALL: [Policy; 3] = [Policy::Always, Policy::Everysec, Policy::No];

    /// As the option spells it.
    pub fn word(self) -> &'static str {
        match self {
            Policy::Always => "always",
            Policy::Everysec => "everysec",
            Policy::No => "no",
        }
    }
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct IdemdOptions {
    binary: PathBuf,
    prefix: Vec<OsString>,
    args: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    port: u16,
}

impl Default for IdemdOptions {
    fn default() -> Self {
        IdemdOptions::of(super::binaries::idemd())
    }
}

impl IdemdOptions {
    /// The defaults of another executable: a sabotaged build.
    pub fn of(binary: &Path) -> IdemdOptions {
        IdemdOptions {
            binary: binary.to_owned(),
            prefix: Vec::new(),
            args: Vec::new(),
            environment: Vec::new(),
            port: 0,
        }
    }

    /// A port of its own instead of any that is free: for a server that is started again where its clients look for it.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Adds `--name value`.
    #[must_use]
    pub fn option(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.args.push(format!("--{name}").into());
        self.args.push(value.as_ref().to_owned());
        self
    }

    /// Sets `--appendfsync`.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        self.option("appendfsync", policy.word())
    }

    /// Small files, so that a short test sees rotations, snapshots and retention.
    #[must_use]
    pub fn small_files(self) -> Self {
        self.option("wal-segment-bytes", "1mb")
            .option("snapshot-wal-bytes", "512kb")
            .option("wal-keep-bytes", "0")
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts the server through another program, which must `exec` it and so leave it the pid: `strace -D`, `nsenter`.
    #[must_use]
    pub fn through(mut self, prefix: Vec<OsString>) -> Self {
        self.prefix = prefix;
        self
    }

    fn command(&self, dir: &Path) -> Command {
        let mut words = self
            .prefix
            .iter()
            .map(OsString::as_os_str)
            .chain([self.binary.as_os_str()]);
        let mut command = Command::new(words.next().expect("there is at least the binary"));
        command
            .args(words)
            .arg("--port")
            .arg(self.port.to_string())
            .arg("--dir")
            .arg(dir)
            .args(&self.args);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A start that did not end in a ready line.
#[derive(Debug)]
pub struct StartFailure {
    /// `None` when it neither got ready nor ended in time; it is killed then.
    pub status: Option<ExitStatus>,
    /// What it printed on stdout.
    pub stdout: String,
    /// What it printed on stderr.
    pub stderr: String,
}

impl StartFailure {
    /// The exit code; −1 after a signal or a timeout.
    pub fn code(&self) -> i32 {
        self.status.and_then(|status| status.code()).unwrap_or(-1)
    }
}

/// A server of ours.
#[derive(Debug)]
pub struct Idemd {
    process: Process,
    ready: Ready,
    stderr: Captured,
    dir: PathBuf,
}

impl Idemd {
    /// Starts a server and waits until it is ready. The test ends with the server's own words when it does not get so
    /// far.
    pub fn start(dir: &Path, options: &IdemdOptions) -> Idemd {
        match Idemd::try_start(dir, options) {
            Ok(server) => server,
            Err(failure) => panic!(
                "idemd on {} did not get ready ({:?})\nstdout: {}\nstderr:\n{}",
                dir.display(),
                failure.status,
                failure.stdout,
                failure.stderr
            ),
        }
    }

    /// Starts a server that may refuse to.
    pub fn try_start(dir: &Path, options: &IdemdOptions) -> Result<Idemd, StartFailure> {
        let mut command = options.command(dir);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let stderr = Captured::new(child.stderr.take().expect("stderr is a pipe"));
        let lines = read_lines(stdout);
        let process = Process::new(child);
        match lines.recv_timeout(START_TIMEOUT) {
            Ok(line) => match Ready::parse(&line) {
                Ok(ready) => Ok(Idemd {
                    process,
                    ready,
                    stderr,
                    dir: dir.to_owned(),
                }),
                Err(error) => {
                    process.signal(Signal::KILL);
                    let status = process.wait_exit(START_TIMEOUT);
                    Err(StartFailure {
                        status,
                        stdout: error,
                        stderr: stderr.whole_text(),
                    })
                }
            },
            Err(RecvTimeoutError::Timeout) => {
                process.signal(Signal::KILL);
                process.wait_exit(START_TIMEOUT);
                Err(StartFailure {
                    status: None,
                    stdout: String::new(),
                    stderr: stderr.whole_text(),
                })
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = process.wait_exit(START_TIMEOUT);
                Err(StartFailure {
                    status,
                    stdout: String::new(),
                    stderr: stderr.whole_text(),
                })
            }
        }
    }

    /// Starts a server that is killed soon, ready or not: dropping the process does it.
    pub fn start_without_waiting(dir: &Path, options: &IdemdOptions) -> Process {
        let mut command = options.command(dir);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn();
        Process::new(child.unwrap_or_else(|error| panic!("{command:?} does not start: {error}")))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.ready.address
    }

    /// What the ready line said.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Its data directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.address())
            .unwrap_or_else(|error| panic!("no connection to {}: {error}", self.address()))
    }

    /// What it has printed on stderr; complete after its end.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// SIGKILL, and its end awaited: nothing of it is left when this returns.
    pub fn sigkill(&self) -> ExitStatus {
        self.process.signal(Signal::KILL);
        self.wait_exit(START_TIMEOUT)
    }

    /// SIGTERM; its end is for [`Idemd::wait_exit`].
    pub fn sigterm(&self) {
        self.process.signal(Signal::TERM);
    }

    /// Waits for its end. The test fails when it still runs after `timeout`.
    pub fn wait_exit(&self, timeout: Duration) -> ExitStatus {
        match self.process.wait_exit(timeout) {
            Some(status) => {
                self.stderr.wait_end();
                status
            }
            None => panic!("idemd still runs after {timeout:?}; stderr:\n{}", self.stderr()),
        }
    }

    /// Whether it has ended, for whatever reason.
    pub fn has_ended(&self) -> bool {
        self.process.wait_exit(Duration::ZERO).is_some()
    }

    /// A clean stop: SIGTERM, exit code 0.
    pub fn stop(self) {
        self.sigterm();
        let status = self.wait_exit(START_TIMEOUT);
        assert_eq!(
            status.code(),
            Some(0),
            "a stop by SIGTERM is clean; stderr:\n{}",
            self.stderr()
        );
    }
}

/// A pipe that is read to its end by a thread.
#[derive(Debug)]
struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    end: Mutex<Receiver<()>>,
}

impl Captured {
    fn new(mut pipe: impl Read + Send + 'static) -> Captured {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let (at_end, end) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                shared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend_from_slice(&buffer[..count]);
            }
            drop(at_end);
        });
        Captured {
            bytes,
            end: Mutex::new(end),
        }
    }

    /// Waits until the pipe has ended. Bounded: a tracer that outlives the server holds the pipe open.
    fn wait_end(&self) {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = end.recv_timeout(Duration::from_secs(2));
    }

    /// The text of a process that has ended: waits until all of it has arrived.
    fn whole_text(&self) -> String {
        self.wait_end();
        self.text()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

fn read_lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        // The pipe is read to its end even when nobody listens any more: a server must not block on a full one.
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}
