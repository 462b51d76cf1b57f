//! Growth in bounded steps, under any hashes, and memory that comes back.

use idem_protocol::wal::{DeleteReason, Record};
use idem_protocol::{Deadline, UnixMs};

use super::keyspaces;
use crate::keyspace::Keyspace;
use crate::keyspace::table::PARTITION_ENTRIES_MAX;

const NOW: UnixMs = UnixMs::new(1_700_000_000_000);

fn put(keyspace: &mut Keyspace, key: u32, deadline: u64) {
    let record = Record::StringPut {
        key: &key.to_be_bytes(),
        deadline: Deadline::at(deadline),
        value: b"0123456789",
    };
    keyspace.apply(NOW, 0, &record);
}

fn delete(keyspace: &mut Keyspace, key: u32) {
    keyspace.apply(
        NOW,
        0,
        &Record::Delete {
            reason: DeleteReason::Command,
            key: &key.to_be_bytes(),
        },
    );
}

fn put_field(keyspace: &mut Keyspace, field: u32) {
    let fields = [(&field.to_be_bytes()[..], &b"value"[..])];
    let record = Record::HashPut {
        key: b"hash",
        deadline: Deadline::NONE,
        fields: fields[..].into(),
    };
    keyspace.apply(NOW, 0, &record);
}

/// No insertion moves more than two partitions' worth of entries, however large the keyspace has become.
#[test]
fn no_growth_step_is_large() {
    let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
    let mut moved = 0;
    for key in 0..300_000 {
        put(&mut keyspace, key, 0);
        let now = keyspace.database(0).unwrap().table().moved;
        assert!(
            now - moved <= 2 * PARTITION_ENTRIES_MAX,
            "insertion {key} moved {}",
            now - moved
        );
        moved = now;
    }
    keyspace.check();
    let partitions = keyspace.database(0).unwrap().table().partitions();
    assert!((335..1200).contains(&partitions), "{partitions}");
    // Table, directory and slack: about two slots for an entry.
    let entries: u64 = 300_000 * (25 + 4 + 10);
    assert!(
        keyspace.memory_bytes() - entries < 300_000 * 40,
        "{}",
        keyspace.memory_bytes() - entries
    );
}

/// Hashes that agree in all or many bits make larger partitions, not endless splitting, and everything is found.
#[test]
fn colliding_hashes_do_not_split_for_ever() {
    let hashes: [fn(&[u8]) -> u64; 4] = [
        |_| 0,
        |_| u64::MAX,
        |key| u64::from(key[3]),
        |key| u64::from(key[3]) << 30 | 0xffff << 40,
    ];
    for hash in hashes {
        let mut keyspace = Keyspace::with_chosen_hashes(hash);
        (0..4000).for_each(|key| put(&mut keyspace, key, NOW.get() + 1 + u64::from(key)));
        keyspace.check();
        assert!((0..4000_u32).all(|key| keyspace.get(0, &key.to_be_bytes()).is_some()));
        let database = keyspace.database(0).unwrap();
        assert!(
            database.table().partitions() < 64,
            "{}",
            database.table().partitions()
        );
        (0..2000).for_each(|key| delete(&mut keyspace, key));
        keyspace.check();
        assert_eq!(
            keyspace
                .reclaim(UnixMs::new(NOW.get() + 10_000), usize::MAX)
                .count,
            2000
        );
        assert_eq!(keyspace.len(0), 0);
    }
}

/// Deleting, expiring, flushing and clearing give the memory back.
#[test]
fn memory_comes_back() {
    let deleted = |keyspace: &mut Keyspace| (0..50_000).for_each(|key| delete(keyspace, key));
    let expired =
        |keyspace: &mut Keyspace| while keyspace.reclaim(UnixMs::new(NOW.get() + 9999), 1000).more {};
    let flushed = |keyspace: &mut Keyspace| {
        keyspace.apply(NOW, 0, &Record::FlushDb);
        assert_eq!(keyspace.len(0), 0);
        while keyspace.maintain(NOW, 1000) {}
    };
    // Without upkeep, the records that follow pay.
    let flushed_and_filled = |keyspace: &mut Keyspace| {
        keyspace.apply(NOW, 0, &Record::FlushAll);
        (0..9_000).for_each(|_| keyspace.apply(NOW, 0, &Record::Clock));
    };
    let ways: [&dyn Fn(&mut Keyspace); 5] = [
        &deleted,
        &expired,
        &flushed,
        &flushed_and_filled,
        &Keyspace::clear,
    ];
    for (way, free) in ways.iter().enumerate() {
        for mut keyspace in keyspaces().into_iter().take(1) {
            (0..50_000).for_each(|key| put(&mut keyspace, key, NOW.get() + u64::from(key % 9000)));
            (0..50_000).for_each(|field| put_field(&mut keyspace, field));
            let full = keyspace.memory_bytes();
            assert!(full > 50_000 * 100);
            keyspace.apply(
                NOW,
                0,
                &Record::Delete {
                    reason: DeleteReason::Command,
                    key: b"hash",
                },
            );
            while keyspace.maintain(NOW, 1000) {}
            free(&mut keyspace);
            keyspace.check();
            // Rings of the wheel stay while a database does.
            assert!(
                keyspace.memory_bytes() < 120_000,
                "way {way}: {} of {full}",
                keyspace.memory_bytes()
            );
        }
    }
}

