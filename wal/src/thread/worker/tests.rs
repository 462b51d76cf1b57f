//! The worker with a clock that the test moves: what it tells of each job, and what it does when nothing comes.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use idem_protocol::wal::Record;
use idem_protocol::{Deadline, UnixMs};

use super::*;
use crate::storage::sim::{SimDisk, SimStorage};
use crate::testing::{TestLog, see_control};

/// A worker on a simulated disk; `now` is what its clock says.
struct Bench {
    disk: SimDisk,
    batch: crate::batch::Batch,
    worker: Worker<SimStorage, Box<dyn Fn() -> Duration>>,
    now: Rc<RefCell<Duration>>,
    events: RefCell<Vec<WalEvent>>,
}

impl Bench {
    fn new(policy: Policy) -> Bench {
        let disk = SimDisk::new();
        let TestLog { writer, batch, .. } = TestLog::create(&disk.storage());
        let now = Rc::new(RefCell::new(Duration::ZERO));
        let clock = Rc::clone(&now);
        let worker = Worker::new(
            writer,
            policy,
            Box::new(move || *clock.borrow()) as Box<dyn Fn() -> Duration>,
        );
        Bench {
            disk,
            batch,
            worker,
            now,
            events: RefCell::new(Vec::new()),
        }
    }

    fn group(&mut self) -> Job {
        let record = Record::StringPut {
            key: b"k",
            deadline: Deadline::NONE,
            value: b"v",
        };
        self.batch.reserve(record.encoded_len()).unwrap();
        self.batch.append(UnixMs::new(1), 0, &record);
        Job::Group(self.batch.take(Vec::new()).unwrap())
    }

    fn give(&mut self, job: Job) -> Result<(), String> {
        self.worker
            .handle(job, &|event| self.events.borrow_mut().push(event))
    }

    fn write(&mut self) -> Result<(), String> {
        let job = self.group();
        self.give(job)
    }

    /// Moves the clock to `ms` and lets the worker do what is due.
    fn at(&mut self, ms: u64) -> Result<(), String> {
        *self.now.borrow_mut() = Duration::from_millis(ms);
        self.worker.tick(&|event| self.events.borrow_mut().push(event))
    }

    /// The events since the last call, as short words.
    fn events(&self) -> Vec<String> {
        let word = |event: WalEvent| match event {
            WalEvent::Progress {
                written,
                synced,
                buffer,
                records,
                sync_usec,
            } => {
                let kind = if buffer.is_some() { "group" } else { "sync" };
                assert_eq!(records > 0, buffer.is_some());
                assert_eq!(sync_usec.is_some(), written == synced);
                format!("{kind} {written} {synced}")
            }
            WalEvent::Sealed { synced } => format!("sealed {synced}"),
            WalEvent::Stalled { .. } => "stalled".to_owned(),
            WalEvent::Resumed => "resumed".to_owned(),
            WalEvent::Closed(result) => format!("closed {}", result.is_ok()),
        };
        self.events.take().into_iter().map(word).collect()
    }
}

const RECORD: u64 = 24 + 5 + 8 + 5;

#[test]
fn groups_handed_over_together_are_told_by_the_sync_that_covers_them() {
    let mut bench = Bench::new(Policy::Always);
    let (mut first, second) = (bench.group(), bench.group());
    let Job::Group(group) = &mut first else {
        unreachable!("a group was made")
    };
    group.followed = true;
    bench.give(first).unwrap();
    bench.give(second).unwrap();
    assert_eq!(
        bench.events(),
        [format!("group {RECORD} 0"), format!("group {0} {0}", 2 * RECORD)],
        "the first is written and not synced, so no reply that depends on it leaves"
    );
}

#[test]
fn a_stall_does_not_hold_back_what_was_written_before_it() {
    let mut bench = Bench::new(Policy::Always);
    let (mut first, second) = (bench.group(), bench.group());
    let Job::Group(group) = &mut first else {
        unreachable!("a group was made")
    };
    group.followed = true;
    bench.give(first).unwrap();
    bench.disk.fail_writes(0, io::ErrorKind::StorageFull);
    bench.give(second).unwrap();
    assert_eq!(
        bench.events(),
        [
            format!("group {RECORD} 0"),
            format!("sync {RECORD} {RECORD}"),
            "stalled".to_owned()
        ]
    );
    bench.disk.heal_writes();
    bench.at(50).unwrap();
    assert_eq!(
        bench.events(),
        ["resumed".to_owned(), format!("group {0} {0}", 2 * RECORD)]
    );
}

#[test]
fn always_syncs_every_group_before_it_says_so() {
    let mut bench = Bench::new(Policy::Always);
    bench.write().unwrap();
    bench.write().unwrap();
    assert_eq!(
        bench.events(),
        [
            format!("group {0} {0}", RECORD),
            format!("group {0} {0}", 2 * RECORD)
        ]
    );
    assert_eq!(bench.worker.wait(), None);
}

#[test]
fn everysec_syncs_half_a_second_after_the_first_unsynced_write() {
    let mut bench = Bench::new(Policy::Everysec);
    assert_eq!(bench.worker.wait(), None);
    bench.at(100).unwrap();
    bench.write().unwrap();
    assert_eq!(bench.worker.wait(), Some(Duration::from_millis(500)));
    bench.at(400).unwrap();
    bench.write().unwrap();
    assert_eq!(
        bench.worker.wait(),
        Some(Duration::from_millis(200)),
        "counted from the first"
    );
    bench.at(599).unwrap();
    assert_eq!(
        bench.events(),
        [format!("group {RECORD} 0"), format!("group {} 0", 2 * RECORD)]
    );
    bench.at(600).unwrap();
    assert_eq!(bench.events(), [format!("sync {0} {0}", 2 * RECORD)]);
    assert_eq!(bench.worker.wait(), None, "nothing is unsynced");
    bench.at(5000).unwrap();
    assert_eq!(bench.events(), Vec::<String>::new());
}

