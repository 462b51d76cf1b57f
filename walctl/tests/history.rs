//! `walctl history`: each kind of event, what is said where the log begins in the middle of a life, and for any log the
//! events that a state machine of the test's own finds.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use idem_protocol::idem::IdemState::{Aborted, Completed, Pending};
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::{DeleteReason, Pairs, Record, Strings, SubRecords, parse_segment_name};
use idem_protocol::{Deadline, Lsn, UnixMs};
use idem_wal::lock::DirLock;
use serde_json::Value;
use support::histories::{Logged, Model, random_log, records};
use support::snapshots::{cluster_of, write_snapshot};
use support::*;

fn history(dir: &Path, key: &str, options: &[&str]) -> Output {
    walctl(&[&["history", dir.to_str().unwrap(), key], options].concat())
}

const KEY: &[u8] = b"pay:1";

fn deadline<'a>(ends: u64) -> Record<'a> {
    Record::DeadlinePut {
        key: KEY,
        deadline: if ends == 0 {
            Deadline::NONE
        } else {
            Deadline::at(START_MS + ends)
        },
    }
}

fn delete<'a>(reason: DeleteReason) -> Record<'a> {
    Record::Delete { reason, key: KEY }
}

fn fields(pairs: &[(&'static [u8], &'static [u8])]) -> Vec<(&'static [u8], &'static [u8])> {
    pairs.to_vec()
}

/// A key to which everything happens that can, in two databases.
fn eventful() -> TestLog {
    let mut log = TestLog::new(0);
    let put = |ends, state, owner, result| idem(KEY, ends, state, b"fp-1", owner, result);
    // A whole life, and a second one after expiry; another key beside it.
    log.group(&[
        (10, 0, put(60_010, Pending, b"worker-1", b"")),
        (11, 0, pending(b"pay:2", 100, b"fp-2", b"worker-2")),
    ]);
    log.group(&[(20, 0, put(60_010, Completed, b"worker-1", b"done\n"))]);
    log.group(&[(61_000, 0, put(70_000, Pending, b"worker-2", b""))]);
    log.group(&[
        (61_500, 0, put(70_000, Aborted, b"worker-2", b"")),
        (61_600, 0, put(90_000, Pending, b"worker-3", b"")),
        (61_700, 0, string(KEY, b"\x00")),
        (61_701, 0, put(90_000, Pending, b"worker-4", b"")),
    ]);
    // No expiry when somebody takes the end away, or the key.
    log.group(&[
        (61_800, 0, put(62_000, Pending, b"worker-4", b"")),
        (61_900, 0, deadline(0)),
        (63_000, 0, deadline(64_000)),
        (63_100, 0, deadline(65_000)),
        (64_500, 0, delete(DeleteReason::Command)),
        (64_600, 0, delete(DeleteReason::Evicted)),
        (66_000, 0, Record::Clock),
    ]);
    let pairs = fields(&[(b"name", b"Ada"), (b"born", b"1815")]);
    let removed: [&[u8]; 2] = [b"name", b"born"];
    let hash = Record::HashPut {
        key: KEY,
        deadline: Deadline::NONE,
        fields: Pairs::from(&pairs[..]),
    };
    let parts = [
        (3, put(80_000, Pending, b"worker-5", b"")),
        (3, string(b"other", b"1")),
        (3, put(80_000, Completed, b"worker-5", b"")),
    ];
    log.group(&[
        (67_000, 3, hash),
        (
            67_001,
            3,
            Record::HashDelete {
                key: KEY,
                fields: Strings::from(&removed[..1]),
            },
        ),
        (
            67_002,
            3,
            Record::HashDelete {
                key: KEY,
                fields: Strings::from(&removed[1..]),
            },
        ),
        (
            67_003,
            3,
            Record::Transaction {
                records: SubRecords::Slice(&parts),
            },
        ),
        (67_004, 0, Record::FlushDb),
        (67_005, 3, hash),
        (67_006, 3, Record::FlushDb),
        (67_007, 0, put(90_000, Pending, b"worker-6", b"")),
        (67_008, 0, Record::FlushAll),
        (67_009, 0, put(90_000, Completed, b"worker-7", b"x")),
    ]);
    // The last deadline has come, and only another key's record says so.
    log.group(&[(95_000, 0, string(b"other", b"2"))]);
    log.shut_down();
    log
}

