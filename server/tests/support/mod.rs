//! The real `idemd` as a process, and a client that compares bytes.
//!
//! Nothing here sleeps where an event can be awaited: a start is awaited by the ready line, an end by the exit, a log line by
//! the line itself. Whatever a test leaves behind (a process, a directory) goes when its value is dropped.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part of this")]
#![allow(
    clippy::unwrap_used,
    reason = "in a helper of tests as in a test: what is not so fails the test"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take before the test gives up.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// The exit code, and words that stderr has to hold.
    pub fn check(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in {self:?}");
        }
    }
}

/// Runs `idemd` until it ends by itself.
pub fn run(arguments: &[&str]) -> Ended {
    let mut server = Server::spawn(arguments);
    server.wait()
}

/// The arguments of a start in `dir` on a free port.
pub fn arguments<'a>(dir: &'a str, extra: &[&'a str]) -> Vec<&'a str> {
    [
        &["--port", "0", "--dir", dir, "--wal-segment-bytes", "1mb"],
        extra,
    ]
    .concat()
}

pub fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Every file below `dir` with its length and a checksum, except spares, which a running server makes at any time: to prove
/// that nothing changed.
pub fn contents(dir: &Path) -> Vec<(String, usize, u64)> {
    use std::hash::{DefaultHasher, Hasher};
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else if !text(&path).contains("/spare-") {
            let bytes = std::fs::read(&path).unwrap();
            let mut hasher = DefaultHasher::new();
            hasher.write(&bytes);
            all.push((text(&path), bytes.len(), hasher.finish()));
        }
    }
    all.sort();
    all
}

/// Lines that a stream has given so far.
#[derive(Default)]
struct Lines {
    text: Mutex<(String, bool)>,
    more: Condvar,
}

impl Lines {
    fn follow(stream: impl Read + Send + 'static) -> Arc<Lines> {
        let lines = Arc::new(Lines::default());
        let writer = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { break };
                let mut text = writer.text.lock().unwrap();
                text.0.push_str(&line);
                text.0.push('\n');
                writer.more.notify_all();
            }
            writer.text.lock().unwrap().1 = true;
            writer.more.notify_all();
        });
        lines
    }

    /// The first line with `word` in it; none when the stream ended without one.
    fn find(&self, word: &str) -> Option<String> {
        let give_up = Instant::now() + PATIENCE;
        let mut text = self.text.lock().unwrap();
        loop {
            if let Some(line) = text.0.lines().find(|line| line.contains(word)) {
                return Some(line.to_owned());
            }
            let left = give_up.saturating_duration_since(Instant::now());
            if text.1 || left.is_zero() {
                return None;
            }
            text = self.more.wait_timeout(text, left).unwrap().0;
        }
    }

    /// Everything, once the stream has ended.
    fn all(&self) -> String {
        let mut text = self.text.lock().unwrap();
        while !text.1 {
            let (next, timeout) = self.more.wait_timeout(text, PATIENCE).unwrap();
            assert!(!timeout.timed_out(), "the stream does not end");
            text = next;
        }
        text.0.clone()
    }
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    stdout: Arc<Lines>,
    stderr: Arc<Lines>,
    pub ready: String,
    pub address: SocketAddr,
}

impl Server {
    /// Starts on a free port and waits for the ready line.
    pub fn start(dir: &Path, extra: &[&str]) -> Server {
        let dir = dir.display().to_string();
        let mut arguments = vec!["--port", "0", "--dir", &dir, "--wal-segment-bytes", "1mb"];
        arguments.extend_from_slice(extra);
        Server::spawn(&arguments).wait_ready()
    }

    /// The same, in a process that may open only so many files, and cannot change that.
    pub fn start_with_files(dir: &Path, files: usize, extra: &[&str]) -> Server {
        let script = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_idemd"), "--port", "0", "--dir"]);
        command.arg(dir).args(["--wal-segment-bytes", "1mb"]).args(extra);
        Server::run(command).wait_ready()
    }

