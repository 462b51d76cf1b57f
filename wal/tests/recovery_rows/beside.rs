//! What stands beside a verdict: snapshots, header copies, leftovers, copies of what was cut.

use crate::history::{Node, Policy, Read, Truth, begin, begin_key, judge_disk};
use idem_protocol::Epoch;
use idem_protocol::control::Control;
use idem_wal::recovery::{FindingKind, Row};
use idem_wal::storage::Dir;
use idem_wal::storage::sim::SimDisk;

use crate::logs::*;

#[test]
fn a_damaged_snapshot_falls_back_to_the_other_one() {
    for (what, damage) in [
        (
            "a bit",
            (|bytes: &mut Vec<u8>| bytes[60] ^= 1) as fn(&mut Vec<u8>),
        ),
        ("0 bytes", |bytes| bytes.clear()),
        ("1 byte", |bytes| bytes.truncate(1)),
        ("a half", |bytes| bytes.truncate(bytes.len() / 2)),
        ("one byte too many", |bytes| bytes.push(0)),
    ] {
        let (disk, truth) = log_with_snapshots();
        let names = snapshots(&disk);
        assert_eq!(names.len(), 2);
        disk.change(Dir::Snap, &names[1], damage);
        let judgement = judge_disk(&disk, &mut Read::default());
        assert_eq!(
            judgement.snapshot.as_ref().map(|used| used.name.clone()),
            Some(names[0].clone()),
            "{what}"
        );
        assert!(
            judgement
                .findings
                .iter()
                .any(|finding| finding.kind == FindingKind::Beside)
        );
        expect(&format!("{what} of the newer snapshot"), &disk, &truth, Row::B);
    }
}

#[test]
fn a_snapshot_of_another_history_is_not_used() {
    let (disk, truth) = log_with_snapshots();
    let name = snapshots(&disk)[1].clone();
    // The CRC of the record at its end, in an otherwise undamaged file: what a log that was cut and went on looks like.
    disk.change(Dir::Snap, &name, |bytes| {
        let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let trailer = (44..bytes.len() - 8)
            .find(|at| word(bytes, *at) == u32::MAX && at + 8 + word(bytes, at + 4) as usize == bytes.len())
            .unwrap();
        bytes[trailer + 8 + 24] ^= 1;
        let length = bytes.len() - 4;
        let crc = crc32fast::hash(&bytes[..length]);
        bytes[length..].copy_from_slice(&crc.to_le_bytes());
    });
    let judgement = judge_disk(&disk, &mut Read::default());
    assert_ne!(
        judgement.snapshot.as_ref().map(|used| used.name.clone()),
        Some(name)
    );
    expect("a contradicted snapshot", &disk, &truth, Row::B);
}

#[test]
fn a_newest_segment_that_was_cut_short_is_named() {
    // What the rows make of it is in the table; that the file is too short for what was written is said in any case.
    let named = |disk: &SimDisk| {
        let findings = judge_disk(disk, &mut Read::default()).findings;
        let mut short = findings
            .iter()
            .filter(|finding| finding.message.contains("cut short"));
        short
            .next()
            .is_some_and(|finding| finding.kind == FindingKind::Beside)
    };
    for clean in [false, true] {
        let (disk, _) = log(clean);
        assert!(!named(&disk), "a whole file");
        for (at, frame) in frames(&disk, &newest(&disk)) {
            let end = at + usize::try_from(frame.frame_bytes()).unwrap();
            for length in [at + 32, end, end + 8] {
                let cut = SimDisk::from_image(&disk.image());
                cut.truncate(Dir::Wal, &newest(&disk), length);
                // Behind a seal the file may end; a seal is whole with its header.
                assert_eq!(named(&cut), !frame.seal, "frame at {at}, cut to {length}");
            }
        }
    }
}

#[test]
fn a_gap_below_the_snapshot_is_named() {
    let disk = SimDisk::new();
    let mut truth = Truth::default();
    let Ok(mut node) = Node::start(&disk, Policy::Always, 7) else {
        panic!("a new directory starts")
    };
    node.note_start(&mut truth, &disk);
    for number in 0..80 {
        let key = begin_key(number, 10);
        node.group(&mut truth, &[begin(&key), begin(&key)])
            .unwrap_or_else(|end| panic!("{end:?}"));
    }
    for _ in 0..3 {
        node.snapshot_step(&mut truth)
            .unwrap_or_else(|end| panic!("{end:?}"));
    }
    drop(node);
    disk.settle();
    disk.kill();
    let gap = |disk: &SimDisk| {
        let judgement = judge_disk(disk, &mut Read::default());
        let found = judgement
            .findings
            .iter()
            .any(|finding| finding.message.contains("is missing"));
        (judgement.row, found)
    };
    assert!(segments(&disk).len() > 3, "{:?}", segments(&disk));
    assert_eq!(gap(&disk), (Row::B, false));
    assert!(judge_disk(&disk, &mut Read::default()).unjudged_segments.len() >= 2);
    disk.remove(Dir::Wal, &segments(&disk)[1]);
    assert_eq!(gap(&disk), (Row::B, true));
}

#[test]
fn one_good_header_copy_is_enough() {
    for copy in [0, 2048] {
        let (disk, truth) = log(false);
        disk.flip(Dir::Wal, &newest(&disk), copy + 60, 1);
        let judgement = judge_disk(&disk, &mut Read::default());
        assert!(
            judgement
                .findings
                .iter()
                .any(|finding| finding.kind == FindingKind::Beside)
        );
        expect("one bad header copy", &disk, &truth, Row::B);
    }
}

#[test]
fn leftovers_of_every_temporary_name_are_removed_and_never_used() {
    let (disk, truth) = log(false);
    let valid = disk.bytes(Dir::Wal, &newest(&disk)).unwrap();
    for content in [Vec::new(), vec![1; 100], valid] {
        for (dir, name) in [
            (Dir::Root, "control.tmp"),
            (Dir::Wal, "new.tmp"),
            (Dir::Wal, "spare-0"),
            (Dir::Wal, "spare-77"),
            (Dir::Snap, "00000000000000000009.tmp"),
        ] {
            disk.put(dir, name, &content);
        }
        expect("leftovers", &disk, &truth, Row::B);
        let left: Vec<_> = disk
            .contents()
            .into_keys()
            .filter(|(_, name)| name.ends_with(".tmp") || name.starts_with("spare"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn the_seventeenth_cut_removes_the_oldest_copy() {
    let (disk, truth) = log(false);
    for _ in 0..20 {
        let at = used(&disk);
        disk.overwrite(Dir::Wal, &newest(&disk), at, b"junk");
        expect("junk", &disk, &truth, Row::E);
    }
    let cuts = disk
        .names(Dir::Wal)
        .into_iter()
        .filter(|name| name.starts_with("cut-"))
        .count();
    assert_eq!(cuts, 16);
}

#[test]
fn a_log_whose_epoch_was_not_noted_yet_knows_it_from_its_record() {
    let (disk, truth) = log(false);
    set_control(&disk, |control| control.history.clear());
    expect("an epoch without its history entry", &disk, &truth, Row::B);
    let control = Control::decode(&disk.bytes(Dir::Root, "control").unwrap()).unwrap();
    let numbers: Vec<u64> = control.history.iter().map(|entry| entry.epoch.number).collect();
    assert_eq!(numbers, [1, 2]);
    assert!(
        control
            .history
            .iter()
            .all(|entry| entry.epoch != Epoch::default())
    );
}
