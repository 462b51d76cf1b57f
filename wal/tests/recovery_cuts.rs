//! Goal: whatever is done to the bytes of a small log, a start either refuses and changes nothing, or has every record
//! that anything intact still promises, byte for byte.
//!
//! Method: exhaustive. Every byte is a place to cut, to flip, to zero from; every sector is zeroed; every subset of the
//! unsynced pages of the last groups is lost; lengths in headers take the values that break readers. A sample of the
//! damaged logs goes through three rounds of start, write less, crash.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions"
)]

mod history;

use history::{Node, Policy, Read, Truth, begin, begin_key, complete, highest_promise, judge_disk};

use idem_protocol::wal::{FrameHeader, SegmentHeader};
use idem_wal::recovery::Row;
use idem_wal::storage::Dir;
use idem_wal::storage::sim::{Image, SimDisk, Unsynced};

/// A log of two segments in its last state before the machine stops.
fn log(policy: Policy, sealed: bool, groups: u64) -> (SimDisk, Truth) {
    let disk = SimDisk::with_page_bytes(512);
    let mut truth = Truth::default();
    let Ok(mut node) = Node::start(&disk, policy, 7) else {
        panic!("a new directory starts")
    };
    node.note_start(&mut truth, &disk);
    for number in 0..groups {
        let key = begin_key(number, 40);
        let result = vec![b'r'; usize::try_from(number % 7 * 30).unwrap()];
        node.group(&mut truth, &[begin(&key), complete(&key, &result)])
            .unwrap_or_else(|end| panic!("{end:?}"));
    }
    if sealed {
        node.seal(&mut truth).unwrap_or_else(|end| panic!("{end:?}"));
    }
    drop(node);
    (disk, truth)
}

fn newest(disk: &SimDisk) -> String {
    disk.names(Dir::Wal)
        .into_iter()
        .rfind(|name| name.ends_with(".wal"))
        .unwrap()
}

/// The rule, for one damaged disk.
fn check(what: &dyn Fn() -> String, disk: &SimDisk, truth: &Truth) -> Row {
    let before = disk.contents();
    let mut read = Read::default();
    let judgement = judge_disk(disk, &mut read);
    assert_eq!(disk.contents(), before, "{}: judging changed something", what());
    if judgement.row.refuses() {
        return judgement.row;
    }
    for (lsn, bytes) in &read.records {
        assert_eq!(truth.records.get(lsn), Some(bytes), "{}: record {lsn}", what());
    }
    let below = truth.records.range(..judgement.end_lsn).count();
    assert_eq!(
        below,
        read.records.len(),
        "{}: records are missing below the end",
        what()
    );
    let promised = highest_promise(disk);
    assert!(
        promised <= judgement.end_lsn,
        "{}: {:?} at {}, {promised} is promised",
        what(),
        judgement.row,
        judgement.end_lsn
    );
    judgement.row
}

/// Start, write less, crash, three times: what a cut left behind never comes back.
fn rounds(what: &dyn Fn() -> String, disk: &SimDisk, truth: &Truth) {
    let mut truth = truth.clone();
    for round in 0..3u64 {
        let before = disk.contents();
        let mut node = match Node::start(disk, Policy::Always, round) {
            Ok(node) => node,
            Err(_) => {
                assert_eq!(round, 0, "{}: refused after it had started", what());
                assert_eq!(disk.contents(), before, "{}: a refusal changed something", what());
                return;
            }
        };
        node.note_start(&mut truth, disk);
        let key = begin_key(round, 3);
        node.group(&mut truth, &[begin(&key)])
            .unwrap_or_else(|end| panic!("{}: {end:?}", what()));
        drop(node);
        if round % 2 == 0 {
            disk.kill();
        } else {
            disk.power_loss(&mut |_| 0);
        }
        let mut read = Read::default();
        let judgement = judge_disk(disk, &mut read);
        assert!(
            !judgement.row.refuses(),
            "{} round {round}: {:#?}",
            what(),
            judgement.findings
        );
        assert_eq!(read.records, truth.records, "{} round {round}", what());
    }
}

fn each(
    image: &Image,
    truth: &Truth,
    what: &str,
    count: usize,
    step: usize,
    damage: impl Fn(&SimDisk, usize),
) -> Vec<Row> {
    (0..count)
        .map(|index| {
            let disk = SimDisk::from_image(image);
            damage(&disk, index);
            let words = || format!("{what} {index}");
            let row = check(&words, &disk, truth);
            if index % step == 0 {
                rounds(&words, &disk, truth);
            }
            row
        })
        .collect()
}

