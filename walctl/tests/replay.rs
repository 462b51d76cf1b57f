//! `walctl replay`: the state at every position, from whatever snapshot, and what is said where there is none.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::path::Path;
use std::time::Duration;

use idem_engine::Keyspace;
use idem_engine::digest::digest;
use idem_protocol::wal::Record;
use idem_protocol::{Lsn, UnixMs};
use idem_wal::lock::DirLock;
use serde_json::Value as Json;
use support::histories::{Logged, Model, records};
use support::*;

fn replay(dir: &Path, more: &[&str]) -> std::process::Output {
    let mut arguments = vec!["replay", dir.to_str().unwrap()];
    arguments.extend(more);
    walctl(&arguments)
}

/// The one object of a replay that has to succeed.
fn totals(dir: &Path, more: &[&str]) -> Json {
    let output = replay(dir, &[&["--json"], more].concat());
    assert_eq!(code(&output), 0, "{more:?}: {}", stderr(&output));
    objects(&output).pop().unwrap()
}

fn check(found: &Json, lsn: Lsn, model: &Model) {
    assert_eq!(found["lsn"], lsn.get());
    assert_eq!(found["time_ms"], model.time.get(), "at lsn {lsn}");
    assert_eq!(found["keys"], model.live().count(), "at lsn {lsn}");
    assert_eq!(found["digest"], model.digest(), "at lsn {lsn}");
}

fn check_refused(dir: &Path, more: &[&str], expected: i32, words: &[&str]) {
    let output = replay(dir, more);
    assert_eq!(code(&output), expected, "{more:?}: {}", stderr(&output));
    assert_eq!(stdout(&output), "");
    for words in words {
        assert!(stderr(&output).contains(words), "{more:?}: {}", stderr(&output));
    }
}

#[test]
fn every_position_and_time_of_a_random_log_gives_the_state_of_a_plain_map() {
    let mut snapshots = 0;
    for seed in 1..=4 {
        let log = histories::random_log(seed, 40);
        snapshots += snapshots_of(log.path()).len();
        let all = records(log.path());
        let mut model = Model::default();
        for (index, record) in all.iter().enumerate() {
            model.apply(&record.raw());
            let lsn = record.end.to_string();
            check(&totals(log.path(), &["--to-lsn", &lsn]), record.end, &model);
            // The last record of a time is the one that it stands for.
            let is_last = all.get(index + 1).is_none_or(|next| next.time > record.time);
            if is_last {
                let time = record.time.to_string();
                check(&totals(log.path(), &["--to-time", &time]), record.end, &model);
            }
            if let Some(next) = all.get(index + 1)
                && next.time.get() > record.time.get() + 1
            {
                let between = (next.time.get() - 1).to_string();
                check(&totals(log.path(), &["--to-time", &between]), record.end, &model);
            }
        }
        check(&totals(log.path(), &[]), all.last().unwrap().end, &model);
    }
    assert!(snapshots > 3, "only {snapshots} snapshots were taken meanwhile");
}

#[test]
fn a_time_between_two_records_is_the_earlier_one() {
    let log = sample();
    let all = records(log.path());
    let before: &Logged = all
        .iter()
        .rfind(|record| record.time.get() < START_MS + 1000)
        .unwrap();
    let found = totals(log.path(), &["--to-time", "2026-01-01T01:00:00.999+01:00"]);
    assert_eq!(found["lsn"], before.end.get());
}

#[test]
fn a_position_outside_of_the_log_or_within_a_record_is_refused_with_what_there_is() {
    let log = sample();
    let all = records(log.path());
    let (first, end) = (&all[0], all.last().unwrap());
    let within = (all[1].lsn.get() + 3).to_string();
    let beyond = (end.end.get() + 1).to_string();
    let ends = [all[1].lsn.to_string(), all[1].end.to_string()];
    check_refused(
        log.path(),
        &["--to-lsn", &within],
        1,
        &["within the record", &ends[0], &ends[1]],
    );
    let range = format!("to lsn {}", end.end);
    check_refused(log.path(), &["--to-lsn", &beyond], 1, &["lsn 0", &range]);
    let early = (first.time.get() - 1).to_string();
    let later = (now_ms() + 3_600_000).to_string();
    for time in [&early, &later, "2100-01-01T00:00:00Z"] {
        check_refused(
            log.path(),
            &["--to-time", time],
            1,
            &["outside of the log", &range],
        );
    }
    check_refused(log.path(), &["--to-time", "2026-01-01T00:00:00"], 1, &["offset"]);
    check_refused(log.path(), &["--to-lsn", "0", "--to-time", "0"], 1, &[]);
    assert_eq!(totals(log.path(), &["--to-lsn", "0"])["keys"], 0);
    let empty = tempfile::tempdir().unwrap();
    check_refused(empty.path(), &[], 1, &["no log"]);
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap().as_millis()).unwrap()
}