    fn wait_ready(mut self) -> Server {
        let Some(ready) = self.stdout.find("ready ") else {
            panic!("not ready: {:?}", self.wait())
        };
        self.address = field(&ready, "addr").parse().unwrap();
        self.ready = ready;
        self
    }

    /// Starts and waits for nothing.
    pub fn spawn(arguments: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_idemd"));
        command.args(arguments);
        Server::run(command)
    }

    fn run(mut command: Command) -> Server {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = Lines::follow(child.stdout.take().unwrap());
        let stderr = Lines::follow(child.stderr.take().unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Server {
            child,
            stdout,
            stderr,
            ready: String::new(),
            address,
        }
    }

    /// Waits for a log line with `word` in it.
    pub fn logged(&self, word: &str) -> String {
        self.stderr
            .find(word)
            .unwrap_or_else(|| panic!("no {word:?} in the log:\n{}", self.stderr.text.lock().unwrap().0))
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// SIGTERM, and the end.
    pub fn terminate(mut self) -> Ended {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// SIGKILL, and the end.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn wait(&mut self) -> Ended {
        let give_up = Instant::now() + PATIENCE;
        let status = loop {
            // The one thing without an event to wait for that also has a time limit.
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() >= give_up => {
                    panic!("the server does not end: {:?}", self.stderr.text)
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        Ended {
            code: status.code(),
            stdout: self.stdout.all(),
            stderr: self.stderr.all(),
        }
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Descriptors that are open.
    pub fn descriptors(&self) -> usize {
        let all = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        all.count()
    }

    /// Resident bytes.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value of `name=` in the ready line.
pub fn field<'a>(ready: &'a str, name: &str) -> &'a str {
    let mark = format!("{name}=");
    let found = ready.split(' ').find_map(|word| word.strip_prefix(mark.as_str()));
    found.unwrap_or_else(|| panic!("no {name} in {ready:?}"))
}

/// A connection that sends and expects bytes.
pub struct Client(pub TcpStream);

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client(stream)
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Sends one command as an array of bulk strings.
    pub fn command(&mut self, arguments: &[&[u8]]) {
        self.send(&encode(arguments));
    }

    /// The next bytes have to be these.
    pub fn expect(&mut self, expected: &[u8]) {
        let mut bytes = vec![0; expected.len()];
        self.0.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(expected));
    }

    /// Sends an inline command and compares the reply.
    pub fn check(&mut self, line: &str, expected: &str) {
        self.send(format!("{line}\r\n").as_bytes());
        self.expect(expected.as_bytes());
    }

    /// The next line, without its end.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).unwrap()
    }

    /// The text of the next bulk string.
    pub fn bulk(&mut self) -> String {
        let bytes: usize = self.line().strip_prefix('$').unwrap().parse().unwrap();
        let mut text = vec![0; bytes + 2];
        self.0.read_exact(&mut text).unwrap();
        text.truncate(bytes);
        String::from_utf8(text).unwrap()
    }

    /// One field of INFO.
    pub fn info(&mut self, field: &str) -> String {
        self.send(b"INFO\r\n");
        let text = self.bulk();
        let mark = format!("{field}:");
        let value = text.lines().find_map(|line| line.strip_prefix(mark.as_str()));
        value.unwrap_or_else(|| panic!("no {field} in {text}")).to_owned()
    }

    /// Everything until the server closes; an abrupt end counts as an end.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            match self.0.read(&mut chunk) {
                Ok(0) => return all,
                Ok(count) => all.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return all,
                Err(error) => panic!(
                    "the server does not close: {error}; got {}",
                    String::from_utf8_lossy(&all)
                ),
            }
        }
    }

    pub fn finish(&self) {
        self.0.shutdown(Shutdown::Write).unwrap();
    }
}

/// A command as an array of bulk strings.
pub fn encode(arguments: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
