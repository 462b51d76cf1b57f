//! What `walctl replay` and `walctl restore` say where there is no state to give: the same of the log as `walctl verify`, and
//! which states there are instead. Each of these is asked for, and so is what lies beside them.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value as Json;
use support::histories::{Model, records};
use support::*;
use tempfile::TempDir;

fn on(command: &str, dir: &Path, more: &[&str]) -> Output {
    walctl(&[&[command, dir.to_str().unwrap()], more].concat())
}

fn restore(source: &[&str], into: &Path, more: &[&str]) -> Output {
    let arguments = [&["restore"], source, &["--into", into.to_str().unwrap()], more].concat();
    command(&arguments).stdin(Stdio::null()).output().unwrap()
}

/// A copy that can be damaged.
fn copy(dir: &Path) -> TempDir {
    let copied = tempfile::tempdir().unwrap();
    for (path, (_, bytes)) in image(dir) {
        let to = copied.path().join(path.strip_prefix(dir).unwrap());
        match bytes {
            Some(bytes) => {
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                fs::write(to, bytes).unwrap();
            }
            None => fs::create_dir_all(to).unwrap(),
        }
    }
    copied
}

fn segments(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir.join("wal")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The one object of a command that was refused.
fn object(output: &Output) -> Json {
    let mut objects = objects(output);
    assert_eq!(objects.len(), 1, "{}", stderr(output));
    let object = objects.remove(0);
    assert!(object["error"].is_string(), "{object}");
    object
}

fn ranges(object: &Json) -> Vec<(u64, u64)> {
    let ranges = object["ranges"].as_array().unwrap().iter();
    let lsn = |range: &Json, name: &str| range[name].as_u64().unwrap();
    ranges
        .map(|range| (lsn(range, "from_lsn"), lsn(range, "to_lsn")))
        .collect()
}

type Damage = fn(&Path);

const DAMAGES: [(&str, Damage); 7] = [
    ("the newest segment is gone", |dir| {
        fs::remove_file(segments(dir).last().unwrap()).unwrap();
    }),
    ("a segment in the middle is gone", |dir| {
        let all = segments(dir);
        fs::remove_file(&all[all.len() / 2]).unwrap();
    }),
    ("all segments but the first are gone", |dir| {
        segments(dir)[1..]
            .iter()
            .for_each(|path| fs::remove_file(path).unwrap());
    }),
    ("wal is empty", |dir| {
        segments(dir)
            .iter()
            .for_each(|path| fs::remove_file(path).unwrap());
    }),
    ("wal is gone", |dir| fs::remove_dir_all(dir.join("wal")).unwrap()),
    ("a byte in the middle of the newest segment has changed", |dir| {
        flip(segments(dir).last().unwrap());
    }),
    ("a byte in the middle segment has changed", |dir| {
        let all = segments(dir);
        flip(&all[all.len() / 2]);
    }),
];

/// Changes a byte of a record, in the middle of what is written of the segment.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[4096 + (used - 4096) / 2] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_a_damaged_directory_can_give_is_named_and_nothing_else_is_given() {
    let (mut refused, mut given, mut two) = (0, 0, 0);
    for seed in [3, 5, 9] {
        let mut log = histories::random_log(seed, 60);
        log.shut_down();
        let mut states: BTreeMap<u64, String> = BTreeMap::new();
        let mut model = Model::default();
        for record in records(log.path()) {
            model.apply(&record.raw());
            states.insert(record.end.get(), model.digest());
        }
        for (name, damage) in DAMAGES {
            let copied = copy(log.path());
            damage(copied.path());
            let before = image(copied.path());
            let output = on("replay", copied.path(), &["--json"]);
            let starts = code(&output) == 0;
            // Below a snapshot that a start begins with, damage is in the way of earlier states only.
            let output = if starts {
                let mut outputs = states
                    .keys()
                    .map(|lsn| on("replay", copied.path(), &["--json", "--to-lsn", &lsn.to_string()]));
                match outputs.find(|output| code(output) > 1) {
                    Some(output) => output,
                    None => continue,
                }
            } else {
                output
            };
            refused += 1;
            let found = object(&output);
            if starts {
                assert!(stderr(&output).contains("what an earlier state needs"));
            } else {
                let verdict = on("verify", copied.path(), &["--json"]);
                assert_eq!(code(&verdict), code(&output), "{name}");
                let verdict = objects(&verdict).pop().unwrap();
                for field in ["verdict", "letter", "end_lsn"] {
                    assert_eq!(found[field], verdict[field], "seed {seed}, {name}: {field}");
                }
            }
            let said = format!("reads up to lsn {}", found["end_lsn"]);
            assert!(stderr(&output).contains(&said), "{name}: {}", stderr(&output));
            let ranges = ranges(&found);
            two += usize::from(ranges.len() > 1);
            match ranges.last() {
                Some((_, to)) => {
                    let command = format!("--into NEW --to-lsn {to}");
                    assert!(stderr(&output).contains(&command), "{name}: {}", stderr(&output));
                }
                None => assert!(stderr(&output).contains("no state"), "{}", stderr(&output)),
            }
            assert!(stderr(&output).contains("--from STORE"), "{}", stderr(&output));
            let edges: Vec<u64> = ranges.iter().flat_map(|(from, to)| [*from, *to]).collect();
            for (index, (lsn, digest)) in states.iter().enumerate() {
                if index % 6 != 0 && !edges.contains(lsn) {
                    continue;
                }
                let is_there = ranges.iter().any(|(from, to)| from <= lsn && lsn <= to);
                let output = on("replay", copied.path(), &["--json", "--to-lsn", &lsn.to_string()]);
                let what = format!(
                    "seed {seed}, {name}: lsn {lsn} of {ranges:?}: {}",
                    stderr(&output)
                );
                if is_there {
                    assert_eq!(code(&output), 0, "{what}");
                    assert_eq!(objects(&output)[0]["digest"], digest.as_str(), "{what}");
                    given += 1;
                } else {
                    assert_ne!(code(&output), 0, "{what}");
                    object(&output);
                }
            }
            let known = |lsn: &u64| *lsn == 0 || states.contains_key(lsn);
            assert!(edges.iter().all(known), "{name}: {edges:?} are positions");
            assert!(image(copied.path()) == before, "looking changes nothing");
        }
    }
    assert!(refused > 10 && given > 20, "{refused} refused, {given} given");
    assert!(two > 0, "damage between two snapshots leaves two stretches");
}

