//! `walctl dump`: what it prints, what the filters keep, and how it ends.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use idem_wal::lock::DirLock;
use support::*;

fn dump(log: &TestLog, options: &[&str]) -> std::process::Output {
    let dir = log.path().to_str().unwrap();
    walctl(&[&["dump", dir], options].concat())
}

#[test]
fn every_kind_of_record_for_people_and_for_programs() {
    let log = sample();
    for (name, options) in [
        ("dump.txt", &[][..]),
        ("dump-values-frames.txt", &["--values", "--frames"]),
        ("dump.jsonl", &["--json"]),
        ("dump-values-frames.jsonl", &["--json", "--values", "--frames"]),
    ] {
        let output = dump(&log, options);
        assert_eq!((code(&output), stderr(&output)), (0, String::new()), "{name}");
        check_golden(name, &stdout(&output));
    }
}

/// The lines that are left, as `name key` or `name`, with the index of parts.
fn check_filter(log: &TestLog, options: &[&str], expected: &[&str]) {
    let output = dump(log, &[options, &["--json"]].concat());
    assert_eq!(code(&output), 0, "{options:?}: {}", stderr(&output));
    let lines: Vec<String> = objects(&output)
        .iter()
        .map(|line| {
            let text = |field: &str| {
                line[field]
                    .as_str()
                    .map(|text| format!(" {text}"))
                    .unwrap_or_default()
            };
            let part = line["tx_index"]
                .as_u64()
                .map(|index| format!(" #{index}"))
                .unwrap_or_default();
            format!("{}{}{part}", &text("name")[1..], text("key"))
        })
        .collect();
    assert_eq!(lines, expected, "{options:?}");
    // The same lines for people.
    let human = dump(log, options);
    assert_eq!(stdout(&human).lines().count(), expected.len(), "{options:?}");
    let none = stderr(&human).contains("no record matches");
    assert_eq!(none, expected.is_empty(), "{options:?}");
}

#[test]
fn filters_keep_what_they_say() {
    let log = sample();
    let pay_1 = ["IdempotencyPut pay:1", "IdempotencyPut pay:1"];
    let pay_2 = ["IdempotencyPut pay:2", "IdempotencyPut pay:2"];
    let parts = ["StringPut a #0", "IdempotencyPut pay:3 #1", "Delete a #2"];
    let binary = format!("StringPut {BINARY_KEY_TEXT}");
    let lsn_of = |nth: usize| objects(&dump(&log, &["--json"]))[nth]["lsn"].to_string();

    check_filter(&log, &["--key", "pay:1"], &pay_1);
    check_filter(&log, &["--key", "pay:"], &[]);
    check_filter(&log, &["--key", "pay:3"], &parts[1..2]);
    check_filter(&log, &["--key", BINARY_KEY_TEXT], &[&binary]);
    check_filter(&log, &["--prefix", "\\x00"], &[&binary]);
    check_filter(&log, &["--prefix", "pay:2"], &pay_2);
    check_filter(&log, &["--prefix", "pay:", "--key", "user:1"], &[]);
    check_filter(
        &log,
        &["--opcode", "53"],
        &[pay_1[0], pay_1[1], pay_2[0], pay_2[1], parts[1]],
    );
    check_filter(&log, &["--opcode", "deadlineput"], &["DeadlinePut greeting"]);
    check_filter(&log, &["--opcode", "32"], &parts);
    check_filter(
        &log,
        &["--opcode", "Transaction", "--key", "a"],
        &[parts[0], parts[2]],
    );
    check_filter(&log, &["--opcode", "48"], &["EpochStart"]);
    check_filter(&log, &["--db", "3"], &[pay_2[0], pay_2[1], "FlushDb", "FlushAll"]);
    check_filter(&log, &["--db", "1"], &["FlushAll", parts[1]]);
    check_filter(&log, &["--db", "1", "--opcode", "53"], &[parts[1]]);

    // Positions: from is the first, to is the first that is left out.
    check_filter(&log, &["--to-lsn", &lsn_of(1)], &["EpochStart"]);
    check_filter(&log, &["--from-lsn", &lsn_of(1), "--to-lsn", &lsn_of(3)], &pay_1);
    check_filter(&log, &["--from-lsn", "1", "--to-lsn", &lsn_of(2)], &pay_1[..1]);
    check_filter(
        &log,
        &["--from-lsn", &lsn_of(13)],
        &[&parts[..], &[&binary]].concat(),
    );
    check_filter(&log, &["--from-lsn", "18446744073709551615"], &[]);
    check_filter(&log, &["--to-lsn", "0"], &[]);

    // Times: both ends belong to it; any offset, or milliseconds.
    check_filter(&log, &["--to-time", "2026-01-01T00:00:00Z"], &["EpochStart"]);
    check_filter(
        &log,
        &[
            "--from-time",
            "2026-01-01T01:00:01.005+01:00",
            "--to-time",
            "1767225601006",
        ],
        &["Clock", "FlushDb"],
    );
    check_filter(&log, &["--from-time", "1767225602001"], &[&binary]);
    check_filter(&log, &["--from-time", "2027-01-01T00:00:00Z"], &[]);
    check_filter(&log, &["--to-time", "2025-01-01T00:00:00Z"], &[]);
}

