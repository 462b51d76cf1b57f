//! The memory limit: what is refused and what makes room, and that no replay shows another state. Who goes, and what the
//! command that needed the room sees of it, is in `eviction`.

use std::collections::BTreeMap;

use idem_engine::digest::digest;
use idem_engine::{Durability, EvictionPolicy, MemoryLimit, Outcome};
use idem_protocol::wal::{DeleteReason, Record};
use proptest::prelude::*;

use crate::support::{Mode, World, check_in, seeded};

pub(crate) const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

pub(crate) fn limit(world: &mut World, bytes: u64, policy: EvictionPolicy) {
    let limit = MemoryLimit {
        bytes,
        policy,
        ..MemoryLimit::default()
    };
    world.node.limit_memory(limit);
}

/// A world whose memory is full as it stands.
pub(crate) fn full(script: &str, policy: EvictionPolicy) -> World {
    let mut world = World::new(Durability::Always);
    check_in(&mut world, script);
    world.settle();
    let used = world.node.used_bytes();
    limit(&mut world, used - 1, policy);
    world
}

/// The keys that were evicted, in order, each with its database.
pub(crate) fn evicted(world: &World, first: usize) -> Vec<(u8, Vec<u8>)> {
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
