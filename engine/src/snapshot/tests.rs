//! A snapshot taken while the state changes, loaded and followed by the log from its start, gives the state.

use idem_protocol::idem::IdemState;
use idem_protocol::wal::{DeleteReason, RawRecord};
use proptest::prelude::*;

use super::*;
use crate::digest::digest;
use crate::keyspace::tests::keyspaces;
use crate::keyspace::tests::operations::{Logged, Operation, cases, log};

/// Applies items to an empty keyspace.
fn load(items: &[u8]) -> Keyspace {
    let mut keyspace = Keyspace::new(16, [4, 4, 4, 4]);
    let mut rest = items;
    while !rest.is_empty() {
        let raw = RawRecord::parse(rest).unwrap();
        assert!(raw.bytes.len() < HASH_ITEM_BYTES_MAX + 4096);
        keyspace.apply(raw.time, raw.db, &raw.decode().unwrap());
        rest = &rest[raw.bytes.len()..];
    }
    keyspace
}

fn time_of(log: &[Logged]) -> UnixMs {
    UnixMs::new(log.last().map_or(0, |logged| logged.time))
}

fn step(
    cursor: &mut SnapshotCursor,
    keyspace: &Keyspace,
    now: UnixMs,
    max_bytes: usize,
    items: &mut Vec<u8>,
) -> bool {
    let before = items.len();
    let done = cursor.step(keyspace, Lsn::new(7), now, max_bytes, items);
    assert!(
        items.len() - before < max_bytes + 8192,
        "{} bytes in one step",
        items.len() - before
    );
    done
}

/// Keys as a reader counts them, who sees the items one by one and holds none.
fn counts_of(items: &[u8]) -> Vec<(u8, u64)> {
    let mut counts: std::collections::BTreeMap<u8, u64> = std::collections::BTreeMap::new();
    let (mut rest, mut hash) = (items, None);
    while !rest.is_empty() {
        let raw = RawRecord::parse(rest).unwrap();
        rest = &rest[raw.bytes.len()..];
        let now = match raw.decode().unwrap() {
            Record::HashPut { key, .. } => Some((raw.db, key)),
            _ => None,
        };
        if now.is_none() || now != hash {
            *counts.entry(raw.db).or_default() += 1;
        }
        hash = now;
    }
    counts.into_iter().collect()
}

proptest! {
    #![proptest_config(cases(200))]

    /// The walk begins after `start` records, each further record comes after one step (or several), reclaiming goes on.
    #[test]
    fn state_equals_replay(
        log in log(80),
        start in 0_usize..80,
        steps in prop::collection::vec((0_u8..4, 1_usize..3000), 80),
    ) {
        for mut keyspace in keyspaces() {
            let start = start.min(log.len());
            log[..start].iter().for_each(|logged| logged.apply(&mut keyspace));
            let (mut cursor, mut items, mut done) = (SnapshotCursor::new(), Vec::new(), false);
            for (at, (count, max_bytes)) in (start..log.len()).zip(&steps) {
                for _ in 0..*count {
                    done = done || step(&mut cursor, &keyspace, time_of(&log[..at]), *max_bytes, &mut items);
                }
                log[at].apply(&mut keyspace);
                keyspace.reclaim(UnixMs::new(log[at].time), usize::from(*count) * 10);
            }
            let now = time_of(&log);
            while !done {
                done = step(&mut cursor, &keyspace, now, 1000, &mut items);
            }
            prop_assert_eq!(cursor.counts(), counts_of(&items));
            let mut loaded = load(&items);
            log[start..].iter().for_each(|logged| logged.apply(&mut loaded));
            loaded.check();
            prop_assert_eq!(digest(&loaded, now), digest(&keyspace, now));
        }
    }

    /// Without changes in between, the items alone are the state, and the counts are right.
    #[test]
    fn a_still_state_is_copied(log in log(60), max_bytes in 1_usize..5000) {
        for mut keyspace in keyspaces() {
            log.iter().for_each(|logged| logged.apply(&mut keyspace));
            let now = time_of(&log);
            let (mut cursor, mut items) = (SnapshotCursor::new(), Vec::new());
            while !step(&mut cursor, &keyspace, now, max_bytes, &mut items) {}
            let loaded = load(&items);
            prop_assert_eq!(digest(&loaded, now), digest(&keyspace, now));
            let counts: Vec<_> = (0..3).map(|db| (db, loaded.len(db))).filter(|(_, keys)| *keys > 0).collect();
            prop_assert_eq!(cursor.counts(), counts);
        }
    }
}