#[test]
fn wrong_values_are_refused_before_anything_is_read() {
    for (options, words) in [
        (["--from-time", "2026-01-01T00:00:00"], "with an offset"),
        (["--to-time", "2026-01-01"], "with an offset"),
        (
            ["--from-time", "2026-01-01T00:00:00+25:00"],
            "from -23:59 to +23:59",
        ),
        (
            ["--from-time", "2026-02-29T00:00:00Z"],
            "no such day or time of day",
        ),
        (["--to-time", "-5"], "-5"),
        (["--from-lsn", "abc"], "position in the log"),
        (["--opcode", "99"], "53 IdempotencyPut"),
        (["--db", "256"], "--db"),
        (["--key", "\\q"], "backslash"),
        (["--follow", "x"], "unexpected argument"),
        (["--past-damage", "x"], "unexpected argument"),
    ] {
        let output = walctl(&[&["dump", "/nonexistent"], &options[..]].concat());
        assert_eq!(code(&output), 1, "{options:?}");
        assert!(
            stderr(&output).contains(words),
            "{options:?}: {}",
            stderr(&output)
        );
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn any_key_that_is_printed_is_found_by_what_was_printed() {
    let mut log = TestLog::new(0);
    let keys: Vec<Vec<u8>> = (0..=255u8)
        .map(|byte| vec![byte])
        .chain([
            b"-k".to_vec(),
            b"--key".to_vec(),
            "grüße 漢字 🦀".as_bytes().to_vec(),
            "\u{9b}31m".as_bytes().to_vec(),
            b"\\x00".to_vec(),
            Vec::new(),
            vec![0x80; 200_000],
        ])
        .collect();
    let records: Vec<_> = keys.iter().map(|key| (0, 0, string(key, key))).collect();
    log.group(&records);
    let printed = objects(&dump(&log, &["--json", "--values", "--opcode", "1"]));
    assert_eq!(printed.len(), keys.len());
    // One in sixteen of the single bytes keeps the number of processes small; all of them are checked by the codec's tests.
    for (line, key) in printed
        .iter()
        .zip(&keys)
        .filter(|(_, key)| key.len() != 1 || key[0] % 16 < 2)
    {
        assert_eq!(line["key"], line["value"]);
        let text = line["key"].as_str().unwrap();
        if text.len() > 100_000 {
            // Longer than one argument may be.
            continue;
        }
        let found = objects(&dump(&log, &["--json", "--key", text]));
        assert_eq!(found.len(), 1, "{key:02x?} as {text}");
        assert_eq!(found[0]["key"], line["key"]);
    }
}

#[test]
fn a_log_of_several_segments_is_one_log() {
    let mut log = TestLog::new(0);
    let value = vec![b'v'; 20_000];
    for number in 0..12u8 {
        log.group(&[(u64::from(number), 0, string(&[b'a' + number], &value))]);
    }
    assert!(log.segments().len() > 3);
    let lines = objects(&dump(&log, &["--json", "--frames"]));
    let keys: String = lines.iter().filter_map(|line| line["key"].as_str()).collect();
    assert_eq!(keys, "abcdefghijkl");
    // From a position in a later segment on, the earlier ones are not even opened.
    std::fs::write(&log.segments()[0], b"no segment at all").unwrap();
    let from = lines.last().unwrap()["lsn"].to_string();
    let output = dump(&log, &["--json", "--from-lsn", &from]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(objects(&output)[0]["key"], "l");
    let output = dump(&log, &[]);
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).contains("segments were not read"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_is_no_end_of_a_log_is_named_with_its_place() {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, string(b"first", b"1"))]);
    let end = log.group(&[(2, 0, string(b"second", b"2"))]);
    log.group(&[(3, 0, string(b"third", b"3"))]);
    let at = log.find(b"third");
    log.damage(|bytes| bytes[at] ^= 1);
    let output = dump(&log, &[]);
    assert_eq!(code(&output), 1);
    assert_eq!(stdout(&output).lines().count(), 3, "what is good is printed");
    let words = stderr(&output);
    for part in [
        "wal/00000000000000000000.wal offset ".to_owned(),
        format!("lsn {end}: a group with a bad record"),
        "CRC ".to_owned(),
        format!("walctl verify {}", log.path().display()),
    ] {
        assert!(words.contains(&part), "{part:?} in {words}");
    }
    // What a running server is writing is no damage.
    let _server = DirLock::exclusive(log.path(), std::time::Duration::ZERO).unwrap();
    assert_eq!(code(&dump(&log, &[])), 0);
}

#[test]
fn a_directory_without_a_log_is_said_to_be_one() {
    let empty = tempfile::tempdir().unwrap();
    let output = walctl(&["dump", empty.path().to_str().unwrap()]);
    assert_eq!((code(&output), stdout(&output)), (1, String::new()));
    assert!(stderr(&output).contains("no segment"), "{}", stderr(&output));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut log = TestLog::new(0);
    let keys: Vec<[u8; 8]> = (0..4000u64).map(u64::to_be_bytes).collect();
    for keys in keys.chunks(400) {
        let records: Vec<_> = keys.iter().map(|key| (1, 0, string(key, b"value"))).collect();
        log.group(&records);
    }
    for json in [&[][..], &["--json"]] {
        let mut child = command(&[&["dump", log.path().to_str().unwrap()], json].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::with_capacity(64, child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains("EpochStart"));
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), stderr(&output)), (0, String::new()));
    }
}

