//! `walctl archive`: what is sealed of a log, and what can be done with it.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use idem_wal::lock::DirLock;
use idem_wal::recovery::{Ignore, JudgeOptions, Verdict, judge};
use idem_wal::storage::DiskStorage;
use serde_json::Value;
use support::histories::random_log;
use support::*;
use tempfile::TempDir;

fn archive(dir: &Path, store: &Path, options: &[&str]) -> Output {
    let arguments = [
        "archive",
        dir.to_str().unwrap(),
        "--into",
        store.to_str().unwrap(),
    ];
    walctl(&[&arguments, options].concat())
}

/// Archives, and answers the totals.
fn totals(dir: &Path, store: &Path) -> Value {
    let before = image(dir);
    let output = archive(dir, store, &["--yes", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(image(dir) == before, "archiving changed its source");
    objects(&output).pop().unwrap()
}

fn on(command: &str, dir: &Path, options: &[&str]) -> Output {
    walctl(&[&[command, dir.to_str().unwrap()], options].concat())
}

fn last(output: &Output) -> Value {
    assert_eq!(code(output), 0, "{}", stderr(output));
    objects(output).pop().unwrap()
}

fn fill(log: &mut TestLog, from: u64, to: u64) {
    for number in from..to {
        let key = format!("key-{number}");
        log.group(&[(number, 0, string(key.as_bytes(), &[b'v'; 20_000]))]);
    }
}

/// A log with four sealed segments and one that is written.
fn long() -> TestLog {
    let mut log = TestLog::new(0);
    fill(&mut log, 0, 13);
    assert_eq!(log.segments().len(), 5);
    log
}

/// Names and bytes below a directory, without times.
fn bytes(path: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let found = image(path).into_iter();
    found
        .map(|(at, (_, bytes))| (at.strip_prefix(path).unwrap().to_owned(), bytes))
        .collect()
}

fn only_history(store: &Path) -> PathBuf {
    let mut entries: Vec<_> = std::fs::read_dir(store)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.remove(0)
}

fn store() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    (directory, path)
}

#[test]
fn what_is_archived_reads_like_the_log_and_no_server_takes_it() {
    let mut log = long();
    let (_kept, store) = store();
    let first = totals(log.path(), &store);
    assert_eq!(
        (&first["segments_copied"], &first["restorable"]),
        (&4.into(), &true.into())
    );
    let history = only_history(&store);
    assert_eq!(first["into"], history.to_str().unwrap());
    for path in &log.segments()[..4] {
        let copy = history.join("wal").join(path.file_name().unwrap());
        assert!(std::fs::read(path).unwrap() == std::fs::read(copy).unwrap());
    }

    let verdict = last(&on("verify", &history, &["--json", "--deep"]));
    assert_eq!(
        (&verdict["verdict"], &verdict["letter"]),
        (&"CLEAN".into(), &"B".into())
    );
    assert_eq!(verdict["end_lsn"], first["end_lsn"]);
    let end = first["end_lsn"].to_string();
    let whole = on("dump", log.path(), &["--json", "--values", "--to-lsn", &end]);
    assert!(stdout(&whole) == stdout(&on("dump", &history, &["--json", "--values"])));
    let replayed = last(&on("replay", log.path(), &["--json", "--to-lsn", &end]));
    assert_eq!(
        last(&on("replay", &history, &["--json"]))["digest"],
        replayed["digest"]
    );
    assert_eq!(
        last(&on("diff", &history, &[log.path().to_str().unwrap(), "--json"]))["equal"],
        true
    );

    // The store itself is no log, and says where they are.
    let output = on("verify", &store, &[]);
    let words = stderr(&output);
    assert!(words.contains(history.to_str().unwrap()), "{words}");
    let judgement = judge(
        &DiskStorage::open(&history).unwrap(),
        &JudgeOptions::default(),
        &mut Ignore,
    );
    assert_eq!(
        judgement.verdict,
        Verdict::Hole,
        "a server would start on an archive"
    );

    // Again: nothing to do, and nothing asked.
    let before = bytes(&store);
    let again = archive(log.path(), &store, &["--json"]);
    assert_eq!(last(&again)["segments_copied"], 0);
    assert!(bytes(&store) == before);
    // The log goes on, and so does its history.
    fill(&mut log, 13, 20);
    let more = totals(log.path(), &store);
    assert_eq!(
        (&more["segments_copied"], &more["into"]),
        (&2.into(), &first["into"])
    );
    assert_eq!(
        last(&on("verify", &history, &["--json"]))["end_lsn"],
        more["end_lsn"]
    );
    // Retention went its way: what is archived stays.
    for path in &log.segments()[..3] {
        std::fs::remove_file(path).unwrap();
    }
    fill(&mut log, 20, 24);
    let kept = totals(log.path(), &store);
    assert_eq!((&kept["first_lsn"], &kept["into"]), (&0.into(), &first["into"]));
    assert_eq!(
        last(&on("verify", &history, &["--json"]))["end_lsn"],
        kept["end_lsn"]
    );
}

#[test]
fn a_store_gives_the_states_of_the_log_back() {
    let mut snapshots = 0;
    for seed in 0..8 {
        let log = random_log(seed, 60);
        let (kept, store) = store();
        let found = totals(log.path(), &store);
        let history = only_history(&store);
        snapshots += found["snapshots_copied"].as_u64().unwrap();
        let end = found["end_lsn"].to_string();
        let here = last(&on("replay", log.path(), &["--json", "--to-lsn", &end]));
        let there = last(&on("replay", &history, &["--json"]));
        assert_eq!(here["digest"], there["digest"], "seed {seed}");
        let new = kept.path().join("new");
        let arguments = [
            "restore",
            "--from",
            store.to_str().unwrap(),
            "--into",
            new.to_str().unwrap(),
        ];
        let output = walctl(&[&arguments[..], &["--to-lsn", &end, "--yes", "--json"]].concat());
        let restored = last(&output);
        assert_eq!(restored["lsn"], found["end_lsn"], "seed {seed}");
        assert_eq!(
            last(&on("replay", &new, &["--json"]))["digest"],
            here["digest"],
            "seed {seed}"
        );
    }
    assert!(snapshots > 4, "{snapshots}");
}

#[test]
fn whatever_a_killed_run_left_the_next_one_finishes() {
    let log = random_log(3, 60);
    let (_kept, store_path) = store();
    totals(log.path(), &store_path);
    let history = only_history(&store_path);
    let whole = bytes(&store_path);
    let name = history.file_name().unwrap();
    // The files in the order in which they come to be: the manifest may be older than any of them.
    let files: Vec<PathBuf> = ["wal", "snap"]
        .iter()
        .flat_map(|dir| {
            let mut names: Vec<_> = std::fs::read_dir(history.join(dir))
                .unwrap()
                .map(|entry| PathBuf::from(dir).join(entry.unwrap().file_name()))
                .collect();
            names.sort();
            names
        })
        .collect();
    assert!(files.len() > 3);
    for done in 0..=files.len() {
        let (_kept, store) = store();
        let half = store.join(name);
        for dir in ["wal", "snap"] {
            std::fs::create_dir_all(half.join(dir)).unwrap();
        }
        for file in &files[..done] {
            std::fs::copy(history.join(file), half.join(file)).unwrap();
        }
        if let Some(next) = files.get(done) {
            let temporary = format!("{}.tmp", next.display());
            std::fs::write(half.join(temporary), vec![0x5a; 100_000]).unwrap();
        }
        std::fs::write(half.join("manifest.json.tmp"), b"{").unwrap();
        std::fs::write(half.join("control.archived.tmp"), b"half").unwrap();
        // No server and no tool takes the half for a log.
        let verdict = stdout(&on("verify", &half, &[]));
        let expected = if done == 0 { "NEW" } else { "HOLE" };
        assert!(verdict.starts_with(expected), "{done} files: {verdict}");
        let output = archive(log.path(), &store, &["--yes"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert!(bytes(&store) == whole, "{done} files");
    }
}

#[test]
fn damage_is_never_archived_and_what_comes_before_it_is() {
    let log = long();
    let third = &log.segments()[2];
    let mut rotten = std::fs::read(third).unwrap();
    let at = rotten.windows(5).position(|window| window == b"key-7").unwrap();
    rotten[at] ^= 1;
    std::fs::write(third, &rotten).unwrap();
    let (_kept, store) = store();
    let output = archive(log.path(), &store, &["--yes", "--json"]);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    assert!(stderr(&output).contains("walctl verify"), "{}", stderr(&output));
    assert_eq!(objects(&output).pop().unwrap()["segments_copied"], 2);
    let history = only_history(&store);
    assert_eq!(last(&on("verify", &history, &["--json"]))["letter"], "B");
    let names: Vec<_> = std::fs::read_dir(history.join("wal")).unwrap().collect();
    assert_eq!(names.len(), 2);
    // Mended, it goes on.
    rotten[at] ^= 1;
    std::fs::write(third, rotten).unwrap();
    assert_eq!(totals(log.path(), &store)["segments_copied"], 2);
}

#[test]
fn another_content_at_the_same_position_has_a_name_of_its_own() {
    let mut log = TestLog::new(0);
    fill(&mut log, 0, 8);
    let early = bytes(log.path());
    fill(&mut log, 8, 20);
    let (kept, store) = store();
    let first = totals(log.path(), &store);
    // Back to an earlier copy, and on from there with other records: what a repair or a copy of a machine does.
    for path in log.segments() {
        std::fs::remove_file(path).unwrap();
    }
    for (name, bytes) in &early {
        if let Some(bytes) = bytes {
            std::fs::write(log.path().join(name), bytes).unwrap();
        }
    }
    log.reopen();
    fill(&mut log, 50, 60);
    let second = totals(log.path(), &store);
    assert_ne!(first["into"], second["into"]);
    for found in [&first, &second] {
        let history = Path::new(found["into"].as_str().unwrap());
        assert_eq!(
            last(&on("verify", history, &["--json"]))["end_lsn"],
            found["end_lsn"]
        );
    }
    // Which of the two is meant has to be said.
    let new = kept.path().join("new");
    let restore = |from: &Path| {
        let arguments = ["restore", "--from", from.to_str().unwrap(), "--into"];
        walctl(&[&arguments[..], &[new.to_str().unwrap(), "--to-lsn", "0", "--yes"]].concat())
    };
    let refused = restore(&store);
    assert_eq!(code(&refused), 1);
    for found in [&first, &second] {
        assert!(
            stderr(&refused).contains(found["into"].as_str().unwrap()),
            "{}",
            stderr(&refused)
        );
    }
    let second = Path::new(second["into"].as_str().unwrap()).to_owned();
    assert!(!stderr(&restore(&second)).contains("several histories"));
    // Both go on being recognised.
    fill(&mut log, 60, 66);
    assert_eq!(totals(log.path(), &store)["into"], second.to_str().unwrap());
}

#[test]
fn after_a_gap_another_history_begins_and_needs_a_snapshot() {
    let mut log = long();
    let (_kept, store) = store();
    let first = totals(log.path(), &store);
    fill(&mut log, 13, 24);
    for path in &log.segments()[..6] {
        std::fs::remove_file(path).unwrap();
    }
    let second = totals(log.path(), &store);
    assert_ne!(first["into"], second["into"]);
    assert_eq!(second["restorable"], false);
}

#[test]
fn nothing_is_written_without_consent() {
    let log = long();
    let (_kept, store) = store();
    let output = archive(log.path(), &store, &[]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("--yes"), "{}", stderr(&output));
    let plan = archive(log.path(), &store, &["--dry-run", "--json"]);
    assert_eq!((code(&plan), objects(&plan).len()), (0, 5));
    let planned = objects(&plan).pop().unwrap();
    assert_eq!(planned["dry_run"], true);
    assert!(!store.exists());
    // The plan is what is done.
    let mut done = totals(log.path(), &store);
    done["dry_run"] = true.into();
    assert_eq!(planned, done);

    let empty = TestLog::new(0);
    let output = archive(empty.path(), &store, &["--yes"]);
    assert_eq!((code(&output), stdout(&output)), (0, String::new()));
    assert!(stderr(&output).contains("no segment is sealed"));
    for wrong in [log.path(), &only_history(&store)] {
        let output = archive(log.path(), wrong, &["--yes"]);
        assert_eq!(code(&output), 1);
        assert!(stderr(&output).contains("not a store"), "{}", stderr(&output));
    }
}

#[test]
fn what_became_of_the_archive_is_found_out() {
    let log = random_log(5, 60);
    let (_kept, store) = store();
    totals(log.path(), &store);
    let history = only_history(&store);
    let check = || archive(log.path(), &store, &["--yes", "--check"]);
    assert_eq!(code(&check()), 0);
    let files = bytes(&history);
    for (name, content) in files
        .iter()
        .filter(|(name, _)| name.starts_with("wal") || name.starts_with("snap"))
    {
        let Some(content) = content else { continue };
        let mut rotten = content.clone();
        let middle = rotten.len() / 2;
        rotten[middle] ^= 1;
        std::fs::write(history.join(name), rotten).unwrap();
        let output = check();
        assert_eq!(code(&output), 4, "{}", name.display());
        assert!(stderr(&output).contains(name.to_str().unwrap()));
        // The directory has it still, and the command that is named brings it back.
        let (from, to) = (log.path().join(name), history.join(name));
        let remedy = format!("cp {} {}", from.display(), to.display());
        assert!(stderr(&output).contains(&remedy), "{}", stderr(&output));
        let output = archive(log.path(), &store, &["--yes", "--check", "--json"]);
        let found = objects(&output);
        assert_eq!(found.len(), 2, "one finding, and the totals");
        assert!(
            found[0]["remedy"].as_str().unwrap().ends_with(&remedy),
            "{}",
            found[0]
        );
        assert_eq!(found[0]["file"], to.to_str().unwrap());
        std::fs::copy(from, to).unwrap();
        assert_eq!(code(&check()), 0);
    }
    // What the directory has no more, or has damaged as well, is to be had from elsewhere.
    let first = log.segments().remove(0);
    let archived = history.join("wal").join(first.file_name().unwrap());
    let good = std::fs::read(&archived).unwrap();
    let mut rotten = good.clone();
    rotten[5000] ^= 1;
    std::fs::write(&archived, &rotten).unwrap();
    std::fs::write(&first, &rotten).unwrap();
    let output = check();
    assert_eq!(code(&output), 4);
    assert!(!stderr(&output).contains(": cp "), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("--into ANOTHER-STORE"),
        "{}",
        stderr(&output)
    );
    std::fs::write(&archived, &good).unwrap();
    std::fs::write(&first, &good).unwrap();
    assert_eq!(code(&check()), 0);
    let manifest = history.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(
        &manifest,
        text.replacen("\"end_lsn\": 1", "\"end_lsn\": 2", 1).replacen(
            "\"first_lsn\": 0",
            "\"first_lsn\": 1",
            1,
        ),
    )
    .unwrap();
    let output = check();
    assert_eq!(code(&output), 1);
    for words in ["damaged", "walctl verify ", "--into ANOTHER-STORE"] {
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn a_store_that_is_taken_for_a_directory_is_told_from_an_empty_one() {
    let log = long();
    let (kept, store) = store();
    totals(log.path(), &store);
    let history = only_history(&store);
    let new = kept.path().join("new");
    let into = ["--into", new.to_str().unwrap(), "--to-lsn", "0", "--yes"];
    for output in [on("restore", &store, &into), on("replay", &store, &[])] {
        assert_eq!(code(&output), 1);
        let from = format!("walctl restore --from {} --into NEW", store.display());
        for words in ["no log here", &from, history.to_str().unwrap()] {
            assert!(stderr(&output).contains(words), "{}", stderr(&output));
        }
    }
    let empty = tempfile::tempdir().unwrap();
    let output = on("replay", empty.path(), &[]);
    assert!(!stderr(&output).contains("--from"), "{}", stderr(&output));
    // Of a damaged history, the command that takes what is good of it.
    let first = only_history(&store)
        .join("wal")
        .join(log.segments()[2].file_name().unwrap());
    let mut bytes = std::fs::read(&first).unwrap();
    bytes[9000] ^= 1;
    std::fs::write(&first, bytes).unwrap();
    let output = on(
        "restore",
        &history,
        &["--into", new.to_str().unwrap(), "--to-lsn", "200000", "--yes"],
    );
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    let from = format!("walctl restore --from {} --into NEW --to-lsn ", history.display());
    assert!(stderr(&output).contains(&from), "{}", stderr(&output));
    assert!(!stderr(&output).contains("--from STORE"), "{}", stderr(&output));
}

#[test]
fn an_archive_whose_report_is_lost_is_said_to_be_there() {
    let log = long();
    let (_kept, store) = store();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (dir, into) = (log.path().to_str().unwrap(), store.to_str().unwrap());
    let output = command(&["archive", dir, "--into", into, "--yes"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("what is sealed is archived in"),
        "{}",
        stderr(&output)
    );
    assert_eq!(code(&on("verify", &only_history(&store), &[])), 0);
}

#[test]
fn a_log_in_use_is_archived() {
    let mut log = long();
    let _server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    log.write(&[(100, 0, string(b"unsynced", b"value"))]);
    let (_kept, store) = store();
    assert_eq!(totals(log.path(), &store)["segments_copied"], 4);
}

#[test]
fn a_full_disk_keeps_what_was_copied_and_no_half_of_a_file() {
    let log = long();
    let mount = tempfile::tempdir().unwrap();
    // Room for two segments, then for all. The mount is gone with the process.
    let script = "mount -t tmpfs -o size=180k tmpfs \"$1\" && echo mounted >&2 && \
                  { \"$2\" archive \"$3\" --into \"$1/store\" --yes; echo \"code $?\"; ls \"$1\"/store/*/wal; \
                  mount -o remount,size=8m \"$1\" && \"$2\" archive \"$3\" --into \"$1/store\" --yes; echo \"code $?\"; }";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(mount.path())
        .arg(env!("CARGO_BIN_EXE_walctl"))
        .arg(log.path())
        .output();
    let output = match output {
        Ok(output) if stderr(&output).starts_with("mounted\n") => output,
        Ok(output) => return skip(&format!("no tmpfs: {}", stderr(&output))),
        Err(error) => return skip(&format!("no unshare: {error}")),
    };
    let (text, words) = (stdout(&output), stderr(&output));
    assert!(words.contains("65536 bytes"), "{words}");
    assert!(text.starts_with("code 1\n"), "{text}");
    assert_eq!(text.matches(".wal\n").count(), 2, "{text}");
    assert!(!text.contains(".wal.tmp"), "{text}");
    assert!(
        text.contains("copied 2 segments") && text.ends_with("code 0\n"),
        "{text}"
    );
}

#[test]
fn an_archive_of_nothing_or_in_the_directory_itself_is_a_mistake() {
    let log = sample();
    let empty = tempfile::tempdir().unwrap();
    let store = tempfile::tempdir().unwrap();
    let inside = log.path().join("wal/store");
    let inside = inside.to_str().unwrap();
    let check = |dir: &std::path::Path, into: &str, words: &str| {
        let output = walctl(&["archive", dir.to_str().unwrap(), "--into", into, "--yes"]);
        assert_eq!(code(&output), 1, "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    };
    check(log.path(), inside, "in the data directory");
    check(
        empty.path(),
        store.path().to_str().unwrap(),
        "there is no log here",
    );
}
