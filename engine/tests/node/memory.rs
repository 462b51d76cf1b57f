//! The memory limit: what is refused, what is evicted, and that neither can be seen in a replay.

use std::collections::BTreeMap;

use idem_engine::digest::digest;
use idem_engine::{Durability, EvictionPolicy, MemoryLimit, Outcome};
use idem_protocol::wal::{DeleteReason, Record};
use proptest::prelude::*;

use crate::support::{Mode, World, check_in, seeded};

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

fn limit(world: &mut World, bytes: u64, policy: EvictionPolicy) {
    let limit = MemoryLimit {
        bytes,
        policy,
        ..MemoryLimit::default()
    };
    world.node.limit_memory(limit);
}

/// A world whose memory is full as it stands.
fn full(script: &str, policy: EvictionPolicy) -> World {
    let mut world = World::new(Durability::Always);
    check_in(&mut world, script);
    world.settle();
    let used = world.node.used_bytes();
    limit(&mut world, used - 1, policy);
    world
}

/// The keys that were evicted, in order, each with its database.
fn evicted(world: &World, first: usize) -> Vec<(u8, Vec<u8>)> {
    world
        .log
        .records(first)
        .filter_map(|raw| match raw.decode() {
            Ok(Record::Delete {
                reason: DeleteReason::Evicted,
                key,
            }) => Some((raw.db, key.to_vec())),
            _ => None,
        })
        .collect()
}

const SOME_KEYS: &str = r#"
    @1000
    IDEM p BEGIN f A 100000 => ["acquired"]
    IDEM c BEGIN f A 100000 => ["acquired"]
    IDEM c COMPLETE f A r => 1
    ONCE o 100000 => 1
    LIMIT l 1 100000 => 0
    SET s value => OK
    HSET h f v => 1
"#;

/// What would write is refused before anything is reserved (this log would let it wait), and what would not is answered.
#[test]
fn noeviction_refuses_what_would_write_and_nothing_else() {
    let mut world = full(SOME_KEYS, EvictionPolicy::NoEviction);
    world.log.mode = Mode::Wait;
    for line in [
        "IDEM new BEGIN f A 1000",
        "IDEM p COMPLETE f A r",
        "ONCE new 1000",
        "LIMIT new 1 1000",
        "LIMIT l 2 1000",
        "SET s other",
        "SET new value",
        "APPEND s more",
        "INCR counter",
        "MSET a 1 b 2",
        "HSET h g v",
    ] {
        let ran = world.line(line);
        assert_eq!(ran.text(), OOM, "{line}");
        assert!(ran.written.is_empty(), "{line}");
    }
    check_in(
        &mut world,
        r#"
        IDEM p BEGIN f B 1000 => ["pending"] ~ nothing
        IDEM p BEGIN g B 1000 => ["conflict"] ~ nothing
        IDEM c BEGIN f B 1000 => ["completed" "r"] ~ nothing
        IDEM c COMPLETE f A r => 1 ~ nothing
        IDEM c COMPLETE f A other => 0 ~ nothing
        IDEM p COMPLETE g A r => 0 ~ nothing
        ONCE o 1000 => 0 ~ nothing
        LIMIT l 1 1000 => nil ~ nothing
        SET s other NX => nil ~ nothing
        GET s => "value" ~ nothing
        HGET h f => "v" ~ nothing
        SET s => -ERR wrong number
        IDEM s BEGIN f A 1000 => -WRONGTYPE ~ nothing
        "#,
    );
    world.log.mode = Mode::Granted;
    check_in(
        &mut world,
        r"
        IDEM p ABORT f A => 1 ~ idem p 101000 aborted
        PEXPIRE s 1000 => 1
        PERSIST s => 1
        HDEL h f => 1
        DEL s => 1
        IDEM new BEGIN f A 1000 => [\x22acquired\x22]
        "
        .replace("\\x22", "\"")
        .as_str(),
    );
    assert_eq!(world.node.counters().evicted_keys, 0);
}

/// A refusal reveals that it would have written: that a deadline has come, for instance. It waits for the Clock record.
#[test]
fn a_refusal_depends_on_what_it_reveals() {
    let mut world = full(
        r#"
        @1000
        IDEM k BEGIN f A 100 => ["acquired"]
        SET s value => OK
        "#,
        EvictionPolicy::NoEviction,
    );
    let ran = world.line("IDEM k BEGIN f B 100");
    assert_eq!(ran.text(), "[\"pending\"]");
    world.now = 1200;
    let ran = world.line("IDEM k BEGIN f B 100");
    assert_eq!(
        (ran.text().as_str(), ran.written.as_slice()),
        (OOM, ["clock".to_owned()].as_slice())
    );
    assert_eq!(ran.depends_on, world.node.appended());
}

