//! `walctl archive` where a part of the log is damaged, missing, or was removed before it was copied.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::{Lsn, UnixMs};
use support::histories::records;
use support::snapshots::{cluster_of, write_snapshot};
use support::*;

const HEADER_BYTES: usize = 4096;

fn archive(dir: &Path, store: &Path, options: &[&str]) -> Output {
    let arguments = [
        "archive",
        dir.to_str().unwrap(),
        "--into",
        store.to_str().unwrap(),
        "--yes",
        "--json",
    ];
    walctl(&[&arguments, options].concat())
}

fn fill(log: &mut TestLog, from: u64, to: u64) {
    for number in from..to {
        let key = format!("key-{number}");
        log.group(&[(number, 0, string(key.as_bytes(), &[b'v'; 20_000]))]);
    }
}

/// A log with four sealed segments and one that is written.
fn long() -> TestLog {
    let mut log = TestLog::new(0);
    fill(&mut log, 0, 13);
    assert_eq!(log.segments().len(), 5);
    log
}

fn zero(path: &Path, bytes: usize) {
    let mut found = fs::read(path).unwrap();
    let end = bytes.min(found.len());
    found[..end].fill(0);
    fs::write(path, found).unwrap();
}

fn zero_header(path: &Path) {
    zero(path, HEADER_BYTES);
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

/// `change` is done to segment `at` of a log: so many segments are copied, with this code, and the segment is named.
fn check(at: usize, change: fn(&Path), expected: i32, copied: u64) {
    let log = long();
    let segment = &log.segments()[at];
    let whole = fs::read(segment).unwrap();
    change(segment);
    let out = tempfile::tempdir().unwrap();
    let store = out.path().join("store");
    let name = format!("wal/{}", segment.file_name().unwrap().to_str().unwrap());

    let plan = archive(log.path(), &store, &["--dry-run"]);
    assert_eq!(code(&plan), expected, "{at}: {}", stderr(&plan));
    assert!(!store.exists());
    for round in 0..2 {
        let output = archive(log.path(), &store, &["--check"]);
        assert_eq!(code(&output), expected, "{at}: {}", stderr(&output));
        assert!(stderr(&output).contains(&name), "{at}: {}", stderr(&output));
        let totals = objects(&output).pop().unwrap();
        let now = if round == 0 { copied } else { 0 };
        assert_eq!(totals["segments_copied"], now, "{at}: {totals}");
        assert_eq!(totals["damage"]["file"], name, "{at}: {totals}");
    }
    if copied == 0 {
        assert!(!store.exists(), "{at}");
    } else {
        let histories: Vec<_> = fs::read_dir(&store).unwrap().collect();
        assert_eq!(
            histories.len(),
            1,
            "{at}: nothing of what follows begins a history"
        );
    }
    // Mended, it goes on where it stopped.
    fs::write(segment, whole).unwrap();
    let output = archive(log.path(), &store, &["--check"]);
    assert_eq!(code(&output), 0, "{at}: {}", stderr(&output));
    let totals = objects(&output).pop().unwrap();
    assert_eq!(totals["segments_copied"], 4 - copied, "{at}: {totals}");
    assert!(
        totals.get("damage").is_none() && totals.get("gap").is_none(),
        "{at}: {totals}"
    );
}

#[test]
fn nothing_behind_a_damaged_or_missing_segment_is_archived_and_it_is_named() {
    // The one before it is vouched for by its header alone.
    check(2, zero_header, 4, 1);
    check(1, zero_header, 4, 0);
    check(0, zero_header, 4, 0);
    check(4, zero_header, 4, 3);
    check(2, remove, 5, 1);
    check(1, remove, 5, 0);
    // Nothing but the control file knows of it.
    check(4, remove, 5, 3);
}

#[test]
fn a_newest_segment_that_was_never_written_to_is_no_damage() {
    let log = long();
    zero(&log.segments()[4], usize::MAX);
    let out = tempfile::tempdir().unwrap();
    let output = archive(log.path(), &out.path().join("store"), &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(objects(&output).pop().unwrap()["segments_copied"], 3);
}

#[test]
fn where_the_archive_has_what_is_damaged_is_said() {
    let log = long();
    let out = tempfile::tempdir().unwrap();
    let store = out.path().join("store");
    let first = objects(&archive(log.path(), &store, &[])).pop().unwrap();
    let segment = &log.segments()[2];
    zero_header(segment);
    let output = archive(log.path(), &store, &[]);
    assert_eq!(code(&output), 4);
    let archived = PathBuf::from(first["into"].as_str().unwrap())
        .join("wal")
        .join(segment.file_name().unwrap());
    let words = format!("it was archived before: {}", archived.display());
    assert!(stderr(&output).contains(&words), "{}", stderr(&output));
    fs::copy(archived, segment).unwrap();
    assert_eq!(code(&archive(log.path(), &store, &["--check"])), 0);
}

#[test]
fn a_gap_is_said_by_the_run_that_finds_it_and_by_every_check() {
    let mut log = long();
    let out = tempfile::tempdir().unwrap();
    let store = out.path().join("store");
    let first = objects(&archive(log.path(), &store, &[])).pop().unwrap();
    fill(&mut log, 13, 24);
    let segments = log.segments();
    segments[..segments.len() - 1]
        .iter()
        .for_each(|path| remove(path));

    // Nothing of what is left is sealed yet, and the gap is there already.
    let newest: u64 = segments
        .last()
        .unwrap()
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    let end = first["end_lsn"].as_u64().unwrap();
    let words = format!("lsn {end} to {newest} is archived nowhere");
    for (options, expected) in [(&[][..], 0), (&["--check"], 5)] {
        let output = archive(log.path(), &store, options);
        assert_eq!(code(&output), expected, "{}", stderr(&output));
        assert!(stderr(&output).contains(&words), "{}", stderr(&output));
        assert_eq!(objects(&output)[0]["gap"]["to_lsn"], newest);
    }

    fill(&mut log, 24, 30);
    for (options, expected, is_said) in [(&[][..], 0, true), (&[], 0, false), (&["--check"], 5, true)] {
        let output = archive(log.path(), &store, options);
        assert_eq!(code(&output), expected, "{}", stderr(&output));
        assert_eq!(stderr(&output).contains(&words), is_said, "{}", stderr(&output));
        let totals = objects(&output).pop().unwrap();
        assert_ne!(totals["into"], first["into"]);
        let gap = &totals["gap"];
        assert_eq!((&gap["from_lsn"], &gap["to_lsn"]), (&end.into(), &newest.into()));
        assert_eq!(gap["before"], first["into"]);
    }
    // Whoever needs the older one no more has no gap.
    fs::remove_dir_all(first["into"].as_str().unwrap()).unwrap();
    assert_eq!(code(&archive(log.path(), &store, &["--check"])), 0);
}

#[test]
fn a_snapshot_that_cannot_be_archived_yet_is_not_promised() {
    let log = long();
    let all = records(log.path());
    let last = all.last().unwrap();
    let trailer = SnapshotTrailer {
        end_lsn: last.end,
        log_time: UnixMs::new(last.time.get()),
        ..SnapshotTrailer::default()
    };
    let start = Lsn::new(last.end.get());
    write_snapshot(log.path(), cluster_of(log.path()), start, &[], trailer);
    let out = tempfile::tempdir().unwrap();
    let output = archive(log.path(), &out.path().join("store"), &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("unless its server has removed it by then"),
        "{}",
        stderr(&output)
    );
}
