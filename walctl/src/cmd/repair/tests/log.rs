//! Small logs on the simulated disk, made with the log's own writer, and ways to damage them.

use idem_protocol::control::Control;
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::{FrameHeader, Record, SegmentHeader};
use idem_protocol::{Deadline, Lsn, UnixMs};
use idem_wal::batch::{NotReserved, Spare};
use idem_wal::housekeeping::{Chore, Housekeeper, HousekeepingParams};
use idem_wal::recovery::{Ignore, JudgeOptions, Judgement, OpenParams, judge, open};
use idem_wal::segment::make_spare;
use idem_wal::snapshot::SnapshotWriter;
use idem_wal::storage::sim::{SimDisk, SimStorage, SplitMix};
use idem_wal::storage::{Dir, Storage};

use super::super::judge_all;

/// Segments of so many bytes, header included: a handful of groups.
const SEGMENT_BYTES: u64 = 4096 + 2048;
/// Groups of a log; two records each.
pub(super) const GROUPS: u64 = 45;

fn entropy(seed: u64) -> Box<dyn FnMut() -> [u8; 16] + Send> {
    let mut chance = SplitMix(seed);
    Box::new(move || {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&chance.next_u64().to_le_bytes());
        bytes[8..].copy_from_slice(&chance.next_u64().to_le_bytes());
        bytes
    })
}

fn put(key: &[u8]) -> Record<'_> {
    Record::StringPut {
        key,
        deadline: Deadline::NONE,
        value: b"value of some length",
    }
}

/// A start as the server makes it; an error in words when the verdict refuses.
pub(super) fn start(storage: &SimStorage) -> Result<idem_wal::recovery::Opened<SimStorage>, String> {
    let options = JudgeOptions {
        retain_tail: true,
        ..JudgeOptions::default()
    };
    let judgement = judge(storage, &options, &mut Ignore);
    let params = OpenParams {
        now: UnixMs::new(1_000),
        segment_bytes: SEGMENT_BYTES,
        entropy: entropy(7),
    };
    open(storage, judgement, params).map_err(|error| error.to_string())
}

/// Three or more segments; after these numbers of groups, a snapshot each. Groups are synced when asked for.
pub(super) fn log(clean: bool, snapshots: &[u64]) -> SimDisk {
    written(clean, snapshots, GROUPS, true)
}

pub(super) fn written(clean: bool, snapshots: &[u64], groups: u64, synced: bool) -> SimDisk {
    let disk = SimDisk::new();
    let storage = disk.storage();
    let mut opened = start(&storage).unwrap();
    let params = HousekeepingParams {
        keep_bytes: 1 << 30,
        first_spare: 1_000,
    };
    let mut keeper = Housekeeper::new(storage.clone(), opened.control.clone(), params);
    for number in 0..groups {
        let key = format!("key-{number}").into_bytes();
        let bytes = put(&key).encoded_len() * 2;
        if let Err(NotReserved::NeedsSpare { bytes }) = opened.batch.reserve(bytes) {
            let spare = Spare {
                number: u32::try_from(number).unwrap(),
                bytes,
            };
            make_spare(&storage, spare, &mut || {}).unwrap();
            opened.batch.spare_ready(spare);
            opened.batch.reserve(bytes - 4096).ok();
        }
        opened.batch.reserve(bytes).unwrap();
        for _ in 0..2 {
            opened.batch.append(UnixMs::new(1_000 + number), 0, &put(&key));
        }
        let mut group = opened.batch.take(Vec::new()).unwrap();
        opened.writer.write(&mut group).unwrap();
        if synced {
            opened.writer.sync().unwrap();
        }
        if snapshots.contains(&number) {
            let cluster = opened.control.read().cluster;
            let begin = opened.batch.appended();
            let mut writer = SnapshotWriter::begin(storage.clone(), cluster, begin).unwrap();
            let mut item = Vec::new();
            put(b"key").encode(begin, UnixMs::new(1_000 + number), 0, &mut item);
            writer.items(&item).unwrap();
            let finished = writer
                .finish(&SnapshotTrailer {
                    end_lsn: begin,
                    epoch: opened.epoch,
                    end_crc: opened.batch.last_record_crc(),
                    log_time: UnixMs::new(1_000 + number),
                    history: opened.control.read().history,
                    databases: vec![(0, 1)],
                    ..SnapshotTrailer::default()
                })
                .unwrap();
            let chore = Chore::PublishSnapshot {
                temporary: finished.temporary,
                start: finished.start,
                end: finished.end,
            };
            keeper.handle(chore, &|_| {}).unwrap();
        }
    }
    if clean {
        opened.writer.shut_down().unwrap();
    }
    disk.settle();
    disk.kill();
    disk
}

pub(super) fn verdict(disk: &SimDisk) -> Judgement {
    judge_all(&disk.storage())
}

pub(super) fn segments(disk: &SimDisk) -> Vec<String> {
    let mut names = disk.names(Dir::Wal);
    names.retain(|name| name.ends_with(".wal"));
    names
}

pub(super) fn newest(disk: &SimDisk) -> String {
    segments(disk).pop().unwrap()
}

pub(super) fn header(disk: &SimDisk, name: &str) -> SegmentHeader {
    SegmentHeader::decode(&disk.bytes(Dir::Wal, name).unwrap()).unwrap()
}

/// Offset and header of each frame of a segment.
pub(super) fn frames(disk: &SimDisk, name: &str) -> Vec<(usize, FrameHeader)> {
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

/// Where the last frame of a segment ends.
pub(super) fn used(disk: &SimDisk, name: &str) -> (usize, Lsn) {
    let (at, last) = *frames(disk, name).last().unwrap();
    (
        at + usize::try_from(last.frame_bytes()).unwrap(),
        last.end().unwrap(),
    )
}

/// A frame of one record behind the last one of a segment.
pub(super) fn append(
    disk: &SimDisk,
    name: &str,
    time: u64,
    change: impl FnOnce(&mut FrameHeader, &mut Vec<u8>),
) {
    let (at, end) = used(disk, name);
    let mut payload = Vec::new();
    put(b"crafted").encode(end, UnixMs::new(time), 0, &mut payload);
    let mut frame = FrameHeader {
        payload_bytes: u32::try_from(payload.len()).unwrap(),
        lsn: end,
        synced: end,
        count: 1,
        seal: false,
    };
    change(&mut frame, &mut payload);
    let mut bytes = frame.encode(header(disk, name).salt).to_vec();
    bytes.extend_from_slice(&payload);
    disk.overwrite(Dir::Wal, name, at, &bytes);
}

pub(super) fn set_control(disk: &SimDisk, change: impl FnOnce(&mut Control)) {
    let mut control = Control::decode(&disk.bytes(Dir::Root, "control").unwrap()).unwrap();
    change(&mut control);
    disk.change(Dir::Root, "control", |bytes| *bytes = control.encode());
}

/// The disk of a vault: an empty data directory.
pub(super) fn empty() -> SimDisk {
    let disk = SimDisk::new();
    disk.storage().create_dir(Dir::Wal).unwrap();
    disk
}
