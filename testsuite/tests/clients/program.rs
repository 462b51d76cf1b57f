//! Programs that are started, given their stdin, and awaited with a bound.

use std::io::{Read, Write};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use idem_testsuite::process::kill::Process;

/// How long one may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What became of one.
#[derive(Debug)]
pub(crate) struct Ran {
    /// `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Why this machine has it not.
pub(crate) fn missing(program: &str) -> Option<String> {
    let found = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found
        .err()
        .map(|error| format!("{program} is not here ({error}); apt-get install redis-tools"))
}

/// Runs it to its end.
pub(crate) fn run(command: &mut Command, stdin: &[u8]) -> Ran {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut input = child.stdin.take().expect("stdin is a pipe");
    let stdout = read(child.stdout.take().expect("stdout is a pipe"));
    let stderr = read(child.stderr.take().expect("stderr is a pipe"));
    let process = Process::new(child);
    let status = std::thread::scope(|scope| {
        // It may end without having read everything.
        scope.spawn(move || drop(input.write_all(stdin)));
        let status = process.wait_exit(TIMEOUT);
        // Dropped before the scope ends: a program that hangs must not hold the writer for ever.
        drop(process);
        status
    });
    let status = status.unwrap_or_else(|| panic!("{command:?} still ran after {TIMEOUT:?}"));
    Ran {
        code: status.code(),
        stdout: stdout.join().expect("it only reads"),
        stderr: stderr.join().expect("it only reads"),
    }
}

/// Starts one that runs until its process is dropped.
pub(crate) fn start(command: &mut Command) -> (Process, ChildStdout) {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = child.stdout.take().expect("stdout is a pipe");
    (Process::new(child), stdout)
}

fn read(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A pipe that breaks has said what it said.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
