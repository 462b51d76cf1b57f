//! Bytes that are no request, against the real binary, and against Redis where it is installed: a clear error, the
//! connection ends where Redis ends it, everything before it is carried out and nothing behind it, memory follows what
//! arrived, and the server is there for the next one.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

use std::io::{Read, Write};
use std::time::Duration;

use idem_protocol::command;
use idem_protocol::resp::value::Value;
use idem_testsuite::contract::{RedisTarget, Target};
use idem_testsuite::hostile::Probe;
use idem_testsuite::hostile::attack;
use idem_testsuite::process::client::encode_command;
use idem_testsuite::process::{Client, ClientError, Idemd, IdemdOptions};
use idem_testsuite::require::skip;
use idem_testsuite::rng::Rng;
use idem_testsuite::testdir::TestDir;

/// What every server reads at once.
const SHORT_BYTES: usize = 8 << 10;

/// What answers a hostile request.
#[derive(Clone, Debug, PartialEq)]
enum End {
    /// This error, and the connection is closed.
    Closed(&'static str),
    /// As `Closed`, but not what Redis does, for the reason given.
    OursClosed(&'static str, &'static str),
    /// Replies (an error's text, a string, `nothing`), and the connection goes on.
    Open(&'static [&'static str]),
    /// As `Open`, but not what Redis does, for the reason given.
    OursOpen(&'static [&'static str], &'static str),
}

use End::{Closed, Open, OursClosed, OursOpen};

const COUNT: &str = "ERR Protocol error: invalid multibulk length";
const LENGTH: &str = "ERR Protocol error: invalid bulk length";
const QUOTES: &str = "ERR Protocol error: unbalanced quotes in request";
const STRICT: &str = "a line end, or a length's spelling, that Redis does not look at";

