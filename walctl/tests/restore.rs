//! `walctl restore`: a directory that starts, holds exactly the state, and is never taken for the one it came from.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use idem_protocol::control::Control;
use idem_protocol::wal::{EpochReason, Record};
use idem_protocol::{Lsn, UnixMs};
use idem_wal::lock::DirLock;
use idem_wal::recovery::{Ignore, JudgeOptions, OpenParams, judge, open};
use idem_wal::storage::DiskStorage;
use serde_json::Value as Json;
use support::histories::{Model, records};
use support::*;

fn restore(dir: &Path, into: &Path, more: &[&str]) -> Output {
    let mut arguments = vec!["restore", dir.to_str().unwrap(), "--into", into.to_str().unwrap()];
    arguments.extend(more);
    command(&arguments).stdin(Stdio::null()).output().unwrap()
}

fn restored(dir: &Path, into: &Path, more: &[&str]) -> Json {
    let output = restore(dir, into, &[&["--yes", "--json"], more].concat());
    assert_eq!(code(&output), 0, "{more:?}: {}", stderr(&output));
    objects(&output).pop().unwrap()
}

fn check_refused(dir: &Path, into: &Path, more: &[&str], words: &str) {
    let output = restore(dir, into, more);
    assert_eq!(code(&output), 1, "{more:?}: {}", stderr(&output));
    assert!(stderr(&output).contains(words), "{more:?}: {}", stderr(&output));
    assert_eq!(stdout(&output), "");
}

fn control(dir: &Path) -> Control {
    Control::decode(&std::fs::read(dir.join("control")).unwrap()).unwrap()
}

fn json(arguments: &[&str]) -> Json {
    let output = walctl(arguments);
    assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
    objects(&output).pop().unwrap()
}

/// What is promised of a restored directory.
fn check_directory(source: &Control, into: &Path, told: &Json, lsn: Lsn, model: &Model) {
    let dir = into.to_str().unwrap();
    assert_eq!(told["lsn"], lsn.get());
    assert_eq!(told["time_ms"], model.time.get());
    assert_eq!(told["keys"], model.live().count());
    let verdict = json(&["verify", dir, "--json"]);
    assert_eq!(
        (&verdict["verdict"], &verdict["letter"]),
        (&"CLEAN".into(), &"A".into())
    );
    let state = json(&["replay", dir, "--json"]);
    assert_eq!(state["digest"], model.digest(), "at lsn {lsn}");
    assert_eq!(state["keys"], model.live().count());
    assert_eq!(state["time_ms"], model.time.get(), "a restore ends no key");
    assert_eq!(state["lsn"], told["end_lsn"]);

    let first = records(into).remove(0);
    assert_eq!(first.lsn, lsn, "the log goes on where it was cut");
    let Record::EpochStart {
        epoch, node, reason, ..
    } = first.raw().decode().unwrap()
    else {
        panic!("the first record of a restored log is no EpochStart");
    };
    assert_eq!(reason, EpochReason::Restore);
    assert_eq!(told["epoch"], epoch.number);
    let new = control(into);
    assert!(
        epoch.number > source.promised_epoch,
        "above all epochs of the source"
    );
    assert_eq!((new.node, new.history.last().unwrap().epoch), (node, epoch));
    assert_ne!(new.node, source.node);
    assert_ne!(new.cluster, source.cluster);
}

