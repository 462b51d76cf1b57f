//! The logs that the kept directories are made of, before anything is damaged.

use idem_protocol::idem::IdemState;
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::{EpochReason, Pairs, Record};
use idem_protocol::{Deadline, Epoch, HistoryEntry, Lsn};

use super::super::histories::{Model, Value, records};
use super::super::snapshots::{Item, cluster_of, write_snapshot};
use super::super::{START_MS, TestLog, idem, string};

/// Milliseconds after the midnight with which [`START_MS`] begins.
pub const fn clock(hour: u64, minute: u64, second: u64, ms: u64) -> u64 {
    ((hour * 60 + minute) * 60 + second) * 1000 + ms
}

pub const SEGMENT_BYTES: u64 = 8 << 10;
pub const NOON: u64 = clock(12, 0, 0, 0);
pub const DAY: u64 = clock(24, 0, 0, 0);

pub fn order<'a>(
    key: &'a [u8],
    deadline_ms: u64,
    state: IdemState,
    owner: &'a [u8],
    result: &'a [u8],
) -> Record<'a> {
    idem(key, deadline_ms, state, b"sha256:9f86", owner, result)
}

/// The afternoon, up to its last group; open.
pub fn afternoon() -> TestLog {
    use IdemState::{Aborted, Completed, Pending};
    let mut log = TestLog::with(0, SEGMENT_BYTES, NOON);
    let at = clock(14, 0, 0, 0);
    log.group(&[(at, 0, order(b"order:4711", at + DAY, Pending, b"5c1b2d", b""))]);
    let done = order(b"order:4711", at + DAY, Completed, b"5c1b2d", b"receipt 42");
    log.group(&[(at + 250, 0, done)]);
    log.seal();

    let at = clock(14, 3, 10, 0);
    let cart = Record::StringPut {
        key: b"cart:ada",
        deadline: Deadline::at(START_MS + clock(15, 3, 10, 0)),
        value: b"3 books",
    };
    let fields = [(&b"name"[..], &b"Ada"[..]), (b"born", b"1815")];
    let customer = Record::HashPut {
        key: b"customer:1",
        deadline: Deadline::NONE,
        fields: Pairs::from(&fields[..]),
    };
    log.group(&[
        (at, 0, order(b"order:4712", at + DAY, Pending, b"77aa01", b"")),
        (at + 1, 0, cart),
        (at + 1, 1, customer),
    ]);
    // A copy of the catalogue fills a good part of a segment.
    let catalogue = vec![b'c'; 2500];
    log.group(&[(at + 900, 0, string(b"catalogue", &catalogue))]);
    let done = order(b"order:4712", at + DAY, Completed, b"77aa01", b"receipt 43");
    log.group(&[(at + 1400, 0, done)]);
    log.seal();

    // Its worker dies, and the record ends after a minute and a half.
    let at = clock(14, 4, 30, 0);
    log.group(&[(at, 0, order(b"order:4713", at + 90_000, Pending, b"e0ffee", b""))]);
    log.group(&[(at + 500, 0, string(b"catalogue", &catalogue))]);
    let at = clock(14, 4, 59, 0);
    log.group(&[(at, 0, order(b"order:4714", at + DAY, Pending, b"5c1b2d", b""))]);
    log.group(&[(
        at + 700,
        0,
        order(b"order:4714", at + DAY, Aborted, b"5c1b2d", b""),
    )]);
    log.seal();

    log.group(&[(clock(14, 5, 20, 0), 0, string(b"catalogue", &catalogue))]);
    log.group(&[(clock(14, 6, 0, 0), 0, Record::FlushDb)]);
    log.seal();
    let at = clock(14, 6, 30, 0);
    let last = order(b"order:4715", at + DAY, Pending, b"77aa01", b"");
    log.group(&[(at, 0, last)]);
    log
}

/// The last group of the afternoon, synced.
fn last_group(log: &mut TestLog) {
    let at = clock(14, 6, 30, 0);
    let done = order(
        b"order:4715",
        at + DAY,
        IdemState::Completed,
        b"77aa01",
        b"receipt 44",
    );
    log.group(&[(at + 300, 0, done)]);
}

