//! A disk that is full, fails or stops while the log is being written.

use std::io;

use super::*;
use crate::control::CONTROL_SPARE;
use crate::segment::create_segment;
use crate::storage::Dir;
use crate::storage::sim::{SimDisk, SimStorage};
use crate::testing::{CLUSTER, NODE, SEGMENT_BYTES, TestLog, see_control, see_log};

fn new_log() -> (SimDisk, TestLog<SimStorage>) {
    let disk = SimDisk::new();
    let log = TestLog::create(&disk.storage());
    (disk, log)
}

fn is_fatal<T: std::fmt::Debug>(result: &Result<T, WriteError>) -> bool {
    matches!(result, Err(WriteError::Fatal(_)))
}

#[test]
fn a_failed_write_moves_nothing_and_the_same_group_comes_again() {
    let (disk, mut log) = new_log();
    log.write(10).unwrap();
    disk.short_writes(7);
    log.write(100).unwrap();
    let before = log.writer.written();
    let mut group = log.group(50);
    disk.fail_writes(3, io::ErrorKind::StorageFull);
    for _ in 0..3 {
        assert!(matches!(log.writer.write(&mut group), Err(WriteError::Retry(_))));
        assert_eq!(log.writer.written(), before);
    }
    disk.heal_writes();
    log.writer.write(&mut group).unwrap();
    let seen = see_log(&disk).remove(0).1.unwrap();
    assert_eq!((seen.end, seen.frames.len(), seen.zeros), (group.end, 3, true));
}

#[test]
fn a_full_disk_hinders_neither_a_rotation_nor_a_clean_end() {
    let (disk, mut log) = new_log();
    log.fill();
    disk.set_space(Some(0));
    log.write(100).unwrap();
    assert_eq!(see_log(&disk).len(), 2);

    let (disk, mut log) = new_log();
    log.write(100).unwrap();
    disk.set_space(Some(0));
    log.writer.shut_down().unwrap();
    assert_eq!(see_control(&disk).clean_end, Some(log.writer.written()));
}

#[test]
fn a_rotation_without_space_for_the_control_file_goes_on_where_it_stopped() {
    let (disk, mut log) = new_log();
    log.fill();
    disk.remove(Dir::Root, CONTROL_SPARE);
    disk.set_space(Some(8));
    let mut group = log.group(100);
    for _ in 0..3 {
        assert!(matches!(log.writer.write(&mut group), Err(WriteError::Retry(_))));
        assert_eq!(see_control(&disk).newest_segment, Some(Lsn::ZERO));
        let (_, newest) = see_log(&disk).pop().unwrap();
        assert!(
            newest.unwrap().frames.is_empty(),
            "no frame before the control file names its segment"
        );
    }
    disk.set_space(None);
    log.writer.write(&mut group).unwrap();
    let seen = see_log(&disk);
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].1.as_ref().unwrap().end, group.end);
    assert_eq!(see_control(&disk).newest_segment, Some(group.first));
}

/// Goal: whatever moment a crash or power loss picks in a rotation, a successor's header on disk means that the
/// predecessor is whole, and a frame in the newest segment means that the control file names it.
#[test]
fn a_rotation_may_be_interrupted_anywhere() {
    let prepared = || {
        let (disk, mut log) = new_log();
        log.fill();
        let group = log.group(100);
        (disk, log, group)
    };
    let (disk, mut log, mut group) = prepared();
    let begin = disk.operations();
    log.writer.write(&mut group).unwrap();
    log.writer.sync().unwrap();
    let end = disk.operations() - begin;
    let mut renamed = 0;
    for crash_after in 0..=end {
        let (disk, mut log, mut group) = prepared();
        let filled = log.writer.written();
        disk.crash_after(crash_after);
        let done = log
            .writer
            .write(&mut group)
            .and_then(|()| Ok(log.writer.sync()?))
            .is_ok();
        assert_eq!(done, crash_after >= end);
        for seed in 0..40 {
            let after = SimDisk::from_image(&disk.image());
            match seed {
                0 => after.kill(),
                1 => after.power_loss(&mut |_| 0),
                2 => after.power_loss(&mut |_| usize::MAX),
                _ => after.power_loss_seeded(seed),
            }
            let seen = see_log(&after);
            let old = seen[0].1.as_ref().unwrap();
            if let Some((first, newest)) = seen.get(1) {
                renamed += 1;
                let newest = newest.as_ref().expect("a segment gets its name with its header");
                assert_eq!(
                    (*first, old.end, newest.header.first_lsn),
                    (filled, filled, filled)
                );
                let before = newest.header.predecessor.unwrap();
                assert_eq!((before.end_lsn, before.crc), (old.end, old.crc));
                if !newest.frames.is_empty() || !newest.zeros {
                    assert_eq!(see_control(&after).newest_segment, Some(filled));
                }
                assert!(!done || newest.end == group.end);
            } else {
                assert!(!done, "a finished rotation is never lost");
                assert_eq!(
                    see_control(&after).newest_segment,
                    Some(Lsn::ZERO),
                    "control names what is there"
                );
            }
        }
    }
    assert!(renamed > 100);
}

