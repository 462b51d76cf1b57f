//! Goal: every row of the recovery table is reached by the damage that it names, and a refused directory stays as it is.
//!
//! Method: a small real log (three segments, snapshots where asked for), one damage, one expected letter.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions"
)]

mod history;

use history::{Node, Policy, Read, Truth, begin, begin_key, judge_disk};
use idem_protocol::Lsn;
use idem_protocol::control::Control;
use idem_protocol::snapshot::SNAPSHOT_HEADER_BYTES;
use idem_protocol::wal::{FrameHeader, Record, Salt, SegmentHeader, segment_name};
use idem_protocol::{ClusterId, Deadline, Epoch, NodeId, UnixMs};
use idem_wal::recovery::{FindingKind, Row, Verdict};
use idem_wal::storage::Dir;
use idem_wal::storage::sim::SimDisk;

/// A log with three segments, written under `always`; closed cleanly when asked for.
fn log(clean: bool) -> (SimDisk, Truth) {
    let disk = SimDisk::new();
    let mut truth = Truth::default();
    let Ok(mut node) = Node::start(&disk, Policy::Always, 7) else {
        panic!("a new directory starts")
    };
    node.note_start(&mut truth, &disk);
    for number in 0..45 {
        let key = begin_key(number, 10);
        node.group(&mut truth, &[begin(&key), begin(&key)])
            .unwrap_or_else(|end| panic!("{end:?}"));
    }
    if clean {
        node.shut_down(&mut truth).unwrap_or_else(|end| panic!("{end:?}"));
    }
    drop(node);
    disk.settle();
    disk.kill();
    (disk, truth)
}

/// As [`log`], with two published snapshots.
fn log_with_snapshots() -> (SimDisk, Truth) {
    let disk = SimDisk::new();
    let mut truth = Truth::default();
    let Ok(mut node) = Node::start(&disk, Policy::Always, 7) else {
        panic!("a new directory starts")
    };
    node.note_start(&mut truth, &disk);
    for number in 0..45 {
        let key = begin_key(number, 10);
        node.group(&mut truth, &[begin(&key), begin(&key)])
            .unwrap_or_else(|end| panic!("{end:?}"));
        if (23..26).contains(&number) || (33..36).contains(&number) {
            node.snapshot_step(&mut truth)
                .unwrap_or_else(|end| panic!("{end:?}"));
        }
    }
    drop(node);
    disk.settle();
    disk.kill();
    (disk, truth)
}

fn segments(disk: &SimDisk) -> Vec<String> {
    disk.names(Dir::Wal)
        .into_iter()
        .filter(|name| name.ends_with(".wal"))
        .collect()
}

fn snapshots(disk: &SimDisk) -> Vec<String> {
    disk.names(Dir::Snap)
        .into_iter()
        .filter(|name| name.ends_with(".snap"))
        .collect()
}

fn header(disk: &SimDisk, name: &str) -> SegmentHeader {
    SegmentHeader::decode(&disk.bytes(Dir::Wal, name).unwrap()).unwrap()
}

/// Offset, header and length of each frame in a segment.
fn frames(disk: &SimDisk, name: &str) -> Vec<(usize, FrameHeader)> {
    let bytes = disk.bytes(Dir::Wal, name).unwrap();
    let salt = header(disk, name).salt;
    let mut at = 4096;
    let mut found = Vec::new();
    while let Some(frame) = bytes.get(at..).and_then(|rest| FrameHeader::decode(rest, salt)) {
        found.push((at, frame));
        at += usize::try_from(frame.frame_bytes()).unwrap();
    }
    found
}

/// Writes a frame of one record at `at`, with a header of its own choice.
fn put_frame(disk: &SimDisk, name: &str, at: usize, frame: FrameHeader, payload: &[u8]) {
    let mut bytes = frame.encode(header(disk, name).salt).to_vec();
    bytes.extend_from_slice(payload);
    disk.overwrite(Dir::Wal, name, at, &bytes);
}

