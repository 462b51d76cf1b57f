//! Commands about the connection and the server. None of them waits for anything.

use idem_engine::{Durability, MemoryLimit, Outcome};
use idem_protocol::Lsn;
use idem_protocol::resp::Protocol;

use crate::support::{Mode, World, check, check_in};

#[test]
fn connection_commands() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        PING => PONG
        PING hello => "hello"
        PING a b => -ERR wrong number of arguments for 'ping' command
        ECHO "a\r\nb" => "a\r\nb"
        CLIENT ID => 1
        CLIENT GETNAME => nil
        CLIENT SETNAME worker-1 => OK
        CLIENT GETNAME => "worker-1"
        CLIENT SETNAME "a b" => -ERR Client names cannot contain spaces, newlines or special characters.
        CLIENT SETNAME "" => OK
        CLIENT GETNAME => nil
        CLIENT SETINFO LIB-NAME redis-py => OK
        CLIENT SETINFO lib-ver 5.0.1 => OK
        CLIENT SETINFO LIB-NAME "a b" => -ERR LIB-NAME cannot contain spaces, newlines or special characters.
        CLIENT SETINFO COLOUR blue => -ERR Unrecognized option 'COLOUR'
        CLIENT SETINFO LIB-NAME => -ERR wrong number of arguments for 'client|setinfo' command
        CLIENT NOSUCH => -ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.
        "#,
    );
    assert_eq!(world.session.library_name, b"redis-py");
    assert_eq!(world.session.library_version, b"5.0.1");
    let quit = world.line("QUIT");
    assert_eq!(
        (quit.text().as_str(), quit.outcome),
        (
            "OK",
            Outcome::Close {
                depends_on: Lsn::ZERO
            }
        )
    );
}

#[test]
fn hello() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        HELLO => ["server" "idemd" "version" "7.2.0" "proto" 2 "id" 1 "mode" "standalone" "role" "master" "modules" []]
        HELLO 1 => -NOPROTO unsupported protocol version
        HELLO 4 => -NOPROTO unsupported protocol version
        HELLO x => -ERR Protocol version is not an integer or out of range
        HELLO 3 AUTH default secret => -ERR AUTH <password> called without any password configured
        AUTH secret => -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
        AUTH default secret => -ERR AUTH <password> called without any password configured
        AUTH default secret more => -ERR syntax error
        HELLO 3 SETNAME => -ERR Syntax error in HELLO option 'SETNAME'
        HELLO 3 WHAT => -ERR Syntax error in HELLO option 'WHAT'
        HELLO 3 SETNAME "a b" => -ERR Client names cannot contain
        CLIENT GETNAME => nil
        "#,
    );
    assert_eq!(
        world.session.protocol,
        Protocol::Resp2,
        "a refused HELLO changes nothing"
    );
    check_in(
        &mut world,
        r#"
        HELLO 3 SETNAME me => {"server" "idemd" "version" "7.2.0" "proto" 3 "id" 1 "mode" "standalone" "role" "master" "modules" []}
        HELLO => {"server" "idemd" "version" "7.2.0" "proto" 3 "id" 1 "mode" "standalone" "role" "master" "modules" []}
        CLIENT GETNAME => "me"
        "#,
    );
    assert_eq!(world.session.protocol, Protocol::Resp3);
}

#[test]
fn snapshots_are_asked_for() {
    let mut world = World::new(Durability::Always);
    let save = world.line("SAVE");
    assert_eq!(
        (save.reply, save.outcome),
        (
            None,
            Outcome::Snapshot {
                wait: true,
                depends_on: Lsn::ZERO
            }
        )
    );
    let bgsave = world.line("BGSAVE");
    assert_eq!(bgsave.text(), "Background saving started");
    assert_eq!(
        bgsave.outcome,
        Outcome::Snapshot {
            wait: false,
            depends_on: Lsn::ZERO
        }
    );
    world.facts.snapshot_running = true;
    world.facts.last_save = 1_700_000_000;
    check_in(
        &mut world,
        r#"
        SAVE => -ERR Background save already in progress
        BGSAVE => -ERR Background save already in progress
        BGSAVE SCHEDULE => Background saving scheduled
        BGSAVE NOW => -ERR syntax error
        LASTSAVE => 1700000000
        "#,
    );
}

#[test]
fn commands_describe_themselves() {
    let mut world = World::new(Durability::Always);
    let count = world.line("COMMAND COUNT").reply.unwrap().as_int().unwrap();
    assert_eq!(
        count,
        i64::try_from(world.line("COMMAND").reply.unwrap().as_items().unwrap().len()).unwrap()
    );
    assert!(world.line("COMMAND DOCS idem").text().contains("idem|begin"));
    check_in(
        &mut world,
        r#"
        COMMAND GETKEYS IDEM k BEGIN f a 1 => ["k"]
        COMMAND GETKEYS DEL a b => ["a" "b"]
        COMMAND INFO nosuch => [nil]
        COMMAND NOSUCH => -ERR unknown subcommand 'NOSUCH'. Try COMMAND HELP.
        "#,
    );
}

