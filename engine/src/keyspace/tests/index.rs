//! The index by deadline: everything goes when it is due, nothing before, in order, within any budget.

use idem_protocol::wal::Record;
use idem_protocol::{Deadline, UnixMs};
use proptest::prelude::*;

use super::keyspaces;
use super::operations::{cases, span};
use crate::keyspace::{Keyspace, Reclaimed};

const START: u64 = 1_700_000_000_000;

fn put(keyspace: &mut Keyspace, time: u64, key: u64, deadline: u64) {
    let record = Record::StringPut {
        key: &key.to_be_bytes(),
        deadline: Deadline::at(deadline),
        value: b"",
    };
    keyspace.apply(UnixMs::new(time), 0, &record);
}

fn deadlines(keyspace: &Keyspace) -> Vec<u64> {
    let mut all: Vec<_> = keyspace.iter().map(|(_, entry)| entry.deadline().get()).collect();
    all.sort_unstable();
    all
}

fn deadline() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => span().prop_map(|span| START + span),
        2 => span().prop_map(|span| START - span),
        1 => (0_u32..64).prop_map(|bit| 1 << bit),
        1 => any::<u64>().prop_map(|any| any.max(1)),
        1 => prop_oneof![Just(1), Just((1 << 48) - 1), Just(1 << 48), Just(u64::MAX)],
    ]
}

proptest! {
    #![proptest_config(cases(150))]

    /// Time goes on in steps of any size, with entries arriving in between and upkeep in budgets of any size.
    #[test]
    fn due_means_gone(
        rounds in prop::collection::vec((span(), prop::collection::vec(deadline(), 0..40), 1_usize..50), 1..12),
    ) {
        for mut keyspace in keyspaces() {
            let (mut time, mut key) = (START, 0);
            for (step, arriving, budget) in &rounds {
                for deadline in arriving {
                    put(&mut keyspace, time, key, *deadline);
                    key += 1;
                }
                time += step;
                keyspace.maintain(UnixMs::new(time), *budget);
                keyspace.check();
                let before = deadlines(&keyspace);
                let mut freed = 0;
                loop {
                    let Reclaimed { count, more } = keyspace.reclaim(UnixMs::new(time), *budget);
                    prop_assert!(count <= *budget);
                    freed += count;
                    if !more {
                        break;
                    }
                }
                keyspace.check();
                let left = deadlines(&keyspace);
                prop_assert_eq!(before.len(), left.len() + freed);
                // What is left are exactly the latest: order, up to a slot's width.
                prop_assert!(left.iter().all(|deadline| deadline.saturating_add(255) > time));
                let ended = before.iter().filter(|deadline| **deadline <= time).count();
                prop_assert!(freed <= ended, "{} freed, {} had ended", freed, ended);
            }
        }
    }

    /// One entry at a time comes out in the order of the deadlines, to a quarter of a second, over all levels.
    #[test]
    fn the_earlier_goes_first(all in prop::collection::vec(span(), 2..60)) {
        let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
        for (key, span) in (0..).zip(&all) {
            put(&mut keyspace, START, key, START + span);
        }
        let end = UnixMs::new(START + 20_000_000_000);
        let mut left = deadlines(&keyspace);
        while keyspace.due(end) {
            if keyspace.reclaim(end, 1).count == 0 {
                continue;
            }
            let now = deadlines(&keyspace);
            let gone = left.iter().zip(&now).find(|(a, b)| a != b).map_or(left[now.len()], |(a, _)| *a);
            prop_assert!(gone >> 8 == left[0] >> 8, "{} went before {}", gone, left[0]);
            left = now;
        }
        prop_assert!(left.is_empty());
    }
}