fn logs() -> Vec<(String, SimDisk, Truth)> {
    let mut all = Vec::new();
    for (policy, sealed) in [
        (Policy::Always, false),
        (Policy::Always, true),
        (Policy::No, false),
    ] {
        let (disk, truth) = log(policy, sealed, 7);
        disk.settle();
        disk.kill();
        all.push((format!("{policy:?}, sealed {sealed}:"), disk, truth));
    }
    all
}

fn used(disk: &SimDisk, name: &str) -> usize {
    disk.bytes(Dir::Wal, name)
        .unwrap()
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

#[test]
fn cut_at_every_byte() {
    for (what, disk, truth) in logs() {
        let (name, image) = (newest(&disk), disk.image());
        let used = used(&disk, &name) + 16;
        each(&image, &truth, &format!("{what} cut to"), used, 61, |disk, at| {
            disk.truncate(Dir::Wal, &name, at);
        });
        // A torn write in a file that was zero-filled ahead: the rest reads as zeros.
        each(
            &image,
            &truth,
            &format!("{what} zeros from"),
            used,
            61,
            |disk, at| {
                disk.change(Dir::Wal, &name, |bytes| bytes[at..].fill(0));
            },
        );
    }
}

#[test]
fn flip_a_bit_of_every_byte() {
    for (what, disk, truth) in logs() {
        let image = disk.image();
        for name in disk
            .names(Dir::Wal)
            .into_iter()
            .filter(|name| name.ends_with(".wal"))
        {
            let used = used(&disk, &name) + 64;
            each(
                &image,
                &truth,
                &format!("{what} flip in {name} at"),
                used,
                97,
                |disk, at| {
                    disk.flip(Dir::Wal, &name, at, 1 << (at % 8));
                },
            );
        }
        let control = disk.bytes(Dir::Root, "control").unwrap().len();
        let rows = each(
            &image,
            &truth,
            &format!("{what} flip in control, bit"),
            control * 8,
            211,
            |disk, bit| {
                disk.flip(Dir::Root, "control", bit / 8, 1 << (bit % 8));
            },
        );
        assert!(
            rows.iter().all(|row| matches!(row, Row::G | Row::H)),
            "{what} a damaged control file refuses"
        );
    }
}

#[test]
fn flip_every_bit_of_every_frame_header() {
    for (what, disk, truth) in logs() {
        let (name, image) = (newest(&disk), disk.image());
        let bytes = disk.bytes(Dir::Wal, &name).unwrap();
        let salt = SegmentHeader::decode(&bytes).unwrap().salt;
        let headers: Vec<usize> = (4096..bytes.len())
            .step_by(8)
            .filter(|at| FrameHeader::decode(&bytes[*at..], salt).is_some())
            .collect();
        for at in headers {
            each(
                &image,
                &truth,
                &format!("{what} header at {at}, bit"),
                32 * 8,
                101,
                |disk, bit| {
                    disk.flip(Dir::Wal, &name, at + bit / 8, 1 << (bit % 8));
                },
            );
        }
    }
}

#[test]
fn zero_every_sector_and_every_run_of_sectors() {
    for (what, disk, truth) in logs() {
        let image = disk.image();
        for name in disk
            .names(Dir::Wal)
            .into_iter()
            .filter(|name| name.ends_with(".wal"))
        {
            let sectors = disk.bytes(Dir::Wal, &name).unwrap().len().div_ceil(512);
            for run in 1..=sectors {
                each(
                    &image,
                    &truth,
                    &format!("{what} {run} zero sectors of {name} from"),
                    sectors,
                    7,
                    |disk, sector| {
                        disk.change(Dir::Wal, &name, |bytes| {
                            let end = bytes.len().min((sector + run) * 512);
                            bytes[sector * 512..end].fill(0);
                        });
                    },
                );
            }
        }
    }
}

#[test]
fn append_zeros_and_junk() {
    for (what, disk, truth) in logs() {
        let image = disk.image();
        for name in disk
            .names(Dir::Wal)
            .into_iter()
            .filter(|name| name.ends_with(".wal"))
        {
            let lengths = [1, 7, 8, 511, 512, 4096, 1 << 16, 4 << 20];
            for byte in [0, 0xA5] {
                each(
                    &image,
                    &truth,
                    &format!("{what} {byte:#x} after {name}, length"),
                    lengths.len(),
                    3,
                    |disk, index| {
                        disk.append(Dir::Wal, &name, &vec![byte; lengths[index]]);
                    },
                );
            }
        }
    }
}

#[test]
fn lengths_that_break_readers_in_records_and_frames() {
    for (what, disk, truth) in logs() {
        let image = disk.image();
        for name in disk
            .names(Dir::Wal)
            .into_iter()
            .filter(|name| name.ends_with(".wal"))
        {
            let bytes = disk.bytes(Dir::Wal, &name).unwrap();
            let left = u32::try_from(bytes.len()).unwrap();
            let lengths = [0, 1, left - 1, left, left + 1, 1 << 31, u32::MAX];
            // Every aligned place, so every length field of every header among them.
            let places = (4096..used(&disk, &name)).step_by(4).count();
            for length in lengths {
                each(
                    &image,
                    &truth,
                    &format!("{what} length {length} in {name}, word"),
                    places,
                    149,
                    |disk, place| {
                        disk.overwrite(Dir::Wal, &name, 4096 + place * 4, &u32::to_le_bytes(length));
                    },
                );
            }
        }
    }
}

#[test]
fn every_subset_of_the_unsynced_pages() {
    for groups in 1..6 {
        let (disk, truth) = log(Policy::No, false, groups);
        let pages = disk.unsynced().len().min(10);
        let image = disk.image();
        for subset in 0..1usize << pages {
            let disk = SimDisk::from_image(&image);
            let mut index = 0;
            disk.power_loss(&mut |what: &Unsynced| {
                let kept = index >= pages || subset >> index & 1 == 1;
                index += 1;
                if kept { what.versions() } else { 0 }
            });
            let words = || format!("{groups} groups, pages {subset:b}");
            let row = check(&words, &disk, &truth);
            assert!(!row.refuses(), "{}: a power loss is no damage, {row:?}", words());
            assert!(
                judge_disk(&disk, &mut Read::default()).end_lsn >= truth.power,
                "{}",
                words()
            );
            if subset % 17 == 0 {
                rounds(&words, &disk, &truth);
            }
        }
    }
}

#[test]
fn sizes_around_a_segment() {
    // Records of the segment's capacity −1, =, +1 and three times it, and an end that is a segment's beginning.
    let capacity = usize::try_from(history::SEGMENT_BYTES).unwrap() - 4096;
    for size in [
        capacity - 65,
        capacity - 64,
        capacity - 63,
        capacity - 1,
        capacity,
        capacity + 1,
        capacity * 3,
    ] {
        let disk = SimDisk::new();
        let mut truth = Truth::default();
        let Ok(mut node) = Node::start(&disk, Policy::Always, 7) else {
            panic!("a new directory starts")
        };
        node.note_start(&mut truth, &disk);
        for number in 0..3 {
            let key = begin_key(number, 0);
            let empty = complete(&key, b"").encoded_len();
            let result = vec![b'x'; size - usize::try_from(empty).unwrap()];
            let record = complete(&key, &result);
            assert_eq!(record.encoded_len(), size as u64);
            node.group(&mut truth, &[record])
                .unwrap_or_else(|end| panic!("{end:?}"));
        }
        drop(node);
        disk.power_loss(&mut |_| 0);
        let words = || format!("records of {size} bytes");
        assert_eq!(check(&words, &disk, &truth), Row::B, "{}", words());
        rounds(&words, &disk, &truth);
    }
}

#[test]
fn a_second_failed_start_finds_what_the_first_one_left() {
    // A start that crashes after any number of operations, in a log that is cut, leaves nothing that the next one refuses.
    let (disk, truth) = log(Policy::No, false, 7);
    disk.settle();
    disk.kill();
    let name = newest(&disk);
    let at = used(&disk, &name) - 20;
    disk.flip(Dir::Wal, &name, at, 1);
    let image = disk.image();
    for operations in 0..200 {
        for keep in [0, usize::MAX] {
            let disk = SimDisk::from_image(&image);
            let end = judge_disk(&disk, &mut Read::default()).end_lsn;
            disk.crash_after(operations);
            let crashed = Node::start(&disk, Policy::Always, 3).is_err();
            disk.power_loss(&mut |_| keep);
            let mut read = Read::default();
            let judgement = judge_disk(&disk, &mut read);
            assert!(
                !judgement.row.refuses(),
                "after {operations}: {:#?}",
                judgement.findings
            );
            for (lsn, bytes) in truth.records.range(..end) {
                assert_eq!(read.records.get(lsn), Some(bytes), "after {operations}");
            }
            if !crashed {
                assert!(
                    judgement.end_lsn > end,
                    "EpochStart is on disk after a start that succeeded"
                );
            }
        }
    }
}
