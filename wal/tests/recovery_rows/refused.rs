//! Rows with which it does not: F, G, H, I, J.

use crate::history::{Node, Policy, Read, judge_disk};
use idem_protocol::Lsn;
use idem_protocol::snapshot::SNAPSHOT_HEADER_BYTES;
use idem_protocol::wal::{FrameHeader, Record, SegmentHeader, segment_name};
use idem_protocol::{ClusterId, Deadline, NodeId, UnixMs};
use idem_wal::recovery::{FindingKind, REPAIR_MARK, RESTORE_MARK, Row, Verdict};
use idem_wal::storage::Dir;
use idem_wal::storage::sim::SimDisk;

use crate::logs::*;

#[test]
fn f_what_is_gone_was_promised() {
    case(
        "a bit in a group that a later one vouches for",
        false,
        Row::F,
        |disk| {
            let (at, _) = frames(disk, &newest(disk))[1];
            disk.flip(Dir::Wal, &newest(disk), at + 50, 1);
        },
    );
    case("the header of such a group is zeroed", false, Row::F, |disk| {
        let (at, _) = frames(disk, &newest(disk))[1];
        disk.overwrite(Dir::Wal, &newest(disk), at, &[0; 32]);
    });
    case("a bit in a segment that has a successor", false, Row::F, |disk| {
        let first = segments(disk)[0].clone();
        let (at, _) = *frames(disk, &first).last().unwrap();
        disk.flip(Dir::Wal, &first, at + 50, 1);
    });
    case("the clean mark promises more", true, Row::F, |disk| {
        let name = newest(disk);
        let frames = frames(disk, &name);
        // The last group and the seal behind it read as zeros.
        let (at, _) = frames[frames.len() - 2];
        let length = used(disk) - at;
        disk.overwrite(Dir::Wal, &name, at, &vec![0; length]);
    });
    case("the history of epochs promises more", false, Row::F, |disk| {
        let end = end(disk);
        set_control(disk, |control| {
            let mut entry = control.history[0];
            entry.first_lsn = end.plus(64);
            control.history.push(entry);
        });
    });
    case(
        "both header copies of the newest segment are gone",
        false,
        Row::F,
        |disk| {
            disk.overwrite(Dir::Wal, &newest(disk), 0, &[0; 4096]);
        },
    );
    case("the successor vouches for other bytes", false, Row::F, |disk| {
        let name = newest(disk);
        let mut header = header(disk, &name);
        header.predecessor.as_mut().unwrap().crc ^= 1;
        disk.overwrite(Dir::Wal, &name, 0, &header.encode_page());
    });
    case("a seal is missing before a later frame", false, Row::F, |disk| {
        let at = used(disk) + 32;
        let end = end(disk);
        let payload = record(end, 5_000);
        let frame = FrameHeader {
            payload_bytes: u32::try_from(payload.len()).unwrap(),
            lsn: end,
            synced: end,
            count: 1,
            seal: false,
        };
        put_frame(disk, &newest(disk), at, frame, &payload);
    });
    let (disk, truth) = log_with_snapshots();
    let name = newest(&disk);
    let from = frames(&disk, &name).first().map_or(4096, |(at, _)| *at);
    disk.change(Dir::Wal, &name, |bytes| bytes[from..].fill(0));
    let row = judge_disk(&disk, &mut Read::default()).row;
    if row != Row::F {
        // The snapshot ends before the newest segment: damage what it vouches for instead.
        let before = segments(&disk).into_iter().nth_back(1).unwrap();
        let (at, _) = *frames(&disk, &before).last().unwrap();
        disk.flip(Dir::Wal, &before, at + 40, 1);
    }
    expect("a snapshot promises more", &disk, &truth, Row::F);
}

