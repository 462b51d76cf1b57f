//! The plan against a naive model of files: frames never overlap, never leave their file, and always leave room for a seal.

use std::collections::BTreeMap;

use idem_protocol::Deadline;
use proptest::prelude::*;

use super::*;

const START: Position = Position {
    segment_first: Lsn::ZERO,
    segment_bytes: 16384,
    offset: 4096,
    lsn: Lsn::ZERO,
    holds_record: false,
    last_seal: false,
    last_record_crc: 0,
    log_time: UnixMs::ZERO,
};

/// A record of exactly this many bytes, at least 41.
fn put(value: &[u8]) -> Record<'_> {
    Record::StringPut {
        key: b"k",
        deadline: Deadline::NONE,
        value,
    }
}

const PUT_OVERHEAD: u64 = 24 + 5 + 8 + 4;

fn append(batch: &mut Batch, value_bytes: usize) -> Result<Lsn, NotReserved> {
    let value = vec![7; value_bytes];
    batch.reserve(put(&value).encoded_len())?;
    Ok(batch.append(UnixMs::new(5), 0, &put(&value)))
}

/// A batch whose segment holds one record.
fn started(group_bytes_max: u64) -> Batch {
    let mut batch = Batch::new(START, group_bytes_max);
    batch.set_segment_bytes(16384);
    append(&mut batch, 0).unwrap();
    batch.take(Vec::new()).unwrap();
    batch
}

/// Record bytes that just fit into `free` bytes of a segment.
fn filling(free: u64) -> usize {
    usize::try_from(free - 64 - PUT_OVERHEAD).unwrap()
}

#[test]
fn a_group_that_just_fits_stays_and_one_byte_more_moves_to_the_smallest_spare() {
    let free = 16384 - 4096 - frame_bytes(PUT_OVERHEAD);
    for (extra, expected) in [(0, None), (1, Some(3))] {
        let mut batch = started(1 << 20);
        for (number, bytes) in [(1, 1 << 20), (2, 8192), (3, 20000), (4, 30000)] {
            batch.spare_ready(Spare { number, bytes });
        }
        append(&mut batch, filling(free) + extra).unwrap();
        let group = batch.take(Vec::new()).unwrap();
        let moved = match group.placement {
            Placement::Here => None,
            Placement::Spare(spare) => Some(spare.number),
        };
        assert_eq!(moved, expected, "{extra} bytes more");
        assert_eq!(batch.spares(), if extra == 0 { 4 } else { 3 });
    }
}

#[test]
fn a_record_of_the_segment_s_size_and_around_it_finds_a_spare_of_its_own_size() {
    let segment = 16384_u64;
    for record_bytes in [segment - 1, segment, segment + 1, 3 * segment] {
        let mut batch = started(1 << 20);
        let value_bytes = usize::try_from(record_bytes - PUT_OVERHEAD).unwrap();
        let Err(NotReserved::NeedsSpare { bytes }) = append(&mut batch, value_bytes) else {
            panic!("no spare is ready")
        };
        assert_eq!(bytes % 4096, 0);
        assert!(bytes >= 4096 + 32 + record_bytes + 32);
        batch.spare_ready(Spare {
            number: 0,
            bytes: segment,
        });
        assert_eq!(
            append(&mut batch, value_bytes),
            Err(NotReserved::NeedsSpare { bytes })
        );
        assert_eq!(batch.wants_spare(), Some(segment));
        batch.spare_ready(Spare { number: 1, bytes });
        assert_eq!(batch.wants_spare(), None);
        append(&mut batch, value_bytes).unwrap();
        let group = batch.take(Vec::new()).unwrap();
        assert_eq!(group.placement, Placement::Spare(Spare { number: 1, bytes }));
    }
}

#[test]
fn a_group_is_closed_at_its_limit_or_by_one_larger_record() {
    let mut batch = started(1000);
    batch.spare_ready(Spare {
        number: 0,
        bytes: 16384,
    });
    append(&mut batch, filling(1000 + 64)).unwrap();
    assert_eq!(batch.open_bytes(), 1000);
    assert_eq!(append(&mut batch, 0), Err(NotReserved::GroupFull));
    batch.take(Vec::new()).unwrap();
    append(&mut batch, 5000).unwrap();
    assert_eq!(append(&mut batch, 0), Err(NotReserved::GroupFull));
    let group = batch.take(Vec::new()).unwrap();
    assert_eq!(group.count, 1);
    assert_eq!(batch.take(Vec::new()).map(|group| group.count), None);
}

