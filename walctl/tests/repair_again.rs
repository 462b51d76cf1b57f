//! A repair that is taken back, and one that stopped in the middle.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

use support::repairs::*;
use support::*;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Repairs a copy of `log` after `change`, takes it back, and compares all that the directory is.
fn check_undo(name: &str, log: &TestLog, plan: &str, backup: Option<&Path>, change: impl Fn(&Path)) {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("data");
    copied(log.path(), &dir);
    change(&dir);
    let before = tree(&dir);
    let made = backup.map(|parent| parent.join(format!("{name} {plan}")));
    let mut options = vec!["--plan", plan, "--yes", "--json"];
    if let Some(made) = &made {
        options.extend(["--backup", made.to_str().unwrap()]);
    }
    let output = repair_dir(&dir, &options);
    assert_eq!(code(&output), 0, "{name} {plan}: {}", stderr(&output));
    let done = objects(&output).pop().unwrap();
    let backup = Path::new(done["backup"].as_str().unwrap());
    // Again changes nothing.
    let rounds = if name == "as it is" { 2 } else { 1 };
    for round in 0..rounds {
        let output = undo(backup);
        assert_eq!(code(&output), 0, "{name} {plan}: {}", stderr(&output));
        let mut after = tree(&dir);
        after.retain(|path, _| !is_backup(path));
        assert!(
            after == before,
            "{name} {plan} {round}: {:?}\n{:?}",
            named(&before),
            named(&after)
        );
    }
}

fn is_backup(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.starts_with("backup-"))
}

fn named(tree: &std::collections::BTreeMap<std::path::PathBuf, (u32, u32, Vec<u8>)>) -> Vec<String> {
    let line = |(path, (mode, uid, bytes)): (&std::path::PathBuf, &(u32, u32, Vec<u8>))| {
        format!("{} {mode:o} {uid} {}", path.display(), bytes.len())
    };
    tree.iter().map(line).collect()
}

#[test]
fn the_script_gives_back_names_bytes_modes_and_links() {
    let modes = |dir: &Path| {
        for (name, mode) in [("control", 0o600), ("control.spare", 0o644)] {
            if dir.join(name).exists() {
                set_mode(&dir.join(name), mode);
            }
        }
        for (at, entry) in fs::read_dir(dir.join("wal")).unwrap().enumerate() {
            set_mode(&entry.unwrap().path(), [0o600, 0o640, 0o664][at % 3]);
        }
    };
    let leftovers = |dir: &Path| {
        fs::write(dir.join("control.tmp"), b"half of one").unwrap();
        set_mode(&dir.join("control.tmp"), 0o444);
        let _ = fs::remove_file(dir.join("control.spare"));
    };
    let own_spare = |dir: &Path| fs::write(dir.join("control.spare"), vec![7; 9000]).unwrap();
    let links = |dir: &Path| {
        let outside = dir.parent().unwrap().join("outside");
        fs::write(&outside, b"somebody else's").unwrap();
        for name in ["control.tmp", "control.spare"] {
            let _ = fs::remove_file(dir.join(name));
            symlink("../outside", dir.join(name)).unwrap();
        }
    };
    let control_elsewhere = |dir: &Path| {
        let target = dir.parent().unwrap().join("it's control");
        match fs::rename(dir.join("control"), &target) {
            Ok(()) => symlink(&target, dir.join("control")).unwrap(),
            Err(_) => symlink("it's not there", dir.join("control")).unwrap(),
        }
    };
    let memory = Path::new("/dev/shm");
    let other = tempfile::tempdir_in(memory).ok().filter(|other| {
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        device(other.path()) != device(&std::env::temp_dir())
    });
    if other.is_none() {
        skip("no second file system");
    }
    let other = other.as_ref().map(tempfile::TempDir::path);
    let logs = [
        (junk_at_the_end(), "cut-tail"),
        (rotten(), "accept-loss"),
        (without_control(), "control"),
    ];
    for (log, plan) in &logs {
        for backup in [None, other] {
            check_undo("as it is", log, plan, backup, |_| {});
            check_undo("modes", log, plan, backup, modes);
            check_undo("leftovers", log, plan, backup, leftovers);
            check_undo("a spare", log, plan, backup, own_spare);
            check_undo("links", log, plan, backup, |dir| {
                links(dir);
                assert_eq!(fs::read(dir.join("../outside")).unwrap(), b"somebody else's");
            });
            check_undo("control elsewhere", log, plan, backup, control_elsewhere);
        }
    }
}

