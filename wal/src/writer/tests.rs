//! What is on disk, and in which order it got there.

use super::*;
use crate::batch::SEGMENT_BYTES_DEFAULT;
use crate::storage::sim::{SimDisk, SimStorage};
use crate::storage::{Dir, DiskStorage};
use crate::testing::{CLUSTER, EPOCH, NODE, SEGMENT_BYTES, TestLog, see_control, see_log, see_segment};

fn new_log() -> (SimDisk, TestLog<SimStorage>) {
    let disk = SimDisk::new();
    let log = TestLog::create(&disk.storage());
    (disk, log)
}

/// Everything the writer does in a life: groups, a rotation, a seal, a clean end.
fn a_short_life<S: Storage>(log: &mut TestLog<S>) {
    log.write(5).unwrap();
    log.writer.sync().unwrap();
    log.write(0).unwrap();
    log.writer.sync().unwrap();
    log.batch.take_seal().unwrap();
    log.writer.seal().unwrap();
    log.write(3790).unwrap();
    log.make_spare(SEGMENT_BYTES);
    log.write(100).unwrap();
    log.writer.shut_down().unwrap();
}

#[test]
fn the_bytes_of_a_log_are_pinned() {
    let (disk, mut log) = new_log();
    a_short_life(&mut log);
    let golden = include_str!("../../testdata/short-life.hex");
    let mut expected = golden
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    for name in disk.names(Dir::Wal) {
        assert_eq!(expected.next(), Some(name.as_str()));
        let bytes = disk.bytes(Dir::Wal, &name).unwrap();
        let mut at = 0;
        while let Some(line) = expected.clone().next().filter(|line| !line.ends_with(".wal")) {
            expected.next();
            let (repeat, hex) = line.split_once(' ').unwrap_or(("1", line));
            for _ in 0..repeat.parse::<usize>().unwrap() {
                let end = at + hex.len() / 2;
                let found: String = bytes[at..end].iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(found, hex, "{name} at {at}");
                at = end;
            }
        }
        assert_eq!(at, bytes.len(), "length of {name}");
    }
    assert_eq!(expected.next(), None);
}

#[test]
fn the_real_disk_gets_the_same_bytes_as_the_simulated_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/on/the/way");
    let mut real = TestLog::create(&DiskStorage::create(&path).unwrap());
    let (disk, mut simulated) = new_log();
    a_short_life(&mut real);
    a_short_life(&mut simulated);
    for ((dir, name), bytes) in disk.contents() {
        let real = std::fs::read(path.join(dir.path()).join(&name)).unwrap();
        assert_eq!(real, bytes, "{}", dir.join(&name));
    }
    let storage = DiskStorage::open(&path).unwrap();
    assert_eq!(storage.list(Dir::Wal).unwrap(), disk.names(Dir::Wal));
    assert_eq!(storage.list(Dir::Root).unwrap(), disk.names(Dir::Root));
    assert!(storage.available_bytes().unwrap() > 0);
    assert_eq!(storage.list(Dir::Diverged).unwrap(), Vec::<String>::new());
}

#[test]
fn a_frame_s_mark_is_what_was_written_when_the_last_sync_was_called() {
    let (disk, mut log) = new_log();
    let mut ends = vec![Lsn::ZERO];
    for _ in 0..4 {
        log.write(10).unwrap();
        ends.push(log.writer.written());
    }
    log.writer.sync().unwrap();
    log.write(10).unwrap();
    log.write(10).unwrap();
    let marks = |disk: &SimDisk| -> Vec<Lsn> {
        let (_, seen) = see_log(disk).remove(0);
        seen.unwrap().frames.iter().map(|frame| frame.synced).collect()
    };
    assert_eq!(
        marks(&disk),
        [Lsn::ZERO, Lsn::ZERO, Lsn::ZERO, Lsn::ZERO, ends[4], ends[4]]
    );
}

#[test]
fn a_rotation_leaves_a_chain_and_combined_checksums_are_those_of_the_bytes() {
    let (disk, mut log) = new_log();
    for round in 0..40 {
        log.write(round * 37).unwrap();
    }
    let seen = see_log(&disk);
    assert!(seen.len() > 3);
    let mut previous: Option<(Lsn, Lsn, u32)> = None;
    for (first, segment) in seen {
        let segment = segment.unwrap();
        assert_eq!(segment.header.first_lsn, first);
        assert_eq!((segment.header.node, segment.header.cluster), (NODE, CLUSTER));
        assert!(segment.zeros);
        let said = segment
            .header
            .predecessor
            .map(|before| (before.first_lsn, before.end_lsn, before.crc));
        assert_eq!(said, previous);
        assert_eq!(
            segment.header.epoch,
            if said.is_none() { Epoch::default() } else { EPOCH }
        );
        previous = Some((first, segment.end, segment.crc));
    }
    assert_eq!(previous.unwrap().1, log.writer.written());
    assert_eq!(
        see_control(&disk).newest_segment,
        previous.map(|(first, ..)| first)
    );
}

#[test]
fn records_around_the_segment_s_size_get_segments_of_their_own_size() {
    // The last two just fill an ordinary segment, and just do not.
    for record_bytes in [8191, 8192, 8193, 3 * 8192, 4096 - 64, 4096 - 63] {
        let value_bytes = record_bytes - 43;
        let (disk, mut log) = new_log();
        log.write(1).unwrap();
        log.write(value_bytes).unwrap();
        log.write(1).unwrap();
        log.writer.shut_down().unwrap();
        let last = see_log(&disk).pop().unwrap().1.unwrap();
        assert_eq!(last.end, log.batch.appended(), "{record_bytes}");
        assert!(last.zeros && last.frames.last().unwrap().seal);
    }
}

