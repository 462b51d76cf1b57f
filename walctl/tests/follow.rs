//! `walctl dump --follow`: what is written comes, whatever happens to the segments; what is taken back is announced.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

use support::follow::{Follow, TIMEOUT};
use support::*;

/// Three of these fill a segment.
const VALUE: &[u8] = &[b'v'; 20_000];

fn group(log: &mut TestLog, ms: u64, key: &str) {
    log.group(&[(ms, 0, string(key.as_bytes(), VALUE))]);
}

fn write_at(path: &Path, at: usize, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, at as u64).unwrap();
}

#[test]
fn what_is_written_comes_through_rotations_removals_and_restarts() {
    let mut log = TestLog::new(0);
    group(&mut log, 0, "a");
    let follow = Follow::start(log.path(), &["--frames"]);
    let keys = |count: usize| -> Vec<String> {
        let mut found = Vec::new();
        while found.len() < count {
            let line = follow
                .lines
                .recv_timeout(TIMEOUT)
                .expect("a line within the time");
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            found.extend(line["key"].as_str().or(line["name"].as_str()).map(str::to_owned));
        }
        found
    };
    assert_eq!(keys(2), ["EpochStart", "a"]);
    let mut written = Vec::new();
    for number in 0..14 {
        let key = format!("key-{number}");
        group(&mut log, number, &key);
        written.push(key);
        // At times one after another is read, at times several at once.
        if number % 3 == 0 {
            assert_eq!(keys(written.len()), written);
            written.clear();
            let segments = log.segments();
            for path in &segments[..segments.len() - 1] {
                fs::remove_file(path).unwrap();
            }
        }
    }
    assert_eq!(keys(written.len()), written);
    assert_eq!(follow.stop(), [""; 0]);
}

#[test]
fn a_restart_goes_on_in_the_same_log() {
    let mut log = TestLog::new(0);
    let follow = Follow::start(log.path(), &[]);
    follow.expect(&["EpochStart"]);
    for round in 0..4 {
        group(&mut log, round, "before");
        follow.expect(&["before"]);
        match round {
            0 => log.seal(),
            1 => log.shut_down(),
            2 => {
                // The begin of a group, as a kill leaves it.
                let path = log.segments().pop().unwrap();
                let bytes = fs::read(&path).unwrap();
                let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
                write_at(&path, used.next_multiple_of(8), b"IFRM\x10\x20");
            }
            _ => {}
        }
        log.reopen();
        follow.expect(&["EpochStart"]);
    }
    assert_eq!(follow.stop(), [""; 0]);
}

#[test]
fn what_a_start_takes_back_is_announced_and_what_comes_instead_is_printed() {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, string(b"kept", b"1"))]);
    let kept = log.end();
    log.write(&[(2, 0, string(b"lost-1", b"2")), (2, 0, string(b"lost-2", b"2"))]);
    log.write(&[(3, 0, string(b"lost-3", b"3"))]);
    let end = log.end();
    let follow = Follow::start(log.path(), &[]);
    follow.expect(&["EpochStart", "kept", "lost-1", "lost-2", "lost-3"]);
    // As a loss of power would: the pages of the last groups never were on the disk.
    let path = log.segments().pop().unwrap();
    let at = log.find(b"lost-1") - 32 - 24 - 4;
    write_at(&path, at, &[0; 400]);
    log.reopen();
    log.group(&[(4, 0, string(b"new", b"4"))]);
    follow.expect(&["EpochStart", "new"]);
    let note = follow.note();
    for part in [
        format!("lsn {kept} to {end}: 3 records "),
        format!("goes on at lsn {kept}"),
    ] {
        assert!(note.contains(&part), "{part:?} in {note}");
    }
    // A tail of the same lengths in the same places is another one all the same.
    log.write(&[(5, 0, string(b"lost-4", b"5"))]);
    follow.expect(&["lost-4"]);
    let at = log.find(b"lost-4") - 32 - 24 - 4;
    write_at(&path, at, &[0; 400]);
    log.reopen();
    follow.expect(&["EpochStart"]);
    assert!(follow.note().contains(": 1 record "));
    assert_eq!(follow.stop(), [""; 0]);
}

