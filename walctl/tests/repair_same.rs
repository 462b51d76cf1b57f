//! `walctl repair`, the same words on the command line again; and a script that has no room, or whose directory was moved.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::repairs::*;
use support::*;

/// Stands in a backup for as long as nothing was changed.
const UNBEGUN: &str = "nothing-changed-yet";

/// `walctl repair data --plan PLAN --yes …` beside `data`.
fn repair_at(place: &Path, plan: &str, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_walctl"))
        .current_dir(place)
        .args(["repair", "data", "--plan", plan, "--yes"])
        .args(options)
        .output()
        .unwrap()
}

/// What a repair leaves that is stopped when its backup is whole, and before it has said so in the directory.
fn stopped_before_the_mark(log: &TestLog, plan: &str, place: &Path, options: &[&str]) -> PathBuf {
    let dir = place.join("data");
    copied(log.path(), &dir);
    let output = repair_at(place, plan, &[options, &["--json"]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let done = objects(&output).pop().unwrap();
    let backup = place.join(done["backup"].as_str().unwrap());
    assert!(!backup.join(UNBEGUN).exists());
    assert_eq!(code(&undo(&backup)), 0);
    fs::write(backup.join(UNBEGUN), b"").unwrap();
    backup
}

fn check_begun_anew(log: &TestLog, plan: &str, options: &[&str]) {
    // Whole, or hardly begun.
    for is_whole in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let backup = stopped_before_the_mark(log, plan, place.path(), options);
        if !is_whole {
            for name in ["undo.sh", "repair.json", "control.after"] {
                fs::remove_file(backup.join(name)).unwrap();
            }
        }
        let dir = place.path().join("data");
        let before = letter_of(&dir);
        let output = repair_at(place.path(), plan, options);
        assert_eq!(code(&output), 0, "{plan} {options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("it was removed"), "{}", stderr(&output));
        assert!(["A", "B"].contains(&letter_of(&dir).as_str()));
        let left = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let left = left
            .filter(|name| name.to_str().unwrap().starts_with("backup-"))
            .count();
        assert!(left <= 1, "what was left is gone");
        // Taken back by the new script.
        let backups: Vec<PathBuf> = [backup, place.path().join("back")].into();
        let made = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
        let script = backups
            .into_iter()
            .chain(made)
            .find(|path| path.join("undo.sh").exists())
            .unwrap();
        let output = undo(&script);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert_eq!(letter_of(&dir), before);
    }
}

#[test]
fn a_repair_that_stopped_before_it_changed_anything_is_begun_anew_by_the_same_command() {
    for (log, plan) in [
        (junk_at_the_end(), "cut-tail"),
        (rotten(), "accept-loss"),
        (without_control(), "control"),
    ] {
        check_begun_anew(&log, plan, &["--backup", "back"]);
        check_begun_anew(&log, plan, &[]);
    }
}

#[test]
fn what_may_be_needed_is_never_removed_for_a_new_backup() {
    let log = rotten();
    // A backup that was used, and one with something of somebody's in it.
    for change in [
        (|backup: &Path| fs::remove_file(backup.join(UNBEGUN)).unwrap()) as fn(&Path),
        |backup| fs::write(backup.join("mine"), b"kept").unwrap(),
        |backup| fs::write(backup.join("wal/mine"), b"kept").unwrap(),
    ] {
        let place = tempfile::tempdir().unwrap();
        let backup = stopped_before_the_mark(&log, "accept-loss", place.path(), &["--backup", "back"]);
        change(&backup);
        let before = tree(place.path());
        let output = repair_at(place.path(), "accept-loss", &["--backup", "back"]);
        assert_eq!(code(&output), 1, "{}", stderr(&output));
        assert!(stderr(&output).contains("earlier repair"), "{}", stderr(&output));
        assert!(tree(place.path()) == before);
    }
}

#[test]
fn a_repair_that_was_begun_is_finished_by_the_same_command_with_its_backup() {
    let log = without_control();
    let place = tempfile::tempdir().unwrap();
    let backup = stopped_before_the_mark(&log, "control", place.path(), &["--backup", "back"]);
    let dir = place.path().join("data");
    // With the mark, and with what stands in the backup until the first change.
    fs::copy(backup.join("mark"), dir.join("repair.incomplete")).unwrap();
    assert_eq!(letter_of(&dir), "G");
    let other = repair_at(place.path(), "control", &["--backup", "other"]);
    assert_eq!(code(&other), 1, "{}", stderr(&other));
    let output = repair_at(place.path(), "control", &["--backup", "./back/"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(letter_of(&dir), "B");
    assert!(!backup.join(UNBEGUN).exists(), "something was changed");
    // What has come to its end is not repaired again.
    let output = repair_at(place.path(), "control", &["--backup", "back"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(code(&undo(&backup)), 0);
}

#[test]
fn the_script_finds_or_asks_for_a_directory_that_was_moved() {
    for backup in ["back", "data/old/back"] {
        let place = tempfile::tempdir().unwrap();
        let (dir, moved) = (place.path().join("data"), place.path().join("moved"));
        copied(rotten().path(), &dir);
        let before = letter_of(&dir);
        fs::create_dir_all(place.path().join(backup).parent().unwrap()).unwrap();
        let output = repair_at(place.path(), "accept-loss", &["--backup", backup]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        fs::rename(&dir, &moved).unwrap();
        if backup == "back" {
            let output = undo(&place.path().join(backup));
            assert_eq!(code(&output), 1);
            assert!(stderr(&output).contains("undo.sh DIR"), "{}", stderr(&output));
            // Nor is another one in its place taken for it.
            let mut stranger = TestLog::new(9);
            stranger.group(&[(1, 0, string(b"key", b"value"))]);
            copied(stranger.path(), &dir);
            let other = tree(&dir);
            let output = undo(&place.path().join(backup));
            assert_eq!(code(&output), 1);
            assert!(stderr(&output).contains("undo.sh DIR"), "{}", stderr(&output));
            assert!(tree(&dir) == other);
        }
        let script = if backup == "back" {
            "back/undo.sh"
        } else {
            "moved/old/back/undo.sh"
        };
        let output = Command::new("sh")
            .current_dir(place.path())
            .args([script, "moved"])
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{backup}: {}", stderr(&output));
        assert_eq!(letter_of(&moved), before, "{backup}");
    }
}

#[test]
fn a_script_that_stops_says_what_is_left_and_goes_on_when_it_is_repeated() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("data");
    copied(rotten().path(), &dir);
    let before = tree(&dir);
    let backup = place.path().join("back");
    let output = repair_at(place.path(), "accept-loss", &["--backup", "back"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    // The copy of what was overwritten cannot be read for a while.
    let copy = fs::read_dir(backup.join("wal"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|kind| kind == "cut"))
        .unwrap();
    let hidden = place.path().join("hidden");
    fs::rename(&copy, &hidden).unwrap();
    let output = undo(&backup);
    assert_ne!(code(&output), 0);
    let said = stderr(&output);
    assert!(
        said.contains("undo: it stopped at") && said.contains("goes on: sh"),
        "{said}"
    );
    assert!(dir.join("repair.incomplete").exists(), "no server starts");
    fs::rename(&hidden, &copy).unwrap();
    let output = undo(&backup);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(tree(&dir) == before);
}

#[test]
fn a_script_without_room_changes_nothing() {
    let log = rotten();
    let bytes = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
    let size: u64 = log.segments().iter().map(|path| bytes(path)).sum();
    let out = tempfile::tempdir().unwrap();
    let (mount, backup) = (out.path().join("mount"), out.path().join("back"));
    fs::create_dir(&mount).unwrap();
    let script = "mount -t tmpfs -o size=\"$5\" none \"$1\" && echo mounted >&2 || exit 1
        cp -r \"$2\" \"$1/data\" && \"$3\" repair \"$1/data\" --plan accept-loss --yes --backup \"$4\" >/dev/null || exit 1
        dd if=/dev/zero of=\"$1/filler\" bs=4k 2>/dev/null
        ls -A \"$1/data\" \"$1/data/wal\"; sh \"$4/undo.sh\"; echo \"code $?\" >&2; ls -A \"$1/data\" \"$1/data/wal\" >&2
        rm \"$1/filler\"; sh \"$4/undo.sh\"; echo \"code $?\" >&2; \"$3\" verify \"$1/data\" --json | tail -n 1 >&2";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .args([
            &mount,
            log.path(),
            Path::new(env!("CARGO_BIN_EXE_walctl")),
            &backup,
        ])
        .arg((size + (1 << 20)).to_string())
        .output();
    let output = match output {
        Ok(output) if stderr(&output).contains("mounted\n") => output,
        Ok(output) => return skip(&format!("no mount: {}", stderr(&output))),
        Err(error) => return skip(&format!("no unshare: {error}")),
    };
    let words = stderr(&output);
    assert!(words.contains("bytes are needed in"), "{words}");
    assert!(words.contains("nothing was changed"), "{words}");
    let (first, rest) = words.split_once("code 1\n").unwrap_or_else(|| panic!("{words}"));
    let (listed, last) = rest.split_once("code 0\n").unwrap_or_else(|| panic!("{words}"));
    assert!(!first.contains("it stopped at"), "{words}");
    assert_eq!(listed, stdout(&output), "the same files");
    assert!(last.contains("\"letter\":\"F\""), "{words}");
}
