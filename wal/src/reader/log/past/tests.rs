//! A small log spoilt at every byte: the records that are read and the ranges that are named make up the whole log.

use idem_protocol::wal::{SEGMENT_HEADER_BYTES, segment_name};

use super::*;
use crate::reader::log::LogStep;
use crate::reader::{Piece, frame_records, salvage};
use crate::storage::sim::{SimDisk, SimStorage};
use crate::storage::{Dir, Storage};
use crate::testing::{TestLog, see_log};

/// What came of reading to the end past all damage.
#[derive(Debug, Default)]
struct Read {
    /// Begin and end of each record.
    records: Vec<(Lsn, Lsn)>,
    /// Begin and end of each range that was passed over.
    gaps: Vec<(Lsn, Lsn)>,
}

impl Read {
    /// Checks that both together leave nothing out from 0 on, and tell of nothing twice; returns the end.
    fn check_sum(&self, what: &str) -> Lsn {
        let mut all: Vec<_> = self.records.iter().chain(&self.gaps).copied().collect();
        all.sort_unstable();
        all.iter().fold(Lsn::ZERO, |at, (from, to)| {
            assert_eq!(*from, at, "{what}: {self:?}");
            *to
        })
    }
}

fn read(storage: &SimStorage, live: bool) -> Read {
    let mut reader = LogReader::open(storage, Lsn::ZERO).unwrap();
    let mut read = Read::default();
    loop {
        match reader.next_step().unwrap() {
            LogStep::Frame { file, frame } => {
                let records = frame_records(file, frame).map(|record| (record.raw.lsn, record.raw.end()));
                read.records.extend(records);
                continue;
            }
            LogStep::Removed { .. } => panic!("nothing is removed here"),
            LogStep::End { .. } => {}
        }
        match reader.pass(live).unwrap() {
            Past::Over => return read,
            Past::Again => panic!("nobody writes here"),
            Past::Gap(gap) => read.gaps.push((gap.from, gap.to)),
            Past::Broken { frame, .. } => {
                for piece in salvage(&frame.header, frame.payload) {
                    match piece {
                        Piece::Record(_, raw) => read.records.push((raw.lsn, raw.end())),
                        Piece::Bad(bad) => read.gaps.push((bad.from, bad.to)),
                    }
                }
            }
        }
    }
}

/// Three segments, each of two groups but the last, which has three.
fn world() -> (SimDisk, Lsn, usize) {
    let disk = SimDisk::new();
    let mut log = TestLog::create(&disk.storage());
    for value_bytes in [2000, 1000, 2001, 1001, 2002, 30, 10] {
        log.write(value_bytes).unwrap();
    }
    let segments = see_log(&disk);
    assert_eq!(segments.len(), 3);
    let end = segments.last().unwrap().1.as_ref().unwrap().end;
    (disk, end, 7)
}

/// Spoils a copy of the log's bytes in one place and puts them back afterwards.
fn with_change(disk: &SimDisk, name: &str, at: u64, bytes: &[u8], check: impl FnOnce(&SimStorage)) {
    let storage = disk.storage();
    let file = storage.open_write(Dir::Wal, name).unwrap();
    let mut before = vec![0; bytes.len()];
    file.read_at(at, &mut before).unwrap();
    file.write_at(at, bytes).unwrap();
    check(&storage);
    file.write_at(at, &before).unwrap();
}

#[test]
fn what_is_read_and_what_is_not_make_up_the_log() {
    let (disk, end, groups) = world();
    let whole = read(&disk.storage(), false);
    assert_eq!((whole.records.len(), whole.gaps.len()), (groups, 0));
    for (first, seen) in see_log(&disk) {
        let name = segment_name(first);
        let seen = seen.unwrap();
        let is_newest = seen.end == end;
        let used = seen
            .frames
            .iter()
            .map(idem_protocol::wal::FrameHeader::frame_bytes)
            .sum::<u64>();
        for at in SEGMENT_HEADER_BYTES as u64..SEGMENT_HEADER_BYTES as u64 + used {
            let mut byte = [0];
            let file = disk.storage().open(Dir::Wal, &name).unwrap();
            file.read_at(at, &mut byte).unwrap();
            with_change(&disk, &name, at, &[byte[0] ^ 0x10], |storage| {
                let read = read(storage, false);
                let what = format!("{name} offset {at}");
                let reached = read.check_sum(&what);
                // A bad header of the very last group: nothing follows that could tell of it.
                let lost = groups - read.records.len();
                assert!(lost <= 1, "{what}: {read:?}");
                assert!(reached == end || is_newest && lost == 1, "{what}: {read:?}");
                assert_eq!(read.gaps.len(), usize::from(reached == end) * lost, "{what}");
            });
        }
    }
}

