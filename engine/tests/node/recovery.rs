//! A start from a fuzzy snapshot and the log after its start gives the state that was there, also when it gives memory
//! back on the way.

use idem_engine::Durability;
use idem_engine::digest::digest;
use idem_engine::snapshot::SnapshotCursor;
use idem_protocol::wal::RawRecord;
use proptest::prelude::*;

use crate::support::{World, seeded};

#[derive(Clone, Debug)]
enum Step {
    Run(String),
    /// The same, as one transaction.
    Together(Vec<String>),
    Later(u64),
    /// The snapshot, once begun, writes on.
    Snapshot,
    Tick,
}

fn command() -> impl Strategy<Value = String> {
    let key = || prop_oneof![Just("a"), Just("b"), Just("c"), Just("d")];
    let ttl = || 1..800_u64;
    prop_oneof![
        4 => (key(), ttl()).prop_map(|(k, t)| format!("SET {k} v PX {t}")),
        4 => (key(), ttl()).prop_map(|(k, t)| format!("PEXPIRE {k} {t}")),
        1 => key().prop_map(|k| format!("PERSIST {k}")),
        1 => key().prop_map(|k| format!("DEL {k}")),
        2 => (key(), ttl()).prop_map(|(k, t)| format!("IDEM {k} BEGIN f o {t}")),
        1 => key().prop_map(|k| format!("HSET {k} f v")),
        2 => (0..3_u8).prop_map(|db| format!("SELECT {db}")),
        1 => Just("FLUSHDB".to_owned()),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        16 => command().prop_map(Step::Run),
        3 => proptest::collection::vec(command(), 1..6).prop_map(Step::Together),
        4 => (0..400_u64).prop_map(Step::Later),
        4 => Just(Step::Snapshot),
        2 => Just(Step::Tick),
    ];
    proptest::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(seeded(300))]

    #[test]
    fn state_equals_snapshot_and_replay(steps in steps()) {
        let mut world = World::new(Durability::Always);
        world.now = 1000;
        let mut cursor = SnapshotCursor::new();
        let mut items = Vec::new();
        let mut start = None;
        let mut done = false;
        for step in steps {
            match step {
                Step::Run(line) => _ = world.line(&line),
                Step::Together(lines) => {
                    world.line("MULTI");
                    lines.iter().for_each(|line| _ = world.line(line));
                    world.line("EXEC");
                }
                Step::Later(ms) => world.now += ms,
                Step::Tick => {
                    world.settle();
                    world.tick();
                }
                Step::Snapshot if !done => {
                    let (at, time) = (world.node.appended(), world.node.log_time());
                    start.get_or_insert(at);
                    // One item at a time: whatever happens in between is in the log.
                    done = cursor.step(world.node.keyspace(), at, time, 1, &mut items);
                }
                Step::Snapshot => {}
            }
        }
        while !done {
            let (at, time) = (world.node.appended(), world.node.log_time());
            start.get_or_insert(at);
            done = cursor.step(world.node.keyspace(), at, time, 1, &mut items);
        }
        let start = start.expect("the snapshot has begun");

        let mut recovered = World::new(Durability::Always);
        recovered.node.reset();
        let mut rest = items.as_slice();
        while !rest.is_empty() {
            let raw = RawRecord::parse(rest).expect("items are records");
            recovered.node.recover(raw.lsn, raw.time, raw.db, &raw.decode().expect("items are records"));
            rest = &rest[raw.bytes.len()..];
        }
        for raw in world.log.records(0).filter(|raw| raw.lsn >= start) {
            recovered.node.recover(raw.end(), raw.time, raw.db, &raw.decode().expect("whole records"));
            recovered.node.reclaim_recovered(raw.time);
        }
        let time = world.node.log_time();
        prop_assert_eq!(digest(recovered.node.keyspace(), time), digest(world.node.keyspace(), time));
    }
}

/// Recovery gives memory back on the way, and ends with the same state as without.
#[test]
fn recovery_reclaims_on_the_way() {
    let mut world = World::new(Durability::Always);
    for index in 0..20_000_u64 {
        world.now += 1;
        world.line(&format!("SET key{index} v PX {}", 1 + index % 50));
        if index % 100 == 0 {
            world.line(&format!("SET lasting{index} v PX 10"));
            world.line(&format!("PEXPIRE lasting{index} 1000000"));
        }
    }
    let mut plain = world.state_at(world.node.appended());
    let mut thrifty = World::new(Durability::Always);
    thrifty.node.reset();
    let mut most = 0;
    for (index, raw) in world.log.records(0).enumerate() {
        thrifty
            .node
            .recover(raw.end(), raw.time, raw.db, &raw.decode().unwrap());
        if index % 500 == 0 {
            thrifty.node.reclaim_recovered(raw.time);
        }
        most = most.max(thrifty.node.keyspace().len(0));
    }
    assert!(most < 2000, "{most} entries at a time");
    assert!(plain.node.keyspace().len(0) > 20_000);
    let digest = |world: &World| idem_engine::digest::digest(world.node.keyspace(), world.node.log_time());
    assert_eq!(digest(&thrifty), digest(&plain));
    assert_eq!(plain.line("EXISTS lasting0 lasting19900").text(), "2");
}
