//! `walctl dump --past-damage`: what is left is printed, what is not is named, and both make up the log.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use idem_protocol::wal::{FrameHeader, SegmentHeader};
use idem_protocol::{Lsn, UnixMs};
use idem_wal::lock::DirLock;
use support::memory::in_little_memory;
use support::*;

fn dump(dir: &Path, options: &[&str]) -> Output {
    walctl(
        &[
            &["dump", dir.to_str().unwrap(), "--past-damage", "--json"],
            options,
        ]
        .concat(),
    )
}

/// A range of a line on stderr: `lsn FROM to TO`.
fn skipped(words: &str) -> Vec<(u64, u64)> {
    let lines = words.lines().filter(|line| line.starts_with("walctl: skipped: "));
    lines
        .map(|line| {
            let (_, lsns) = line.split_once(", lsn ").expect(line);
            let (from, rest) = lsns.split_once(" to ").expect(line);
            let (to, _) = rest.split_once(':').expect(line);
            (from.parse().unwrap(), to.parse().unwrap())
        })
        .collect()
}

/// Twelve records of twenty thousand bytes, several in a segment, two in a group.
fn big_log() -> TestLog {
    let mut log = TestLog::new(0);
    let value = vec![b'v'; 10_000];
    for number in 0..12u8 {
        let (first, second) = ([b'a' + number], [b'A' + number]);
        log.group(&[
            (u64::from(number), 0, string(&first, &value)),
            (u64::from(number), 0, string(&second, &value)),
        ]);
    }
    assert!(log.segments().len() > 3);
    log
}

fn keys(output: &Output) -> String {
    let lines = objects(output);
    lines.iter().filter_map(|line| line["key"].as_str()).collect()
}

const ALL: &str = "aAbBcCdDeEfFgGhHiIjJkKlL";

/// Offsets of `needle` in a file.
fn find(path: &Path, needle: &[u8]) -> Vec<u64> {
    let bytes = fs::read(path).unwrap();
    let places = bytes.windows(needle.len()).enumerate();
    places
        .filter(|(_, window)| *window == needle)
        .map(|(at, _)| at as u64)
        .collect()
}

