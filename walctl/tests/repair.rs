//! `walctl repair` on real directories: what it says, what it refuses, what it does, and that its script takes it back.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use idem_wal::lock::DirLock;
use serde_json::Value;
use support::repairs::*;
use support::*;

fn repair(log: &TestLog, options: &[&str]) -> Output {
    repair_dir(log.path(), options)
}

fn letter(log: &TestLog) -> String {
    letter_of(log.path())
}

/// Files with their bytes, without backups and without the space that is kept for the next control file.
fn files(log: &TestLog) -> BTreeMap<PathBuf, Vec<u8>> {
    let kept = |path: &Path| {
        let below = path.strip_prefix(log.path()).unwrap().to_str().unwrap();
        !below.starts_with("backup-") && below != "control.spare"
    };
    image(log.path())
        .into_iter()
        .filter(|(path, _)| kept(path))
        .filter_map(|(path, (_, bytes))| Some((path, bytes?)))
        .collect()
}

fn backups(log: &TestLog) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(log.path()).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("backup-")
    });
    paths.sort();
    paths
}

/// Proposes (changing nothing), repairs, takes it back, and repairs again.
fn check(name: &str, log: &TestLog, row: &str, code_before: i32, plan: &str, row_after: &str) -> Value {
    assert_eq!(letter(log), row, "{name}");
    let before = image(log.path());
    let human = repair(log, &[]);
    let shown = repair(log, &["--json", "--plan", plan, "--dry-run"]);
    assert_eq!(
        (code(&human), code(&shown)),
        (code_before, code_before),
        "{name}: {}",
        stderr(&human)
    );
    assert!(
        stdout(&human).contains(&format!("--plan {plan}")),
        "{name}: {}",
        stdout(&human)
    );
    assert!(
        image(log.path()) == before,
        "{name}: looking changed the directory"
    );
    let shown = objects(&shown).pop().unwrap();
    assert_eq!(
        (&shown["plan"], &shown["letter"]),
        (&plan.into(), &row.into()),
        "{name}"
    );

    let before = files(log);
    for round in 0..2 {
        let output = repair(log, &["--json", "--plan", plan, "--yes"]);
        assert_eq!(code(&output), 0, "{name}: {}{}", stdout(&output), stderr(&output));
        let done = objects(&output).pop().unwrap();
        assert_eq!(
            (&done["repaired"], &done["letter"]),
            (&true.into(), &row_after.into()),
            "{name}"
        );
        assert_eq!(done["end_lsn"], shown["after"]["end_lsn"], "{name}");
        assert_eq!(letter(log), row_after, "{name}");
        let backup = PathBuf::from(done["backup"].as_str().unwrap());
        assert_eq!(backups(log), std::slice::from_ref(&backup), "{name}");
        let kept: Value =
            serde_json::from_slice(&std::fs::read(backup.join("repair.json")).unwrap()).unwrap();
        assert_eq!(kept["plan"], plan, "{name}");
        if round == 0 {
            let output = undo(&backup);
            assert_eq!(code(&output), 0, "{name}: {}", stderr(&output));
            assert!(
                files(log) == before,
                "{name}: the script does not give everything back"
            );
            std::fs::remove_dir_all(backup).unwrap();
        }
    }
    shown
}

#[test]
fn each_plan_does_what_it_says_and_is_taken_back_by_its_script() {
    let log = junk_at_the_end();
    let shown = check("junk", &log, "E", 3, "cut-tail", "B");
    assert_eq!(shown["after"]["end_lsn"], log.end().get());
    assert_eq!(shown["lost"]["records"], 0);

    let log = rotten();
    let shown = check("rot", &log, "F", 4, "accept-loss", "B");
    let lost = &shown["lost"];
    assert_eq!(lost["to_lsn"], log.end().get(), "{lost}");
    assert_eq!(
        lost["records"], 17,
        "all but two groups, and one of the second: {lost}"
    );
    assert!(lost["unread_bytes"].as_u64().unwrap() > 20_000, "{lost}");
    assert_eq!(lost["keys"], 10, "{lost}");
    assert_eq!(lost["to_time_ms"], START_MS + 9, "{lost}");
    assert_eq!(shown["changes"][0]["change"], "replace");

    let log = several_segments();
    std::fs::write(log.path().join("control"), b"").unwrap();
    let shown = check("no control", &log, "G", 5, "control", "B");
    assert!(shown["after"]["end_lsn"] == log.end().get(), "{shown}");

    let mut log = TestLog::new(0);
    log.shut_down();
    let closed = std::fs::read(log.path().join("control")).unwrap();
    log.reopen();
    std::fs::write(log.path().join("control"), closed).unwrap();
    let shown = check("a clean mark below the end", &log, "J", 8, "accept-loss", "B");
    assert_eq!(shown["lost"]["records"], 0);
}

