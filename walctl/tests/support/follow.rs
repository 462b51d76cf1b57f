//! A `walctl dump --follow` whose lines are taken one by one.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::command;

/// Generous: a busy machine must not fail a test.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// A dump that follows. Its lines and its notes come as they are written.
pub struct Follow {
    child: Child,
    pub lines: Receiver<String>,
    pub notes: Receiver<String>,
}

fn lines_of(source: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(source).lines() {
            if sender.send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    lines
}

impl Follow {
    pub fn start(dir: &Path, options: &[&str]) -> Follow {
        let mut child = command(&[&["dump", dir.to_str().unwrap(), "--follow", "--json"], options].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Follow {
            lines: lines_of(child.stdout.take().unwrap()),
            notes: lines_of(child.stderr.take().unwrap()),
            child,
        }
    }

    /// The next record's key, or its kind.
    pub fn next(&self) -> String {
        let line = self.lines.recv_timeout(TIMEOUT).expect("a line within the time");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        line["key"].as_str().or(line["name"].as_str()).unwrap().to_owned()
    }

    pub fn expect(&self, keys: &[&str]) {
        for key in keys {
            assert_eq!(self.next(), *key);
        }
    }

    pub fn note(&self) -> String {
        self.notes.recv_timeout(TIMEOUT).expect("a note within the time")
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end; there are no further lines. Returns the code and what else was noted.
    pub fn end(mut self) -> (i32, Vec<String>) {
        assert_eq!(
            self.lines.recv_timeout(TIMEOUT),
            Err(RecvTimeoutError::Disconnected)
        );
        let status = self.child.wait().unwrap();
        (
            status.code().expect("it ends by itself"),
            self.notes.iter().collect(),
        )
    }

    pub fn stop(self) -> Vec<String> {
        self.signal(rustix::process::Signal::INT);
        let (code, notes) = self.end();
        assert_eq!(code, 0, "{notes:?}");
        notes
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
