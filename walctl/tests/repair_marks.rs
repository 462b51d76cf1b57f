//! The mark of an unfinished repair, what a killed undo leaves, and files that are links.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::memory::in_little_memory;
use support::repairs::*;
use support::*;

const MARK: &str = "repair.incomplete";

/// Repairs; the backup.
fn repaired(dir: &Path, options: &[&str]) -> PathBuf {
    let output = repair_dir(dir, &[options, &["--yes", "--json"]].concat());
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    PathBuf::from(objects(&output).pop().unwrap()["backup"].as_str().unwrap())
}

/// All that a directory is, without backups.
fn own_tree(dir: &Path) -> std::collections::BTreeMap<PathBuf, (u32, u32, Vec<u8>)> {
    let mut found = tree(dir);
    found.retain(|path, _| !path.to_str().unwrap().starts_with("backup-"));
    found
}

/// Runs the script of a backup until it calls `program`, and kills it there.
fn undo_until(backup: &Path, program: &str) -> Output {
    let shims = tempfile::tempdir().unwrap();
    let shim = shims.path().join(program);
    fs::write(&shim, "#!/bin/sh\nkill -9 $PPID\n").unwrap();
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("sh");
    command.arg(backup.join("undo.sh"));
    command.env("PATH", format!("{}:{path}", shims.path().display()));
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{program}: it was not stopped");
    output
}

