//! What is no regular file, under the name of one: every command refuses it, names it, and waits for nobody.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use idem_wal::recovery::{Ignore, JudgeOptions, Row, judge};
use idem_wal::storage::DiskStorage;
use support::golden::{self, output_in_time};
use support::*;

/// Puts something else in the place of a file.
type Replace = fn(&Path);

const KINDS: [(&str, Replace); 4] = [
    ("a FIFO", |path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }),
    ("a socket", |path| drop(UnixListener::bind(path).unwrap())),
    ("a device", |path| {
        std::os::unix::fs::symlink("/dev/zero", path).unwrap()
    }),
    ("a directory", |path| std::fs::create_dir(path).unwrap()),
];

/// A kept log with two snapshots, and something else under one of its names.
fn directory(name: &str, replace: Replace) -> tempfile::TempDir {
    // A socket's path has to be short.
    let directory = tempfile::Builder::new().prefix("w").tempdir().unwrap();
    golden::copy("two-snapshots", directory.path());
    let path = directory.path().join(name);
    std::fs::remove_file(&path).unwrap();
    replace(&path);
    directory
}

/// The newest file of a kind, relative to the log.
fn newest(below: &str) -> String {
    let mut names: Vec<String> = std::fs::read_dir(golden::kept().join("two-snapshots").join(below))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(if below == "wal" { ".wal" } else { ".snap" }))
        .collect();
    names.sort();
    format!("{below}/{}", names.pop().unwrap())
}

#[test]
fn a_judged_segment_or_the_control_file_is_a_read_error_to_walctl_and_to_the_server() {
    for (kind, replace) in KINDS {
        let begin = "wal/00000000000000010981.wal".to_owned();
        for name in ["control".to_owned(), begin, newest("wal")] {
            let directory = directory(&name, replace);
            let judged = judge(
                &DiskStorage::open(directory.path()).unwrap(),
                &JudgeOptions::default(),
                &mut Ignore,
            );
            assert_eq!(judged.row, Row::I, "{kind} as {name}");
            let output = output_in_time(command(&["verify", directory.path().to_str().unwrap(), "--json"]));
            assert_eq!(code(&output), 9, "{kind} as {name}: {}", stderr(&output));
            let mut findings = objects(&output);
            let verdict = findings.pop().unwrap();
            assert_eq!(verdict["file"], name);
            let reasons = findings.iter().filter(|line| line["letter"] == "I");
            assert_eq!(reasons.count(), 1, "{kind} as {name}: {findings:?}");
            let reason = verdict["reason"].as_str().unwrap();
            assert!(reason.contains(kind), "{kind} as {name}: {reason}");
        }
    }
}

#[test]
fn a_snapshot_falls_back_to_the_other_one() {
    for (kind, replace) in KINDS {
        let name = newest("snap");
        let directory = directory(&name, replace);
        let output = output_in_time(command(&["verify", directory.path().to_str().unwrap(), "--json"]));
        assert_eq!(code(&output), 0, "{kind}: {}", stdout(&output));
        let lines = objects(&output);
        let found = lines.iter().find(|line| line["file"] == name).unwrap();
        assert!(found["finding"].as_str().unwrap().contains(kind), "{found}");
        assert_ne!(lines.last().unwrap()["snapshot"]["file"], name);
    }
}

#[test]
fn every_command_ends_and_names_the_file() {
    let segment = newest("wal");
    let commands: [&[&str]; 10] = [
        &["verify", "DIR"],
        &["verify", "DIR", "--deep"],
        &["dump", "DIR"],
        &["dump", "DIR", "--past-damage"],
        &["history", "DIR", "no such key"],
        &["stat", "DIR"],
        &["replay", "DIR"],
        &["diff", "DIR", "DIR"],
        &["repair", "DIR"],
        &[
            "restore",
            "DIR",
            "--into",
            "DIR/../new",
            "--to-lsn",
            "16321",
            "--dry-run",
        ],
    ];
    for (kind, replace) in KINDS {
        let directory = directory(&segment, replace);
        let dir = directory.path().to_str().unwrap();
        for arguments in commands {
            let arguments: Vec<String> = arguments.iter().map(|word| word.replace("DIR", dir)).collect();
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let output = output_in_time(command(&arguments));
            let said = stdout(&output) + &stderr(&output);
            assert!(
                ![0, 101].contains(&code(&output)),
                "{kind}: {arguments:?}: {said}"
            );
            assert!(said.contains(&segment), "{kind}: {arguments:?}: {said}");
        }
    }
}

#[test]
fn the_data_directory_and_a_snapshot_that_is_named_may_be_anything_too() {
    for (kind, replace) in KINDS {
        if kind == "a directory" {
            continue;
        }
        let directory = tempfile::Builder::new().prefix("w").tempdir().unwrap();
        let path = directory.path().join("0.snap");
        replace(&path);
        for name in ["verify", "dump", "stat", "replay", "repair", "snapshot"] {
            let output = output_in_time(command(&[name, path.to_str().unwrap()]));
            assert!(
                (1..=9).contains(&code(&output)),
                "{kind}: {name}: {}",
                stderr(&output)
            );
            assert!(
                stderr(&output).contains("0.snap"),
                "{kind}: {name}: {}",
                stderr(&output)
            );
        }
    }
}

#[test]
fn a_directory_of_the_log_may_be_something_else_too_and_is_named() {
    for (kind, replace) in KINDS {
        if kind == "a directory" {
            continue;
        }
        for name in ["wal", "snap"] {
            let directory = tempfile::Builder::new().prefix("w").tempdir().unwrap();
            golden::copy("two-snapshots", directory.path());
            std::fs::remove_dir_all(directory.path().join(name)).unwrap();
            replace(&directory.path().join(name));
            let output = output_in_time(command(&["verify", directory.path().to_str().unwrap(), "--json"]));
            let verdict = objects(&output).pop().unwrap();
            assert_eq!((code(&output), &verdict["file"]), (9, &name.into()), "{kind}");
        }
    }
}