#[test]
fn what_would_be_lost_can_be_seen_before() {
    let log = rotten();
    let lost = objects(&repair(&log, &["--json"])).pop().unwrap()["lost"].clone();
    let dir = log.path().to_str().unwrap();
    let from = lost["from_lsn"].to_string();
    let dumped = walctl(&["dump", dir, "--json", "--from-lsn", &from, "--past-damage"]);
    let records = objects(&dumped);
    let records = records.iter().filter(|line| line["name"].is_string()).count();
    assert_eq!(lost["records"], records, "{}", stderr(&dumped));
    assert!(stdout(&repair(&log, &[])).contains(&format!("--from-lsn {from} --past-damage")));
}

#[test]
fn what_was_moved_away_can_still_be_read() {
    let log = rotten();
    assert_eq!(code(&repair(&log, &["--plan", "accept-loss", "--yes"])), 0);
    let backup = backups(&log).pop().unwrap();
    let dumped = walctl(&["dump", backup.to_str().unwrap(), "--json"]);
    assert!(stdout(&dumped).contains("pay:9"), "{}", stderr(&dumped));
    assert!(!log.path().join("repair.incomplete").exists());
}

#[test]
fn what_it_says_to_people() {
    for (name, log, options) in [
        ("repair-rot.txt", rotten(), &[][..]),
        ("repair-rot.jsonl", rotten(), &["--json"]),
        ("repair-clean.txt", sample(), &[]),
    ] {
        // In a place of its own, without the stores of other tests beside it.
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("data");
        copied(log.path(), &dir);
        let output = repair_dir(&dir, options);
        // What is free differs from machine to machine.
        let text = stdout(&output).replace(dir.to_str().unwrap(), "DIR");
        let text: String = text
            .split_inclusive('\n')
            .filter(|line| !line.ends_with("are free\n"))
            .map(|line| match line.split_once(",\"available_bytes\":") {
                Some((before, _)) => format!("{before}}}\n"),
                None => line.to_owned(),
            })
            .collect();
        check_golden(name, &text);
    }
}

#[test]
fn nothing_is_changed_without_a_yes_or_with_another_plan() {
    let log = rotten();
    let before = image(log.path());
    for (options, words) in [
        (&["--plan", "accept-loss"][..], "--yes"),
        (&["--plan", "cut-tail", "--yes"], "is accept-loss, not cut-tail"),
        (&["--plan", "control", "--yes"], "is accept-loss, not control"),
        (&["--plan", "mend", "--yes"], "possible values"),
    ] {
        let output = repair(&log, options);
        assert_eq!(code(&output), 1, "{options:?}: {}", stdout(&output));
        assert!(
            stderr(&output).contains(words),
            "{options:?}: {}",
            stderr(&output)
        );
    }
    let wal = log.path().join("wal");
    let output = repair(
        &log,
        &[
            "--plan",
            "accept-loss",
            "--yes",
            "--backup",
            wal.to_str().unwrap(),
        ],
    );
    assert!(stderr(&output).contains("it is in wal"), "{}", stderr(&output));
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("file"), b"").unwrap();
    let full = elsewhere.path().to_str().unwrap();
    let output = repair(&log, &["--plan", "accept-loss", "--yes", "--backup", full]);
    assert!(stderr(&output).contains("not empty"), "{}", stderr(&output));
    assert!(image(log.path()) == before, "the directory was changed");

    let log = sample();
    let before = image(log.path());
    let output = repair(&log, &["--plan", "cut-tail", "--yes"]);
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
    assert!(stdout(&output).contains("nothing to repair"));
    assert!(image(log.path()) == before, "the directory was changed");
}

