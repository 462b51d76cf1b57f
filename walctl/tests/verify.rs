//! `walctl verify`: each row of the table by a log that deserves it, and nothing changed by looking.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::path::PathBuf;
use std::process::{Command, Output};

use idem_protocol::snapshot::SnapshotTrailer;
use idem_wal::lock::DirLock;
use serde_json::Value;
use support::histories::records;
use support::snapshots::{cluster_of, write_snapshot};
use support::*;

fn verify(log: &TestLog, options: &[&str]) -> Output {
    let dir = log.path().to_str().unwrap();
    walctl(&[&["verify", dir], options].concat())
}

/// Three groups, each synced before the next was written; not closed.
fn three_groups() -> TestLog {
    let mut log = TestLog::new(0);
    for (ms, key) in [(1, "first"), (2, "second"), (3, "third")] {
        log.group(&[(ms, 0, string(key.as_bytes(), b"value"))]);
    }
    log
}

fn flip(log: &TestLog, needle: &[u8]) {
    let at = log.find(needle);
    log.damage(|bytes| bytes[at] ^= 1);
}

fn junk_at_the_end(log: &TestLog) {
    log.damage(|bytes| {
        let end = bytes.len();
        bytes[end - 100..].fill(0x5a);
    });
}

fn check(name: &str, log: &TestLog, word: &str, letter: &str, expected: i32) -> Value {
    let before = image(log.path());
    let human = verify(log, &[]);
    let json = verify(log, &["--json"]);
    let dumped = walctl(&["dump", log.path().to_str().unwrap()]);
    assert!(
        image(log.path()) == before,
        "{name}: looking changed the directory"
    );
    assert_eq!(
        (code(&human), code(&json)),
        (expected, expected),
        "{name}: {}",
        stdout(&human)
    );
    let first = stdout(&human);
    let begins = format!("{word} (row {letter})");
    assert!(first.starts_with(&begins), "{name}: {first}");
    let objects = objects(&json);
    let (verdict, findings) = objects.split_last().expect("the verdict is the last line");
    assert_eq!(verdict["verdict"], word, "{name}");
    assert_eq!(verdict["letter"], letter, "{name}");
    assert!(findings.iter().all(|line| line["finding"].is_string()), "{name}");
    // A dump judges less, and never calls good what it could not read.
    assert!([0, 1].contains(&code(&dumped)), "{name}: {}", stderr(&dumped));
    verdict.clone()
}

#[test]
fn every_row_has_its_word_its_letter_and_its_code() {
    let log = sample();
    let verdict = check("closed", &log, "CLEAN", "A", 0);
    assert!(verdict["records"].as_u64().unwrap() > 10);

    let log = three_groups();
    let verdict = check("killed", &log, "CLEAN", "B", 0);
    assert_eq!(verdict["end_lsn"], log.end().get());
    assert_eq!(verdict["records"], 4);

    let log = sample();
    junk_at_the_end(&log);
    check("junk behind a closed log", &log, "TORN_TAIL", "C", 2);

    let mut log = TestLog::new(0);
    log.write(&[(1, 0, string(b"first", b"value"))]);
    log.write(&[(2, 0, string(b"second", b"value"))]);
    flip(&log, b"first");
    check("pages out of order", &log, "TORN_TAIL", "D", 2);

    let log = three_groups();
    junk_at_the_end(&log);
    check("junk behind an open log", &log, "UNPROVEN_TAIL", "E", 3);

    let log = three_groups();
    flip(&log, b"second");
    let verdict = check("rot", &log, "ROT", "F", 4);
    assert_eq!(verdict["file"], "wal/00000000000000000000.wal");
    for field in ["offset", "lsn", "promised_lsn", "expected_crc", "found_crc"] {
        assert!(verdict[field].as_u64().is_some(), "{field} in {verdict}");
    }
    assert_ne!(verdict["expected_crc"], verdict["found_crc"]);

    let log = three_groups();
    std::fs::remove_file(log.path().join("control")).unwrap();
    let verdict = check("no control file", &log, "HOLE", "G", 5);
    assert_eq!(verdict["file"], "control");

    let (log, other) = (three_groups(), TestLog::new(100));
    std::fs::copy(&other.segments()[0], &log.segments()[0]).unwrap();
    check("another node's segment", &log, "FOREIGN", "H", 6);

    let mut log = TestLog::new(0);
    log.shut_down();
    let closed = std::fs::read(log.path().join("control")).unwrap();
    log.reopen();
    std::fs::write(log.path().join("control"), closed).unwrap();
    check("records after a clean mark", &log, "BUG", "J", 8);

    let log = three_groups();
    let segment = log.segments().pop().unwrap();
    std::fs::remove_file(&segment).unwrap();
    std::fs::create_dir(&segment).unwrap();
    let verdict = check("a segment that cannot be read", &log, "IO_ERROR", "I", 9);
    assert_eq!(verdict["file"], "wal/00000000000000000000.wal");
}

