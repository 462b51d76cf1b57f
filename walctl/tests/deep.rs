//! `walctl verify --deep`: the life of each key, and snapshots against the log.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::collections::BTreeMap;
use std::process::Output;
use std::time::Duration;

use idem_protocol::idem::IdemState;
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::{DeleteReason, Record, SubRecords};
use idem_protocol::{Deadline, Lsn};
use idem_wal::lock::DirLock;
use serde_json::Value;
use support::histories::{Rng, random_log, records};
use support::snapshots::{cluster_of, write_snapshot};
use support::*;

fn verify(log: &TestLog, options: &[&str]) -> Output {
    walctl(&[&["verify", log.path().to_str().unwrap()], options].concat())
}

/// The findings, and the last object; nothing in the directory may change.
fn deep(log: &TestLog, expected: i32) -> (Vec<Value>, Value) {
    let before = image(log.path());
    let output = verify(log, &["--deep", "--json"]);
    assert!(image(log.path()) == before, "looking changed the directory");
    assert_eq!(code(&output), expected, "{}{}", stdout(&output), stderr(&output));
    let mut findings = objects(&output);
    let verdict = findings.pop().unwrap();
    findings.retain(|line| line["kind"].is_string());
    (findings, verdict)
}

const FP: &[u8] = b"fp";
const OWNER: &[u8] = b"owner";

fn put(key: &[u8], state: IdemState, deadline_ms: u64) -> Record<'_> {
    let result: &[u8] = if state == IdemState::Completed {
        b"done"
    } else {
        b""
    };
    idem(key, deadline_ms, state, FP, OWNER, result)
}

#[test]
fn a_record_that_no_server_writes_is_found_with_its_place_and_key() {
    use IdemState::{Aborted, Completed, Pending};
    for (kind, state, deadline, known) in [
        ("begun_while_live", Pending, 9_000, Some(Pending)),
        ("begun_while_live", Pending, 9_000, Some(Completed)),
        ("completed_without_pending", Completed, 9_000, None),
        ("completed_twice", Completed, 9_000, Some(Completed)),
        ("aborted_without_pending", Aborted, 9_000, None),
        ("aborted_without_pending", Aborted, 9_000, Some(Completed)),
        ("deadline_changed", Completed, 9_001, Some(Pending)),
        ("deadline_out_of_bounds", Pending, 2, None),
        ("deadline_out_of_bounds", Pending, 604_800_003, None),
    ] {
        let mut log = TestLog::new(0);
        if known.is_some() {
            log.group(&[(1, 3, put(BINARY_KEY, Pending, 9_000))]);
        }
        if known == Some(Completed) {
            log.group(&[(1, 3, put(BINARY_KEY, Completed, 9_000))]);
        }
        assert_eq!(deep(&log, 0).0, [] as [Value; 0], "{kind}");
        let at = log.end();
        log.group(&[(2, 3, put(BINARY_KEY, state, deadline))]);
        let (findings, verdict) = deep(&log, 8);
        assert_eq!(findings.len(), 1, "{kind}: {findings:?}");
        let found = &findings[0];
        assert_eq!(found["kind"], kind);
        assert_eq!(found["key"], BINARY_KEY_TEXT);
        assert_eq!(
            (&found["lsn"], &found["db"], &found["time_ms"]),
            (&at.get().into(), &3.into(), &(START_MS + 2).into())
        );
        assert_eq!(found["file"], "wal/00000000000000000000.wal");
        assert!(found["offset"].as_u64().unwrap() > 4096 && found["finding"].is_string());
        // A server starts all the same, and without --deep nothing is said.
        assert_eq!(
            (&verdict["verdict"], &verdict["letter"]),
            (&"CLEAN".into(), &"B".into())
        );
        assert_eq!(verdict["deep"]["findings"], 1);
        assert_eq!(code(&verify(&log, &[])), 0);
        let human = stdout(&verify(&log, &["--deep"]));
        assert!(human.contains("1 finding:") && human.contains(kind), "{human}");
    }
}

/// A map of what lives, for logs in which every transition is a legal one.
#[derive(Default)]
struct Lives(BTreeMap<Vec<u8>, (u64, IdemState)>);

impl Lives {
    /// What may come next for `key` at `ms`.
    fn next<'a>(&mut self, rng: &mut Rng, key: &'a [u8], ms: u64) -> Record<'a> {
        let live = self.0.get(key).copied().filter(|(deadline, _)| ms < *deadline);
        let (state, deadline) = match live {
            None => (IdemState::Pending, ms + 1 + rng.below(400)),
            Some((deadline, IdemState::Pending)) if rng.below(3) == 0 => (IdemState::Aborted, deadline),
            Some((deadline, IdemState::Pending)) => (IdemState::Completed, deadline),
            // Only an operator ends a completed record before its time.
            Some(_) => {
                self.0.remove(key);
                let reason = DeleteReason::Command;
                return Record::Delete { reason, key };
            }
        };
        if state == IdemState::Aborted {
            self.0.remove(key);
        } else {
            self.0.insert(key.to_vec(), (deadline, state));
        }
        put(key, state, deadline)
    }
}

