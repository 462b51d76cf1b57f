//! `walctl diff`: two directories with the same records, and every way of not being that.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use idem_protocol::snapshot::SnapshotTrailer;
use idem_wal::lock::DirLock;
use serde_json::Value;
use support::histories::{Rng, records};
use support::snapshots::{cluster_of, write_snapshot};
use support::*;

fn diff(a: &Path, b: &Path, options: &[&str]) -> Output {
    let arguments = ["diff", a.to_str().unwrap(), b.to_str().unwrap()];
    walctl(&[&arguments, options].concat())
}

/// Runs it both ways round, with and without JSON; checks the code and that nothing was changed.
fn check(name: &str, a: &Path, b: &Path, options: &[&str], expected: i32) -> Value {
    let before = (image(a), image(b));
    let human = diff(a, b, options);
    let json = diff(a, b, &[options, &["--json"]].concat());
    let turned = diff(b, a, &[options, &["--json"]].concat());
    assert!(
        (image(a), image(b)) == before,
        "{name}: looking changed something"
    );
    let codes = [&human, &json, &turned].map(code);
    assert_eq!(
        codes,
        [expected; 3],
        "{name}: {}{}",
        stdout(&human),
        stderr(&human)
    );
    let begins = if expected == 0 { "equal: " } else { "different: " };
    assert!(stdout(&human).starts_with(begins), "{name}: {}", stdout(&human));
    let found = objects(&json).pop().unwrap();
    let other = objects(&turned).pop().unwrap();
    for field in ["equal", "to_lsn", "from_lsn", "first_lsn", "reason"] {
        assert_eq!(found[field], other[field], "{name}: {field}");
    }
    assert_eq!(found["equal"], expected == 0, "{name}");
    found
}

/// Two logs of one history with 12 records; `of` makes the values, and each side has groups of another size.
fn pair(of: impl Fn(usize, u64) -> Vec<u8>) -> [TestLog; 2] {
    [(0, 1), (1, 5)].map(|(side, size)| {
        let mut log = TestLog::new(0);
        let values: Vec<Vec<u8>> = (0..12).map(|number| of(side, number)).collect();
        let all: Vec<_> = (0..12).zip(&values).collect();
        for group in all.chunks(size) {
            let group: Vec<_> = group
                .iter()
                .map(|(number, value)| (10 + number, 0, string(b"key", value)))
                .collect();
            log.group(&group);
        }
        log
    })
}

fn copy(from: &Path) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("copy");
    copy_tree(from, &to);
    (directory, to)
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn other_groups_and_segments_of_the_same_records_are_no_difference() {
    let [mut a, b] = pair(|_, number| vec![b'v'; 9_000 + usize::try_from(number).unwrap()]);
    assert!(a.segments().len() > 1, "the records fill segments");
    a.seal();
    let found = check("same", a.path(), b.path(), &[], 0);
    assert_eq!(
        (&found["from_lsn"], &found["to_lsn"]),
        (&0.into(), &a.end().get().into())
    );
    assert_eq!(found["goes_on"], Value::Null);
    check("same", a.path(), b.path(), &["--exact"], 0);

    let end = a.end().get();
    a.group(&[(100, 0, string(b"more", b"value"))]);
    let found = check("longer", a.path(), b.path(), &[], 0);
    assert_eq!(found["to_lsn"], end);
    let found = check("longer", a.path(), b.path(), &["--exact"], 7);
    assert_eq!(
        (&found["first_lsn"], &found["reason"]),
        (&end.into(), &"end".into())
    );
}

#[test]
fn the_first_record_that_differs_is_named() {
    for number in 0..12 {
        for longer in [false, true] {
            let logs = pair(|side, at| match (side, at == number) {
                (1, true) if longer => b"other value".to_vec(),
                (1, true) => b"volue".to_vec(),
                _ => b"value".to_vec(),
            });
            let [a, b] = &logs;
            let expected = &records(a.path())[usize::try_from(number).unwrap() + 1];
            let found = check("record", a.path(), b.path(), &[], 7);
            assert_eq!(found["reason"], "record");
            assert_eq!(found["first_lsn"], expected.lsn.get());
            for side in ["a", "b"] {
                assert_eq!(found[side]["lsn"], expected.lsn.get());
                assert_eq!(found[side]["key"], "key");
                assert_eq!(found[side]["time_ms"], START_MS + 10 + number);
            }
            assert_ne!(found["a"]["crc"], found["b"]["crc"]);
            let human = stdout(&diff(a.path(), b.path(), &[]));
            assert!(human.contains(&format!("--from-lsn {}", expected.lsn)), "{human}");
        }
    }
}