#[test]
fn g_something_is_missing() {
    case("a segment in the middle", false, Row::G, |disk| {
        let names = segments(disk);
        assert!(names.len() >= 3, "{names:?}");
        disk.remove(Dir::Wal, &names[1]);
    });
    case("the newest segment, which control names", false, Row::G, |disk| {
        disk.remove(Dir::Wal, &newest(disk));
    });
    case("the first segment", false, Row::G, |disk| {
        let first = segments(disk)[0].clone();
        disk.remove(Dir::Wal, &first);
    });
    case("all segments", false, Row::G, |disk| {
        for name in segments(disk) {
            disk.remove(Dir::Wal, &name);
        }
    });
    case("the control file", false, Row::G, |disk| {
        disk.remove(Dir::Root, "control");
    });
    for length in [0, 1, 15, 100] {
        case(
            &format!("the control file is cut to {length} bytes"),
            false,
            Row::G,
            |disk| {
                disk.truncate(Dir::Root, "control", length);
            },
        );
    }
    case("a bit of the control file", false, Row::G, |disk| {
        disk.flip(Dir::Root, "control", 30, 4);
    });
    case("a segment under another one's name", false, Row::G, |disk| {
        let names = segments(disk);
        let bytes = disk.bytes(Dir::Wal, &names[0]).unwrap();
        disk.change(Dir::Wal, &names[1], |file| *file = bytes);
    });
    case("two segments swapped", false, Row::G, |disk| {
        let names = segments(disk);
        disk.swap(Dir::Wal, &names[0], &names[1]);
    });
    case("a name that is none", false, Row::G, |disk| {
        disk.put(Dir::Wal, "backup.wal", b"");
    });
    for length in [0, 1, 4095] {
        case(
            &format!("a middle segment is cut to {length} bytes"),
            false,
            Row::G,
            |disk| {
                let name = segments(disk)[1].clone();
                disk.truncate(Dir::Wal, &name, length);
            },
        );
    }
    let (disk, truth) = log_with_snapshots();
    assert!(
        !segments(&disk).contains(&segment_name(Lsn::ZERO)),
        "the log was cleaned behind its snapshots"
    );
    for name in snapshots(&disk) {
        disk.remove(Dir::Snap, &name);
    }
    expect(
        "a log that begins above 0, without a snapshot",
        &disk,
        &truth,
        Row::G,
    );
}

#[test]
fn h_foreign_or_newer() {
    let other_node = |disk: &SimDisk, change: fn(&mut SegmentHeader)| {
        let name = newest(disk);
        let mut header = header(disk, &name);
        change(&mut header);
        disk.overwrite(Dir::Wal, &name, 0, &header.encode_page());
    };
    case("another node's segment", false, Row::H, |disk| {
        other_node(disk, |header| header.node = NodeId([9; 16]));
    });
    case("another cluster's segment", false, Row::H, |disk| {
        other_node(disk, |header| header.cluster = ClusterId([9; 16]));
    });
    case("a segment of a newer format", false, Row::H, |disk| {
        let name = newest(disk);
        let mut copy = header(disk, &name).encode();
        copy[8] = 2;
        let crc = crc32fast::hash(&copy[..100]);
        copy[100..].copy_from_slice(&crc.to_le_bytes());
        disk.overwrite(Dir::Wal, &name, 0, &copy);
        disk.overwrite(Dir::Wal, &name, 2048, &copy);
    });
    case("a control file of a newer format", false, Row::H, |disk| {
        disk.change(Dir::Root, "control", |bytes| {
            bytes[8] = 2;
            let length = bytes.len() - 4;
            let crc = crc32fast::hash(&bytes[..length]);
            bytes[length..].copy_from_slice(&crc.to_le_bytes());
        });
    });
    case("an unknown opcode", false, Row::H, |disk| {
        let mut payload = record(end(disk), 5_000);
        payload[22] = 99;
        let crc = {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&payload[..4]);
            hasher.update(&payload[8..]);
            hasher.finalize()
        };
        payload[4..8].copy_from_slice(&crc.to_le_bytes());
        append_frame(disk, &payload, |_| {});
    });
    let (disk, truth) = log_with_snapshots();
    let name = snapshots(&disk)[0].clone();
    disk.change(Dir::Snap, &name, |bytes| {
        bytes[16] ^= 1;
        let crc = crc32fast::hash(&bytes[..SNAPSHOT_HEADER_BYTES - 4]);
        bytes[SNAPSHOT_HEADER_BYTES - 4..SNAPSHOT_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    });
    expect("another cluster's snapshot", &disk, &truth, Row::H);
}

