//! The contract of IDEM, row by row: reply, and exactly what is written.

use idem_protocol::idem::{RESULT_BYTES_MAX, TOKEN_BYTES_MAX};

use crate::support::{World, check, check_in};
use idem_engine::Durability;

#[test]
fn begin() {
    check(
        r#"
        @1000
        IDEM k BEGIN f a 100 => ["acquired"] ~ idem k 1100 pending
        IDEM k BEGIN g a 100 => ["conflict"] ~ nothing
        IDEM k BEGIN f a 100 => ["pending"] ~ nothing
        IDEM k BEGIN f b 9999 => ["pending"] ~ nothing
        IDEM k COMPLETE f a done => 1 ~ idem k 1100 completed
        IDEM k BEGIN f a 100 => ["completed" "done"] ~ nothing
        IDEM k BEGIN f b 100 => ["completed" "done"] ~ nothing
        IDEM k BEGIN g b 100 => ["conflict"] ~ nothing
        PTTL k => 100
        @1099
        IDEM k BEGIN f b 100 => ["completed" "done"] ~ nothing
        @1100
        IDEM k BEGIN g b 50 => ["acquired"] ~ idem k 1150 pending
        IDEM e BEGIN f a 100 => ["acquired"]
        IDEM e COMPLETE f a "" => 1 ~ idem e 1200 completed
        IDEM e BEGIN f a 100 => ["completed" ""] ~ nothing
        "#,
    );
}

#[test]
fn complete() {
    check(
        r#"
        @1000
        IDEM k COMPLETE f a r => 0 ~ nothing
        IDEM k BEGIN f a 100 => ["acquired"]
        IDEM k COMPLETE g a r => 0 ~ nothing
        IDEM k COMPLETE f b r => 0 ~ nothing
        @1099
        IDEM k COMPLETE f a r => 1 ~ idem k 1100 completed
        IDEM k COMPLETE f a r => 1 ~ nothing
        IDEM k COMPLETE f a other => 0 ~ nothing
        IDEM k COMPLETE f b r => 0 ~ nothing
        IDEM k COMPLETE g a r => 0 ~ nothing
        PTTL k => 1
        @1100
        IDEM k COMPLETE f a r => 0 ~ clock
        IDEM k COMPLETE f a r => 0 ~ nothing
        "#,
    );
}

#[test]
fn abort() {
    check(
        r#"
        @1000
        IDEM k ABORT f a => 0 ~ nothing
        IDEM k BEGIN f a 100 => ["acquired"]
        IDEM k ABORT g a => 0 ~ nothing
        IDEM k ABORT f b => 0 ~ nothing
        IDEM k ABORT f a => 1 ~ idem k 1100 aborted
        EXISTS k => 0
        IDEM k ABORT f a => 0 ~ nothing
        IDEM k BEGIN g b 10 => ["acquired"] ~ idem k 1010 pending
        IDEM k COMPLETE g b r => 1
        IDEM k ABORT g b => 0 ~ nothing
        IDEM k BEGIN g b 10 => ["completed" "r"]
        @1010
        IDEM k ABORT g b => 0 ~ clock
        "#,
    );
}

#[test]
fn inspect() {
    let mut world = World::new(Durability::Always).resp3();
    check_in(
        &mut world,
        r#"
        @1000
        IDEM k INSPECT => nil ~ nothing
        IDEM k BEGIN f a 100 => ["acquired"]
        @1040
        IDEM k INSPECT => {"state" "pending" "fingerprint" "f" "owner" "a" "deadline_ms" 1100 "ttl_ms" 60 "result_bytes" 0} ~ nothing
        IDEM k COMPLETE f a result => 1
        idem k inspect => {"state" "completed" "fingerprint" "f" "owner" "a" "deadline_ms" 1100 "ttl_ms" 60 "result_bytes" 6} ~ nothing
        HELLO 2 => ["server" "idemd" "version" "7.2.0" "proto" 2 "id" 1 "mode" "standalone" "role" "master" "modules" []]
        IDEM k INSPECT => ["state" "completed" "fingerprint" "f" "owner" "a" "deadline_ms" 1100 "ttl_ms" 60 "result_bytes" 6]
        @1100
        IDEM k INSPECT => nil ~ clock
        "#,
    );
}