/// A flush of a full database and the removal of a large hash take no longer than a small record; what they leave is
/// counted until it is freed, and records free it faster than they could fill it again.
#[test]
fn a_flush_is_paid_for_later() {
    let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
    (0..100_000).for_each(|key| put(&mut keyspace, key, NOW.get() + 1000));
    (0..20_000).for_each(|field| put_field(&mut keyspace, field));
    let full = keyspace.memory_bytes();
    keyspace.apply(NOW, 0, &Record::FlushDb);
    assert!(keyspace.memory_bytes() >= full);
    (0..20_000).for_each(|key| put(&mut keyspace, key, 0));
    assert!(!keyspace.maintain(NOW, 0) || keyspace.expires(0) == 0);
    assert!(keyspace.memory_bytes() < full / 2, "{}", keyspace.memory_bytes());
    assert_eq!(keyspace.len(0), 20_000);
}

/// Pages of which little is left are emptied and go back, also while keys of those pages come, change and go; nothing is
/// lost or found twice, and the work ends.
#[test]
fn what_is_left_of_many_pages_moves_together() {
    let mut keyspace = Keyspace::new(16, [1, 2, 3, 4]);
    let mut model = std::collections::BTreeMap::new();
    let put_sized = |keyspace: &mut Keyspace, key: u32, bytes: usize, deadline: u64| {
        let value = vec![key.to_be_bytes()[3]; bytes];
        let record = Record::StringPut {
            key: &key.to_be_bytes(),
            deadline: Deadline::at(deadline),
            value: &value,
        };
        keyspace.apply(NOW, 0, &record);
        value
    };
    let mut key = 0;
    // One size after the other, and of each a few stay: with deadlines, without, and hashes.
    for round in 0..24_u32 {
        let bytes = 200 + 40 * round as usize;
        for _ in 0..5_000 {
            key += 1;
            let deadline = if key % 3 == 0 {
                0
            } else {
                NOW.get() + 5_000 + u64::from(key)
            };
            model.insert(key, put_sized(&mut keyspace, key, bytes, deadline));
        }
        for gone in key - 4_999..=key {
            if gone % 200 != 7 {
                delete(&mut keyspace, gone);
                model.remove(&gone);
            }
        }
        put_field(&mut keyspace, round);
        // Upkeep in steps of any size, and changes in between.
        let mut steps = 0;
        while keyspace.maintain(NOW, 1 + steps % 97) {
            steps += 1;
            assert!(steps < 200_000, "no end");
            if steps % 50 == 0 {
                let changed = key - 4_993 + 200 * (u32::try_from(steps).unwrap() / 50 % 25);
                if model.remove(&changed).is_some() {
                    delete(&mut keyspace, changed);
                    model.insert(changed, put_sized(&mut keyspace, changed, bytes / 2, 0));
                }
            }
        }
        keyspace.check();
    }
    let (used, held) = (keyspace.memory_bytes(), keyspace.held_bytes());
    assert!(held <= used + used / 4 + (1 << 20), "{held} held for {used}");
    assert_eq!(keyspace.len(0), model.len() as u64 + 1);
    for (key, value) in &model {
        let entry = keyspace.get(0, &key.to_be_bytes()).expect("it stays");
        assert!(matches!(entry.value(), crate::keyspace::ValueRef::String(found) if found == value));
    }
    let with_deadline = keyspace.expires(0);
    let end = UnixMs::new(NOW.get() + 10_000_000);
    assert!(with_deadline > 100);
    let mut freed = 0;
    while keyspace.due(end) {
        freed += keyspace.reclaim(end, 100).count as u64;
    }
    assert_eq!(freed, with_deadline);
    keyspace.check();
}