/// Starts, as a server does, and writes.
fn check_goes_on(into: &Path) {
    let end = records(into).last().unwrap().end;
    let storage = DiskStorage::open(into).unwrap();
    let options = JudgeOptions {
        retain_tail: true,
        ..JudgeOptions::default()
    };
    let judgement = judge(&storage, &options, &mut Ignore);
    let mut salt = 0;
    let params = OpenParams {
        now: UnixMs::new(START_MS + 1_000_000),
        segment_bytes: SEGMENT_BYTES,
        entropy: Box::new(move || {
            salt += 1;
            [salt; 16]
        }),
    };
    let mut opened = open(&storage, judgement, params).unwrap();
    let record = string(b"after", b"1");
    opened.batch.reserve(record.encoded_len()).unwrap();
    opened.batch.append(opened.log_time, 0, &record);
    let mut group = opened.batch.take(Vec::new()).unwrap();
    opened.writer.write(&mut group).unwrap();
    opened.writer.sync().unwrap();
    opened.writer.shut_down().unwrap();
    let all = records(into);
    let added: Vec<_> = all.iter().filter(|record| record.lsn >= end).collect();
    assert_eq!(added.len(), 2, "an EpochStart and the record");
    let dir = into.to_str().unwrap();
    assert_eq!(json(&["verify", dir, "--json"])["letter"], "A");
    let line = json(&["replay", dir, "--json", "--key", "after"]);
    assert_eq!(line["value_bytes"], 1);
}

#[test]
fn every_position_of_a_random_log_is_restored_to_the_state_of_a_plain_map() {
    let out = tempfile::tempdir().unwrap();
    for (seed, groups) in [(1, 25), (2, 25)] {
        let mut log = histories::random_log(seed, groups);
        log.shut_down();
        let source = control(log.path());
        let mut model = Model::default();
        let before = image(log.path());
        for (index, record) in records(log.path()).iter().enumerate() {
            model.apply(&record.raw());
            let into = out.path().join(format!("{seed}-{index}"));
            let lsn = record.end.to_string();
            let told = restored(log.path(), &into, &["--to-lsn", &lsn]);
            check_directory(&source, &into, &told, record.end, &model);
            if index % 5 == 0 {
                check_goes_on(&into);
            }
            std::fs::remove_dir_all(&into).unwrap();
        }
        assert_eq!(image(log.path()), before, "the source is only read");
    }
}

#[test]
fn a_time_is_the_last_record_of_it_and_the_lsn_is_told() {
    let log = sample();
    let out = tempfile::tempdir().unwrap();
    let told = restored(
        log.path(),
        &out.path().join("new"),
        &["--to-time", "2026-01-01T00:00:00.020Z"],
    );
    let all = records(log.path());
    let last = all
        .iter()
        .rfind(|record| record.time.get() <= START_MS + 20)
        .unwrap();
    assert_eq!(told["lsn"], last.end.get());
    assert_eq!(told["keys"], 2);
}

#[test]
fn no_two_restores_are_of_one_history() {
    let log = sample();
    let out = tempfile::tempdir().unwrap();
    let lsn = records(log.path()).last().unwrap().end.to_string();
    let mut seen = BTreeSet::new();
    for number in 0..4 {
        let into = out.path().join(number.to_string());
        restored(log.path(), &into, &["--to-lsn", &lsn]);
        let new = control(&into);
        let epoch = new.history.last().unwrap().epoch;
        assert!(seen.insert(new.cluster.0.to_vec()));
        assert!(seen.insert(new.node.0.to_vec()));
        assert!(seen.insert(epoch.nonce.to_le_bytes().to_vec()));
    }
    // The old cluster is kept only where that is asked for, and the node never.
    let into = out.path().join("same");
    restored(log.path(), &into, &["--to-lsn", &lsn, "--same-cluster"]);
    let (old, new) = (control(log.path()), control(&into));
    assert_eq!(new.cluster, old.cluster);
    assert_ne!(new.node, old.node);
    assert!(new.promised_epoch > old.promised_epoch);
    // Restored again, it goes further up.
    let again = out.path().join("again");
    restored(&into, &again, &["--to-lsn", &lsn]);
    assert!(control(&again).promised_epoch > new.promised_epoch);
}