#[test]
fn a_log_of_legal_lives_has_no_finding_and_one_that_lost_a_record_has() {
    let keys: [&[u8]; 4] = [b"a", b"b", b"order:1", BINARY_KEY];
    let mut found = 0;
    for seed in 0..10 {
        let (mut rng, mut lives, mut ms) = (Rng(seed), Lives::default(), 1);
        let mut all: Vec<(u64, u8, Record<'_>)> = Vec::new();
        for _ in 0..150 {
            ms += rng.below(40);
            let key = keys[usize::try_from(rng.below(4)).unwrap()];
            let record = lives.next(&mut rng, key, ms);
            all.push((ms, 0, record));
        }
        let mut log = TestLog::new(0);
        let mut rest = &all[..];
        while !rest.is_empty() {
            let size = rest.len().min(1 + usize::try_from(rng.below(5)).unwrap());
            let group = &rest[..size];
            // Parts of a Transaction are judged one after the other; they have one time.
            let parts: Vec<_> = group.iter().map(|(_, db, record)| (*db, *record)).collect();
            if group.iter().all(|(ms, _, _)| *ms == group[0].0) {
                let records = SubRecords::Slice(&parts);
                log.group(&[(group[0].0, 0, Record::Transaction { records })]);
            } else {
                log.group(group);
            }
            rest = &rest[size..];
        }
        let (findings, verdict) = deep(&log, 0);
        assert_eq!(findings, [] as [Value; 0], "seed {seed}");
        assert_eq!(verdict["deep"]["records"], verdict["records"]);

        // The begin of a completed life is left out.
        let completed = |record: &Record<'_>| matches!(record, Record::IdempotencyPut { record, .. } if record.state == IdemState::Completed);
        let at = all.iter().position(|(_, _, record)| completed(record)).unwrap();
        let key = |record: &Record<'_>| match record {
            Record::IdempotencyPut { key, .. } | Record::Delete { key, .. } => key.to_vec(),
            _ => Vec::new(),
        };
        let begin = (0..at)
            .rev()
            .find(|n| key(&all[*n].2) == key(&all[at].2))
            .unwrap();
        let mut log = TestLog::new(0);
        for (number, record) in all.iter().enumerate() {
            if number != begin {
                log.group(&[*record]);
            }
        }
        let (findings, _) = deep(&log, 8);
        assert_eq!(findings[0]["kind"], "completed_without_pending", "seed {seed}");
        found += findings.len();
    }
    assert!(found >= 10);
}

#[test]
fn snapshots_of_random_logs_are_what_the_log_makes_of_them() {
    let mut compared = 0;
    for seed in 0..12 {
        let log = random_log(seed, 40);
        let output = verify(&log, &["--deep", "--json"]);
        let lines = objects(&output);
        // Its IDEM records come in no order, and are found; its snapshots are right.
        assert!(
            lines.iter().all(|line| line["kind"] != "snapshot_differs"),
            "seed {seed}"
        );
        let verdict = lines.last().unwrap();
        assert_eq!(verdict["deep"]["from_lsn"], 0);
        assert_eq!(verdict["deep"]["to_lsn"], verdict["end_lsn"]);
        compared += verdict["deep"]["snapshots"].as_u64().unwrap();
    }
    assert!(compared > 5, "{compared}");
}

