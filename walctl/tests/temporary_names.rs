//! What stands under the name of the control file's temporary: a repair takes it away, or says before its first change that it
//! cannot; and `walctl verify` says what a start will say.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use support::golden;
use support::*;

/// A kept log without its control file, and something else under its temporary's name.
fn directory(put: impl FnOnce(&Path)) -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("w").tempdir().unwrap();
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    golden::copy("two-snapshots", &data);
    fs::remove_file(data.join("control")).unwrap();
    put(&data.join("control.tmp"));
    directory
}

fn repair(directory: &Path) -> std::process::Output {
    walctl(&[
        "repair",
        directory.join("data").to_str().unwrap(),
        "--plan",
        "control",
        "--backup",
        directory.join("backup").to_str().unwrap(),
        "--yes",
    ])
}

#[test]
fn a_repair_takes_away_what_is_no_file() {
    type Put = fn(&Path);
    let kinds: [(&str, Put); 3] = [
        ("a FIFO", |path| {
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        }),
        ("an empty directory", |path| fs::create_dir(path).unwrap()),
        ("a link", |path| {
            fs::write(path.with_file_name("victim"), b"somebody else's").unwrap();
            std::os::unix::fs::symlink("victim", path).unwrap();
        }),
    ];
    for (kind, put) in kinds {
        let directory = directory(put);
        let data = directory.path().join("data");
        let output = repair(directory.path());
        assert_eq!(code(&output), 0, "{kind}: {}", stderr(&output));
        assert!(fs::metadata(data.join("control")).unwrap().is_file(), "{kind}");
        if let Ok(victim) = fs::read(data.join("victim")) {
            assert_eq!(victim, b"somebody else's");
        }
        assert_eq!(code(&walctl(&["verify", data.to_str().unwrap()])), 0, "{kind}");
    }
}

#[test]
fn a_directory_with_something_in_it_is_said_before_anything_is_changed() {
    let directory = directory(|path| fs::create_dir_all(path.join("kept")).unwrap());
    let data = directory.path().join("data");
    let output = repair(directory.path());
    assert_ne!(code(&output), 0);
    let words = stderr(&output);
    assert!(
        words.contains("control.tmp") && words.contains("not empty"),
        "{words}"
    );
    assert!(!data.join("control").exists());
    assert!(!data.join("repair.incomplete").exists());
    let output = walctl(&["verify", "--json", data.to_str().unwrap()]);
    let found = objects(&output);
    let found = found.iter().find(|line| line["file"] == "control.tmp").unwrap();
    assert!(
        found["finding"].as_str().unwrap().contains("a start fails"),
        "{found}"
    );
}
