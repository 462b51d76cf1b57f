//! What libraries of other platforms send when they connect, and the shape of each answer.
//!
//! Of a reply only the shape is compared, save for statuses and errors, which libraries read: `+text` and `-text` whole,
//! `$` for a string, `:` for an integer, `_` for null, `[…]`, `{…}` and `>[…]` for arrays, maps and pushes. Each command
//! gets exactly one reply; a handshake is sent in one write, as most libraries do, and its replies are counted.
//!
//! Each line is asked of a real `redis-server`, too.

use std::net::SocketAddr;

use idem_protocol::escape::escape;
use idem_protocol::resp::value::Value;
use idem_testsuite::process::Client;
use idem_testsuite::process::client::encode_command;
use idem_testsuite::require::skip;

use crate::{Server, redis};

/// From when on a `redis-server` answers like this.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Since {
    Always,
    /// Redis 7.2, whose replies ours are.
    Seven2,
    /// Ours differs on purpose, or Redis answers it with something that is not ours to offer.
    Never,
}

use Since::{Always, Never, Seven2};

/// A command in words (escapes as in every tool, no blanks in a word), the shape of its reply, and where it holds.
type Line = (&'static str, &'static str, Since);

const HELLO: &str = "{server: $, version: $, proto: :, id: :, mode: $, role: $, modules: []}";
const HELLO_2: &str = "[$, $, $, $, $, :, $, :, $, $, $, $, $, []]";
const NO_CLUSTER: &str = "-ERR This instance has cluster support disabled";
const NO_PASSWORD: &str = "-ERR AUTH <password> called without any password configured for the default user. Are you sure \
                           your configuration is correct?";

