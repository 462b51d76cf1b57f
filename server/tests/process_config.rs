//! What the real binary says about its options, and DEBUG where it is allowed.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use idem_server::config::Options;
use idem_server::config::table::OPTIONS;
use support::{Client, Server, encode};

/// The answer of CONFIG GET with these patterns.
fn config_get(client: &mut Client, patterns: &[&str]) -> BTreeMap<String, String> {
    let mut words: Vec<&[u8]> = vec![b"CONFIG", b"GET"];
    words.extend(patterns.iter().map(|pattern| pattern.as_bytes()));
    client.command(&words);
    let count: usize = client.line().strip_prefix('*').unwrap().parse().unwrap();
    (0..count / 2).map(|_| (client.bulk(), client.bulk())).collect()
}

/// Each option under its name, with what was given; and what is shown can be given again.
#[test]
fn every_option_is_shown_as_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let given = [
        "--appendfsync",
        "everysec",
        "--maxclients",
        "77",
        "--proto-max-bulk-len",
        "8mb",
    ];
    let server = Server::start(dir.path(), &given);
    let mut client = server.connect();
    let all = config_get(&mut client, &["*"]);
    for row in OPTIONS {
        let value = all
            .get(row.name)
            .unwrap_or_else(|| panic!("{} is not shown", row.name));
        let mut options = Options::default();
        (row.set)(&mut options, value).unwrap_or_else(|error| panic!("{}: {error}", row.name));
    }
    assert_eq!(
        all.len(),
        OPTIONS.len() + 2,
        "and two facts that Redis has as options"
    );
    let check = |name: &str, expected: &str| {
        assert_eq!(all.get(name).map(String::as_str), Some(expected), "{name}");
    };
    check("appendfsync", "everysec");
    check("maxclients", "77");
    check("proto-max-bulk-len", "8388608");
    check("wal-segment-bytes", "1048576");
    check("bind", "127.0.0.1");
    check("appendonly", "yes");
    check("save", "");
    check("dir", &dir.path().display().to_string());
    let two = config_get(&mut client, &["max?lients", "SAVE"]);
    assert_eq!(
        two.into_iter().collect::<Vec<_>>(),
        [
            ("SAVE".to_owned(), String::new()),
            ("maxclients".to_owned(), "77".to_owned()),
        ]
    );
}

/// Nobody may, unless the operator says so.
#[test]
fn debug_is_refused_by_default() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.send(b"DEBUG SLEEP 20\r\n");
    let reply = client.line();
    assert!(reply.starts_with("-ERR DEBUG command not allowed."), "{reply}");
    client.check("PING", "+PONG\r\n");
}

/// While it sleeps nobody is served, behind it in the pipeline neither; afterwards everything goes on, and nobody was
/// dropped.
#[test]
fn a_sleep_stops_everybody_for_its_time() {
    const SLEEP: Duration = Duration::from_millis(1000);
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--enable-debug-command", "local"]);
    let (mut sleeper, mut other) = (server.connect(), server.connect());
    other.check("SET k v", "+OK\r\n");
    let began = Instant::now();
    let mut pipeline = encode(&[b"DEBUG", b"SLEEP", b"1"]);
    pipeline.extend(encode(&[b"GET", b"k"]));
    sleeper.send(&pipeline);
    server.logged("DEBUG SLEEP");
    // Between the line and the sleep lies nothing that takes time.
    let asked = Instant::now();
    other.check("PING", "+PONG\r\n");
    let waited = asked.elapsed();
    let late = asked.duration_since(began);
    assert!(
        waited + late >= SLEEP,
        "served after {waited:?}, asked {late:?} after the command was sent"
    );
    sleeper.expect(b"+OK\r\n$1\r\nv\r\n");
    assert!(began.elapsed() >= SLEEP);
    other.check("SET k w", "+OK\r\n");
    server.terminate().check(0, &[]);
}