/// The end of the log stands for a time that has come without another record.
fn check_quiet(dir: &Path, time: &str, lsn: Lsn) {
    let output = replay(dir, &["--json", "--to-time", time]);
    assert_eq!(code(&output), 0, "{time}: {}", stderr(&output));
    assert_eq!(objects(&output)[0]["lsn"], lsn.get());
    let words = format!("nothing was written after lsn {lsn}, ");
    assert!(stderr(&output).contains(&words), "{time}: {}", stderr(&output));
}

#[test]
fn a_time_since_the_newest_record_is_the_end_of_the_log_and_one_to_come_is_none() {
    let mut log = sample();
    let end = records(log.path()).last().unwrap().end;
    check_quiet(log.path(), "2026-01-01T00:00:02.002Z", end);
    check_quiet(log.path(), &now_ms().to_string(), end);
    // The newest record's own time needs no such words.
    let output = replay(log.path(), &["--to-time", "2026-01-01T00:00:02.001Z"]);
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));

    // A server has it, and its log rests: the seal says so.
    log.reopen();
    log.group(&[(3000, 0, string(b"a", b"1"))]);
    log.seal();
    let end = log.end();
    let server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    check_quiet(log.path(), "2026-01-01T00:00:05Z", end);
    check_quiet(log.path(), &now_ms().to_string(), end);
    // Only the time went on since, and no seal follows that.
    let end = log.group(&[(6000, 0, Record::Clock)]);
    let output = replay(log.path(), &["--json", "--to-time", "2026-01-01T00:00:07Z"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(objects(&output)[0]["lsn"], end.get());
    // A record without a later mark may not be on disk.
    log.group(&[(8000, 0, string(b"b", b"2"))]);
    let target = ["--to-time", "2026-01-01T00:00:09Z"];
    check_refused(log.path(), &target, 1, &["does not say yet", "--to-lsn"]);
    check_refused(
        log.path(),
        &["--to-lsn", &log.end().to_string()],
        1,
        &["does not say yet"],
    );
    // Of a time to come nothing is synced, and nothing is waited for.
    let target = ["--to-time", "2100-01-01T00:00:00Z"];
    check_refused(log.path(), &target, 1, &["outside of the log"]);
    // The seal comes while it is waited for.
    let end = log.end();
    let (sender, receiver) = std::sync::mpsc::channel();
    let path = log.path().to_owned();
    let waiting = std::thread::spawn(move || {
        sender.send(()).unwrap();
        replay(&path, &["--json", "--to-time", "2026-01-01T00:00:09Z"])
    });
    receiver.recv().unwrap();
    log.seal();
    let output = waiting.join().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(objects(&output)[0]["lsn"], end.get());
    drop(server);
}

/// What is archived of a log ends before the log does.
#[test]
fn the_end_of_an_archive_stands_for_no_later_time() {
    let mut log = TestLog::new(0);
    for number in 0..12u8 {
        log.group(&[(u64::from(number), 0, string(&[b'k', number], &[b'v'; 20_000]))]);
    }
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let dir = log.path().to_str().unwrap();
    let archived = walctl(&["archive", dir, "--into", store.to_str().unwrap(), "--yes"]);
    assert_eq!(code(&archived), 0, "{}", stderr(&archived));
    let history = std::fs::read_dir(&store).unwrap().next().unwrap().unwrap().path();
    let target = ["--to-time", "2026-01-01T00:00:05Z"];
    check_refused(
        &history,
        &target,
        1,
        &["outside of the log", "went on after what is archived"],
    );
    assert_eq!(totals(log.path(), &target)["keys"], 12);
}

/// A log whose first segments are gone, and its records from before that.
fn retained() -> (TestLog, Vec<Logged>) {
    for seed in 1.. {
        let log = histories::random_log(seed, 120);
        let all = records(log.path());
        let snapshots = snapshots_of(log.path());
        let segments = log.segments();
        let begin = |path: &Path| -> u64 { path.file_stem().unwrap().to_str().unwrap().parse().unwrap() };
        // Wholly below the oldest snapshot but one.
        let Some(needed) = snapshots.len().checked_sub(2).map(|index| snapshots[index]) else {
            continue;
        };
        let gone = segments
            .iter()
            .skip(1)
            .take_while(|path| begin(path) <= needed)
            .count();
        if gone == 0 {
            continue;
        }
        segments[..gone]
            .iter()
            .for_each(|path| std::fs::remove_file(path).unwrap());
        return (log, all);
    }
    unreachable!("some seed gives two snapshots and more than one segment")
}

fn snapshots_of(dir: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(dir.join("snap")).unwrap();
    let mut starts: Vec<u64> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().parse().unwrap())
        .collect();
    starts.sort_unstable();
    starts
}

