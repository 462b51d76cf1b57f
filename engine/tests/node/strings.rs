//! What the commands on strings and deadlines write. What they answer is in the cases that Redis itself has to pass
//! (`protocol/testdata/commands`); here is what Redis does not show: the records, and what a reply depends on.

use idem_engine::Durability;
use idem_engine::digest::digest;

use crate::support::{World, check, check_in};

#[test]
fn counters_write_the_number_that_results() {
    check(
        r#"
        @1000
        INCR n => 1 ~ put n 0 1
        INCRBY n 41 => 42 ~ put n 0 42
        INCRBY n 0 => 42 ~ nothing
        DECRBY n 0 => 42 ~ nothing
        DECRBY fresh 0 => 0 ~ put fresh 0 0
        PEXPIRE n 500 => 1
        DECR n => 41 ~ put n 1500 41
        INCRBY n 9223372036854775807 => -ERR increment or decrement would overflow ~ nothing
        INCRBY n x => -ERR value is not an integer or out of range ~ nothing
        @1500
        INCR n => 1 ~ put n 0 1
        "#,
    );
}

#[test]
fn append_writes_the_whole_string() {
    check(
        r#"
        @1000
        APPEND k "" => 0
        APPEND k ab => 2 ~ put k 0 ab
        APPEND k "" => 2 ~ nothing
        PEXPIRE k 500 => 1
        APPEND k c => 3 ~ put k 1500 abc
        @1500
        APPEND k d => 1 ~ put k 0 d
        "#,
    );
}

#[test]
fn taking_and_reading() {
    check(
        r#"
        @1000
        GETDEL k => nil ~ nothing
        GETEX k => nil ~ nothing
        GETEX k PERSIST => nil ~ nothing
        SET k v => OK
        GETEX k => "v" ~ nothing
        GETEX k PERSIST => "v" ~ nothing
        GETEX k PX 500 => "v" ~ deadline k 1500
        GETEX k PXAT 1500 => "v" ~ nothing
        GETEX k => "v" ~ nothing
        GETEX k PERSIST => "v" ~ deadline k 0
        GETEX k EXAT 1 => "v" ~ delete k
        GETEX k => nil ~ nothing
        SET k v PX 500 => OK
        GETDEL k => "v" ~ delete k
        GETDEL k => nil ~ nothing
        SET k v PX 500 => OK
        @1500
        GETEX k EX 10 => nil ~ clock
        GETDEL k => nil ~ nothing
        "#,
    );
}

#[test]
fn older_forms_of_set() {
    check(
        r#"
        @1000
        SETNX k v => 1 ~ put k 0 v
        SETNX k w => 0 ~ nothing
        SETEX k 5 w => OK ~ put k 6000 w
        PSETEX k 5 w => OK ~ put k 1005 w
        GETSET k x => "w" ~ put k 0 x
        SETEX k 0 y => -ERR invalid expire time in 'setex' command ~ nothing
        PSETEX k -1 y => -ERR invalid expire time in 'psetex' command ~ nothing
        HSET h f v => 1
        GETSET h x => -WRONGTYPE ~ nothing
        SETNX h x => 0 ~ nothing
        "#,
    );
}

/// One record whatever the number of keys: a transaction from two on, and nothing for what was not there.
#[test]
fn several_keys_are_one_record() {
    check(
        r#"
        @1000
        MSET a 1 => OK ~ put a 0 1
        MSET a 2 b 3 => OK ~ all of (put a 0 2, put b 0 3)
        MSET a 4 a 5 => OK ~ all of (put a 0 4, put a 0 5)
        GET a => "5"
        MSETNX c 1 b 2 => 0 ~ nothing
        MSETNX c 1 => 1 ~ put c 0 1
        MSETNX d 1 e 2 => 1 ~ all of (put d 0 1, put e 0 2)
        MGET a b none => ["5" "3" nil] ~ nothing
        DEL none a none => 1 ~ delete a
        DEL b b c b => 2 ~ all of (delete b, delete c)
        UNLINK d e d => 2 ~ all of (delete d, delete e)
        UNLINK d e => 0 ~ nothing
        SET a 1 PX 10 => OK
        SET b 1 PX 10 => OK
        SET c 1 => OK
        @1010
        DEL a c => 1 ~ delete c
        DEL a b => 0 ~ nothing
        "#,
    );
}