fn put_fields(db: u8, deadline: u64, numbers: std::ops::Range<u32>, value_bytes: usize) -> Logged {
    let fields = numbers
        .map(|n| (n.to_be_bytes().to_vec(), vec![b'v'; value_bytes]))
        .collect();
    Logged {
        time: 100,
        parts: vec![(db, Operation::HashPut(b"large".to_vec(), deadline, fields))],
    }
}

/// A hash of many steps whose key dies, comes back, changes type or loses fields in the middle of being written.
#[test]
fn large_hashes_change_while_they_are_written() {
    let key = b"large".to_vec();
    let one = |time, operation| {
        vec![Logged {
            time,
            parts: vec![(0, operation)],
        }]
    };
    let names = |numbers: std::ops::Range<u32>| numbers.map(|n| n.to_be_bytes().to_vec()).collect();
    let changes: [Vec<Logged>; 9] = [
        vec![],
        one(100, Operation::Delete(key.clone())),
        vec![
            Logged {
                time: 100,
                parts: vec![(0, Operation::Delete(key.clone()))],
            },
            put_fields(0, 0, 500..4000, 9),
        ],
        one(
            100,
            Operation::StringPut(key.clone(), 0, b"now a string".to_vec()),
        ),
        one(100, Operation::HashDelete(key.clone(), names(0..2000))),
        one(100, Operation::HashDelete(key.clone(), names(0..3000))),
        vec![
            Logged {
                time: 100,
                parts: vec![(0, Operation::DeadlinePut(key.clone(), 150))],
            },
            Logged {
                time: 200,
                parts: vec![(
                    0,
                    Operation::HashPut(key.clone(), 0, vec![(b"f".to_vec(), b"v".to_vec())]),
                )],
            },
        ],
        one(100, Operation::DeadlinePut(key.clone(), 300)),
        one(200, Operation::FlushAll),
    ];
    // With a deadline of 150 from before the walk: prolonged in time, or ended and begun anew.
    let prolonged = |to| Logged {
        time: 120,
        parts: vec![(0, Operation::DeadlinePut(key.clone(), to))],
    };
    let clock = |time| Logged {
        time,
        parts: vec![(0, Operation::Clock)],
    };
    let anew = |deadline| Logged {
        time: 200,
        ..put_fields(0, deadline, 2000..2500, 9)
    };
    let with_deadline = [
        (150, vec![prolonged(300), clock(200)]),
        (150, vec![prolonged(0), clock(200)]),
        (150, vec![prolonged(160), clock(200)]),
        (150, vec![clock(200)]),
        (150, vec![clock(140), anew(0)]),
        (150, vec![anew(500)]),
        (150, vec![prolonged(180), anew(500)]),
    ];
    let changes = changes.into_iter().map(|change| (0, change));
    for (deadline, change) in changes.chain(with_deadline) {
        for after_steps in [0, 1, 3, 20] {
            let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
            put_fields(0, deadline, 0..3000, 20).apply(&mut keyspace);
            let (mut cursor, mut items) = (SnapshotCursor::new(), Vec::new());
            let mut done =
                (0..after_steps).any(|_| step(&mut cursor, &keyspace, UnixMs::new(100), 4000, &mut items));
            change.iter().for_each(|logged| logged.apply(&mut keyspace));
            let now = UnixMs::new(change.last().map_or(100, |logged| logged.time));
            while !done {
                done = step(&mut cursor, &keyspace, now, 4000, &mut items);
            }
            let mut loaded = load(&items);
            change.iter().for_each(|logged| logged.apply(&mut loaded));
            assert_eq!(
                digest(&loaded, now),
                digest(&keyspace, now),
                "{change:?} after {after_steps} steps"
            );
        }
    }
}

