//! What the real binary makes of the log that it finds: the state in it, what it says about it, what it refuses.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

mod support;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::Signal;
use support::{Server, arguments, contents, field, run, text};

#[test]
fn after_a_kill_everything_acknowledged_is_there() {
    for policy in ["always", "everysec", "no"] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), &["--appendfsync", policy]);
        let mut client = server.connect();
        for key in 0..50 {
            client.check(&format!("IDEM {key} BEGIN f o 60000"), "*1\r\n$8\r\nacquired\r\n");
        }
        server.kill();
        let server = Server::start(dir.path(), &["--appendfsync", policy]);
        assert_eq!(field(&server.ready, "records"), "51", "{policy}");
        let mut client = server.connect();
        for key in 0..50 {
            client.check(&format!("IDEM {key} BEGIN f o 60000"), "*1\r\n$7\r\npending\r\n");
        }
        assert_eq!(client.info("wal_epoch"), "2");
    }
}

#[test]
fn a_log_that_needs_more_databases() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.check("SELECT 11", "+OK\r\n");
    client.check("SET k v", "+OK\r\n");
    server.terminate().check(0, &[]);
    let before = contents(dir.path());
    let name = text(dir.path());
    run(&arguments(&name, &["--databases", "11"])).check(2, &["databases", "--databases 12"]);
    assert_eq!(contents(dir.path()), before);
    let server = Server::start(dir.path(), &["--databases", "12"]);
    server.connect().check("DBSIZE", ":0\r\n");
}

#[test]
fn a_damaged_log_is_refused_and_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.check("SET first value-of-the-first", "+OK\r\n");
    client.check("SET second value", "+OK\r\n");
    server.terminate().check(0, &[]);
    let segment = dir.path().join("wal").join(format!("{:020}.wal", 0));
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes
        .windows(18)
        .position(|window| window == b"value-of-the-first")
        .unwrap();
    bytes[at] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let before = contents(dir.path());
    let name = text(dir.path());
    let ended = run(&arguments(&name, &[]));
    ended.check(
        3,
        &[
            "F ROT",
            "offset",
            "lsn",
            "crc",
            "walctl verify",
            "nothing was changed",
        ],
    );
    assert_eq!(contents(dir.path()), before);
}

#[test]
fn an_archived_log_is_refused_with_the_command_that_makes_a_directory_of_it() {
    let store = tempfile::tempdir().unwrap();
    let history = store.path().join("history");
    let server = Server::start(&history, &[]);
    server.connect().check("SET k v", "+OK\r\n");
    server.terminate().check(0, &[]);
    std::fs::rename(history.join("control"), history.join("control.archived")).unwrap();
    std::fs::write(history.join("manifest.json"), "{}").unwrap();
    let before = contents(&history);
    let name = text(&history);
    let from = format!("walctl restore --from {name} --into NEW");
    run(&arguments(&name, &[])).check(3, &["G HOLE", &from, "nothing was changed"]);
    assert_eq!(contents(&history), before);
    // The store around it is no log at all, which a new one would begin in.
    let server = Server::start(store.path(), &[]);
    server.logged("WARN `walctl archive` keeps logs in");
}

/// How many lines of the log say it.
fn lines_with(log: &str, words: &str) -> usize {
    log.lines().filter(|line| line.contains(words)).count()
}

#[test]
fn what_stands_beside_the_verdict_is_a_warning_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    server.connect().check("SET first value-of-the-first", "+OK\r\n");
    server.terminate().check(0, &[]);
    // One of the two copies of the header, and a file that looks like a snapshot.
    let segment = dir.path().join("wal").join(format!("{:020}.wal", 0));
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    std::fs::write(dir.path().join("snap").join("mine.snap"), "keep me").unwrap();
    let warnings = [
        "WARN only one copy of the segment's header is good; file wal/00000000000000000000.wal",
        "WARN not the name of a snapshot; it is not used; file snap/mine.snap",
    ];
    let ended = Server::start(dir.path(), &[]).terminate();
    ended.check(0, &["A CLEAN"]);
    for words in warnings {
        assert_eq!(lines_with(&ended.stderr, words), 1, "{words} in {}", ended.stderr);
    }
    // A refusal says it too: the person who looks for what is left wants to know all of it.
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(5).position(|window| window == b"first").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let ended = run(&arguments(&text(dir.path()), &[]));
    ended.check(3, &["F ROT"]);
    for words in warnings {
        assert_eq!(lines_with(&ended.stderr, words), 1, "{words} in {}", ended.stderr);
    }
}

#[test]
fn a_signal_while_the_log_is_read_ends_the_start_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    server.connect().check("SET k v", "+OK\r\n");
    server.kill();
    // Reading `control` waits for as long as nobody writes into it: a recovery that takes very long.
    let (control, kept) = (dir.path().join("control"), dir.path().join("kept"));
    std::fs::rename(&control, &kept).unwrap();
    mkfifoat(CWD, &control, Mode::RUSR | Mode::WUSR).unwrap();
    for signal in [Signal::TERM, Signal::INT] {
        let name = text(dir.path());
        let mut server = Server::spawn(&arguments(&name, &[]));
        server.logged("reading the log in");
        let before = contents(&dir.path().join("wal"));
        server.signal(signal);
        let ended = server.wait();
        ended.check(0, &["stopped while the log was being read"]);
        assert_eq!(ended.stdout, "", "it was never ready");
        assert_eq!(contents(&dir.path().join("wal")), before);
    }
    std::fs::rename(&kept, &control).unwrap();
    let server = Server::start(dir.path(), &[]);
    server.connect().check("GET k", "$1\r\nv\r\n");
    server.terminate().check(0, &["the log is clean"]);
}

#[test]
fn junk_at_the_end_is_cut_off_unless_strict() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    server.connect().check("SET k v", "+OK\r\n");
    server.kill();
    let segment = dir.path().join("wal").join(format!("{:020}.wal", 0));
    let mut bytes = std::fs::read(&segment).unwrap();
    let end = bytes.len();
    bytes[end - 16..].copy_from_slice(b"not a log record");
    std::fs::write(&segment, &bytes).unwrap();
    let before = contents(dir.path());
    let name = text(dir.path());
    run(&arguments(&name, &["--strict-recovery"])).check(3, &["E UNPROVEN_TAIL", "--strict-recovery"]);
    assert_eq!(contents(dir.path()), before);
    let server = Server::start(dir.path(), &[]);
    server.logged("E UNPROVEN_TAIL");
    server.connect().check("GET k", "$1\r\nv\r\n");
}