/// Segments and snapshots that lie elsewhere, by links that are relative to the directory.
#[test]
fn a_repair_of_links_is_finished_and_taken_back() {
    let log = rotten();
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("data");
    copied(log.path(), &dir);
    fs::create_dir(dir.join("disk2")).unwrap();
    let mut names: Vec<_> = fs::read_dir(dir.join("wal"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_str().unwrap().ends_with(".wal"))
        .collect();
    names.sort();
    for name in names.iter().skip(1) {
        let target = Path::new("disk2").join(name);
        fs::rename(dir.join("wal").join(name), dir.join(&target)).unwrap();
        symlink(Path::new("..").join(target), dir.join("wal").join(name)).unwrap();
    }
    let before = tree(&dir);
    let backup = repaired(&dir, &["--plan", "accept-loss"]);
    let after = own_tree(&dir);
    assert!(
        fs::symlink_metadata(backup.join("wal").join(&names[1]))
            .unwrap()
            .is_symlink(),
        "it was moved as what it is"
    );
    // As if it had stopped with all changes made, twice.
    for _ in 0..2 {
        fs::copy(backup.join("mark"), dir.join(MARK)).unwrap();
        let output = repair_dir(&dir, &["--plan", "accept-loss", "--yes"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert!(own_tree(&dir) == after);
    }
    for _ in 0..2 {
        assert_eq!(code(&undo(&backup)), 0);
        assert!(own_tree(&dir) == before);
    }
}

#[test]
fn an_undo_that_is_killed_leaves_a_whole_mark_and_no_file_of_its_own_in_the_end() {
    for (log, plan) in [(rotten(), "accept-loss"), (without_control(), "control")] {
        let dir = log.path();
        // Somebody's file with the name that the script would use.
        fs::write(dir.join("control.undo"), b"somebody's").unwrap();
        let before = own_tree(dir);
        let backup = repaired(dir, &["--plan", plan]);
        let mark = fs::read(backup.join("mark")).unwrap();
        for left in [None, Some(&b""[..])] {
            for program in ["cat", "mv", "dd", "sync", "rm"] {
                if plan == "control" && ["cat", "mv"].contains(&program) {
                    // Nothing is copied back there.
                    continue;
                }
                let words = format!("{plan} {program} {left:?}");
                if let Some(bytes) = left {
                    fs::write(dir.join(MARK), bytes).unwrap();
                }
                undo_until(&backup, program);
                assert_eq!(fs::read(dir.join(MARK)).unwrap(), mark, "{words}");
                let output = repair_dir(dir, &[]);
                assert!(
                    stdout(&output).contains("undo.sh"),
                    "{words}: {}",
                    stdout(&output)
                );
                // Finished, and nothing of the script stays.
                let output = repair_dir(dir, &["--plan", plan, "--yes"]);
                assert_eq!(code(&output), 0, "{words}: {}", stderr(&output));
                for name in [MARK, "control.undo-2"] {
                    assert!(fs::symlink_metadata(dir.join(name)).is_err(), "{words}: {name}");
                }
                // Killed, and taken back by the next one.
                undo_until(&backup, program);
                let output = undo(&backup);
                assert_eq!(code(&output), 0, "{words}: {}", stderr(&output));
                assert!(own_tree(dir) == before, "{words}");
                fs::copy(backup.join("mark"), dir.join(MARK)).unwrap();
                assert_eq!(code(&repair_dir(dir, &["--plan", plan, "--yes"])), 0, "{words}");
            }
        }
    }
}

#[test]
fn a_mark_that_says_nothing_does_not_say_that_nothing_was_changed() {
    let log = rotten();
    let dir = log.path();
    let options = ["--plan", "accept-loss"];
    let before = own_tree(dir);
    let backup = repaired(dir, &options);
    let after = own_tree(dir);
    let wanted = [&options[..], &["--yes"]].concat();
    // The one backup that fits is found.
    fs::write(dir.join(MARK), b"").unwrap();
    let said = stdout(&repair_dir(dir, &[]));
    assert!(said.contains(backup.to_str().unwrap()), "{said}");
    assert_eq!(code(&repair_dir(dir, &wanted)), 0);
    assert!(own_tree(dir) == after);

    // Of two that fit somebody has to say which.
    assert_eq!(code(&undo(&backup)), 0);
    assert!(own_tree(dir) == before);
    let second = repaired(dir, &options);
    fs::write(dir.join(MARK), b"no path").unwrap();
    let marked = tree(dir);
    for options in [&[][..], &wanted] {
        let output = repair_dir(dir, options);
        let said = stderr(&output);
        assert_ne!(code(&output), 0);
        for words in [&backup, &second].map(|backup| format!("sh {}", backup.join("undo.sh").display())) {
            assert!(said.contains(&words), "{words}: {said}");
        }
    }
    assert!(tree(dir) == marked, "nothing is changed before that");
}

/// A sparse file claims any length and takes up nothing.
#[test]
fn what_is_read_whole_is_read_with_a_bound() {
    let enlarge = |path: &Path| {
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.set_len(3 << 30).unwrap();
    };
    let log = rotten();
    let dir = log.path().to_str().unwrap();
    enlarge(&log.path().join(MARK));
    let output = in_little_memory(&["repair", dir]);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("it has 3221225472 bytes"),
        "{}",
        stderr(&output)
    );
    fs::remove_file(log.path().join(MARK)).unwrap();

    // What the mark leads to is no more trusted.
    let backup = repaired(log.path(), &["--plan", "accept-loss"]);
    for (name, expected) in [("repair.json", 5), ("control.after", 5), ("undo.sh", 1)] {
        let whole = fs::read(backup.join(name)).unwrap();
        fs::copy(backup.join("mark"), log.path().join(MARK)).unwrap();
        enlarge(&backup.join(name));
        let output = in_little_memory(&["repair", dir, "--plan", "accept-loss", "--yes"]);
        let said = stderr(&output);
        assert_eq!(code(&output), expected, "{name}: {said}");
        assert!(
            said.contains(name) && said.contains("3221225472 bytes"),
            "{name}: {said}"
        );
        fs::write(backup.join(name), whole).unwrap();
    }
    fs::remove_file(log.path().join(MARK)).unwrap();

    // A control file that long is damaged, and goes to the backup as it is.
    enlarge(&log.path().join("control"));
    let output = in_little_memory(&["repair", dir, "--plan", "control", "--yes", "--json"]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let backup = objects(&output).pop().unwrap()["backup"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        fs::metadata(Path::new(&backup).join("control")).unwrap().len(),
        3 << 30
    );
}