#[test]
fn what_links_lead_to_is_not_written_to() {
    let log = rotten();
    let place = tempfile::tempdir().unwrap();
    let outside = place.path().join("outside");
    fs::write(&outside, b"somebody else's").unwrap();
    for name in ["control.tmp", "control.spare"] {
        let _ = fs::remove_file(log.path().join(name));
        symlink(&outside, log.path().join(name)).unwrap();
    }
    let output = repair_dir(log.path(), &["--plan", "accept-loss", "--yes"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(fs::read(&outside).unwrap(), b"somebody else's");
    assert!(
        !fs::symlink_metadata(log.path().join("control"))
            .unwrap()
            .is_symlink()
    );
}

/// The command that finishes, the script, and the backup are said.
fn check_said(output: &Output, dir: &Path, plan: &str, backup: &Path) {
    let text = stdout(output);
    for words in [
        format!("walctl repair {} --plan {plan}", dir.display()),
        format!("sh {}/undo.sh", backup.display()),
    ] {
        assert!(text.contains(&words), "{words}: {text}");
    }
}

/// A repair with its backup elsewhere that stopped after `keep` of the files that it changes.
fn check_interrupted(log: &TestLog, plan: &str, row: &str) {
    let place = tempfile::tempdir().unwrap();
    let (dir, done) = (place.path().join("data"), place.path().join("done"));
    copied(log.path(), &dir);
    let before = tree(&dir);
    let backup = place.path().join("it's a backup");
    let with_backup = ["--backup", backup.to_str().unwrap()];
    let output = repair_dir(&dir, &[&["--plan", plan, "--yes"], &with_backup[..]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    copied(&dir, &done);
    let after = tree(&done);

    // As if it had stopped: what the first changes made, and what the later ones had not made yet.
    let output = undo(&backup);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    if plan == "control" {
        let first = fs::read_dir(dir.join("wal")).unwrap().map(|entry| entry.unwrap());
        let first = first.map(|entry| entry.file_name()).min().unwrap();
        fs::copy(done.join("wal").join(&first), dir.join("wal").join(&first)).unwrap();
    } else {
        fs::copy(done.join("control"), dir.join("control")).unwrap();
    }
    fs::copy(backup.join("mark"), dir.join("repair.incomplete")).unwrap();
    assert_eq!(letter_of(&dir), row);
    let verdict = walctl(&["verify", dir.to_str().unwrap()]);
    assert!(
        stdout(&verdict).contains("repair.incomplete: a repair"),
        "{}",
        stdout(&verdict)
    );

    // Looking says what there is to choose from, and changes nothing.
    let stopped = tree(&dir);
    for options in [&[][..], &["--plan", plan, "--dry-run"]] {
        let output = repair_dir(&dir, options);
        assert_eq!(code(&output), code(&verdict));
        check_said(&output, &dir, plan, &backup);
    }
    let json = objects(&repair_dir(&dir, &["--json"])).pop().unwrap();
    assert_eq!(json["unfinished"], plan);
    assert_eq!(json["backup"], backup.to_str().unwrap());
    let other = if plan == "control" { "cut-tail" } else { "control" };
    let elsewhere = place.path().join("another");
    for options in [
        &["--plan", other, "--yes"][..],
        &["--plan", plan, "--yes", "--backup", elsewhere.to_str().unwrap()],
    ] {
        let output = repair_dir(&dir, options);
        assert_eq!(code(&output), 1, "{}", stdout(&output));
        assert!(stderr(&output).contains("undo.sh"), "{}", stderr(&output));
    }
    assert!(tree(&dir) == stopped, "it was changed");

    // Finished.
    let output = repair_dir(&dir, &[&["--plan", plan, "--yes"], &with_backup[..]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let bytes = |tree: &std::collections::BTreeMap<_, (u32, u32, Vec<u8>)>| {
        let files = tree
            .iter()
            .map(|(path, (.., bytes)): (&std::path::PathBuf, _)| (path.clone(), bytes.clone()));
        files.collect::<Vec<_>>()
    };
    assert!(
        bytes(&tree(&dir)) == bytes(&after),
        "{:?}\n{:?}",
        named(&tree(&dir)),
        named(&after)
    );
    // And taken back after all.
    assert_eq!(code(&undo(&backup)), 0);
    assert!(
        tree(&dir) == before,
        "{:?}\n{:?}",
        named(&before),
        named(&tree(&dir))
    );

    // Somebody has gone on in the meantime.
    fs::copy(backup.join("mark"), dir.join("repair.incomplete")).unwrap();
    let mut other = fs::read(done.join("control")).unwrap();
    other.push(0);
    fs::write(dir.join("control"), other).unwrap();
    let output = repair_dir(&dir, &["--plan", plan, "--yes"]);
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).contains("somebody has changed"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_repair_that_stopped_is_finished_by_the_same_command_or_taken_back() {
    check_interrupted(&without_control(), "control", "H");
    check_interrupted(&rotten(), "accept-loss", "F");
    check_interrupted(&junk_at_the_end(), "cut-tail", "G");
}

/// A repair with its backup in the directory stopped before its last change. `mark` makes the mark: directory, backup.
fn check_moved(mark: impl Fn(&Path, &Path)) {
    let log = without_control();
    let place = tempfile::tempdir().unwrap();
    let (dir, moved) = (place.path().join("data"), place.path().join("moved"));
    copied(log.path(), &dir);
    let before = tree(&dir);
    let output = repair_dir(&dir, &["--plan", "control", "--yes", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let done = objects(&output).pop().unwrap();
    let backup = Path::new(done["backup"].as_str().unwrap());
    let name = backup.file_name().unwrap();
    fs::remove_file(dir.join("control")).unwrap();
    mark(&dir, backup);
    fs::rename(&dir, &moved).unwrap();
    let verdict = stdout(&walctl(&["verify", moved.to_str().unwrap()]));
    assert!(verdict.contains("repair.incomplete"), "{verdict}");
    let output = repair_dir(&moved, &["--plan", "control", "--yes"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(letter_of(&moved), "B");
    mark(&moved, &moved.join(name));
    assert_eq!(letter_of(&moved), "G");
    let output = undo(&moved.join(name));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let mut after = tree(&moved);
    after.retain(|path, _| !is_backup(path));
    assert!(after == before, "{:?}\n{:?}", named(&before), named(&after));
}

#[test]
fn a_backup_in_the_directory_moves_along_with_it() {
    check_moved(|dir, backup| {
        fs::copy(backup.join("mark"), dir.join("repair.incomplete")).unwrap();
    });
}

/// A disk without space for a file's bytes has some for a link.
#[test]
fn the_mark_of_a_full_disk_is_a_link() {
    check_moved(|dir, backup| symlink(backup.file_name().unwrap(), dir.join("repair.incomplete")).unwrap());
}

#[test]
fn without_its_backup_a_new_repair_is_begun() {
    let log = without_control();
    let dir = log.path();
    let place = tempfile::tempdir().unwrap();
    let backup = place.path().join("lost");
    let lost = backup.to_str().unwrap();
    let first = fs::read(&log.segments()[0]).unwrap();
    let output = repair_dir(dir, &["--plan", "control", "--yes", "--backup", lost]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    // Only the last header has the old node, and there is no control file yet.
    let last = log.segments().pop().unwrap();
    let mut bytes = fs::read(&last).unwrap();
    let old = idem_protocol::wal::SegmentHeader {
        node: idem_protocol::wal::SegmentHeader::decode(&first).unwrap().node,
        ..idem_protocol::wal::SegmentHeader::decode(&bytes).unwrap()
    };
    bytes[..4096].copy_from_slice(&old.encode_page());
    fs::write(&last, bytes).unwrap();
    fs::remove_file(dir.join("control")).unwrap();
    fs::copy(backup.join("mark"), dir.join("repair.incomplete")).unwrap();
    fs::remove_dir_all(&backup).unwrap();
    assert_eq!(letter_of(dir), "H");
    let output = repair_dir(dir, &[]);
    assert!(
        stderr(&output).contains("its backup cannot be opened"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains("--plan control"), "{}", stdout(&output));
    let output = repair_dir(dir, &["--plan", "control", "--yes"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(letter_of(dir), "B");
    assert!(!dir.join("repair.incomplete").exists());

    // Files that are good need nothing but the mark's end, where no backup is left.
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
        if is_backup(Path::new(&entry.file_name())) {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    fs::write(dir.join("repair.incomplete"), b"").unwrap();
    let output = repair_dir(dir, &[]);
    assert_eq!((code(&output), letter_of(dir).as_str()), (5, "G"));
    let said = stderr(&output);
    for words in ["files may have been changed", "remove that file"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
