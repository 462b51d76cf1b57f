//! The data directories that are kept in `tests/golden/logs`, made again.
//!
//! Most of them are one afternoon of a shop with one damage: five orders, a worker that died, a `FLUSHDB` that nobody
//! meant. All of it is fixed (ids, salts, times), so that the same code makes the same bytes: a change of a format shows
//! as a difference in files that are kept, before anybody's data finds out.
//!
//! # When there is a second format
//!
//! There is one format so far, and `tests/golden/logs` holds directories of it, made by this code. Once a version 2
//! exists, the directories as they are then go to `tests/golden/logs-1` and stay there for good: nothing makes them again
//! (this code writes version 2 from then on, into `logs`), and all that looks at a directory of `logs` looks at them too.

mod logs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use idem_protocol::idem::IdemState;
use idem_protocol::wal::{
    EpochReason, FrameHeader, MemberList, Record, SECOND_COPY_OFFSET, SEGMENT_HEADER_BYTES, SegmentHeader,
    segment_name,
};
use idem_protocol::{Member, NodeId};

use self::logs::{DAY, NOON, SEGMENT_BYTES, afternoon, clock, epoch_start, order, shop, with_snapshots};
use super::{TestLog, pending, sample, string};

/// With this variable the files are written instead of compared; a person reads the difference before it is kept.
pub const WRITE: &str = "IDEM_GOLDEN_WRITE";

/// Name below the directory, and content.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Makes a directory.
pub type Make = fn() -> Files;

/// All directories: name, and how it comes to be.
pub const MADE: [(&str, Make); 22] = [
    ("begins-above-zero", begins_above_zero),
    ("clean", clean),
    ("clean-then-junk", clean_then_junk),
    ("damaged-control", damaged_control),
    ("every-record", every_record),
    ("foreign-node", foreign_node),
    ("impossible", impossible),
    ("killed", killed),
    ("missing-control", missing_control),
    ("missing-segment", missing_segment),
    ("new-empty", new_empty),
    ("new-half-made", new_half_made),
    ("newer-format", newer_format),
    ("rot-at-the-end", rot_at_the_end),
    ("rot-in-a-snapshot", rot_in_a_snapshot),
    ("rot-in-the-middle", rot_in_the_middle),
    ("shorter-copy", shorter_copy),
    ("torn", torn),
    ("two-snapshots", two_snapshots),
    ("unborn-segment", unborn_segment),
    ("unproven", unproven),
    ("unreadable", unreadable),
];

/// Where the kept directories are.
pub fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/logs")
}

/// None of these logs has more than a few dozen records: a command that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a command prints; one that does not end in time is killed and fails.
pub fn output_in_time(mut command: Command) -> Output {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let id = child.id().to_string();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(PATIENCE) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let _ = Command::new("kill").arg(id).status();
            panic!("{command:?} is not done after {PATIENCE:?}");
        }
    }
}

/// Copies a kept directory to `into`, with the empty directories that a repository cannot keep.
pub fn copy(name: &str, into: &Path) {
    let files = read(&kept().join(name));
    assert!(!files.is_empty(), "no directory {name} is kept");
    write(&files, into);
    // Of these two only the files are judged, but a data directory has them.
    if files.contains_key("control") {
        std::fs::create_dir_all(into.join("wal")).unwrap();
        std::fs::create_dir_all(into.join("snap")).unwrap();
    }
}

/// All files below a directory.
pub fn read(path: &Path) -> Files {
    let mut files = Files::new();
    let mut open = vec![path.to_owned()];
    while let Some(at) = open.pop() {
        if at.is_dir() {
            open.extend(std::fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()));
        } else if at.exists() {
            let name = at.strip_prefix(path).unwrap().to_str().unwrap();
            files.insert(name.to_owned(), std::fs::read(&at).unwrap());
        }
    }
    files
}