fn write_at(path: &Path, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

#[test]
fn an_undamaged_log_is_printed_as_ever() {
    let log = sample();
    let plain = walctl(&["dump", log.path().to_str().unwrap(), "--json"]);
    let output = dump(log.path(), &[]);
    assert_eq!((code(&output), stderr(&output)), (0, String::new()));
    assert_eq!(stdout(&output), stdout(&plain));
    // Without damage to pass, no log is as wrong as ever.
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(code(&dump(empty.path(), &[])), 1);
}

#[test]
fn a_bad_record_costs_itself() {
    let log = big_log();
    let before = image(log.path());
    let segment = log.segments()[1].clone();
    let frame = find(&segment, b"IFRM")[1];
    let whole = objects(&dump(log.path(), &["--frames"]));
    let name = format!("wal/{}", segment.file_name().unwrap().to_str().unwrap());
    let at_frame =
        |line: &serde_json::Value| line["file"] == *name && line["offset"].as_u64() == Some(frame + 32);
    let hit = whole.iter().find(|line| at_frame(line)).unwrap();
    let (lsn, key) = (hit["lsn"].as_u64().unwrap(), hit["key"].as_str().unwrap());
    write_at(&segment, frame + 32 + 500, b"?");

    let output = dump(log.path(), &[]);
    let words = stderr(&output);
    assert_eq!(code(&output), 4, "{words}");
    assert_eq!(keys(&output), ALL.replace(key, ""));
    let next = lsn + 24 + 4 + 1 + 8 + 4 + 10_000;
    assert_eq!(skipped(&words), [(lsn, next)]);
    for part in [
        format!(
            "walctl: skipped: {name} offset {} to {}, ",
            frame + 32,
            frame + 32 + next - lsn
        ),
        " expected, ".to_owned(),
        " found".to_owned(),
        format!("walctl verify {}", log.path().display()),
    ] {
        assert!(words.contains(&part), "{part:?} in {words}");
    }
    // Out of the limits of lsn, it is not met.
    for limits in [["--to-lsn", &lsn.to_string()], ["--from-lsn", &next.to_string()]] {
        let output = dump(log.path(), &limits);
        assert_eq!(
            (code(&output), skipped(&stderr(&output)).len()),
            (0, 0),
            "{limits:?}"
        );
    }
    let output = dump(log.path(), &["--key", "l"]);
    assert_eq!((code(&output), keys(&output).as_str()), (4, "l"));
    // And nothing was changed to find that out.
    write_at(&segment, frame + 32 + 500, b"v");
    let bytes = |image: &std::collections::BTreeMap<_, (_, Option<Vec<u8>>)>| {
        image.values().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>()
    };
    assert!(bytes(&before) == bytes(&image(log.path())), "a file was changed");
}

#[test]
fn a_bad_group_header_costs_the_group_and_a_bad_segment_header_the_segment() {
    let log = big_log();
    let segments = log.segments();
    let frames = find(&segments[1], b"IFRM");
    write_at(&segments[1], frames[0] + 8, &[0xff; 8]);
    let output = dump(log.path(), &[]);
    assert_eq!(code(&output), 4);
    assert_eq!(keys(&output).len(), ALL.len() - 2);
    assert_eq!(skipped(&stderr(&output)).len(), 1);

    let lost = frames.len() * 2;
    write_at(&segments[1], 0, &[0; 4096]);
    let output = dump(log.path(), &[]);
    assert_eq!(code(&output), 4);
    assert_eq!(keys(&output).len(), ALL.len() - lost);
    let words = stderr(&output);
    assert!(words.contains("the segment has no good header"), "{words}");
    let range = skipped(&words)[0];

    fs::remove_file(&segments[1]).unwrap();
    let output = dump(log.path(), &[]);
    assert_eq!((code(&output), keys(&output).len()), (4, ALL.len() - lost));
    assert_eq!(skipped(&stderr(&output)), [range]);
}

#[test]
fn a_file_cut_short_keeps_what_is_whole() {
    let log = big_log();
    let segment = &log.segments()[2];
    let frames = find(segment, b"IFRM");
    // In the second record of the second group.
    let file = OpenOptions::new().write(true).open(segment).unwrap();
    file.set_len(frames[1] + 32 + 15_000).unwrap();
    let lost = (frames.len() - 2) * 2 + 1;
    let output = dump(log.path(), &[]);
    let words = stderr(&output);
    assert_eq!(
        (code(&output), keys(&output).len()),
        (4, ALL.len() - lost),
        "{words}"
    );
    let ranges = skipped(&words);
    // The rest of the group, and what the segment held after it.
    assert_eq!(ranges.len(), usize::from(frames.len() > 2) + 1, "{words}");
}

#[test]
fn the_end_of_a_log_is_damage_only_without_a_server() {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, string(b"first", b"1"))]);
    log.group(&[(2, 0, string(b"second", b"2")), (2, 0, string(b"third", b"3"))]);
    let at = log.find(b"third");
    log.damage(|bytes| bytes[at] ^= 1);
    let output = dump(log.path(), &[]);
    assert_eq!((code(&output), keys(&output).as_str()), (4, "firstsecond"));

    let server = DirLock::exclusive(log.path(), Duration::ZERO).unwrap();
    let output = dump(log.path(), &[]);
    let words = stderr(&output);
    assert_eq!((code(&output), keys(&output).as_str()), (0, "first"), "{words}");
    // With a later group, the damaged one is finished.
    log.group(&[(3, 0, string(b"fourth", b"4"))]);
    let output = dump(log.path(), &[]);
    assert_eq!((code(&output), keys(&output).as_str()), (4, "firstsecondfourth"));
    drop(server);

    // Junk at the end, and nothing after it.
    let end = log.find(b"fourth") as u64 + 64;
    let path = log.segments().pop().unwrap();
    write_at(&path, end / 8 * 8 + 8, b"junk");
    let output = dump(log.path(), &[]);
    assert_eq!((code(&output), keys(&output).as_str()), (4, "firstsecondfourth"));
    assert!(stderr(&output).contains("to the end"), "{}", stderr(&output));
}