fn table() -> Vec<(Vec<u8>, End)> {
    let mut rows: Vec<(Vec<u8>, End)> = [
        // Counts.
        (&b"*x\r\n"[..], Closed(COUNT)),
        (b"*\r\n", Closed(COUNT)),
        (b"* 1\r\n", Closed(COUNT)),
        (b"*+1\r\n", Closed(COUNT)),
        (b"*01\r\n", Closed(COUNT)),
        (b"*1x\r\n", Closed(COUNT)),
        (b"*1.0\r\n", Closed(COUNT)),
        (b"*0x10\r\n", Closed(COUNT)),
        (
            b"*1\0\r\n",
            OursClosed(
                COUNT,
                "Redis looks for the line end up to the first zero, and waits",
            ),
        ),
        (b"*1\rx", OursClosed(COUNT, STRICT)),
        (b"*1048577\r\n", OursClosed(COUNT, "our bound is lower")),
        (b"*2147483648\r\n", Closed(COUNT)),
        (b"*4294967296\r\n", Closed(COUNT)),
        (b"*9223372036854775807\r\n", Closed(COUNT)),
        (b"*9223372036854775808\r\n", Closed(COUNT)),
        (b"*18446744073709551616\r\n", Closed(COUNT)),
        (b"*0\r\n", Open(&[])),
        (b"*-1\r\n", Open(&[])),
        (b"*-9223372036854775808\r\n", Open(&[])),
        // Lengths.
        (b"*1\r\n$x\r\n", Closed(LENGTH)),
        (b"*1\r\n$\r\n", Closed(LENGTH)),
        (b"*1\r\n$-1\r\n", Closed(LENGTH)),
        (b"*1\r\n$-2147483649\r\n", Closed(LENGTH)),
        (b"*1\r\n$+4\r\n", Closed(LENGTH)),
        (b"*1\r\n$04\r\n", Closed(LENGTH)),
        (b"*1\r\n$16777217\r\n", Closed(LENGTH)),
        (b"*1\r\n$2147483648\r\n", Closed(LENGTH)),
        (b"*1\r\n$4294967296\r\n", Closed(LENGTH)),
        (b"*1\r\n$9223372036854775807\r\n", Closed(LENGTH)),
        (b"*1\r\n$9223372036854775808\r\n", Closed(LENGTH)),
        (b"*1\r\n$99999999999999999999999\r\n", Closed(LENGTH)),
        (
            b"*1\r\n$4\r\nPINGxx",
            OursClosed("ERR Protocol error: expected CRLF after bulk string", STRICT),
        ),
        (
            b"*1\r\n$3\r\nPING\r\n",
            OursClosed("ERR Protocol error: expected CRLF after bulk string", STRICT),
        ),
        // Other types where a string has to be.
        (
            b"*1\r\n+PING\r\n",
            Closed("ERR Protocol error: expected '$', got '+'"),
        ),
        (
            b"*1\r\n:1\r\n",
            Closed("ERR Protocol error: expected '$', got ':'"),
        ),
        (
            b"*1\r\n*1\r\n$4\r\nPING\r\n",
            Closed("ERR Protocol error: expected '$', got '*'"),
        ),
        (
            b"*2\r\n$4\r\nECHO\r\n%1\r\n",
            Closed("ERR Protocol error: expected '$', got '%'"),
        ),
        (
            b"*1\r\n\r\n",
            OursClosed(
                "ERR Protocol error: expected '$', got '\\x0d'",
                "no control character in a line",
            ),
        ),
        (
            b"*1\r\n\0",
            OursClosed(
                "ERR Protocol error: expected '$', got '\\x00'",
                "no control character in a line",
            ),
        ),
        // Lines.
        (b"PING \"open\r\n", Closed(QUOTES)),
        (b"PING 'open\r\n", Closed(QUOTES)),
        (b"PING \"a\"b\r\n", Closed(QUOTES)),
        (b"\r\n", Open(&[])),
        (b"\n", Open(&[])),
        (b"   \r\n", Open(&[])),
        (b"PING\n", Open(&["PONG"])),
        (b"+OK\r\n", Open(&["ERR unknown command '+OK'"])),
        (b"$4\r\nPING\r\n", Open(&["ERR unknown command '$4'", "PONG"])),
        (b"-1\r\n", Open(&["ERR unknown command '-1'"])),
        (b"%1\r\n", Open(&["ERR unknown command '%1'"])),
        // Text is UTF-8 in an error, so that it is one in every client.
        (
            b"\xff\xfe\r\n",
            OursOpen(&["ERR unknown command"], "how odd bytes are shown"),
        ),
        (
            b"\x16\x03\x01\x02\r\n",
            OursOpen(&["ERR unknown command"], "how odd bytes are shown"),
        ),
        (b"*1\r\n$0\r\n\r\n", Open(&["ERR unknown command ''"])),
    ]
    .into_iter()
    .map(|(bytes, end)| (bytes.to_vec(), end))
    .collect();
    // Lines at their bound of 64 KiB, whole and without an end.
    let long = |prefix: &[u8], count: usize, end: &[u8]| [prefix, &vec![b'a'; count], end].concat();
    rows.push((
        long(b"PING ", 60_000, b"\r\n"),
        OursOpen(&["aaaa"], "only its length counts here"),
    ));
    let inline = Closed("ERR Protocol error: too big inline request");
    rows.push((long(b"PING ", 70_000, b""), inline));
    rows.push((
        [b"*".as_slice(), &vec![b'1'; 70_000]].concat(),
        Closed("ERR Protocol error: too big mbulk count string"),
    ));
    rows.push((
        [b"*1\r\n$".as_slice(), &vec![b'1'; 70_000]].concat(),
        Closed("ERR Protocol error: too big bulk count string"),
    ));
    rows
}

