//! The thread with real load: two buffers that go round, and its end.

use std::cell::RefCell;
use std::sync::mpsc;

use idem_protocol::wal::Record;
use idem_protocol::{Deadline, UnixMs};

use super::*;
use crate::batch::Placement;
use crate::storage::sim::SimDisk;
use crate::storage::{Dir, DiskStorage};
use crate::testing::{TestLog, see_log};

/// Goal: with two buffers going round under load, every record arrives once and in order, over many segments. Method:
/// the core's loop on this thread, the real wal thread beside it, a report for every group.
fn run_under_load<S: Storage>(storage: &S, policy: Policy, records: u64) {
    let TestLog {
        writer,
        mut batch,
        mut keeper,
        ..
    } = TestLog::create(storage);
    let (sender, events) = mpsc::channel();
    let wal = WalThread::spawn(
        writer,
        policy,
        move |event| sender.send(event).unwrap(),
        |reason| panic!("fatal: {reason}"),
    )
    .unwrap();
    let (mut left, mut free, mut buffer) = (records, true, vec![1; 9]);
    let (mut acknowledged, mut last) = (0, Lsn::ZERO);
    while acknowledged < records {
        while left > 0 && batch.open_bytes() < 1500 {
            let value = left.to_le_bytes();
            let record = Record::StringPut {
                key: b"key",
                deadline: Deadline::NONE,
                value: &value,
            };
            match batch.reserve(record.encoded_len()) {
                Ok(()) => batch.append(UnixMs::new(records - left), 0, &record),
                Err(crate::batch::NotReserved::GroupFull) => break,
                Err(crate::batch::NotReserved::NeedsSpare { bytes }) => {
                    let spare = RefCell::new(None);
                    let made = |event| drop(spare.replace(Some(event)));
                    keeper
                        .handle(crate::housekeeping::Chore::MakeSpare { bytes }, &made)
                        .unwrap();
                    match spare.into_inner() {
                        Some(crate::housekeeping::ChoreEvent::SpareReady(spare)) => batch.spare_ready(spare),
                        other => panic!("{other:?}"),
                    }
                    continue;
                }
            };
            left -= 1;
        }
        if free && let Some(group) = batch.take(std::mem::take(&mut buffer)) {
            if group.placement != Placement::Here {
                assert!(group.first > Lsn::ZERO);
            }
            wal.send(Job::Group(group));
            free = false;
        }
        match events.recv().unwrap() {
            WalEvent::Progress {
                written,
                synced,
                buffer: back,
                records,
                ..
            } => {
                assert!(synced <= written && last <= written, "positions never go back");
                if policy == Policy::Always {
                    assert_eq!(synced, written);
                }
                last = written;
                acknowledged += u64::from(records);
                if let Some(back) = back {
                    (buffer, free) = (back, true);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    wal.send(Job::ShutDown);
    let closed = events.iter().find(|event| matches!(event, WalEvent::Closed(_)));
    assert!(matches!(closed, Some(WalEvent::Closed(Ok(())))), "{closed:?}");
    wal.join();
    assert_eq!(last, batch.appended());
}

#[test]
fn two_buffers_go_round_under_load() {
    for policy in [Policy::Always, Policy::Everysec, Policy::No] {
        let disk = SimDisk::new();
        run_under_load(&disk.storage(), policy, 4000);
        let log = see_log(&disk);
        assert!(log.len() > 10);
        let ends: Vec<Lsn> = log
            .iter()
            .map(|(_, segment)| segment.as_ref().unwrap().end)
            .collect();
        let firsts: Vec<Lsn> = log.iter().map(|(first, _)| *first).collect();
        assert_eq!(
            ends[..ends.len() - 1],
            firsts[1..],
            "no record is missing between two segments"
        );
        assert_eq!(ends.last(), Some(&Lsn::new(4000 * (24 + 7 + 8 + 12))));
    }
}

#[test]
fn the_real_disk_under_load() {
    let directory = tempfile::tempdir().unwrap();
    run_under_load(&DiskStorage::open(directory.path()).unwrap(), Policy::Always, 500);
    let names = DiskStorage::open(directory.path())
        .unwrap()
        .list(Dir::Wal)
        .unwrap();
    assert!(names.len() > 3, "{names:?}");
}

#[test]
fn a_thread_whose_sync_fails_says_so_once_and_ends() {
    let disk = SimDisk::new();
    let TestLog {
        writer, mut batch, ..
    } = TestLog::create(&disk.storage());
    let (sender, said) = mpsc::channel();
    let events = sender.clone();
    let wal = WalThread::spawn(
        writer,
        Policy::Always,
        move |event| events.send(format!("{event:?}")).unwrap(),
        move |reason| sender.send(format!("fatal: {reason}")).unwrap(),
    )
    .unwrap();
    batch.reserve(24).unwrap();
    batch.append(UnixMs::new(1), 0, &Record::Clock);
    disk.fail_sync_at(1, 0);
    wal.send(Job::Group(batch.take(Vec::new()).unwrap()));
    let words: Vec<String> = said.iter().collect();
    assert_eq!(words.len(), 1, "{words:?}");
    assert!(words[0].starts_with("fatal: sync of wal/"), "{words:?}");
    wal.send(Job::Sync);
    wal.join();
}
