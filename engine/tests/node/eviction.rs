//! Evicting: who goes, who stays, and what the command that needed the room sees of it.

use idem_engine::{Durability, EvictionPolicy, MemoryLimit, Outcome};

use crate::memory::{OOM, evicted, full, limit};
use crate::support::{World, check_in};

#[test]
fn only_idem_records_are_left_alone_unless_told_otherwise() {
    let script = r#"
        IDEM a BEGIN f A 100000 => ["acquired"]
        IDEM b BEGIN f A 100000 => ["acquired"]
        IDEM b COMPLETE f A r => 1
        IDEM c BEGIN f A 100000 => ["acquired"]
        PERSIST c => 1
    "#;
    for policy in [
        EvictionPolicy::AllkeysLru,
        EvictionPolicy::AllkeysRandom,
        EvictionPolicy::VolatileTtl,
        EvictionPolicy::VolatileLru,
        EvictionPolicy::VolatileRandom,
    ] {
        let mut world = full(script, policy);
        check_in(
            &mut world,
            &format!("IDEM new BEGIN f A 1000 => {OOM} ~ nothing\nONCE new 1000 => {OOM} ~ nothing"),
        );
        let bytes = world.node.used_bytes() - 1;
        world.node.limit_memory(MemoryLimit {
            bytes,
            policy,
            idem_evictable: true,
            ..MemoryLimit::default()
        });
        check_in(&mut world, "ONCE new 1000 => 1");
        assert_eq!(world.node.counters().evicted_keys, 1);
    }
}

#[test]
fn volatile_policies_take_only_what_has_a_deadline() {
    for policy in [
        EvictionPolicy::VolatileTtl,
        EvictionPolicy::VolatileLru,
        EvictionPolicy::VolatileRandom,
    ] {
        let mut world = full(
            "SET a value => OK\nSET b value PX 100000 => OK\nHSET h f v => 1",
            policy,
        );
        check_in(&mut world, "SET c value => OK ~ delete b; put c 0 value");
        let used = world.node.used_bytes();
        limit(&mut world, used - 1, policy);
        check_in(&mut world, &format!("SET d value => {OOM} ~ nothing"));
        limit(&mut world, used - 1, EvictionPolicy::AllkeysLru);
        check_in(&mut world, "SET d value => OK");
    }
}

/// The command's reply depends on the evictions before it, and so does whoever misses what went.
#[test]
fn replies_depend_on_evictions() {
    let mut world = full("SET a value => OK", EvictionPolicy::AllkeysLru);
    let first = world.log.len();
    let ran = world.line("SET b value");
    assert_eq!(ran.written, ["delete a", "put b 0 value"]);
    assert_eq!(evicted(&world, first), [(0, b"a".to_vec())]);
    let ends = world.log.ends();
    assert_eq!(ran.depends_on, ends[first + 1]);
    let miss = world.line("GET a");
    assert_eq!((miss.text().as_str(), miss.depends_on), ("nil", ends[first]));
}

/// A command's own keys are not evicted under it: the hash that it changes keeps its other fields.
#[test]
fn a_commands_own_key_is_spared() {
    let mut world = full("HSET h a 1 b 2 => 2", EvictionPolicy::AllkeysRandom);
    check_in(&mut world, &format!("HSET h c 3 => {OOM} ~ nothing\nHLEN h => 2"));
    let mut world = full(
        "HSET h a 1 b 2 => 2\nSET s value => OK",
        EvictionPolicy::AllkeysRandom,
    );
    check_in(
        &mut world,
        "HSET h c 3 => 1 ~ delete s; hash h 0 c=3\nHLEN h => 3",
    );
    // Of the same name in another database, it is another key.
    let mut world = full("SET k value => OK\nSELECT 1 => OK", EvictionPolicy::AllkeysRandom);
    check_in(&mut world, "SET k other => OK ~ delete k; put k 0 other");
}