#[test]
fn what_the_kept_log_covers_is_given_from_the_snapshot_that_has_it() {
    let (log, all) = retained();
    let (mut model, mut given, mut refused) = (Model::default(), 0, 0);
    for record in &all {
        model.apply(&record.raw());
        let lsn = record.end.to_string();
        let output = replay(log.path(), &["--json", "--to-lsn", &lsn]);
        if code(&output) == 0 {
            check(&objects(&output)[0], record.end, &model);
            given += 1;
        } else {
            assert_eq!(
                given, 0,
                "once the log covers a position, it covers all later ones"
            );
            assert!(
                stderr(&output).contains("outside of the log"),
                "{}",
                stderr(&output)
            );
            refused += 1;
        }
    }
    assert!(given > 0 && refused > 0, "{given} given, {refused} refused");
    // The older snapshot reaches as far back as both together.
    let newest = *snapshots_of(log.path()).last().unwrap();
    let path = log.path().join("snap").join(format!("{newest:020}.snap"));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    check(&totals(log.path(), &[]), all.last().unwrap().end, &model);
}

#[test]
fn a_target_before_the_damage_is_given_with_a_note_and_one_behind_it_is_refused() {
    let log = histories::random_log(9, 60);
    let all = records(log.path());
    std::fs::remove_dir_all(log.path().join("snap")).unwrap();
    std::fs::create_dir(log.path().join("snap")).unwrap();
    let hit = &all[all.len() / 2];
    // The record's bytes stand somewhere in the newest segment that begins at or below it.
    let begin = |path: &Path| -> u64 { path.file_stem().unwrap().to_str().unwrap().parse().unwrap() };
    let path = log
        .segments()
        .into_iter()
        .rfind(|path| begin(path) <= hit.lsn.get())
        .unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes
        .windows(hit.bytes.len())
        .position(|window| window == hit.bytes)
        .unwrap();
    bytes[at + 20] ^= 0x40;
    std::fs::write(&path, bytes).unwrap();

    let before = image(log.path());
    let (mut model, mut given) = (Model::default(), 0);
    for record in &all {
        model.apply(&record.raw());
        let output = replay(log.path(), &["--json", "--to-lsn", &record.end.to_string()]);
        if record.end > hit.lsn {
            assert_eq!(code(&output), 4, "{}", stderr(&output));
            assert!(stderr(&output).contains("F ROT"), "{}", stderr(&output));
            assert_eq!(objects(&output)[0]["letter"], "F");
        } else if code(&output) == 0 {
            assert!(stderr(&output).contains("note:"), "{}", stderr(&output));
            check(&objects(&output)[0], record.end, &model);
            given += 1;
        } else {
            // In the frame of the damaged one.
            assert_eq!(code(&output), 4);
        }
    }
    assert!(given > 0);
    check_refused(log.path(), &[], 4, &["F ROT", "walctl verify"]);
    let time = hit.time.to_string();
    check_refused(log.path(), &["--to-time", &time], 4, &["F ROT"]);
    assert_eq!(image(log.path()), before, "looking changes nothing");
}

#[test]
fn a_live_directory_is_replayed_as_far_as_a_sync_has_covered() {
    let mut log = TestLog::new(0);
    log.group(&[(10, 0, string(b"a", b"1"))]);
    log.group(&[(20, 0, string(b"b", b"2"))]);
    let synced = records(log.path()).last().unwrap().lsn;
    let _server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    let found = totals(log.path(), &[]);
    // The second group's own sync has no witness yet.
    assert_eq!(
        (&found["lsn"], &found["keys"]),
        (&Json::from(synced.get()), &Json::from(1))
    );
    log.seal();
    log.group(&[(30, 0, string(b"c", b"3"))]);
    assert_eq!(totals(log.path(), &[])["keys"], 2);
}