/// A large hash that the walk has come by, and that goes, or becomes a string, before or amid its parts.
#[test]
fn what_becomes_of_a_large_hash_meanwhile_shows_in_the_counts() {
    let delete = Operation::Delete(b"large".to_vec());
    let string = Operation::StringPut(b"large".to_vec(), 0, b"now a string".to_vec());
    let change = |operation: &Operation| Logged {
        time: 100,
        parts: vec![(3, operation.clone())],
    };
    for (operation, steps, expected) in [
        (&delete, 1, vec![(3, 1)]),
        (&delete, 2, vec![(3, 2)]),
        (&string, 1, vec![(3, 2)]),
        (&string, 2, vec![(3, 3)]),
    ] {
        let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
        put_fields(3, 0, 0..300, 1000).apply(&mut keyspace);
        let small = Operation::StringPut(b"small".to_vec(), 0, vec![b'v'; 1000]);
        change(&small).apply(&mut keyspace);
        let (mut cursor, mut items) = (SnapshotCursor::new(), Vec::new());
        let mut taken = 0;
        while !step(&mut cursor, &keyspace, UnixMs::new(100), 1, &mut items) {
            taken += usize::from(!cursor.large.is_empty());
            if taken == steps && !cursor.large.is_empty() {
                change(operation).apply(&mut keyspace);
                taken += 1;
            }
        }
        assert_eq!(counts_of(&items), expected, "{operation:?} after {steps}");
        assert_eq!(cursor.counts(), expected, "{operation:?} after {steps}");
    }
}

/// No item is much larger than 8 MiB, whatever the step allows; one large field is.
#[test]
fn a_hash_over_8_mib_is_several_items() {
    let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
    put_fields(3, 0, 0..300, 100_000).apply(&mut keyspace);
    let mut items = Vec::new();
    let mut cursor = SnapshotCursor::new();
    while !cursor.step(&keyspace, Lsn::ZERO, UnixMs::new(100), usize::MAX, &mut items) {}
    assert!(items.len() > 30_000_000);
    assert_eq!(
        digest(&load(&items), UnixMs::new(100)),
        digest(&keyspace, UnixMs::new(100))
    );
    assert_eq!(cursor.counts(), [(3, 1)]);
}

/// An IDEM record is written as the string that it is, with its deadline.
#[test]
fn idem_records_keep_their_deadline() {
    let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
    let begin = Operation::Idem(b"k".to_vec(), 5000, IdemState::Completed, b"result".to_vec());
    Logged {
        time: 100,
        parts: vec![(0, begin)],
    }
    .apply(&mut keyspace);
    Logged {
        time: 100,
        parts: vec![(0, Operation::StringPut(b"ended".to_vec(), 99, Vec::new()))],
    }
    .apply(&mut keyspace);
    let mut items = Vec::new();
    let mut cursor = SnapshotCursor::new();
    while !cursor.step(&keyspace, Lsn::new(640), UnixMs::new(100), 4096, &mut items) {}
    let raw = RawRecord::parse(&items).unwrap();
    assert_eq!(
        (raw.lsn, raw.time, raw.bytes.len()),
        (Lsn::new(640), UnixMs::new(100), items.len())
    );
    let Record::StringPut { key, deadline, .. } = raw.decode().unwrap() else {
        panic!("a string")
    };
    assert_eq!((key, deadline.get()), (&b"k"[..], 5000));
    assert_eq!(load(&items).idem_records(), 1);

    keyspace.apply(
        UnixMs::new(100),
        0,
        &Record::Delete {
            reason: DeleteReason::Command,
            key: b"k",
        },
    );
    assert!(digest(&keyspace, UnixMs::new(100)) == crate::digest::Digest::default());
}