/// Sends the bytes between a SET and a DEL, and compares what comes. Redis's part of a row with `Ours…` is not compared.
fn check(connect: &mut dyn FnMut() -> Client, bytes: &[u8], end: &End, key: &str) -> Result<(), String> {
    let mut client = connect();
    client.set_timeout(Duration::from_secs(10));
    let set = encode_command(&[b"SET", key.as_bytes(), b"v"]);
    let del = encode_command(&[b"DEL", key.as_bytes()]);
    let closes = matches!(end, End::Closed(_) | End::OursClosed(..));
    // In one piece, as a pipeline is; Redis closes without reading what is behind a long one, and its error is lost then.
    let together = closes && bytes.len() <= SHORT_BYTES;
    let behind = if together { del.as_slice() } else { &[] };
    let sent = client.send_raw(&[&set, bytes, behind].concat());
    sent.map_err(|error| error.to_string())?;
    match client.receive() {
        Ok(Value::Simple(text)) if text == "OK" => {}
        other => return Err(format!("what stands before it is not answered: {other:?}")),
    }
    let mut expect = |expected: &str| {
        let text = match client
            .receive()
            .map_err(|error| format!("{error}, not {expected:?}"))?
        {
            Value::Error(text) | Value::Simple(text) => text,
            other => String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned(),
        };
        if text.starts_with(expected) {
            Ok(())
        } else {
            Err(format!("{text:?}, not {expected:?}"))
        }
    };
    match end {
        End::Closed(error) | End::OursClosed(error, _) => {
            expect(error)?;
            if !together {
                // It may be closed already.
                let _ = client.send_raw(&del);
            }
            match client.receive() {
                Err(ClientError::Closed) => {}
                other => return Err(format!("it is not closed: {other:?}")),
            }
        }
        End::Open(replies) | End::OursOpen(replies, _) => {
            replies.iter().try_for_each(|expected| expect(expected))?;
            match client.call(&[b"PING"]) {
                Ok(Value::Simple(text)) if text == "PONG" => {}
                other => return Err(format!("it does not go on: {other:?}")),
            }
        }
    }
    match connect().ask(&format!("GET {key}")).as_bytes() {
        Some(b"v") => Ok(()),
        other => Err(format!("what stands behind it was carried out: {other:?}")),
    }
}

