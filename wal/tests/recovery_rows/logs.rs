//! Small real logs, ways to look into them and to damage them, and the one check.

use crate::history::{Node, Policy, Read, Truth, begin, begin_key, judge_disk};
use idem_protocol::Lsn;
use idem_protocol::UnixMs;
use idem_protocol::control::Control;
use idem_protocol::wal::{FrameHeader, SegmentHeader};
use idem_wal::recovery::Row;
use idem_wal::storage::Dir;
use idem_wal::storage::sim::SimDisk;

/// A log with three segments, written under `always`; closed cleanly when asked for.
pub(crate) fn log(clean: bool) -> (SimDisk, Truth) {
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

/// As [`log`], with two published snapshots, and each group later than the one before.
pub(crate) fn log_with_snapshots() -> (SimDisk, Truth) {
    let disk = SimDisk::new();
    let mut truth = Truth::default();
    let Ok(mut node) = Node::start(&disk, Policy::Always, 7) else {
        panic!("a new directory starts")
    };
    node.note_start(&mut truth, &disk);
    for number in 0..45 {
        node.time += 1;
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

pub(crate) fn segments(disk: &SimDisk) -> Vec<String> {
    disk.names(Dir::Wal)
        .into_iter()
        .filter(|name| name.ends_with(".wal"))
        .collect()
}

pub(crate) fn snapshots(disk: &SimDisk) -> Vec<String> {
    disk.names(Dir::Snap)
        .into_iter()
        .filter(|name| name.ends_with(".snap"))
        .collect()
}

pub(crate) fn header(disk: &SimDisk, name: &str) -> SegmentHeader {
    SegmentHeader::decode(&disk.bytes(Dir::Wal, name).unwrap()).unwrap()
}

/// Offset, header and length of each frame in a segment.
pub(crate) fn frames(disk: &SimDisk, name: &str) -> Vec<(usize, FrameHeader)> {
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
pub(crate) fn put_frame(disk: &SimDisk, name: &str, at: usize, frame: FrameHeader, payload: &[u8]) {
    let mut bytes = frame.encode(header(disk, name).salt).to_vec();
    bytes.extend_from_slice(payload);
    disk.overwrite(Dir::Wal, name, at, &bytes);
}

pub(crate) fn record(lsn: Lsn, time: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin(b"crafted").encode(lsn, UnixMs::new(time), 0, &mut bytes);
    bytes
}

/// A frame of these record bytes behind the last one of the log.
pub(crate) fn append_frame(disk: &SimDisk, payload: &[u8], change: impl FnOnce(&mut FrameHeader)) {
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

pub(crate) fn end(disk: &SimDisk) -> Lsn {
    judge_disk(disk, &mut Read::default()).end_lsn
}

pub(crate) fn set_control(disk: &SimDisk, change: impl FnOnce(&mut Control)) {
    let mut control = Control::decode(&disk.bytes(Dir::Root, "control").unwrap()).unwrap();
    change(&mut control);
    disk.change(Dir::Root, "control", |bytes| *bytes = control.encode());
}

/// Judges, compares the letter, and sees what the server then does: a refusal changes nothing, anything else starts and
/// has everything below the end that was judged.
pub(crate) fn expect(what: &str, disk: &SimDisk, truth: &Truth, row: Row) {
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

pub(crate) fn case(what: &str, clean: bool, row: Row, damage: impl FnOnce(&SimDisk)) {
    let (disk, truth) = log(clean);
    damage(&disk);
    expect(what, &disk, &truth, row);
}

pub(crate) fn newest(disk: &SimDisk) -> String {
    segments(disk).pop().unwrap()
}

/// Where the last frame of the newest segment ends.
pub(crate) fn used(disk: &SimDisk) -> usize {
    let (at, last) = *frames(disk, &newest(disk)).last().unwrap();
    at + usize::try_from(last.frame_bytes()).unwrap()
}