#[test]
fn a_group_too_large_together_is_taken_before_a_spare_is_asked_for() {
    let mut batch = started(1 << 20);
    batch.spare_ready(Spare {
        number: 0,
        bytes: 16384,
    });
    append(&mut batch, 10000).unwrap();
    assert_eq!(append(&mut batch, 10000), Err(NotReserved::GroupFull));
    assert!(matches!(
        append(&mut batch, 20000),
        Err(NotReserved::NeedsSpare { .. })
    ));
    assert!(matches!(
        batch.take(Vec::new()).unwrap().placement,
        Placement::Here
    ));
    append(&mut batch, 10000).unwrap();
    assert!(matches!(
        batch.take(Vec::new()).unwrap().placement,
        Placement::Spare(_)
    ));
}

#[test]
fn a_segment_without_a_record_is_made_longer_and_never_followed() {
    let mut batch = Batch::new(START, 1 << 20);
    batch.spare_ready(Spare {
        number: 0,
        bytes: 1 << 20,
    });
    append(&mut batch, 100_000).unwrap();
    assert_eq!(batch.take(Vec::new()).unwrap().placement, Placement::Here);
    append(&mut batch, 0).unwrap();
    assert!(matches!(
        batch.take(Vec::new()).unwrap().placement,
        Placement::Spare(_)
    ));
}

#[test]
fn an_unused_reservation_is_free_again() {
    let mut batch = started(1 << 20);
    batch.reserve(10000).unwrap();
    assert!(batch.take(Vec::new()).is_none());
    batch.reserve(10000).unwrap();
    batch.reserve(10000).unwrap();
    append(&mut batch, 100).unwrap();
    assert_eq!(batch.take(Vec::new()).unwrap().placement, Placement::Here);
}

#[test]
#[should_panic(expected = "reserved")]
fn appending_without_a_reservation_is_a_bug() {
    let mut batch = started(1 << 20);
    batch.append(UnixMs::new(9), 0, &Record::Clock);
}

#[test]
#[should_panic(expected = "time went back")]
fn time_going_back_is_a_bug() {
    let mut batch = started(1 << 20);
    batch.reserve(24).unwrap();
    batch.append(UnixMs::new(4), 0, &Record::Clock);
}

#[test]
fn seals_come_once_and_not_for_clock_records() {
    let mut batch = started(1 << 20);
    append(&mut batch, 1).unwrap();
    assert_eq!(batch.take_seal(), None, "records are waiting");
    batch.take(Vec::new()).unwrap();
    assert_eq!(
        batch.take_seal(),
        Some(Seal {
            lsn: batch.appended()
        })
    );
    assert_eq!(batch.take_seal(), None, "the last frame is one");
    batch.reserve(24).unwrap();
    batch.append(UnixMs::new(9), 0, &Record::Clock);
    let group = batch.take(Vec::new()).unwrap();
    assert!(group.clock_only);
    assert_eq!(batch.take_seal(), None, "only the time came since");
}

#[test]
fn raw_records_give_the_same_frame_as_their_values() {
    let mut batch = started(1 << 20);
    let mut copy = started(1 << 20);
    append(&mut batch, 33).unwrap();
    let group = batch.take(Vec::new()).unwrap();
    let raw = RawRecord::parse(&group.bytes[32..]).unwrap();
    copy.reserve(widen(raw.bytes.len())).unwrap();
    assert_eq!(copy.append_raw(&raw), group.end);
    assert_eq!(copy.last_record_crc(), batch.last_record_crc());
    let copied = copy.take(Vec::new()).unwrap();
    assert_eq!((copied.bytes, copied.crc), (group.bytes.clone(), group.crc));
    assert_eq!(group.crc, crc32fast::hash(raw.bytes));
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    ReserveOnly(u64),
    Clock,
    Take,
    Seal,
    Spare(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_usize..600).prop_map(Step::Append),
        1 => (600_usize..9000).prop_map(Step::Append),
        1 => (0_u64..9000).prop_map(Step::ReserveOnly),
        1 => Just(Step::Clock),
        4 => Just(Step::Take),
        2 => Just(Step::Seal),
        2 => prop_oneof![Just(6000_u64), 5000_u64..20000].prop_map(|bytes| Step::Spare(bytes / 8 * 8)),
    ]
}