/// What is printed and what is named have to make up the log, wherever the damage is.
#[test]
fn what_is_printed_and_what_is_skipped_add_up() {
    let log = sample();
    let path = log.segments().pop().unwrap();
    let good = fs::read(&path).unwrap();
    let whole = objects(&walctl(&["dump", log.path().to_str().unwrap(), "--json"]));
    let begins: Vec<u64> = whole.iter().map(|line| line["lsn"].as_u64().unwrap()).collect();
    let last_frame = *find(&path, b"IFRM").last().unwrap();
    // A process for each place; the reader's own tests have every byte.
    for at in (4096..last_frame).step_by(97) {
        let index = usize::try_from(at).unwrap();
        write_at(&path, at, &[good[index] ^ 0x40]);
        let output = dump(log.path(), &[]);
        let words = stderr(&output);
        let ranges = skipped(&words);
        let printed: Vec<u64> = objects(&output)
            .iter()
            .map(|line| line["lsn"].as_u64().unwrap())
            .collect();
        let inside = |lsn: u64| ranges.iter().any(|(from, to)| (*from..*to).contains(&lsn));
        let expected: Vec<u64> = begins.iter().copied().filter(|lsn| !inside(*lsn)).collect();
        assert_eq!(printed, expected, "offset {at}: {words}");
        // Only in the padding nothing is lost, and then nothing is said.
        assert_eq!(
            code(&output),
            if ranges.is_empty() { 0 } else { 4 },
            "offset {at}: {words}"
        );
        write_at(&path, at, &good[index..=index]);
    }
}

#[test]
fn a_sparse_segment_takes_no_memory() {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, string(b"first", b"1"))]);
    log.group(&[(2, 0, string(b"second", b"2"))]);
    let path = log.segments().pop().unwrap();
    let head = fs::read(&path).unwrap();
    let used = head.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let dir = log.path().to_str().unwrap();
    let check = |arguments: &[&str], expected: i32| {
        let output = in_little_memory(arguments);
        assert_eq!(code(&output), expected, "{arguments:?}: {}", stderr(&output));
        if arguments[0] == "dump" {
            assert_eq!(keys(&output), "firstsecond", "{arguments:?}");
        }
    };

    // Eight times the memory, all of which is read: in search of a later group, of witnesses, of the end.
    file.set_len(512 << 20).unwrap();
    check(&["dump", dir, "--json"], 0);
    write_at(&path, used.next_multiple_of(8) + 8, b"junk");
    check(&["dump", dir, "--json", "--past-damage"], 4);
    check(&["verify", dir, "--json"], 3);

    // A good header of a group of four gibibytes, and a file that long with nothing but zeros in it.
    if file.set_len(5 << 30).is_err() {
        return skip("no sparse file of five gibibytes");
    }
    let header = SegmentHeader::decode(&head[..2048]).unwrap();
    let claim = FrameHeader {
        payload_bytes: u32::MAX - 7,
        lsn: log.end(),
        synced: log.end(),
        count: 1,
        seal: false,
    };
    write_at(&path, used.next_multiple_of(8), &claim.encode(header.salt));
    check(&["dump", dir, "--json"], 1);
}

/// A log with a group behind its end whose header is good and claims one record of so many bytes; the file has as many.
fn claiming(body: impl FnOnce(Lsn) -> Vec<u8>, payload_bytes: u32) -> Option<TestLog> {
    let mut log = TestLog::new(0);
    log.group(&[(1, 0, string(b"first", b"1"))]);
    let path = log.segments().pop().unwrap();
    let head = fs::read(&path).unwrap();
    let used = head.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
    let at = used.next_multiple_of(8);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(at + 32 + u64::from(payload_bytes) + 4096).ok()?;
    let claim = FrameHeader {
        payload_bytes,
        lsn: log.end(),
        synced: log.end(),
        count: 1,
        seal: false,
    };
    let header = SegmentHeader::decode(&head[..2048]).unwrap();
    write_at(&path, at, &claim.encode(header.salt));
    write_at(&path, at + 32, &body(log.end()));
    Some(log)
}