/// With upkeep in small steps, no call has to move more than a few entries when a coarse slot's time comes, and `due` is
/// true only when there is something to free.
#[test]
fn coarse_slots_are_opened_ahead_of_time() {
    let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
    // 40 000 entries spread over four hours: some 180 in each slot of 65 s, and everything in one of 4.7 h.
    (0..40_000).for_each(|n| put(&mut keyspace, START, n, START + 20_000_000 + n * 360));
    // The clock goes on by 500 ms with room for 100 entries, as a node's tick does.
    for tick in 0..70_000 {
        let now = UnixMs::new(START + tick * 500);
        keyspace.maintain(now, 100);
        if keyspace.due(now) {
            let reclaimed = keyspace.reclaim(now, 100);
            assert!(reclaimed.count > 0, "due, and nothing to free at {now}");
            assert!(!reclaimed.more, "a backlog at {now}");
        }
        if tick % 1000 == 0 {
            let ended = deadlines(&keyspace)
                .iter()
                .filter(|deadline| **deadline + 255 <= now.get())
                .count();
            assert_eq!(ended, 0);
            keyspace.check();
        }
    }
    assert_eq!(keyspace.len(0), 0);
}

/// A standing wheel (nothing may be reclaimed while the log stands still) takes entries that end before its position.
#[test]
fn maintenance_without_reclaiming_frees_nothing() {
    let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
    (0..100).for_each(|n| put(&mut keyspace, START, n, START + n * 1000));
    for now in (START..START + 200_000).step_by(500) {
        while keyspace.maintain(UnixMs::new(now), 10) {}
    }
    assert_eq!(keyspace.len(0), 100);
    (100..200).for_each(|n| put(&mut keyspace, START, n, START + n * 1000));
    keyspace.check();
    assert_eq!(
        keyspace.reclaim(UnixMs::new(START + 100_255), 1000),
        Reclaimed {
            count: 101,
            more: false
        }
    );
    assert!(!keyspace.due(UnixMs::new(START + 100_255)));
}

/// What had ended before it came is freed in one call when the budget allows, and what has not ended stays.
#[test]
fn late_comers_are_freed_at_once() {
    let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
    put(&mut keyspace, START, 0, START + 1_000_000);
    while keyspace.maintain(UnixMs::new(START + 500_000), 10) {}
    // All of them lie before the wheel's position.
    (1..=200).for_each(|n| put(&mut keyspace, START, n, START + n * 100));
    keyspace.check();
    assert!(!keyspace.due(UnixMs::new(START + 99)));
    assert_eq!(
        keyspace.reclaim(UnixMs::new(START + 10_000), 1000),
        Reclaimed {
            count: 100,
            more: false
        }
    );
    assert_eq!(
        keyspace.reclaim(UnixMs::new(START + 20_000), 60),
        Reclaimed {
            count: 60,
            more: true
        }
    );
    assert_eq!(
        keyspace.reclaim(UnixMs::new(START + 20_000), 60),
        Reclaimed {
            count: 40,
            more: false
        }
    );
    assert_eq!(keyspace.len(0), 1);
    keyspace.check();
}

/// A key whose deadline changes leaves nothing behind, however often it does.
#[test]
fn changed_deadlines_leave_no_trace() {
    let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
    for n in 0..100_000 {
        put(&mut keyspace, START, n % 10, START + 1 + n * 977);
    }
    keyspace.check();
    assert_eq!(keyspace.expires(0), 10);
    (0..10).for_each(|n| put(&mut keyspace, START, n, 0));
    keyspace.check();
    assert_eq!(keyspace.expires(0), 0);
    assert!(!keyspace.due(UnixMs::MAX));
}

/// A wheel whose last entry moves to a finer slot goes on where it stood: what ends before that entry is no late comer.
#[test]
fn a_lonely_entry_does_not_take_the_wheel_along() {
    let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
    put(&mut keyspace, START, 0, START + 90_000);
    for now in (START..START + 60_000).step_by(100) {
        while keyspace.maintain(UnixMs::new(now), 10) {}
    }
    (1..=1000).for_each(|n| put(&mut keyspace, START + 60_000, n, START + 60_000 + n * 20));
    keyspace.check();
    // One pass over what is due touches what is due, and not everything each time.
    let wheel = keyspace.database(0).unwrap().wheel();
    assert!(!wheel.past_due(u64::MAX), "nothing came too late");
}
