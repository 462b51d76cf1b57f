//! What a repair says of the rest: how far the log went, and what else can be done; and what it does not write.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use idem_protocol::Lsn;
use idem_protocol::snapshot::SnapshotTrailer;
use serde_json::Value;
use support::repairs::*;
use support::snapshots::{cluster_of, write_snapshot};
use support::*;

/// Small groups in one segment, and a snapshot that ends where the fourth of them does.
fn with_a_snapshot() -> (TestLog, Vec<Lsn>) {
    let mut log = TestLog::new(0);
    let group = |number: u64| {
        let key = format!("pay:{number}");
        log.group(&[(number, 3, pending(key.as_bytes(), 60_000, b"fp", b"worker"))])
    };
    let ends: Vec<Lsn> = (0..6).map(group).collect();
    let trailer = SnapshotTrailer {
        end_lsn: ends[3],
        ..SnapshotTrailer::default()
    };
    write_snapshot(log.path(), cluster_of(log.path()), ends[2], &[], trailer);
    (log, ends)
}

/// Something is done to a copy that has no stores of other tests beside it.
fn on_a_copy<T>(log: &TestLog, act: impl FnOnce(&Path) -> T) -> T {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("data");
    copied(log.path(), &dir);
    act(&dir)
}

/// The lines of verify that stand beside its verdict.
fn also(output: &Output) -> Vec<String> {
    let text = stdout(output);
    let lines = text.lines().filter(|line| line.contains("  also: "));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_log_that_was_cut_short_went_further_than_anything_tells() {
    let (log, ends) = with_a_snapshot();
    for bytes in [4096 + 100, 4096 + 200, 4096 + 300, 4096 + 560] {
        on_a_copy(&log, |dir| {
            let name = log.segments()[0].file_name().unwrap().to_owned();
            let file = OpenOptions::new().write(true).open(dir.join("wal").join(name));
            file.unwrap().set_len(bytes).unwrap();
            let verified = also(&walctl(&["verify", dir.to_str().unwrap()]));
            assert!(
                verified.iter().any(|line| line.contains("was cut short")),
                "{bytes}"
            );
            let output = repair_dir(dir, &[]);
            assert_eq!(also(&output), verified, "{bytes}");
            let text = stdout(&output);
            let shown = objects(&repair_dir(dir, &["--json"])).pop().unwrap();
            let lost = &shown["lost"];
            assert_eq!(lost["to_lsn_at_least"], true, "{bytes}: {lost}");
            assert!(
                shown["also"].to_string().contains("was cut short"),
                "{bytes}: {shown}"
            );
            if shown["letter"] == "F" {
                assert_eq!(lost["to_lsn"], ends[3].get(), "{bytes}: the snapshot's promise");
                assert!(text.contains("to at least"), "{bytes}: {text}");
            } else {
                assert!(
                    text.contains("to at least") || text.contains("nobody knows"),
                    "{bytes}: {text}"
                );
            }
        });
    }
}

/// A group whose header is good tells how far it went, though its records are gone.
#[test]
fn the_header_of_a_group_that_is_gone_tells_how_far_the_log_went() {
    let log = several_segments();
    let newest = log.segments().pop().unwrap();
    on_a_copy(&log, |dir| {
        flip(
            &dir.join("wal").join(log.segments()[0].file_name().unwrap()),
            4096 + 30_000,
        );
        let file = OpenOptions::new()
            .write(true)
            .open(dir.join("wal").join(newest.file_name().unwrap()));
        // Within the records of its only group.
        file.unwrap().set_len(4096 + 5000).unwrap();
        let shown = objects(&repair_dir(dir, &["--json"])).pop().unwrap();
        assert_eq!(shown["lost"]["to_lsn"], log.end().get(), "{shown}");
    });
}

#[test]
fn a_time_that_is_not_known_is_none() {
    let (log, _) = with_a_snapshot();
    on_a_copy(&log, |dir| {
        fs::remove_dir_all(dir.join("wal")).unwrap();
        let text = stdout(&repair_dir(dir, &[]));
        assert!(text.contains("time unknown") && !text.contains("1970"), "{text}");
        let shown = objects(&repair_dir(dir, &["--json"])).pop().unwrap();
        assert_eq!(shown["log_time_ms"], Value::Null, "{shown}");
    });
}

/// What follows a word in the first line that has it.
fn argument<'a>(text: &'a str, line: &str, word: &str) -> &'a str {
    let found = text.lines().find(|found| found.contains(line));
    let line = found.unwrap_or_else(|| panic!("{line}: {text}"));
    line.split_once(word).unwrap().1.split(' ').next().unwrap()
}

/// The position that is named can be restored, and none above it.
fn check_restore(name: &str, dir: &Path, expected: Lsn) {
    let output = repair_dir(dir, &[]);
    let lsn = argument(&stdout(&output), "walctl restore ", "--to-lsn ").to_owned();
    assert_eq!(lsn, expected.to_string(), "{name}");
    let shown = objects(&repair_dir(dir, &["--json"])).pop().unwrap();
    assert_eq!(shown["restore_to_lsn"], expected.get(), "{name}: {shown}");
    let into = dir.parent().unwrap().join("new");
    let restore = |lsn: &str| {
        let options = ["--into", into.to_str().unwrap(), "--to-lsn", lsn, "--dry-run"];
        walctl(&[&["restore", dir.to_str().unwrap()], &options[..]].concat())
    };
    let output = restore(&lsn);
    assert_eq!(code(&output), 0, "{name}: {}", stderr(&output));
    let beyond = restore(&expected.plus(1).to_string());
    assert_ne!(code(&beyond), 0, "{name}");
}