#[test]
fn errors() {
    check(
        r#"
        @1000
        IDEM => -ERR wrong number of arguments for 'idem' command ~ nothing
        IDEM k => -ERR wrong number of arguments for 'idem' command
        IDEM k NOTHING f a 100 => -ERR syntax error
        IDEM k BEGIN f a => -ERR wrong number of arguments for 'idem|begin' command
        IDEM k BEGIN f a 100 x => -ERR wrong number of arguments for 'idem|begin' command
        IDEM k COMPLETE f a => -ERR wrong number of arguments for 'idem|complete' command
        IDEM k ABORT f => -ERR wrong number of arguments for 'idem|abort' command
        IDEM k INSPECT x => -ERR wrong number of arguments for 'idem|inspect' command
        IDEM k BEGIN "" a 100 => -ERR fingerprint must have 1 to 128 bytes
        IDEM k BEGIN f "" 100 => -ERR owner must have 1 to 128 bytes
        IDEM k COMPLETE "" a r => -ERR fingerprint must have
        IDEM k ABORT f "" => -ERR owner must have
        IDEM k BEGIN f a 0 => -ERR value is not an integer or out of range ~ nothing
        IDEM k BEGIN f a -1 => -ERR value is not an integer or out of range
        IDEM k BEGIN f a 604800001 => -ERR value is not an integer or out of range
        IDEM k BEGIN f a +5 => -ERR value is not an integer or out of range
        IDEM k BEGIN f a " 5" => -ERR value is not an integer or out of range
        IDEM k BEGIN f a 05 => -ERR value is not an integer or out of range
        IDEM k BEGIN f a 1e3 => -ERR value is not an integer or out of range
        IDEM k BEGIN f a 0x10 => -ERR value is not an integer or out of range
        IDEM k BEGIN f a "" => -ERR value is not an integer or out of range
        IDEM k BEGIN f a 99999999999999999999 => -ERR value is not an integer or out of range
        EXISTS k => 0
        IDEM k BEGIN f a 604800000 => ["acquired"] ~ idem k 604801000 pending
        HSET h f v => 1
        IDEM h BEGIN f a 100 => -WRONGTYPE ~ nothing
        IDEM h COMPLETE f a r => -WRONGTYPE
        IDEM h ABORT f a => -WRONGTYPE
        IDEM h INSPECT => -WRONGTYPE
        SET s text => OK
        IDEM s BEGIN f a 100 => -WRONGTYPE ~ nothing
        IDEM s BEGIN f a 0 => -ERR value is not an integer
        IDEM s BEGIN "" a 1 => -ERR fingerprint
        PERSIST k => 1
        IDEM k BEGIN f a 100 => -ERR the record has no deadline ~ nothing
        IDEM k BEGIN g a 100 => -ERR the record has no deadline
        IDEM k COMPLETE f a r => -ERR the record has no deadline ~ nothing
        IDEM k ABORT f a => -ERR the record has no deadline ~ nothing
        IDEM k INSPECT => -ERR the record has no deadline
        PEXPIRE k 10 => 1
        IDEM k COMPLETE f a r => 1 ~ idem k 1010 completed
        PING => PONG
        "#,
    );
}

/// Malformed before deadline: a string that is no record says WRONGTYPE whether or not it has a deadline, and a record
/// that was written as a string is one.
#[test]
fn records_written_as_strings() {
    let pending = r"IDM\x01\x00\x01\x01\x00\x00\x00\x00fa";
    let aborted = r"IDM\x01\x02\x01\x01\x00\x00\x00\x00fa";
    let long = r"IDM\x01\x00\x01\x01\x00\x00\x00\x00fab";
    check(&format!(
        r#"
        @1000
        SET k "{pending}" PX 100 => OK
        IDEM k BEGIN f b 5 => ["pending"] ~ nothing
        IDEM k COMPLETE f a r => 1 ~ idem k 1100 completed
        SET k "{pending}" => OK
        IDEM k BEGIN f a 5 => -ERR the record has no deadline
        SET k "{aborted}" PX 100 => OK
        IDEM k BEGIN f a 5 => -WRONGTYPE
        SET k "{long}" => OK
        IDEM k BEGIN f a 5 => -WRONGTYPE
        SET k "{long}" PX 100 => OK
        IDEM k INSPECT => -WRONGTYPE
        GET k => "{long}"
        @1100
        IDEM k BEGIN f a 5 => ["acquired"] ~ idem k 1105 pending
        "#,
    ));
}

#[test]
fn bounds_of_tokens_and_results() {
    let mut world = World::new(Durability::Always);
    for (length, fits) in [(1, true), (TOKEN_BYTES_MAX, true), (TOKEN_BYTES_MAX + 1, false)] {
        let token = vec![0xff; length];
        let begun = world
            .run(&[b"IDEM", &token, b"BEGIN", &token, &token, b"1000"])
            .text();
        assert_eq!(begun.starts_with("[\"acquired\""), fits, "{length}: {begun}");
    }
    let result = vec![b'r'; RESULT_BYTES_MAX + 1];
    world.line("IDEM k BEGIN f a 1000");
    let refused = world.run(&[b"IDEM", b"k", b"COMPLETE", b"f", b"a", &result]);
    assert!(
        refused
            .text()
            .starts_with("-ERR result must have at most 4194304 bytes"),
        "{}",
        refused.text()
    );
    assert!(refused.written.is_empty());
    let stored = world.run(&[b"IDEM", b"k", b"COMPLETE", b"f", b"a", &result[1..]]);
    assert_eq!(stored.text(), "1");
    let replayed = world.run(&[b"IDEM", b"k", b"BEGIN", b"f", b"a", b"1"]);
    assert_eq!(
        replayed.reply.unwrap().as_items().unwrap()[1].as_bytes().unwrap(),
        &result[1..]
    );
}

/// The counters of INFO, one IDEM outcome each.
#[test]
fn outcomes_are_counted() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        @1000
        IDEM k BEGIN f a 100 => ["acquired"]
        IDEM k BEGIN f b 100 => ["pending"]
        IDEM k BEGIN g b 100 => ["conflict"]
        IDEM k COMPLETE f b r => 0
        IDEM k COMPLETE f a r => 1
        IDEM k COMPLETE f a r => 1
        IDEM k BEGIN f b 100 => ["completed" "r"]
        IDEM l BEGIN f a 100 => ["acquired"]
        IDEM l ABORT f a => 1
        IDEM l ABORT f a => 0
        IDEM l BEGIN f a 0 => -ERR
        "#,
    );
    let counters = world.node.counters();
    assert_eq!(counters.idem_acquired, 2);
    assert_eq!(counters.idem_pending, 1);
    assert_eq!(counters.idem_conflict, 1);
    assert_eq!(counters.idem_refused_complete, 1);
    assert_eq!(counters.idem_completed, 1);
    assert_eq!(counters.idem_replayed, 1);
    assert_eq!(counters.idem_aborted, 1);
    assert_eq!((counters.commands, counters.errors.total()), (11, 1));
    assert_eq!(world.session.commands, 11);
    assert_eq!(world.node.keyspace().idem_records(), 1);
}
