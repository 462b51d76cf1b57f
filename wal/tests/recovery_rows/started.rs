//! Rows with which a server starts: A, B, C, D, E, a newest segment that was never born, and a new directory.

use crate::history::{Node, Policy, Truth, begin, begin_key};
use idem_protocol::wal::{FrameHeader, Salt, segment_name};
use idem_wal::recovery::Row;
use idem_wal::storage::Dir;
use idem_wal::storage::sim::SimDisk;

use crate::logs::*;

#[test]
fn a_and_b_nothing_follows_the_end() {
    case("a clean shutdown", true, Row::A, |_| {});
    case("a kill between groups", false, Row::B, |_| {});
    case("a tail of zeros was added", false, Row::B, |disk| {
        disk.append(Dir::Wal, &newest(disk), &vec![0; 4 << 20]);
    });
    case("the zeros behind the log are gone", false, Row::B, |disk| {
        let used = used(disk);
        disk.truncate(Dir::Wal, &newest(disk), used);
    });
    case(
        "the last group, not witnessed, reads as zeros",
        false,
        Row::B,
        |disk| {
            let (at, frame) = *frames(disk, &newest(disk)).last().unwrap();
            disk.overwrite(
                Dir::Wal,
                &newest(disk),
                at,
                &vec![0; usize::try_from(frame.frame_bytes()).unwrap()],
            );
        },
    );
}

#[test]
fn new_a_directory_that_was_being_made() {
    let empty = SimDisk::new();
    expect("an empty directory", &empty, &Truth::default(), Row::New);
    let (disk, _) = log(false);
    let names = segments(&disk);
    for name in &names[1..] {
        disk.remove(Dir::Wal, name);
    }
    disk.remove(Dir::Root, "control");
    disk.change(Dir::Wal, &names[0], |bytes| bytes[4096..].fill(0));
    disk.put(Dir::Wal, "new.tmp", b"left over");
    disk.put(Dir::Wal, "spare-3", b"left over");
    expect(
        "only the segment of lsn 0 with zeros",
        &disk,
        &Truth::default(),
        Row::New,
    );
    assert!(!disk.names(Dir::Wal).contains(&"spare-3".to_owned()));
}

#[test]
fn c_something_follows_a_clean_end() {
    case("one byte after a clean shutdown", true, Row::C, |disk| {
        let at = used(disk);
        disk.overwrite(Dir::Wal, &newest(disk), at + 3, b"x");
    });
    case("one byte appended to the file", true, Row::C, |disk| {
        disk.append(Dir::Wal, &newest(disk), b"x");
    });
}

#[test]
fn d_later_frames_promise_nothing_that_is_gone() {
    // Two groups after the last sync, the first of them torn: its successor's mark does not cover it.
    let disk = SimDisk::new();
    let mut truth = Truth::default();
    let Ok(mut node) = Node::start(&disk, Policy::No, 7) else {
        panic!("a new directory starts")
    };
    node.note_start(&mut truth, &disk);
    for number in 0..3 {
        let key = begin_key(number, 10);
        node.group(&mut truth, &[begin(&key)])
            .unwrap_or_else(|end| panic!("{end:?}"));
    }
    drop(node);
    disk.settle();
    disk.kill();
    let (at, _) = frames(&disk, &newest(&disk))[2];
    disk.flip(Dir::Wal, &newest(&disk), at + 40, 1);
    expect("a torn group before a whole one", &disk, &truth, Row::D);
}

#[test]
fn e_junk_that_nothing_vouches_for() {
    case("one junk byte after the log", false, Row::E, |disk| {
        let at = used(disk);
        disk.overwrite(Dir::Wal, &newest(disk), at + 100, b"x");
    });
    case("a frame header whose records are torn", false, Row::E, |disk| {
        let payload = record(end(disk), 5_000);
        append_frame(disk, &payload, |_| {});
        let at = used(disk) - 8;
        disk.flip(Dir::Wal, &newest(disk), at, 1);
    });
    for (what, length) in [("0", 0), ("1", 1), ("2^31", 1 << 31), ("2^32 - 1", u32::MAX)] {
        case(
            &format!("a frame of {what} payload bytes"),
            false,
            Row::E,
            |disk| {
                append_frame(disk, b"", |frame| frame.payload_bytes = length.max(1));
            },
        );
    }
    case("a frame of another segment's salt", false, Row::E, |disk| {
        let at = used(disk);
        let frame = FrameHeader {
            payload_bytes: 0,
            lsn: end(disk),
            synced: end(disk),
            count: 0,
            seal: true,
        };
        disk.overwrite(Dir::Wal, &newest(disk), at, &frame.encode(Salt(*b"othersal")));
    });
}

#[test]
fn k_a_newest_segment_that_was_never_born() {
    for length in [0, 1, 4095, 6144] {
        let (disk, truth) = log(false);
        let name = segment_name(end(&disk));
        disk.put(Dir::Wal, &name, &vec![0; length]);
        expect(
            &format!("an unborn segment of {length} bytes"),
            &disk,
            &truth,
            Row::B,
        );
        assert!(!disk.names(Dir::Wal).contains(&name), "it was moved aside");
        let aside = disk
            .names(Dir::Wal)
            .into_iter()
            .filter(|name| name.starts_with("cut-"))
            .count();
        assert_eq!(aside, 1);
    }
    let (disk, truth) = log(true);
    disk.put(Dir::Wal, &segment_name(end(&disk)), b"IDEMWAL1 half a header");
    expect("half a header and nothing after it", &disk, &truth, Row::A);
}

#[test]
fn a_file_that_ends_within_the_zeros_after_its_last_group() {
    for clean in [false, true] {
        let (whole, truth) = log(clean);
        let name = newest(&whole);
        let groups = frames(&whole, &name);
        let (at, group) = *groups.iter().rfind(|(_, frame)| frame.count > 0).unwrap();
        let end = at + usize::try_from(group.frame_bytes()).unwrap();
        let used = at + 32 + usize::try_from(group.payload_bytes).unwrap();
        assert!(used < end, "the last group has such zeros");
        for length in used..=end {
            let disk = SimDisk::from_image(&whole.image());
            disk.truncate(Dir::Wal, &name, length);
            let row = if clean { Row::A } else { Row::B };
            expect(&format!("cut to {length} of {end} bytes"), &disk, &truth, row);
        }
    }
}
