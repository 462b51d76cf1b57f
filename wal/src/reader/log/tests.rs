//! Reading a log while a writer appends, rotates and removes the oldest segments: every order of the two, on a small log.

use idem_protocol::wal::{SEGMENT_HEADER_BYTES, segment_name};

use super::*;
use crate::retention::{self, Removals};
use crate::storage::sim::{SimDisk, SimStorage};
use crate::testing::{TestLog, see_log};

/// What a writer may do between two steps of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Rest,
    /// A group that shares a segment.
    Append,
    /// A group that needs a segment of its own.
    Rotate,
    /// A rotation, and the oldest segment goes.
    RotateAndRemove,
    /// As a snapshot does after a long time: only the newest segment stays.
    RemoveAll,
}

const ACTS: [Act; 5] = [
    Act::Rest,
    Act::Append,
    Act::Rotate,
    Act::RotateAndRemove,
    Act::RemoveAll,
];

/// Values of this length are a group to themselves: two of them, or one and [`FIRST_BYTES`], do not fit into a segment.
const BIG_BYTES: usize = 3700;
const FIRST_BYTES: usize = 300;
const SMALL_BYTES: usize = 10;

/// A log, and all record bytes that it ever had.
struct World {
    disk: SimDisk,
    log: TestLog<SimStorage>,
    records: Vec<u8>,
}

impl World {
    fn new(segments: usize) -> World {
        let disk = SimDisk::new();
        let log = TestLog::create(&disk.storage());
        let mut world = World {
            disk,
            log,
            records: Vec::new(),
        };
        world.write(FIRST_BYTES);
        (1..segments).for_each(|_| world.write(BIG_BYTES));
        world
    }

    fn write(&mut self, value_bytes: usize) {
        let mut group = self.log.group(value_bytes);
        self.log.writer.write(&mut group).unwrap();
        self.log.writer.sync().unwrap();
        let payload = usize::try_from(group.end.get() - group.first.get()).unwrap();
        let records = &group.bytes[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + payload];
        self.records.extend_from_slice(records);
    }

    fn firsts(&self) -> Vec<Lsn> {
        see_log(&self.disk).iter().map(|(first, _)| *first).collect()
    }

    fn remove(&self, segments: &[Lsn]) {
        let removals = Removals {
            segments: segments.to_vec(),
            ..Removals::default()
        };
        retention::execute(&self.disk.storage(), &removals).unwrap();
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Rest => {}
            Act::Append => self.write(SMALL_BYTES),
            Act::Rotate => self.write(BIG_BYTES),
            Act::RotateAndRemove => {
                self.write(BIG_BYTES);
                self.remove(&self.firsts()[..1]);
            }
            Act::RemoveAll => {
                let firsts = self.firsts();
                self.remove(&firsts[..firsts.len() - 1]);
            }
        }
    }

    fn end(&self) -> Lsn {
        Lsn::new(self.records.len() as u64)
    }

    fn reader(&self) -> LogReader<SimStorage> {
        LogReader::open(&self.disk.storage(), Lsn::ZERO).unwrap()
    }
}

/// A step without its borrow; a frame with the positions of its records' first and last byte.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Frame(Lsn, Lsn),
    Removed(Lsn, Lsn),
    End(Lsn, usize),
}

fn step(reader: &mut LogReader<SimStorage>, records: &[u8]) -> Seen {
    match reader.next_step().unwrap() {
        LogStep::Frame { frame, .. } => {
            let first = usize::try_from(frame.header.lsn.get()).unwrap();
            assert_eq!(frame.payload, &records[first..first + frame.payload.len()]);
            Seen::Frame(frame.header.lsn, frame.header.end().unwrap())
        }
        LogStep::Removed { from, to } => Seen::Removed(from, to),
        LogStep::End {
            lsn, segments_left, ..
        } => Seen::End(lsn, segments_left),
    }
}

/// Reads to the end with one of `acts` before each step, then without; checks that nothing is left out that was there, and
/// nothing twice. Returns what was said to be removed.
fn check_walk(world: &mut World, acts: &[Act]) -> Vec<(Lsn, Lsn)> {
    let mut reader = world.reader();
    let listed = world.end();
    let mut at = None;
    let mut removed = Vec::new();
    let mut acts_left = acts.iter();
    loop {
        let resting = acts_left.as_slice().is_empty();
        if let Some(act) = acts_left.next() {
            world.act(*act);
        }
        match step(&mut reader, &world.records) {
            Seen::Frame(first, end) => {
                assert!(at.is_none_or(|at| at == first), "{acts:?}: {at:?}, then {first}");
                at = Some(end);
            }
            Seen::Removed(from, to) => {
                assert!(
                    at == Some(from) && to > from,
                    "{acts:?}: at {at:?}, {from} to {to}"
                );
                let first_left = see_log(&world.disk)[0].0;
                assert!(first_left >= to, "{acts:?}: {to} is the next one that is left");
                removed.push((from, to));
                at = Some(to);
            }
            Seen::End(lsn, segments_left) => {
                assert!(
                    at == Some(lsn) && segments_left == 0,
                    "{acts:?}: at {at:?}, end {lsn}"
                );
                assert!(lsn >= listed, "{acts:?}: what was there at the beginning is read");
                if resting {
                    // The end of the newest segment, as far as it was when it was read.
                    assert!(see_log(&world.disk).last().unwrap().0 < lsn, "{acts:?}");
                    assert_eq!(step(&mut reader, &world.records), Seen::End(lsn, 0));
                    return removed;
                }
            }
        }
    }
}

