use std::cell::RefCell;
use std::sync::mpsc;

use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::{Record, segment_name};
use idem_protocol::{Deadline, UnixMs};

use super::*;
use crate::snapshot::SnapshotWriter;
use crate::storage::sim::{SimDisk, SimStorage};
use crate::testing::{CLUSTER, SEGMENT_BYTES, TestLog, see_control};

fn new_log() -> (SimDisk, TestLog<SimStorage>) {
    let disk = SimDisk::new();
    let log = TestLog::create(&disk.storage());
    (disk, log)
}

fn handle(log: &mut TestLog<SimStorage>, chore: Chore) -> Result<Vec<ChoreEvent>, String> {
    let events = RefCell::new(Vec::new());
    log.keeper
        .handle(chore, &|event| events.borrow_mut().push(event))?;
    Ok(events.into_inner())
}

/// A finished, unpublished snapshot of an empty keyspace at the log's end.
fn snapshot(disk: &SimDisk, log: &TestLog<SimStorage>) -> Chore {
    let at = log.batch.appended();
    let mut item = Vec::new();
    Record::StringPut {
        key: b"k",
        deadline: Deadline::NONE,
        value: b"v",
    }
    .encode(at, UnixMs::new(5), 0, &mut item);
    let mut writer = SnapshotWriter::begin(disk.storage(), CLUSTER, at).unwrap();
    writer.items(&item).unwrap();
    let trailer = SnapshotTrailer {
        end_lsn: at,
        log_time: UnixMs::new(1000),
        databases: vec![(0, 1)],
        ..SnapshotTrailer::default()
    };
    let finished = writer.finish(&trailer).unwrap();
    Chore::PublishSnapshot {
        temporary: finished.temporary,
        start: finished.start,
        end: finished.end,
    }
}

#[test]
fn a_spare_is_zeroed_and_synced_before_it_is_announced() {
    let (disk, mut log) = new_log();
    disk.start_trace();
    let events = handle(&mut log, Chore::MakeSpare { bytes: 10_000 }).unwrap();
    assert_eq!(
        events,
        [ChoreEvent::SpareReady(Spare {
            number: 0,
            bytes: 10_000
        })]
    );
    assert_eq!(
        disk.trace(),
        [
            "create wal/spare-0",
            "write wal/spare-0 0+10000",
            "sync wal/spare-0"
        ]
    );
    assert_eq!(disk.bytes(Dir::Wal, "spare-0"), Some(vec![0; 10_000]));
    let events = handle(&mut log, Chore::MakeSpare { bytes: 10 }).unwrap();
    assert_eq!(events, [ChoreEvent::SpareReady(Spare { number: 1, bytes: 10 })]);
}

#[test]
fn a_full_disk_costs_nothing_but_the_attempt() {
    let (disk, mut log) = new_log();
    disk.set_space(Some(6000));
    for _ in 0..3 {
        let events = handle(&mut log, Chore::MakeSpare { bytes: 10_000 }).unwrap();
        assert!(
            matches!(events[..], [ChoreEvent::SpareFailed { bytes: 10_000, .. }]),
            "{events:?}"
        );
        assert_eq!(disk.names(Dir::Wal), [segment_name(Lsn::ZERO)]);
        assert_eq!(disk.storage().available_bytes().unwrap(), 6000);
    }
    disk.set_space(Some(10_000));
    let events = handle(&mut log, Chore::MakeSpare { bytes: 10_000 }).unwrap();
    assert!(matches!(events[..], [ChoreEvent::SpareReady(_)]), "{events:?}");
}

#[test]
fn a_failed_sync_of_any_chore_is_the_end() {
    for nth in 1..=3 {
        let (disk, mut log) = new_log();
        log.write(10).unwrap();
        let chore = snapshot(&disk, &log);
        disk.fail_sync_at(nth, 1);
        assert!(handle(&mut log, chore).is_err(), "sync {nth}");
    }
    let (disk, mut log) = new_log();
    disk.fail_sync_at(1, 1);
    assert!(handle(&mut log, Chore::MakeSpare { bytes: 10 }).is_err());
}