/// Goal: wherever a sync fails, the caller learns that it is the end, and nothing is called synced or written after it.
#[test]
fn a_failed_sync_anywhere_is_the_end() {
    let mut failed = 0;
    for nth in 1.. {
        let (disk, mut log) = new_log();
        log.write(10).unwrap();
        log.make_spare(SEGMENT_BYTES);
        log.make_spare(SEGMENT_BYTES);
        disk.fail_sync_at(nth, nth);
        let mut life = || -> Result<(), WriteError> {
            log.writer.sync()?;
            log.write(10)?;
            log.writer.sync()?;
            log.writer.seal()?;
            log.write(3900)?;
            log.write(3000)?;
            log.writer.shut_down()
        };
        let result = life();
        if result.is_ok() {
            break;
        }
        failed += 1;
        assert!(is_fatal(&result), "sync {nth}: {result:?}");
        let (written, synced) = (log.writer.written(), log.writer.synced());
        disk.start_trace();
        assert!(log.writer.sync().is_err(), "nobody may retry");
        assert!(is_fatal(&log.writer.seal()) && is_fatal(&log.writer.shut_down()));
        assert_eq!(
            (log.writer.written(), log.writer.synced(), disk.trace()),
            (written, synced, Vec::new())
        );
        disk.power_loss(&mut |_| 0);
        let (_, newest) = see_log(&disk).pop().unwrap();
        assert!(
            newest.unwrap().end >= synced,
            "sync {nth}: what was called synced is on the disk"
        );
    }
    assert!(failed >= 10, "{failed} places were tried");
}

/// Goal: a first segment is there whole or not at all, whatever interrupts its making; on a full disk nothing is left.
#[test]
fn a_segment_is_made_whole_or_not_at_all() {
    let header = SegmentHeader {
        node: NODE,
        cluster: CLUSTER,
        first_lsn: Lsn::new(77),
        salt: Salt([3; 8]),
        epoch: Epoch::default(),
        predecessor: None,
    };
    for crash_after in 0.. {
        let disk = SimDisk::new();
        disk.storage().create_dir(Dir::Wal).unwrap();
        disk.settle();
        disk.crash_after(crash_after);
        let done = create_segment(&disk.storage(), &header, SEGMENT_BYTES).is_ok();
        for seed in 0..30 {
            let after = SimDisk::from_image(&disk.image());
            after.power_loss_seeded(seed);
            match see_log(&after).pop() {
                None => assert!(!done),
                Some((_, segment)) => {
                    let segment = segment.expect("a named segment has its header");
                    assert!(segment.header == header && segment.zeros && segment.frames.is_empty());
                }
            }
        }
        if done {
            break;
        }
    }
    let disk = SimDisk::new();
    disk.storage().create_dir(Dir::Wal).unwrap();
    disk.set_space(Some(SEGMENT_BYTES - 1));
    assert!(matches!(
        create_segment(&disk.storage(), &header, SEGMENT_BYTES),
        Err(WriteError::Retry(_))
    ));
    assert_eq!(disk.names(Dir::Wal), Vec::<String>::new());
}
