//! The ordinary commands: Redis 7.2's replies and errors, and exactly what each writes.

use idem_engine::Durability;

use crate::support::{World, check, check_in};

#[test]
fn get_and_set() {
    check(
        r#"
        @1000
        GET k => nil ~ nothing
        SET k v => OK ~ put k 0 v
        GET k => "v" ~ nothing
        set k w EX 10 => OK ~ put k 11000 w
        SET k w PX 15 => OK ~ put k 1015 w
        SET k w EXAT 20 => OK ~ put k 20000 w
        SET k w PXAT 1500 => OK ~ put k 1500 w
        SET k x KEEPTTL => OK ~ put k 1500 x
        SET k y => OK ~ put k 0 y
        SET k z NX => nil ~ nothing
        SET k z XX => OK ~ put k 0 z
        SET new z XX => nil ~ nothing
        SET new z NX PX 10 => OK ~ put new 1010 z
        SET k a GET => "z" ~ put k 0 a
        SET fresh a GET => nil ~ put fresh 0 a
        SET k b NX GET => "a" ~ nothing
        SET fresh2 b NX GET => nil ~ put fresh2 0 b
        SET gone b XX GET => nil ~ nothing
        SET k v EX 10 EX 20 => OK ~ put k 21000 v
        SET k v NX NX => nil
        HSET h f v => 1
        SET h v GET => -WRONGTYPE ~ nothing
        SET h v NX => nil ~ nothing
        SET h v => OK ~ put h 0 v
        GET h => "v"
        "#,
    );
}

#[test]
fn errors_of_set() {
    check(
        r#"
        @1000
        SET k => -ERR wrong number of arguments for 'set' command
        SET k v NX XX => -ERR syntax error ~ nothing
        SET k v XX NX => -ERR syntax error
        SET k v EX => -ERR syntax error
        SET k v EX 1 PX 1 => -ERR syntax error
        SET k v KEEPTTL EX 1 => -ERR syntax error
        SET k v EX 1 KEEPTTL => -ERR syntax error
        SET k v WHAT => -ERR syntax error
        SET k v EX x => -ERR value is not an integer or out of range
        SET k v EX 0 => -ERR invalid expire time in 'set' command
        SET k v EX -1 => -ERR invalid expire time in 'set' command
        SET k v PXAT 0 => -ERR invalid expire time in 'set' command
        SET k v EX 9223372036854775807 => -ERR invalid expire time in 'set' command
        SET k v PX 9223372036854775807 => -ERR invalid expire time in 'set' command
        SET k v EX 9223372036854775 => -ERR invalid expire time in 'set' command
        SET k v PXAT 9223372036854775807 => OK ~ put k 9223372036854775807 v
        SET k v EX 9223372036854775808 => -ERR value is not an integer or out of range
        "#,
    );
}

/// A deadline in the past: the key goes, or does not come.
#[test]
fn set_that_is_over_at_once() {
    check(
        r#"
        @5000
        SET k v EXAT 5 => OK ~ nothing
        EXISTS k => 0
        SET k v => OK
        SET k w PXAT 4999 GET => "v" ~ delete k
        EXISTS k => 0
        SET k w PXAT 5001 => OK ~ put k 5001 w
        "#,
    );
}

#[test]
fn keys_of_any_type() {
    check(
        r#"
        @1000
        SET a 1 => OK
        SET b 1 PX 10 => OK
        HSET h f v => 1
        EXISTS a b h none a => 4 ~ nothing
        TYPE a => string
        TYPE h => hash
        TYPE none => none
        STRLEN a => 1
        STRLEN none => 0
        STRLEN h => -WRONGTYPE
        GET h => -WRONGTYPE Operation against a key holding the wrong kind of value
        DEL a a h none => 2 ~ all of (delete a, delete h)
        DEL a => 0 ~ nothing
        @1010
        EXISTS b => 0 ~ clock
        TYPE b => none ~ nothing
        DEL b => 0 ~ nothing
        "#,
    );
}

#[test]
fn deadlines() {
    check(
        r#"
        @1000
        TTL k => -2
        PTTL k => -2
        PERSIST k => 0 ~ nothing
        EXPIRE k 10 => 0 ~ nothing
        SET k v => OK
        TTL k => -1
        PTTL k => -1
        PERSIST k => 0 ~ nothing
        EXPIRE k 10 => 1 ~ deadline k 11000
        TTL k => 10
        PTTL k => 10000
        @1499
        TTL k => 10
        @1501
        TTL k => 9
        PEXPIRE k 499 => 1 ~ deadline k 2000
        TTL k => 0
        PTTL k => 499
        PERSIST k => 1 ~ deadline k 0
        PTTL k => -1
        EXPIRE k 0 => 1 ~ delete k
        EXISTS k => 0
        SET k v => OK
        PEXPIRE k -9000 => 1 ~ delete k
        "#,
    );
}

#[test]
fn conditions_and_errors_of_expire() {
    check(
        r#"
        @1000
        SET k v => OK
        PEXPIRE k 100 XX => 0 ~ nothing
        PEXPIRE k 100 GT => 0 ~ nothing
        PEXPIRE k 100 LT => 1 ~ deadline k 1100
        PEXPIRE k 100 NX => 0 ~ nothing
        PEXPIRE k 100 LT => 0
        PEXPIRE k 99 LT => 1 ~ deadline k 1099
        PEXPIRE k 99 GT => 0
        PEXPIRE k 200 GT XX => 1 ~ deadline k 1200
        PEXPIRE k 300 xx => 1 ~ deadline k 1300
        PERSIST k => 1
        PEXPIRE k 100 NX => 1 ~ deadline k 1100
        PEXPIRE k -1 LT => 1 ~ delete k
        EXPIRE k 1 NX XX => -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE k 1 NX GT => -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE k 1 GT LT => -ERR GT and LT options at the same time are not compatible
        EXPIRE k 1 WHEN => -ERR Unsupported option WHEN
        EXPIRE k x => -ERR value is not an integer or out of range
        EXPIRE k 9223372036854775807 => -ERR invalid expire time in 'expire' command
        EXPIRE k -9223372036854775808 => -ERR invalid expire time in 'expire' command
        PEXPIRE k 9223372036854775807 => -ERR invalid expire time in 'pexpire' command
        PEXPIRE k -9223372036854775808 => 0
        EXPIRE k => -ERR wrong number of arguments for 'expire' command
        "#,
    );
}