#[test]
fn each_event_has_its_word_and_its_note() {
    let log = eventful();
    for (name, options) in [
        ("history.txt", &[][..]),
        ("history.jsonl", &["--json", "--values"]),
    ] {
        let output = history(log.path(), "pay:1", options);
        assert_eq!((code(&output), stderr(&output)), (0, String::new()), "{name}");
        check_golden(name, &stdout(&output));
    }
}

#[test]
fn a_database_and_a_binary_key_can_be_asked_for() {
    let log = eventful();
    let all = objects(&history(log.path(), "pay:1", &["--json"]));
    for db in [0, 3, 7] {
        let output = history(log.path(), "pay:1", &["--json", "--db", &db.to_string()]);
        let expected: Vec<&Value> = all.iter().filter(|line| line["db"] == db).collect();
        assert_eq!(
            objects(&output).iter().collect::<Vec<_>>(),
            expected,
            "database {db}"
        );
        let unknown = stderr(&output).contains("nothing is known of the key pay:1 in database 7");
        assert_eq!(
            (code(&output), unknown),
            (0, expected.is_empty()),
            "database {db}"
        );
    }
    let log = sample();
    let lines = objects(&history(log.path(), BINARY_KEY_TEXT, &["--json"]));
    assert_eq!((lines.len(), &lines[0]["key"]), (1, &BINARY_KEY_TEXT.into()));
    let output = history(log.path(), "no such key", &[]);
    assert_eq!((code(&output), stdout(&output)), (0, String::new()));
    assert!(stderr(&output).contains("in any database"), "{}", stderr(&output));
    assert_eq!(code(&history(log.path(), "\\q", &[])), 1);
}

/// What was written last decides: the events of a log whose first segment is gone, with and without a snapshot.
#[test]
fn where_the_log_begins_in_the_middle_of_a_life_the_snapshot_is_asked() {
    let check = |name: &str, cut: &dyn Fn(&Path, Lsn, Lsn)| {
        let mut log = TestLog::new(0);
        log.group(&[
            (10, 0, idem(b"held", 900_000, Pending, b"fp-1", b"worker-1", b"")),
            (10, 1, string(b"held", b"in another database")),
            (
                10,
                0,
                idem(b"changed", 900_000, Pending, b"fp-1", b"worker-1", b""),
            ),
        ]);
        // Fills the first segment.
        let filler = vec![b'v'; 60_000];
        log.group(&[(20, 0, string(b"filler", &filler))]);
        let first = log.group(&[(30, 0, string(b"filler", &filler))]);
        let start = log.group(&[(
            40,
            0,
            idem(b"changed", 900_000, Completed, b"fp-1", b"worker-1", b"done"),
        )]);
        log.group(&[
            (
                50,
                0,
                idem(b"held", 900_000, Completed, b"fp-1", b"worker-1", b"done"),
            ),
            (60, 0, delete(DeleteReason::Command)),
        ]);
        log.shut_down();
        assert!(log.segments().len() > 1);
        cut(log.path(), first, start);
        let mut text = String::new();
        for key in ["held", "changed", "pay:1", "filler"] {
            for options in [&[][..], &["--json"]] {
                let output = history(log.path(), key, options);
                assert_eq!(code(&output), 0, "{}", stderr(&output));
                text += &format!("$ walctl history DIR {key} {}\n", options.concat());
                text += &(stdout(&output) + &stderr(&output));
            }
        }
        check_golden(name, &text);
    };
    let without_the_first = |dir: &Path, below: Lsn| {
        for path in segments_below(dir, below) {
            std::fs::remove_file(path).unwrap();
        }
    };
    let snapshot = |dir: &Path, start: Lsn| {
        let items = [
            (start, 40, 0, idem_string(Pending, b"held", b"")),
            (start, 40, 1, Owned::plain(b"held", b"in another database")),
            (start, 40, 0, idem_string(Completed, b"changed", b"done")),
        ];
        let items: Vec<_> = items
            .iter()
            .map(|(lsn, ms, db, owned)| (*lsn, *ms, *db, owned.record()))
            .collect();
        let trailer = SnapshotTrailer {
            end_lsn: start,
            log_time: UnixMs::new(START_MS + 40),
            ..SnapshotTrailer::default()
        };
        write_snapshot(dir, cluster_of(dir), start, &items, trailer)
    };
    check("history-no-snapshot.txt", &|dir, first, _| {
        without_the_first(dir, first)
    });
    check("history-snapshot.txt", &|dir, first, start| {
        without_the_first(dir, first);
        snapshot(dir, start);
    });
    check("history-bad-snapshot.txt", &|dir, first, start| {
        without_the_first(dir, first);
        let path = snapshot(dir, start);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() - 1;
        bytes[at] ^= 1;
        std::fs::write(path, bytes).unwrap();
    });
}