#[test]
fn i_a_read_fails() {
    let unreadable = |dir: Dir, pick: fn(&SimDisk) -> String| {
        let (disk, truth) = log(false);
        let name = pick(&disk);
        disk.fail_reads(dir, &name);
        let judgement = judge_disk(&disk, &mut Read::default());
        assert_eq!(judgement.row, Row::I, "{name}: {:#?}", judgement.findings);
        assert_eq!(judgement.verdict, Verdict::IoError);
        assert!(Node::start(&disk, Policy::Always, 1).is_err());
        let _ = truth;
    };
    unreadable(Dir::Root, |_| "control".to_owned());
    unreadable(Dir::Wal, newest);
    unreadable(Dir::Wal, |disk| segments(disk)[0].clone());
    let (disk, _) = log(false);
    disk.fail_list(Dir::Wal);
    assert_eq!(judge_disk(&disk, &mut Read::default()).row, Row::I);
}

#[test]
fn j_undamaged_and_impossible() {
    case("an lsn gap", false, Row::J, |disk| {
        let payload = record(end(disk).plus(8), 5_000);
        append_frame(disk, &payload, |frame| frame.lsn = frame.lsn.plus(8));
    });
    case("a mark above its own frame", false, Row::J, |disk| {
        let payload = record(end(disk), 5_000);
        append_frame(disk, &payload, |frame| frame.synced = frame.synced.plus(1));
    });
    case("a mark going back", false, Row::J, |disk| {
        let payload = record(end(disk), 5_000);
        append_frame(disk, &payload, |frame| frame.synced = Lsn::ZERO);
    });
    case("time going back", false, Row::J, |disk| {
        let payload = record(end(disk), 1);
        append_frame(disk, &payload, |_| {});
    });
    case("records after a clean shutdown", true, Row::J, |disk| {
        let payload = record(end(disk), 5_000);
        append_frame(disk, &payload, |_| {});
    });
    case("a group without records", false, Row::J, |disk| {
        append_frame(disk, b"", |frame| frame.count = 0);
    });
    case(
        "half a completion: opcode 53 without a deadline",
        false,
        Row::J,
        |disk| {
            let mut payload = Vec::new();
            let put = Record::StringPut {
                key: b"k",
                deadline: Deadline::NONE,
                value: b"",
            };
            put.encode(end(disk), UnixMs::new(5_000), 0, &mut payload);
            payload[22] = 53;
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&payload[..4]);
            hasher.update(&payload[8..]);
            let crc = hasher.finalize();
            payload[4..8].copy_from_slice(&crc.to_le_bytes());
            append_frame(disk, &payload, |_| {});
        },
    );
    case(
        "records beyond the end that the next segment names",
        false,
        Row::J,
        |disk| {
            let name = segments(disk)[1].clone();
            let (first, lsn) = (segments(disk)[0].clone(), header(disk, &name).first_lsn);
            let (at, last) = *frames(disk, &first).last().unwrap();
            let payload = record(lsn, 1_000_000);
            let frame = FrameHeader {
                payload_bytes: u32::try_from(payload.len()).unwrap(),
                lsn,
                synced: lsn,
                count: 1,
                seal: false,
            };
            put_frame(
                disk,
                &first,
                at + usize::try_from(last.frame_bytes()).unwrap(),
                frame,
                &payload,
            );
        },
    );
}