const HANDSHAKES: &[(&str, &[Line])] = &[
    (
        "StackExchange.Redis: the interactive connection, then the one for messages",
        &[
            ("CLIENT SETNAME web-1(SE.Redis-v2.8.58)", "+OK", Always),
            ("CLIENT SETINFO lib-name SE.Redis", "+OK", Seven2),
            ("CLIENT SETINFO lib-ver 2.8.58.64597", "+OK", Seven2),
            ("CLIENT ID", ":", Always),
            ("CONFIG GET timeout", "[$, $]", Always),
            ("CONFIG GET databases", "[$, $]", Always),
            ("INFO replication", "$", Always),
            ("INFO server", "$", Always),
            ("CLUSTER NODES", NO_CLUSTER, Always),
            ("GET __Booksleeve_TieBreak", "_", Always),
            // The tracer: 16 random bytes that have to come back.
            ("ECHO \\xe9\\x00\\x0d\\x0a\\xff\\xfe123456789a", "$", Always),
            ("SUBSCRIBE __Booksleeve_MasterChanged", "[$, $, :]", Always),
            ("PING", "[$, $]", Always),
            ("UNSUBSCRIBE __Booksleeve_MasterChanged", "[$, $, :]", Always),
        ],
    ),
    (
        "Lettuce",
        &[
            ("HELLO 3 SETNAME lettuce-1", HELLO, Always),
            ("CLIENT SETINFO lib-name Lettuce", "+OK", Seven2),
            ("CLIENT SETINFO lib-ver 6.8.1.RELEASE/8e5ae5b", "+OK", Seven2),
            (
                "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type external-ip",
                "-ERR",
                Never,
            ),
            ("SELECT 3", "+OK", Always),
            ("ROLE", "[$, :, []]", Always),
            ("PING", "+PONG", Always),
            ("COMMAND", "[…]", Always),
            ("SUBSCRIBE a b", ">[$, $, :]", Always),
            // The second push of the same command.
            ("", ">[$, $, :]", Always),
            ("PING", "+PONG", Always),
            ("UNSUBSCRIBE a b", ">[$, $, :]", Always),
            ("", ">[$, $, :]", Always),
            ("QUIT", "+OK", Always),
        ],
    ),
    (
        "Jedis",
        &[
            (
                "CLIENT SETINFO LIB-NAME jedis(spring-data-redis_v3.5)",
                "+OK",
                Seven2,
            ),
            ("CLIENT SETINFO LIB-VER 6.2.0", "+OK", Seven2),
            ("CLIENT SETNAME pool-1", "+OK", Always),
            ("SELECT 1", "+OK", Always),
            ("PING", "+PONG", Always),
            ("MULTI", "+OK", Always),
            ("SET a 1", "+QUEUED", Always),
            ("EXEC", "[+OK]", Always),
            ("QUIT", "+OK", Always),
        ],
    ),
    (
        "go-redis",
        &[
            ("hello 3", HELLO, Always),
            ("client setinfo LIB-NAME go-redis(,go1.24.1)", "+OK", Seven2),
            ("client setinfo LIB-VER 9.12.0", "+OK", Seven2),
            (
                "client maint_notifications on moving-endpoint-type none",
                "-ERR",
                Never,
            ),
            ("command", "[…]", Always),
            ("ping", "+PONG", Always),
        ],
    ),
    (
        "redis-rb, and what it falls back to when HELLO is refused",
        &[
            ("HELLO 3", HELLO, Always),
            ("CLIENT SETINFO LIB-NAME redis-client", "+OK", Seven2),
            ("RESET", "+RESET", Always),
            ("HELLO 2", HELLO_2, Always),
            ("ECHO x", "$", Always),
        ],
    ),
    (
        "phpredis and predis: nothing but SELECT, and cluster clients that find out that there is none",
        &[
            ("SELECT 0", "+OK", Always),
            ("SELECT 99", "-ERR DB index is out of range", Always),
            ("CLUSTER SLOTS", NO_CLUSTER, Always),
            ("CLUSTER SHARDS", NO_CLUSTER, Always),
            ("CLUSTER INFO", NO_CLUSTER, Always),
            ("CLUSTER MYID", NO_CLUSTER, Always),
            ("CLUSTER KEYSLOT a", NO_CLUSTER, Always),
            ("READONLY", NO_CLUSTER, Always),
            ("READWRITE", NO_CLUSTER, Always),
            ("ASKING", NO_CLUSTER, Always),
            ("PING", "+PONG", Always),
        ],
    ),
    (
        "HELLO that is refused leaves the connection, its protocol and its name as they were",
        &[
            ("CLIENT SETNAME before", "+OK", Always),
            ("HELLO 4", "-NOPROTO unsupported protocol version", Always),
            ("HELLO 1", "-NOPROTO unsupported protocol version", Always),
            (
                "HELLO three",
                "-ERR Protocol version is not an integer or out of range",
                Always,
            ),
            (
                "HELLO 3 SETNAME",
                "-ERR Syntax error in HELLO option 'SETNAME'",
                Always,
            ),
            (
                "HELLO 3 NOSUCH",
                "-ERR Syntax error in HELLO option 'NOSUCH'",
                Always,
            ),
            (
                "HELLO 3 SETNAME a\\x20b",
                "-ERR Client names cannot contain spaces, newlines or special characters.",
                Always,
            ),
            // Still RESP2: a map would be one.
            ("CONFIG GET databases", "[$, $]", Always),
            ("CLIENT GETNAME", "$", Always),
            ("HELLO 2 SETNAME after", HELLO_2, Always),
            ("HELLO 3", HELLO, Always),
            ("CONFIG GET databases", "{databases: $}", Always),
            ("HELLO", HELLO, Always),
            ("HELLO 2", HELLO_2, Always),
        ],
    ),
    (
        "AUTH where there are no users is an error, also of a user (Redis takes any password of the default user then)",
        &[
            ("AUTH default x", NO_PASSWORD, Never),
            ("HELLO 3 AUTH default x SETNAME n", NO_PASSWORD, Never),
            (
                "HELLO 3 AUTH nosuch",
                "-ERR Syntax error in HELLO option 'AUTH'",
                Always,
            ),
            // Neither name nor protocol have changed.
            ("CLIENT GETNAME", "_", Never),
            ("CONFIG GET databases", "[$, $]", Never),
            ("RESET", "+RESET", Always),
            ("PING", "+PONG", Always),
        ],
    ),
    (
        "SETINFO that is refused is an error and no more",
        &[
            (
                "CLIENT SETINFO lib-name with\\x20blank",
                "-ERR lib-name cannot contain spaces, newlines or special characters.",
                Seven2,
            ),
            (
                "CLIENT SETINFO lib-nosuch x",
                "-ERR Unrecognized option 'lib-nosuch'",
                Seven2,
            ),
            ("CLIENT SETINFO lib-name \"\"", "+OK", Seven2),
            ("CLIENT NO-EVICT on", "+OK", Always),
            ("CLIENT NO-TOUCH on", "+OK", Seven2),
            ("CLIENT INFO", "$", Always),
            ("PING", "+PONG", Always),
        ],
    ),
    (
        "every command of a pipeline gets one reply, also those that are refused",
        &[
            ("PING", "+PONG", Always),
            ("AUTH wrong", NO_PASSWORD, Always),
            (
                "NOSUCH a b",
                "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' ",
                Always,
            ),
            ("GET", "-ERR wrong number of arguments for 'get' command", Always),
            (
                "CLIENT NOSUCH",
                "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.",
                Always,
            ),
            ("COMMAND COUNT", ":", Always),
            ("COMMAND DOCS nosuch", "[]", Always),
            ("PING", "+PONG", Always),
        ],
    ),
];