#[test]
fn info() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        "SET k v PX 1000 => OK\nIDEM i BEGIN f a 1000 => [\"acquired\"]",
    );
    let text = |world: &mut World, line: &str| {
        String::from_utf8(world.line(line).reply.unwrap().as_bytes().unwrap().to_vec()).unwrap()
    };
    let all = text(&mut world, "INFO");
    let sections: Vec<&str> = all.lines().filter_map(|line| line.strip_prefix("# ")).collect();
    assert_eq!(
        sections,
        [
            "Server",
            "Clients",
            "Memory",
            "Persistence",
            "Stats",
            "Replication",
            "CPU",
            "Errorstats",
            "Cluster",
            "Keyspace",
            "Idempotency",
            "Wal"
        ]
    );
    assert!(
        all.split("\r\n").all(|line| !line.contains('\n')),
        "every line ends in CRLF"
    );
    for line in [
        "redis_version:7.2.0",
        "tcp_port:6379",
        "loading:0",
        "clock_ahead_ms:0",
        "fenced:0",
        "connected_slaves:0",
        "idem_acquired:1",
        "idem_records:1",
        "db0:keys=2,expires=2,avg_ttl=0",
        "wal_epoch:1",
    ] {
        assert!(all.contains(&format!("{line}\r\n")), "{line} in\n{all}");
    }
    assert!(
        all.contains("# Replication\r\nrole:master\r\n"),
        "the role comes first in its section"
    );
    for same in ["INFO default", "INFO ALL", "INFO everything", "INFO all wal"] {
        assert_eq!(text(&mut world, same).matches("\r\n# ").count(), 11, "{same}");
    }
    assert!(text(&mut world, "INFO keyspace").starts_with("# Keyspace\r\ndb0:"));
    assert_eq!(text(&mut world, "INFO wal IDEMPOTENCY").matches("# ").count(), 2);
    assert_eq!(text(&mut world, "INFO nosuch"), "");
    assert_eq!(text(&mut world, "INFO errorstats"), "# Errorstats\r\n");
    // RESP3 has a type for it.
    world.session.protocol = Protocol::Resp3;
    assert!(world.line("INFO cpu").text().starts_with("Verbatim"));
}

/// The lines of one section of INFO, without its name.
fn section(world: &mut World, name: &str) -> Vec<String> {
    let reply = world
        .line(&format!("INFO {name}"))
        .reply
        .expect("INFO is answered");
    let text = String::from_utf8_lossy(reply.as_bytes().expect("INFO is one string"));
    text.lines().skip(1).map(str::to_owned).collect()
}

/// An operator sees that writes are refused, and why, without reading any client's log.
#[test]
fn errors_are_counted_by_their_codes() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        SET s v => OK
        NOSUCH => -ERR
        GET => -ERR
        HGET s f => -WRONGTYPE
        HELLO 9 => -NOPROTO
        "#,
    );
    world.log.mode = Mode::NoSpace;
    check_in(&mut world, "SET t v => -MISCONF");
    world.log.mode = Mode::Granted;
    world.node.limit_memory(MemoryLimit {
        bytes: 1,
        ..MemoryLimit::default()
    });
    check_in(&mut world, "SET t v => -OOM\nSET t v => -OOM\nGET t => nil");
    let expected = [
        "errorstat_ERR:count=2",
        "errorstat_MISCONF:count=1",
        "errorstat_NOPROTO:count=1",
        "errorstat_OOM:count=2",
        "errorstat_WRONGTYPE:count=1",
    ];
    assert_eq!(section(&mut world, "errorstats"), expected);
    assert!(section(&mut world, "stats").contains(&"total_error_replies:7".to_owned()));
}

/// The peak is one of `used_memory`, is seen by a tick as well as by INFO, and never goes back.
#[test]
fn the_peak_of_memory_stays() {
    let mut world = World::new(Durability::Always);
    let number = |world: &mut World, name: &str| -> u64 {
        let lines = section(world, "memory");
        let value = lines
            .iter()
            .find_map(|line| line.strip_prefix(&format!("{name}:")));
        value.unwrap().parse().unwrap()
    };
    world.line("SET k v");
    let small = number(&mut world, "used_memory_peak");
    assert_eq!(small, number(&mut world, "used_memory"));
    let value = "v".repeat(20_000);
    world.line(&format!("SET k {value}"));
    world.tick();
    world.line("SET k v");
    let peak = number(&mut world, "used_memory_peak");
    assert!(peak >= small + 20_000, "{small}, {peak}");
    assert!(number(&mut world, "used_memory") < peak);
    world.line(&format!("SET k {value}{value}"));
    let higher = number(&mut world, "used_memory_peak");
    assert!(higher >= small + 40_000, "{small}, {higher}");
    world.line("FLUSHALL");
    world.tick();
    assert_eq!(number(&mut world, "used_memory_peak"), higher);
}

/// What says nothing about the data goes out at once, however far the disk is behind.
#[test]
fn nothing_of_this_waits() {
    let mut world = World::new(Durability::Always);
    world.line("SET k v");
    for line in [
        "PING",
        "PING x",
        "ECHO x",
        "SELECT 0",
        "HELLO 2",
        "CLIENT ID",
        "CLIENT SETNAME x",
        "COMMAND COUNT",
        "INFO",
        "LASTSAVE",
        "BGSAVE",
        "QUIT",
        "NOSUCH",
        "GET",
        "SET k v EX x",
        "IDEM k BEGIN f a 0",
        "SELECT 99",
    ] {
        let ran = world.line(line);
        assert_eq!(ran.depends_on, Lsn::ZERO, "{line}");
        assert!(ran.written.is_empty(), "{line}");
    }
    check("PING => PONG");
}