/// A string as a snapshot has it.
struct Owned {
    key: Vec<u8>,
    deadline: Deadline,
    value: Vec<u8>,
}

impl Owned {
    fn plain(key: &[u8], value: &[u8]) -> Owned {
        Owned {
            key: key.to_vec(),
            deadline: Deadline::NONE,
            value: value.to_vec(),
        }
    }

    fn record(&self) -> Record<'_> {
        Record::StringPut {
            key: &self.key,
            deadline: self.deadline,
            value: &self.value,
        }
    }
}

fn idem_string(state: idem_protocol::idem::IdemState, key: &[u8], result: &[u8]) -> Owned {
    let Record::IdempotencyPut { deadline, record, .. } =
        idem(key, 900_000, state, b"fp-1", b"worker-1", result)
    else {
        panic!("it is one");
    };
    let mut value = Vec::new();
    record.encode(&mut value);
    Owned {
        deadline,
        ..Owned::plain(key, &value)
    }
}

/// The segments that lie wholly below an lsn.
fn segments_below(dir: &Path, lsn: Lsn) -> Vec<PathBuf> {
    let names = std::fs::read_dir(dir.join("wal")).unwrap();
    let mut firsts: Vec<(Lsn, PathBuf)> = names
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let first = parse_segment_name(path.file_name()?.to_str()?)?;
            Some((first, path))
        })
        .collect();
    firsts.sort();
    let below = firsts
        .partition_point(|(first, _)| *first <= lsn)
        .saturating_sub(1);
    firsts.into_iter().take(below).map(|(_, path)| path).collect()
}

/// An event without what is only words: lsn, database, part, whether it is expiry.
type Short = (u64, u8, Option<u64>, bool);

fn short(line: &Value) -> Short {
    let number = |field: &str| line[field].as_u64();
    (
        number("lsn").unwrap(),
        u8::try_from(number("db").unwrap()).unwrap(),
        number("tx_index"),
        line["event"] == "expired",
    )
}