#[test]
fn publishing_renames_syncs_names_it_in_control_and_only_then_removes() {
    let (disk, mut log) = new_log();
    // A record fills its segment. Behind the older of two snapshots all segments are done with.
    for (round, removed_segments) in [0, 3, 3].into_iter().enumerate() {
        for _ in 0..3 {
            log.write(3900).unwrap();
        }
        log.writer.sync().unwrap();
        let chore = snapshot(&disk, &log);
        let start = log.batch.appended();
        disk.start_trace();
        let events = handle(&mut log, chore).unwrap();
        assert_eq!(
            events,
            [ChoreEvent::SnapshotPublished {
                start,
                removed_segments
            }],
            "round {round}"
        );
        assert_eq!(see_control(&disk).newest_snapshot, Some(start));
        let trace = disk.trace();
        let place = |prefix: &str| trace.iter().position(|line| line.starts_with(prefix)).unwrap();
        assert!(
            place("rename snap/") < place("sync dir snap")
                && place("sync dir snap") < place("rename control.tmp")
        );
        if let Some(first_removal) = trace.iter().position(|line| line.starts_with("remove")) {
            assert!(place("rename control.tmp") < first_removal);
        }
    }
    assert_eq!(disk.names(Dir::Snap).len(), 2);
}

/// Goal: whatever interrupts publication and the removals after it, the control file names a snapshot that is there and
/// valid, and log is only missing below the older of two valid snapshots.
#[test]
fn publication_may_be_interrupted_anywhere() {
    let prepared = || {
        let (disk, mut log) = new_log();
        for round in 0..3 {
            log.write(3900).unwrap();
            log.write(3900).unwrap();
            log.writer.sync().unwrap();
            let chore = snapshot(&disk, &log);
            if round == 2 {
                return (disk, log, chore);
            }
            handle(&mut log, chore).unwrap();
        }
        unreachable!("the last round returns")
    };
    for crash_after in 0.. {
        let (disk, mut log, chore) = prepared();
        disk.settle();
        disk.crash_after(crash_after);
        let done = handle(&mut log, chore).is_ok() && !disk.is_crashed();
        for seed in 0..30 {
            let after = SimDisk::from_image(&disk.image());
            after.power_loss_seeded(seed);
            let storage = after.storage();
            let mut valid = |start| {
                snapshot::read(&storage, &snapshot_name(start), Some(CLUSTER), &mut |_, _| {}).is_ok()
            };
            let found = retention::take_inventory(&storage, &mut valid, Lsn::ZERO, 0).unwrap();
            let starts: Vec<Lsn> = found.snapshots.iter().map(|(start, _)| *start).collect();
            assert!(
                found.snapshots.iter().all(|(_, valid)| *valid),
                "a named snapshot is whole"
            );
            assert!(starts.len() >= 2, "{starts:?}");
            assert!(starts.contains(&see_control(&after).newest_snapshot.unwrap()));
            assert!(
                found.segments[0] <= starts[starts.len() - 2],
                "the older snapshot's log is there"
            );
        }
        if done {
            return;
        }
    }
}

#[test]
fn a_damaged_snapshot_holds_the_log_that_the_older_ones_need() {
    let (disk, mut log) = new_log();
    let mut starts = Vec::new();
    for _ in 0..2 {
        log.write(3900).unwrap();
        log.write(3900).unwrap();
        let chore = snapshot(&disk, &log);
        let name = snapshot_name(log.batch.appended());
        let Chore::PublishSnapshot { temporary, .. } = chore else {
            panic!("{chore:?}")
        };
        disk.rename(Dir::Snap, &temporary, &name);
        starts.push(name);
    }
    disk.flip(Dir::Snap, &starts[0], 50, 1);
    let end = log.batch.appended();
    let before = disk.contents();
    assert_eq!(handle(&mut log, Chore::Retain { end }).unwrap(), []);
    assert!(disk.contents() == before, "one valid snapshot is not enough");
    disk.flip(Dir::Snap, &starts[0], 50, 1);
    assert_eq!(handle(&mut log, Chore::Retain { end }).unwrap(), []);
    assert!(disk.names(Dir::Wal).len() < 4 + 1 && !disk.names(Dir::Wal).contains(&segment_name(Lsn::ZERO)));
}