#[test]
fn handshakes() {
    let server = Server::start("handshakes");
    let problems = played(server.address(), |_| true);
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn handshakes_are_answered_so_by_redis_itself() {
    let test = "handshakes_are_answered_so_by_redis_itself";
    match redis(test) {
        Ok((_dir, redis)) => {
            let is_72 = redis.version() >= (7, 2);
            let problems = played(redis.address(), |since| {
                since == Always || (since == Seven2 && is_72)
            });
            assert!(problems.is_empty(), "\n{}", problems.join("\n"));
        }
        Err(reason) => skip(test, &reason),
    }
}

#[test]
fn connections_that_say_nothing_stay() {
    let server = Server::start("idle");
    let mut idle: Vec<Client> = (0..300)
        .map(|_| Client::connect(server.address()).unwrap())
        .collect();
    for (index, client) in idle.iter_mut().enumerate() {
        if index % 2 == 0 {
            client.ask("HELLO 3");
        }
        if index % 3 == 0 {
            client.ask("SUBSCRIBE idle");
        }
    }
    // Others work meanwhile, and whoever comes back finds its connection.
    let mut busy = server.idemd().client();
    for _ in 0..1_000 {
        assert_eq!(busy.ask("INCR n").as_error(), None);
    }
    assert_eq!(busy.ask("PUBLISH idle x"), Value::Int(100));
    for (index, client) in idle.iter_mut().enumerate() {
        if index % 3 == 0 {
            let message = client.receive().unwrap();
            assert_eq!(message.as_items().map(<[Value]>::len), Some(3), "{message:?}");
        }
        assert_eq!(client.ask("PING").as_error(), None, "connection {index}");
    }
}

/// What was answered otherwise; lines for which `holds` says no are sent, and may be answered with anything.
fn played(address: SocketAddr, holds: impl Fn(Since) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for (library, lines) in HANDSHAKES {
        let mut client = Client::connect(address).unwrap();
        let commands = lines.iter().filter(|(command, ..)| !command.is_empty());
        let bytes: Vec<u8> = commands.flat_map(|(command, ..)| encoded(command)).collect();
        client.send_raw(&bytes).unwrap();
        for (command, expected, since) in *lines {
            let found = match client.receive() {
                Ok(reply) => shape(&reply),
                Err(error) => {
                    problems.push(format!("{library}: `{command}`: {error}"));
                    break;
                }
            };
            let as_expected = found == *expected || (*expected == "-ERR" && found.starts_with("-ERR "));
            if holds(*since) && !as_expected {
                problems.push(format!("{library}: `{command}` answered {found}, not {expected}"));
            }
        }
        // Not one reply more: the next is that of this command.
        if !lines.iter().any(|(command, ..)| *command == "QUIT") {
            let echo = client.call(&[b"ECHO", b"the end"]);
            if !matches!(&echo, Ok(Value::Bulk(bytes)) if bytes == b"the end") {
                problems.push(format!("{library}: a reply too many: {echo:?}"));
            }
        }
    }
    problems
}

fn encoded(command: &str) -> Vec<u8> {
    let words = command.split(' ').map(|word| match word {
        "\"\"" => Vec::new(),
        word => idem_protocol::escape::unescape(word).unwrap(),
    });
    let words: Vec<Vec<u8>> = words.collect();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    encode_command(&words)
}

fn shape(value: &Value) -> String {
    let all = |items: &[Value]| match items.len() {
        0..=16 => items.iter().map(shape).collect::<Vec<_>>().join(", "),
        _ => "…".to_owned(),
    };
    match value {
        Value::Simple(text) => format!("+{text}"),
        Value::Error(text) => format!("-{text}"),
        Value::Int(_) => ":".to_owned(),
        Value::Bulk(_) | Value::Verbatim { .. } => "$".to_owned(),
        Value::Null => "_".to_owned(),
        Value::Array(items) => format!("[{}]", all(items)),
        Value::Push(items) => format!(">[{}]", all(items)),
        Value::Set(items) => format!("~[{}]", all(items)),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| {
                let key = key.as_bytes().map(escape).unwrap_or_default();
                format!("{key}: {}", shape(value))
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Double(_) | Value::Bool(_) | Value::BigNumber(_) => format!("{value:?}"),
    }
}
