//! Transactions: all or nothing, each command on what those before it left, and the rules of queueing and watching.

use idem_engine::digest::digest;
use idem_engine::{Durability, EvictionPolicy, Outcome, Session};
use proptest::prelude::*;

use crate::memory::{full, limit};
use crate::support::{Mode, World, check, check_in};

fn digest_of(world: &World) -> String {
    format!("{:?}", digest(world.node.keyspace(), world.node.log_time()))
}

#[test]
fn queueing() {
    check(
        r#"
        EXEC => -ERR EXEC without MULTI
        DISCARD => -ERR DISCARD without MULTI
        MULTI => OK ~ nothing
        MULTI => -ERR MULTI calls can not be nested
        WATCH k => -ERR WATCH inside MULTI is not allowed
        SET k 1 => QUEUED ~ nothing
        INCR k => QUEUED
        GET k => QUEUED
        EXEC => [OK 2 "2"] ~ all of (put k 0 1, put k 0 2)
        EXEC => -ERR EXEC without MULTI
        MULTI => OK
        EXEC => [] ~ nothing
        MULTI => OK
        SET k 9 => QUEUED
        DISCARD => OK ~ nothing
        MULTI => OK
        SET k 9 => QUEUED
        EXEC now => -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command ~ nothing
        EXEC => -ERR EXEC without MULTI
        GET k => "2"
        "#,
    );
}

/// What is refused while queueing spoils all of it; what fails while it runs spoils nothing else.
#[test]
fn errors() {
    for refused in [
        "NOSUCH",
        "GET",
        "SET k",
        "SAVE",
        "CLIENT NOSUCH",
        "IDEM k NOSUCH",
        "SUBSCRIBE c",
    ] {
        let mut world = World::new(Durability::Always);
        check_in(&mut world, "MULTI => OK\n SET a 1 => QUEUED");
        assert!(world.line(refused).text().starts_with('-'), "{refused}");
        check_in(
            &mut world,
            r#"
            SET b 1 => QUEUED
            EXEC => -EXECABORT Transaction discarded because of previous errors. ~ nothing
            GET a => nil
            MULTI => OK
            SET a 1 => QUEUED
            EXEC => [OK]
            "#,
        );
    }
    check(
        r#"
        MULTI => OK
        SET k text => QUEUED
        INCR k => QUEUED
        HSET k f v => QUEUED
        IDEM k BEGIN f a 1000 => QUEUED
        SELECT 99 => QUEUED
        SET k2 v => QUEUED
        EXEC => [OK -ERR value is not an integer or out of range -WRONGTYPE Operation against a key holding the wrong kind of value -WRONGTYPE Operation against a key holding the wrong kind of value -ERR DB index is out of range OK] ~ all of (put k 0 text, put k2 0 v)
        "#,
    );
}

#[test]
fn idem_once_and_limit_inside() {
    check(
        r#"
        @1000
        MULTI => OK
        IDEM k BEGIN f a 5000 => QUEUED
        IDEM k BEGIN f a 5000 => QUEUED
        IDEM k COMPLETE f a done => QUEUED
        IDEM k BEGIN f b 9000 => QUEUED
        IDEM k BEGIN g b 9000 => QUEUED
        IDEM k INSPECT => QUEUED
        IDEM p BEGIN f a 10 => QUEUED
        IDEM p ABORT f a => QUEUED
        IDEM p INSPECT => QUEUED
        ONCE o 100 => QUEUED
        ONCE o 100 => QUEUED
        LIMIT l 2 1000 => QUEUED
        LIMIT l 2 1000 => QUEUED
        LIMIT l 2 1000 => QUEUED
        PTTL k => QUEUED
        DBSIZE => QUEUED
        EXEC => [["acquired"] ["pending"] 1 ["completed" "done"] ["conflict"] ["state" "completed" "fingerprint" "f" "owner" "a" "deadline_ms" 6000 "ttl_ms" 5000 "result_bytes" 4] ["acquired"] 1 nil 1 0 1 0 nil 5000 3]
        IDEM k BEGIN f x 1 => ["completed" "done"]
        !restart
        IDEM k BEGIN f x 1 => ["completed" "done"]
        "#,
    );
}