#[test]
fn a_time_that_a_client_was_shown_counts_once_the_log_rests_behind_it() {
    let mut log = TestLog::new(0);
    log.group(&[(10, 0, pending(b"k", 50, b"f", b"o"))]);
    let seal = log.end();
    log.seal();
    // The key was asked for and had ended: its end is in the log, and no seal follows such a group.
    log.group(&[(300, 0, Record::Clock)]);
    let end = log.end().to_string();
    let time = (START_MS + 5_000).to_string();
    let _server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    for target in [&[][..], &["--to-lsn", &end], &["--to-time", &time]] {
        let output = replay(log.path(), &[&["--json"], target].concat());
        let words = stderr(&output);
        assert_eq!(code(&output), 0, "{target:?}: {words}");
        let found = &objects(&output)[0];
        assert_eq!(found["lsn"].to_string(), end, "{target:?}");
        assert_eq!(
            (&found["keys"], &found["time_ms"]),
            (&Json::from(0), &Json::from(START_MS + 300))
        );
        let note = format!("lsn {seal} to {end} tells only that time went on");
        assert!(words.contains(&note), "{target:?}: {words}");
    }
    // Of anything else nothing is told before a sync is known to have covered it.
    log.write(&[(400, 0, string(b"a", b"1"))]);
    let written = log.end().to_string();
    check_refused(
        log.path(),
        &["--to-lsn", &written],
        1,
        &[
            &format!("does not say yet that lsn {written} is on disk"),
            &format!("--to-lsn {end} is"),
        ],
    );
}

