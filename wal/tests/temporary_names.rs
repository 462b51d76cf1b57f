//! Goal: what stands under the name of a temporary file neither keeps a server from starting nor is written into, as far as it
//! can be taken away; and where it cannot, the verdict says so before the start does.
//!
//! Method: a log on the real disk, each of the names, each kind of thing under it, one start.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use idem_protocol::UnixMs;
use idem_wal::recovery::{FindingKind, Ignore, JudgeOptions, OpenParams, Row, judge, open};
use idem_wal::storage::DiskStorage;

/// Every name that a start clears, or writes into.
const NAMES: [&str; 6] = [
    "control.tmp",
    "control.spare",
    "wal/new.tmp",
    "wal/spare-0",
    "wal/spare-1",
    "snap/00000000000000000009.tmp",
];

/// Puts something under a name; beside it is the file of somebody else.
type Put = fn(&Path, &Path);

const REMOVABLE: [(&str, Put); 5] = [
    ("a link", |name, victim| symlink(victim, name).unwrap()),
    ("a second name", |name, victim| {
        fs::hard_link(victim, name).unwrap()
    }),
    ("a FIFO", |name, _| {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, name, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }),
    ("a socket", |name, _| drop(UnixListener::bind(name).unwrap())),
    ("an empty directory", |name, _| fs::create_dir(name).unwrap()),
];

/// One start; what the verdict names beside the log, and what became of it.
fn start(path: &Path, expected: Row, seed: u8) -> (Vec<String>, Result<(), String>) {
    let storage = DiskStorage::open(path).unwrap();
    let options = JudgeOptions {
        retain_tail: true,
        ..JudgeOptions::default()
    };
    let judgement = judge(&storage, &options, &mut Ignore);
    assert_eq!(judgement.row, expected);
    let beside = judgement
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::Beside)
        .map(|finding| {
            let place = finding.place.as_ref().unwrap();
            format!("{}: {}", place.dir.join(&place.name), finding.message)
        })
        .collect();
    let mut count = 0;
    let params = OpenParams {
        now: UnixMs::new(1_000),
        segment_bytes: 4096 + 2048,
        entropy: Box::new(move || {
            count += 1;
            [count ^ seed; 16]
        }),
    };
    let opened = open(&storage, judgement, params);
    (beside, opened.map(drop).map_err(|error| error.to_string()))
}

/// A log that was written, in a directory with a short path: a socket needs one.
fn log() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("w").tempdir().unwrap();
    fs::create_dir(directory.path().join("data")).unwrap();
    assert_eq!(
        start(&directory.path().join("data"), Row::New, 0x80),
        (vec![], Ok(()))
    );
    directory
}

fn clear(path: &Path) {
    let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
}

#[test]
fn what_can_be_taken_away_is_and_nothing_else_is_written() {
    let directory = log();
    let (data, victim) = (directory.path().join("data"), directory.path().join("victim"));
    fs::write(&victim, b"somebody else's").unwrap();
    let mut seed = 0;
    for name in NAMES {
        for (kind, put) in REMOVABLE {
            seed += 1;
            clear(&data.join(name));
            put(&data.join(name), &victim);
            let started = start(&data, Row::B, seed);
            assert_eq!(started, (vec![], Ok(())), "{kind} as {name}");
            let left = fs::symlink_metadata(data.join(name)).ok();
            assert!(left.is_none_or(|left| left.is_file()), "{kind} as {name}");
            assert_eq!(fs::read(&victim).unwrap(), b"somebody else's", "{kind} as {name}");
        }
    }
}

#[test]
fn a_directory_with_something_in_it_is_named_by_the_verdict_and_by_the_start() {
    for name in NAMES {
        let directory = log();
        let data = directory.path().join("data");
        clear(&data.join(name));
        fs::create_dir_all(data.join(name).join("kept")).unwrap();
        let (beside, started) = start(&data, Row::B, 1);
        assert!(beside.len() == 1 && beside[0].starts_with(name), "{beside:?}");
        assert!(beside[0].contains("a directory that is not empty"), "{beside:?}");
        if name == "control.spare" {
            // Only space that would be kept ready.
            assert_eq!(started, Ok(()));
        } else {
            assert!(beside[0].contains("a start fails"), "{beside:?}");
            let error = started.unwrap_err();
            assert!(
                error.contains(name) && error.contains("not empty"),
                "{name}: {error}"
            );
        }
        assert!(data.join(name).join("kept").exists());
    }
}

#[test]
fn a_new_directory_is_no_exception() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("wal/new.tmp/kept")).unwrap();
    let (beside, started) = start(directory.path(), Row::New, 1);
    assert_eq!(beside.len(), 1);
    assert!(started.unwrap_err().contains("wal/new.tmp"));
    fs::remove_dir(directory.path().join("wal/new.tmp/kept")).unwrap();
    assert_eq!(start(directory.path(), Row::New, 1), (vec![], Ok(())));
}