/// Whoever changes a directory in several steps leaves a mark until the last of them is on disk.
#[test]
fn g_the_mark_of_a_change_that_is_not_finished() {
    for mark in [RESTORE_MARK, REPAIR_MARK] {
        for clean in [false, true] {
            case(mark, clean, Row::G, |disk| {
                disk.put(Dir::Root, mark, b"/backup\n")
            });
        }
        let cut = |disk: &SimDisk| {
            disk.put(Dir::Root, mark, b"");
            let at = used(disk).next_multiple_of(8);
            disk.overwrite(Dir::Wal, &newest(disk), at + 8, b"junk");
        };
        case("a mark and a tail that would be cut", false, Row::G, cut);
        // Another reason stays the verdict, and the mark is said beside it.
        let (disk, truth) = log(false);
        disk.put(Dir::Root, mark, b"");
        let (at, _) = frames(&disk, &newest(&disk))[1];
        disk.flip(Dir::Wal, &newest(&disk), at + 50, 1);
        expect("a mark and rot", &disk, &truth, Row::F);
        let judgement = judge_disk(&disk, &mut Read::default());
        let beside = judgement
            .findings
            .iter()
            .filter(|finding| finding.kind == FindingKind::Beside);
        assert_eq!(
            beside.filter(|finding| finding.message.starts_with(mark)).count(),
            1
        );
        // A directory with nothing but a mark is not new.
        let disk = SimDisk::new();
        disk.put(Dir::Root, mark, b"");
        assert_eq!(judge_disk(&disk, &mut Read::default()).row, Row::G);
    }
}

/// The file that is named is the one to replace: the segment before it is whole, and what follows was not read.
#[test]
fn f_a_lost_header_is_a_finding_of_its_own_segment() {
    let zeros: &[(usize, &[u8])] = &[(0, &[0; 4096])];
    let bits: &[(usize, &[u8])] = &[(60, b"?"), (2108, b"?")];
    for (what, changes) in [("zeros", zeros), ("a byte of each copy", bits)] {
        for lost in [0, 1] {
            for promised in [false, true] {
                let what = format!("{what}, segment {lost}, a promise beside the log: {promised}");
                let (disk, truth) = log(false);
                let names = segments(&disk);
                let (name, end) = (names[lost].clone(), end(&disk));
                let first = header(&disk, &name).first_lsn;
                for (at, bytes) in changes {
                    disk.overwrite(Dir::Wal, &name, *at, bytes);
                }
                if promised {
                    set_control(&disk, |control| {
                        let mut entry = control.history[0];
                        entry.first_lsn = end;
                        control.history.push(entry);
                    });
                }
                expect(&what, &disk, &truth, Row::F);
                let judgement = judge_disk(&disk, &mut Read::default());
                assert_eq!(judgement.end_lsn, first, "{what}");
                for reason in judgement.reasons() {
                    let place = reason.place.as_ref().unwrap();
                    assert_eq!((&place.name, place.offset), (&name, 0), "{what}: {reason:?}");
                    assert_eq!(reason.lsn, Some(first), "{what}: {reason:?}");
                }
                let reason = judgement.reasons().next().unwrap();
                assert!(reason.message.contains("both copies"), "{what}: {reason:?}");
                assert_ne!(reason.expected_crc, reason.found_crc, "{what}");
                let unread: Vec<&String> = judgement.unread_segments.iter().map(|one| &one.name).collect();
                assert_eq!(unread, names[lost..].iter().collect::<Vec<_>>(), "{what}");
                let of = |segment: &idem_wal::recovery::UnjudgedSegment| segment.sealed.map(|(end, _)| end);
                assert_eq!(
                    of(&judgement.unread_segments[0]),
                    Some(header(&disk, &names[lost + 1]).first_lsn),
                    "{what}"
                );
            }
        }
    }
}