#[test]
fn nothing_is_written_unasked_or_over_something() {
    let log = sample();
    let lsn = records(log.path())[2].end.to_string();
    let target = ["--to-lsn", &lsn, "--yes"];
    let out = tempfile::tempdir().unwrap();
    let absent = out.path().join("new");
    check_refused(log.path(), &absent, &["--to-lsn", &lsn], "--yes");
    check_refused(log.path(), &absent, &["--yes"], "--to-lsn");
    check_refused(
        log.path(),
        &absent,
        &["--to-time", "2026-01-01T00:00:00", "--yes"],
        "offset",
    );
    check_refused(
        log.path(),
        &absent,
        &["--to-lsn", "99999999", "--yes"],
        "outside of the log",
    );
    check_refused(
        log.path(),
        &log.path().join("new"),
        &target,
        "is in the directory",
    );
    check_refused(log.path(), log.path(), &target, "is in the directory");
    check_refused(log.path(), &out.path().join("a/b"), &target, "a: ");
    let output = restore(log.path(), &absent, &["--to-lsn", &lsn, "--dry-run", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(
        (&objects(&output)[0]["keys"], &objects(&output)[0]["dry_run"]),
        (&1.into(), &true.into())
    );
    assert!(!absent.exists(), "nothing is there after any of these");

    let file = out.path().join("file");
    std::fs::write(&file, "").unwrap();
    check_refused(log.path(), &file, &target, "file");
    let full = out.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("mine"), "kept").unwrap();
    check_refused(log.path(), &full, &target, "not empty: it has mine");
    // A data directory that lost its control file is no leftover.
    let other = sample();
    std::fs::remove_file(other.path().join("control")).unwrap();
    let before = image(other.path());
    check_refused(log.path(), other.path(), &target, "not empty");
    assert_eq!(image(other.path()), before);
    let finished = out.path().join("finished");
    std::fs::create_dir_all(finished.join("lost+found")).unwrap();
    restored(log.path(), &finished, &["--to-lsn", &lsn]);
    check_refused(log.path(), &finished, &target, "not empty: it has control");
    let locked = out.path().join("locked");
    std::fs::create_dir(&locked).unwrap();
    let _server = DirLock::exclusive(&locked, Duration::ZERO).unwrap();
    check_refused(log.path(), &locked, &target, "in use");
}

/// What a restore leaves that is killed before its last step: everything but the control file.
fn interrupted(log: &TestLog, lsn: &str, out: &Path) -> PathBuf {
    let into = out.join("interrupted");
    restored(log.path(), &into, &["--to-lsn", lsn]);
    std::fs::remove_file(into.join("control")).unwrap();
    std::fs::write(into.join("restore.incomplete"), "").unwrap();
    std::fs::write(into.join("wal/new.tmp"), "half").unwrap();
    std::fs::write(into.join("snap/00000000000000000001.tmp"), "half").unwrap();
    into
}

#[test]
fn what_an_interrupted_restore_left_starts_no_server_and_is_removed_by_the_next() {
    let log = sample();
    let out = tempfile::tempdir().unwrap();
    let all = records(log.path());
    let into = interrupted(&log, &all[2].end.to_string(), out.path());
    let dir = into.to_str().unwrap();
    assert_eq!(code(&walctl(&["verify", dir])), 5, "a HOLE: no control file");
    std::fs::write(into.join("wal/mine"), "kept").unwrap();
    let lsn = all[5].end.to_string();
    check_refused(log.path(), &into, &["--to-lsn", &lsn, "--yes"], "wal/mine");
    std::fs::remove_file(into.join("wal/mine")).unwrap();
    let told = restored(log.path(), &into, &["--to-lsn", &lsn]);
    let mut model = Model::default();
    all[..=5].iter().for_each(|record| model.apply(&record.raw()));
    check_directory(&control(log.path()), &into, &told, all[5].end, &model);
    let names: BTreeSet<String> = std::fs::read_dir(&into)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = ["control", "control.spare", "snap", "wal"].map(str::to_owned);
    assert_eq!(names, BTreeSet::from(expected));
}

#[test]
fn a_damaged_log_is_restored_to_before_the_damage() {
    let mut log = TestLog::new(0);
    log.group(&[(10, 0, string(b"a", b"kept"))]);
    let cut = log.group(&[(20, 0, string(b"b", b"also kept"))]);
    log.group(&[(30, 0, string(b"c", b"rotten"))]);
    log.group(&[(40, 0, string(b"d", b"behind"))]);
    log.shut_down();
    let at = log.find(b"rotten");
    log.damage(|bytes| bytes[at] ^= 1);
    let out = tempfile::tempdir().unwrap();
    let into = out.path().join("new");
    let end = (cut.get() + 1).to_string();
    let output = restore(log.path(), &into, &["--yes", "--to-lsn", &end]);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    assert!(!into.exists());
    let output = restore(
        log.path(),
        &into,
        &["--yes", "--json", "--to-lsn", &cut.to_string()],
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("note:"), "{}", stderr(&output));
    assert_eq!(json(&["replay", into.to_str().unwrap(), "--json"])["keys"], 2);
    // Without its control file the records are as good; only the old cluster's name is lost with everything else.
    std::fs::remove_file(log.path().join("control")).unwrap();
    let again = out.path().join("again");
    restored(log.path(), &again, &["--to-lsn", &cut.to_string()]);
    check_goes_on(&again);
}

/// Runs a restore that may make no file longer than so many blocks of the shell's; killed for it, or told.
fn limited(log: &TestLog, into: &Path, lsn: &str, blocks: u32, told: bool) -> Output {
    let script = format!(
        "{} ulimit -f {blocks}; exec \"$0\" \"$@\"",
        if told { "trap '' XFSZ;" } else { "" }
    );
    std::process::Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_walctl"), "restore"])
        .args([log.path(), Path::new("--into"), into])
        .args(["--to-lsn", lsn, "--yes"])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn killed_or_without_room_it_leaves_nothing_that_starts_and_nothing_in_the_way() {
    let mut log = TestLog::new(0);
    let value = vec![b'v'; 900_000];
    for key in 0..6 {
        log.group(&[(key, 0, string(&[b'0' + u8::try_from(key).unwrap()], &value))]);
    }
    let lsn = log.end().to_string();
    log.shut_down();
    let out = tempfile::tempdir().unwrap();
    // In the middle of the segment, and of the snapshot; a block is 512 or 1024 bytes.
    for (number, blocks) in [400, 4000].into_iter().enumerate() {
        let into = out.path().join(number.to_string());
        let output = limited(&log, &into, &lsn, blocks, true);
        assert_eq!(code(&output), 1, "{}", stderr(&output));
        assert!(stderr(&output).contains("too large"), "{}", stderr(&output));
        assert!(!into.exists(), "it is taken away again");

        let output = limited(&log, &into, &lsn, blocks, false);
        assert_eq!(output.status.code(), None, "killed: {}", stderr(&output));
        assert!(into.join("restore.incomplete").exists());
        let verdict = code(&walctl(&["verify", into.to_str().unwrap()]));
        assert_eq!(verdict, 5);
        assert_eq!(restored(log.path(), &into, &["--to-lsn", &lsn])["keys"], 6);
        assert_eq!(json(&["verify", into.to_str().unwrap(), "--json"])["letter"], "A");
    }
}

/// Whatever a restore left, nothing starts there, and the next one begins anew.
#[test]
fn a_directory_in_which_a_restore_was_interrupted_is_refused_until_it_is_repeated() {
    let log = sample();
    let out = tempfile::tempdir().unwrap();
    let into = out.path().join("new");
    let (source, into) = (log.path().to_str().unwrap(), into.to_str().unwrap());
    let end = json(&["verify", source, "--json"])["end_lsn"].to_string();
    let restore = || walctl(&["restore", source, "--into", into, "--to-lsn", &end, "--yes"]);
    std::fs::create_dir(into).unwrap();
    let mark = std::path::Path::new(into).join("restore.incomplete");
    for _ in 0..2 {
        // First with nothing else, then with all of a restore whose last step is missing.
        std::fs::write(&mark, b"").unwrap();
        let output = walctl(&["verify", into]);
        assert_eq!(code(&output), 5, "{}", stdout(&output));
        assert!(
            stdout(&output).contains("restore can be repeated"),
            "{}",
            stdout(&output)
        );
        let output = restore();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert_eq!(code(&walctl(&["verify", into])), 0);
    }
}