#[test]
fn random_logs_are_the_same_up_to_where_they_part() {
    for seed in 0..8 {
        let log = histories::random_log(seed, 30);
        let (_kept, copied) = copy(log.path());
        let end = log.end().get();
        let found = check("copy", log.path(), &copied, &["--exact"], 0);
        assert_eq!(found["to_lsn"], end);
        // A flipped bit that passes the log's own checks is another record: written anew, with good checksums.
        let mut rng = Rng(seed);
        let all = records(log.path());
        let at = usize::try_from(rng.below(all.len() as u64)).unwrap();
        let mut other = TestLog::new(0);
        for record in &all[1..at.max(1)] {
            let raw = record.raw();
            other.group(&[(raw.time.get() - START_MS, raw.db, raw.decode().unwrap())]);
        }
        other.group(&[(1_000_000, 9, string(b"unheard of", b""))]);
        let found = check("parted", log.path(), other.path(), &[], 7);
        assert_eq!(found["first_lsn"], all[at.max(1)].lsn.get(), "seed {seed}");
    }
}

#[test]
fn another_cluster_or_epoch_is_another_log() {
    let (a, b) = (TestLog::new(0), TestLog::new(100));
    let found = check("cluster", a.path(), b.path(), &[], 7);
    assert_eq!(found["reason"], "cluster");

    // In the second log a plain record of the same length stands where the first one's epoch begins, below what is kept.
    let mut logs = [TestLog::new(0), TestLog::new(0)];
    let [a, b] = &mut logs;
    a.reopen();
    b.group(&[(0, 0, string(b"123456789012345678", b"123456789012345"))]);
    assert_eq!(a.end(), b.end());
    for log in [a, b] {
        for number in 0..9 {
            log.group(&[(number, 0, string(b"key", &[b'v'; 20_000]))]);
        }
    }
    let [a, b] = &logs;
    assert_eq!(check("all of it", a.path(), b.path(), &[], 7)["reason"], "record");
    for log in &logs {
        std::fs::remove_file(&log.segments()[0]).unwrap();
    }
    let found = check("epoch", a.path(), b.path(), &[], 7);
    assert_eq!(found["reason"], "epoch");
    assert_eq!(found["first_lsn"], first_kept(a));
}

fn first_kept(log: &TestLog) -> u64 {
    let first = log.segments()[0].file_stem().unwrap().to_owned();
    first.to_str().unwrap().parse().unwrap()
}

#[test]
fn without_a_common_position_there_is_nothing_equal() {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, string(b"key", &[b'v'; 20_000]))]);
    let (_kept, early) = copy(log.path());
    let early_end = log.end().get();
    for number in 0..12 {
        log.group(&[(number + 1, 0, string(b"key", &[b'v'; 20_000]))]);
    }
    let found = check("early", log.path(), &early, &[], 0);
    assert_eq!(found["to_lsn"], early_end);
    for path in &log.segments()[..2] {
        std::fs::remove_file(path).unwrap();
    }
    let found = check("retained", log.path(), &early, &[], 7);
    assert_eq!(found["reason"], "no_common_range");
    assert_eq!(found["first_lsn"], first_kept(&log));

    let empty = tempfile::tempdir().unwrap();
    let found = check("empty", log.path(), empty.path(), &[], 7);
    assert_eq!(found["reason"], "no_common_range");
}