/// Everything of a log is gone but its snapshots.
#[test]
fn a_snapshot_without_its_log_is_a_state_only_when_nothing_was_written_meanwhile() {
    let out = tempfile::tempdir().unwrap();
    let log = sample();
    let end = records(log.path()).last().unwrap().end.to_string();
    let whole = objects(&on("replay", log.path(), &["--json"])).pop().unwrap();
    // What a restore writes begins with a snapshot that nothing was written beside.
    let quiet = out.path().join("quiet");
    let source = log.path().to_str().unwrap();
    assert_eq!(code(&restore(&[source], &quiet, &["--yes", "--to-lsn", &end])), 0);
    fs::remove_dir_all(quiet.join("wal")).unwrap();
    let output = on("replay", &quiet, &["--json"]);
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    let lsn: u64 = end.parse().unwrap();
    assert_eq!(ranges(&object(&output)), [(lsn, lsn)]);
    let again = out.path().join("again");
    let output = restore(
        &[quiet.to_str().unwrap()],
        &again,
        &["--yes", "--json", "--to-lsn", &end],
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(objects(&output)[0]["digest"], whole["digest"]);
    assert_eq!(code(&on("verify", &again, &[])), 0);

    // Any other one is put together from several moments.
    let copied = tempfile::tempdir().unwrap();
    golden::copy("two-snapshots", copied.path());
    fs::remove_dir_all(copied.path().join("wal")).unwrap();
    let output = on("replay", copied.path(), &["--json"]);
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("was written while the log went on from lsn"),
        "{said}"
    );
    assert!(said.contains("no state can be made"), "{said}");
    assert!(said.contains("walctl restore --from STORE"), "{said}");
    assert_eq!(ranges(&object(&output)), []);
}

