//! A restore on the simulated disk, interrupted everywhere.

use std::io;

use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::Record;
use idem_protocol::{Deadline, Epoch, HistoryEntry};

use super::*;
use crate::error::WriteError;
use crate::recovery::{JudgeOptions, Judgement, Place, Row, Sink, Verdict, judge, open};
use crate::storage::sim::{SimDisk, SimStorage};

fn origin(lsn: u64) -> Origin {
    let epoch = |number| Epoch {
        number,
        nonce: number,
    };
    let entry = |number, first_lsn| HistoryEntry {
        epoch: epoch(number),
        node: NodeId([1; 16]),
        first_lsn: Lsn::new(first_lsn),
    };
    Origin {
        node: NodeId([2; 16]),
        cluster: ClusterId([3; 16]),
        lsn: Lsn::new(lsn),
        log_time: UnixMs::new(5000),
        last_record_crc: if lsn == 0 { 0 } else { 0x1234_5678 },
        history: if lsn == 0 {
            Vec::new()
        } else {
            vec![entry(1, 0), entry(4, 700)]
        },
        highest_epoch: 9,
    }
}

fn params(now: u64) -> OpenParams {
    let mut next = 100;
    OpenParams {
        now: UnixMs::new(now),
        segment_bytes: 1 << 16,
        entropy: Box::new(move || {
            next += 1;
            [next; 16]
        }),
    }
}

/// The whole restore of two keys; an error when the disk has one.
fn restore(storage: &SimStorage, origin: &Origin) -> Result<Opened<SimStorage>, OpenError> {
    let (restoration, mut writer) = Restoration::begin(storage, origin.clone(), params(0))?;
    let mut items = Vec::new();
    for key in [b"a", b"b"] {
        let item = Record::StringPut {
            key,
            deadline: Deadline::NONE,
            value: b"1",
        };
        item.encode(origin.lsn, origin.log_time, 0, &mut items);
    }
    let no_space = |error: WriteError| OpenError::write("the snapshot", 0, error);
    writer.items(&items).map_err(no_space)?;
    let trailer = SnapshotTrailer {
        end_lsn: origin.lsn,
        epoch: origin.epoch(),
        end_crc: origin.last_record_crc,
        log_time: origin.log_time,
        history: origin.history.clone(),
        databases: vec![(0, 2)],
        ..SnapshotTrailer::default()
    };
    let finished = writer.finish(&trailer).map_err(no_space)?;
    restoration.finish(&finished)
}

/// What a start would read.
#[derive(Default)]
struct Seen {
    items: usize,
    records: Vec<String>,
}

impl Sink for Seen {
    fn reset(&mut self) {
        *self = Seen::default();
    }

    fn snapshot_item(&mut self, _: &idem_protocol::wal::RawRecord<'_>, _: &Record<'_>) {
        self.items += 1;
    }

    fn record(&mut self, _: Place<'_>, _: &idem_protocol::wal::RawRecord<'_>, record: &Record<'_>) {
        self.records.push(format!("{record:?}"));
    }
}

fn judged(disk: &SimDisk) -> (Judgement, Seen) {
    let options = JudgeOptions {
        retain_tail: true,
        ..JudgeOptions::default()
    };
    let mut seen = Seen::default();
    let judgement = judge(&disk.storage(), &options, &mut seen);
    (judgement, seen)
}

/// The restore is there as a whole, and a server goes on in it.
fn check_whole(disk: &SimDisk, origin: &Origin) {
    let (judgement, seen) = judged(disk);
    assert_eq!(judgement.verdict, Verdict::Clean, "{:?}", judgement.findings);
    assert_eq!((seen.items, seen.records.len()), (2, 1));
    assert!(seen.records[0].contains("Restore"), "{}", seen.records[0]);
    let control = judgement.control.clone().unwrap();
    assert_eq!(control.promised_epoch, 10);
    assert_eq!(control.history.len(), origin.history.len() + 1);
    let opened = open(&disk.storage(), judgement, params(9000)).unwrap();
    assert_eq!(opened.epoch.number, 11);
    assert_eq!(opened.log_time, UnixMs::new(9000));
    let (judgement, seen) = judged(disk);
    assert_eq!(judgement.row, Row::B);
    assert_eq!((seen.items, seen.records.len()), (2, 2));
}

#[test]
fn a_restore_is_a_clean_log_with_an_epoch_of_its_own() {
    for lsn in [0, 1000] {
        let disk = SimDisk::new();
        let opened = restore(&disk.storage(), &origin(lsn)).unwrap();
        assert_eq!(opened.epoch.number, 10);
        assert_eq!(opened.log_time, UnixMs::new(5000), "it ends no key");
        disk.power_loss(&mut |_| 0);
        check_whole(&disk, &origin(lsn));
    }
}

#[test]
fn interrupted_anywhere_it_is_refused_or_whole() {
    let (mut refused, mut whole) = (0, 0);
    for operation in 0.. {
        let disk = SimDisk::new();
        disk.crash_after(operation);
        let done = restore(&disk.storage(), &origin(1000)).is_ok();
        let crashed = disk.is_crashed();
        let image = disk.image();
        // A kill leaves everything, a power loss any part of what was not synced.
        for seed in 0..12 {
            let after = SimDisk::from_image(&image);
            if seed > 0 {
                after.power_loss_seeded(seed);
            }
            let (judgement, _) = judged(&after);
            match judgement.verdict {
                Verdict::Hole => {
                    assert!(!done, "operation {operation}, seed {seed}");
                    refused += 1;
                }
                // Taken for an empty directory: before anything of the state was in it.
                Verdict::New => assert_eq!(after.names(Dir::Snap), Vec::<String>::new()),
                _ => {
                    check_whole(&after, &origin(1000));
                    whole += 1;
                }
            }
        }
        if !crashed {
            break;
        }
    }
    assert!(refused > 50 && whole > 10, "{refused} refused, {whole} whole");
}

#[test]
fn without_space_it_says_so_and_makes_no_log() {
    for space in (0..80_000).step_by(997) {
        let disk = SimDisk::new();
        disk.set_space(Some(space));
        match restore(&disk.storage(), &origin(1000)) {
            Ok(_) => return assert!(space > 1 << 16),
            Err(OpenError::NoSpace { source, .. }) => {
                assert_ne!(source.kind(), io::ErrorKind::Other);
            }
            Err(error) => panic!("{space} bytes: {error}"),
        }
        let (judgement, _) = judged(&disk);
        assert!(
            matches!(judgement.verdict, Verdict::New | Verdict::Hole),
            "{space} bytes"
        );
    }
    unreachable!("80 kB are enough");
}