/// From any policy to any other: what was written before is synced at the latest when the change is carried out, what comes
/// after it as the new policy says.
#[test]
fn another_policy_counts_from_its_job_on() {
    let all = [Policy::Always, Policy::Everysec, Policy::No];
    for (first, second) in all.iter().flat_map(|first| all.map(|second| (*first, second))) {
        let mut bench = Bench::new(first);
        bench.write().unwrap();
        bench.events();
        bench.give(Job::Policy(second)).unwrap();
        let synced = match first {
            Policy::Always => vec![],
            Policy::Everysec | Policy::No => vec![format!("sync {RECORD} {RECORD}")],
        };
        assert_eq!(bench.events(), synced, "{first:?} {second:?}");
        assert_eq!(bench.worker.wait(), None, "nothing is unsynced");
        bench.write().unwrap();
        let (written, at_once) = (2 * RECORD, second == Policy::Always);
        let expected = format!("group {written} {}", if at_once { written } else { RECORD });
        assert_eq!(bench.events(), [expected], "{first:?} {second:?}");
        bench.at(10_000).unwrap();
        let expected = match second {
            Policy::Everysec => vec![format!("sync {written} {written}")],
            Policy::Always | Policy::No => vec![],
        };
        assert_eq!(bench.events(), expected, "{first:?} {second:?}");
    }
}

#[test]
fn no_syncs_only_when_told_and_a_seal_is_synced_after_what_it_witnesses() {
    let mut bench = Bench::new(Policy::No);
    bench.write().unwrap();
    bench.at(100_000).unwrap();
    assert_eq!(bench.events(), [format!("group {RECORD} 0")]);
    bench.give(Job::Sync).unwrap();
    assert_eq!(bench.events(), [format!("sync {RECORD} {RECORD}")]);
    bench.write().unwrap();
    let seal = bench.batch.take_seal().unwrap();
    bench.disk.start_trace();
    bench.give(Job::Seal(seal)).unwrap();
    let words: Vec<String> = bench
        .disk
        .trace()
        .iter()
        .map(|line| line[..5].to_owned())
        .collect();
    assert_eq!(words, ["sync ", "write", "sync "]);
    assert_eq!(bench.events()[1], format!("sealed {}", 2 * RECORD));
}

#[test]
fn a_failed_write_is_repeated_every_50_ms_and_ends_the_process_after_10_s() {
    let mut bench = Bench::new(Policy::Always);
    bench.disk.fail_writes(0, io::ErrorKind::StorageFull);
    bench.write().unwrap();
    assert_eq!(bench.events(), ["stalled"]);
    assert!(bench.worker.is_stalled());
    assert_eq!(bench.worker.wait(), Some(STALL_STEP));
    bench.at(49).unwrap();
    bench.at(50).unwrap();
    assert_eq!(bench.events(), Vec::<String>::new(), "said once");
    bench.disk.heal_writes();
    bench.at(99).unwrap();
    assert!(bench.worker.is_stalled());
    bench.at(100).unwrap();
    assert_eq!(
        bench.events(),
        ["resumed".to_owned(), format!("group {RECORD} {RECORD}")]
    );

    bench.disk.fail_writes(0, io::ErrorKind::StorageFull);
    bench.write().unwrap();
    for ms in (150..10_100).step_by(50) {
        bench.at(ms).unwrap();
    }
    assert_eq!(bench.events(), ["stalled"]);
    let reason = bench.at(10_100).unwrap_err();
    assert!(reason.contains("10 seconds"), "{reason}");
    assert_eq!(bench.events(), Vec::<String>::new());
}

#[test]
fn everysec_goes_on_syncing_while_a_write_is_repeated() {
    let mut bench = Bench::new(Policy::Everysec);
    bench.write().unwrap();
    bench.disk.fail_writes(0, io::ErrorKind::StorageFull);
    bench.write().unwrap();
    bench.events();
    for ms in (50..=500).step_by(50) {
        bench.at(ms).unwrap();
    }
    assert_eq!(bench.events(), [format!("sync {RECORD} {RECORD}")]);
}

#[test]
fn after_a_failed_sync_there_is_no_event() {
    for policy in [Policy::Always, Policy::Everysec, Policy::No] {
        let mut bench = Bench::new(policy);
        bench.write().unwrap();
        bench.events();
        bench.disk.fail_sync_at(1, 3);
        let result = match policy {
            Policy::Always => bench.write(),
            Policy::Everysec => bench.at(500),
            Policy::No => bench.give(Job::ShutDown),
        };
        assert!(result.unwrap_err().contains("sync of wal/"), "{policy:?}");
        assert_eq!(bench.events(), Vec::<String>::new(), "{policy:?}");
        assert_eq!(see_control(&bench.disk).clean_end, None);
    }
}

#[test]
fn the_end_is_a_clean_mark_or_the_reason_why_not() {
    let mut bench = Bench::new(Policy::No);
    bench.write().unwrap();
    bench.give(Job::ShutDown).unwrap();
    assert_eq!(bench.events()[1..], ["closed true"]);
    assert!(bench.worker.is_closed());
    assert_eq!(
        see_control(&bench.disk).clean_end,
        Some(bench.worker.writer().written())
    );

    let mut bench = Bench::new(Policy::No);
    bench.write().unwrap();
    bench.disk.fail_writes(0, io::ErrorKind::StorageFull);
    bench.give(Job::ShutDown).unwrap();
    assert_eq!(bench.events()[1..], ["closed false"]);
    assert_eq!(see_control(&bench.disk).clean_end, None);
}
