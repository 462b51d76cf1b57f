//! Expiry writes nothing but, now and then, the time.

use idem_engine::Durability;

use crate::support::{World, check, check_in};

/// A miss of what ended writes the time once a millisecond, whatever asks and however often.
#[test]
fn one_clock_record_a_millisecond() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        @1000
        SET a v PX 10 => OK
        SET b v PX 10 => OK
        SET c v PX 11 => OK
        HSET h f v => 1
        PEXPIRE h 10 => 1
        @1009
        GET a => "v" ~ nothing
        @1010
        GET a => nil ~ clock
        GET a => nil ~ nothing
        GET b => nil ~ nothing
        HGETALL h => [] ~ nothing
        GET c => "v" ~ nothing
        @1011
        GET a => nil ~ nothing
        EXISTS a b c => 0 ~ clock
        TTL c => -2 ~ nothing
        @1012
        GET missing => nil ~ nothing
        GET a => nil ~ nothing
        "#,
    );
}

/// Who writes anyway carries the time in its own record.
#[test]
fn a_write_brings_the_time_itself() {
    check(
        r#"
        @1000
        SET a v PX 10 => OK
        HSET h f v => 1
        PEXPIRE h 10 => 1
        IDEM i BEGIN f a 10 => ["acquired"]
        @1010
        SET a w NX => OK ~ put a 0 w
        HSET h g w => 1 ~ hash h 0 g=w
        IDEM i BEGIN g b 10 => ["acquired"] ~ idem i 1020 pending
        HGETALL h => ["g" "w"]
        "#,
    );
}

/// Restart under a wall clock of long ago, from exactly what each reply depends on: what was gone stays gone.
#[test]
fn an_older_wall_clock_revives_nothing() {
    let gone = [
        "GET a",
        "IDEM i COMPLETE f o r",
        "IDEM i INSPECT",
        "EXISTS a",
        "TTL a",
        "SCAN 0 MATCH a",
        "HGET h f",
    ];
    for line in gone {
        let mut world = World::new(Durability::Always);
        check_in(
            &mut world,
            r#"
            @1000
            SET a v PX 10 => OK
            HSET h f v => 1
            PEXPIRE h 10 => 1
            IDEM i BEGIN f o 10 => ["acquired"]
            @1010
            "#,
        );
        let told = world.line(line);
        assert!(
            told.depends_on == world.node.appended(),
            "{line} depends on the record that brought the time"
        );
        let mut restarted = World::open(Durability::Always, world.log.prefix(told.depends_on), 0);
        assert_eq!(restarted.now, 1010, "the clock starts at the log's time");
        assert_eq!(restarted.line(line).text(), told.text(), "{line}");
        // One record less, and it would be back: the dependency is not idle.
        let shorter = world.log.ends()[world.log.len() - 2];
        let mut revived = World::open(Durability::Always, world.log.prefix(shorter), 0);
        assert_ne!(revived.line(line).text(), told.text(), "{line}");
    }
}

/// A miss that needs no new record still waits for the one that brought the time, until that is on disk.
#[test]
fn a_later_miss_waits_for_the_record_that_brought_the_time() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        "@1000\nSET a v PX 10 => OK\nSET b v PX 10 => OK\n!settle\n@1010\nGET a => nil ~ clock",
    );
    let clock = world.node.appended();
    world.now = 1020;
    world.line("SET other v");
    let miss = world.line("GET b");
    assert_eq!((miss.text().as_str(), miss.depends_on), ("nil", clock));
    world.settle();
    assert!(world.line("GET b").depends_on <= world.node.barrier(world.now()));
}

/// An idle node gives memory back within a second of the deadline: one Clock record, then, once that is on disk, the
/// entries; not one record more afterwards.
#[test]
fn reclaiming_on_an_idle_node() {
    let mut world = World::new(Durability::Always);
    world.now = 1000;
    for index in 0..2000 {
        world.line(&format!("SET key{index} v PX 500"));
    }
    world.settle();
    let before = world.log.len();
    let mut freed_at = None;
    while world.now < 5000 {
        world.now += 100;
        // A real server calls again at once while there is more.
        loop {
            let tick = world.node.tick(world.now(), &mut world.log);
            if tick.reclaimed == 0 || !tick.more {
                break;
            }
        }
        if world.now < 1500 {
            assert_eq!(
                world.node.keyspace().len(0),
                2000,
                "nothing goes before its deadline"
            );
        }
        if world.node.keyspace().len(0) == 0 && freed_at.is_none() {
            freed_at = Some(world.now);
        }
        world.settle();
    }
    assert!(freed_at.unwrap() <= 2500, "{freed_at:?}");
    assert_eq!(world.node.counters().expired_keys, 2000);
    let clocks = world.log.len() - before;
    assert!((1..=3).contains(&clocks), "{clocks} Clock records");
}

/// With a disk that is stuck, nothing is reclaimed above the barrier, and Clock records do not pile up.
#[test]
fn nothing_is_reclaimed_above_the_barrier() {
    let mut world = World::new(Durability::Always);
    check_in(&mut world, "@1000\nSET a v PX 10 => OK\n!settle");
    let before = world.log.len();
    for _ in 0..50 {
        world.now += 100;
        let (reclaimed, _) = world.tick();
        assert_eq!(reclaimed, 0);
    }
    assert_eq!(world.log.len(), before + 1, "one record waits");
    assert_eq!(world.node.keyspace().len(0), 1);
    world.settle();
    assert_eq!(world.tick().0, 1);
    assert_eq!(world.node.keyspace().len(0), 0);
}

/// At most one Clock record in 100 ms for reclaiming, with something ending in every millisecond.
#[test]
fn clock_records_for_reclaiming_are_rare() {
    let mut world = World::new(Durability::Always);
    world.now = 1000;
    for index in 1..3000 {
        world.line(&format!("SET key{index} v PX {index}"));
    }
    world.settle();
    let before = world.log.len();
    for _ in 0..3500 {
        world.now += 1;
        world.tick();
        world.settle();
    }
    let clocks = world.log.len() - before;
    assert!(clocks <= 36, "{clocks} Clock records in 3.5 s");
    assert_eq!(world.node.keyspace().len(0), 0);
}

/// A clock behind the log (which a server's never is) decides at the log's time and writes it.
#[test]
fn a_clock_behind_the_log_is_the_logs() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        @5000
        SET a v => OK
        @10
        SET b v PX 10 => OK ~ put b 5010 v
        PTTL b => 10
        IDEM i BEGIN f a 1 => ["acquired"] ~ idem i 5001 pending
        "#,
    );
    assert_eq!(world.node.log_time().get(), 5000);
}