#[test]
fn retention_leaves_the_range_that_both_keep() {
    let mut log = TestLog::new(0);
    for number in 0..12 {
        log.group(&[(number, 0, string(b"key", &[b'v'; 20_000]))]);
    }
    let (_kept, copied) = copy(log.path());
    std::fs::remove_file(&log.segments()[0]).unwrap();
    let found = check("kept", log.path(), &copied, &["--exact"], 0);
    assert_eq!(found["from_lsn"], first_kept(&log));
    assert_eq!(found["to_lsn"], log.end().get());

    // A gap further up is no equality, and what follows it is compared.
    let gap = log.segments()[1].clone();
    let begin: u64 = lsn_of(&gap);
    std::fs::remove_file(gap).unwrap();
    let first = first_kept(&log);
    let (after, end) = (lsn_of(&log.segments()[1]), log.end().get());
    for options in [&[][..], &["--exact"]] {
        let found = check("gap", log.path(), &copied, options, 5);
        assert_eq!(
            (&found["reason"], &found["first_lsn"]),
            (&"damage".into(), &begin.into())
        );
        assert_eq!(ranges(&found), [(first, begin), (after, end)]);
    }
    let words = stderr(&diff(log.path(), &copied, &[]));
    assert!(
        words.contains(&format!("equal: lsn {first} to {begin}, {after} to {end}")),
        "{words}"
    );
}

