//! `walctl dump --follow` beside a real server: through rotations, removed segments, a kill and restarts, each record comes
//! once and in order.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idem_protocol::resp::value::Value;
use idem_testsuite::files;
use idem_testsuite::process::kill::Process;
use idem_testsuite::process::{Client, Idemd, IdemdOptions, Policy, binaries};
use idem_testsuite::testdir::TestDir;
use rustix::process::Signal;
use serde_json::Value as Json;

/// How long a line may take. Generous: a busy machine must not fail a test.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Follow {
    process: Process,
    lines: Receiver<String>,
    notes: Receiver<String>,
    /// Where each record that was printed begins.
    lsns: Vec<u64>,
}

fn lines_of(source: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(source).lines() {
            let line = line.expect("output is text");
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Follow {
    fn start(dir: &Path, options: &[&str]) -> Follow {
        let mut child = Command::new(binaries::walctl())
            .args(["dump", "--follow", "--json"])
            .args(options)
            .arg(dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("walctl starts");
        Follow {
            lines: lines_of(child.stdout.take().expect("stdout is a pipe")),
            notes: lines_of(child.stderr.take().expect("stderr is a pipe")),
            process: Process::new(child),
            lsns: Vec::new(),
        }
    }

    /// The next record that is no mere time.
    fn next(&mut self) -> Json {
        loop {
            let line = self.lines.recv_timeout(TIMEOUT).expect("a line within the time");
            let line: Json = serde_json::from_str(&line).expect("JSON stays JSON");
            self.lsns
                .push(line["lsn"].as_u64().expect("each line has an lsn"));
            if line["name"] != "Clock" {
                return line;
            }
        }
    }

    fn expect_epoch(&mut self, epoch: u64) {
        let line = self.next();
        assert_eq!(
            (&line["name"], line["epoch"].as_u64()),
            (&Json::from("EpochStart"), Some(epoch))
        );
    }

    /// Waits for the two transitions of each of these keys, in order.
    fn expect_keys(&mut self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            for state in ["pending", "completed"] {
                let line = self.next();
                assert_eq!(
                    (&line["key"], &line["state"]),
                    (&Json::from(key(number)), &Json::from(state))
                );
            }
        }
    }
}

fn key(number: u32) -> String {
    format!("order:{number}")
}

/// Begins and completes keys with results of 20 KB; each is acknowledged.
fn work(client: &mut Client, numbers: std::ops::Range<u32>) {
    let result = vec![b'r'; 20_000];
    for number in numbers {
        let key = key(number);
        let begin: [&[u8]; 6] = [b"IDEM", key.as_bytes(), b"BEGIN", b"print", b"owner", b"600000"];
        let reply = client.call(&begin).expect("nothing fails");
        assert!(
            matches!(&reply, Value::Array(items) if items.first() == Some(&Value::Bulk(b"acquired".to_vec()))),
            "{reply:?}"
        );
        let complete: [&[u8]; 6] = [b"IDEM", key.as_bytes(), b"COMPLETE", b"print", b"owner", &result];
        assert_eq!(client.call(&complete).expect("nothing fails"), Value::Int(1));
    }
}

#[test]
fn each_record_comes_once_through_rotations_a_kill_and_restarts() {
    let dir = TestDir::new("follow", 1);
    let options = IdemdOptions::default().policy(Policy::Always).small_files();
    let mut server = Idemd::start(&dir.data(), &options);
    let mut follow = Follow::start(&dir.data(), &[]);
    follow.expect_epoch(1);
    let first = files::segments(&dir.data());
    let mut written = 0;
    for round in 2..6 {
        // Two mebibytes: two rotations or more, snapshots, and segments that go. What was written is waited for now and then,
        // so that nothing goes before it was read.
        for _ in 0..10 {
            work(&mut server.client(), written..written + 10);
            follow.expect_keys(written..written + 10);
            written += 10;
        }
        if round % 2 == 0 {
            server.sigkill();
        } else {
            server.stop();
        }
        server = Idemd::start(&dir.data(), &options);
        follow.expect_epoch(round);
    }
    assert!(
        !files::segments(&dir.data()).contains(&first[0]),
        "the first segment is gone"
    );
    assert!(
        follow.lsns.windows(2).all(|pair| pair[0] < pair[1]),
        "each record comes once, in order"
    );
    server.stop();
    follow.process.signal(Signal::INT);
    let status = follow.process.wait_exit(TIMEOUT).expect("it ends");
    assert_eq!(status.code(), Some(0));
    assert_eq!(follow.notes.iter().collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_time_that_is_over_ends_it_while_the_server_runs_on() {
    let dir = TestDir::new("follow-until", 1);
    let options = IdemdOptions::default().policy(Policy::Always);
    let server = Idemd::start(&dir.data(), &options);
    // Nothing was written yet, and then something was: either way the log is quiet when the time is over.
    for keys in [0..0, 0..5] {
        work(&mut server.client(), keys.clone());
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let limit = (since.as_millis() + 500).to_string();
        let mut follow = Follow::start(&dir.data(), &["--to-time", &limit]);
        follow.expect_epoch(1);
        follow.expect_keys(keys);
        let status = follow.process.wait_exit(TIMEOUT).expect("it ends by itself");
        assert_eq!(status.code(), Some(0));
        assert_eq!(follow.notes.iter().collect::<Vec<_>>(), [""; 0]);
    }
    server.stop();
}