#[test]
fn less_log_is_kept_from_when_it_is_said() {
    let (disk, mut log) = new_log();
    handle(&mut log, Chore::Keep { bytes: 1 << 40 }).unwrap();
    for _ in 0..3 {
        log.write(3900).unwrap();
        log.write(3900).unwrap();
        log.writer.sync().unwrap();
        let chore = snapshot(&disk, &log);
        let events = handle(&mut log, chore).unwrap();
        assert!(
            matches!(
                events[..],
                [ChoreEvent::SnapshotPublished {
                    removed_segments: 0,
                    ..
                }]
            ),
            "{events:?}"
        );
    }
    let before = disk.names(Dir::Wal).len();
    let end = log.batch.appended();
    handle(&mut log, Chore::Retain { end }).unwrap();
    assert_eq!(disk.names(Dir::Wal).len(), before);
    handle(&mut log, Chore::Keep { bytes: 0 }).unwrap();
    handle(&mut log, Chore::Retain { end }).unwrap();
    assert!(disk.names(Dir::Wal).len() < before);
}

#[test]
fn what_cannot_be_published_or_removed_is_reported_and_serving_goes_on() {
    let (disk, mut log) = new_log();
    let missing = Chore::PublishSnapshot {
        temporary: "missing".into(),
        start: Lsn::ZERO,
        end: Lsn::ZERO,
    };
    let events = handle(&mut log, missing).unwrap();
    assert!(
        matches!(events[..], [ChoreEvent::SnapshotFailed { start: Lsn::ZERO, .. }]),
        "{events:?}"
    );
    disk.fail_list(Dir::Wal);
    let events = handle(&mut log, Chore::Retain { end: Lsn::ZERO }).unwrap();
    assert!(matches!(events[..], [ChoreEvent::Failed { .. }]), "{events:?}");
    log.write(10).unwrap();
    let chore = snapshot(&disk, &log);
    let events = handle(&mut log, chore).unwrap();
    assert!(
        matches!(
            events[..],
            [ChoreEvent::SnapshotPublished { .. }, ChoreEvent::Failed { .. }]
        ),
        "{events:?}"
    );
}

/// Goal: a snapshot that gets no name takes no space either, and the next one of the same place is published.
#[test]
fn a_snapshot_whose_rename_fails_is_removed() {
    let (disk, mut log) = new_log();
    log.write(10).unwrap();
    disk.set_space(Some(100_000));
    for _ in 0..3 {
        let chore = snapshot(&disk, &log);
        assert_eq!(disk.names(Dir::Snap).len(), 1);
        disk.fail_renames(io::ErrorKind::StorageFull);
        let events = handle(&mut log, chore).unwrap();
        assert!(
            matches!(events[..], [ChoreEvent::SnapshotFailed { .. }]),
            "{events:?}"
        );
        assert_eq!(disk.names(Dir::Snap), [""; 0]);
        assert_eq!(disk.storage().available_bytes().unwrap(), 100_000);
        assert_eq!(see_control(&disk).newest_snapshot, None);
        disk.heal_writes();
    }
    let chore = snapshot(&disk, &log);
    let events = handle(&mut log, chore).unwrap();
    assert!(
        matches!(events[..], [ChoreEvent::SnapshotPublished { .. }]),
        "{events:?}"
    );
    assert_eq!(disk.names(Dir::Snap), [snapshot_name(log.batch.appended())]);
}

#[test]
fn the_thread_does_its_chores_and_stops() {
    let (disk, log) = new_log();
    let (sender, events) = mpsc::channel();
    let params = HousekeepingParams {
        keep_bytes: 0,
        first_spare: 9,
    };
    let keeper = Housekeeping::spawn(
        disk.storage(),
        log.control.clone(),
        params,
        move |event| sender.send(event).unwrap(),
        |reason| panic!("{reason}"),
    )
    .unwrap();
    keeper.send(Chore::MakeSpare { bytes: SEGMENT_BYTES });
    keeper.send(Chore::Stop);
    let spare = Spare {
        number: 9,
        bytes: SEGMENT_BYTES,
    };
    assert_eq!(events.iter().collect::<Vec<_>>(), [ChoreEvent::SpareReady(spare)]);
    keeper.join();
}