fn record(lsn: Lsn, time: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin(b"crafted").encode(lsn, UnixMs::new(time), 0, &mut bytes);
    bytes
}

/// A frame of these record bytes behind the last one of the log.
fn append_frame(disk: &SimDisk, payload: &[u8], change: impl FnOnce(&mut FrameHeader)) {
    let name = segments(disk).pop().unwrap();
    let (at, last) = *frames(disk, &name).last().unwrap();
    let end = last.end().unwrap();
    let mut frame = FrameHeader {
        payload_bytes: u32::try_from(payload.len()).unwrap(),
        lsn: end,
        synced: end,
        count: 1,
        seal: false,
    };
    change(&mut frame);
    put_frame(
        disk,
        &name,
        at + usize::try_from(last.frame_bytes()).unwrap(),
        frame,
        payload,
    );
}

fn end(disk: &SimDisk) -> Lsn {
    judge_disk(disk, &mut Read::default()).end_lsn
}

fn set_control(disk: &SimDisk, change: impl FnOnce(&mut Control)) {
    let mut control = Control::decode(&disk.bytes(Dir::Root, "control").unwrap()).unwrap();
    change(&mut control);
    disk.change(Dir::Root, "control", |bytes| *bytes = control.encode());
}

/// Judges, compares the letter, and sees what the server then does: a refusal changes nothing, anything else starts and
/// has everything below the end that was judged.
fn expect(what: &str, disk: &SimDisk, truth: &Truth, row: Row) {
    let before = disk.contents();
    let mut read = Read::default();
    let judgement = judge_disk(disk, &mut read);
    assert_eq!(judgement.row, row, "{what}: {:#?}", judgement.findings);
    assert_eq!(disk.contents(), before, "{what}: judging changed something");
    if row.refuses() || row.cuts() {
        assert!(judgement.reasons().next().is_some(), "{what}: no reason is given");
    }
    let started = Node::start(disk, Policy::Always, 99);
    assert_eq!(started.is_ok(), !row.refuses(), "{what}");
    if row.refuses() {
        assert_eq!(disk.contents(), before, "{what}: a refusal changed something");
        return;
    }
    for (lsn, bytes) in truth.records.range(..judgement.end_lsn) {
        if judgement
            .snapshot
            .as_ref()
            .is_none_or(|snapshot| *lsn >= snapshot.start)
        {
            assert_eq!(read.records.get(lsn), Some(bytes), "{what}: record {lsn}");
        }
    }
    // Whatever a start cut or wrote again, a second one finds a whole log.
    drop(started);
    disk.kill();
    let again = judge_disk(disk, &mut Read::default());
    assert!(
        matches!(again.row, Row::A | Row::B),
        "{what}: after the start {:?} {:#?}",
        again.row,
        again.findings
    );
    disk.power_loss(&mut |_| 0);
    let again = judge_disk(disk, &mut Read::default());
    assert!(
        matches!(again.row, Row::A | Row::B),
        "{what}: after a power loss {:?} {:#?}",
        again.row,
        again.findings
    );
    assert!(again.end_lsn > judgement.end_lsn, "{what}: EpochStart is on disk");
}

fn case(what: &str, clean: bool, row: Row, damage: impl FnOnce(&SimDisk)) {
    let (disk, truth) = log(clean);
    damage(&disk);
    expect(what, &disk, &truth, row);
}

fn newest(disk: &SimDisk) -> String {
    segments(disk).pop().unwrap()
}

/// Where the last frame of the newest segment ends.
fn used(disk: &SimDisk) -> usize {
    let (at, last) = *frames(disk, &newest(disk)).last().unwrap();
    at + usize::try_from(last.frame_bytes()).unwrap()
}