#[test]
fn a_key_is_shown_with_the_record_behind_it() {
    let log = sample();
    let all = records(log.path());
    let show = |more: &[&str]| replay(log.path(), &[&["--json", "--key"], more].concat());
    // Up to the second group: pay:1 is completed, pay:2 pending.
    let lsn = all[3].end.to_string();
    let line = &objects(&show(&["pay:1", "--to-lsn", &lsn, "--values"]))[0];
    for (field, expected) in [
        ("lsn", Json::from(all[2].lsn.get())),
        ("time_ms", Json::from(START_MS + 20)),
        ("opcode", Json::from(53)),
        ("name", Json::from("IdempotencyPut")),
        ("db", Json::from(0)),
        ("key", Json::from("pay:1")),
        ("deadline_ms", Json::from(START_MS + 60_010)),
        ("state", Json::from("completed")),
        ("fingerprint", Json::from("fp-1")),
        ("owner", Json::from("worker-1")),
        ("result_bytes", Json::from(12)),
        ("result", Json::from("{\"ok\":true}\\x0a")),
    ] {
        assert_eq!(line[field], expected, "{field} of {line}");
    }
    let output = replay(log.path(), &["--key", "pay:1", "--to-lsn", &lsn]);
    assert!(stdout(&output).starts_with("db 0  pay:1  completed  until 2026-01-01T00:01:00.010Z"));
    // One line for each database, or only one of them.
    assert_eq!(objects(&show(&[BINARY_KEY_TEXT])).len(), 1);
    assert_eq!(
        objects(&show(&[BINARY_KEY_TEXT, "--db", "2"]))[0]["value_bytes"],
        1
    );
    // Absent is no failure, and says what was the last of it.
    let output = show(&["pay:1"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, ""));
    assert!(stderr(&output).contains("FlushAll"), "{}", stderr(&output));
    let output = show(&["never"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, ""));
    assert!(
        stderr(&output).contains("no key never at lsn"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn an_export_has_every_live_key_and_replaces_nothing_unasked() {
    let log = histories::random_log(5, 60);
    let mut model = Model::default();
    records(log.path())
        .iter()
        .for_each(|record| model.apply(&record.raw()));
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("state.jsonl");
    let file = path.to_str().unwrap();
    totals(log.path(), &["--export", file]);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), model.live().count());
    for ((db, key), (deadline, value)) in model.live() {
        let key = idem_protocol::escape::escape(key);
        let line = lines.iter().find(|line| line["db"] == *db && line["key"] == *key);
        let line = line.unwrap_or_else(|| panic!("{db} {key} is missing"));
        let expected = deadline.is_some().then(|| deadline.get());
        assert_eq!(line["deadline_ms"], Json::from(expected));
        match value {
            histories::Value::Hash(hash) => assert_eq!(line["fields"], hash.len(), "{line}"),
            histories::Value::String(bytes) if line["type"] == "string" => {
                assert_eq!(line["value"], *idem_protocol::escape::escape(bytes), "{line}");
            }
            histories::Value::String(_) => assert_eq!(line["owner"], "worker", "{line}"),
        }
    }
    check_refused(log.path(), &["--export", file], 1, &["exists", "--yes"]);
    std::fs::write(&path, "old").unwrap();
    totals(log.path(), &["--export", file, "--yes"]);
    assert_eq!(
        std::fs::read_to_string(&path).unwrap().lines().count(),
        lines.len()
    );
    let names = std::fs::read_dir(out.path()).unwrap().count();
    assert_eq!(names, 1, "no temporary file is left");
    let inside = log.path().join("control");
    check_refused(
        log.path(),
        &["--export", inside.to_str().unwrap(), "--yes"],
        1,
        &["in the data directory"],
    );
    let nowhere = out.path().join("missing/state.jsonl");
    check_refused(
        log.path(),
        &["--export", nowhere.to_str().unwrap()],
        1,
        &["missing/state.jsonl"],
    );
}

#[test]
fn a_state_that_is_built_from_the_lines_of_a_dump_is_the_one_of_a_replay() {
    for seed in 20..26 {
        let log = histories::random_log(seed, 60);
        let output = walctl(&["dump", log.path().to_str().unwrap(), "--json", "--values"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let lines = objects(&output);
        let mut keyspace = Keyspace::new(256, [1; 4]);
        lines
            .iter()
            .for_each(|line| rebuild::apply_line(&mut keyspace, line));
        let time = UnixMs::new(lines.last().unwrap()["time_ms"].as_u64().unwrap());
        let expected = digest(&keyspace, time).to_string();
        assert_eq!(totals(log.path(), &[])["digest"], expected, "seed {seed}");
    }
}

#[test]
fn an_end_that_a_start_cuts_off_is_no_part_of_the_state_and_a_note() {
    let mut log = TestLog::new(0);
    let end = log.group(&[(10, 0, string(b"a", b"1"))]);
    let at = log.find(b"a") + 64;
    log.damage(|bytes| bytes[at] = 1);
    let output = replay(log.path(), &["--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("E UNPROVEN_TAIL"), "{}", stderr(&output));
    assert_eq!(objects(&output)[0]["lsn"], end.get());
    let output = replay(log.path(), &["--json", "--to-time", &now_ms().to_string()]);
    assert_eq!(objects(&output)[0]["lsn"], end.get());
    let said = stderr(&output);
    assert!(said.contains("the log has no record after lsn"), "{said}");
}

#[test]
fn each_verdict_that_refuses_has_its_exit_code() {
    let refused = |expected: i32, damage: &dyn Fn(&mut TestLog)| {
        let mut log = sample();
        damage(&mut log);
        check_refused(log.path(), &[], expected, &["walctl verify"]);
        let verdict = walctl(&["verify", log.path().to_str().unwrap()]);
        assert_eq!(code(&verdict), expected, "the same as the verdict's");
    };
    let control = |log: &TestLog| log.path().join("control");
    refused(4, &|log| {
        let at = log.find(b"greeting");
        log.damage(|bytes| bytes[at] ^= 1);
    });
    refused(5, &|log| std::fs::remove_file(control(log)).unwrap());
    refused(6, &|log| {
        let other = TestLog::new(100);
        std::fs::copy(control(&other), control(log)).unwrap();
    });
    refused(9, &|log| {
        std::fs::remove_file(control(log)).unwrap();
        std::fs::create_dir(control(log)).unwrap();
    });
}

#[test]
fn totals_and_a_key_look_like_this() {
    let log = sample();
    let dir = log.path().to_str().unwrap();
    let target = ["--to-time", "2100-01-01T00:00:00Z"];
    check_refused(log.path(), &target, 1, &["2026-01-01T00:00:02.001Z"]);
    let show = |more: &[&str]| stdout(&walctl(&[&["replay", dir], more].concat()));
    let at = ["--to-time", "2026-01-01T00:00:01.003Z"];
    check_golden("replay.txt", &show(&[]));
    check_golden("replay.jsonl", &show(&["--json"]));
    let shown: String = ["pay:1", "greeting", "user:1", "pay:2"]
        .iter()
        .map(|key| show(&[&at[..], &["--values", "--key", key]].concat()))
        .collect();
    check_golden("replay-keys.txt", &shown);
    let shown: String = ["pay:1", "greeting", "user:1", "pay:2"]
        .iter()
        .map(|key| show(&[&at[..], &["--json", "--values", "--key", key]].concat()))
        .collect();
    check_golden("replay-keys.jsonl", &shown);
}