#[test]
fn going_back_over_segments_is_announced_from_where_the_logs_part() {
    let mut log = TestLog::new(0);
    for (number, key) in ["a", "b", "c", "d"].iter().enumerate() {
        group(&mut log, number as u64, key);
    }
    // The fork: in the segment that is the newest now.
    let fork = log.end();
    let segment = log.segments().pop().unwrap();
    let before = segment.with_extension("tmp");
    fs::copy(&segment, &before).unwrap();
    for (number, key) in ["e", "f", "g", "h", "i"].iter().enumerate() {
        group(&mut log, 10 + number as u64, key);
    }
    let end = log.end();
    let follow = Follow::start(log.path(), &[]);
    follow.expect(&["EpochStart", "a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    // Later segments go, the newest one first; then the one with the fork gets what it held there.
    let segments = log.segments();
    assert!(segments.last() > Some(&segment));
    for path in segments.iter().rev().take_while(|path| **path != segment) {
        fs::remove_file(path).unwrap();
    }
    fs::rename(&before, &segment).unwrap();
    let mut parts = vec![follow.note()];
    // Depending on the moment, once for all of it or first for the later segments.
    while !parts.last().unwrap().contains(&format!("goes on at lsn {fork}")) {
        parts.push(follow.note());
    }
    assert!(parts[0].contains(&format!(" to {end}: ")), "{parts:?}");
    assert_eq!(follow.stop(), [""; 0]);
}

#[test]
fn a_segment_that_is_written_anew_with_the_same_records_is_the_same_log() {
    let mut log = TestLog::new(0);
    group(&mut log, 1, "a");
    let follow = Follow::start(log.path(), &[]);
    follow.expect(&["EpochStart", "a"]);
    // Another file under the same name.
    let path = log.segments().pop().unwrap();
    let copy = path.with_extension("tmp");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    log.reopen();
    follow.expect(&["EpochStart"]);
    group(&mut log, 2, "b");
    follow.expect(&["b"]);
    assert_eq!(follow.stop(), [""; 0]);
}

#[test]
fn a_log_of_another_cluster_is_not_taken_for_this_one() {
    let mut log = TestLog::new(0);
    group(&mut log, 1, "a");
    let follow = Follow::start(log.path(), &[]);
    follow.expect(&["EpochStart", "a"]);
    let mut other = TestLog::new(100);
    group(&mut other, 1, "b");
    let path = log.segments().pop().unwrap();
    let copy = path.with_extension("tmp");
    fs::copy(other.segments().pop().unwrap(), &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    let (code, notes) = follow.end();
    assert_eq!(code, 1);
    assert!(notes[0].contains("of cluster "), "{notes:?}");
}

#[test]
fn who_has_seen_enough_ends_it_with_success() {
    let mut log = TestLog::new(0);
    group(&mut log, 1, "a");
    let follow = Follow::start(log.path(), &[]);
    follow.expect(&["EpochStart", "a"]);
    follow.signal(rustix::process::Signal::TERM);
    assert_eq!(follow.end(), (0, Vec::new()));

    // The reader goes while nothing is written.
    let mut child = command(&["dump", log.path().to_str().unwrap(), "--follow"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    printed.read_line(&mut line).unwrap();
    printed.read_line(&mut line).unwrap();
    drop(printed);
    assert_eq!(child.wait().unwrap().code(), Some(0));

    // The reader stays and does not read: the pipe is full.
    (1..11).for_each(|number| group(&mut log, number, "b"));
    let mut child = command(&["dump", log.path().to_str().unwrap(), "--follow", "--values"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut byte = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    // Without waiting for what nobody takes.
    let stdout = child.stdout.take();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(stdout);
}

#[test]
fn damage_is_waited_at_or_passed() {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, string(b"first", b"1"))]);
    log.group(&[(2, 0, string(b"second", b"2"))]);
    let (path, at) = (log.segments().pop().unwrap(), log.find(b"second"));
    write_at(&path, at, b"?");
    let waiting = Follow::start(log.path(), &[]);
    let passing = Follow::start(log.path(), &["--past-damage"]);
    waiting.expect(&["EpochStart", "first"]);
    passing.expect(&["EpochStart", "first"]);
    for follow in [&waiting, &passing] {
        let note = follow.note();
        assert!(note.contains("CRC ") && note.contains("waiting"), "{note}");
    }
    // It could have become whole; with a later group it will not.
    log.group(&[(3, 0, string(b"third", b"3"))]);
    passing.expect(&["third"]);
    assert!(passing.note().starts_with("walctl: skipped: "));
    log.group(&[(4, 0, string(b"fourth", b"4"))]);
    passing.expect(&["fourth"]);
    passing.signal(rustix::process::Signal::INT);
    let (code, notes) = passing.end();
    assert_eq!(code, 4, "{notes:?}");
    // Somebody mends it.
    write_at(&path, at, b"s");
    waiting.expect(&["second", "third", "fourth"]);
    assert_eq!(waiting.stop(), [""; 0]);
}

#[test]
fn a_directory_that_is_exchanged_is_gone_on_with() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("data");
    let mut log = TestLog::new(0);
    group(&mut log, 1, "a");
    copy_tree(log.path(), &at);
    let follow = Follow::start(&at, &[]);
    follow.expect(&["EpochStart", "a"]);

    // The same log, further on.
    let end = log.end();
    group(&mut log, 2, "b");
    let next = directory.path().join("next");
    copy_tree(log.path(), &next);
    fs::rename(&at, directory.path().join("old-1")).unwrap();
    let note = follow.note();
    assert!(note.contains("waiting for one"), "{note}");
    fs::rename(&next, &at).unwrap();
    follow.expect(&["b"]);
    let note = follow.note();
    assert!(note.contains(&format!("read from lsn {end} on")), "{note}");

    // Another wal in the same directory.
    group(&mut log, 3, "c");
    let next = directory.path().join("next");
    copy_tree(log.path(), &next);
    fs::rename(at.join("wal"), directory.path().join("old-2")).unwrap();
    fs::rename(next.join("wal"), at.join("wal")).unwrap();
    follow.expect(&["c"]);
    let mut note = follow.note();
    if note.contains("waiting for one") {
        note = follow.note();
    }
    assert!(note.contains("read from lsn "), "{note}");

    // Another log.
    let mut other = TestLog::new(100);
    group(&mut other, 1, "x");
    let next = directory.path().join("other");
    copy_tree(other.path(), &next);
    fs::rename(&at, directory.path().join("old-3")).unwrap();
    fs::rename(&next, &at).unwrap();
    follow.expect(&["EpochStart", "x"]);
    let mut note = follow.note();
    if note.contains("waiting for one") {
        note = follow.note();
    }
    assert!(
        note.contains(" of cluster ") && note.contains("read from lsn 0 on"),
        "{note}"
    );
    assert_eq!(follow.stop(), [""; 0]);
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