#[test]
fn a_full_disk_behind_stdout_is_a_failure() {
    let log = sample();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else {
        return skip("there is no /dev/full");
    };
    let output = command(&["dump", log.path().to_str().unwrap()])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).contains("writing to stdout"),
        "{}",
        stderr(&output)
    );
}

/// Each with what people see of it.
const DECEPTIVE: [(&str, &str); 7] = [
    ("pay\u{202e}1", "pay\\xe2\\x80\\xae1"),
    ("pay\u{2066}1\u{2069}", "pay\\xe2\\x81\\xa61\\xe2\\x81\\xa9"),
    ("\u{200e}pay\u{200f}", "\\xe2\\x80\\x8epay\\xe2\\x80\\x8f"),
    ("pay\u{2028}1", "pay\\xe2\\x80\\xa81"),
    ("\u{feff}pay", "\\xef\\xbb\\xbfpay"),
    ("pay\u{200b}1", "pay\\xe2\\x80\\x8b1"),
    ("pay\u{9b}2J", "pay\\xc2\\x9b2J"),
];

#[test]
fn no_key_can_make_a_terminal_lie_and_json_has_it_as_it_is() {
    let mut log = TestLog::new(0);
    let records: Vec<_> = DECEPTIVE
        .iter()
        .map(|(key, _)| {
            let owner = key.as_bytes();
            (0, 0, pending(key.as_bytes(), 60_000, b"fp", owner))
        })
        .collect();
    log.group(&records);
    let human = stdout(&dump(&log, &["--opcode", "53"]));
    let json = stdout(&dump(&log, &["--opcode", "53", "--json"]));
    assert_eq!(human.lines().count(), DECEPTIVE.len());
    for (((raw, shown), line), object) in DECEPTIVE.iter().zip(human.lines()).zip(json.lines()) {
        assert!(line.is_ascii(), "{line:?}");
        assert_eq!(
            line.matches(shown).count(),
            2,
            "{shown} as key and as owner in {line}"
        );
        let object: serde_json::Value = serde_json::from_str(object).unwrap();
        let text = object["key"].as_str().unwrap();
        assert_eq!(&text, if raw.contains('\u{9b}') { shown } else { raw });
        // From either output, and as it is.
        for given in [shown, text, raw] {
            let found = objects(&dump(&log, &["--json", "--key", given]));
            assert_eq!(found.len(), 1, "{given:?}");
            assert_eq!(found[0]["key"], text);
        }
        let dir = log.path().to_str().unwrap();
        for options in [&[][..], &["--values"]] {
            let history = walctl(&[&["history", dir, raw], options].concat());
            assert!(stdout(&history).is_ascii(), "{}", stdout(&history));
        }
        let nothing = stderr(&walctl(&["history", dir, &format!("{raw}?")]));
        assert!(nothing.is_ascii() && nothing.contains(shown), "{nothing}");
    }
    let stat = stdout(&walctl(&["stat", log.path().to_str().unwrap()]));
    assert!(stat.is_ascii(), "{stat}");
}

