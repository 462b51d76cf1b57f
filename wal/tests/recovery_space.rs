//! Goal: a start that cannot have the space it needs says for what and how many bytes, and leaves the log as it was; with
//! space it starts. A live directory is vouched for up to what a sync had covered, and no further.
//!
//! Method: a log that needs a copy, a control file and a segment, with so many bytes of free space.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions"
)]

mod history;

use history::{Node, Policy, Read, Truth, begin, begin_key, entropy, judge_disk};
use idem_protocol::UnixMs;
use idem_wal::recovery::{Ignore, JudgeOptions, OpenError, OpenParams, Row, Verdict, judge, open};
use idem_wal::storage::sim::{SimDisk, SplitMix};
use idem_wal::storage::{Dir, DiskStorage};

/// A log whose newest segment is nearly full, with junk of `junk` bytes behind it.
fn full_log(junk: usize) -> SimDisk {
    let disk = SimDisk::new();
    let mut truth = Truth::default();
    let Ok(mut node) = Node::start(&disk, Policy::Always, 7) else {
        panic!("a new directory starts")
    };
    node.note_start(&mut truth, &disk);
    // The segment takes 2048 bytes: EpochStart's 112, then this, then neither a further record nor its seal.
    let key = begin_key(1, 1_650);
    node.group(&mut truth, &[begin(&key)])
        .unwrap_or_else(|end| panic!("{end:?}"));
    drop(node);
    let name = disk
        .names(Dir::Wal)
        .into_iter()
        .find(|name| name.ends_with(".wal"))
        .unwrap();
    let bytes = disk.bytes(Dir::Wal, &name).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut chance = SplitMix(3);
    disk.change(Dir::Wal, &name, |bytes| {
        let at = used.next_multiple_of(8);
        bytes.resize(bytes.len().max(at + junk), 0);
        for byte in &mut bytes[at..at + junk] {
            *byte = 1 + u8::try_from(chance.below(200)).unwrap();
        }
    });
    disk.settle();
    disk.kill();
    disk
}

fn open_disk(disk: &SimDisk) -> Result<(), OpenError> {
    let options = JudgeOptions {
        retain_tail: true,
        ..JudgeOptions::default()
    };
    let judgement = judge(&disk.storage(), &options, &mut Ignore);
    assert!(judgement.verdict.starts());
    let params = OpenParams {
        now: UnixMs::new(9_999),
        segment_bytes: history::SEGMENT_BYTES,
        entropy: entropy(5),
    };
    open(&disk.storage(), judgement, params).map(|_| ())
}

#[test]
fn without_space_nothing_changes_and_the_bytes_are_named() {
    for junk in [0, 100] {
        let image = full_log(junk).image();
        let mut started = false;
        let mut refusals = std::collections::BTreeSet::new();
        for space in (0..16_000).step_by(64) {
            let disk = SimDisk::from_image(&image);
            let mut before = disk.contents();
            disk.set_space(Some(space));
            match open_disk(&disk) {
                Ok(()) => started = true,
                Err(OpenError::NoSpace { what, bytes, .. }) => {
                    assert!(!started, "{space} bytes are too few, fewer were enough");
                    assert!(bytes > 0, "{what} names no bytes");
                    refusals.insert(what);
                    let mut after = disk.contents();
                    // Removing leftovers is all that a start may have done.
                    before.retain(|(dir, name), _| *dir != Dir::Root || name == "control");
                    after.retain(|(dir, name), _| *dir != Dir::Root || name == "control");
                    before.retain(|(_, name), _| !name.starts_with("spare-"));
                    after.retain(|(_, name), _| !name.starts_with("spare-"));
                    assert_eq!(after, before, "junk {junk}, {space} bytes of space");
                }
                Err(other) => panic!("junk {junk}, {space} bytes of space: {other}"),
            }
        }
        assert!(started, "with enough space it starts");
        assert!(!refusals.is_empty(), "without any it does not");
    }
}

#[test]
fn a_new_directory_without_space_names_the_bytes() {
    let disk = SimDisk::new();
    disk.set_space(Some(1000));
    assert!(
        matches!(open_disk(&disk), Err(OpenError::NoSpace { bytes, .. }) if bytes == history::SEGMENT_BYTES)
    );
    assert!(disk.names(Dir::Wal).is_empty(), "{:?}", disk.names(Dir::Wal));
    disk.set_space(None);
    open_disk(&disk).unwrap();
}

