//! Goal: what the program says of a damaged directory, and that it only looks, hold for directories that are kept in the
//! repository, byte for byte.
//!
//! Method: one table of directories and verdicts; each is made again and compared, judged as the server judges it, looked
//! at with everything that looks, and its answers are compared with kept ones (`tests/golden/logs-expected`). With
//! `IDEM_GOLDEN_WRITE=1` directories and answers are written instead.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Once;

use idem_engine::Keyspace;
use idem_engine::digest::digest;
use idem_protocol::UnixMs;
use idem_wal::recovery::{Ignore, JudgeOptions, OpenParams, judge, open};
use idem_wal::storage::DiskStorage;
use support::golden::{self, Files, MADE, WRITE};
use support::*;

/// Directory, letter, word, exit code.
const TABLE: [(&str, &str, &str, i32); 22] = [
    ("clean", "A", "CLEAN", 0),
    ("every-record", "A", "CLEAN", 0),
    ("two-snapshots", "A", "CLEAN", 0),
    ("rot-in-a-snapshot", "A", "CLEAN", 0),
    ("begins-above-zero", "A", "CLEAN", 0),
    ("killed", "B", "CLEAN", 0),
    ("unborn-segment", "B", "CLEAN", 0),
    ("shorter-copy", "B", "CLEAN", 0),
    ("new-empty", "N", "NEW", 0),
    ("new-half-made", "N", "NEW", 0),
    ("clean-then-junk", "C", "TORN_TAIL", 2),
    ("torn", "D", "TORN_TAIL", 2),
    ("unproven", "E", "UNPROVEN_TAIL", 3),
    ("rot-in-the-middle", "F", "ROT", 4),
    ("rot-at-the-end", "F", "ROT", 4),
    ("missing-segment", "G", "HOLE", 5),
    ("missing-control", "G", "HOLE", 5),
    ("damaged-control", "G", "HOLE", 5),
    ("foreign-node", "H", "FOREIGN", 6),
    ("newer-format", "H", "FOREIGN", 6),
    ("unreadable", "I", "IO_ERROR", 9),
    ("impossible", "J", "BUG", 8),
];

/// All directories together, so that a checkout stays small.
const KEPT_BYTES_MAX: usize = 1_500_000;
fn is_writing() -> bool {
    std::env::var_os(WRITE).is_some()
}

/// With the variable, and before the first of the tests of this process that look at directories.
fn write_directories() {
    static WRITTEN: Once = Once::new();
    if !is_writing() {
        return;
    }
    WRITTEN.call_once(|| {
        for (name, make) in MADE {
            let path = golden::kept().join(name);
            if path.exists() {
                std::fs::remove_dir_all(&path).unwrap();
            }
            golden::write(&make(), &path);
        }
    });
}

/// A copy of a kept directory.
struct Copy {
    directory: tempfile::TempDir,
}

