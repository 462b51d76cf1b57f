//! `walctl snapshot`: what a file holds, wherever it lies, and what is said about one that is damaged.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::path::{Path, PathBuf};

use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::snapshot::{SNAPSHOT_HEADER_BYTES, SnapshotTrailer};
use idem_protocol::wal::{Pairs, Record};
use idem_protocol::{ClusterId, Deadline, Epoch, HistoryEntry, Lsn, Member, NodeId, UnixMs};
use support::snapshots::write_snapshot;
use support::*;
use tempfile::TempDir;

/// A snapshot of lsn 4096 with five keys in two databases.
fn sample_snapshot() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let mut idem = Vec::new();
    let record = IdemRecord {
        state: IdemState::Completed,
        fingerprint: b"fp-1",
        owner: b"worker-1",
        result: b"done\n",
    };
    record.encode(&mut idem);
    let put = |key, value, deadline| Record::StringPut { key, deadline, value };
    let fields = [(&b"name"[..], &b"Ada"[..])];
    let hash = Record::HashPut {
        key: b"user:1",
        deadline: Deadline::NONE,
        fields: Pairs::from(&fields[..]),
    };
    let deadline = Deadline::at(START_MS + 86_400_000);
    let items = [
        (Lsn::new(4096), 10, 0, put(b"pay:1", &idem, deadline)),
        (Lsn::new(4096), 10, 0, put(b"greeting", b"hello", Deadline::NONE)),
        (Lsn::new(4200), 11, 0, hash),
        (
            Lsn::new(4200),
            11,
            3,
            put(BINARY_KEY, b"\x00\x01", Deadline::NONE),
        ),
    ];
    let epoch = Epoch { number: 2, nonce: 77 };
    let trailer = SnapshotTrailer {
        end_lsn: Lsn::new(4200),
        epoch,
        end_crc: 0xdead_beef,
        log_time: UnixMs::new(START_MS + 11),
        history: vec![HistoryEntry {
            epoch,
            node: NodeId([5; 16]),
            first_lsn: Lsn::new(73),
        }],
        required: 1,
        members: vec![Member {
            node: NodeId([5; 16]),
            address: "10.0.0.1:6379".to_owned(),
        }],
        ..SnapshotTrailer::default()
    };
    let path = write_snapshot(
        directory.path(),
        ClusterId([9; 16]),
        Lsn::new(4096),
        &items,
        trailer,
    );
    (directory, path)
}

fn snapshot(path: &Path, options: &[&str]) -> std::process::Output {
    walctl(&[&["snapshot", path.to_str().unwrap()], options].concat())
}

/// The output with the path of the file taken out: it is another one each time.
fn text(output: &std::process::Output, path: &Path) -> String {
    stdout(output).replace(path.to_str().unwrap(), "FILE")
}

#[test]
fn a_snapshot_for_people_and_for_programs() {
    let (_directory, path) = sample_snapshot();
    for (name, options) in [
        ("snapshot.txt", &[][..]),
        ("snapshot.jsonl", &["--json"]),
        ("snapshot-items.txt", &["--items"]),
        ("snapshot-items.jsonl", &["--items", "--values", "--json"]),
    ] {
        let output = snapshot(&path, options);
        assert_eq!((code(&output), stderr(&output)), (0, String::new()), "{name}");
        check_golden(name, &text(&output, &path));
    }
}