#[test]
fn an_empty_directory_is_new_and_said_to_be_empty() {
    let empty = tempfile::tempdir().unwrap();
    let dir = empty.path().to_str().unwrap();
    let output = walctl(&["verify", dir, "--json"]);
    assert_eq!(code(&output), 0);
    let objects = objects(&output);
    assert_eq!(objects.len(), 1);
    assert_eq!(
        (&objects[0]["verdict"], &objects[0]["letter"]),
        (&"NEW".into(), &"N".into())
    );
    assert!(stderr(&output).contains("there is no log here"));
    assert!(stdout(&walctl(&["verify", dir])).starts_with("NEW (row N)"));
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
}

#[test]
fn what_is_no_directory_is_an_error_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, b"").unwrap();
    for command in ["verify", "dump"] {
        for path in [&file, &directory.path().join("missing")] {
            let output = walctl(&[command, path.to_str().unwrap()]);
            assert_eq!((code(&output), stdout(&output)), (1, String::new()));
            assert_eq!(stderr(&output).lines().count(), 1);
            assert!(stderr(&output).contains(path.to_str().unwrap()));
        }
    }
}

#[test]
fn what_it_says_to_people_and_to_programs() {
    let clean = sample();
    let rotten = three_groups();
    flip(&rotten, b"second");
    for (name, log, options) in [
        ("verify-clean.txt", &clean, &[][..]),
        ("verify-clean.jsonl", &clean, &["--json"]),
        ("verify-rot.txt", &rotten, &[]),
        ("verify-rot.jsonl", &rotten, &["--json"]),
    ] {
        check_golden(name, &stdout(&verify(log, options)));
    }
}

#[test]
fn what_stands_beside_a_good_verdict_is_a_finding_and_changes_nothing() {
    let log = sample();
    log.damage(|bytes| bytes[50] ^= 1);
    std::fs::write(log.path().join("snap/00000000000000000000.snap"), b"half").unwrap();
    let output = verify(&log, &["--json"]);
    assert_eq!(code(&output), 0);
    let objects = objects(&output);
    let files: Vec<&Value> = objects.iter().map(|line| &line["file"]).collect();
    assert_eq!(objects.last().unwrap()["letter"], "A");
    assert!(
        files.contains(&&"wal/00000000000000000000.wal".into()),
        "{files:?}"
    );
    assert!(
        files.contains(&&"snap/00000000000000000000.snap".into()),
        "{files:?}"
    );
    assert!(stdout(&verify(&log, &[])).contains("also: snap/"));
}

/// A snapshot of the end of a log, with these items.
fn snapshot_of_the_end(log: &TestLog, keys: &[&[u8]]) -> PathBuf {
    let all = records(log.path());
    let last = all.last().unwrap();
    let trailer = SnapshotTrailer {
        end_lsn: last.end,
        end_crc: last.raw().crc,
        log_time: last.time,
        ..SnapshotTrailer::default()
    };
    let items: Vec<_> = keys
        .iter()
        .map(|key| (last.end, 3, 0, string(key, b"value")))
        .collect();
    write_snapshot(log.path(), cluster_of(log.path()), last.end, &items, trailer)
}

#[test]
fn the_time_of_a_damaged_log_is_that_of_its_last_good_record() {
    let log = three_groups();
    snapshot_of_the_end(&log, &[b"first", b"second", b"third"]);
    let verdict = check("whole", &log, "CLEAN", "B", 0);
    assert_eq!(verdict["log_time_ms"], START_MS + 3);
    for (key, time) in [(&b"third"[..], 2), (b"second", 1), (b"first", 0)] {
        flip(&log, key);
        let verdict = check("damaged", &log, "ROT", "F", 4);
        assert_eq!(verdict["log_time_ms"], START_MS + time, "{verdict}");
        let human = stdout(&verify(&log, &[]));
        assert!(
            human.contains(&format!(", newest 2026-01-01T00:00:00.00{time}Z")),
            "{human}"
        );
    }
}