#[test]
fn a_target_outside_is_refused_with_the_range_in_json_too() {
    let log = sample();
    let all = records(log.path());
    let out = tempfile::tempdir().unwrap();
    let (first, last) = (&all[0], all.last().unwrap());
    let (early, beyond) = (
        (first.time.get() - 1).to_string(),
        (last.end.get() + 1).to_string(),
    );
    for target in [
        ["--to-time", &early],
        ["--to-time", "2100-01-01T00:00:00Z"],
        ["--to-lsn", &beyond],
    ] {
        let new = out.path().join("new");
        let more = [&target[..], &["--yes", "--json"]].concat();
        let output = restore(&[log.path().to_str().unwrap()], &new, &more);
        assert_eq!(code(&output), 1, "{target:?}: {}", stderr(&output));
        let found = object(&output);
        let range = serde_json::json!([{
            "from_lsn": 0, "from_time_ms": first.time.get(),
            "to_lsn": last.end.get(), "to_time_ms": last.time.get(),
        }]);
        assert_eq!(found["ranges"], range);
        assert_eq!(found["letter"], Json::Null, "the log is good");
        assert!(stderr(&output).contains(found["error"].as_str().unwrap()));
        assert!(!new.exists());
    }
    // What is no question of the log is an object, too.
    let output = on("replay", log.path(), &["--json", "--to-lsn", "3"]);
    assert_eq!(code(&output), 1);
    assert!(object(&output)["error"].as_str().unwrap().contains("within"));
    let output = restore(
        &[log.path().to_str().unwrap()],
        out.path(),
        &["--json", "--to-lsn", "0"],
    );
    assert_eq!(code(&output), 1);
    assert!(object(&output)["error"].as_str().unwrap().contains("--yes"));
    // People are told on stderr alone.
    assert_eq!(stdout(&on("replay", log.path(), &["--to-lsn", &beyond])), "");
}

/// The log begins above lsn 0: where an earlier state could be, is said.
#[test]
fn how_far_back_states_reach_is_said_with_the_way_further() {
    let copied = tempfile::tempdir().unwrap();
    golden::copy("begins-above-zero", copied.path());
    let output = on("replay", copied.path(), &["--to-lsn", "100"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let said = stderr(&output);
    for words in [
        "outside of the log",
        "reach back to the end of the oldest snapshot",
        "walctl restore --from STORE",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_finished_work_whose_report_is_lost_is_said_to_be_finished() {
    let log = sample();
    let out = tempfile::tempdir().unwrap();
    let end = records(log.path()).last().unwrap().end.to_string();
    let (new, export) = (out.path().join("new"), out.path().join("export.jsonl"));
    let dir = log.path().to_str().unwrap();
    let into = new.to_str().unwrap();
    let to = export.to_str().unwrap();
    let cases: [(&[&str], &Path); 3] = [
        (&["restore", dir, "--into", into, "--to-lsn", &end, "--yes"], &new),
        (
            &[
                "restore", dir, "--into", into, "--to-lsn", &end, "--yes", "--json",
            ],
            &new,
        ),
        (&["replay", dir, "--export", to], &export),
    ];
    for (arguments, made) in cases {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(arguments).stdout(full).output().unwrap();
        assert_eq!(code(&output), 1, "{arguments:?}: {}", stderr(&output));
        let words = format!("is complete at {}", made.display());
        assert!(
            stderr(&output).contains(&words),
            "{arguments:?}: {}",
            stderr(&output)
        );
        if made.is_dir() {
            assert_eq!(code(&on("verify", made, &[])), 0);
            fs::remove_dir_all(made).unwrap();
        }
    }
    assert!(export.exists());
}