/// What a connection changes about itself holds for the commands behind it, and stays.
#[test]
fn the_connection_inside() {
    check(
        r#"
        SET k zero => OK
        MULTI => OK
        SELECT 3 => QUEUED
        SET k three => QUEUED
        CLIENT SETNAME me => QUEUED
        CLIENT GETNAME => QUEUED
        FLUSHDB => QUEUED
        DBSIZE => QUEUED
        SET k again => QUEUED
        KEYS * => QUEUED
        SELECT 0 => QUEUED
        GET k => QUEUED
        SELECT 3 => QUEUED
        EXEC => [OK OK OK "me" OK 0 OK ["k"] OK "zero" OK] ~ all of (put k 0 three, flushdb, put k 0 again)
        GET k => "again"
        CLIENT GETNAME => "me"
        MULTI => OK
        RESET => RESET
        EXEC => -ERR EXEC without MULTI
        GET k => "zero"
        "#,
    );
}

/// A hash of the keyspace with changes over it, piece by piece and whole.
#[test]
fn hashes_inside() {
    check(
        r#"
        HSET h a 1 b 2 c 3 => 3
        SET s x => OK
        MULTI => OK
        HDEL h a => QUEUED
        HSET h b two d 4 => QUEUED
        HSET h a back => QUEUED
        HDEL h c => QUEUED
        HGET h c => QUEUED
        HLEN h => QUEUED
        PEXPIRE h 1000 => QUEUED
        HMGET h a b c d => QUEUED
        TYPE h => QUEUED
        HDEL h a b d => QUEUED
        EXISTS h => QUEUED
        HSET h z 1 => QUEUED
        PTTL h => QUEUED
        HGETALL h => QUEUED
        DEL s => QUEUED
        HSET s f v => QUEUED
        HSCAN s 0 => QUEUED
        SCAN 0 => QUEUED
        DBSIZE => QUEUED
        EXEC => [1 1 1 1 nil 3 1 ["back" "two" nil "4"] hash 3 0 1 -1 ["z" "1"] 1 1 ["0" ["f" "v"]] ["0" ["h" "s"]] 2]
        HGETALL h => ["z" "1"]
        TYPE s => hash
        "#,
    );
}

#[test]
fn watching() {
    // (before WATCH, between WATCH and EXEC as somebody else, does EXEC run)
    let cases = [
        ("SET k 1", "GET k", true),
        ("SET k 1", "SET k 1", false),
        ("SET k 1", "SET other 1", true),
        ("SET k 1", "DEL k", false),
        ("SET k 1", "EXPIRE k 100", false),
        ("SET k 1", "SET k 2 NX", true),
        ("SET k 1", "FLUSHALL", false),
        ("SET k 1", "FLUSHDB", false),
        ("DEL k", "FLUSHALL", true),
        ("DEL k", "SET k 1", false),
        ("DEL k", "DEL k", true),
        ("HSET k f v", "HSET k f v", false),
        ("HSET k f v", "HDEL k none", true),
        ("HSET k f v", "HDEL k f", false),
        ("IDEM k BEGIN f a 1000", "IDEM k BEGIN f b 1000", true),
        ("IDEM k BEGIN f a 1000", "IDEM k COMPLETE f a r", false),
        ("IDEM k BEGIN f a 1000", "IDEM k ABORT f a", false),
        ("SET k 1", "MSET x 1 k 2", false),
        ("SET k 1", "LATER", true),
        ("SET k 1 PX 50", "LATER", false),
        ("SET k 1 PX 5", "LATER", false),
        ("DEL k", "LATER", true),
    ];
    for (before, between, runs) in cases {
        let mut world = World::new(Durability::Always);
        world.now = 1000;
        world.line(before);
        let mut other = Session::new(2);
        check_in(&mut world, "WATCH none k k => OK ~ nothing");
        if between == "LATER" {
            world.now += 50;
        } else {
            std::mem::swap(&mut world.session, &mut other);
            world.line(between);
            std::mem::swap(&mut world.session, &mut other);
        }
        check_in(&mut world, "MULTI => OK\n SET done 1 => QUEUED");
        let expected = if runs { "[OK]" } else { "nil" };
        let ran = world.line("EXEC");
        assert_eq!(ran.text(), expected, "{before}; {between}");
        if !runs {
            assert_eq!(ran.depends_on, world.node.appended(), "{before}; {between}");
        }
        // Whatever it answered, nothing is watched any more.
        check_in(&mut world, "SET k 5 => OK\n MULTI => OK\n EXEC => []");
    }
    for forget in ["UNWATCH", "DISCARD", "RESET"] {
        let mut world = World::new(Durability::Always);
        check_in(&mut world, "SET k 1 => OK\n WATCH k => OK");
        if forget == "DISCARD" {
            world.line("MULTI");
        }
        world.line(forget);
        check_in(&mut world, "SET k 2 => OK\n MULTI => OK\n EXEC => []");
    }
}