#[test]
fn a_and_b_nothing_follows_the_end() {
    case("a clean shutdown", true, Row::A, |_| {});
    case("a kill between groups", false, Row::B, |_| {});
    case("a tail of zeros was added", false, Row::B, |disk| {
        disk.append(Dir::Wal, &newest(disk), &vec![0; 4 << 20]);
    });
    case("the zeros behind the log are gone", false, Row::B, |disk| {
        let used = used(disk);
        disk.truncate(Dir::Wal, &newest(disk), used);
    });
    case(
        "the last group, not witnessed, reads as zeros",
        false,
        Row::B,
        |disk| {
            let (at, frame) = *frames(disk, &newest(disk)).last().unwrap();
            disk.overwrite(
                Dir::Wal,
                &newest(disk),
                at,
                &vec![0; usize::try_from(frame.frame_bytes()).unwrap()],
            );
        },
    );
}

#[test]
fn new_a_directory_that_was_being_made() {
    let empty = SimDisk::new();
    expect("an empty directory", &empty, &Truth::default(), Row::New);
    let (disk, _) = log(false);
    let names = segments(&disk);
    for name in &names[1..] {
        disk.remove(Dir::Wal, name);
    }
    disk.remove(Dir::Root, "control");
    disk.change(Dir::Wal, &names[0], |bytes| bytes[4096..].fill(0));
    disk.put(Dir::Wal, "new.tmp", b"left over");
    disk.put(Dir::Wal, "spare-3", b"left over");
    expect(
        "only the segment of lsn 0 with zeros",
        &disk,
        &Truth::default(),
        Row::New,
    );
    assert!(!disk.names(Dir::Wal).contains(&"spare-3".to_owned()));
}

#[test]
fn c_something_follows_a_clean_end() {
    case("one byte after a clean shutdown", true, Row::C, |disk| {
        let at = used(disk);
        disk.overwrite(Dir::Wal, &newest(disk), at + 3, b"x");
    });
    case("one byte appended to the file", true, Row::C, |disk| {
        disk.append(Dir::Wal, &newest(disk), b"x");
    });
}

#[test]
fn d_later_frames_promise_nothing_that_is_gone() {
    // Two groups after the last sync, the first of them torn: its successor's mark does not cover it.
    let disk = SimDisk::new();
    let mut truth = Truth::default();
    let Ok(mut node) = Node::start(&disk, Policy::No, 7) else {
        panic!("a new directory starts")
    };
    node.note_start(&mut truth, &disk);
    for number in 0..3 {
        let key = begin_key(number, 10);
        node.group(&mut truth, &[begin(&key)])
            .unwrap_or_else(|end| panic!("{end:?}"));
    }
    drop(node);
    disk.settle();
    disk.kill();
    let (at, _) = frames(&disk, &newest(&disk))[2];
    disk.flip(Dir::Wal, &newest(&disk), at + 40, 1);
    expect("a torn group before a whole one", &disk, &truth, Row::D);
}

#[test]
fn e_junk_that_nothing_vouches_for() {
    case("one junk byte after the log", false, Row::E, |disk| {
        let at = used(disk);
        disk.overwrite(Dir::Wal, &newest(disk), at + 100, b"x");
    });
    case("a frame header whose records are torn", false, Row::E, |disk| {
        let payload = record(end(disk), 5_000);
        append_frame(disk, &payload, |_| {});
        let at = used(disk) - 8;
        disk.flip(Dir::Wal, &newest(disk), at, 1);
    });
    for (what, length) in [("0", 0), ("1", 1), ("2^31", 1 << 31), ("2^32 - 1", u32::MAX)] {
        case(
            &format!("a frame of {what} payload bytes"),
            false,
            Row::E,
            |disk| {
                append_frame(disk, b"", |frame| frame.payload_bytes = length.max(1));
            },
        );
    }
    case("a frame of another segment's salt", false, Row::E, |disk| {
        let at = used(disk);
        let frame = FrameHeader {
            payload_bytes: 0,
            lsn: end(disk),
            synced: end(disk),
            count: 0,
            seal: true,
        };
        disk.overwrite(Dir::Wal, &newest(disk), at, &frame.encode(Salt(*b"othersal")));
    });
}