#[test]
fn every_order_of_reading_writing_and_removing() {
    let mut gaps = 0;
    for length in 0..=5u32 {
        for number in 0..5usize.pow(length) {
            let acts: Vec<Act> = (0..length)
                .map(|place| ACTS[number / 5usize.pow(place) % 5])
                .collect();
            let removed = check_walk(&mut World::new(3), &acts);
            let can_remove = acts
                .iter()
                .any(|act| matches!(act, Act::RotateAndRemove | Act::RemoveAll));
            assert!(removed.is_empty() || can_remove, "{acts:?}: {removed:?}");
            gaps += removed.len();
        }
    }
    assert!(gaps > 100, "{gaps} gaps: the acts get in the reader's way");
}

#[test]
fn the_next_segment_stays_readable_when_its_name_goes() {
    let mut world = World::new(4);
    let mut reader = world.reader();
    let first = step(&mut reader, &world.records);
    assert!(matches!(first, Seen::Frame(Lsn::ZERO, _)));
    let firsts = world.firsts();
    world.act(Act::RemoveAll);
    let second = step(&mut reader, &world.records);
    assert_eq!(second, Seen::Frame(firsts[1], firsts[2]));
    let gap = step(&mut reader, &world.records);
    assert_eq!(gap, Seen::Removed(firsts[2], firsts[3]));
    let last = step(&mut reader, &world.records);
    assert_eq!(last, Seen::Frame(firsts[3], world.end()));
    assert_eq!(step(&mut reader, &world.records), Seen::End(world.end(), 0));
}

#[test]
fn reading_begins_at_the_first_segment_that_is_left() {
    let mut world = World::new(4);
    let mut reader = world.reader();
    let newest = *world.firsts().last().unwrap();
    world.act(Act::RemoveAll);
    let first = step(&mut reader, &world.records);
    assert_eq!(first, Seen::Frame(newest, world.end()));
    assert_eq!(step(&mut reader, &world.records), Seen::End(world.end(), 0));
}

#[test]
fn what_was_added_to_the_last_segment_is_read_before_its_successor() {
    let mut world = World::new(1);
    let mut reader = world.reader();
    let first = world.end();
    assert_eq!(step(&mut reader, &world.records), Seen::Frame(Lsn::ZERO, first));
    // The reader holds the zeros that were behind the first group.
    world.act(Act::Append);
    let second = world.end();
    world.act(Act::Rotate);
    world.act(Act::Rotate);
    world.act(Act::RemoveAll);
    assert_eq!(step(&mut reader, &world.records), Seen::Frame(first, second));
    let newest = world.firsts()[0];
    assert_eq!(step(&mut reader, &world.records), Seen::Removed(second, newest));
    assert_eq!(
        step(&mut reader, &world.records),
        Seen::Frame(newest, world.end())
    );
    // After the end the log may go on.
    let end = world.end();
    assert_eq!(step(&mut reader, &world.records), Seen::End(end, 0));
    world.act(Act::Rotate);
    assert_eq!(step(&mut reader, &world.records), Seen::Frame(end, world.end()));
}

#[test]
fn a_segment_that_was_never_there_is_a_hole() {
    let world = World::new(4);
    let firsts = world.firsts();
    world.remove(&firsts[1..2]);
    let mut reader = world.reader();
    let first = step(&mut reader, &world.records);
    assert_eq!(first, Seen::Frame(Lsn::ZERO, firsts[1]));
    for _ in 0..2 {
        assert_eq!(step(&mut reader, &world.records), Seen::End(firsts[1], 2));
    }
}

#[test]
fn damage_is_no_removal() {
    let mut world = World::new(4);
    let mut reader = world.reader();
    let firsts = world.firsts();
    let name = segment_name(firsts[1]);
    step(&mut reader, &world.records);
    let in_first_record = SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + 30;
    assert!(world.disk.flip(Dir::Wal, &name, in_first_record, 1));
    world.act(Act::RemoveAll);
    assert_eq!(step(&mut reader, &world.records), Seen::End(firsts[1], 1));
}

#[test]
fn a_read_error_comes_when_there_is_nothing_else_to_read() {
    let world = World::new(3);
    let firsts = world.firsts();
    let mut reader = world.reader();
    world.disk.fail_reads(Dir::Wal, &segment_name(firsts[1]));
    let first = step(&mut reader, &world.records);
    assert_eq!(first, Seen::Frame(Lsn::ZERO, firsts[1]));
    assert!(reader.next_step().is_err());
}
