//! `walctl dump FILE` of what a start has cut off: what is whole in it, and how much is not.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::fs;
use std::path::PathBuf;

use support::*;

/// A log whose end a loss of power left half done, and a start cut off: of three groups the first one is damaged, and no mark
/// vouches for any.
struct CutLog {
    log: TestLog,
    file: PathBuf,
    /// Where it was cut.
    lsn: u64,
}

const ZEROS: [u8; 3000] = [0; 3000];

fn cut_log() -> CutLog {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, string(b"kept", b"1"))]);
    let lsn = log.end().get();
    log.write(&[(2, 0, string(b"lost-1", b"2")), (2, 0, string(b"lost-2", b"2"))]);
    log.write(&[(3, 1, pending(b"lost-3", 60_000, b"fp", b"owner"))]);
    // The copy ends at the last byte that is not zero.
    log.write(&[(4, 0, string(b"lost-4", &ZEROS))]);
    let at = log.find(b"lost-1");
    log.damage(|bytes| bytes[at] ^= 1);
    log.reopen();
    let names = fs::read_dir(log.path().join("wal")).unwrap();
    let mut cuts: Vec<PathBuf> = names.map(|entry| entry.unwrap().path()).collect();
    cuts.retain(|path| path.extension().is_some_and(|end| end == "bin"));
    assert_eq!(cuts.len(), 1);
    let file = cuts.pop().unwrap();
    CutLog { log, file, lsn }
}

#[test]
fn what_a_start_threw_away_is_shown() {
    let CutLog { log, file, lsn } = cut_log();
    let before = image(log.path());
    let dir = log.path().join("wal");
    let name = file.file_name().unwrap().to_str().unwrap();
    let output = command(&["dump", name, "--json", "--frames"])
        .current_dir(&dir)
        .output()
        .unwrap();
    let words = stderr(&output);
    assert_eq!(code(&output), 0, "{words}");
    let lines = objects(&output);
    let records: Vec<_> = lines.iter().filter(|line| line["frame"].is_null()).collect();
    let keys: Vec<_> = records.iter().map(|line| line["key"].as_str().unwrap()).collect();
    // Of the group that is not whole, the record that is.
    assert_eq!(keys, ["lost-2", "lost-3", "lost-4"]);
    assert_eq!(
        (&records[1]["opcode"], &records[1]["db"]),
        (&53.into(), &1.into())
    );
    let lost = records[0]["lsn"].as_u64().unwrap() - lsn;
    let bytes = fs::metadata(&file).unwrap().len();
    for part in [
        format!(
            "walctl: skipped: wal/{name} offset 32 to {}, lsn {lsn} to {}: a bad record: CRC ",
            32 + lost,
            lsn + lost
        ),
        format!(
            "{bytes} bytes that were cut off at lsn {lsn}; whole records in them: 3; bytes that no record or group header covers: "
        ),
    ] {
        assert!(words.contains(&part), "{part:?} in {words}");
    }
    let uncovered: u64 = words.trim().rsplit_once(' ').unwrap().1.parse().unwrap();
    // And the padding behind that group.
    assert!((lost..lost + 8).contains(&uncovered), "{lost}: {words}");
    // Where it says that a record stands, it stands.
    let content = fs::read(&file).unwrap();
    for record in &records {
        let at = usize::try_from(record["offset"].as_u64().unwrap()).unwrap();
        let found = u64::from_le_bytes(content[at + 8..at + 16].try_into().unwrap());
        assert_eq!(found, record["lsn"].as_u64().unwrap());
    }
    assert!(image(log.path()) == before, "looking changed something");
}

#[test]
fn filters_apply_and_a_limit_that_nothing_meets_is_said() {
    let CutLog { log: _log, file, .. } = cut_log();
    let file = file.to_str().unwrap();
    let check = |options: &[&str], expected: &[&str]| {
        let output = walctl(&[&["dump", file, "--json"], options].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let lines = objects(&output);
        let keys: Vec<_> = lines.iter().map(|line| line["key"].as_str().unwrap()).collect();
        assert_eq!(keys, expected, "{options:?}");
        assert_eq!(stderr(&output).contains("no record matches"), expected.is_empty());
    };
    check(&["--key", "lost-3"], &["lost-3"]);
    check(&["--opcode", "1", "--past-damage"], &["lost-2", "lost-4"]);
    check(&["--to-time", &(START_MS + 3).to_string()], &["lost-2", "lost-3"]);
    check(&["--db", "9"], &[]);
    let human = walctl(&["dump", file, "--values"]);
    assert_eq!(stdout(&human).lines().count(), 3);
}

#[test]
fn junk_is_counted_and_a_copy_of_the_directory_serves_as_well() {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, string(b"kept", b"1"))]);
    let end = log.find(b"kept");
    log.damage(|bytes| bytes[end + 64..end + 164].fill(0xee));
    log.reopen();
    let wal = log.path().join("wal");
    let name = |path: &PathBuf| path.extension().is_some_and(|end| end == "bin");
    let file = fs::read_dir(&wal)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(name)
        .unwrap();
    // The copy lies in the data directory, beside wal.
    let beside = log.path().join(file.file_name().unwrap());
    fs::copy(&file, &beside).unwrap();
    for path in [&file, &beside] {
        let output = walctl(&["dump", path.to_str().unwrap()]);
        let words = stderr(&output);
        assert_eq!((code(&output), stdout(&output)), (0, String::new()), "{words}");
        let bytes = fs::metadata(path).unwrap().len();
        assert!(
            words.contains("neither a group nor the end of the log; to the end"),
            "{words}"
        );
        assert!(
            words.contains(&format!(
                "whole records in them: 0; bytes that no record or group header covers: {bytes}"
            )),
            "{words}"
        );
    }
}

#[test]
fn what_cannot_be_read_so_is_named() {
    let CutLog { log, file, .. } = cut_log();
    let elsewhere = tempfile::tempdir().unwrap();
    let alone = elsewhere.path().join(file.file_name().unwrap());
    fs::copy(&file, &alone).unwrap();
    let segment = log.segments().pop().unwrap();
    let control = log.path().join("control");
    let other = elsewhere.path().join("notes.txt");
    fs::write(&other, "bring milk").unwrap();
    for (path, options, part) in [
        (&alone, &[][..], "without its salt"),
        (
            &segment,
            &[],
            "a segment of a log; walctl dump reads a data directory",
        ),
        (&control, &[], "a control file; "),
        (&other, &[], "a file; "),
        (&file, &["--follow"], "nothing is added to a file"),
    ] {
        let output = walctl(&[&["dump", path.to_str().unwrap()], options].concat());
        assert_eq!((code(&output), stdout(&output)), (1, String::new()));
        assert!(stderr(&output).contains(part), "{part:?} in {}", stderr(&output));
    }
    fs::copy(&segment, elsewhere.path().join(segment.file_name().unwrap())).unwrap();
    assert_eq!(code(&walctl(&["dump", alone.to_str().unwrap()])), 0);
}