#[test]
fn f_what_is_gone_was_promised() {
    case(
        "a bit in a group that a later one vouches for",
        false,
        Row::F,
        |disk| {
            let (at, _) = frames(disk, &newest(disk))[1];
            disk.flip(Dir::Wal, &newest(disk), at + 50, 1);
        },
    );
    case("the header of such a group is zeroed", false, Row::F, |disk| {
        let (at, _) = frames(disk, &newest(disk))[1];
        disk.overwrite(Dir::Wal, &newest(disk), at, &[0; 32]);
    });
    case("a bit in a segment that has a successor", false, Row::F, |disk| {
        let first = segments(disk)[0].clone();
        let (at, _) = *frames(disk, &first).last().unwrap();
        disk.flip(Dir::Wal, &first, at + 50, 1);
    });
    case("the clean mark promises more", true, Row::F, |disk| {
        let name = newest(disk);
        let frames = frames(disk, &name);
        // The last group and the seal behind it read as zeros.
        let (at, _) = frames[frames.len() - 2];
        let length = used(disk) - at;
        disk.overwrite(Dir::Wal, &name, at, &vec![0; length]);
    });
    case("the history of epochs promises more", false, Row::F, |disk| {
        let end = end(disk);
        set_control(disk, |control| {
            let mut entry = control.history[0];
            entry.first_lsn = end.plus(64);
            control.history.push(entry);
        });
    });
    case(
        "both header copies of the newest segment are gone",
        false,
        Row::F,
        |disk| {
            disk.overwrite(Dir::Wal, &newest(disk), 0, &[0; 4096]);
        },
    );
    case("the successor vouches for other bytes", false, Row::F, |disk| {
        let name = newest(disk);
        let mut header = header(disk, &name);
        header.predecessor.as_mut().unwrap().crc ^= 1;
        disk.overwrite(Dir::Wal, &name, 0, &header.encode_page());
    });
    case("a seal is missing before a later frame", false, Row::F, |disk| {
        let at = used(disk) + 32;
        let end = end(disk);
        let payload = record(end, 5_000);
        let frame = FrameHeader {
            payload_bytes: u32::try_from(payload.len()).unwrap(),
            lsn: end,
            synced: end,
            count: 1,
            seal: false,
        };
        put_frame(disk, &newest(disk), at, frame, &payload);
    });
    let (disk, truth) = log_with_snapshots();
    let name = newest(&disk);
    let from = frames(&disk, &name).first().map_or(4096, |(at, _)| *at);
    disk.change(Dir::Wal, &name, |bytes| bytes[from..].fill(0));
    let row = judge_disk(&disk, &mut Read::default()).row;
    if row != Row::F {
        // The snapshot ends before the newest segment: damage what it vouches for instead.
        let before = segments(&disk).into_iter().nth_back(1).unwrap();
        let (at, _) = *frames(&disk, &before).last().unwrap();
        disk.flip(Dir::Wal, &before, at + 40, 1);
    }
    expect("a snapshot promises more", &disk, &truth, Row::F);
}

