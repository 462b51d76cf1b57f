//! Log below the snapshots: `verify` says that it leaves it out, and `verify --deep` finds what is wrong with it.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::path::Path;

use idem_protocol::snapshot::SnapshotTrailer;
use serde_json::Value;
use support::histories::records;
use support::snapshots::{cluster_of, write_snapshot};
use support::*;

/// A log of four segments with a snapshot of its end: all but the newest one lie below it.
fn long() -> TestLog {
    let mut log = TestLog::new(0);
    for number in 0..10 {
        let key = format!("key-{number}");
        log.group(&[(number, 0, string(key.as_bytes(), &[b'v'; 20_000]))]);
    }
    snapshot(&log);
    assert_eq!(log.segments().len(), 4);
    log
}

fn snapshot(log: &TestLog) {
    let all = records(log.path());
    let last = all.last().unwrap();
    let trailer = SnapshotTrailer {
        end_lsn: last.end,
        end_crc: last.raw().crc,
        log_time: last.time,
        ..SnapshotTrailer::default()
    };
    let items: Vec<_> = (0..10u64).map(|number| format!("key-{number}")).collect();
    let items: Vec<_> = items
        .iter()
        .map(|key| (last.end, 9, 0, string(key.as_bytes(), &[b'v'; 20_000])))
        .collect();
    write_snapshot(log.path(), cluster_of(log.path()), last.end, &items, trailer);
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

fn find(bytes: &[u8], needle: &[u8]) -> usize {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
        .unwrap()
}

/// The findings beside the verdict that lie below the snapshot, and the verdict. Neither is told by the exit code.
fn deep(log: &TestLog) -> (Vec<Value>, Value) {
    let before = image(log.path());
    let output = walctl(&["verify", log.path().to_str().unwrap(), "--deep", "--json"]);
    assert!(image(log.path()) == before, "looking changed the directory");
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let mut findings = objects(&output);
    let verdict = findings.pop().unwrap();
    assert_eq!(
        (&verdict["verdict"], &verdict["letter"]),
        (&"CLEAN".into(), &"B".into())
    );
    assert!(findings.iter().all(|line| line["letter"] == Value::Null));
    (findings, verdict)
}

#[test]
fn the_table_says_which_segments_are_not_judged_and_what_reads_them() {
    let log = long();
    let dir = log.path().to_str().unwrap();
    let human = stdout(&walctl(&["verify", dir]));
    let segments = log.segments();
    let names = segments
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap());
    let rows: Vec<&str> = human.lines().filter(|line| line.starts_with("wal/")).collect();
    assert_eq!(rows.len(), 4, "{human}");
    for (index, (row, name)) in rows.iter().zip(names).enumerate() {
        assert!(row.contains(name), "{row}");
        assert_eq!(row.ends_with("not judged"), index < 3, "{row}");
    }
    let advice = format!(
        "3 segments lie wholly below the snapshot: a start does not read that far, and they are not judged. To read all of it: walctl verify --deep {dir}\n"
    );
    assert!(human.ends_with(&advice), "{human}");
    let verdict = objects(&walctl(&["verify", dir, "--json"])).pop().unwrap();
    assert_eq!(verdict["segments"].as_array().unwrap().len(), 1);
    let left_out = verdict["not_judged"].as_array().unwrap();
    assert_eq!(left_out.len(), 3);
    for pair in left_out.windows(2) {
        assert_eq!(pair[0]["end_lsn"], pair[1]["first_lsn"]);
    }
    assert_eq!(left_out[2]["end_lsn"], verdict["segments"][0]["first_lsn"]);

    let human = stdout(&walctl(&["verify", dir, "--deep"]));
    assert!(
        human.contains("\nbelow     nothing is wrong: 10 records in 3 segments"),
        "{human}"
    );
    assert!(
        human.ends_with("not judged; --deep has read what there is\n"),
        "{human}"
    );
    let (findings, verdict) = deep(&log);
    assert_eq!(findings.len(), 0, "{findings:?}");
    assert_eq!(verdict["below"]["segments"], 3);
    assert_eq!(verdict["below"]["findings"], 0);
    let read = verdict["below"]["records"].as_u64().unwrap() + verdict["records"].as_u64().unwrap();
    assert_eq!(read, records(log.path()).len() as u64);
}

