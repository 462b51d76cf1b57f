//! Client libraries of other languages, as their users have them: played as a script each (`testsuite/clients`), against
//! whatever speaks the protocol.
//!
//! # Vocabulary
//!
//! * **library** — a client with a pinned version, installed by `testsuite/clients/install` into the target directory.
//! * **step** — a part of a script with a name (`multi`, `pubsub` …). A script plays those that it is asked for, in that
//!   order, and prints `ok NAME` after each, so that a script that does nothing cannot pass.
//! * **restart** — a script that prints `restart` waits for `restarted` on its stdin. Whoever plays it does the killing.
//!
//! # Invariants
//!
//! * Nothing is downloaded here, and nothing is taken from directories of the machine: the libraries are those that were
//!   installed from the pinned manifest as it is now, or the test is skipped.
//! * A script has a bounded time, and its process does not outlive the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process::binaries::target_directory;
use crate::process::kill::Process;

/// How long one script may take. They take a second; starting an interpreter on a busy machine takes longer.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(90);

/// A client library that is driven by a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// redis-py.
    RedisPy,
    /// ioredis.
    Ioredis,
    /// node-redis.
    NodeRedis,
}

/// The protocol that a script asks its library for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// What the library chooses when nobody says anything.
    Default,
    /// RESP2, for programs that still want it.
    Resp2,
}

/// What a script is played against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The server of this workspace.
    Idemd,
    /// A `redis-server`, of any version: shows that the script asks for nothing that Redis does not do.
    Redis,
}

impl Library {
    /// All of them.
    pub const ALL: [Library; 3] = [Library::RedisPy, Library::Ioredis, Library::NodeRedis];

    fn script(self) -> &'static str {
        match self {
            Library::RedisPy => "redis_py.py",
            Library::Ioredis => "ioredis.mjs",
            Library::NodeRedis => "node_redis.mjs",
        }
    }

    /// The directory of its packages, the manifest that pins them, and the program that runs the script.
    fn home(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Library::RedisPy => ("python", "requirements.txt", "python3"),
            Library::Ioredis | Library::NodeRedis => ("node", "package-lock.json", "node"),
        }
    }

    /// Why its script cannot run here: the packages are not installed, or in other versions than those that are pinned.
    pub fn missing(self) -> Option<String> {
        let (directory, manifest, _) = self.home();
        let installed = packages().join(directory).join(format!("{manifest}.installed"));
        let pinned = std::fs::read(sources().join(manifest)).expect("the manifest lies beside the scripts");
        match std::fs::read(&installed) {
            Ok(found) if found == pinned => None,
            Ok(_) => Some(format!(
                "{} is of other versions; testsuite/clients/install",
                installed.display()
            )),
            Err(_) => Some(format!(
                "{} is not there; testsuite/clients/install",
                installed.display()
            )),
        }
    }

    /// Plays these steps. `restart` has to bring the server back at the same address, with what it acknowledged. The
    /// error is what the script printed.
    pub fn play(
        self,
        protocol: Protocol,
        peer: Peer,
        address: SocketAddr,
        steps: &[&str],
        mut restart: impl FnMut(),
    ) -> Result<(), String> {
        let mut child = self
            .command(protocol, peer, address, steps)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{self:?} does not start: {error}"))?;
        let mut stdin = child.stdin.take().expect("stdin is a pipe");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let mut stderr = child.stderr.take().expect("stderr is a pipe");
        let process = Process::new(child);
        let complaints = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // A pipe that breaks has said what it said.
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let end = Instant::now() + SCRIPT_TIMEOUT;
        let mut printed = Vec::new();
        while let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if line == "restart" {
                restart();
                // A script that has ended meanwhile says below why.
                let _ = stdin.write_all(b"restarted\n");
            }
            printed.push(line);
        }
        let status = process.wait_exit(end.saturating_duration_since(Instant::now()));
        process.signal(Signal::KILL);
        let complaints = complaints.join().expect("a thread that only reads ends");
        let expected = steps.iter().map(|step| format!("ok {step}"));
        let done = expected.eq(printed.iter().filter(|line| *line != "restart").cloned());
        match status {
            Some(status) if status.success() && done => Ok(()),
            Some(status) => Err(format!(
                "{self:?}, {protocol:?}, against {peer:?}: {status}, printed {printed:?}\n{complaints}"
            )),
            None => Err(format!(
                "{self:?}, {protocol:?}, against {peer:?}: no end within {SCRIPT_TIMEOUT:?}, printed {printed:?}\n{complaints}"
            )),
        }
    }

    fn command(self, protocol: Protocol, peer: Peer, address: SocketAddr, steps: &[&str]) -> Command {
        let (directory, _, program) = self.home();
        let directory = packages().join(directory);
        let mut command = Command::new(program);
        match self {
            // No byte code beside the scripts: a test leaves nothing in the tree.
            Library::RedisPy => command
                .env("PYTHONPATH", directory)
                .env("PYTHONDONTWRITEBYTECODE", "1"),
            Library::Ioredis | Library::NodeRedis => command.env("NODE_PATH", directory.join("node_modules")),
        };
        command.arg(sources().join(self.script()));
        command.args([address.ip().to_string(), address.port().to_string()]);
        command.args([
            match protocol {
                Protocol::Default => "default",
                Protocol::Resp2 => "2",
            },
            match peer {
                Peer::Idemd => "idemd",
                Peer::Redis => "redis",
            },
        ]);
        command.args(steps);
        command
    }
}

/// Where `testsuite/clients/install` puts the packages when nobody says otherwise.
fn packages() -> PathBuf {
    target_directory().join("clients")
}

/// The scripts and the manifests.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}