/// What had ended when it was watched and is gone when EXEC comes has not changed.
#[test]
fn watching_what_had_ended() {
    let mut world = World::new(Durability::Always);
    world.now = 1000;
    check_in(&mut world, "SET k 1 PX 10 => OK\n @1010\n WATCH k => OK");
    world.settle();
    world.now = 5000;
    world.tick();
    check_in(&mut world, "MULTI => OK\n SET a 1 => QUEUED\n EXEC => [OK]");
}

/// A log without room, or without space, leaves nothing of a transaction, and the same EXEC works later.
#[test]
fn space_for_all_or_nothing() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        "SET k 1 => OK\n MULTI => OK\n SET k 2 => QUEUED\n INCR k => QUEUED",
    );
    let before = (digest_of(&world), world.node.appended(), world.session.clone());
    world.log.mode = Mode::Wait;
    assert_eq!(world.line("EXEC").outcome, Outcome::Wait);
    assert_eq!(
        before,
        (digest_of(&world), world.node.appended(), world.session.clone())
    );
    world.log.mode = Mode::Granted;
    check_in(&mut world, "EXEC => [OK 3] ~ all of (put k 0 2, put k 0 3)");

    check_in(&mut world, "MULTI => OK\n SET k 5 => QUEUED");
    let before = (digest_of(&world), world.node.appended());
    world.log.mode = Mode::NoSpace;
    check_in(
        &mut world,
        "EXEC => -EXECABORT Transaction discarded because of: MISCONF ~ nothing",
    );
    assert_eq!(before, (digest_of(&world), world.node.appended()));
    // What writes nothing is answered all the same.
    world.log.admits = false;
    check_in(
        &mut world,
        "MULTI => OK\n GET k => QUEUED\n EXEC => [\"3\"]\n MULTI => OK\n DEL none => QUEUED\n EXEC => [0]",
    );
    world.log.admits = true;
    check_in(
        &mut world,
        "MULTI => OK\n SET k 5 => -MISCONF\n EXEC => -EXECABORT\n GET k => \"3\"",
    );
}