/// OOM comes before MISCONF where nothing is evicted; an eviction needs the log, and without it says MISCONF.
#[test]
fn which_refusal_comes_first() {
    for admits in [false, true] {
        let mut world = full(SOME_KEYS, EvictionPolicy::NoEviction);
        (world.log.mode, world.log.admits) = (Mode::NoSpace, admits);
        check_in(
            &mut world,
            &format!("SET new value => {OOM} ~ nothing\nDEL s => -MISCONF ~ nothing"),
        );
        limit(&mut world, 1, EvictionPolicy::AllkeysRandom);
        check_in(
            &mut world,
            "SET new value => -MISCONF ~ nothing\nGET s => \"value\" ~ nothing",
        );
        (world.log.mode, world.log.admits) = (Mode::Wait, false);
        let ran = world.line("SET new value");
        assert_eq!((ran.outcome, ran.written.len()), (Outcome::Wait, 0));
        assert_eq!(world.node.counters().evicted_keys, 0);
    }
}

/// What has ended goes before anything is refused or evicted.
#[test]
fn what_has_ended_makes_room() {
    for policy in [EvictionPolicy::NoEviction, EvictionPolicy::AllkeysLru] {
        let mut world = World::new(Durability::Always);
        world.now = 1000;
        for key in 0..200 {
            world.line(&format!("SET short{key} value PX 100"));
        }
        world.line("SET s value");
        world.settle();
        let used = world.node.used_bytes();
        limit(&mut world, used - 1, policy);
        world.now = 5000;
        check_in(&mut world, "GET short1 => nil ~ clock");
        world.settle();
        check_in(&mut world, "SET t value => OK ~ put t 0 value");
        assert_eq!(world.node.counters().evicted_keys, 0);
    }
}

/// What a flush left to be given back refuses nobody.
#[test]
fn a_flush_makes_room_at_once() {
    let mut world = World::new(Durability::Always);
    for key in 0..20_000 {
        world.line(&format!("SET key{key} value"));
    }
    world.settle();
    let used = world.node.used_bytes();
    limit(&mut world, used - 1, EvictionPolicy::NoEviction);
    check_in(&mut world, &format!("SET new value => {OOM}\nFLUSHALL => OK"));
    world.settle();
    check_in(&mut world, "SET new value => OK");
}

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

/// More in the log than the limit allows is no reason not to start.
#[test]
fn a_log_that_holds_more_than_the_limit() {
    let mut world = World::new(Durability::Always);
    for key in 0..1000 {
        world.line(&format!("SET key{key} value"));
    }
    let (log, bytes) = (
        world.log.prefix(world.node.appended()),
        world.node.used_bytes() / 2,
    );
    let mut world = World::open(Durability::Always, log, 2000);
    limit(&mut world, bytes, EvictionPolicy::NoEviction);
    check_in(
        &mut world,
        &format!("GET key7 => \"value\"\nSET key7 other => {OOM}\nDEL key7 => 1"),
    );
    limit(&mut world, bytes, EvictionPolicy::AllkeysLru);
    while world.line("SET new value").outcome == Outcome::Wait {
        world.settle();
    }
    world.settle();
    assert!(world.node.used_bytes() <= bytes + 200);
}

