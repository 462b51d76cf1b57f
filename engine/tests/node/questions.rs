//! Questions about all keys, about how values are held, about the time and the server; and DEBUG.

use std::collections::BTreeMap;
use std::time::Duration;

use idem_engine::{Changes, Deed, Durability, EvictionPolicy, MemoryLimit, Outcome};
use idem_protocol::resp::Protocol;

use crate::support::{Mode, World, check, check_in};

#[test]
fn keys_are_listed_without_what_has_ended() {
    check(
        r#"
        @1000
        KEYS * => []
        SET a 1 => OK
        SET gone 1 PX 10 => OK
        KEYS a => ["a"] ~ nothing
        KEYS g* => ["gone"]
        KEYS "" => []
        TOUCH a gone gone none => 3
        @1010
        KEYS * => ["a"] ~ clock
        TOUCH a gone => 1 ~ nothing
        SELECT 3 => OK
        KEYS * => []
        "#,
    );
}

/// Every key is named sooner or later, about as often as others; what has ended never.
#[test]
fn randomkey_names_what_is_alive() {
    let mut world = World::new(Durability::Always);
    check_in(&mut world, "@1000\nRANDOMKEY => nil");
    for number in 0..20 {
        world.line(&format!("SET live{number} v"));
        world.line(&format!("SET gone{number} v PX 10"));
    }
    world.now = 1010;
    let mut named = BTreeMap::new();
    for _ in 0..4000 {
        let ran = world.line("RANDOMKEY");
        assert_eq!(
            ran.depends_on,
            world.node.appended(),
            "it says something about every key"
        );
        *named.entry(ran.text()).or_insert(0_u32) += 1;
    }
    assert!(named.keys().all(|key| key.starts_with("\"live")), "{named:?}");
    assert_eq!(named.len(), 20, "{named:?}");
    // Neighbours of what has ended are named for it, so not all are equal.
    assert!(
        named.values().all(|times| (20..1200).contains(times)),
        "{named:?}"
    );
    for number in 0..20 {
        world.line(&format!("PEXPIRE live{number} 5"));
    }
    world.now = 1015;
    assert_eq!(
        world.line("RANDOMKEY").text(),
        "nil",
        "all have ended and none is reclaimed"
    );
    assert_eq!(world.node.keyspace().len(0), 40);
}

/// The same seed and commands name the same keys; deciding again does, too.
#[test]
fn randomkey_follows_its_seed() {
    let names = || {
        let mut world = World::new(Durability::Always);
        for number in 0..100 {
            world.line(&format!("SET k{number} v"));
        }
        (0..50)
            .map(|_| world.line("RANDOMKEY").text())
            .collect::<Vec<_>>()
    };
    let first = names();
    assert_eq!(first, names());
    assert!(first.iter().any(|name| *name != first[0]), "{first:?}");
}

#[test]
fn encodings() {
    check(
        r#"
        @1000
        OBJECT ENCODING k => nil
        SET k 12345678901 => OK
        OBJECT ENCODING k => "int"
        SET k 1.5 => OK
        OBJECT ENCODING k => "embstr"
        IDEM i BEGIN f o 1000 => ["acquired"]
        OBJECT ENCODING i => "embstr"
        OBJECT REFCOUNT k => 1
        OBJECT IDLETIME k => -ERR
        OBJECT FREQ k => -ERR An LFU maxmemory policy is not selected
        OBJECT NOSUCH k => -ERR unknown subcommand 'NOSUCH'. Try OBJECT HELP.
        "#,
    );
}

/// Where an LRU policy has accesses noted, the time since the last one is known; asking for it is no access.
#[test]
fn idle_times_are_known_where_they_are_noted() {
    let mut world = World::new(Durability::Always);
    world.node.limit_memory(MemoryLimit {
        bytes: 1 << 30,
        policy: EvictionPolicy::AllkeysLru,
        ..MemoryLimit::default()
    });
    check_in(
        &mut world,
        r#"
        @1000
        SET a v => OK
        SET b v => OK
        OBJECT IDLETIME a => 0
        @61100
        OBJECT IDLETIME a => 60
        OBJECT IDLETIME a => 60
        TOUCH a => 1
        OBJECT IDLETIME a => 0
        OBJECT IDLETIME b => 60
        OBJECT IDLETIME none => nil
        "#,
    );
}