#[test]
fn g_something_is_missing() {
    case("a segment in the middle", false, Row::G, |disk| {
        let names = segments(disk);
        assert!(names.len() >= 3, "{names:?}");
        disk.remove(Dir::Wal, &names[1]);
    });
    case("the newest segment, which control names", false, Row::G, |disk| {
        disk.remove(Dir::Wal, &newest(disk));
    });
    case("the first segment", false, Row::G, |disk| {
        let first = segments(disk)[0].clone();
        disk.remove(Dir::Wal, &first);
    });
    case("all segments", false, Row::G, |disk| {
        for name in segments(disk) {
            disk.remove(Dir::Wal, &name);
        }
    });
    case("the control file", false, Row::G, |disk| {
        disk.remove(Dir::Root, "control");
    });
    for length in [0, 1, 15, 100] {
        case(
            &format!("the control file is cut to {length} bytes"),
            false,
            Row::G,
            |disk| {
                disk.truncate(Dir::Root, "control", length);
            },
        );
    }
    case("a bit of the control file", false, Row::G, |disk| {
        disk.flip(Dir::Root, "control", 30, 4);
    });
    case("a segment under another one's name", false, Row::G, |disk| {
        let names = segments(disk);
        let bytes = disk.bytes(Dir::Wal, &names[0]).unwrap();
        disk.change(Dir::Wal, &names[1], |file| *file = bytes);
    });
    case("two segments swapped", false, Row::G, |disk| {
        let names = segments(disk);
        disk.swap(Dir::Wal, &names[0], &names[1]);
    });
    case("a name that is none", false, Row::G, |disk| {
        disk.put(Dir::Wal, "backup.wal", b"");
    });
    for length in [0, 1, 4095] {
        case(
            &format!("a middle segment is cut to {length} bytes"),
            false,
            Row::G,
            |disk| {
                let name = segments(disk)[1].clone();
                disk.truncate(Dir::Wal, &name, length);
            },
        );
    }
    let (disk, truth) = log_with_snapshots();
    assert!(
        !segments(&disk).contains(&segment_name(Lsn::ZERO)),
        "the log was cleaned behind its snapshots"
    );
    for name in snapshots(&disk) {
        disk.remove(Dir::Snap, &name);
    }
    expect(
        "a log that begins above 0, without a snapshot",
        &disk,
        &truth,
        Row::G,
    );
}

#[test]
fn h_foreign_or_newer() {
    let other_node = |disk: &SimDisk, change: fn(&mut SegmentHeader)| {
        let name = newest(disk);
        let mut header = header(disk, &name);
        change(&mut header);
        disk.overwrite(Dir::Wal, &name, 0, &header.encode_page());
    };
    case("another node's segment", false, Row::H, |disk| {
        other_node(disk, |header| header.node = NodeId([9; 16]));
    });
    case("another cluster's segment", false, Row::H, |disk| {
        other_node(disk, |header| header.cluster = ClusterId([9; 16]));
    });
    case("a segment of a newer format", false, Row::H, |disk| {
        let name = newest(disk);
        let mut copy = header(disk, &name).encode();
        copy[8] = 2;
        let crc = crc32fast::hash(&copy[..100]);
        copy[100..].copy_from_slice(&crc.to_le_bytes());
        disk.overwrite(Dir::Wal, &name, 0, &copy);
        disk.overwrite(Dir::Wal, &name, 2048, &copy);
    });
    case("a control file of a newer format", false, Row::H, |disk| {
        disk.change(Dir::Root, "control", |bytes| {
            bytes[8] = 2;
            let length = bytes.len() - 4;
            let crc = crc32fast::hash(&bytes[..length]);
            bytes[length..].copy_from_slice(&crc.to_le_bytes());
        });
    });
    case("an unknown opcode", false, Row::H, |disk| {
        let mut payload = record(end(disk), 5_000);
        payload[22] = 99;
        let crc = {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&payload[..4]);
            hasher.update(&payload[8..]);
            hasher.finalize()
        };
        payload[4..8].copy_from_slice(&crc.to_le_bytes());
        append_frame(disk, &payload, |_| {});
    });
    let (disk, truth) = log_with_snapshots();
    let name = snapshots(&disk)[0].clone();
    disk.change(Dir::Snap, &name, |bytes| {
        bytes[16] ^= 1;
        let crc = crc32fast::hash(&bytes[..SNAPSHOT_HEADER_BYTES - 4]);
        bytes[SNAPSHOT_HEADER_BYTES - 4..SNAPSHOT_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    });
    expect("another cluster's snapshot", &disk, &truth, Row::H);
}