/// A full memory: refused while queueing, or as a whole; what frees memory and what only looks is carried out.
#[test]
fn memory_for_all_or_nothing() {
    const KEYS: &str = "SET s value => OK\n IDEM p BEGIN f A 100000 => [\"acquired\"]";
    check_in(
        &mut full(KEYS, EvictionPolicy::NoEviction),
        r#"
        MULTI => OK
        SET s 1 => -OOM command not allowed when used memory > 'maxmemory'.
        DEL s => QUEUED
        EXEC => -EXECABORT Transaction discarded because of previous errors. ~ nothing
        GET s => "value"
        MULTI => OK
        GET s => QUEUED
        IDEM p ABORT f A => QUEUED
        DEL s => QUEUED
        EXEC => ["value" 1 1]
        "#,
    );
    // Full only when EXEC comes.
    let mut world = World::new(Durability::Always);
    check_in(&mut world, KEYS);
    check_in(&mut world, "MULTI => OK\n SET s 1 => QUEUED\n SET t 1 => QUEUED");
    world.settle();
    let used = world.node.used_bytes();
    limit(&mut world, used - 1, EvictionPolicy::NoEviction);
    check_in(
        &mut world,
        "EXEC => -EXECABORT Transaction discarded because of: OOM ~ nothing\n GET s => \"value\"\n GET t => nil",
    );
    // Something may go for it: by a record of its own, before the transaction's.
    limit(&mut world, used - 1, EvictionPolicy::AllkeysRandom);
    check_in(&mut world, "MULTI => OK\n SET t 1 => QUEUED\n GET s => QUEUED");
    let ran = world.line("EXEC");
    assert_eq!(
        (ran.text().as_str(), ran.written.len()),
        ("[OK nil]", 2),
        "{ran:?}"
    );
}

#[test]
fn bounded() {
    let mut world = World::new(Durability::Always);
    world.node.limit_transactions(10_000);
    check_in(&mut world, "MULTI => OK");
    let value = vec![b'v'; 3000];
    for _ in 0..2 {
        assert_eq!(world.run(&[b"SET", b"k", &value]).text(), "QUEUED");
    }
    assert!(world.session.memory_bytes() >= 6000);
    let refused = world.run(&[b"SET", b"k", &vec![b'v'; 9000]]).text();
    assert!(
        refused.starts_with("-ERR the transaction has more than 10000 bytes"),
        "{refused}"
    );
    assert_eq!(world.session.memory_bytes(), 0, "what failed is given back");
    check_in(&mut world, "EXEC => -EXECABORT\n GET k => nil");

    // Replies that no client could be sent.
    let mut world = World::new(Durability::Always);
    world.run(&[b"SET", b"big", &vec![b'v'; 1 << 20]]);
    check_in(&mut world, "MULTI => OK\n SET k 1 => QUEUED");
    for _ in 0..64 {
        world.line("GET big");
    }
    check_in(
        &mut world,
        "EXEC => -EXECABORT Transaction discarded because of: ERR its replies have more than ~ nothing\n GET k => nil",
    );

    let keys: Vec<Vec<u8>> = (0..70_000)
        .map(|number| format!("k{number}").into_bytes())
        .collect();
    let watch: Vec<&[u8]> = std::iter::once(&b"WATCH"[..])
        .chain(keys.iter().map(Vec::as_slice))
        .collect();
    assert!(
        world
            .run(&watch)
            .text()
            .starts_with("-ERR a connection can watch")
    );
    assert_eq!(world.run(&watch[..60_000]).text(), "OK");
    assert!(world.session.memory_bytes() > 1_000_000);
    assert_eq!(world.line("UNWATCH").text(), "OK");
    assert_eq!(world.session.memory_bytes(), 0);
}

