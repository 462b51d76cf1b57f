//! `walctl` on a store: the manifest says what was archived, and what is something else is never taken for it.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use support::*;
use tempfile::TempDir;

/// A record of 20000 bytes: three make a segment.
fn fill(log: &mut TestLog, numbers: std::ops::Range<u64>, value: u8) {
    for number in numbers {
        let key = format!("key-{number}");
        log.group(&[(number, 0, string(key.as_bytes(), &[value; 20_000]))]);
    }
}

/// The same node, cluster, positions and salts, whatever the value: what two servers make that run on copies of a directory.
fn log(records: u64, value: u8) -> TestLog {
    let mut log = TestLog::new(0);
    fill(&mut log, 0..records, value);
    log
}

fn archive(log: &Path, store: &Path, options: &[&str]) -> Output {
    let arguments = [
        "archive",
        log.to_str().unwrap(),
        "--into",
        store.to_str().unwrap(),
    ];
    walctl(&[&arguments, options].concat())
}

struct Store {
    kept: TempDir,
    path: PathBuf,
    history: PathBuf,
    totals: Value,
}

fn archived(log: &TestLog) -> Store {
    let kept = tempfile::tempdir().unwrap();
    let path = kept.path().join("store");
    let output = archive(log.path(), &path, &["--yes", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let totals = objects(&output).pop().unwrap();
    let history = PathBuf::from(totals["into"].as_str().unwrap());
    Store {
        kept,
        path,
        history,
        totals,
    }
}

impl Store {
    fn end(&self) -> String {
        self.totals["end_lsn"].to_string()
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.history.join("wal")).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    fn entries(&self) -> Value {
        let bytes = std::fs::read(self.history.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&bytes).unwrap();
        manifest["manifest"]["segments"].clone()
    }

    fn restore(&self, to: &str, value: &str) -> Output {
        let new = self.kept.path().join("new");
        let _ = std::fs::remove_dir_all(&new);
        let from = self.path.to_str().unwrap();
        let into = new.to_str().unwrap();
        walctl(&[
            "restore", "--from", from, "--into", into, to, value, "--yes", "--json",
        ])
    }

    fn on(&self, command: &str, options: &[&str]) -> Output {
        walctl(&[&[command, self.history.to_str().unwrap()], options].concat())
    }
}

fn last(output: &Output) -> Value {
    objects(output).pop().unwrap()
}

#[test]
fn the_last_millisecond_of_a_store_is_not_complete_and_the_time_that_is_offered_is() {
    // The next segment begins in the same millisecond.
    let mut log = log(2, b'v');
    for number in 2..8_u64 {
        let key = format!("key-{number}");
        log.group(&[(5, 0, string(key.as_bytes(), &[b'v'; 20_000]))]);
    }
    let store = archived(&log);
    let time = START_MS + 5;
    let entries = store.entries();
    let newest = entries.as_array().unwrap().last().unwrap();
    assert_eq!(newest["last_time_ms"], time);

    let refused = store.restore("--to-time", &time.to_string());
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains(&format!("--to-lsn {} is its end", store.end())),
        "{}",
        stderr(&refused)
    );
    let range = &last(&refused)["ranges"][0];
    let offered = range["to_time_ms"].as_u64().unwrap();
    assert!(offered < time, "{range}");
    let restored = store.restore("--to-time", &offered.to_string());
    assert_eq!(code(&restored), 0, "{}", stderr(&restored));
    let here = walctl(&[
        "replay",
        log.path().to_str().unwrap(),
        "--json",
        "--to-time",
        &offered.to_string(),
    ]);
    for field in ["lsn", "digest", "keys"] {
        assert_eq!(last(&restored)[field], last(&here)[field], "{field}");
    }
    let end = store.restore("--to-lsn", &store.end());
    assert_eq!(code(&end), 0, "{}", stderr(&end));
    // The log itself ends somewhere, and nothing of that time can come.
    let whole = walctl(&[
        "replay",
        log.path().to_str().unwrap(),
        "--json",
        "--to-time",
        &time.to_string(),
    ]);
    assert_eq!(code(&whole), 0, "{}", stderr(&whole));
}

#[test]
fn the_time_that_is_offered_before_damage_works() {
    let mut log = log(2, b'v');
    for number in 2..12_u64 {
        let key = format!("key-{number}");
        log.group(&[(number / 2, 0, string(key.as_bytes(), &[b'v'; 20_000]))]);
    }
    let second = &log.segments()[1];
    let mut bytes = std::fs::read(second).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(second, bytes).unwrap();
    let replay = |time: u64| {
        let time = time.to_string();
        walctl(&[
            "replay",
            log.path().to_str().unwrap(),
            "--json",
            "--to-time",
            &time,
        ])
    };
    let refused = replay(START_MS + 11);
    assert_eq!(code(&refused), 4, "{}", stderr(&refused));
    let offered = last(&refused)["ranges"][0]["to_time_ms"].as_u64().unwrap();
    let given = replay(offered);
    assert_eq!(code(&given), 0, "{offered}: {}", stderr(&given));
    assert_eq!(code(&replay(offered + 1)), 4);
}

/// What can become of the last archived segment, which no other one vouches for.
type Change = (&'static str, fn(&mut Vec<u8>));

#[test]
fn a_last_segment_that_lost_something_is_damaged() {
    let changes: [Change; 5] = [
        ("zeroed", |bytes| bytes.fill(0)),
        ("cut", |bytes| bytes.truncate(bytes.len() / 2)),
        ("cut to the header", |bytes| bytes.truncate(4096)),
        ("empty", Vec::clear),
        ("zero from a frame on", |bytes| {
            let half = bytes.len() / 2;
            bytes[half..].fill(0);
        }),
    ];
    let log = log(13, b'v');
    for (what, change) in changes {
        let store = archived(&log);
        let path = store.segments().pop().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        let entries = store.entries();
        let entries = entries.as_array().unwrap();
        let newest = entries.last().unwrap();
        let name = newest["file"].as_str().unwrap();
        let time = newest["last_time_ms"].as_u64().unwrap();

        for (to, value) in [
            ("--to-time", time.to_string()),
            ("--to-time", (time - 1).to_string()),
            ("--to-lsn", store.end()),
        ] {
            let output = store.restore(to, &value);
            assert_eq!(code(&output), 4, "{what} {to}: {}", stderr(&output));
            assert!(stderr(&output).contains(name), "{what}: {}", stderr(&output));
            assert!(stderr(&output).contains("--check"), "{what}: {}", stderr(&output));
        }
        let refused = last(&store.restore("--to-lsn", &store.end()));
        let range = &refused["ranges"][0];
        for (to, field) in [("--to-time", "to_time_ms"), ("--to-lsn", "to_lsn")] {
            let output = store.restore(to, &range[field].to_string());
            assert_eq!(code(&output), 0, "{what} {range}: {}", stderr(&output));
        }
        let before = entries[entries.len() - 2]["end_lsn"].to_string();
        let output = store.restore("--to-lsn", &before);
        assert_eq!(code(&output), 0, "{what}: {}", stderr(&output));
        for (command, expected) in [("replay", 4), ("verify", 4), ("dump", 1), ("stat", 1)] {
            let output = store.on(command, &["--json"]);
            assert_eq!(code(&output), expected, "{what} {command}: {}", stderr(&output));
        }
    }
}

#[test]
fn a_file_of_another_history_is_not_taken_for_the_archived_one() {
    let (ours, theirs) = (log(13, b'v'), log(13, b'w'));
    let segments = archived(&ours).segments().len();
    for index in 0..segments {
        let store = archived(&ours);
        let path = &store.segments()[index];
        let name = path.file_name().unwrap().to_str().unwrap();
        std::fs::copy(theirs.path().join("wal").join(name), path).unwrap();
        for output in [
            store.restore("--to-lsn", &store.end()),
            store.on("replay", &["--json"]),
            store.on("verify", &["--json"]),
            store.on("verify", &["--json", "--deep"]),
        ] {
            assert_eq!(code(&output), 4, "{name}: {}", stderr(&output));
        }
        assert!(
            stdout(&store.on("verify", &[])).contains(name),
            "{name} is not named"
        );
        // Nor is its beginning, which could all be read.
        let first = &store.entries()[index]["first_lsn"];
        let within = first.as_u64().unwrap() + 1;
        let key = format!("key-{}", index * 3 + 1);
        let listed = walctl(&["dump", ours.path().to_str().unwrap(), "--json", "--key", &key]);
        let lsn = last(&listed)["lsn"].as_u64().unwrap();
        assert!(lsn >= within);
        let output = store.restore("--to-lsn", &lsn.to_string());
        assert_eq!(code(&output), 4, "{name} lsn {lsn}: {}", stderr(&output));
        if index > 0 {
            let output = store.restore("--to-lsn", &first.to_string());
            assert_eq!(code(&output), 0, "{name}: {}", stderr(&output));
        }
        for command in ["dump", "stat"] {
            let output = store.on(command, &["--json"]);
            assert_ne!(code(&output), 0, "{name} {command}");
            assert!(stderr(&output).contains(name), "{command}: {}", stderr(&output));
        }
    }
}

#[test]
fn what_the_manifest_does_not_name_is_not_there() {
    let mut log = log(13, b'v');
    let store = archived(&log);
    fill(&mut log, 13..20, b'v');
    let next = &log.segments()[store.segments().len()];
    let copy = store.history.join("wal").join(next.file_name().unwrap());
    std::fs::copy(next, copy).unwrap();
    let state = last(&store.on("replay", &["--json"]));
    assert_eq!(state["lsn"].to_string(), store.end());
    // The next run finishes what a killed one left.
    let output = archive(log.path(), &store.path, &["--yes", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let state = last(&store.on("replay", &["--json"]));
    assert_eq!(state["lsn"], last(&output)["end_lsn"]);
}

/// A history that goes on with another one: the last segment of `theirs` behind all of `ours`, as earlier versions archived.
fn mix(ours: &Store, theirs: &Store) -> PathBuf {
    let text = |store: &Store| {
        let text = std::fs::read_to_string(store.history.join("manifest.json")).unwrap();
        text.split_whitespace().collect::<String>()
    };
    let (our_text, their_text) = (text(ours), text(theirs));
    let from = their_text.rfind("{\"file\":").unwrap();
    let to = from + their_text[from..].find('}').unwrap() + 1;
    let added = format!(",{}],\"snapshots\"", &their_text[from..to]);
    let manifest = our_text.strip_prefix("{\"manifest\":").unwrap();
    let manifest = &manifest[..manifest.rfind(",\"crc\":").unwrap()];
    let manifest = manifest.replace("],\"snapshots\"", &added);
    let crc = crc32fast::hash(manifest.as_bytes());
    let sealed = format!("{{\"manifest\":{manifest},\"crc\":{crc}}}");
    std::fs::write(ours.history.join("manifest.json"), sealed).unwrap();
    let path = theirs.segments().pop().unwrap();
    let copy = ours.history.join("wal").join(path.file_name().unwrap());
    std::fs::copy(path, &copy).unwrap();
    copy
}

#[test]
fn another_history_is_not_appended_and_one_that_was_is_found() {
    let (ours, theirs) = (log(13, b'v'), log(16, b'w'));
    // Retention has removed all that is archived of the other log.
    let store = archived(&ours);
    let before = image(&store.history);
    let whole = archived(&theirs);
    for path in &theirs.segments()[..store.segments().len()] {
        std::fs::remove_file(path).unwrap();
    }
    let output = archive(theirs.path(), &store.path, &["--yes", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_ne!(last(&output)["into"], store.totals["into"]);
    assert!(image(&store.history) == before, "another history was appended");

    let store = archived(&ours);
    let seam = mix(&store, &whole);
    let output = archive(theirs.path(), &store.path, &["--yes", "--check", "--json"]);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let found = objects(&output);
    let named: Vec<&str> = found.iter().filter_map(|line| line["file"].as_str()).collect();
    assert!(named.contains(&seam.to_str().unwrap()), "{found:?}");
    let output = store.on("verify", &["--json"]);
    assert_eq!(code(&output), 4, "{}", stdout(&output));
}

#[test]
fn nothing_is_written_into_a_directory_that_has_a_log() {
    let (ours, theirs) = (log(13, b'v'), log(13, b'w'));
    let store = archived(&theirs);
    let dir = theirs.path().to_str().unwrap();
    let history = store.history.to_str().unwrap();
    let before = (image(theirs.path()), image(&store.path));
    let segment = store.kept.path().join("copy");
    std::fs::copy(&theirs.segments()[0], &segment).unwrap();
    let source = ours.path().to_str().unwrap();
    for place in [
        format!("{dir}/control"),
        format!("{dir}/new"),
        format!("{dir}/wal/new"),
        format!("{dir}/wal/00000000000000000000.wal"),
        format!("{history}/manifest.json"),
        format!("{history}/new"),
        format!("{history}/snap/new"),
        format!("{}/new", store.path.display()),
        segment.to_str().unwrap().to_owned(),
    ] {
        let output = walctl(&["replay", source, "--export", &place, "--yes"]);
        assert_eq!(code(&output), 1, "{place}: {}", stderr(&output));
    }
    let end = store.end();
    for place in [
        format!("{dir}/new"),
        format!("{dir}/wal/new"),
        format!("{history}/new"),
    ] {
        let output = walctl(&["restore", source, "--into", &place, "--to-lsn", &end, "--yes"]);
        assert_eq!(code(&output), 1, "{place}: {}", stderr(&output));
        let output = archive(ours.path(), Path::new(&place), &["--yes"]);
        assert_eq!(code(&output), 1, "{place}: {}", stderr(&output));
    }
    assert!(before == (image(theirs.path()), image(&store.path)));
}