impl Copy {
    fn of(name: &str) -> Copy {
        write_directories();
        let directory = tempfile::tempdir().unwrap();
        golden::copy(name, directory.path());
        Copy { directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The program on this directory.
    fn walctl(&self, command: &str, more: &[&str]) -> Output {
        let mut arguments = vec![command, self.path().to_str().unwrap()];
        arguments.extend(more);
        golden::output_in_time(support::command(&arguments))
    }
}

#[test]
fn the_kept_directories_are_what_the_code_makes() {
    let in_table: BTreeSet<&str> = TABLE.iter().map(|(name, ..)| *name).collect();
    let made: BTreeSet<&str> = MADE.iter().map(|(name, _)| *name).collect();
    assert_eq!(in_table, made, "each directory has a row, and each row one");
    write_directories();
    let mut bytes = 0;
    for (name, make) in MADE {
        let files = make();
        assert_same(name, &files, &golden::read(&golden::kept().join(name)));
        bytes += files.values().map(Vec::len).sum::<usize>();
    }
    assert!(bytes < KEPT_BYTES_MAX, "{bytes} bytes are kept");
    let kept: BTreeSet<String> = std::fs::read_dir(golden::kept())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    let made: BTreeSet<String> = made.into_iter().map(str::to_owned).collect();
    assert_eq!(kept, made, "a directory that nothing makes is kept");
}

/// Says where, not what: nobody reads 8 KiB of zeros.
fn assert_same(name: &str, made: &Files, kept: &Files) {
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(made), names(kept), "{name}: other files; see {WRITE}");
    for (file, bytes) in made {
        let differs = bytes.iter().zip(&kept[file]).position(|(a, b)| a != b);
        assert!(
            differs.is_none() && bytes.len() == kept[file].len(),
            "{name}/{file}: {} bytes are made and {} kept, the first that differs is at {differs:?}; see {WRITE}",
            bytes.len(),
            kept[file].len()
        );
    }
}

#[test]
fn each_verdict_is_the_kept_one_and_the_server_s() {
    for (name, letter, word, expected) in TABLE {
        let copy = Copy::of(name);
        let (human, json) = (copy.walctl("verify", &[]), copy.walctl("verify", &["--json"]));
        assert_eq!((code(&human), code(&json)), (expected, expected), "{name}");
        let verdict = objects(&json).pop().unwrap();
        assert_eq!(
            (&verdict["letter"], &verdict["verdict"]),
            (&letter.into(), &word.into()),
            "{name}"
        );
        let begins = format!("{word} (row {letter})");
        assert!(stdout(&human).starts_with(&begins), "{name}: {}", stdout(&human));
        check_answer(&copy, &format!("{name}.txt"), &human);
        check_answer(&copy, &format!("{name}.jsonl"), &json);
        check_server(name, &copy, letter);
    }
    let kept: BTreeSet<String> = std::fs::read_dir(answers())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let named = TABLE
        .iter()
        .flat_map(|(name, ..)| [format!("{name}.txt"), format!("{name}.jsonl")]);
    assert_eq!(kept, named.collect(), "each answer belongs to a directory");
}

fn answers() -> PathBuf {
    golden::kept().with_file_name("logs-expected")
}

fn check_answer(copy: &Copy, file: &str, output: &Output) {
    let path = answers().join(file);
    let found = stdout(output) + &stderr(output);
    let found = found.replace(copy.path().to_str().unwrap(), "DIR");
    if is_writing() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{} differs; see {WRITE}", path.display());
}

/// What a start makes of it: the letter, and a refusal or a log that can be written.
fn check_server(name: &str, copy: &Copy, letter: &str) {
    let storage = DiskStorage::open(copy.path()).unwrap();
    let options = JudgeOptions {
        retain_tail: true,
        ..JudgeOptions::default()
    };
    let judgement = judge(&storage, &options, &mut Ignore);
    assert_eq!(
        judgement.letter().to_string(),
        letter,
        "{name}: the server's verdict"
    );
    let (starts, end) = (judgement.verdict.starts(), judgement.end_lsn);
    let before = image(copy.path());
    let mut next = 100;
    let params = OpenParams {
        now: UnixMs::new(START_MS),
        segment_bytes: SEGMENT_BYTES,
        entropy: Box::new(move || {
            next += 1;
            [next; 16]
        }),
    };
    match open(&storage, judgement, params) {
        Ok(opened) => assert!(starts && opened.end_lsn > end, "{name}"),
        Err(error) => {
            assert!(!starts, "{name}: {error}");
            assert!(
                image(copy.path()) == before,
                "{name}: a refusal changed something"
            );
        }
    }
}

#[test]
fn everything_that_looks_ends_soon_and_changes_nothing() {
    let commands: [(&str, &[&str]); 14] = [
        ("verify", &[]),
        ("verify", &["--deep"]),
        ("verify", &["--deep", "--json"]),
        ("dump", &[]),
        ("dump", &["--json", "--values", "--frames"]),
        ("dump", &["--past-damage"]),
        ("dump", &["--past-damage", "--json", "--values", "--frames"]),
        ("history", &["order:4711"]),
        ("history", &["pay:1", "--json", "--values"]),
        ("stat", &[]),
        ("stat", &["--json"]),
        ("replay", &[]),
        ("replay", &["--json", "--key", "order:4711"]),
        ("repair", &[]),
    ];
    for (name, ..) in TABLE {
        let copy = Copy::of(name);
        let before = image(copy.path());
        for (command, more) in commands {
            let output = copy.walctl(command, more);
            // 101 is a panic, and 7 is for a comparison.
            let known = (0..=9).contains(&code(&output)) && code(&output) != 7;
            let said = stderr(&output);
            assert!(
                known && !said.contains("panicked"),
                "{name}: {command} {more:?}: {said}"
            );
            assert!(
                code(&output) == 0 || !(stdout(&output) + &said).is_empty(),
                "{name}: {command} {more:?} fails without a word"
            );
            assert!(
                image(copy.path()) == before,
                "{name}: {command} {more:?} changed the directory"
            );
        }
    }
}

#[test]
fn the_lines_of_a_dump_make_the_state_of_a_replay() {
    let mut compared = 0;
    for (name, ..) in TABLE {
        let copy = Copy::of(name);
        let replayed = copy.walctl("replay", &["--json"]);
        let lines = objects(&copy.walctl("dump", &["--json", "--values"]));
        let is_whole = lines.first().is_some_and(|line| line["lsn"] == 0);
        if code(&replayed) != 0 || !is_whole {
            continue;
        }
        let mut keyspace = Keyspace::new(256, [1; 4]);
        lines
            .iter()
            .for_each(|line| rebuild::apply_line(&mut keyspace, line));
        let time = UnixMs::new(lines.last().unwrap()["time_ms"].as_u64().unwrap());
        let totals = &objects(&replayed)[0];
        assert_eq!(totals["digest"], digest(&keyspace, time).to_string(), "{name}");
        assert_eq!(totals["time_ms"], time.get(), "{name}");
        compared += 1;
    }
    // All that starts with a log from lsn 0 on: three of row A, three of B, and C, D, E; and a damaged snapshot.
    assert_eq!(compared, 10);
}

#[test]
fn a_target_beyond_the_log_is_never_reached() {
    write_directories();
    for (name, ..) in TABLE {
        let kept = golden::kept().join(name);
        let dir = kept.to_str().unwrap();
        for target in [["--to-lsn", "99999999"], ["--to-time", "2040-01-01T00:00:00Z"]] {
            let output = walctl(&[&["replay", dir, "--json"][..], &target].concat());
            assert_ne!(code(&output), 0, "{name} {target:?}: {}", stderr(&output));
            let objects = objects(&output);
            assert!(objects.len() == 1 && objects[0]["error"].is_string(), "{name}");
        }
    }
}

#[test]
fn log_below_the_snapshots_may_be_damaged_and_what_is_above_is_judged() {
    let out = tempfile::tempdir().unwrap();
    golden::copy("two-snapshots", out.path());
    let names = std::fs::read_dir(out.path().join("wal")).unwrap();
    let mut segments: Vec<PathBuf> = names.map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let mut bytes = std::fs::read(&segments[0]).unwrap();
    bytes[4200] ^= 1;
    std::fs::write(&segments[0], bytes).unwrap();
    let output = walctl(&["verify", "--deep", out.path().to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("log before it is damaged"),
        "{}",
        stderr(&output)
    );
}