/// A large value needs many small keys to go: its command waits and evicts a bounded number at a time, without an error.
#[test]
fn a_large_value_waits_for_its_room() {
    let mut world = World::new(Durability::Always);
    for key in 0..5000 {
        world.line(&format!("SET key{key} value"));
    }
    world.settle();
    let bytes = world.node.used_bytes();
    limit(&mut world, bytes, EvictionPolicy::AllkeysRandom);
    let large = vec![b'x'; 100_000];
    assert_eq!(world.run(&[b"SET", b"large", &large]).text(), "OK");
    let mut turns = 0;
    loop {
        let ran = world.line("SET small value");
        assert!(
            (1..=129).contains(&ran.written.len()),
            "{} records",
            ran.written.len()
        );
        world.settle();
        turns += 1;
        if ran.outcome != Outcome::Wait {
            assert_eq!(ran.text(), "OK");
            break;
        }
    }
    assert!((5..100).contains(&turns), "{turns} turns");
    assert!(world.node.used_bytes() <= bytes + 200);
}

/// Keys that are used stay, and what nobody asks for goes; questions about a key are no use.
#[test]
fn least_recently_used() {
    for policy in [EvictionPolicy::AllkeysLru, EvictionPolicy::VolatileLru] {
        let mut world = World::new(Durability::Always);
        world.now = 1000;
        let keys = 2000;
        for key in 0..keys {
            world.now += 1;
            world.line(&format!("SET key{key} value PX 100000000"));
        }
        world.settle();
        let bytes = world.node.used_bytes();
        limit(&mut world, bytes, policy);
        // Every eighth key is used, and every eighth is only asked about.
        for key in 0..keys {
            world.now += 10;
            match key % 8 {
                0 => _ = world.line(&format!("GET key{key}")),
                1 => _ = world.line(&format!("PTTL key{key}")),
                _ => {}
            }
        }
        for key in 0..keys / 4 {
            world.now += 10;
            world.line(&format!("SET new{key} value PX 100000000"));
            world.settle();
        }
        let mut left = [0; 8];
        for key in 0..keys {
            left[key % 8] += usize::from(world.line(&format!("EXISTS key{key}")).text() == "1");
        }
        assert!(left[0] >= 240, "of 250 used keys stay {}", left[0]);
        assert!(
            left[1] <= 200,
            "of 250 keys that were asked about stay {}",
            left[1]
        );
        assert!(world.node.counters().evicted_keys >= 450);
    }
}

/// What ends first goes first, as far as five samples can tell.
#[test]
fn what_ends_first() {
    let mut world = World::new(Durability::Always);
    world.now = 1000;
    let keys = 2000;
    for key in 0..keys {
        world.line(&format!("SET key{key} value PX {}", 1_000_000 + key * 1000));
    }
    world.settle();
    let bytes = world.node.used_bytes();
    limit(&mut world, bytes, EvictionPolicy::VolatileTtl);
    for key in 0..keys / 2 {
        world.line(&format!("SET new{key} value"));
        world.settle();
    }
    let exist = |world: &mut World, keys: std::ops::Range<u64>| {
        keys.filter(|key| world.line(&format!("EXISTS key{key}")).text() == "1")
            .count()
    };
    let (early, late) = (
        exist(&mut world, 0..keys / 4),
        exist(&mut world, keys * 3 / 4..keys),
    );
    assert!(
        early < 80 && late > 460,
        "{early} of the first 500, {late} of the last"
    );
}

/// Three keys among five thousand that stay: commands are refused while none is met, and each is met in the end.
#[test]
fn few_that_may_go_are_found() {
    let mut world = World::new(Durability::Always);
    for key in 0..5000 {
        world.line(&format!("IDEM i{key} BEGIN f o 100000"));
    }
    for key in 0..3 {
        world.line(&format!("SET s{key} {}", "v".repeat(1000)));
    }
    world.settle();
    let used = world.node.used_bytes();
    for round in 1..=3 {
        limit(&mut world, used - round * 1000, EvictionPolicy::AllkeysRandom);
        let commands = (1..10_000).find(|_| world.line("ONCE one 1000").text() != OOM);
        assert!(commands.is_some(), "round {round}");
        world.settle();
        assert_eq!(world.node.counters().evicted_keys, round);
        world.line("DEL one");
    }
    assert_eq!(world.node.keyspace().idem_records(), 5000);
}