/// The events that a state machine without any code of ours finds.
fn expected(all: &[Logged], key: &[u8]) -> (Vec<Short>, Model) {
    let mut model = Model::default();
    let mut events = Vec::new();
    let live = |model: &Model| -> Vec<(Deadline, u8)> {
        let entries = model.live().filter(|((_, name), _)| name == key);
        entries.map(|((db, _), (deadline, _))| (*deadline, *db)).collect()
    };
    let is_of_key = |record: &Record<'_>| match record {
        Record::StringPut { key: name, .. }
        | Record::Delete { key: name, .. }
        | Record::DeadlinePut { key: name, .. }
        | Record::HashPut { key: name, .. }
        | Record::HashDelete { key: name, .. }
        | Record::IdempotencyPut { key: name, .. } => *name == key,
        _ => false,
    };
    for logged in all {
        let raw = logged.raw();
        let mut ended = live(&model);
        ended.retain(|(deadline, _)| deadline.has_ended(raw.time));
        ended.sort();
        events.extend(ended.iter().map(|(_, db)| (raw.lsn.get(), *db, None, true)));
        let left: Vec<u8> = live(&model)
            .iter()
            .filter(|(deadline, _)| !deadline.has_ended(raw.time))
            .map(|(_, db)| *db)
            .collect();
        let mut happened = |db: u8, part| events.push((raw.lsn.get(), db, part, false));
        match raw.decode().unwrap() {
            Record::Transaction { records } => {
                for (index, (db, part)) in records.iter().enumerate() {
                    if is_of_key(&part) {
                        happened(db, Some(index as u64));
                    }
                }
            }
            Record::FlushAll => left.iter().for_each(|db| happened(*db, None)),
            Record::FlushDb if left.contains(&raw.db) => happened(raw.db, None),
            record if is_of_key(&record) => happened(raw.db, None),
            _ => {}
        }
        model.apply(&raw);
    }
    (events, model)
}

const KEYS: [(&[u8], &str); 5] = [
    (b"a", "a"),
    (b"b", "b"),
    (b"order:1", "order:1"),
    (BINARY_KEY, BINARY_KEY_TEXT),
    (b"", ""),
];

#[test]
fn the_events_of_any_log_are_those_of_the_model() {
    let mut expiries = 0;
    for seed in 0..8 {
        let log = random_log(seed, 60);
        let all = records(log.path());
        for (key, text) in KEYS {
            let (events, model) = expected(&all, key);
            let output = history(log.path(), text, &["--json"]);
            assert_eq!(code(&output), 0, "{}", stderr(&output));
            let found: Vec<Short> = objects(&output).iter().map(short).collect();
            assert_eq!(found, events, "seed {seed}, key {text}");
            expiries += found.iter().filter(|(.., expired)| *expired).count();

            // Where it ends.
            let human = stdout(&history(log.path(), text, &[]));
            for db in 0..3_u8 {
                let line = human
                    .lines()
                    .find(|line| line.starts_with(&format!("  database {db}: ")));
                let is_there = model.live().any(|((of, name), _)| (*of, &name[..]) == (db, key));
                let said = line.is_some_and(|line| !line.contains("not there"));
                assert_eq!(said, is_there, "seed {seed}, key {text}, database {db}: {human}");
            }
        }
    }
    assert!(expiries > 20, "only {expiries} keys expired");
}

#[test]
fn behind_the_snapshot_a_log_without_its_beginning_tells_the_same() {
    let mut founds = 0;
    for seed in 20..36 {
        let log = random_log(seed, 80);
        let dir = log.path();
        let snapshots = dir.join("snap");
        let mut starts: Vec<Lsn> = std::fs::read_dir(&snapshots)
            .into_iter()
            .flatten()
            .filter_map(|entry| idem_protocol::wal::parse_snapshot_name(entry.unwrap().file_name().to_str()?))
            .collect();
        starts.sort_unstable();
        // As retention leaves it: the two newest, and the log from the older one on.
        let Some(older) = starts.len().checked_sub(2).map(|index| starts[index]) else {
            continue;
        };
        for gone in starts.iter().filter(|start| **start < older) {
            std::fs::remove_file(snapshots.join(idem_protocol::wal::snapshot_name(*gone))).unwrap();
        }
        let whole: Vec<Vec<Value>> = KEYS
            .iter()
            .map(|(_, text)| objects(&history(dir, text, &["--json", "--values"])))
            .collect();
        let removed = segments_below(dir, older);
        removed
            .iter()
            .for_each(|path| std::fs::remove_file(path).unwrap());
        if removed.is_empty() {
            continue;
        }
        let path = snapshots.join(idem_protocol::wal::snapshot_name(older));
        let snapshot = walctl(&["snapshot", path.to_str().unwrap(), "--json"]);
        assert_eq!(code(&snapshot), 0, "seed {seed}: {}", stdout(&snapshot));
        let end = objects(&snapshot)[0]["end_lsn"].as_u64().unwrap();
        for ((_, text), whole) in KEYS.iter().zip(&whole) {
            let output = history(dir, text, &["--json", "--values"]);
            assert_eq!(code(&output), 0, "{}", stderr(&output));
            assert!(stderr(&output).contains("note: the log is kept from lsn"));
            let found = objects(&output);
            let from_end = |lines: &[Value]| -> Vec<Value> {
                let behind = lines.iter().filter(|line| line["lsn"].as_u64().unwrap() >= end);
                behind.filter(|line| line["event"] != "found").cloned().collect()
            };
            assert_eq!(from_end(&found), from_end(whole), "seed {seed}, key {text}");
            founds += found.iter().filter(|line| line["event"] == "found").count();
        }
    }
    assert!(founds > 2, "only {founds} were found in a snapshot");
}

