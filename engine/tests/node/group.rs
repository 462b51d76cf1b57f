//! Which commands join the open commit group, and what the others do to it.

use idem_engine::{Durability, Outcome};

use crate::support::{World, check_in};

/// Single keys and bounded work join; a command over many keys closes the group first, and only when it writes.
#[test]
fn what_closes_the_open_group() {
    let cases = [
        ("IDEM k BEGIN f o 1000", 0),
        ("SET s v", 0),
        ("GET s", 0),
        ("HSET h f v", 0),
        ("PEXPIRE s 5000", 0),
        ("IDEM k COMPLETE f o r", 0),
        ("EXISTS s h", 0),
        ("DEL nothing", 0),
        ("DEL s h", 1),
        ("FLUSHDB", 1),
        ("FLUSHALL", 1),
        ("IDEM k BEGIN f o 1000", 0),
    ];
    let mut world = World::new(Durability::Always);
    for (command, closes) in cases {
        let before = world.log.closed;
        world.line(command);
        assert_eq!(world.log.closed - before, closes, "{command}");
    }
}

/// Whatever a connection with subscriptions writes begins a group of its own.
#[test]
fn a_subscriber_does_not_join() {
    let mut world = World::new(Durability::Always).resp3();
    for (command, closes) in [
        ("SET k 1", 0),
        ("SUBSCRIBE a", 0),
        ("SET k 2", 1),
        ("PSUBSCRIBE a*", 0),
        ("UNSUBSCRIBE", 0),
        ("IDEM i BEGIN f o 1000", 1),
        ("PUNSUBSCRIBE a*", 0),
        ("SET k 3", 0),
    ] {
        let before = world.log.closed;
        world.line(command);
        assert_eq!(world.log.closed - before, closes, "{command}");
    }
}

/// A disk that is far behind delays what would close one more group, and nothing else.
#[test]
fn what_cannot_close_the_group_waits_and_leaves_no_trace() {
    let mut world = World::new(Durability::Always);
    check_in(&mut world, "SET s v => OK");
    world.log.closes = false;
    let records = world.log.len();
    let ran = world.line("FLUSHALL");
    assert!(matches!(ran.outcome, Outcome::Wait), "{ran:?}");
    assert_eq!(ran.reply, None);
    assert_eq!(world.log.len(), records);
    check_in(&mut world, "GET s => \"v\"\nSET t v => OK");
    world.log.closes = true;
    check_in(&mut world, "FLUSHALL => OK\nGET s => nil");
}