/// A reply over several keys waits for the newest change among them, a refused MSETNX too.
#[test]
fn several_keys_depend_on_the_newest() {
    let mut world = World::new(Durability::Always);
    world.line("SET a 1");
    world.settle();
    let settled = world.node.appended();
    world.line("SET b 1");
    let newest = world.node.appended();
    for (line, depends_on) in [
        ("MGET a b", newest),
        ("MGET a none", settled),
        ("MSETNX c 1 b 1", newest),
        ("MSETNX a 1 c 1", settled),
        ("DEL none nowhere", settled),
    ] {
        let ran = world.line(line);
        assert_eq!((ran.depends_on, ran.written.len()), (depends_on, 0), "{line}");
    }
    for line in ["MSET a 1 c 1", "DEL a b"] {
        assert_eq!(world.line(line).depends_on, world.node.appended(), "{line}");
    }
}

/// After a restart the state is the one before it, whatever mixture of plain records and transactions made it.
#[test]
fn transactions_are_recovered() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        @1000
        MSET a 1 b 2 c 3 d 4 => OK
        PEXPIRE a 5000 => 1
        IDEM i BEGIN f o 5000 => ["acquired"]
        MSET a 5 e 6 => OK
        DEL b c i => 3
        "#,
    );
    let before = digest(world.node.keyspace(), world.node.log_time());
    check_in(&mut world, "!restart");
    assert_eq!(digest(world.node.keyspace(), world.node.log_time()), before);
    check_in(
        &mut world,
        r#"
        MGET a b c d e => ["5" nil nil "4" "6"]
        TTL a => -1
        IDEM i BEGIN f o 5000 => ["acquired"]
        "#,
    );
}

/// One key named often is no way to ask for more memory than there is.
#[test]
fn a_reply_of_mget_is_bounded() {
    let mut world = World::new(Durability::Always);
    let value = vec![b'v'; 1 << 20];
    world.run(&[b"SET", b"k", &value]);
    let mut arguments: Vec<&[u8]> = vec![b"MGET"];
    arguments.extend(std::iter::repeat_n(b"k".as_slice(), 64));
    assert_eq!(world.run(&arguments).reply.unwrap().as_items().unwrap().len(), 64);
    arguments.push(b"k");
    assert!(
        world
            .run(&arguments)
            .text()
            .starts_with("-ERR the values have more than 67108864 bytes")
    );
}

/// A transaction of very many keys is noted as one change of its database: its own keys are waited for all the same, and
/// so is, for a moment, every other key of that database, but of no other.
#[test]
fn readers_wait_for_a_large_transaction() {
    let mut world = World::new(Durability::Always);
    world.line("SET other 1");
    world.line("SELECT 1");
    world.line("SET other 1");
    world.settle();
    let settled = world.node.appended();
    let keys: Vec<Vec<u8>> = (0..1001)
        .map(|index| format!("key{index}").into_bytes())
        .collect();
    let mut arguments: Vec<&[u8]> = vec![b"MSET"];
    arguments.extend(keys.iter().flat_map(|key| [key.as_slice(), b"v".as_slice()]));
    assert_eq!(world.run(&arguments).text(), "OK");
    let end = world.node.appended();
    for (line, depends_on) in [
        ("GET key0", end),
        ("GET key1000", end),
        ("GET other", end),
        ("SELECT 0", Default::default()),
        ("GET other", settled),
        ("GET key0", settled),
    ] {
        assert_eq!(world.line(line).depends_on, depends_on, "{line}");
    }
    world.settle();
    world.line("SELECT 1");
    assert_eq!(world.line("GET other").depends_on, end, "it has waited once");
    arguments.truncate(1);
    arguments[0] = b"DEL";
    arguments.extend(keys.iter().map(Vec::as_slice));
    assert_eq!(world.run(&arguments).text(), "1001");
    arguments.extend(keys.iter().map(Vec::as_slice));
    assert_eq!(world.run(&arguments).text(), "0");
    assert_eq!(world.line("DBSIZE").text(), "1");
}
