//! A reader at the end of a log that grows, is cut, or goes.

use idem_protocol::Lsn;
use idem_protocol::wal::SEGMENT_HEADER_BYTES;

use super::*;
use crate::reader::log::LogStep;
use crate::storage::StorageFile;
use crate::storage::sim::{SimDisk, SimStorage};
use crate::testing::{TestLog, see_log};

fn read_to_end(reader: &mut LogReader<SimStorage>) -> (usize, Lsn) {
    let mut frames = 0;
    loop {
        match reader.next_step().unwrap() {
            LogStep::Frame { .. } => frames += 1,
            LogStep::Removed { .. } => panic!("nothing is removed unread"),
            LogStep::End { lsn, .. } => return (frames, lsn),
        }
    }
}

fn world() -> (SimDisk, TestLog<SimStorage>, LogReader<SimStorage>) {
    let disk = SimDisk::new();
    let mut log = TestLog::create(&disk.storage());
    log.write(100).unwrap();
    let mut reader = LogReader::open(&disk.storage(), Lsn::ZERO).unwrap();
    assert_eq!(read_to_end(&mut reader).0, 1);
    (disk, log, reader)
}

#[test]
fn what_is_added_is_read_in_this_segment_and_the_next() {
    let (disk, mut log, mut reader) = world();
    assert_eq!(reader.look_again().unwrap(), Again::Same);
    assert_eq!(read_to_end(&mut reader).0, 0);
    log.write(100).unwrap();
    // What was read ahead is from before.
    assert_eq!(read_to_end(&mut reader).0, 0);
    assert_eq!(reader.look_again().unwrap(), Again::Same);
    assert_eq!(read_to_end(&mut reader).0, 1);
    log.write(100).unwrap();
    log.fill();
    log.write(3000).unwrap();
    log.write(3000).unwrap();
    assert_eq!(reader.look_again().unwrap(), Again::Same);
    let (frames, end) = read_to_end(&mut reader);
    let newest = see_log(&disk).pop().unwrap();
    assert_eq!((frames, end), (4, newest.1.unwrap().end));
}

#[test]
fn a_segment_that_retention_removes_is_read_to_its_end() {
    let (disk, mut log, mut reader) = world();
    log.write(100).unwrap();
    log.fill();
    log.write(100).unwrap();
    assert_eq!(see_log(&disk).len(), 3);
    for (first, _) in &see_log(&disk)[..1] {
        disk.storage().remove(Dir::Wal, &segment_name(*first)).unwrap();
    }
    assert_eq!(reader.look_again().unwrap(), Again::Same);
    let (frames, end) = read_to_end(&mut reader);
    assert_eq!((frames, end), (3, see_log(&disk).pop().unwrap().1.unwrap().end));
}

#[test]
fn a_log_that_was_cut_or_is_gone_is_another_one() {
    let name = segment_name(Lsn::ZERO);
    let zeros = vec![0; 4096];
    // The frame that was read last goes; it is another one; the segment is made anew; it goes; an older one stays.
    let (disk, _log, mut reader) = world();
    let file = disk.storage().open_write(Dir::Wal, &name).unwrap();
    file.write_at(SEGMENT_HEADER_BYTES as u64, &zeros).unwrap();
    assert_eq!(reader.look_again().unwrap(), Again::Changed);

    let (disk, _log, mut reader) = world();
    // The time of the first record.
    assert!(disk.flip(Dir::Wal, &name, SEGMENT_HEADER_BYTES + 32 + 17, 1));
    assert_eq!(reader.look_again().unwrap(), Again::Changed);

    let (disk, _log, mut reader) = world();
    assert!(disk.flip(Dir::Wal, &name, 56, 1) && disk.flip(Dir::Wal, &name, 2048 + 56, 1));
    assert_eq!(reader.look_again().unwrap(), Again::Changed);

    let (disk, _log, mut reader) = world();
    disk.storage().remove(Dir::Wal, &name).unwrap();
    assert_eq!(reader.look_again().unwrap(), Again::Changed);

    let (disk, mut log, mut reader) = world();
    log.fill();
    log.write(3000).unwrap();
    assert_eq!(reader.look_again().unwrap(), Again::Same);
    assert_eq!(read_to_end(&mut reader).0, 2);
    let newest = see_log(&disk).pop().unwrap().0;
    assert!(newest > Lsn::ZERO);
    disk.storage().remove(Dir::Wal, &segment_name(newest)).unwrap();
    assert_eq!(reader.look_again().unwrap(), Again::Changed);
}