pub fn shop() -> TestLog {
    let mut log = afternoon();
    last_group(&mut log);
    assert!(log.segments().len() >= 3, "there is one in the middle");
    log
}

/// An epoch that begins in mid-log, as a promotion or a restore does it.
pub fn epoch_start(log: &mut TestLog, ms: u64, reason: EpochReason) {
    let opened = log.opened.as_ref().unwrap();
    let (previous, node) = (opened.writer.epoch(), opened.control.read().node);
    let number = previous.number + 1;
    let epoch = Epoch {
        number,
        nonce: number * 0x0101_0101,
    };
    let first_lsn = log.end();
    let record = Record::EpochStart {
        epoch,
        node,
        previous,
        reason,
    };
    log.group(&[(ms, 0, record)]);
    let opened = log.opened.as_mut().unwrap();
    opened.writer.set_epoch(epoch);
    let noted = opened.control.update(|control| {
        control.promised_epoch = number;
        control.history.push(HistoryEntry {
            epoch,
            node,
            first_lsn,
        });
    });
    noted.unwrap();
}

/// Takes a snapshot that ends at the log's end and has to be replayed from `start` on.
fn take_snapshot(log: &TestLog, start: Lsn) {
    let all = records(log.path());
    let mut model = Model::default();
    all.iter().for_each(|record| model.apply(&record.raw()));
    let ms = model.time.get() - START_MS;
    let last = all.last().unwrap();
    let pairs: Vec<Vec<(&[u8], &[u8])>> = model
        .live()
        .map(|(_, (_, value))| match value {
            Value::String(_) => Vec::new(),
            Value::Hash(hash) => hash
                .iter()
                .map(|(field, value)| (&field[..], &value[..]))
                .collect(),
        })
        .collect();
    // In the order of their names: a keyspace's own order may change, and these files must not.
    let items: Vec<Item<'_>> = model
        .live()
        .zip(&pairs)
        .map(|(((db, key), (deadline, value)), pairs)| {
            let (key, deadline) = (&key[..], *deadline);
            let record = match value {
                Value::String(value) => Record::StringPut { key, deadline, value },
                Value::Hash(_) => Record::HashPut {
                    key,
                    deadline,
                    fields: Pairs::from(&pairs[..]),
                },
            };
            (last.end, ms, *db, record)
        })
        .collect();
    let opened = log.opened.as_ref().unwrap();
    let trailer = SnapshotTrailer {
        end_lsn: last.end,
        epoch: opened.epoch,
        end_crc: last.raw().crc,
        log_time: model.time,
        history: opened.control.read().history,
        ..SnapshotTrailer::default()
    };
    write_snapshot(log.path(), cluster_of(log.path()), start, &items, trailer);
    let named = opened
        .control
        .update(|control| control.newest_snapshot = Some(start));
    named.unwrap();
}

/// The afternoon with a snapshot before the mishap, and one at its last order that took a while.
pub fn with_snapshots() -> TestLog {
    let mut log = TestLog::with(0, SEGMENT_BYTES, NOON);
    let filler = vec![b'f'; 2500];
    let mut starts = Vec::new();
    for number in 0..6u64 {
        let at = clock(14, 0, number, 0);
        let (key, owner) = (format!("order:{}", 4711 + number), format!("worker-{number}"));
        let (key, owner) = (key.as_bytes(), owner.as_bytes());
        log.group(&[(at, 0, order(key, at + DAY, IdemState::Pending, owner, b""))]);
        log.group(&[(at + 100, 0, string(b"catalogue", &filler))]);
        starts.push(log.end());
        let done = order(key, at + DAY, IdemState::Completed, owner, b"receipt");
        log.group(&[(at + 200, 0, done)]);
        log.seal();
        if number == 3 || number == 4 {
            take_snapshot(&log, starts[starts.len() - 1]);
        }
    }
    log
}
