//! SCAN under growth, removals and made-up cursors.

use std::collections::{BTreeMap, BTreeSet};

use idem_protocol::wal::{DeleteReason, Record};
use idem_protocol::{Deadline, UnixMs};
use proptest::prelude::*;

use super::keyspaces;
use super::operations::cases;
use crate::keyspace::Keyspace;

fn put(keyspace: &mut Keyspace, key: u32) {
    let record = Record::StringPut {
        key: &key.to_be_bytes(),
        deadline: Deadline::NONE,
        value: b"v",
    };
    keyspace.apply(UnixMs::new(1), 0, &record);
}

fn delete(keyspace: &mut Keyspace, key: u32) {
    let record = Record::Delete {
        reason: DeleteReason::Command,
        key: &key.to_be_bytes(),
    };
    keyspace.apply(UnixMs::new(1), 0, &record);
}

fn number(key: &[u8]) -> u32 {
    u32::from_be_bytes(key.try_into().unwrap())
}

/// What stays during the whole scan is seen once; what comes or goes may be seen, but never twice unless it came back.
#[test]
fn what_stays_is_seen() {
    for count in [1, 10, 300] {
        let mut keyspace = Keyspace::new(16, [9, 8, 7, 6]);
        let staying = 0..1000;
        staying.clone().for_each(|key| put(&mut keyspace, key));
        let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
        let (mut cursor, mut fresh, mut calls) = (0, 1000, 0);
        loop {
            let mut now = 0;
            // A number that every client keeps whole.
            assert!(cursor < 1 << 32);
            cursor = keyspace.scan(0, cursor, count, &mut |entry| {
                *seen.entry(number(entry.key())).or_default() += 1;
                now += 1;
            });
            assert!(now <= count, "{now} for COUNT {count}");
            calls += 1;
            if cursor == 0 {
                break;
            }
            // Growth through many splits while the scan is on its way, and removal of every other new key.
            if fresh < 40_000 {
                (fresh..fresh + 500).for_each(|key| put(&mut keyspace, key));
                (fresh..fresh + 500)
                    .step_by(2)
                    .for_each(|key| delete(&mut keyspace, key));
                fresh += 500;
            }
        }
        assert!(staying.clone().all(|key| seen.get(&key) == Some(&1)));
        assert!(seen.values().all(|times| *times == 1));
        assert!(
            calls * count >= 1000 && calls <= 60_000 / count,
            "{calls} calls with COUNT {count}"
        );
    }
}

/// Emptied regions are passed in bounded steps, and the scan still ends.
#[test]
fn holes_are_passed() {
    let mut keyspace = Keyspace::new(16, [9, 8, 7, 6]);
    (0..100_000).for_each(|key| put(&mut keyspace, key));
    (0..99_999).for_each(|key| delete(&mut keyspace, key));
    let (mut cursor, mut seen, mut calls) = (0, Vec::new(), 0);
    loop {
        cursor = keyspace.scan(0, cursor, 10, &mut |entry| seen.push(number(entry.key())));
        calls += 1;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen, [99_999]);
    assert!(calls < 50, "{calls}");
}

proptest! {
    #![proptest_config(cases(100))]

    /// Any number is a position; from there on the scan goes to the end.
    #[test]
    fn made_up_cursors(cursor in prop_oneof![0_u64..1 << 32, any::<u64>()], count in any::<u16>(), keys in 0_u32..3000, db in any::<u8>()) {
        for mut keyspace in keyspaces() {
            (0..keys).for_each(|key| put(&mut keyspace, key));
            let (mut next, mut seen) = (cursor, BTreeSet::new());
            loop {
                next = keyspace.scan(db, next, usize::from(count), &mut |entry| {
                    assert!(seen.insert(entry.key().to_vec()), "seen twice");
                });
                if next == 0 {
                    break;
                }
            }
            let expected = keyspace.iter().filter(|(at, entry)| *at == db && keyspace.key_hash(entry.key()) >> 32 >= cursor).count();
            prop_assert_eq!(seen.len(), expected);
        }
    }
}

#[test]
fn equal_hashes_come_together() {
    let mut keyspace = Keyspace::with_chosen_hashes(|_| 42);
    (0..2000).for_each(|key| put(&mut keyspace, key));
    let mut seen = 0;
    let rest = keyspace.scan(0, 0, 1, &mut |_| seen += 1);
    assert_eq!(seen, 2000);
    assert_eq!(keyspace.scan(0, rest, 1, &mut |_| seen += 1), 0);
    assert_eq!(seen, 2000);
    let mut keyspace = Keyspace::with_chosen_hashes(|key| if key[3] == 0 { 0 } else { u64::MAX });
    (0..2000).for_each(|key| put(&mut keyspace, key));
    seen = 0;
    let next = keyspace.scan(0, 0, 1, &mut |_| seen += 1);
    assert_eq!(seen, 8);
    assert_eq!(keyspace.scan(0, next, 1, &mut |_| seen += 1), 0);
    assert_eq!(seen, 2000);
}

/// From any place every entry is visited once, and no entry is out of reach of being the first.
#[test]
fn samples_reach_everything() {
    for keys in [0_u32, 1, 5, 3000] {
        let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
        (0..keys).for_each(|key| put(&mut keyspace, key));
        let mut firsts = BTreeSet::new();
        for step in 0..u64::from(keys) * 20 + 3 {
            let at = step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            keyspace.sample(0, at, &mut |entry| {
                firsts.insert(number(entry.key()));
                false
            });
            if step < 3 {
                let mut seen = Vec::new();
                keyspace.sample(0, at, &mut |entry| {
                    seen.push(number(entry.key()));
                    true
                });
                seen.sort_unstable();
                assert_eq!(seen, (0..keys).collect::<Vec<_>>());
            }
        }
        assert_eq!(firsts.len(), keys as usize);
    }
}