/// Files as byte ranges in use: the oracle knows nothing of how the plan is made.
#[derive(Default)]
struct Files {
    lengths: BTreeMap<Lsn, u64>,
    used: BTreeMap<Lsn, u64>,
    current: Lsn,
}

impl Files {
    fn frame(&mut self, first: Lsn, bytes: u64, placement: Placement, holds_record: bool) {
        if let Placement::Spare(spare) = placement {
            assert!(holds_record, "successor of an empty segment");
            assert!(
                self.lengths.insert(first, spare.bytes).is_none(),
                "two segments of one name"
            );
            self.used.insert(first, 4096);
            self.current = first;
        }
        let used = self.used.get_mut(&self.current).unwrap();
        *used += bytes;
        let length = self.lengths.get_mut(&self.current).unwrap();
        if !holds_record {
            *length = (*length).max(*used + 32);
        }
        assert!(*used + 32 <= *length, "frame and seal at {used} of {length}");
    }

    fn seal(&mut self) {
        let used = self.used.get_mut(&self.current).unwrap();
        *used += 32;
        assert!(*used <= self.lengths[&self.current], "seal beyond the file");
    }
}

proptest! {
    #[test]
    fn frames_stay_apart_and_inside_their_files(steps in prop::collection::vec(step(), 1..200)) {
        let start = Position { segment_bytes: 6000, ..START };
        let mut batch = Batch::new(start, 2000);
        batch.set_segment_bytes(6000);
        let mut files = Files::default();
        files.lengths.insert(Lsn::ZERO, 6000);
        files.used.insert(Lsn::ZERO, 4096);
        let (mut holds_record, mut end, mut number, mut sealed) = (false, Lsn::ZERO, 0, true);
        for step in steps {
            match step {
                Step::Append(bytes) => {
                    if let Err(NotReserved::NeedsSpare { bytes: wanted }) = append(&mut batch, bytes) {
                        prop_assert!(wanted >= 4096 + needed_bytes(PUT_OVERHEAD + widen(bytes)));
                    }
                }
                Step::ReserveOnly(bytes) => drop(batch.reserve(bytes)),
                Step::Clock => {
                    if batch.reserve(24).is_ok() {
                        batch.append(UnixMs::new(5), 0, &Record::Clock);
                    }
                }
                Step::Take => {
                    if let Some(group) = batch.take(vec![9; 10]) {
                        prop_assert_eq!(group.first, end);
                        prop_assert_eq!(widen(group.bytes.len()) % 8, 0);
                        let payload = group.end.bytes_since(group.first);
                        prop_assert_eq!(widen(group.bytes.len()), frame_bytes(payload));
                        prop_assert!(payload <= 2000 || group.count == 1);
                        let records = &group.bytes[32..32 + usize::try_from(payload).unwrap()];
                        prop_assert_eq!(crc32fast::hash(records), group.crc);
                        prop_assert!(group.bytes[32 + records.len()..].iter().all(|byte| *byte == 0));
                        files.frame(group.first, widen(group.bytes.len()), group.placement, holds_record);
                        (holds_record, end, sealed) = (true, group.end, false);
                    }
                }
                Step::Seal => {
                    if let Some(seal) = batch.take_seal() {
                        prop_assert!(!sealed, "two seals in a row");
                        prop_assert_eq!(seal.lsn, end);
                        files.seal();
                        sealed = true;
                    }
                }
                Step::Spare(bytes) => {
                    if batch.spares() < 4 {
                        batch.spare_ready(Spare { number, bytes });
                        number += 1;
                    }
                }
            }
            prop_assert_eq!(batch.segment_first(), files.current);
        }
    }
}