/// A snapshot that says of itself what a good one would, with these items.
fn snapshot(log: &TestLog, start: Lsn, items: &[(u64, u8, Record<'_>)]) {
    let all = records(log.path());
    let last = all.last().unwrap();
    let items: Vec<_> = items
        .iter()
        .map(|(ms, db, record)| (start, *ms, *db, *record))
        .collect();
    let trailer = SnapshotTrailer {
        end_lsn: last.end,
        end_crc: last.raw().crc,
        log_time: last.time,
        ..SnapshotTrailer::default()
    };
    write_snapshot(log.path(), cluster_of(log.path()), start, &items, trailer);
}

#[test]
fn a_snapshot_of_another_state_is_found_where_the_log_reaches_back() {
    let (one, two) = ((1, 0, string(b"a", b"1")), (1, 0, string(b"b", b"2")));
    let ends = Record::StringPut {
        key: b"b",
        deadline: Deadline::at(START_MS + 9_000),
        value: b"2",
    };
    for (items, expected) in [
        (vec![one, two], 0),
        // Another value, another deadline, one missing, one too many.
        (vec![one, (1, 0, string(b"b", b"other"))], 1),
        (vec![one, (1, 0, ends)], 1),
        (vec![one], 1),
        (vec![one, two, (1, 1, string(b"b", b"2"))], 1),
    ] {
        let mut log = TestLog::new(0);
        log.group(&[one, two]);
        let start = log.end();
        snapshot(&log, start, &items);
        log.group(&[(2, 0, string(b"c", b"3"))]);
        let (findings, verdict) = deep(&log, if expected == 0 { 0 } else { 8 });
        assert_eq!(
            (findings.len(), &verdict["deep"]["snapshots"]),
            (expected, &1.into())
        );
        for found in findings {
            assert_eq!(found["kind"], "snapshot_differs");
            assert_eq!(found["lsn"], start.get());
            assert_eq!(found["file"], format!("snap/{:020}.snap", start.get()));
            assert_eq!(verdict["letter"], "B");
        }
    }
}

#[test]
fn what_is_not_kept_is_not_judged() {
    // The log begins above 0: the snapshot is the base, and stands for what its items say.
    let mut log = TestLog::new(0);
    for number in 0..7 {
        log.group(&[(number, 0, string(b"filler", &[b'v'; 20_000]))]);
    }
    let start = log.end();
    let begun = put(b"k", IdemState::Pending, 9_000);
    let Record::IdempotencyPut { record, .. } = &begun else {
        unreachable!()
    };
    let mut value = Vec::new();
    record.encode(&mut value);
    let item = Record::StringPut {
        key: b"k",
        deadline: Deadline::at(START_MS + 9_000),
        value: &value,
    };
    snapshot(&log, start, &[(6, 0, item)]);
    log.group(&[(8, 0, put(b"k", IdemState::Completed, 9_000))]);
    for path in &log.segments()[..2] {
        std::fs::remove_file(path).unwrap();
    }
    let (findings, verdict) = deep(&log, 0);
    assert_eq!(findings.len(), 0);
    let judged = &verdict["deep"];
    assert_eq!(
        (&judged["from_lsn"], &judged["records"]),
        (&start.get().into(), &1.into())
    );
    log.group(&[(9, 0, put(b"other", IdemState::Completed, 9_000))]);
    assert_eq!(deep(&log, 8).0.len(), 1);
}

#[test]
fn a_log_that_no_server_starts_with_is_not_replayed() {
    let mut log = TestLog::new(0);
    for number in 0..3 {
        log.group(&[(number, 0, string(format!("key-{number}").as_bytes(), b"value"))]);
    }
    let at = log.find(b"key-1");
    log.damage(|bytes| bytes[at] ^= 1);
    let output = verify(&log, &["--deep", "--json"]);
    assert_eq!(code(&output), 4);
    assert!(
        stderr(&output).contains("--deep was left out"),
        "{}",
        stderr(&output)
    );
    assert_eq!(objects(&output).pop().unwrap()["deep"], Value::Null);
}

#[test]
fn of_many_findings_a_hundred_are_shown_and_all_are_counted() {
    let mut log = TestLog::new(0);
    let again = |ms| (ms, 0, put(b"k", IdemState::Aborted, 9_000));
    log.group(&(0..250).map(again).collect::<Vec<_>>());
    let (findings, verdict) = deep(&log, 8);
    assert_eq!((findings.len(), &verdict["deep"]["findings"]), (100, &250.into()));
    assert!(stdout(&verify(&log, &["--deep"])).contains("and 150 more"));
}

#[test]
fn a_log_in_use_is_judged_as_far_as_it_is_synced() {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, put(b"k", IdemState::Pending, 9_000))]);
    log.group(&[(2, 0, put(b"k", IdemState::Completed, 9_000))]);
    let end = log.end();
    log.group(&[(3, 0, put(b"k", IdemState::Completed, 9_000))]);
    let _server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    let (findings, verdict) = deep(&log, 0);
    assert_eq!(
        (findings.len(), &verdict["deep"]["to_lsn"]),
        (0, &end.get().into())
    );
    assert_eq!(verdict["live"], true);
}

#[test]
fn what_it_says_to_people_and_to_programs() {
    let mut log = TestLog::new(0);
    let [begun, done] = [IdemState::Pending, IdemState::Completed].map(|state| put(BINARY_KEY, state, 9_000));
    log.group(&[(1, 3, begun), (2, 3, done), (3, 3, done)]);
    for (name, options) in [
        ("verify-deep.txt", &["--deep"][..]),
        ("verify-deep.jsonl", &["--deep", "--json"]),
    ] {
        check_golden(name, &stdout(&verify(&log, options)));
    }
}