#[test]
fn a_claimed_record_takes_no_memory_and_a_good_one_is_never_cut_for_want_of_it() {
    const RECORD_BYTES: u32 = 512 << 20;
    let junk = |_| [&(RECORD_BYTES - 24).to_le_bytes()[..], b"no such checksum"].concat();
    let Some(log) = claiming(junk, RECORD_BYTES) else {
        return skip("no sparse file of 512 mebibytes");
    };
    let dir = log.path().to_str().unwrap();
    for (arguments, expected) in [
        (&["verify", dir][..], 3),
        (&["dump", dir], 1),
        (&["stat", dir], 1),
    ] {
        let output = in_little_memory(arguments);
        assert_eq!(code(&output), expected, "{arguments:?}: {}", stderr(&output));
    }
    assert_eq!(code(&walctl(&["verify", dir])), 3);

    // A record that is good, and larger than the memory. Its value is all zeros, and is left to the file's.
    const VALUE_BYTES: usize = 96 << 20;
    let value = vec![0; VALUE_BYTES];
    let record = |lsn| {
        let mut bytes = Vec::new();
        string(b"k", &value).encode(lsn, UnixMs::new(START_MS + 10), 0, &mut bytes);
        bytes
    };
    let bytes = u32::try_from(record(Lsn::ZERO).len()).unwrap();
    let begin = |lsn| record(lsn)[..64].to_vec();
    let log = claiming(begin, bytes).unwrap();
    let dir = log.path().to_str().unwrap();
    assert_eq!(code(&walctl(&["verify", dir])), 0);
    let output = in_little_memory(&["verify", dir]);
    assert_eq!(code(&output), 9, "{}", stdout(&output));
    assert!(
        stdout(&output).contains("not enough memory"),
        "{}",
        stdout(&output)
    );
}

/// As a broken disk answers, and more handily than one: the segment can be opened, and no byte of it be read.
fn make_unreadable(segment: &Path) {
    fs::remove_file(segment).unwrap();
    fs::create_dir(segment).unwrap();
}

#[test]
fn what_cannot_be_read_is_passed_over_and_says_so_with_its_own_code() {
    let whole = objects(&dump(big_log().path(), &["--frames"]));
    let count = big_log().segments().len();
    for bad in [&[0][..], &[1], &[1, 2], &[count - 1], &[0, count - 1]] {
        let log = big_log();
        let segments = log.segments();
        let name = |index: usize| {
            let name = segments[index].file_name().unwrap().to_str().unwrap();
            format!("wal/{name}")
        };
        let expected: String = whole
            .iter()
            .filter(|line| !bad.iter().any(|index| line["file"] == *name(*index)))
            .filter_map(|line| line["key"].as_str())
            .collect();
        for index in bad {
            make_unreadable(&segments[*index]);
        }
        let dir = log.path().to_str().unwrap();
        let follow: &[&str] = &["--follow", "--to-lsn", "1"];
        for options in [&[][..], if bad.contains(&0) { &[] } else { follow }] {
            let output = dump(log.path(), options);
            let words = stderr(&output);
            if options.is_empty() {
                assert_eq!(
                    (code(&output), keys(&output)),
                    (9, expected.clone()),
                    "{bad:?}: {words}"
                );
                let lines = words.lines().filter(|line| line.starts_with("walctl: skipped: "));
                assert_eq!(lines.count(), bad.len(), "{bad:?}: {words}");
                for index in bad {
                    let part = format!("walctl: skipped: {} offset 0 to ", name(*index));
                    assert!(words.contains(&part), "{part} in {words}");
                }
                assert!(words.contains(": cannot be read: "), "{words}");
                assert!(words.contains("walctl verify "), "{words}");
            } else {
                assert_eq!(code(&output), 0, "{words}");
            }
        }
        let output = walctl(&["history", dir, "lL", "--past-damage"]);
        assert_eq!(code(&output), 9, "{bad:?}: {}", stderr(&output));
        // Without it, what was read before is shown, and up to where that was.
        let good: String = whole
            .iter()
            .take_while(|line| line["file"] != *name(bad[0]))
            .filter_map(|line| line["key"].as_str())
            .collect();
        let output = walctl(&["dump", dir, "--json"]);
        assert_eq!((code(&output), keys(&output)), (1, good), "{bad:?}");
        for command in [&["dump", dir][..], &["stat", dir], &["history", dir, "no"]] {
            let output = walctl(command);
            let words = stderr(&output);
            assert_eq!(code(&output), 1, "{command:?}: {words}");
            for part in ["the log was read up to lsn ", &name(bad[0]), "walctl verify "] {
                assert!(words.contains(part), "{part} in {words}");
            }
            if command[0] == "stat" {
                assert!(!stdout(&output).is_empty(), "what was counted is shown: {words}");
            }
        }
    }
}