#[test]
fn without_a_plan_or_with_a_loss_the_newest_state_that_is_left_is_named() {
    let log = several_segments();
    let name = |back: usize| {
        log.segments()
            .into_iter()
            .rev()
            .nth(back)
            .unwrap()
            .file_name()
            .unwrap()
            .to_owned()
    };
    let first_of = |back: usize| Lsn::new(name(back).to_str().unwrap()[..20].parse().unwrap());
    on_a_copy(&log, |dir| {
        fs::remove_file(dir.join("wal").join(name(0))).unwrap();
        check_restore("the newest segment is gone", dir, first_of(0));
    });
    on_a_copy(&log, |dir| {
        fs::remove_file(dir.join("wal").join(name(1))).unwrap();
        check_restore("one in the middle is gone", dir, first_of(1));
    });
    on_a_copy(&log, |dir| {
        flip(&dir.join("wal").join(name(1)), 4096 + 30_000);
        let end = objects(&repair_dir(dir, &["--json"])).pop().unwrap()["after"]["end_lsn"].as_u64();
        check_restore("rot", dir, Lsn::new(end.unwrap()));
    });
    // Nothing is lost by these.
    for log in [junk_at_the_end(), without_control(), sample()] {
        on_a_copy(&log, |dir| {
            let text = stdout(&repair_dir(dir, &[]));
            assert!(!text.contains("walctl restore"), "{text}");
        });
    }
}

#[test]
fn an_archive_of_this_log_beside_the_directory_is_named() {
    let log = several_segments();
    let mut other = TestLog::new(3);
    for number in 0..10 {
        other.group(&[(number, 0, string(b"filler", &[b'v'; 20_000]))]);
    }
    on_a_copy(&log, |dir| {
        let archive = |from: &Path, store: &Path| {
            let options = ["--into", store.to_str().unwrap(), "--yes"];
            let output = walctl(&[&["archive", from.to_str().unwrap()], &options[..]].concat());
            assert_eq!(code(&output), 0, "{}", stderr(&output));
        };
        let parent = dir.parent().unwrap();
        archive(other.path(), &parent.join("of another log"));
        let newest = log.segments().pop().unwrap();
        fs::remove_file(dir.join("wal").join(newest.file_name().unwrap())).unwrap();
        let text = stdout(&repair_dir(dir, &[]));
        assert!(text.contains("--from STORE"), "only another one's: {text}");

        archive(log.path(), &parent.join("store"));
        let text = stdout(&repair_dir(dir, &[]));
        let store = argument(&text, "--from", "--from ");
        assert!(Path::new(store).starts_with(parent.join("store")), "{text}");
        let into = parent.join("new");
        let lsn = argument(&text, "--from", "--to-lsn ");
        let options = ["restore", "--from", store, "--into", into.to_str().unwrap()];
        let output = walctl(&[&options[..], &["--to-lsn", lsn, "--yes"]].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let shown = objects(&repair_dir(dir, &["--json"])).pop().unwrap();
        assert_eq!(shown["archives"][0]["store"], store, "{shown}");
    });
}

#[test]
fn the_zeros_of_a_sparse_segment_are_neither_written_nor_copied() {
    // Beyond what 32 bits count, where the minute that it takes is asked for.
    let asked = std::env::var_os("IDEM_REQUIRE_ALL").is_some_and(|value| value == "1");
    let bytes: u64 = if asked { 5 << 30 } else { 1 << 30 };
    let log = junk_at_the_end();
    let path = log.segments().pop().unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    if file.set_len(bytes).is_err() {
        return skip("no large sparse file");
    }
    file.write_all_at(b"junk at the very end", bytes - 20).unwrap();
    let held = || file.metadata().unwrap().blocks() * 512;
    let held_before = held();
    let begun = Instant::now();
    let output = repair_dir(log.path(), &["--plan", "cut-tail", "--yes", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(
        begun.elapsed() < Duration::from_secs(240),
        "{:?}",
        begun.elapsed()
    );
    let [shown, done] = &objects(&output)[..] else {
        panic!("{}", stdout(&output))
    };
    let change = &shown["changes"][0];
    assert!(change["bytes"].as_u64().unwrap() > bytes - 100_000, "{change}");
    assert!(change["data_bytes"].as_u64().unwrap() < 100_000, "{change}");
    assert!(shown["backup_bytes"].as_u64().unwrap() < 1 << 20, "{shown}");
    let (metadata, mut end) = (file.metadata().unwrap(), [1; 20]);
    file.read_exact_at(&mut end, bytes - 20).unwrap();
    assert_eq!((metadata.len(), end), (bytes, [0; 20]));
    assert!(held() <= held_before + (1 << 20), "{} {held_before}", held());

    let backup = Path::new(done["backup"].as_str().unwrap());
    let kept: u64 = ["wal", ""]
        .iter()
        .map(|dir| {
            let entries = fs::read_dir(backup.join(dir)).unwrap();
            entries
                .map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512)
                .sum::<u64>()
        })
        .sum();
    assert!(kept < 1 << 20, "{kept}");
    let output = undo(backup);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    file.read_exact_at(&mut end, bytes - 20).unwrap();
    assert_eq!(&end, b"junk at the very end");
    assert!(held() <= held_before + (1 << 20), "{} {held_before}", held());
}