#[test]
fn a_damaged_snapshot_is_named_with_its_place_and_both_checksums() {
    // A bit in an item, and one that only the checksum over the whole file finds.
    for at_the_end in [false, true] {
        let log = three_groups();
        let path = snapshot_of_the_end(&log, &[b"first", b"second"]);
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        let at = if at_the_end { last } else { 44 + 30 };
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let output = verify(&log, &["--json"]);
        let found = &objects(&output)[0];
        assert_eq!((code(&output), &found["letter"]), (0, &Value::Null));
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(found["file"], format!("snap/{name}"));
        assert!(found["offset"].as_u64().unwrap() >= 44);
        let crcs = [&found["expected_crc"], &found["found_crc"]].map(|crc| crc.as_u64().unwrap());
        assert_ne!(crcs[0], crcs[1]);
        let human = stdout(&verify(&log, &[]));
        let words = format!("expected CRC {:08x}, found CRC {:08x}", crcs[0], crcs[1]);
        assert!(human.contains(&words), "{human}");
    }
}

#[test]
fn an_archived_log_is_said_to_be_one_and_what_can_be_done_with_it() {
    let mut log = TestLog::new(0);
    for number in 0..10 {
        log.group(&[(number, 0, string(b"filler", &[b'v'; 20_000]))]);
    }
    let store = tempfile::tempdir().unwrap();
    let into = store.path().to_str().unwrap();
    let archived = walctl(&["archive", log.path().to_str().unwrap(), "--into", into, "--yes"]);
    assert_eq!(code(&archived), 0, "{}", stderr(&archived));
    let history = std::fs::read_dir(store.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let history = history.to_str().unwrap();
    let (human, json) = (
        walctl(&["verify", history]),
        walctl(&["verify", history, "--json"]),
    );
    assert!(stdout(&human).contains("an archived log"), "{}", stdout(&human));
    let verdict = objects(&json).pop().unwrap();
    assert_eq!(verdict["archived"], true);
    for output in [&human, &json] {
        assert_eq!(code(output), 0);
        let said = stderr(output);
        assert!(
            said.contains(&format!("walctl archive DIR --into {into} --check")),
            "{said}"
        );
        let back = format!(
            "walctl restore --from {history} --into NEW --to-lsn {}",
            verdict["end_lsn"]
        );
        assert!(said.contains(&back), "{said}");
    }
    // And that command does it.
    let new = store.path().join("new");
    let end = verdict["end_lsn"].to_string();
    let back = [
        "restore",
        "--from",
        history,
        "--into",
        new.to_str().unwrap(),
        "--to-lsn",
        &end,
        "--yes",
    ];
    let output = walctl(&back);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(
        objects(&verify(&log, &["--json"])).pop().unwrap()["archived"],
        Value::Null
    );
}

#[test]
fn a_live_directory_is_judged_up_to_its_newest_mark() {
    let log = three_groups();
    junk_at_the_end(&log);
    let server = DirLock::exclusive(log.path(), std::time::Duration::ZERO).unwrap();
    let output = verify(&log, &["--json"]);
    let verdict = objects(&output).pop().unwrap();
    assert_eq!(code(&output), 0);
    assert_eq!(verdict["verdict"], "CLEAN");
    assert_eq!(verdict["live"], true);
    let vouched = verdict["end_lsn"].as_u64().unwrap();
    assert!(
        vouched > 0 && vouched < log.end().get(),
        "the mark is that of the last group's header"
    );
    assert!(stdout(&verify(&log, &[])).starts_with("CLEAN (row B, live)"));

    // What was synced must be there, whoever is writing.
    flip(&log, b"first");
    let output = verify(&log, &["--json"]);
    let verdict = objects(&output).pop().unwrap();
    assert_eq!((code(&output), &verdict["live"]), (4, &true.into()));

    // Looking does not keep a server out.
    drop(server);
    verify(&log, &[]);
    DirLock::exclusive(log.path(), std::time::Duration::ZERO).unwrap();
}

#[test]
fn a_directory_that_cannot_be_written_is_judged_all_the_same() {
    let log = sample();
    let dir = log.path().to_str().unwrap();
    // A mount of its own keeps writers out, root included. It is gone with the process.
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" && ! touch \"$1/x\" 2>/dev/null \
                  && echo mounted >&2 && \"$2\" verify \"$1\" --json && exec \"$2\" dump \"$1\" --json";
    let output = Command::new("unshare")
        .args([
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            dir,
            env!("CARGO_BIN_EXE_walctl"),
        ])
        .output();
    let output = match output {
        Ok(output) if stderr(&output).ends_with("mounted\n") => output,
        Ok(output) => return skip(&format!("no read-only mount: {}", stderr(&output))),
        Err(error) => return skip(&format!("no unshare: {error}")),
    };
    assert_eq!(code(&output), 0);
    assert_eq!(objects(&output)[0]["letter"], "A");
    assert!(objects(&output).len() > 10);
}