#[test]
fn hashes() {
    check(
        r#"
        @1000
        HGET h f => nil
        HGETALL h => []
        HDEL h f => 0 ~ nothing
        HSET h f 1 g 2 => 2 ~ hash h 0 f=1,g=2
        HSET h f 3 => 0 ~ hash h 0 f=3
        HSET h f 4 x 1 x 2 => 1 ~ hash h 0 f=4,x=1,x=2
        HGET h x => "2"
        HGET h none => nil
        HDEL h none => 0 ~ nothing
        HDEL h x x none => 1 ~ hashdelete h x
        PEXPIRE h 100 => 1
        HSET h y 1 => 1 ~ hash h 1100 y=1
        HDEL h y g => 2
        HGETALL h => ["f" "4"]
        HDEL h f => 1 ~ hashdelete h f
        EXISTS h => 0
        HSET h f => -ERR wrong number of arguments for 'hset' command
        HSET h f 1 g => -ERR wrong number of arguments for 'hset' command ~ nothing
        SET s v => OK
        HSET s f v => -WRONGTYPE ~ nothing
        HGET s f => -WRONGTYPE
        HDEL s f => -WRONGTYPE
        HGETALL s => -WRONGTYPE
        HSET h f v => 1
        PEXPIRE h 100 => 1
        @1100
        HSET h g w => 1 ~ hash h 0 g=w
        HGETALL h => ["g" "w"]
        "#,
    );
    let mut world = World::new(Durability::Always).resp3();
    check_in(
        &mut world,
        "HSET h f 1 => 1\nHGETALL h => {\"f\" \"1\"}\nHGETALL none => {}\nGET none => nil",
    );
}

#[test]
fn databases() {
    check(
        r#"
        SET k 0 => OK
        SELECT 3 => OK
        GET k => nil
        SET k 3 => OK
        SET l 3 => OK
        DBSIZE => 2
        SELECT 16 => -ERR DB index is out of range
        SELECT -1 => -ERR DB index is out of range
        SELECT 256 => -ERR DB index is out of range
        SELECT x => -ERR value is not an integer or out of range
        GET k => "3"
        FLUSHDB => OK ~ flushdb
        DBSIZE => 0
        FLUSHDB ASYNC => OK ~ flushdb
        FLUSHDB sync => OK ~ flushdb
        FLUSHDB NOW => -ERR syntax error ~ nothing
        FLUSHALL SYNC ASYNC => -ERR syntax error ~ nothing
        SELECT 0 => OK
        GET k => "0"
        FLUSHALL => OK ~ flushall
        DBSIZE => 0
        "#,
    );
}

#[test]
fn scan() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        @1000
        SCAN 0 => ["0" []]
        SET user:1 v => OK
        HSET user:2 f v => 1
        SET "we[ir]d*" v PX 10 => OK
        SCAN 0 MATCH user:1 => ["0" ["user:1"]]
        SCAN 0 MATCH us?r:[2-9] COUNT 100 => ["0" ["user:2"]]
        SCAN 0 TYPE hash => ["0" ["user:2"]]
        SCAN 0 TYPE list => ["0" []]
        SCAN 0 MATCH we\[* => ["0" ["we[ir]d*"]]
        @1010
        SCAN 0 MATCH we* => ["0" []] ~ clock
        SCAN x => -ERR invalid cursor
        SCAN -1 => -ERR invalid cursor
        SCAN 0 MATCH => -ERR syntax error
        SCAN 0 COUNT 0 => -ERR syntax error
        SCAN 0 COUNT x => -ERR value is not an integer or out of range
        SCAN 0 WHAT 1 => -ERR syntax error
        "#,
    );
    for index in 0..3000 {
        world.line(&format!("SET key{index} v"));
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor = b"0".to_vec();
    loop {
        let reply = world
            .run(&[b"SCAN", &cursor, b"MATCH", b"key*", b"COUNT", b"100"])
            .reply
            .unwrap();
        let [next, keys] = reply.as_items().unwrap() else {
            panic!("cursor and keys")
        };
        seen.extend(
            keys.as_items()
                .unwrap()
                .iter()
                .map(|key| key.as_bytes().unwrap().to_vec()),
        );
        cursor = next.as_bytes().unwrap().to_vec();
        if cursor == b"0" {
            break;
        }
    }
    assert_eq!(seen.len(), 3000);
    // Cursors that no scan has answered end somewhere, and break nothing.
    for cursor in ["1", "12345678901234567890", "18446744073709551615"] {
        assert!(
            !world
                .line(&format!("SCAN {cursor}"))
                .reply
                .unwrap()
                .as_items()
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn unknown_commands_and_counts() {
    check(
        r#"
        NOSUCH a b => -ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b'
        GET => -ERR wrong number of arguments for 'get' command
        GET a b => -ERR wrong number of arguments for 'get' command
        DBSIZE x => -ERR wrong number of arguments for 'dbsize' command
        "#,
    );
}
