//! `walctl history` of a damaged log: up to where it was read, and what follows with `--past-damage`.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::path::Path;
use std::process::Output;

use idem_protocol::idem::IdemState::{Completed, Pending};
use idem_protocol::wal::Record;
use serde_json::Value;
use support::histories::random_log;
use support::*;

fn history(dir: &Path, key: &str, options: &[&str]) -> Output {
    walctl(&[&["history", dir.to_str().unwrap(), key], options].concat())
}

/// Of those that a random log has.
const KEYS: [&str; 4] = ["a", "b", "order:1", BINARY_KEY_TEXT];

/// Three groups; the key of the second one is only there.
fn three_groups() -> TestLog {
    let mut log = TestLog::new(0);
    let put = |key, state| idem(key, 900_000, state, b"fp-1", b"worker-1", b"");
    log.group(&[(10, 0, put(b"early", Pending)), (10, 0, put(b"later", Pending))]);
    log.group(&[(20, 0, string(b"lost", b"1"))]);
    log.group(&[
        (30, 0, put(b"later", Completed)),
        (31, 0, string(b"last", b"1")),
        (32, 0, Record::Clock),
    ]);
    log.shut_down();
    log
}

#[test]
fn at_damage_it_is_said_up_to_where_the_log_was_read() {
    let log = three_groups();
    let whole = objects(&walctl(&["dump", log.path().to_str().unwrap(), "--json"]));
    let lost = whole.iter().find(|line| line["key"] == "lost").unwrap();
    let stop = lost["lsn"].as_u64().unwrap();
    let at = log.find(b"lost");
    log.damage(|bytes| bytes[at] ^= 1);

    // Not "nothing is known": what follows was not looked at.
    let output = history(log.path(), "last", &[]);
    let words = stderr(&output);
    assert_eq!((code(&output), stdout(&output)), (1, String::new()));
    for part in [
        format!("nothing is known of the key last in any database up to lsn {stop}; reading stopped there"),
        format!("lsn {stop}: a group with a bad record: "),
        format!("walctl verify {}", log.path().display()),
    ] {
        assert!(words.contains(&part), "{part:?} in {words}");
    }
    // Nor is that place the end of the log.
    let output = history(log.path(), "later", &[]);
    let text = stdout(&output);
    assert_eq!(code(&output), 1);
    assert!(
        text.contains(&format!(
            "where reading stopped, before the end of the log, lsn {stop}, "
        )),
        "{text}"
    );
    assert!(!text.contains("at the end of the log"), "{text}");
    assert_eq!(objects(&history(log.path(), "later", &["--json"])).len(), 1);
}

#[test]
fn past_damage_the_rest_of_a_life_is_shown_and_what_is_missing_is_said() {
    let log = three_groups();
    for options in [&[][..], &["--json"]] {
        let plain = history(log.path(), "later", options);
        let past = history(log.path(), "later", &[options, &["--past-damage"]].concat());
        assert_eq!((code(&past), stderr(&past)), (0, String::new()));
        assert_eq!(stdout(&past), stdout(&plain));
    }
    let at = log.find(b"lost");
    log.damage(|bytes| bytes[at] ^= 1);
    let output = history(log.path(), "later", &["--past-damage", "--json"]);
    let words = stderr(&output);
    assert_eq!(code(&output), 4, "{words}");
    assert_eq!(words.matches("walctl: skipped: ").count(), 1, "{words}");
    assert!(words.contains("walctl verify "), "{words}");
    let lines = objects(&output);
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["acquired", "completed"]);
    assert_eq!(lines[1]["note"], "begun where the log was not read");

    let output = history(log.path(), "lost", &["--past-damage"]);
    let words = stderr(&output);
    assert_eq!((code(&output), stdout(&output)), (4, String::new()));
    assert!(
        words.contains("the key lost in any database in what could be read up to lsn "),
        "{words}"
    );

    // The header of the first segment is gone: its beginning is damaged, and not a beginning that is no longer kept.
    let log = three_groups();
    log.damage(|bytes| bytes[..4096].fill(0));
    let output = history(log.path(), "later", &["--past-damage"]);
    assert_eq!(code(&output), 1, "no segment follows: {}", stderr(&output));
    assert!(!stderr(&output).contains("is kept from"), "{}", stderr(&output));
}

#[test]
fn past_damage_the_events_are_those_of_the_records_that_dump_finds() {
    for seed in 40..46 {
        let log = random_log(seed, 40);
        let dir = log.path().to_str().unwrap();
        // A byte of a record in the middle of each segment.
        for path in log.segments() {
            let mut bytes = std::fs::read(&path).unwrap();
            let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            let at = 4096 + used.saturating_sub(4096) / 2;
            bytes[at] ^= 0x20;
            std::fs::write(&path, bytes).unwrap();
        }
        for text in KEYS {
            let dump = walctl(&["dump", dir, "--past-damage", "--json", "--key", text]);
            let found = history(log.path(), text, &["--past-damage", "--json"]);
            assert_eq!(code(&found), code(&dump), "seed {seed}: {}", stderr(&found));
            let of_records = |line: &Value| {
                let is_event = line["event"].is_null() || line["opcode"].is_u64();
                let is_flush = matches!(line["opcode"].as_u64(), Some(6 | 7));
                (is_event && !is_flush && line["event"] != "found").then(|| {
                    (
                        line["lsn"].as_u64(),
                        line["db"].as_u64(),
                        line["tx_index"].as_u64(),
                    )
                })
            };
            let expected: Vec<_> = objects(&dump).iter().filter_map(of_records).collect();
            let events: Vec<_> = objects(&found).iter().filter_map(of_records).collect();
            assert_eq!(events, expected, "seed {seed}, key {text}");
        }
    }
}