#[test]
fn a_file_of_any_name_is_read_and_a_wrong_name_of_a_snapshot_is_not_passed_over() {
    let (directory, path) = sample_snapshot();
    for (name, expected) in [
        ("monday", 0),
        ("monday.snap", 0),
        ("00000000000000004096.tmp", 0),
        ("00000000000000004096.snap", 0),
        ("00000000000000004097.snap", 4),
    ] {
        let elsewhere = directory.path().join(name);
        std::fs::copy(&path, &elsewhere).unwrap();
        let output = snapshot(&elsewhere, &["--json"]);
        assert_eq!(code(&output), expected, "{name}: {}", stderr(&output));
    }
    // Also one that is named as seen from the directory it lies in.
    let output = command(&["snapshot", "monday", "--json"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!(
        (code(&output), &objects(&output)[0]["snapshot"]),
        (0, &"monday".into())
    );
}

#[test]
fn every_flipped_byte_and_every_cut_is_damage_with_its_place() {
    let (directory, path) = sample_snapshot();
    let whole = std::fs::read(&path).unwrap();
    let copy = directory.path().join("copy");
    let check = |bytes: &[u8], what: &str, codes: &[i32]| {
        std::fs::write(&copy, bytes).unwrap();
        let output = snapshot(&copy, &["--json"]);
        assert!(codes.contains(&code(&output)), "{what}: {}", code(&output));
        let line = objects(&output).pop().unwrap();
        assert_eq!(line["valid"], false, "{what}");
        assert!(!line["reason"].as_str().unwrap().is_empty(), "{what}");
        if code(&output) == 4 {
            let offset = line["offset"].as_u64().unwrap();
            assert!(offset <= bytes.len() as u64, "{what}: {offset}");
        }
        line
    };
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let line = check(&bytes, &format!("a flip at {at}"), &[4]);
        if at < SNAPSHOT_HEADER_BYTES {
            assert_eq!(line["offset"], 0);
        }
    }
    for length in (0..whole.len()).step_by(11) {
        check(&whole[..length], &format!("cut to {length}"), &[4]);
    }
    check(&[&whole[..], b"\0"].concat(), "a byte more", &[4]);

    // A flip in a value: which checksum was expected, and which one the bytes have.
    let mut bytes = whole.clone();
    let at = whole.windows(5).position(|window| window == b"hello").unwrap();
    bytes[at] ^= 1;
    let line = check(&bytes, "a flip in a value", &[4]);
    assert_ne!(line["expected_crc"], line["found_crc"]);
    assert!(line["expected_crc"].is_u64() && line["found_crc"].is_u64());
    assert_eq!((&line["items"], &line["start_lsn"]), (&1.into(), &4096.into()));
    std::fs::write(&copy, &bytes).unwrap();
    let output = snapshot(&copy, &["--items"]);
    assert_eq!(code(&output), 4);
    check_golden("snapshot-damaged.txt", &text(&output, &copy));
}

#[test]
fn a_newer_format_is_said_to_be_one() {
    let (directory, path) = sample_snapshot();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 200;
    let crc = crc32(&bytes[..40]);
    bytes[40..44].copy_from_slice(&crc.to_le_bytes());
    let newer = directory.path().join("newer");
    std::fs::write(&newer, bytes).unwrap();
    let output = snapshot(&newer, &[]);
    assert_eq!(code(&output), 6);
    assert!(
        stdout(&output).contains("format 200 is newer"),
        "{}",
        stdout(&output)
    );
}

/// The checksum of all formats, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[test]
fn what_is_no_file_is_code_1() {
    let directory = tempfile::tempdir().unwrap();
    for (path, words) in [
        (directory.path().to_owned(), "directory"),
        (directory.path().join(".."), "directory"),
        (directory.path().join("missing"), "no such file: "),
        (directory.path().join("missing/too"), "missing"),
        (PathBuf::new(), "value"),
    ] {
        let output = snapshot(&path, &[]);
        assert_eq!((code(&output), stdout(&output)), (1, String::new()), "{path:?}");
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    let output = walctl(&["snapshot", "x", "--values"]);
    assert_eq!(code(&output), 1, "values are those of items");
}

#[test]
fn looking_changes_nothing_and_a_closed_pipe_is_no_failure() {
    let (directory, path) = sample_snapshot();
    let before = image(directory.path());
    let mut child = command(&["snapshot", path.to_str().unwrap(), "--items"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
    assert!(image(directory.path()) == before);
}

#[test]
fn another_file_is_said_to_be_what_it_is_and_a_directory_names_its_newest_snapshot() {
    let log = sample();
    let (_directory, snapshot_file) = sample_snapshot();
    let segment = log.segments().pop().unwrap();
    let piece = log.path().join("piece");
    let bytes = std::fs::read(&segment).unwrap();
    std::fs::write(&piece, &bytes[4096..]).unwrap();
    let text = log.path().join("notes.txt");
    std::fs::write(&text, "bring milk").unwrap();
    let fifo = log.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let check = |path: &Path, expected: i32, words: &str| {
        for options in [&[][..], &["--json"]] {
            let output = snapshot(path, options);
            assert_eq!(code(&output), expected, "{path:?}: {}", stderr(&output));
            assert!(
                stderr(&output).contains(words),
                "{words:?} in {}",
                stderr(&output)
            );
            assert_eq!(stdout(&output).is_empty(), expected == 1, "{path:?}");
        }
    };
    check(&segment, 1, "is not a snapshot: it is a segment of a log");
    check(
        &log.path().join("control"),
        1,
        "is not a snapshot: it is a control file",
    );
    check(&piece, 1, "is not a snapshot: it is a piece of a log");
    check(&fifo, 1, "fifo: it is a FIFO");
    // What it was before something happened to its first bytes cannot be told.
    check(&text, 4, "");

    let of_log = "a directory, not a snapshot";
    check(log.path(), 1, &format!("{of_log}, and there is none in it"));
    let snap = log.path().join("snap");
    std::fs::create_dir_all(&snap).unwrap();
    let newest = snap.join("00000000000000004096.snap");
    std::fs::copy(&snapshot_file, &newest).unwrap();
    std::fs::copy(&snapshot_file, snap.join("00000000000000000009.snap")).unwrap();
    for path in [log.path(), &snap] {
        check(
            path,
            1,
            &format!("{of_log}; the newest in it is {}", newest.display()),
        );
    }
    check(&newest, 0, "");
}
