//! ONCE and LIMIT: replies, exactly what is written, and what replies wait for. The formulas have tests of their own in
//! `protocol`; the contract's cases play the commands from outside.

use idem_engine::Durability;
use idem_protocol::wal::Record;

use crate::support::{Mode, World, check, check_in};

#[test]
fn once() {
    check(
        r#"
        @1000
        ONCE k 100 => 1 ~ put k 1100 1
        ONCE k 100 => 0 ~ nothing
        ONCE k 9999 => 0 ~ nothing
        @1099
        ONCE k 100 => 0 ~ nothing
        @1100
        ONCE k 50 => 1 ~ put k 1150 1
        SET s 1 => OK
        ONCE s 100 => 0 ~ nothing
        SET s 2 => OK
        ONCE s 100 => -WRONGTYPE ~ nothing
        ONCE s 0 => -ERR value is not an integer or out of range: ttl_ms is 1 to 604800000 ~ nothing
        "#,
    );
}

#[test]
fn limit_replies_and_deadlines() {
    check(
        r#"
        @1000
        LIMIT f 2 100 => 1
        PTTL f => 100
        @1040
        LIMIT f 2 999 => 0
        PTTL f => 60
        LIMIT f 2 100 => nil ~ nothing
        LIMIT f 2 100 WITHRETRY => [-1 60] ~ nothing
        @1099
        LIMIT f 2 100 WITHRETRY => [-1 1] ~ nothing
        @1100
        LIMIT f 2 100 WITHRETRY => [1 0]
        PTTL f => 100
        @2000
        LIMIT s 10 100 SLIDING => 9
        PTTL s => 200
        LIMIT s 10 100 SLIDING => 8
        @2150
        LIMIT s 10 100 SLIDING => 8
        PTTL s => 150
        @3000
        LIMIT t 4 100 TOKENS COST 3 => 1
        PTTL t => 75
        LIMIT t 4 100 TOKENS COST 3 WITHRETRY => [-1 50] ~ nothing
        @3050
        LIMIT t 4 100 TOKENS COST 3 => 0
        PTTL t => 100
        LIMIT t 4 100 => -ERR the key counts in TOKENS mode until it ends ~ nothing
        "#,
    );
}

/// One record for a call that fits, none for one that does not; a restart goes on counting.
#[test]
fn counters_survive_a_restart() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r"
        @1000
        LIMIT f 3 1000 => 2
        LIMIT f 3 1000 => 1
        LIMIT t 3 1000 TOKENS COST 3 => 0
        ONCE o 1000 => 1
        ",
    );
    assert_eq!(world.log.records(1).count(), 4);
    check_in(
        &mut world,
        r"
        !restart
        LIMIT f 3 1000 => 0
        LIMIT f 3 1000 => nil ~ nothing
        LIMIT t 3 1000 TOKENS => nil ~ nothing
        ONCE o 1000 => 0 ~ nothing
        ",
    );
    let last = world.log.records(0).last().expect("there are records");
    assert!(matches!(last.decode(), Ok(Record::StringPut { value, .. }) if value.len() == 29));
}

/// A `0`, a null and an error say something about calls before them, and wait for these.
#[test]
fn refusals_wait_for_what_they_reveal() {
    let mut world = World::new(Durability::Always);
    world.now = 1000;
    for (first, again) in [
        ("ONCE o 1000", "ONCE o 1000"),
        ("LIMIT f 1 1000", "LIMIT f 1 1000"),
        ("LIMIT s 1 1000 SLIDING", "LIMIT s 1 1000 SLIDING WITHRETRY"),
        ("LIMIT t 1 1000 TOKENS", "LIMIT t 1 1000 TOKENS"),
        ("LIMIT m 1 1000", "LIMIT m 1 1000 TOKENS"),
        ("SET w value", "LIMIT w 1 1000"),
        ("SET w value", "ONCE w 1000"),
    ] {
        let wrote = world.line(first).depends_on;
        assert_eq!(wrote, world.node.appended(), "{first}");
        let refused = world.line(again);
        assert_eq!((refused.depends_on, refused.written.len()), (wrote, 0), "{again}");
    }
    world.settle();
    assert!(world.line("ONCE o 1000").depends_on <= world.node.synced());
    assert_eq!(
        world.line("LIMIT new 0 1000").depends_on.get(),
        0,
        "an error about arguments depends on nothing"
    );
}

/// Without log space the refusals are answered, and what would count gets MISCONF and counts nothing.
#[test]
fn without_space_refusals_are_answered() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r"
        @1000
        ONCE o 1000 => 1
        LIMIT f 1 1000 => 0
        ",
    );
    world.log.mode = Mode::NoSpace;
    check_in(
        &mut world,
        r"
        ONCE o 1000 => 0 ~ nothing
        ONCE new 1000 => -MISCONF ~ nothing
        LIMIT f 1 1000 => nil ~ nothing
        LIMIT f 2 1000 => -MISCONF ~ nothing
        LIMIT new 1 1000 => -MISCONF ~ nothing
        ",
    );
    world.log.mode = Mode::Granted;
    check_in(&mut world, "LIMIT f 2 1000 => 0");
}