/// What a transaction would cost everybody in one go, because its commands meet each other, is refused before it happens.
#[test]
fn work_is_bounded() {
    let aborted = |world: &mut World, why: &str| {
        let text = world.line("EXEC").text();
        assert!(text.starts_with("-EXECABORT"), "{text}");
        assert!(text.contains(why), "{text}");
        check_in(world, "EXEC => -ERR EXEC without MULTI\n GET done => nil");
    };
    let filled = || {
        let mut world = World::new(Durability::Always);
        for number in 0..1500 {
            world.line(&format!("SET key:{number} v"));
        }
        check_in(&mut world, "MULTI => OK\n SET done 1 => QUEUED");
        world
    };
    // Names that were deleted before are passed over, one by one, each time.
    let mut world = filled();
    let names: Vec<String> = (0..1500).map(|number| format!("key:{number}")).collect();
    world.line(&format!("DEL {}", names.join(" ")));
    for _ in 0..1500 {
        world.line("RANDOMKEY");
    }
    aborted(&mut world, "look too often");
    // The number of keys is no such work.
    let mut world = filled();
    world.line(&format!("DEL {}", names.join(" ")));
    for _ in 0..1500 {
        world.line("DBSIZE");
    }
    let text = world.line("EXEC").text();
    assert!(text.starts_with("[OK 1500 1 1 1"), "{text:.40}");
    // A long value is in the record once for each command that appends to it.
    let mut world = World::new(Durability::Always);
    world.run(&[b"SET", b"long", &vec![b'v'; 1 << 20]]);
    check_in(&mut world, "MULTI => OK\n SET done 1 => QUEUED");
    for _ in 0..70 {
        world.line("APPEND long x");
    }
    aborted(&mut world, "bytes of the log");
    // Messages count for each receiver.
    let mut world = World::new(Durability::Always);
    for id in [2, 3] {
        let publisher = std::mem::replace(&mut world.session, Session::new(id));
        check_in(&mut world, "SUBSCRIBE news => [\"subscribe\" \"news\" 1]");
        world.session = publisher;
    }
    check_in(&mut world, "MULTI => OK\n SET done 1 => QUEUED");
    for _ in 0..17 {
        let ran = world.run(&[b"PUBLISH", b"news", &vec![b'm'; 1 << 20]]);
        assert_eq!(ran.text(), "QUEUED");
    }
    aborted(&mut world, "messages");
}

/// What a refusal of the whole reveals of what it looked at waits for that, as the answer of one command does.
#[test]
fn a_refusal_waits_for_what_it_looked_at() {
    let mut world = World::new(Durability::Always);
    world.run(&[b"SET", b"big", &vec![b'v'; 15 << 20]]);
    world.settle();
    let set = world.run(&[b"SET", b"big", &vec![b'w'; 14 << 20]]);
    check_in(&mut world, "MULTI => OK");
    for _ in 0..4 {
        world.line("GET big");
    }
    let ran = world.line("EXEC");
    assert!(ran.text().starts_with("-EXECABORT"), "{:.80}", ran.text());
    assert_eq!(ran.depends_on, set.depends_on);
}

/// A session that has gone is watched for no longer; the table is empty again.
#[test]
fn forgotten_with_its_connection() {
    let mut world = World::new(Durability::Always);
    check_in(&mut world, "WATCH a b => OK\n MULTI => OK\n SET a 1 => QUEUED");
    let mut session = std::mem::replace(&mut world.session, Session::new(2));
    world.node.forget(&mut session);
    assert_eq!((session.queued(), session.memory_bytes()), (None, 0));
}