#[derive(Clone, Debug)]
enum Step {
    Run(String),
    Later(u64),
    Settle,
    Tick,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..40_u32;
    let step = prop_oneof![
        6 => (key(), 1..300_usize).prop_map(|(k, n)| Step::Run(format!("SET s{k} {}", "v".repeat(n)))),
        4 => (key(), 1..3000_u32).prop_map(|(k, t)| Step::Run(format!("SET t{k} value PX {t}"))),
        4 => (key(), 1..3000_u32).prop_map(|(k, t)| Step::Run(format!("IDEM i{k} BEGIN f o {t}"))),
        2 => (key(), 0..300_usize).prop_map(|(k, n)| Step::Run(format!("IDEM i{k} COMPLETE f o r{}", "r".repeat(n)))),
        1 => key().prop_map(|k| Step::Run(format!("IDEM i{k} ABORT f o"))),
        2 => (key(), key()).prop_map(|(k, f)| Step::Run(format!("HSET h{k} f{f} value"))),
        2 => (key(), 1..3000_u32).prop_map(|(k, t)| Step::Run(format!("LIMIT l{k} 3 {t}"))),
        1 => (key(), key()).prop_map(|(a, b)| Step::Run(format!("MSET s{a} 1 s{b} 2"))),
        1 => key().prop_map(|k| Step::Run(format!("APPEND s{k} {}", "w".repeat(100)))),
        1 => key().prop_map(|k| Step::Run(format!("DEL s{k} t{k}"))),
        2 => key().prop_map(|k| Step::Run(format!("GET s{k}"))),
        1 => (0..3_u8).prop_map(|db| Step::Run(format!("SELECT {db}"))),
        1 => Just(Step::Run("FLUSHDB".to_owned())),
        4 => (0..500_u64).prop_map(Step::Later),
        6 => Just(Step::Settle),
        4 => Just(Step::Tick),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(seeded(120))]

    /// Whatever the policy: memory stays within the limit and one command; what is refused changes nothing; evictions take
    /// only what may go; and the log replays to the same state.
    #[test]
    fn limits_hold(steps in steps(), policy in 0..6_usize, idem_evictable in any::<bool>(), kilobytes in 20..140_u64) {
        let policy = EvictionPolicy::ALL[policy].1;
        let mut world = World::new(Durability::Always);
        world.now = 1000;
        let bytes = kilobytes * 1024;
        world.node.limit_memory(MemoryLimit { bytes, policy, idem_evictable, samples: 3 });
        for step in steps {
            match step {
                Step::Run(line) => run(&mut world, &line, bytes, policy, idem_evictable)?,
                Step::Later(ms) => world.now += ms,
                Step::Settle => world.settle(),
                Step::Tick => _ = world.tick(),
            }
        }
        let end = world.log.ends().last().copied().expect("there are records");
        let replayed = world.state_at(end);
        let time = world.node.log_time();
        prop_assert_eq!(digest(world.node.keyspace(), time), digest(replayed.node.keyspace(), time));
        if policy == EvictionPolicy::NoEviction {
            prop_assert_eq!(world.node.counters().evicted_keys, 0);
        }
    }
}

fn run(
    world: &mut World,
    line: &str,
    bytes: u64,
    policy: EvictionPolicy,
    idem_evictable: bool,
) -> Result<(), TestCaseError> {
    let (before, first) = (world.node.used_bytes(), world.log.len());
    // Per key: whether it has a deadline, whether it is an IDEM record.
    let mut kinds = BTreeMap::new();
    for db in 0..3_u8 {
        world.node.keyspace().scan(db, 0, usize::MAX, &mut |entry| {
            kinds.insert(
                (db, entry.key().to_vec()),
                (entry.deadline().is_some(), entry.is_idem()),
            );
        });
    }
    let grows = ["SET", "IDEM", "HSET", "LIMIT", "MSET", "APPEND"]
        .iter()
        .any(|name| line.starts_with(name))
        && !line.ends_with("ABORT f o");
    let ran = world.line(line);
    let gone = evicted(world, first);
    for key in &gone {
        let (has_deadline, is_idem) = kinds[key];
        prop_assert!(idem_evictable || !is_idem, "{line} evicted a record of IDEM");
        prop_assert!(
            has_deadline || !policy.name().starts_with("volatile"),
            "{line} evicted {key:?}"
        );
    }
    let wrote_itself = ran.written.iter().filter(|record| *record != "clock").count() > gone.len();
    if ran.text() == OOM {
        prop_assert!(before > bytes && !wrote_itself, "{line}: {:?}", ran.written);
    } else if ran.outcome == Outcome::Wait {
        prop_assert!(before > bytes && !gone.is_empty() && !wrote_itself);
    } else if grows && wrote_itself && gone.is_empty() && before > bytes {
        // Then what had ended made room.
        prop_assert!(
            world.node.counters().expired_keys > 0,
            "{line} wrote over the limit"
        );
    }
    if grows {
        // A value of 300 bytes, and the first wheel and tables of a database.
        prop_assert!(
            world.node.used_bytes() <= before.max(bytes) + 40_000,
            "{line}: {before} to {}",
            world.node.used_bytes()
        );
    }
    Ok(())
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
