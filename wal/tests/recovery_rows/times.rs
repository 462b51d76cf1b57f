//! The time that a verdict names is that of the place it names, whatever is damaged and whatever vouches for more.

use crate::history::{Node, Policy, Truth, begin, begin_key};
use idem_protocol::{Lsn, UnixMs};
use idem_wal::reader::{LogReader, LogStep, frame_records};
use idem_wal::recovery::{Ignore, JudgeOptions, Judgement, judge};
use idem_wal::storage::Dir;
use idem_wal::storage::sim::SimDisk;

use crate::logs::*;

/// End and time of each record.
fn ends(disk: &SimDisk) -> Vec<(Lsn, UnixMs)> {
    let mut reader = LogReader::open(&disk.storage(), Lsn::ZERO).unwrap();
    let mut found = Vec::new();
    while let LogStep::Frame { file, frame } = reader.next_step().unwrap() {
        found.extend(frame_records(file, frame).map(|record| (record.raw.end(), record.raw.time)));
    }
    found
}

fn check(what: &str, judgement: &Judgement, first: Lsn, ends: &[(Lsn, UnixMs)]) {
    let read = ends
        .iter()
        .rfind(|(end, _)| *end <= judgement.end_lsn && *end > first);
    let expected = read.map_or(UnixMs::ZERO, |(_, time)| *time);
    assert_eq!(
        judgement.log_time, expected,
        "{what}: {:?} at {}",
        judgement.row, judgement.end_lsn
    );
}

#[test]
fn it_is_the_time_of_the_last_record_before_the_damage() {
    let (whole, _) = log_with_snapshots();
    let ends = ends(&whole);
    let sound = judge(&whole.storage(), &JudgeOptions::default(), &mut Ignore);
    let (first, snapshot) = (sound.segments[0].first, sound.snapshot.clone().unwrap());
    check("undamaged", &sound, first, &ends);
    let mut below = 0;
    for name in sound.segments.iter().map(|segment| &segment.name) {
        for (at, frame) in frames(&whole, name) {
            let disk = SimDisk::from_image(&whole.image());
            disk.flip(Dir::Wal, name, at + 4, 1);
            let judgement = judge(&disk.storage(), &JudgeOptions::default(), &mut Ignore);
            check(&format!("{name} at {at}"), &judgement, first, &ends);
            below += u32::from(frame.lsn < snapshot.end);
        }
    }
    assert!(below > 0, "some of it lies below the end of the snapshot");
}

#[test]
fn of_a_live_directory_it_is_the_time_of_what_is_vouched_for() {
    let disk = SimDisk::new();
    let mut truth = Truth::default();
    let Ok(mut node) = Node::start(&disk, Policy::No, 7) else {
        panic!("a new directory starts")
    };
    node.note_start(&mut truth, &disk);
    let options = JudgeOptions {
        live: true,
        ..JudgeOptions::default()
    };
    let mut behind = 0;
    for number in 0..30 {
        node.time += 1;
        node.group(&mut truth, &[begin(&begin_key(number, 10))])
            .unwrap_or_else(|end| panic!("{end:?}"));
        if number % 7 == 0 {
            node.sync(&mut truth).unwrap_or_else(|end| panic!("{end:?}"));
        }
        let (judgement, ends) = (judge(&disk.storage(), &options, &mut Ignore), ends(&disk));
        check(&number.to_string(), &judgement, Lsn::ZERO, &ends);
        behind += u32::from(judgement.end_lsn < ends.last().unwrap().0);
    }
    assert!(behind > 10, "{behind}");
}
