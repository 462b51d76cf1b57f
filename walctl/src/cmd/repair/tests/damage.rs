//! Every kind of damage that has a plan.

use idem_protocol::Lsn;
use idem_wal::recovery::Row;
use idem_wal::storage::Dir;
use idem_wal::storage::sim::SimDisk;

use super::super::plan::Kind;
use super::log::{append, frames, header, log, newest, segments, set_control, used, verdict, written};

/// What it is, a disk that has it, its row, and its plan.
pub(super) fn damaged() -> Vec<(&'static str, SimDisk, Row, Kind)> {
    let mut cases = Vec::new();
    let mut case = |what, row, kind, disk: SimDisk, damage: &dyn Fn(&SimDisk)| {
        damage(&disk);
        cases.push((what, disk, row, kind));
    };
    let (tail, loss, control) = (Kind::CutTail, Kind::AcceptLoss, Kind::Control);
    let junk = |disk: &SimDisk| {
        let (at, _) = used(disk, &newest(disk));
        disk.overwrite(Dir::Wal, &newest(disk), at + 104, b"junk");
    };
    case("junk behind a clean end", Row::C, tail, log(true, &[]), &junk);
    case("junk behind the end", Row::E, tail, log(false, &[20, 30]), &junk);
    case(
        "a torn group before a whole one",
        Row::D,
        tail,
        written(false, &[], 3, false),
        &|disk| {
            let (at, _) = frames(disk, &newest(disk))[2];
            disk.flip(Dir::Wal, &newest(disk), at + 60, 1);
        },
    );
    case(
        "a bit in the newest segment",
        Row::F,
        loss,
        log(false, &[]),
        &|disk| {
            let (at, _) = frames(disk, &newest(disk))[0];
            disk.flip(Dir::Wal, &newest(disk), at + 60, 1);
        },
    );
    case(
        "a bit in the first segment",
        Row::F,
        loss,
        log(true, &[]),
        &|disk| {
            let first = segments(disk)[0].clone();
            let (at, _) = frames(disk, &first)[3];
            disk.flip(Dir::Wal, &first, at + 60, 1);
        },
    );
    case(
        "a bit below a snapshot's end",
        Row::F,
        loss,
        log(false, &[5, 44]),
        &|disk| {
            // The newest snapshot begins at the log's end, so the one that is read from is damaged, too.
            let name = disk.names(Dir::Snap).pop().unwrap();
            disk.flip(Dir::Snap, &name, 60, 1);
            let second = segments(disk)[1].clone();
            let (at, _) = frames(disk, &second)[2];
            disk.flip(Dir::Wal, &second, at + 60, 1);
        },
    );
    case(
        "a snapshot promises more",
        Row::F,
        loss,
        log(false, &[5, 44]),
        &|disk| {
            let name = newest(disk);
            let (at, _) = *frames(disk, &name).last().unwrap();
            let (end, _) = used(disk, &name);
            disk.overwrite(Dir::Wal, &name, at, &vec![0; end - at]);
        },
    );
    case(
        "the clean mark promises more",
        Row::F,
        loss,
        log(true, &[]),
        &|disk| {
            let name = newest(disk);
            let frames = frames(disk, &name);
            let (at, _) = frames[frames.len() - 2];
            let (end, _) = used(disk, &name);
            disk.overwrite(Dir::Wal, &name, at, &vec![0; end - at]);
        },
    );
    case(
        "the history promises more",
        Row::F,
        loss,
        log(false, &[]),
        &|disk| {
            let end = verdict(disk).end_lsn;
            set_control(disk, |control| {
                let mut entry = control.history[0];
                entry.first_lsn = end.plus(64);
                control.history.push(entry);
            });
        },
    );
    case("a seal is missing", Row::F, loss, log(false, &[]), &|disk| {
        let name = newest(disk);
        append(disk, &name, 5_000, |_, _| {});
        let (at, _) = *frames(disk, &name).last().unwrap();
        let bytes = disk.bytes(Dir::Wal, &name).unwrap()[at..at + 160].to_vec();
        disk.overwrite(Dir::Wal, &name, at, &[0; 160]);
        disk.overwrite(Dir::Wal, &name, at + 32, &bytes);
    });
    case(
        "the newest segment lost its header",
        Row::F,
        loss,
        log(false, &[]),
        &|disk| {
            disk.overwrite(Dir::Wal, &newest(disk), 0, &[0; 4096]);
        },
    );
    case(
        "a segment in the middle lost its header",
        Row::F,
        loss,
        log(false, &[]),
        &|disk| {
            let name = segments(disk)[1].clone();
            disk.overwrite(Dir::Wal, &name, 0, &[0; 4096]);
        },
    );
    case(
        "a successor vouches for other bytes",
        Row::F,
        loss,
        log(false, &[]),
        &|disk| {
            let name = segments(disk)[1].clone();
            let mut header = header(disk, &name);
            header.predecessor.as_mut().unwrap().crc ^= 1;
            disk.overwrite(Dir::Wal, &name, 0, &header.encode_page());
        },
    );
    case("an lsn gap", Row::J, loss, log(false, &[]), &|disk| {
        append(disk, &newest(disk), 5_000, |frame, _| {
            frame.lsn = frame.lsn.plus(8)
        });
    });
    case(
        "a mark above its own frame",
        Row::J,
        loss,
        log(false, &[]),
        &|disk| {
            append(disk, &newest(disk), 5_000, |frame, _| {
                frame.synced = frame.synced.plus(1)
            });
        },
    );
    case("time going back", Row::J, loss, log(false, &[]), &|disk| {
        append(disk, &newest(disk), 1, |_, _| {});
        append(disk, &newest(disk), 5_000, |_, _| {});
    });
    case(
        "records after a clean shutdown",
        Row::J,
        loss,
        log(true, &[]),
        &|disk| {
            append(disk, &newest(disk), 5_000, |_, _| {});
        },
    );
    case(
        "records beyond what the next segment names",
        Row::J,
        loss,
        log(false, &[]),
        &|disk| {
            let first = segments(disk)[0].clone();
            append(disk, &first, 1_020, |_, _| {});
        },
    );
    case(
        "a predecessor that ends elsewhere",
        Row::J,
        loss,
        log(false, &[]),
        &|disk| {
            let name = newest(disk);
            let mut header = header(disk, &name);
            let predecessor = header.predecessor.as_mut().unwrap();
            predecessor.end_lsn = Lsn::new(predecessor.end_lsn.get() - 8);
            disk.overwrite(Dir::Wal, &name, 0, &header.encode_page());
        },
    );
    case("no control file", Row::G, control, log(false, &[]), &|disk| {
        disk.remove(Dir::Root, "control");
    });
    case(
        "a damaged control file",
        Row::G,
        control,
        log(true, &[20, 30]),
        &|disk| {
            disk.flip(Dir::Root, "control", 30, 4);
        },
    );
    case(
        "a control file of no bytes",
        Row::G,
        control,
        log(true, &[20]),
        &|disk| {
            disk.truncate(Dir::Root, "control", 0);
        },
    );
    case(
        "no control file, and rot",
        Row::G,
        control,
        log(false, &[]),
        &|disk| {
            disk.remove(Dir::Root, "control");
            let (at, _) = frames(disk, &newest(disk))[0];
            disk.flip(Dir::Wal, &newest(disk), at + 60, 1);
        },
    );
    cases
}