#[test]
fn a_log_that_is_judged_from_its_begin_has_nothing_to_say() {
    let log = sample();
    let dir = log.path().to_str().unwrap();
    for options in [&[][..], &["--deep"]] {
        let human = stdout(&walctl(&[&["verify", dir], options].concat()));
        assert!(!human.contains("judged") && !human.contains("below"), "{human}");
    }
    let verdict = objects(&walctl(&["verify", dir, "--deep", "--json"]))
        .pop()
        .unwrap();
    assert_eq!(
        (&verdict["not_judged"], &verdict["below"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn damage_there_is_a_finding_with_its_place_and_both_checksums() {
    let log = long();
    let path = &log.segments()[1];
    let bytes = std::fs::read(path).unwrap();
    let key = (0..10)
        .map(|number| format!("key-{number}"))
        .find(|key| bytes.windows(5).any(|window| window == key.as_bytes()));
    let at = find(&bytes, key.unwrap().as_bytes());
    let all = records(log.path());
    change(path, |bytes| bytes[at] ^= 1);
    // The verdict does not know, and is what a server says.
    assert_eq!(code(&walctl(&["verify", log.path().to_str().unwrap()])), 0);
    let (findings, verdict) = deep(&log);
    assert_eq!(findings.len(), 1, "{findings:?}");
    let found = &findings[0];
    let name = path.file_name().unwrap().to_str().unwrap();
    assert_eq!(found["file"], format!("wal/{name}"));
    let lsn = found["lsn"].as_u64().unwrap();
    assert!(all.iter().any(|record| record.lsn.get() == lsn));
    assert!(found["offset"].as_u64().unwrap() < at as u64);
    assert!(found["expected_crc"].is_u64() && found["found_crc"].is_u64());
    assert_ne!(found["expected_crc"], found["found_crc"]);
    assert_eq!(verdict["below"]["findings"], 1);
    // What follows in the same segment was read all the same: only one record is bad.
    let read = verdict["below"]["records"].as_u64().unwrap() + verdict["records"].as_u64().unwrap();
    assert_eq!(read, all.len() as u64 - 1);
    let human = stdout(&walctl(&["verify", log.path().to_str().unwrap(), "--deep"]));
    assert!(
        human.contains("below     1 finding: ") && human.contains("expected CRC"),
        "{human}"
    );
}

#[test]
fn whatever_is_done_to_such_a_segment_is_found() {
    /// What is done to the file, and what is said of it.
    type Case = (&'static str, fn(&Path), &'static str);
    let kinds: [Case; 6] = [
        (
            "header",
            |path| change(path, |bytes| bytes[..4096].fill(0)),
            "no good header",
        ),
        (
            "zeros",
            |path| change(path, |bytes| bytes[4096..4200].fill(0)),
            "neither a group nor the end",
        ),
        (
            "short",
            |path| change(path, |bytes| bytes.truncate(30_000)),
            "reaches past the file",
        ),
        (
            "empty",
            |path| std::fs::write(path, b"").unwrap(),
            "no good header",
        ),
        (
            "directory",
            |path| {
                std::fs::remove_file(path).unwrap();
                std::fs::create_dir(path).unwrap();
            },
            "cannot be read: ",
        ),
        (
            "end",
            |path| change(path, |bytes| bytes.truncate(4096)),
            "the segment goes on to lsn",
        ),
    ];
    for (name, damage, expected) in kinds {
        for at in 0..2 {
            let log = long();
            let path = &log.segments()[at];
            damage(path);
            let (findings, _) = deep(&log);
            let file = format!("wal/{}", path.file_name().unwrap().to_str().unwrap());
            let found = findings.iter().filter(|line| line["file"] == file);
            let words: Vec<&str> = found.map(|line| line["finding"].as_str().unwrap()).collect();
            assert!(
                words.iter().any(|words| words.contains(expected)),
                "{name} {at}: {findings:?}"
            );
        }
    }
}

#[test]
fn records_that_were_put_in_the_place_of_others_are_told_by_the_next_header() {
    // Both segments are whole, of the same node, and end at the same lsn.
    let (log, mut other) = (long(), TestLog::new(0));
    for number in 0..4 {
        let key = format!("yek-{number}");
        other.group(&[(number, 0, string(key.as_bytes(), &[b'v'; 20_000]))]);
    }
    std::fs::copy(&other.segments()[0], &log.segments()[0]).unwrap();
    let output = walctl(&["verify", log.path().to_str().unwrap(), "--deep", "--json"]);
    let mut findings = objects(&output);
    assert_eq!(findings.pop().unwrap()["below"]["findings"], 1);
    // The snapshot is of other keys, which is what the replay finds.
    assert_eq!(
        (code(&output), &findings.pop().unwrap()["kind"]),
        (8, &"snapshot_differs".into())
    );
    assert_eq!(findings.len(), 1, "{findings:?}");
    let words = findings[0]["finding"].as_str().unwrap();
    assert!(
        words.contains("not those that the next segment vouches for"),
        "{words}"
    );
    assert_ne!(findings[0]["expected_crc"], findings[0]["found_crc"]);
}

#[test]
fn a_log_that_is_refused_above_is_read_below_all_the_same() {
    let log = long();
    let path = &log.segments()[0];
    let at = find(&std::fs::read(path).unwrap(), b"key-0");
    change(path, |bytes| bytes[at] ^= 1);
    std::fs::remove_file(log.path().join("control")).unwrap();
    let output = walctl(&["verify", log.path().to_str().unwrap(), "--deep", "--json"]);
    assert_eq!(code(&output), 5);
    let verdict = objects(&output).pop().unwrap();
    assert_eq!(verdict["below"]["findings"], 1);
}

#[test]
fn whatever_meets_damage_there_names_the_command_that_finds_it() {
    let (log, other) = (long(), long());
    let path = &log.segments()[1];
    let bytes = std::fs::read(path).unwrap();
    let at = find(&bytes, &[b'v'; 64]);
    change(path, |bytes| bytes[at] ^= 1);
    let out = tempfile::tempdir().unwrap();
    let into = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
    let (dir, new, store) = (log.path().to_str().unwrap(), into("new"), into("store"));
    let lost = records(other.path())[4].end.to_string();
    for arguments in [
        &["dump", dir][..],
        &["dump", dir, "--past-damage"],
        &["stat", dir],
        &["history", dir, "key-1"],
        &["diff", dir, other.path().to_str().unwrap()],
        &["replay", dir, "--to-lsn", &lost],
        &["restore", dir, "--to-lsn", &lost, "--into", &new, "--yes"],
        &["archive", dir, "--into", &store, "--yes"],
    ] {
        let output = walctl(arguments);
        let said = stderr(&output);
        assert_ne!(code(&output), 0, "{arguments:?}");
        assert!(
            said.contains(&format!("walctl verify --deep {dir}\n")),
            "{arguments:?}: {said}"
        );
    }
}
