//! A running `idemd`: started, waited for, killed or stopped. Dropping one kills it, so that nothing outlives the demo.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::PATIENCE;
use super::client::Client;
use crate::failure::Failure;

/// What the server says on stderr, below the demo's directory.
const LOG: &str = "idemd.log";

pub(super) struct Server {
    child: Child,
    /// Lines of stdout; closed when the process is gone.
    lines: Receiver<String>,
    ready: String,
    address: String,
    log: PathBuf,
}

impl Server {
    /// Starts it in `directory` with the data directory `data`, on any free port, and waits until it is ready.
    pub(super) fn start(binary: &Path, directory: &Path) -> Result<Server, Failure> {
        let log = directory.join(LOG);
        let stderr = OpenOptions::new().create(true).append(true).open(&log);
        let mut child = Command::new(binary)
            .args(["--dir", "data", "--port", "0"])
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr.map_err(Failure::io(log.display()))?)
            .spawn()
            .map_err(Failure::io("starting idemd"))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut server = Server {
            child,
            lines: lines_of(stdout),
            ready: String::new(),
            address: String::new(),
            log,
        };
        server.ready = match server.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err(server.complain("idemd does not get ready")),
            Err(RecvTimeoutError::Disconnected) => return Err(server.complain("idemd ended at its start")),
        };
        let address = server
            .ready
            .split_whitespace()
            .find_map(|word| word.strip_prefix("addr="));
        server.address = match address {
            Some(address) => address.to_owned(),
            None => return Err(server.complain(&format!("no address in `{}`", server.ready))),
        };
        Ok(server)
    }

    /// What it printed when it was ready.
    pub(super) fn ready_line(&self) -> &str {
        &self.ready
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn connect(&self) -> Result<Client, Failure> {
        Client::connect(&self.address)
    }

    /// SIGKILL: no handler runs, nothing is flushed.
    pub(super) fn kill(mut self) -> Result<(), Failure> {
        self.child.kill().map_err(Failure::io("killing idemd"))?;
        self.wait()?;
        Ok(())
    }

    /// SIGTERM, and the clean end that has to follow.
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)
            .map_err(|error| Failure::io("stopping idemd")(error.into()))?;
        let status = self.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(self.complain(&format!("a clean stop ends with 0, not with {status}")))
        }
    }

    /// Waits for the end of the process, which closes its stdout.
    fn wait(&mut self) -> Result<ExitStatus, Failure> {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err(self.complain("idemd does not end")),
            }
        }
        self.child.wait().map_err(Failure::io("waiting for idemd"))
    }

    /// `what`, with the last thing that the server said.
    fn complain(&self, what: &str) -> Failure {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        match log.lines().last() {
            Some(last) => Failure::new(format!("{what}; its last words: {last}")),
            None => Failure::new(what),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only for a process that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads on a thread of its own, because reading has no time-out; it ends with the process.
fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Nobody listens any more: reading goes on, so that the server is never blocked by a full pipe.
            let _ = sender.send(line);
        }
    });
    receiver
}