#[test]
fn a_key_of_any_bytes_can_be_given_as_it_is() {
    let mut log = TestLog::new(0);
    let key = b"\xff\xfe\\\x80";
    log.group(&[(0, 0, string(key, b"1")), (0, 0, string(b"other", b"1"))]);
    // A backslash is one only when it is doubled.
    let given = OsStr::from_bytes(b"\xff\\xfe\\\\\x80");
    let dir = log.path().as_os_str();
    let run = |arguments: &[&OsStr]| command(&[]).args(arguments).output().unwrap();
    let of = |words: &[&'static str]| -> Vec<&'static OsStr> {
        words.iter().map(|word| OsStr::new(*word)).collect()
    };
    for (before, after) in [
        (of(&["dump", "--json", "--key"]), vec![given, dir]),
        (
            of(&["dump", "--json", "--prefix"]),
            vec![OsStr::from_bytes(b"\xff"), dir],
        ),
        (of(&["history", "--json"]), vec![dir, given]),
        (of(&["replay", "--json", "--key"]), vec![given, dir]),
    ] {
        let arguments = [before, after].concat();
        let output = run(&arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        let lines = objects(&output);
        assert_eq!(
            (lines.len(), &lines[0]["key"]),
            (1, &"\\xff\\xfe\\\\\\x80".into())
        );
    }
    let output = run(&[OsStr::new("history"), dir, OsStr::from_bytes(b"\xff\\q")]);
    assert_eq!(code(&output), 1);
    assert!(
        stderr(&output).contains("backslash at byte 1 "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_time_after_the_newest_record_is_only_a_limit() {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, string(b"a", b"1"))]);
    log.seal();
    let _server = DirLock::exclusive(log.path(), std::time::Duration::ZERO).unwrap();
    for time in ["2026-02-01T00:00:00Z", "2300-01-01T00:00:00Z"] {
        let output = dump(&log, &["--json", "--to-time", time]);
        assert_eq!((code(&output), stderr(&output)), (0, String::new()));
        assert_eq!(objects(&output).len(), 2);
    }
}
