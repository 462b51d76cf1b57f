//! `walctl stat`: the numbers are those of the records, for any log, and memory is bounded.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::collections::BTreeMap;

use idem_protocol::Lsn;
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::Record;
use serde_json::Value;
use support::memory::in_little_memory;
use support::snapshots::{cluster_of, write_snapshot};
use support::*;

fn stat(log: &TestLog, options: &[&str]) -> std::process::Output {
    walctl(&[&["stat", log.path().to_str().unwrap()], options].concat())
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The sum of a field over a list or a map of objects.
fn sum(values: &Value, field: &str) -> u64 {
    match values {
        Value::Array(values) => values.iter().map(|value| number(&value[field])).sum(),
        Value::Object(values) => values.values().map(|value| number(&value[field])).sum(),
        other => panic!("{other} is neither a list nor a map"),
    }
}

#[test]
fn numbers_for_people_and_for_programs() {
    let log = sample();
    for (name, options) in [
        ("stat.txt", &[][..]),
        ("stat.jsonl", &["--json"]),
        ("stat-top.txt", &["--top", "1"]),
    ] {
        let output = stat(&log, options);
        assert_eq!((code(&output), stderr(&output)), (0, String::new()), "{name}");
        check_golden(name, &stdout(&output));
    }
}

/// Counts the lines of a dump and compares.
fn check_against_dump(log: &TestLog) -> Value {
    let stat = objects(&stat(log, &["--json", "--top", "100000"])).remove(0);
    let dump = objects(&walctl(&[
        "dump",
        log.path().to_str().unwrap(),
        "--json",
        "--frames",
    ]));
    let (mut records, mut parts) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
    let (mut groups, mut seals, mut bytes, mut transactions) = (0, 0, 0, 0);
    for line in &dump {
        match line["frame"].as_str() {
            Some("seal") => seals += 1,
            Some(_) => {
                groups += 1;
                bytes += number(&line["record_bytes"]);
            }
            None => {
                let index = line["tx_index"].as_u64();
                let counts = if index.is_some() { &mut parts } else { &mut records };
                *counts.entry(line["opcode"].to_string()).or_default() += 1;
                transactions += u64::from(index == Some(0));
            }
        }
    }
    if transactions > 0 {
        records.insert("32".to_owned(), transactions);
    }
    let counted = |field: &str| -> BTreeMap<String, u64> {
        let kinds = stat[field].as_object().unwrap();
        kinds
            .iter()
            .map(|(kind, count)| (kind.clone(), number(&count["records"])))
            .collect()
    };
    assert_eq!(counted("by_opcode"), records);
    assert_eq!(counted("in_transactions"), parts);
    let total = records.values().sum::<u64>();
    for (field, count) in [
        ("by_opcode", "records"),
        ("times", "records"),
        ("record_bytes", "count"),
    ] {
        assert_eq!(sum(&stat[field], count), total, "{field}");
        assert_eq!(sum(&stat[field], "bytes"), bytes, "{field}");
    }
    assert_eq!(sum(&stat["group_records"], "count"), groups);
    assert_eq!(sum(&stat["group_records"], "bytes"), bytes);
    for (field, expected) in [
        ("records", total),
        ("bytes", bytes),
        ("groups", groups),
        ("seals", seals),
        ("end_lsn", log_end(&dump)),
    ] {
        assert_eq!(number(&stat[field]), expected, "{field}");
    }
    stat
}

fn log_end(dump: &[Value]) -> u64 {
    let mut groups = dump.iter().filter(|line| line["frame"] == "group");
    let last = groups.next_back().unwrap();
    number(&last["lsn"]) + number(&last["record_bytes"])
}

#[test]
fn the_numbers_are_those_of_the_records() {
    check_against_dump(&sample());

    // Several segments, several keys of different weight, groups of 1 to 20.
    let mut log = TestLog::new(0);
    let value = vec![b'v'; 900];
    let mut bytes_of = BTreeMap::<String, u64>::new();
    for round in 0..120_u64 {
        let names: Vec<String> = (0..=round % 20)
            .map(|n| format!("key:{}", n * n % (1 + round)))
            .collect();
        let records: Vec<(u64, u8, Record<'_>)> = names
            .iter()
            .map(|name| (round * 500, 0, string(name.as_bytes(), &value)))
            .collect();
        for (name, (_, _, record)) in names.iter().zip(&records) {
            *bytes_of.entry(name.clone()).or_default() += record.encoded_len();
        }
        log.group(&records);
        if round % 10 == 0 {
            log.seal();
        }
    }
    log.shut_down();
    assert!(log.segments().len() > 5);
    let stat = check_against_dump(&log);
    assert_eq!(number(&stat["segments"]), log.segments().len() as u64);
    assert_eq!(stat["largest_keys_exact"], true);
    let found: BTreeMap<String, u64> = stat["largest_keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| (key["key"].as_str().unwrap().to_owned(), number(&key["bytes"])))
        .collect();
    assert_eq!(found, bytes_of);
}

#[test]
fn with_more_keys_than_are_held_the_largest_are_found_and_said_to_be_least_numbers() {
    let mut log = TestLog::new(0);
    let value = vec![b'v'; 40];
    let mut heavy_bytes = 0;
    for round in 0..20_u64 {
        let names: Vec<String> = (0..5000).map(|n| format!("once:{round}:{n}")).collect();
        let mut records: Vec<(u64, u8, Record<'_>)> = names
            .iter()
            .map(|name| (round, 0, string(name.as_bytes(), &value)))
            .collect();
        for _ in 0..50 {
            let record = string(b"heavy", &value);
            heavy_bytes += record.encoded_len();
            records.push((round, 0, record));
        }
        log.group(&records);
    }
    log.shut_down();
    let found = objects(&stat(&log, &["--json", "--top", "1"])).remove(0);
    let missing = number(&found["largest_keys_missing_bytes_max"]);
    assert_eq!(found["largest_keys_exact"], false);
    assert!(missing > 0 && missing < 1000, "{missing}");
    let key = &found["largest_keys"][0];
    let bytes = number(&key["bytes"]);
    assert_eq!((&key["key"], number(&key["records"])), (&"heavy".into(), 1000));
    assert!(
        bytes <= heavy_bytes && bytes + missing >= heavy_bytes,
        "{bytes} of {heavy_bytes}"
    );
    let human = stdout(&stat(&log, &["--top", "1"]));
    assert!(human.contains("least numbers"), "{human}");
}

#[test]
fn a_damaged_log_is_counted_up_to_the_damage_and_is_code_1() {
    let log = sample();
    let whole = objects(&stat(&log, &["--json"])).remove(0);
    let at = log.find(b"worker-3");
    log.damage(|bytes| bytes[at] ^= 1);
    let output = stat(&log, &["--json"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("walctl verify"), "{}", stderr(&output));
    let found = objects(&output).remove(0);
    assert!(number(&found["records"]) < number(&whole["records"]));
    assert!(number(&found["records"]) > 0);

    let empty = tempfile::tempdir().unwrap();
    let output = walctl(&["stat", empty.path().to_str().unwrap()]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("no segment"), "{}", stderr(&output));
}

#[test]
fn looking_changes_nothing() {
    let log = sample();
    let before = image(log.path());
    assert_eq!(code(&stat(&log, &[])), 0);
    assert!(image(log.path()) == before);
}

#[test]
fn damage_below_the_snapshots_points_to_the_command_that_looks_there() {
    let mut log = TestLog::new(0);
    let value = vec![b'v'; 20_000];
    let mut start = Lsn::ZERO;
    for number in 0..12u8 {
        start = log.group(&[(u64::from(number), 0, string(&[b'a' + number], &value))]);
    }
    log.shut_down();
    let segments = log.segments();
    assert!(segments.len() > 3);
    let mut bytes = std::fs::read(&segments[0]).unwrap();
    bytes[4096 + 200] ^= 1;
    std::fs::write(&segments[0], bytes).unwrap();
    let dir = log.path().to_str().unwrap();
    let check = |expected: &str| {
        for (arguments, expected_code) in [
            (vec!["stat", dir], 1),
            (vec!["dump", dir], 1),
            (vec!["history", dir, "l"], 1),
            (vec!["dump", dir, "--past-damage"], 4),
            (vec!["history", dir, "l", "--past-damage"], 4),
        ] {
            let output = walctl(&arguments);
            let words = stderr(&output);
            assert_eq!(code(&output), expected_code, "{arguments:?}: {words}");
            let last = words.lines().last().unwrap();
            assert!(
                last.ends_with(&format!(": walctl verify {expected}")),
                "{arguments:?}: {words}"
            );
        }
    };
    // A start reads from the beginning.
    check(dir);
    let trailer = SnapshotTrailer {
        end_lsn: start,
        ..SnapshotTrailer::default()
    };
    let path = write_snapshot(log.path(), cluster_of(log.path()), start, &[], trailer);
    check(&format!("--deep {dir}"));
    // A snapshot that a start cannot use changes nothing.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[50] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    check(dir);
}

/// As the one that `past_damage` has for `dump` and `verify`.
#[test]
fn memory_does_not_depend_on_the_length_of_a_segment_nor_on_the_number_of_keys() {
    let mut keys_written = 0_u64;
    let mut log = TestLog::new(0);
    // A million keys of 100 bytes: more than the memory in which they are counted.
    for _ in 0..100 {
        let keys: Vec<String> = (0..10_000)
            .map(|_| {
                keys_written += 1;
                format!("{keys_written:0>100}")
            })
            .collect();
        let records: Vec<(u64, u8, Record<'_>)> = keys
            .iter()
            .map(|key| (keys_written, 0, string(key.as_bytes(), b"v")))
            .collect();
        log.group(&records);
    }
    log.shut_down();
    let path = log.segments().pop().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    if file.set_len(5 << 30).is_err() {
        return skip("no sparse file of five gibibytes");
    }
    let dir = log.path().to_str().unwrap();
    let output = in_little_memory(&["stat", dir, "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(
        number(&objects(&output)[0]["by_opcode"]["1"]["records"]),
        keys_written
    );
    let last = format!("{keys_written:0>100}");
    for past in [&[][..], &["--past-damage"]] {
        let output = in_little_memory(&[&["history", dir, &last, "--json"], past].concat());
        assert_eq!(
            (code(&output), objects(&output).len()),
            (0, 1),
            "{}",
            stderr(&output)
        );
    }
}