#[test]
fn a_segment_without_a_header_and_one_that_is_missing_are_passed() {
    let (disk, end, groups) = world();
    let segments = see_log(&disk);
    let middle = segments[1].0;
    let name = segment_name(middle);
    with_change(&disk, &name, 0, &[0; SEGMENT_HEADER_BYTES], |storage| {
        let read = read(storage, false);
        assert_eq!(read.check_sum("no header"), end);
        assert_eq!(
            (read.gaps, read.records.len()),
            (vec![(middle, segments[2].0)], groups - 2)
        );
    });
    // The first one, too: reading begins there.
    let first = segment_name(Lsn::ZERO);
    with_change(&disk, &first, 0, &[0; SEGMENT_HEADER_BYTES], |storage| {
        let read = read(storage, false);
        assert_eq!(read.check_sum("no first header"), end);
        assert_eq!(read.gaps, [(Lsn::ZERO, middle)]);
    });
    disk.storage().remove(Dir::Wal, &name).unwrap();
    let read = read(&disk.storage(), false);
    assert_eq!(read.check_sum("missing"), end);
    assert_eq!(read.gaps, [(middle, segments[2].0)]);
}

#[test]
fn the_end_of_a_live_log_is_passed_only_when_a_later_group_stands() {
    let (disk, _, groups) = world();
    let (first, seen) = see_log(&disk).pop().unwrap();
    let name = segment_name(first);
    let offsets: Vec<u64> = seen
        .unwrap()
        .frames
        .iter()
        .scan(SEGMENT_HEADER_BYTES as u64, |at, frame| {
            let here = *at;
            *at += frame.frame_bytes();
            Some(here)
        })
        .collect();
    // In the first record of a group.
    for (index, offset) in offsets.iter().enumerate() {
        with_change(&disk, &name, offset + 50, &[0xee; 4], |storage| {
            let is_last = index + 1 == offsets.len();
            assert_eq!(read(storage, true).records.len(), groups - 1, "group {index}");
            assert_eq!(
                read(storage, true).gaps.len(),
                usize::from(!is_last),
                "group {index}"
            );
            assert_eq!(read(storage, false).gaps.len(), 1, "group {index}");
        });
    }
}

#[test]
fn a_newer_format_is_not_passed() {
    let (disk, ..) = world();
    let segments = see_log(&disk);
    let header = segments[1].1.as_ref().unwrap().header;
    let mut copy = header.encode();
    // The format, and the checksum of bytes 0 to 99.
    copy[8] = 200;
    let crc = crc32fast::hash(&copy[..100]).to_le_bytes();
    copy[100..104].copy_from_slice(&crc);
    let mut page = vec![0; SEGMENT_HEADER_BYTES];
    page[..104].copy_from_slice(&copy[..104]);
    page[2048..2048 + 104].copy_from_slice(&copy[..104]);
    with_change(&disk, &segment_name(segments[1].0), 0, &page, |storage| {
        let read = read(storage, false);
        assert_eq!((read.check_sum("newer"), read.gaps.len()), (segments[1].0, 0));
    });
}

#[test]
fn what_cannot_be_read_is_passed_segment_by_segment() {
    let (disk, end, _) = world();
    let names: Vec<(Lsn, String)> = see_log(&disk)
        .iter()
        .map(|(first, _)| (*first, segment_name(*first)))
        .collect();
    for mask in 0..1_u32 << names.len() {
        let bad = |index: usize| mask & (1 << index) != 0;
        let disk = SimDisk::from_image(&disk.image());
        for (index, (_, name)) in names.iter().enumerate() {
            if bad(index) {
                disk.fail_reads(Dir::Wal, name);
            }
        }
        let storage = disk.storage();
        let mut reader = LogReader::open(&storage, Lsn::ZERO).unwrap();
        let mut read = Read::default();
        let mut files = Vec::new();
        loop {
            match reader.next_step() {
                Ok(LogStep::Frame { file, frame }) => {
                    let records = frame_records(file, frame).map(|record| (record.raw.lsn, record.raw.end()));
                    read.records.extend(records);
                }
                Ok(LogStep::Removed { .. }) => panic!("nothing is removed here"),
                Ok(LogStep::End { .. }) => break,
                Err(error) => {
                    let passed = reader.pass_unreadable(&error).unwrap().unwrap();
                    assert!(passed.gap.error.is_some());
                    files.push(passed.gap.file.clone());
                    if passed.gap.from < passed.gap.to {
                        read.gaps.push((passed.gap.from, passed.gap.to));
                    }
                    assert_eq!(passed.follows, passed.gap.file != names[names.len() - 1].1);
                    if !passed.follows {
                        break;
                    }
                }
            }
        }
        let expected: Vec<&String> = (0..names.len())
            .filter(|index| bad(*index))
            .map(|index| &names[index].1)
            .collect();
        assert_eq!(files.iter().collect::<Vec<_>>(), expected, "{mask:b}");
        let last = if bad(names.len() - 1) {
            names[names.len() - 1].0
        } else {
            end
        };
        assert_eq!(read.check_sum(&format!("{mask:b}")), last);
    }
}