/// Words of commands over few keys of all types, with times that end within the run.
fn command() -> impl Strategy<Value = String> {
    let key = || prop_oneof![Just("a"), Just("b"), Just("c")];
    let field = || prop_oneof![Just("f"), Just("g"), Just("h")];
    prop_oneof![
        (key(), 0..20_u8).prop_map(|(k, v)| format!("SET {k} {v}")),
        (key(), 1..60_u8).prop_map(|(k, ms)| format!("SET {k} {ms} PX {ms}")),
        key().prop_map(|k| format!("SET {k} x GET")),
        key().prop_map(|k| format!("SET {k} y KEEPTTL")),
        key().prop_map(|k| format!("GET {k}")),
        key().prop_map(|k| format!("INCR {k}")),
        key().prop_map(|k| format!("APPEND {k} 1")),
        key().prop_map(|k| format!("GETDEL {k}")),
        (key(), key()).prop_map(|(k, l)| format!("DEL {k} {l}")),
        (key(), key()).prop_map(|(k, l)| format!("MSET {k} 1 {l} 2")),
        (key(), key()).prop_map(|(k, l)| format!("MSETNX {k} 1 {l} 2")),
        (key(), key()).prop_map(|(k, l)| format!("MGET {k} {l}")),
        (key(), 1..60_u8).prop_map(|(k, ms)| format!("PEXPIRE {k} {ms}")),
        key().prop_map(|k| format!("PEXPIRE {k} -1")),
        key().prop_map(|k| format!("PERSIST {k}")),
        key().prop_map(|k| format!("PTTL {k}")),
        key().prop_map(|k| format!("TYPE {k}")),
        key().prop_map(|k| format!("OBJECT ENCODING {k}")),
        (key(), field(), 0..9_u8).prop_map(|(k, f, v)| format!("HSET {k} {f} {v}")),
        (key(), field(), field()).prop_map(|(k, f, g)| format!("HSET {k} {f} 1 {g} 2")),
        (key(), field()).prop_map(|(k, f)| format!("HINCRBY {k} {f} 3")),
        (key(), field(), field()).prop_map(|(k, f, g)| format!("HDEL {k} {f} {g}")),
        (key(), field()).prop_map(|(k, f)| format!("HGET {k} {f}")),
        key().prop_map(|k| format!("HLEN {k}")),
        (key(), 1..60_u8).prop_map(|(k, ms)| format!("IDEM {k} BEGIN f a {ms}")),
        key().prop_map(|k| format!("IDEM {k} COMPLETE f a r")),
        key().prop_map(|k| format!("IDEM {k} ABORT f a")),
        key().prop_map(|k| format!("IDEM {k} INSPECT")),
        (key(), 1..60_u8).prop_map(|(k, ms)| format!("ONCE {k} {ms}")),
        (key(), 1..60_u8).prop_map(|(k, ms)| format!("LIMIT {k} 2 {ms} SLIDING WITHRETRY")),
        Just("DBSIZE".to_owned()),
        Just("FLUSHDB".to_owned()),
        (0..2_u8).prop_map(|db| format!("SELECT {db}")),
        Just("FLUSHALL".to_owned()),
    ]
}

/// Lists without an order are compared as sets of their words.
fn shown(command: &str, world: &mut World) -> String {
    let text = world.line(command).text();
    if command.starts_with("KEYS") || command.starts_with("HGETALL") {
        let mut words: Vec<&str> = text.split([' ', '[', ']']).collect();
        words.sort_unstable();
        return words.join(" ");
    }
    text
}

/// Everything that the keys show afterwards.
fn state(world: &mut World) -> Vec<String> {
    let mut found = Vec::new();
    for db in ["0", "1"] {
        for question in [format!("SELECT {db}"), "KEYS *".to_owned(), "DBSIZE".to_owned()] {
            found.push(shown(&question, world));
        }
        for key in ["a", "b", "c"] {
            for question in ["TYPE", "GET", "HGETALL", "PTTL"] {
                found.push(shown(&format!("{question} {key}"), world));
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// The same commands, at one time, in one world alone and in the other in transactions: the same answers, the same
    /// state, and the same again when the log is read. What `EXEC` shows its commands is what applying their record makes.
    #[test]
    fn a_transaction_does_what_its_commands_do(
        batches in proptest::collection::vec((proptest::collection::vec(command(), 0..12), 0..40_u64), 1..8)
    ) {
        let mut alone = World::new(Durability::Always);
        let mut whole = World::new(Durability::Always);
        for (commands, later) in batches {
            alone.now += later;
            whole.now += later;
            let answers: Vec<String> = commands.iter().map(|command| alone.line(command).text()).collect();
            prop_assert_eq!(whole.line("MULTI").text(), "OK");
            for command in &commands {
                prop_assert_eq!(whole.line(command).text(), "QUEUED");
            }
            let ran = whole.line("EXEC");
            prop_assert_eq!(ran.text(), format!("[{}]", answers.join(" ")), "{:?}", commands);
            prop_assert!(ran.written.len() <= 1, "one record: {:?}", ran.written);
            let db = alone.session.db;
            prop_assert_eq!(state(&mut alone), state(&mut whole));
            alone.line(&format!("SELECT {db}"));
            whole.line(&format!("SELECT {db}"));
        }
        let log = whole.log.prefix(whole.node.appended());
        let mut again = World::open(Durability::Always, log, whole.now);
        prop_assert_eq!(state(&mut again), state(&mut whole));
    }
}