#[test]
fn i_a_read_fails() {
    let unreadable = |dir: Dir, pick: fn(&SimDisk) -> String| {
        let (disk, truth) = log(false);
        let name = pick(&disk);
        disk.fail_reads(dir, &name);
        let judgement = judge_disk(&disk, &mut Read::default());
        assert_eq!(judgement.row, Row::I, "{name}: {:#?}", judgement.findings);
        assert_eq!(judgement.verdict, Verdict::IoError);
        assert!(Node::start(&disk, Policy::Always, 1).is_err());
        let _ = truth;
    };
    unreadable(Dir::Root, |_| "control".to_owned());
    unreadable(Dir::Wal, newest);
    unreadable(Dir::Wal, |disk| segments(disk)[0].clone());
    let (disk, _) = log(false);
    disk.fail_list(Dir::Wal);
    assert_eq!(judge_disk(&disk, &mut Read::default()).row, Row::I);
}

#[test]
fn j_undamaged_and_impossible() {
    case("an lsn gap", false, Row::J, |disk| {
        let payload = record(end(disk).plus(8), 5_000);
        append_frame(disk, &payload, |frame| frame.lsn = frame.lsn.plus(8));
    });
    case("a mark above its own frame", false, Row::J, |disk| {
        let payload = record(end(disk), 5_000);
        append_frame(disk, &payload, |frame| frame.synced = frame.synced.plus(1));
    });
    case("a mark going back", false, Row::J, |disk| {
        let payload = record(end(disk), 5_000);
        append_frame(disk, &payload, |frame| frame.synced = Lsn::ZERO);
    });
    case("time going back", false, Row::J, |disk| {
        let payload = record(end(disk), 1);
        append_frame(disk, &payload, |_| {});
    });
    case("records after a clean shutdown", true, Row::J, |disk| {
        let payload = record(end(disk), 5_000);
        append_frame(disk, &payload, |_| {});
    });
    case("a group without records", false, Row::J, |disk| {
        append_frame(disk, b"", |frame| frame.count = 0);
    });
    case(
        "half a completion: opcode 53 without a deadline",
        false,
        Row::J,
        |disk| {
            let mut payload = Vec::new();
            let put = Record::StringPut {
                key: b"k",
                deadline: Deadline::NONE,
                value: b"",
            };
            put.encode(end(disk), UnixMs::new(5_000), 0, &mut payload);
            payload[22] = 53;
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&payload[..4]);
            hasher.update(&payload[8..]);
            let crc = hasher.finalize();
            payload[4..8].copy_from_slice(&crc.to_le_bytes());
            append_frame(disk, &payload, |_| {});
        },
    );
    case(
        "records beyond the end that the next segment names",
        false,
        Row::J,
        |disk| {
            let name = segments(disk)[1].clone();
            let (first, lsn) = (segments(disk)[0].clone(), header(disk, &name).first_lsn);
            let (at, last) = *frames(disk, &first).last().unwrap();
            let payload = record(lsn, 1_000_000);
            let frame = FrameHeader {
                payload_bytes: u32::try_from(payload.len()).unwrap(),
                lsn,
                synced: lsn,
                count: 1,
                seal: false,
            };
            put_frame(
                disk,
                &first,
                at + usize::try_from(last.frame_bytes()).unwrap(),
                frame,
                &payload,
            );
        },
    );
}

#[test]
fn k_a_newest_segment_that_was_never_born() {
    for length in [0, 1, 4095, 6144] {
        let (disk, truth) = log(false);
        let name = segment_name(end(&disk));
        disk.put(Dir::Wal, &name, &vec![0; length]);
        expect(
            &format!("an unborn segment of {length} bytes"),
            &disk,
            &truth,
            Row::B,
        );
        assert!(!disk.names(Dir::Wal).contains(&name), "it was moved aside");
        let aside = disk
            .names(Dir::Wal)
            .into_iter()
            .filter(|name| name.starts_with("cut-"))
            .count();
        assert_eq!(aside, 1);
    }
    let (disk, truth) = log(true);
    disk.put(Dir::Wal, &segment_name(end(&disk)), b"IDEMWAL1 half a header");
    expect("half a header and nothing after it", &disk, &truth, Row::A);
}

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
    assert!(judge_disk(&disk, &mut Read::default()).unjudged_segments >= 2);
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