/// Writes files below a directory that may be absent.
pub fn write(files: &Files, into: &Path) {
    for (name, bytes) in files {
        let path = into.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// The files of a log that its server needs again; spares and reserved space are made anew by a start.
fn files_of(log: &TestLog) -> Files {
    let mut files = read(log.path());
    files.retain(|name, _| name == "control" || name.ends_with(".wal") || name.ends_with(".snap"));
    files
}

fn closed(mut log: TestLog) -> Files {
    log.shut_down();
    files_of(&log)
}

// Rows with which a server starts.

fn clean() -> Files {
    closed(shop())
}

fn killed() -> Files {
    files_of(&shop())
}

/// Something else wrote into the file, behind its end.
fn clean_then_junk() -> Files {
    let mut files = clean();
    let segment = newest(&mut files);
    let end = segment.len();
    segment[end - 64..].fill(0x5a);
    files
}

/// Two groups on their way when power was lost; of the first one a page is missing.
fn torn() -> Files {
    let mut log = shop();
    let at = clock(14, 7, 0, 0);
    log.write(&[(
        at,
        0,
        order(b"order:4716", at + DAY, IdemState::Pending, b"5c1b2d", b""),
    )]);
    log.write(&[(
        at + 5,
        0,
        order(b"order:4717", at + DAY, IdemState::Pending, b"77aa01", b""),
    )]);
    let mut files = files_of(&log);
    let segment = newest(&mut files);
    let (_, key) = find(segment, b"order:4716");
    segment[key].fill(0);
    files
}

/// The last write came through to the half.
fn unproven() -> Files {
    let mut log = shop();
    let at = clock(14, 7, 0, 0);
    log.write(&[(
        at,
        0,
        order(b"order:4716", at + DAY, IdemState::Pending, b"5c1b2d", b""),
    )]);
    let mut files = files_of(&log);
    let segment = newest(&mut files);
    let (at, _) = find(segment, b"order:4716");
    segment[at..].fill(0);
    files
}

/// The next segment was being made.
fn unborn_segment() -> Files {
    let log = shop();
    let mut files = files_of(&log);
    let mut unborn = vec![0; usize::try_from(SEGMENT_BYTES).unwrap()];
    unborn[..11].copy_from_slice(b"IDEMWAL1\x01\x00\x00");
    files.insert(format!("wal/{}", segment_name(log.end())), unborn);
    files
}

/// A copy of a killed server's directory that stopped in the last segment, at the end of a group: no format can tell.
fn shorter_copy() -> Files {
    let mut files = killed();
    let segment = newest(&mut files);
    let (at, _) = *frames(segment).last().unwrap();
    segment.truncate(at);
    files
}

fn new_empty() -> Files {
    // A repository keeps no empty directory, and no part of a log has this name.
    Files::from([(".keep".to_owned(), Vec::new())])
}

/// The first start was interrupted before there was a control file.
fn new_half_made() -> Files {
    let mut files = files_of(&TestLog::with(0, SEGMENT_BYTES, NOON));
    files.remove("control");
    newest(&mut files)[SEGMENT_HEADER_BYTES..].fill(0);
    files.insert("wal/new.tmp".to_owned(), vec![0; 512]);
    files
}

/// Each kind of record, epochs that begin for each reason, and members.
fn every_record() -> Files {
    let mut log = sample();
    log.now_ms = 3000;
    log.reopen();
    let members = [(1, "10.0.0.1:7399"), (2, "10.0.0.2:7399"), (3, "[fd00::3]:7399")];
    let members: Vec<Member> = members
        .iter()
        .map(|(id, address)| Member {
            node: NodeId([*id; 16]),
            address: (*address).to_owned(),
        })
        .collect();
    log.group(&[(
        3500,
        0,
        Record::Members {
            required: 2,
            members: MemberList::Slice(&members),
        },
    )]);
    epoch_start(&mut log, 4000, EpochReason::Promotion);
    log.group(&[(4100, 0, pending(b"pay:4", 60_000, b"fp-4", b"worker-4"))]);
    epoch_start(&mut log, 5000, EpochReason::Restore);
    log.group(&[(5100, 0, string(b"after", b"1")), (5200, 0, Record::Clock)]);
    closed(log)
}

// Snapshots.

fn two_snapshots() -> Files {
    closed(with_snapshots())
}

/// Of two snapshots the newer one is damaged.
fn rot_in_a_snapshot() -> Files {
    let mut files = two_snapshots();
    let snapshot = files.iter_mut().rfind(|(name, _)| name.starts_with("snap/"));
    let bytes = snapshot.unwrap().1;
    let (_, key) = find(bytes, b"order:4713");
    bytes[key.start] ^= 1;
    files
}

/// What the snapshots made unneeded is gone, as a server removes it.
fn begins_above_zero() -> Files {
    let mut files = two_snapshots();
    let oldest = files.keys().find(|name| name.starts_with("snap/")).unwrap();
    let needed = oldest.replace("snap/", "wal/").replace(".snap", ".wal");
    // The segment in which the older snapshot starts is the last one that begins at or below it.
    let below: Vec<String> = files
        .keys()
        .filter(|name| name.starts_with("wal/") && **name <= needed)
        .cloned()
        .collect();
    assert!(below.len() > 1, "something can go");
    for name in &below[..below.len() - 1] {
        files.remove(name);
    }
    files
}

// Rows with which a server does not start.

/// A bit in a stored result, in a segment that was complete long ago.
fn rot_in_the_middle() -> Files {
    let mut files = clean();
    let segment = files.get_mut(&segments(&clean())[0]).unwrap();
    let (_, result) = find(segment, b"receipt 42");
    segment[result.start] ^= 1;
    files
}

/// The last group and the seal behind it read as zeros, and the clean mark says that they were there.
fn rot_at_the_end() -> Files {
    let mut files = clean();
    let segment = newest(&mut files);
    let (at, _) = *frames(segment).iter().rfind(|(_, frame)| !frame.seal).unwrap();
    segment[at..].fill(0);
    files
}

fn missing_segment() -> Files {
    let mut files = clean();
    files.remove(&segments(&clean())[1]);
    files
}

fn missing_control() -> Files {
    let mut files = clean();
    files.remove("control");
    files
}

fn damaged_control() -> Files {
    let mut files = clean();
    files.get_mut("control").unwrap()[30] ^= 4;
    files
}

/// The newest segment is another server's.
fn foreign_node() -> Files {
    let mut files = clean();
    let segment = newest(&mut files);
    let mut header = SegmentHeader::decode(segment).unwrap();
    header.node = NodeId([9; 16]);
    segment[..SEGMENT_HEADER_BYTES].copy_from_slice(&header.encode_page());
    files
}

/// The newest segment was written by a version to come.
fn newer_format() -> Files {
    let mut files = clean();
    let segment = newest(&mut files);
    for at in [0, SECOND_COPY_OFFSET] {
        segment[at + 8] = 2;
        let crc = crc32fast::hash(&segment[at..at + 100]);
        segment[at + 100..at + 104].copy_from_slice(&crc.to_le_bytes());
    }
    files
}

/// The control file of an earlier clean shutdown, put back beside a log that has gone on.
fn impossible() -> Files {
    let mut log = afternoon();
    log.shut_down();
    let old = files_of(&log).remove("control").unwrap();
    log.now_ms = clock(15, 0, 0, 0);
    log.reopen();
    let mut files = files_of(&log);
    files.insert("control".to_owned(), old);
    files
}

/// `control` is a directory: no read of it can succeed, whoever reads.
fn unreadable() -> Files {
    let mut files = clean();
    let control = files.remove("control").unwrap();
    files.insert("control/control".to_owned(), control);
    files
}

// Looking into bytes.

fn segments(files: &Files) -> Vec<String> {
    let names = files.keys().filter(|name| name.starts_with("wal/"));
    names.cloned().collect()
}

fn newest(files: &mut Files) -> &mut Vec<u8> {
    let name = segments(files).pop().unwrap();
    files.get_mut(&name).unwrap()
}

/// Where the first `needle` begins, and its range.
fn find(bytes: &[u8], needle: &[u8]) -> (usize, std::ops::Range<usize>) {
    let at = bytes.windows(needle.len()).position(|window| window == needle);
    let at = at.expect("the bytes are there");
    (at, at..at + needle.len())
}

/// Offset and header of each frame of a segment.
fn frames(segment: &[u8]) -> Vec<(usize, FrameHeader)> {
    let salt = SegmentHeader::decode(segment).unwrap().salt;
    let mut at = SEGMENT_HEADER_BYTES;
    let mut found = Vec::new();
    while let Some(frame) = segment.get(at..).and_then(|rest| FrameHeader::decode(rest, salt)) {
        found.push((at, frame));
        at += usize::try_from(frame.frame_bytes()).unwrap();
    }
    found
}
