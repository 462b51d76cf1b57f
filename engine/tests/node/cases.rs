//! Ways in which other idempotency stores failed, tried here. The names are those of the list they come from.

use idem_engine::Durability;

use crate::support::{World, check, check_in};

/// idem-2: a second BEGIN must not replace the winner's running record.
#[test]
fn idem_2_the_winner_can_complete_after_a_second_begin() {
    check(
        r#"
        @1000
        IDEM k BEGIN f A 1000 => ["acquired"]
        IDEM k BEGIN f B 1000 => ["pending"]
        IDEM k COMPLETE f A r => 1
        "#,
    );
}

/// idem-5: at the very millisecond of the deadline either the old owner completes or the new one acquires, never both.
#[test]
fn idem_5_the_boundary_of_a_deadline_has_one_owner() {
    for round in 0..10_000_u64 {
        let ttl = 1 + round % 7;
        let start = 1000 + round;
        // Completing at deadline - 1, at the deadline, and one later, before and after the other's BEGIN.
        for (at, first) in [(ttl - 1, true), (ttl, true), (ttl, false), (ttl + 1, false)] {
            let mut world = World::new(Durability::Always);
            world.now = start;
            world.line(&format!("IDEM k BEGIN f A {ttl}"));
            world.now = start + at;
            let complete = |world: &mut World| world.line("IDEM k COMPLETE f A r").text();
            let begin = |world: &mut World| world.line("IDEM k BEGIN f B 100").text();
            let (completed, begun) = if first {
                (complete(&mut world), begin(&mut world))
            } else {
                let begun = begin(&mut world);
                (complete(&mut world), begun)
            };
            let expected = if at < ttl {
                ("1", "[\"completed\" \"r\"]")
            } else {
                ("0", "[\"acquired\"]")
            };
            assert_eq!(
                (completed.as_str(), begun.as_str()),
                expected,
                "round {round}, at {at} of {ttl}"
            );
            if round > 200 && at != ttl {
                break;
            }
        }
    }
}

/// idem-8: the first owner's late ABORT must not free the second owner's record.
#[test]
fn idem_8_a_late_abort_frees_nobody_else() {
    check(
        r#"
        @1000
        IDEM k BEGIN f A 50 => ["acquired"]
        @1060
        IDEM k BEGIN f B 1000 => ["acquired"]
        IDEM k ABORT f A => 0 ~ nothing
        IDEM k COMPLETE f B r => 1
        "#,
    );
}

/// idem-11: reclaiming in the middle of a flood of BEGINs at the boundary; the replies match a serial history in which
/// each lifetime has exactly one owner.
#[test]
fn idem_11_reclaiming_and_beginning_at_the_boundary() {
    let mut world = World::new(Durability::Always);
    let mut lives_until = [0_u64; 8];
    for step in 0..20_000_u64 {
        world.now += u64::from(step % 3 == 0);
        let key = usize::try_from(step % 8).unwrap();
        let ran = world.line(&format!("IDEM key{key} BEGIN f owner{step} 20"));
        let expected = if world.now >= lives_until[key] {
            lives_until[key] = world.now + 20;
            "[\"acquired\"]"
        } else {
            "[\"pending\"]"
        };
        assert_eq!(ran.text(), expected, "step {step}");
        if step % 5 == 0 {
            world.settle();
            world.tick();
        }
    }
}

/// idem-13: another request under the same key is a conflict while the first one is still running.
#[test]
fn idem_13_a_mismatch_is_noticed_while_pending() {
    check(
        r#"
        IDEM k BEGIN fp1 A 1000 => ["acquired"]
        IDEM k BEGIN fp2 A 1000 => ["conflict"]
        "#,
    );
}

/// idem-16: nothing is left of a record that ended, anywhere.
#[test]
fn idem_16_no_residue_after_expiry() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        @1000
        IDEM k BEGIN f A 100 => ["acquired"]
        IDEM d BEGIN f A 100 => ["acquired"]
        IDEM d COMPLETE f A r => 1
        @5000
        IDEM k COMPLETE f A r => 0
        IDEM k ABORT f A => 0
        IDEM d ABORT f A => 0
        SCAN 0 COUNT 100 => ["0" []]
        !settle
        !tick
        DBSIZE => 0
        "#,
    );
    assert_eq!(world.node.keyspace().idem_records(), 0);
    let info = world.line("INFO keyspace").reply.unwrap();
    assert_eq!(info.as_bytes().unwrap(), b"# Keyspace\r\n");
    assert_eq!(world.node.counters().expired_keys, 2);
}

/// idem-17, idem-22: what ended long ago is free again, for any fingerprint, also after a restart.
#[test]
fn idem_17_22_what_ended_is_free_again() {
    check(
        r#"
        @1000
        IDEM k BEGIN f A 1000 => ["acquired"]
        IDEM c BEGIN f A 1000 => ["acquired"]
        IDEM c COMPLETE f A r => 1
        @32000
        IDEM k BEGIN other B 1000 => ["acquired"]
        !restart
        IDEM c BEGIN other B 1000 => ["acquired"]
        IDEM k BEGIN other C 1000 => ["pending"]
        @70000
        !restart
        IDEM k BEGIN f D 1000 => ["acquired"]
        "#,
    );
}

/// idem-25: IDEM and the commands for strings meet under one key, in defined ways.
#[test]
fn idem_25_strings_and_records_under_one_key() {
    check(
        r#"
        @1000
        SET k payload => OK
        IDEM k BEGIN f A 1000 => -WRONGTYPE ~ nothing
        GET k => "payload"
        DEL k => 1
        IDEM k BEGIN f A 1000 => ["acquired"]
        TYPE k => string
        STRLEN k => 13
        GET k => "IDM\x01\x00\x01\x01\x00\x00\x00\x00fA"
        EXPIRE k 10 => 1
        IDEM k BEGIN f A 1000 => ["pending"]
        PTTL k => 10000
        HSET k f v => -WRONGTYPE
        SET k other KEEPTTL => OK ~ put k 11000 other
        IDEM k BEGIN f A 1000 => -WRONGTYPE
        DEL k => 1
        IDEM k BEGIN f A 1000 => ["acquired"]
        "#,
    );
}

/// idem-29: a result is bytes, and none of them mean anything.
#[test]
fn idem_29_results_are_byte_equal() {
    let large = vec![0xff_u8; 1 << 20];
    let results: [&[u8]; 10] = [
        b"",
        b"0",
        b"null",
        b"None",
        b"false",
        b"\0",
        b"\r\n",
        b"\xc3\x28\xff",
        b"[]",
        &large,
    ];
    let mut world = World::new(Durability::Always);
    for (index, result) in results.into_iter().enumerate() {
        let key = index.to_string().into_bytes();
        world.run(&[b"IDEM", &key, b"BEGIN", b"f", b"A", b"1000"]);
        assert_eq!(
            world
                .run(&[b"IDEM", &key, b"COMPLETE", b"f", b"A", result])
                .text(),
            "1"
        );
    }
    let log = world.log.prefix(world.node.appended());
    let mut world = World::open(Durability::Always, log, 0);
    for (index, result) in results.into_iter().enumerate() {
        let key = index.to_string().into_bytes();
        let reply = world
            .run(&[b"IDEM", &key, b"BEGIN", b"f", b"A", b"1000"])
            .reply
            .unwrap();
        let items = reply.as_items().unwrap();
        assert_eq!(items[0].as_bytes().unwrap(), b"completed");
        assert_eq!(items[1].as_bytes().unwrap(), result);
    }
}