fn lsn_of(segment: &Path) -> u64 {
    segment.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

/// What was compared beside damage.
fn ranges(found: &Value) -> Vec<(u64, u64)> {
    let ranges = found["same"].as_array().unwrap().iter();
    ranges
        .map(|range| {
            (
                range["from_lsn"].as_u64().unwrap(),
                range["to_lsn"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn what_both_hold_is_compared_around_damage() {
    let mut log = TestLog::new(0);
    for number in 0..12 {
        log.group(&[(
            number,
            0,
            string(format!("key-{number}").as_bytes(), &[b'v'; 20_000]),
        )]);
    }
    let end = log.end().get();
    let lost = log.segments()[1].file_name().unwrap().to_owned();
    let (begin, after) = (lsn_of(&log.segments()[1]), lsn_of(&log.segments()[2]));
    let damaged = |change: &dyn Fn(&Path)| {
        let (kept, copied) = copy(log.path());
        change(&copied.join("wal").join(&lost));
        (kept, copied)
    };
    let overwrite = |at: usize, with: u8, count: usize| {
        move |path: &Path| {
            let mut bytes = std::fs::read(path).unwrap();
            bytes[at..at + count].fill(with);
            std::fs::write(path, bytes).unwrap();
        }
    };
    let unreadable = |path: &Path| {
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
    };
    let headless = overwrite(0, 0, 4096);
    for (name, change, code) in [
        ("header", &headless as &dyn Fn(&Path), 4),
        ("gone", &|path: &Path| std::fs::remove_file(path).unwrap(), 5),
        ("unreadable", &unreadable, 9),
    ] {
        let (_kept, copied) = damaged(change);
        let found = check(name, &copied, log.path(), &[], code);
        assert_eq!(
            (&found["reason"], &found["first_lsn"]),
            (&"damage".into(), &begin.into()),
            "{name}"
        );
        assert_eq!(ranges(&found), [(0, begin), (after, end)], "{name}");
        let words = stderr(&diff(&copied, log.path(), &[]));
        let is_named = words.contains(&format!("wal/{}", lost.to_str().unwrap()));
        assert!(is_named || name == "gone", "{name}: {words}");
        // With the same damage on both sides nothing that they hold differs, and nothing is equal.
        let found = check(name, &copied, &copied, &[], code);
        assert_eq!(ranges(&found), [(0, begin), (after, end)], "{name}");
    }
    // A bad record costs itself.
    let (_kept, copied) = damaged(&overwrite(4096 + 32 + 500, b'?', 1));
    let found = check("record", &copied, log.path(), &[], 4);
    let bad = records(log.path())
        .into_iter()
        .find(|record| record.lsn.get() >= begin)
        .unwrap();
    assert_eq!(ranges(&found), [(0, bad.lsn.get()), (bad.end.get(), end)]);

    // What differs behind the damage is a difference.
    let mut other = TestLog::new(0);
    for number in 0..12 {
        let value = if number == 11 { b'w' } else { b'v' };
        other.group(&[(
            number,
            0,
            string(format!("key-{number}").as_bytes(), &[value; 20_000]),
        )]);
    }
    for change in [&headless as &dyn Fn(&Path), &unreadable] {
        let (_kept, copied) = damaged(change);
        let found = check("behind", &copied, other.path(), &[], 7);
        assert_eq!(found["reason"], "record");
        assert_eq!(found["first_lsn"], records(log.path()).last().unwrap().lsn.get());
    }
}

#[test]
fn a_tail_that_a_start_cuts_off_is_a_note_and_rot_is_no_equality() {
    let groups = |log: &mut TestLog| {
        for number in 0..4 {
            log.group(&[(number, 0, string(format!("key-{number}").as_bytes(), b"value"))]);
        }
    };
    let (mut a, mut b) = (TestLog::new(0), TestLog::new(0));
    groups(&mut a);
    groups(&mut b);
    b.damage(|bytes| {
        let end = bytes.len();
        bytes[end - 100..].fill(0x5a);
    });
    let found = check("junk", a.path(), b.path(), &["--exact"], 0);
    assert_eq!(found["to_lsn"], a.end().get());
    let words = stderr(&diff(a.path(), b.path(), &[]));
    assert!(
        words.contains("UNPROVEN_TAIL") && words.contains("not compared"),
        "{words}"
    );

    let at = a.find(b"key-2");
    a.damage(|bytes| bytes[at] ^= 1);
    let found = check("rot", a.path(), b.path(), &[], 4);
    assert_eq!(found["reason"], "damage");
    assert_eq!(found["first_lsn"], records(b.path())[3].lsn.get());
    let words = stderr(&diff(a.path(), b.path(), &[]));
    assert!(words.contains("F ROT: walctl verify"), "{words}");

    // What differs before the damage is a difference all the same.
    let mut c = TestLog::new(0);
    c.group(&[(9, 0, string(b"other", b"value"))]);
    check("rot behind", a.path(), c.path(), &[], 7);
}

#[test]
fn directories_in_use_are_compared_as_far_as_they_are_written() {
    let [mut a, b] = pair(|_, _| b"value".to_vec());
    let _servers = [&a, &b].map(|log| DirLock::exclusive(log.path(), Duration::ZERO).unwrap());
    let end = a.end().get();
    a.write(&[(100, 0, string(b"unsynced", b"value"))]);
    // Half of the next group is on its way.
    b.damage(|bytes| {
        let end = bytes.len();
        bytes[end - 100..].fill(0x5a);
    });
    let found = check("live", a.path(), b.path(), &[], 0);
    assert_eq!((&found["to_lsn"], &found["from_lsn"]), (&end.into(), &0.into()));
    assert!([&"A".into(), &Value::Null].contains(&&found["goes_on"]));
}

#[test]
fn rot_below_the_snapshot_is_no_equality_either() {
    let [a, b] = pair(|_, _| vec![b'v'; 9_000]);
    let all = records(a.path());
    let last = all.last().unwrap();
    let trailer = SnapshotTrailer {
        end_lsn: last.end,
        end_crc: last.raw().crc,
        log_time: last.time,
        ..SnapshotTrailer::default()
    };
    write_snapshot(a.path(), cluster_of(a.path()), last.end, &[], trailer);
    let oldest = &a.segments()[0];
    let mut bytes = std::fs::read(oldest).unwrap();
    bytes[20_000] ^= 1;
    std::fs::write(oldest, bytes).unwrap();
    assert_eq!(code(&walctl(&["verify", a.path().to_str().unwrap()])), 0);
    let found = check("below", a.path(), b.path(), &[], 4);
    assert_eq!(found["reason"], "damage");
    let words = stderr(&diff(a.path(), b.path(), &[]));
    assert!(
        words.contains("below the snapshot") && words.contains("walctl verify --deep "),
        "{words}"
    );
}

#[test]
fn what_it_says_to_people_and_to_programs() {
    let other = pair(|side, at| {
        if (side, at) == (1, 3) {
            b"volue".to_vec()
        } else {
            b"value".to_vec()
        }
    });
    let mut longer = pair(|_, _| b"value".to_vec());
    longer[1].group(&[(100, 0, string(b"more", b"value"))]);
    for (name, [a, b], options) in [
        ("diff-record.txt", &other, &[][..]),
        ("diff-record.jsonl", &other, &["--json"]),
        ("diff-equal.txt", &longer, &[]),
        ("diff-equal.jsonl", &longer, &["--json"]),
        ("diff-exact.txt", &longer, &["--exact"]),
        ("diff-exact.jsonl", &longer, &["--exact", "--json"]),
    ] {
        let text = stdout(&diff(a.path(), b.path(), options));
        let text = text.replace(a.path().to_str().unwrap(), "A");
        check_golden(name, &text.replace(b.path().to_str().unwrap(), "B"));
    }
}
