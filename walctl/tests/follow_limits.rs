//! `walctl dump --follow` with a limit: it ends when nothing that is wanted can come any more, and not before.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use idem_wal::lock::DirLock;
use support::follow::Follow;
use support::*;

fn group(log: &mut TestLog, ms: u64, key: &str) {
    log.group(&[(ms, 0, string(key.as_bytes(), b"value"))]);
}

fn write_at(path: &Path, at: usize, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, at as u64).unwrap();
}

#[test]
fn limits_end_it() {
    let mut log = TestLog::new(0);
    group(&mut log, 10, "a");
    let end = log.end().to_string();
    // The log is there already.
    let follow = Follow::start(log.path(), &["--to-lsn", &end]);
    follow.expect(&["EpochStart", "a"]);
    assert_eq!(follow.end(), (0, Vec::new()));

    let time = (START_MS + 20).to_string();
    let follow = Follow::start(log.path(), &["--to-time", &time, "--from-lsn", "1"]);
    follow.expect(&["a"]);
    group(&mut log, 20, "b");
    follow.expect(&["b"]);
    group(&mut log, 21, "c");
    assert_eq!(follow.end(), (0, Vec::new()));

    let empty = tempfile::tempdir().unwrap();
    let (code, notes) = Follow::start(empty.path(), &[]).end();
    assert_eq!((code, notes[0].contains("no segment")), (1, true), "{notes:?}");
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap().as_millis()).unwrap()
}

#[test]
fn a_time_that_is_over_ends_it_on_a_log_where_nothing_is_written() {
    let mut log = TestLog::new(0);
    group(&mut log, 10, "a");
    let past = (START_MS + 20).to_string();
    let follow = || Follow::start(log.path(), &["--to-time", &past]);
    // No server: what comes later gets later times.
    let one = follow();
    one.expect(&["EpochStart", "a"]);
    assert_eq!(one.end(), (0, Vec::new()));

    // A server that may still be writing: a seal says that it is not. Behind it, the time alone may be written.
    let _server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    let one = follow();
    one.expect(&["EpochStart", "a"]);
    assert_eq!(
        one.lines.recv_timeout(Duration::from_secs(2)),
        Err(RecvTimeoutError::Timeout),
        "it ended before the seal"
    );
    log.seal();
    assert_eq!(one.end(), (0, Vec::new()));
    log.group(&[(11, 0, idem_protocol::wal::Record::Clock)]);
    let one = Follow::start(log.path(), &["--to-time", &past]);
    one.expect(&["EpochStart", "a", "Clock"]);
    assert_eq!(one.end(), (0, Vec::new()));
    // A server that has started and is asked for nothing.
    log.reopen();
    let one = Follow::start(log.path(), &["--to-time", &past]);
    one.expect(&["EpochStart", "a", "Clock", "EpochStart"]);
    let asked = std::time::Instant::now();
    assert_eq!(one.end(), (0, Vec::new()));
    assert!(
        asked.elapsed() < Duration::from_secs(9),
        "it waited as for a slow disk"
    );
}

#[test]
fn a_time_that_is_to_come_is_waited_for() {
    let mut log = TestLog::new(0);
    group(&mut log, 10, "a");
    log.seal();
    let _server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    let limit = now_ms() + 1_500;
    let follow = Follow::start(log.path(), &["--to-time", &limit.to_string()]);
    follow.expect(&["EpochStart", "a"]);
    group(&mut log, 20, "b");
    follow.expect(&["b"]);
    log.seal();
    assert_eq!(follow.end(), (0, Vec::new()));
    assert!(
        now_ms() > limit + 1_000,
        "a record of that time could still have come"
    );
}

#[test]
fn damage_before_the_limit_of_time_is_no_quiet_end() {
    let mut log = TestLog::new(0);
    group(&mut log, 10, "a");
    log.group(&[(12, 0, string(b"b", b"1"))]);
    let (path, at) = (log.segments().pop().unwrap(), log.find(b"b\x00\x00\x00\x00"));
    write_at(&path, at, b"?");
    let past = (START_MS + 20).to_string();
    let follow = Follow::start(log.path(), &["--to-time", &past]);
    follow.expect(&["EpochStart", "a"]);
    let (code, notes) = follow.end();
    assert_eq!(code, 1, "{notes:?}");
    assert!(notes[0].contains("a group with a bad record"), "{notes:?}");
    let follow = Follow::start(log.path(), &["--to-time", &past, "--past-damage"]);
    follow.expect(&["EpochStart", "a"]);
    let (code, notes) = follow.end();
    assert_eq!(code, 4, "{notes:?}");
}