/// All rows, and all that are wrong together.
fn check_table(connect: &mut dyn FnMut() -> Client, is_redis: bool) {
    let mut wrong = Vec::new();
    for (index, (bytes, end)) in table().iter().enumerate() {
        if is_redis && matches!(end, End::OursClosed(..) | End::OursOpen(..)) {
            continue;
        }
        if let Err(what) = check(connect, bytes, end, &format!("row{index}")) {
            let shown: String = String::from_utf8_lossy(bytes).escape_debug().take(80).collect();
            wrong.push(format!("{shown}: {what}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_kind_of_mistake() {
    let dir = TestDir::new("mistakes", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    check_table(&mut || server.client(), false);
    let log = server.stderr();
    assert!(log.contains("closing client: Protocol error: "), "{log}");
    // Ten lines a second: those beyond are counted.
    assert!(!log.contains("row1"), "no key of a client is logged: {log}");
    server.stop();
}

#[test]
fn redis_ends_the_same_connections() {
    let dir = TestDir::new("redis-mistakes", 1);
    match RedisTarget::start(&dir.path().join("redis")) {
        Ok(mut redis) => check_table(&mut || redis.connect(), true),
        Err(reason) => skip("redis_ends_the_same_connections", &reason),
    }
}

/// 2^20 arguments are the most: just below and at the bound they are counted and answered, above it the count is refused.
/// What is held meanwhile is what arrived and 8 bytes for each.
#[test]
fn a_million_arguments() {
    const BOUND: usize = 1_048_576;
    let dir = TestDir::new("million", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let probe = Probe::new(server.pid());
    let command = |count: usize, name: &[u8]| {
        let mut bytes = format!("*{count}\r\n${}\r\n", name.len()).into_bytes();
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(b"\r\n");
        bytes.extend(b"$1\r\na\r\n".repeat(count - 1));
        bytes
    };
    for count in [BOUND - 1, BOUND] {
        let mut client = server.client();
        let before = probe.resident_bytes();
        probe.reset_peak();
        client.send_raw(&command(count, b"EXISTS")).unwrap();
        assert_eq!(client.receive().unwrap(), Value::Int(0));
        client.send_raw(&command(count, b"SET")).unwrap();
        let reply = client.receive().unwrap();
        assert_eq!(reply.as_error(), Some("ERR syntax error"), "{reply:?}");
        let grown = probe.peak_bytes().saturating_sub(before);
        // 7 bytes of each argument and 8 for its place, in buffers that double, and the old one beside the new one.
        assert!(grown < 96 << 20, "{grown} bytes for {count} arguments");
        // The connection does not keep it.
        let info = client.ask("INFO clients");
        let text = String::from_utf8_lossy(info.as_bytes().unwrap()).into_owned();
        let held = text
            .lines()
            .find_map(|line| line.strip_prefix("client_buffers_bytes:"));
        let held: usize = held.unwrap().trim().parse().unwrap();
        assert!(held < 256 << 10, "{held} bytes are kept");
    }
    let mut client = server.client();
    let _ = client.send_raw(&command(BOUND + 1, b"EXISTS"));
    assert_eq!(client.receive().unwrap().as_error(), Some(COUNT));
    // One that never comes to an end costs what it sent.
    let half = command(BOUND, b"EXISTS");
    let before = probe.resident_bytes();
    probe.reset_peak();
    let held: Vec<_> = (0..4)
        .map(|number| {
            let mut stream = attack::connect(server.address(), number).unwrap();
            stream.write_all(&half[..half.len() - 1]).unwrap();
            stream
        })
        .collect();
    assert_eq!(server.client().ask("PING"), Value::Simple("PONG".to_owned()));
    let grown = probe.peak_bytes().saturating_sub(before);
    assert!(grown < 4 * (32 << 20), "{grown} bytes for four of them");
    drop(held);
    server.stop();
}

/// Goal: no command makes much of many small arguments. Method: every row of the command table that takes so many gets a
/// million, so that a new one is tried too; and those that answer more for an argument than it is long refuse, in words
/// that name their bound.
#[test]
fn every_command_with_a_million_arguments() {
    const COUNT: usize = 1_048_576;
    const BOUNDED: [&str; 6] = [
        "client|list id",
        "command|docs",
        "command|info",
        "config|get",
        "config|set",
        "info",
    ];
    const REFUSED: &str = "ERR more than 1024 names or patterns in one call, ask for fewer";
    let dir = TestDir::new("million-of-each", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let probe = Probe::new(server.pid());
    let before = probe.resident_bytes();
    let mut calls = commands_of_many_arguments();
    // First those whose memory is looked at closely: what others have used the allocator may keep for a while.
    calls.sort_by_key(|(name, ..)| !BOUNDED.contains(name));
    let bounded = calls.iter().take_while(|(name, ..)| BOUNDED.contains(name));
    assert_eq!(bounded.count(), BOUNDED.len());
    for (name, words, filler) in calls {
        // An odd and an even number: some want pairs.
        for count in [COUNT - 1, COUNT] {
            let mut bytes = format!("*{count}\r\n");
            for word in &words {
                bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
            }
            let filling = format!("${}\r\n{filler}\r\n", filler.len());
            bytes.push_str(&filling.repeat(count - words.len()));
            // Some close the connection.
            let mut client = server.client();
            client.send_raw(bytes.as_bytes()).unwrap();
            let reply = client.receive().unwrap();
            let grown = probe.peak_bytes().saturating_sub(before);
            if BOUNDED.contains(&name) {
                assert_eq!(reply.as_error(), Some(REFUSED), "{name}");
                // As in `a_million_arguments`: what any command costs until it is executed.
                assert!(grown < 96 << 20, "{grown} bytes for {name}");
            } else {
                assert_ne!(reply.as_error(), Some(REFUSED), "{name}");
                // Records of half a million keys in memory and in the log, a million replies in a list.
                assert!(grown < 512 << 20, "{grown} bytes up to {name}");
            }
        }
    }
    server.stop();
}

/// Names, the words that a call begins with, and the word that it repeats.
fn commands_of_many_arguments() -> Vec<(&'static str, Vec<&'static str>, &'static str)> {
    let mut calls = Vec::new();
    for spec in command::all() {
        if spec.arity < 0 && !spec.is_container() {
            calls.push((spec.name, vec![spec.name], "a"));
        }
        for sub in spec.subcommands.iter().filter(|sub| sub.arity < 0) {
            let mut words = vec![spec.name];
            words.resize(usize::from(spec.subcommand_at), "a");
            words.push(sub.name);
            calls.push((sub.full_name, words, "a"));
        }
    }
    // Words that come through as arguments of their kind, where the first `a` is an error already.
    calls.extend([
        ("client|list id", vec!["CLIENT", "LIST", "ID"], "1"),
        ("keys of a call", vec!["COMMAND", "GETKEYS", "DEL"], "a"),
        ("keys of a call", vec!["COMMAND", "GETKEYSANDFLAGS", "DEL"], "a"),
        ("options", vec!["CLIENT", "KILL"], "ID"),
        ("options", vec!["CLIENT", "TRACKING", "ON"], "BCAST"),
        ("names", vec!["HELLO", "3"], "SETNAME"),
        ("patterns", vec!["SCAN", "0"], "MATCH"),
        ("patterns", vec!["HSCAN", "h", "0"], "MATCH"),
        ("conditions", vec!["SET", "k", "v"], "NX"),
        ("conditions", vec!["EXPIRE", "k", "1"], "NX"),
    ]);
    calls
}

/// Lengths that are allowed reserve nothing either: 200 clients claim a million arguments of 16 MiB, and send none.
#[test]
fn claims_cost_nothing() {
    let dir = TestDir::new("claims", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let probe = Probe::new(server.pid());
    let before = probe.resident_bytes();
    probe.reset_peak();
    let held: Vec<_> = (0..200)
        .map(|number| {
            let mut stream = attack::connect(server.address(), number).unwrap();
            stream.write_all(b"PING\r\n*1048576\r\n$16777216\r\n").unwrap();
            // Read by now, and so is what it claims.
            let mut reply = [0; 7];
            stream.read_exact(&mut reply).unwrap();
            stream
        })
        .collect();
    let grown = probe.peak_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for claims");
    drop(held);
    server.stop();
}

/// Bytes from an alphabet of what means something, and bytes of any kind.
#[test]
fn random_bytes_never_hurt() {
    let dir = TestDir::new("random", 0x1de_5eed);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let alphabet = b"*$+-:\r\n0123456789 \"'\\xIDEMPINGset\0\xff";
    let plan = Rng::new(dir.seed());
    for index in 0..300 {
        let mut rng = plan.part(index);
        let count = rng.below(300);
        let bytes: Vec<u8> = (0..count)
            .map(|_| match index % 3 {
                0 => rng.next().to_le_bytes()[0],
                _ => alphabet[rng.index(alphabet.len())],
            })
            .collect();
        let mut client = server.client();
        let _ = client.send_raw(&bytes);
        let _ = client.finish_sending();
        // Whole replies until the end, whatever they say.
        loop {
            match client.receive() {
                Ok(_) => {}
                Err(ClientError::Closed) => break,
                Err(error) => panic!("{error} after {bytes:02x?}"),
            }
        }
    }
    assert_eq!(server.client().ask("PING"), Value::Simple("PONG".to_owned()));
    server.stop();
}