#[test]
fn a_live_directory_is_vouched_for_up_to_the_newest_mark() {
    let disk = SimDisk::new();
    let mut truth = Truth::default();
    let Ok(mut node) = Node::start(&disk, Policy::No, 7) else {
        panic!("a new directory starts")
    };
    node.note_start(&mut truth, &disk);
    let options = JudgeOptions {
        live: true,
        ..JudgeOptions::default()
    };
    for number in 0..40 {
        let key = begin_key(number, 10);
        node.group(&mut truth, &[begin(&key)])
            .unwrap_or_else(|end| panic!("{end:?}"));
        if number % 5 == 0 {
            node.sync(&mut truth).unwrap_or_else(|end| panic!("{end:?}"));
        }
        let judgement = judge(&disk.storage(), &options, &mut Ignore);
        assert!(judgement.live);
        assert_eq!(judgement.verdict, Verdict::Clean);
        assert!(
            judgement.end_lsn <= node.writer.synced(),
            "only what a sync covered is vouched for"
        );
        // A torn write in progress is no finding.
        let name = disk
            .names(Dir::Wal)
            .into_iter()
            .rfind(|name| name.ends_with(".wal"))
            .unwrap();
        let other = SimDisk::from_image(&disk.image());
        let used = other
            .bytes(Dir::Wal, &name)
            .unwrap()
            .iter()
            .rposition(|byte| *byte != 0)
            .unwrap();
        other.change(Dir::Wal, &name, |bytes| bytes[used - 20..].fill(0));
        let torn = judge(&other.storage(), &options, &mut Ignore);
        if node.writer.synced() < node.writer.written() {
            assert_eq!(torn.verdict, Verdict::Clean, "{:?}", torn.findings);
            assert!(torn.reasons().next().is_none());
        }
    }
    // Damage below the newest mark is damage, live or not.
    let name = disk.names(Dir::Wal)[0].clone();
    disk.flip(Dir::Wal, &name, 4096 + 60, 1);
    assert_eq!(judge(&disk.storage(), &options, &mut Ignore).row, Row::F);
    assert_eq!(judge_disk(&disk, &mut Read::default()).row, Row::F);
}

/// Of a sparse segment with junk far behind its end, the copy has the same bytes and takes up as little.
#[test]
fn the_copy_of_a_sparse_tail_is_sparse() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let directory = tempfile::tempdir().unwrap();
    let storage = DiskStorage::open(directory.path()).unwrap();
    let start = || {
        let options = JudgeOptions {
            retain_tail: true,
            ..JudgeOptions::default()
        };
        let judgement = judge(&storage, &options, &mut Ignore);
        let params = OpenParams {
            now: UnixMs::new(9_999),
            segment_bytes: history::SEGMENT_BYTES,
            entropy: entropy(5),
        };
        let row = judgement.row;
        let end = judgement.end.as_ref().map(|end| end.offset);
        open(&storage, judgement, params).unwrap();
        (row, end)
    };
    assert_eq!(start().0, Row::New);
    let wal = directory.path().join("wal");
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(wal.join("00000000000000000000.wal"))
        .unwrap();
    const BYTES: u64 = 64 << 20;
    file.write_all_at(b"junk", BYTES - 4).unwrap();
    file.write_all_at(b"more of it", BYTES / 2).unwrap();
    let (row, end) = start();
    assert_eq!(row, Row::E);
    let names = std::fs::read_dir(&wal)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let copy = names
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "bin"))
        .unwrap();
    let bytes = std::fs::read(&copy).unwrap();
    let at = |offset: u64| usize::try_from(offset - end.unwrap()).unwrap();
    assert_eq!(bytes.len(), at(BYTES));
    let mut expected = vec![0; bytes.len()];
    expected[at(BYTES - 4)..].copy_from_slice(b"junk");
    expected[at(BYTES / 2)..at(BYTES / 2 + 10)].copy_from_slice(b"more of it");
    assert!(bytes == expected);
    let held = std::fs::metadata(&copy).unwrap().blocks() * 512;
    assert!(held < 1 << 20, "{held}");
}