#[test]
fn positions_beyond_32_and_63_bits_are_ordinary() {
    for start in [u64::from(u32::MAX) - 3000, (1 << 63) - 3000] {
        let disk = SimDisk::new();
        let mut log = TestLog::create_at(&disk.storage(), Lsn::new(start));
        for _ in 0..4 {
            log.write(2500).unwrap();
        }
        log.writer.shut_down().unwrap();
        let seen = see_log(&disk);
        assert_eq!(seen.len(), 4);
        let ends: Vec<Lsn> = seen
            .iter()
            .map(|(_, segment)| segment.as_ref().unwrap().end)
            .collect();
        let expected = (1..=4).map(|records| Lsn::new(start + records * 2543));
        assert_eq!(ends, expected.collect::<Vec<_>>());
        assert_eq!(see_control(&disk).clean_end, ends.last().copied());
    }
}

#[test]
fn a_segment_without_records_is_made_longer_in_synced_zeros() {
    let (disk, mut log) = new_log();
    let mut group = log.group(20_000);
    disk.start_trace();
    log.writer.write(&mut group).unwrap();
    let trace = disk.trace();
    let grown = trace
        .iter()
        .position(|line| line.starts_with("sync wal/"))
        .unwrap();
    let written = trace
        .iter()
        .position(|line| line.ends_with(&format!("4096+{}", group.bytes.len())))
        .unwrap();
    assert!(grown < written, "{trace:?}");
    let seen = see_log(&disk);
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].1.as_ref().unwrap().end, group.end);
}

#[test]
fn a_seal_is_synced_before_the_next_frame_and_at_once_at_the_end() {
    let (disk, mut log) = new_log();
    log.write(1).unwrap();
    log.writer.sync().unwrap();
    log.batch.take_seal().unwrap();
    log.writer.seal().unwrap();
    log.writer.seal().unwrap();
    let mut group = log.group(1);
    disk.start_trace();
    log.writer.write(&mut group).unwrap();
    assert!(disk.trace()[0].starts_with("sync wal/"), "{:?}", disk.trace());
    let frames = see_log(&disk).remove(0).1.unwrap().frames;
    let seals: Vec<bool> = frames.iter().map(|frame| frame.seal).collect();
    assert_eq!(seals, [false, true, false]);
    assert_eq!(frames[1].synced, frames[1].lsn);
}

#[test]
fn the_clean_mark_is_set_after_the_synced_seal_and_cleared_before_the_next_frame() {
    let (disk, mut log) = new_log();
    log.write(1).unwrap();
    disk.start_trace();
    log.writer.shut_down().unwrap();
    let trace = disk.trace();
    let seal = trace
        .iter()
        .position(|line| line.starts_with("write wal/"))
        .unwrap();
    let sync = trace
        .iter()
        .rposition(|line| line.starts_with("sync wal/"))
        .unwrap();
    let mark = trace
        .iter()
        .position(|line| line == "rename control.tmp control")
        .unwrap();
    assert!(seal < sync && sync < mark, "{trace:?}");
    disk.power_loss(&mut |_| 0);
    assert_eq!(see_control(&disk).clean_end, Some(log.writer.written()));

    let (disk, mut log) = new_log();
    log.write(1).unwrap();
    log.writer.shut_down().unwrap();
    let mut group = log.group(1);
    disk.start_trace();
    log.writer.write(&mut group).unwrap();
    let trace = disk.trace();
    let mark = trace.iter().position(|line| line == "sync dir ").unwrap();
    let frame = trace
        .iter()
        .position(|line| line.starts_with("write wal/"))
        .unwrap();
    assert!(mark < frame, "{trace:?}");
    assert_eq!(see_control(&disk).clean_end, None);
}

#[test]
fn a_missing_or_short_segment_is_no_log_to_go_on_with() {
    let (disk, log) = new_log();
    drop(log);
    let name = "00000000000000000000.wal";
    let at = |segment_bytes| WriterPosition {
        position: Position {
            segment_first: Lsn::ZERO,
            segment_bytes,
            offset: 4096,
            lsn: Lsn::ZERO,
            holds_record: false,
            last_seal: false,
            last_record_crc: 0,
            log_time: idem_protocol::UnixMs::ZERO,
        },
        salt: Salt([1; 8]),
        segment_crc: 0,
        synced: Lsn::ZERO,
        epoch: EPOCH,
    };
    let resume = |disk: &SimDisk, segment_bytes| {
        let control = ControlFile::adopt(disk.storage(), see_control(disk));
        let params = WriterParams {
            node: NODE,
            cluster: CLUSTER,
        };
        LogWriter::resume(
            disk.storage(),
            control,
            at(segment_bytes),
            params,
            crate::testing::salts(1),
        )
    };
    assert!(resume(&disk, SEGMENT_BYTES).is_ok());
    assert!(resume(&disk, SEGMENT_BYTES_DEFAULT).is_err());
    assert!(
        see_segment(&disk.bytes(Dir::Wal, name).unwrap())
            .unwrap()
            .frames
            .is_empty()
    );
    disk.remove(Dir::Wal, name);
    assert!(resume(&disk, SEGMENT_BYTES).is_err());
}
