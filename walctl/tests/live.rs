//! `walctl dump` on a directory that changes while it is read: a server writes, rotates, and removes what it no longer
//! needs.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Output, Stdio};
use std::time::Duration;

use idem_wal::lock::DirLock;
use support::*;

/// Three of these fill a segment, and a dozen the pipe: a dump that nobody reads stands still near its beginning.
const VALUE: &[u8] = &[b'v'; 20_000];

fn group(log: &mut TestLog, number: u64) {
    log.group(&[(number, 0, string(b"key", VALUE))]);
}

/// Removes all segments but the newest `kept`, oldest first, as retention does.
fn retain(log: &TestLog, kept: usize) {
    let segments = log.segments();
    for path in &segments[..segments.len().saturating_sub(kept)] {
        std::fs::remove_file(path).unwrap();
    }
}

/// The numbers of the groups in a dump.
fn numbers(text: &str) -> Vec<u64> {
    text.lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|line| line["name"] == "StringPut")
        .map(|line| line["time_ms"].as_u64().unwrap() - START_MS)
        .collect()
}

/// Checks that whatever is left out between two groups is noted; returns how often that is.
fn check_gaps(found: &[u64], words: &str) -> usize {
    assert!(found.is_sorted(), "{found:?}");
    let gaps = found.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    let notes = words.matches("walctl: note: lsn").count();
    assert_eq!(gaps, notes, "{found:?}: {words}");
    gaps
}

/// A dump of 60 groups. When it has begun, most of them go, and 20 come.
fn dump_while_it_changes(log: &mut TestLog) -> Output {
    let mut child = command(&["dump", log.path().to_str().unwrap(), "--json", "--values"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    printed.read_line(&mut text).unwrap();
    retain(log, 6);
    (60..80).for_each(|number| group(log, number));
    printed.read_to_string(&mut text).unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stdout = text.into_bytes();
    output
}

fn check_removed(live: bool) {
    let mut log = TestLog::new(0);
    (0..60).for_each(|number| group(&mut log, number));
    let lock = live.then(|| DirLock::exclusive(log.path(), Duration::ZERO).unwrap());
    let output = dump_while_it_changes(&mut log);
    drop(lock);

    let words = stderr(&output);
    let found = numbers(&stdout(&output));
    assert!(check_gaps(&found, &words) > 0, "the pipe had room for everything");
    assert_eq!((found.first(), found.last()), (Some(&0), Some(&79)));
    assert_eq!(words.contains("walctl verify"), !live, "{words}");
    assert_eq!(code(&output), i32::from(!live), "{words}");
}

#[test]
fn what_a_server_removes_meanwhile_is_a_note_and_what_it_adds_is_read() {
    check_removed(true);
}

#[test]
fn what_goes_without_a_server_is_missing() {
    check_removed(false);
}

#[test]
fn a_log_that_is_written_and_retained_all_the_time_dumps_to_an_end() {
    let mut log = TestLog::new(0);
    let mut next = 0;
    let mut write = |log: &mut TestLog, groups: u64| {
        for number in next..next + groups {
            group(log, number);
        }
        next += groups;
        next
    };
    let _server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    let out = tempfile::tempdir().unwrap();
    let mut gaps = 0;
    for round in 0..40 {
        let begun = write(&mut log, 60);
        let path = out.path().join(round.to_string());
        let mut child = command(&["dump", log.path().to_str().unwrap(), "--json", "--values"])
            .stdout(File::create(&path).unwrap())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Another part of the log goes at another moment of the reading each time; now and then all that can.
        let mut kept = 40;
        while child.try_wait().unwrap().is_none() {
            write(&mut log, 1 + round % 3);
            kept -= kept.min(1 + usize::try_from(round).unwrap() % 10);
            retain(&log, kept.max(1));
        }
        let output = child.wait_with_output().unwrap();
        let words = stderr(&output);
        assert_eq!(code(&output), 0, "round {round}: {words}");
        let found = numbers(&std::fs::read_to_string(path).unwrap());
        gaps += check_gaps(&found, &words);
        assert!(
            found.last() >= Some(&(begun - 1)),
            "round {round}: {:?} of {begun}",
            found.last()
        );
    }
    assert!(gaps > 0, "nothing went in the reader's way in any round");
}