#[test]
fn a_log_that_a_server_is_writing_is_told_to_its_end() {
    let mut log = TestLog::new(0);
    let _server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    log.group(&[(10, 0, pending(KEY, 60_000, b"fp", b"worker-1"))]);
    log.write(&[(20, 0, idem(KEY, 60_000, Completed, b"fp", b"worker-1", b"done"))]);
    // The next group is on its way: its header is there, its records are not.
    let end = log.find(b"worker-1done") as u64 + 12;
    log.damage(|bytes| {
        let at = usize::try_from(end.next_multiple_of(8)).unwrap();
        bytes[at..at + 4].copy_from_slice(b"IFRM");
    });
    let output = history(log.path(), "pay:1", &["--json"]);
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
    let events: Vec<Value> = objects(&output)
        .iter()
        .map(|line| line["event"].clone())
        .collect();
    assert_eq!(events, ["acquired", "completed"]);
}

#[test]
fn what_a_server_removes_meanwhile_is_a_note_and_the_key_is_unknown_after_it() {
    let mut log = TestLog::new(0);
    // Three of these fill a segment, and a dozen the pipe: a history that nobody reads stands still near its beginning.
    let value = [b'v'; 20_000];
    for number in 0..60 {
        log.group(&[(number, 0, string(KEY, &value))]);
    }
    let _server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    let mut child = command(&[
        "history",
        log.path().to_str().unwrap(),
        "pay:1",
        "--json",
        "--values",
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    printed.read_line(&mut text).unwrap();
    let segments = log.segments();
    for path in &segments[..segments.len() - 3] {
        std::fs::remove_file(path).unwrap();
    }
    log.group(&[(60, 0, idem(KEY, 900_000, Completed, b"fp", b"worker-1", b""))]);
    printed.read_to_string(&mut text).unwrap();
    let output = child.wait_with_output().unwrap();
    let words = stderr(&output);
    assert_eq!(code(&output), 0, "{words}");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // The reader goes on while the files go, so that it may come to a gap more than once.
    let times: Vec<u64> = lines
        .iter()
        .map(|line| line["time_ms"].as_u64().unwrap())
        .collect();
    let gaps = times.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    assert!(gaps > 0, "the pipe had room for everything");
    assert_eq!(words.matches("note: lsn").count(), gaps, "{words}");
    assert_eq!(lines.last().unwrap()["event"], "completed");
}

#[test]
fn a_damaged_log_is_told_up_to_the_damage_and_is_code_1() {
    let log = eventful();
    let whole = objects(&history(log.path(), "pay:1", &["--json"]));
    let at = log.find(b"worker-7");
    log.damage(|bytes| bytes[at] ^= 1);
    let output = history(log.path(), "pay:1", &["--json"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("walctl verify"), "{}", stderr(&output));
    let found = objects(&output);
    assert!(!found.is_empty() && whole.starts_with(&found));
}

#[test]
fn looking_changes_nothing_and_a_closed_pipe_is_no_failure() {
    let log = eventful();
    let before = image(log.path());
    let mut child = command(&["history", log.path().to_str().unwrap(), "pay:1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
    assert!(image(log.path()) == before);
}