#[test]
fn what_a_server_uses_is_left_alone() {
    let log = rotten();
    let before = image(log.path());
    let server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    for options in [&[][..], &["--plan", "accept-loss", "--yes"]] {
        let output = repair(&log, options);
        assert_eq!(code(&output), 1);
        assert!(stderr(&output).contains("in use"), "{}", stderr(&output));
    }
    assert!(image(log.path()) == before, "the directory was changed");
    drop(server);
    assert_eq!(code(&repair(&log, &["--plan", "accept-loss", "--yes"])), 0);
    // Nor does the script touch it.
    let backup = backups(&log).pop().unwrap();
    let repaired = files(&log);
    let server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    let output = undo(&backup);
    if stderr(&output).contains("in use") {
        assert!(files(&log) == repaired);
    } else {
        skip("no flock for shell scripts");
    }
    drop(server);
}

#[test]
fn the_script_refuses_a_directory_that_a_server_has_started_on() {
    let mut log = rotten();
    assert_eq!(code(&repair(&log, &["--plan", "accept-loss", "--yes"])), 0);
    log.reopen();
    let started = files(&log);
    let output = undo(&backups(&log)[0]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("has started"), "{}", stderr(&output));
    assert!(files(&log) == started);
}

#[test]
fn the_backup_may_be_elsewhere_and_the_script_still_finds_its_way() {
    let log = rotten();
    let before = files(&log);
    let elsewhere = tempfile::tempdir().unwrap();
    let backup = elsewhere.path().join("it's a $(place)");
    let output = repair(
        &log,
        &[
            "--plan",
            "accept-loss",
            "--yes",
            "--backup",
            backup.to_str().unwrap(),
        ],
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(backups(&log).is_empty());
    assert_eq!(letter(&log), "B");
    let output = undo(&backup);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(files(&log) == before);
}

#[test]
fn what_root_repairs_belongs_to_the_directorys_owner() {
    use std::os::unix::fs::{MetadataExt, chown};
    let log = rotten();
    if chown(log.path(), Some(12_345), Some(12_345)).is_err() {
        return skip("only root gives files away");
    }
    let owner = || std::fs::metadata(log.path().join("control")).unwrap().uid();
    chown(log.path().join("control"), Some(12_345), Some(12_345)).unwrap();
    assert_eq!(code(&repair(&log, &["--plan", "accept-loss", "--yes"])), 0);
    assert_eq!(owner(), 12_345);
    let output = undo(&backups(&log)[0]);
    assert_eq!((code(&output), owner()), (0, 12_345), "{}", stderr(&output));
}

#[test]
fn a_full_disk_is_said_in_bytes_and_changes_nothing() {
    let log = junk_at_the_end();
    // 200 kB of junk behind the log, so that the copy needs space.
    log.damage(|bytes| bytes.extend_from_slice(&[0x5a; 200_000]));
    let parent = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=400k none \"$1\" && cp -r \"$2\" \"$1/data\" && echo mounted >&2 \
                  && { dd if=/dev/zero of=\"$1/filler\" bs=4k 2>/dev/null; true; }; \
                  \"$3\" repair \"$1/data\" --plan cut-tail --yes; echo \"code $?\" >&2; \
                  \"$3\" verify \"$1/data\" --json | tail -n 1; ls \"$1/data\" >&2; \
                  \"$3\" repair \"$1/data\" --plan cut-tail --yes --backup \"$4\"; echo \"code $?\" >&2";
    let elsewhere = parent.path().join("backup");
    let mount = parent.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(&mount)
        .arg(log.path())
        .arg(env!("CARGO_BIN_EXE_walctl"))
        .arg(&elsewhere)
        .output();
    let output = match output {
        Ok(output) if stderr(&output).contains("mounted\n") => output,
        Ok(output) => return skip(&format!("no mount: {}", stderr(&output))),
        Err(error) => return skip(&format!("no unshare: {error}")),
    };
    let words = stderr(&output);
    assert!(
        words.contains("no space for the backup, nothing was changed"),
        "{words}"
    );
    assert!(
        words.contains("code 1\n") && words.contains("code 0\n"),
        "{words}"
    );
    assert!(
        !words.contains("backup-"),
        "nothing is left of the first attempt: {words}"
    );
    assert!(
        stdout(&output).contains("\"letter\":\"E\""),
        "{}",
        stdout(&output)
    );
    assert!(elsewhere.join("undo.sh").exists());
}