/// The server's clock, not the machine's; and it goes on while the log cannot be written, when everything else stands still.
#[test]
fn time_is_the_servers() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        @1700000000123
        TIME => ["1700000000" "123000"] ~ nothing
        SET k v PX 1000 => OK
        @1700000000999
        TIME => ["1700000000" "999000"]
        "#,
    );
    world.log.admits = true;
    world.log.mode = Mode::NoSpace;
    check_in(
        &mut world,
        r#"
        @1700000005000
        PTTL k => 1000
        TIME => ["1700000005" "0"]
        "#,
    );
}

#[test]
fn reset_takes_everything_back_but_the_library() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        HELLO 3 SETNAME me => {"server" "idemd" "version" "7.2.0" "proto" 3 "id" 1 "mode" "standalone" "role" "master" "modules" []}
        CLIENT SETINFO LIB-NAME lib => OK
        SELECT 2 => OK
        RESET => RESET
        CLIENT GETNAME => nil
        "#,
    );
    assert_eq!((world.session.db, world.session.protocol), (0, Protocol::Resp2));
    assert_eq!(world.session.library_name, b"lib");
}

/// A world whose server has four options.
fn with_options() -> World {
    let mut world = World::new(Durability::Always);
    world.facts.settings = [
        ("appendonly", "yes"),
        ("maxclients", "10"),
        ("maxmemory", "0"),
        ("save", ""),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into();
    world
}

#[test]
fn options_are_shown() {
    check_in(
        &mut with_options(),
        r#"
        CONFIG GET save => ["save" ""]
        CONFIG GET SAVE => ["SAVE" ""]
        CONFIG GET MAX* => ["maxclients" "10" "maxmemory" "0"]
        CONFIG GET maxmemory max* save => ["maxmemory" "0" "maxclients" "10" "save" ""]
        CONFIG GET save save s?ve => ["save" ""]
        CONFIG GET * => ["appendonly" "yes" "maxclients" "10" "maxmemory" "0" "save" ""]
        CONFIG GET none "" => []
        "#,
    );
}

/// What can be refused is refused when the command is decided; what is left is a deed that nothing can stop.
#[test]
fn options_are_changed_by_deeds() {
    let mut world = with_options();
    let deeds = |world: &mut World| world.node.take_deeds();
    check_in(
        &mut world,
        r#"
        CONFIG SET maxmemory => -ERR wrong number of arguments for 'config|set' command
        CONFIG SET maxmemory 1 save => -ERR syntax error
        CONFIG SET nosuch 1 => -ERR Unknown option
        CONFIG SET maxmemory x => -ERR CONFIG SET failed
        CONFIG SET maxmemory 60 maxclients 50 => -ERR too much together
        CONFIG REWRITE => -ERR The server is running without a config file
        "#,
    );
    assert_eq!(deeds(&mut world), []);
    check_in(&mut world, "CONFIG SET maxmemory 60 maxclients 30 => OK");
    let pairs = [("maxmemory", "60"), ("maxclients", "30")];
    let changes = Changes::new(pairs.map(|(name, value)| (name, value.to_owned())).into());
    assert_eq!(deeds(&mut world), [Deed::Configure(changes)]);
    // Until the deed is carried out nothing has changed.
    check_in(&mut world, r#"CONFIG GET maxmemory => ["maxmemory" "0"]"#);
    check_in(&mut world, "CONFIG RESETSTAT => OK");
    assert_eq!(deeds(&mut world), [Deed::ResetStatistics]);
    assert!(world.node.counters().commands > 0);
    world.node.reset_counters();
    assert_eq!(*world.node.counters(), Default::default());
}

/// In a transaction each command sees what those before it asked for, and none of it has happened.
#[test]
fn a_transaction_sees_the_options_that_it_has_changed() {
    let mut world = with_options();
    check_in(
        &mut world,
        r#"
        MULTI => OK
        CONFIG SET maxmemory 60 => QUEUED
        CONFIG GET max* => QUEUED
        CONFIG SET maxclients 50 => QUEUED
        CONFIG SET maxclients 20 => QUEUED
        CONFIG GET maxclients maxmemory => QUEUED
        EXEC => [OK ["maxclients" "10" "maxmemory" "60"] -ERR too much together OK ["maxclients" "20" "maxmemory" "60"]]
        CONFIG GET max* => ["maxclients" "10" "maxmemory" "0"]
        "#,
    );
    let changes = |name, value: &str| Deed::Configure(Changes::new(vec![(name, value.to_owned())]));
    assert_eq!(
        world.node.take_deeds(),
        [changes("maxmemory", "60"), changes("maxclients", "20")]
    );
}

/// Goal: what asks for much with little (a page for a name, a look at every option for a pattern) is bounded by a count,
/// and answered up to it.
#[test]
fn names_and_patterns_are_bounded() {
    const BOUND: usize = 1024;
    for words in [
        &["COMMAND", "DOCS"][..],
        &["COMMAND", "INFO"],
        &["CONFIG", "GET"],
        &["INFO"],
    ] {
        let mut world = World::new(Durability::Always);
        let mut call: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        call.resize(words.len() + BOUND, b"get");
        let text = world.run(&call).text();
        assert!(!text.starts_with('-'), "{words:?} with {BOUND}: {text:.100}");
        call.push(b"get");
        let ran = world.run(&call);
        assert_eq!(
            ran.text(),
            "-ERR more than 1024 names or patterns in one call, ask for fewer",
            "{words:?}"
        );
    }
    // Their bytes are bounded too, and those of a pattern that many things are held against.
    let mut world = World::new(Durability::Always);
    world.line("HSET h f v");
    let mut check_length = |words: &str, bytes: usize, refused: &str| {
        for (bytes, is_refused) in [(bytes, false), (bytes + 1, true)] {
            let pattern = format!("*[{}", "!".repeat(bytes - 2));
            let call = words.split(' ').map(|word| match word {
                "PATTERN" => pattern.as_bytes(),
                word => word.as_bytes(),
            });
            let text = world.run(&call.collect::<Vec<_>>()).text();
            assert_eq!(
                text == refused,
                is_refused,
                "{words} with {bytes} bytes: {text:.100}"
            );
        }
    };
    let names = "-ERR the names or patterns have more than 65536 bytes together";
    for words in [
        "CONFIG GET PATTERN",
        "COMMAND DOCS PATTERN",
        "COMMAND INFO PATTERN",
        "INFO PATTERN",
    ] {
        check_length(words, 64 << 10, names);
    }
    let pattern = "-ERR the pattern has more than 1024 bytes";
    for words in [
        "KEYS PATTERN",
        "SCAN 0 MATCH PATTERN",
        "HSCAN h 0 MATCH PATTERN",
        "COMMAND LIST FILTERBY pattern PATTERN",
    ] {
        check_length(words, 1024, pattern);
    }
    // What answers with no more than it was given is not.
    let mut world = World::new(Durability::Always);
    let mut call: Vec<&[u8]> = vec![b"COMMAND", b"GETKEYS", b"DEL"];
    call.resize(3 + 10 * BOUND, b"key");
    assert_eq!(world.run(&call).text().matches("key").count(), 10 * BOUND);
}

#[test]
fn debug_is_for_those_who_may() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        DEBUG SLEEP 1 => -ERR DEBUG command not allowed. If the enable-debug-command option is set to "local"
        DEBUG HELP => -ERR DEBUG command not allowed.
        "#,
    );
    world.session.may_debug = true;
    check_in(
        &mut world,
        r#"
        DEBUG SLEEP x => -ERR value is not a valid float
        DEBUG SLEEP nan => -ERR DEBUG SLEEP takes 0 to 30 seconds
        DEBUG SLEEP -1 => -ERR DEBUG SLEEP takes 0 to 30 seconds
        DEBUG SLEEP 30.1 => -ERR DEBUG SLEEP takes 0 to 30 seconds
        DEBUG SLEEP 1e99 => -ERR DEBUG SLEEP takes 0 to 30 seconds
        DEBUG SLEEP => -ERR unknown subcommand or wrong number of arguments for 'SLEEP'. Try DEBUG HELP.
        DEBUG SLEEP 1 2 => -ERR unknown subcommand or wrong number of arguments for 'SLEEP'.
        DEBUG RELOAD => -ERR unknown subcommand or wrong number of arguments for 'RELOAD'.
        RESET => RESET
        "#,
    );
    for (seconds, expected_ms) in [("0", 0), ("0.25", 250), ("30", 30_000)] {
        let ran = world.line(&format!("debug sleep {seconds}"));
        assert_eq!(ran.text(), "OK");
        assert!(
            matches!(ran.outcome, Outcome::Sleep { duration, .. } if duration == Duration::from_millis(expected_ms)),
            "{ran:?}"
        );
    }
}
