//! Clients that want the server's end, against the real binary: its descriptors, its log lines, a browser in their hands.
//! What they do to memory and to everybody else's replies is measured in `testsuite/tests/hostile_load.rs`.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

mod support;

use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::{Client, PATIENCE, Server, encode};

/// Files that the process may open in the tests about descriptors: room for 72 clients, 32 that linger, 32 that are
/// refused, and the 64 that are not clients'.
const FILES: usize = 200;
const CLIENTS: usize = 72;

/// What the log and the rest of the process need at the same time, with much to spare; of the 64.
const FILES_LEFT_MIN: usize = 30;

/// Connects, sends `bytes`, and closes none of the last `HELD` connections, until it is told to stop.
fn flood(address: SocketAddr, bytes: &[u8], stop: &AtomicBool, made: &AtomicUsize) {
    const HELD: usize = 150;
    let mut held = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else {
            continue;
        };
        let _ = stream.write_all(bytes);
        made.fetch_add(1, Ordering::Relaxed);
        held.push_back(stream);
        if held.len() > HELD {
            held.pop_front();
        }
    }
}

/// While two flooders connect, somebody else writes through many segments and takes snapshots, and all of it succeeds.
fn check_flooded(server: &Server, writer: &mut Client, bytes: &[u8]) {
    let (stop, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address = server.address;
    let value = vec![b'x'; 30_000];
    let mut open_max = 0;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| flood(address, bytes, &stop, &made));
        }
        let give_up = Instant::now() + PATIENCE;
        let mut written = 0;
        // More connections than there are descriptors, and a dozen segments.
        while (made.load(Ordering::Relaxed) < 5 * FILES || written < 400) && Instant::now() < give_up {
            writer.command(&[b"SET", format!("key{}", written % 20).as_bytes(), &value]);
            let reply = writer.line();
            open_max = open_max.max(server.descriptors());
            if reply != "+OK" || (written % 100 == 0 && !saves(writer)) {
                stop.store(true, Ordering::Relaxed);
                panic!("write {written} with {open_max} files open: {reply}");
            }
            written += 1;
        }
        stop.store(true, Ordering::Relaxed);
        assert!(
            made.load(Ordering::Relaxed) >= 5 * FILES && written >= 400,
            "the flood was too slow"
        );
    });
    assert!(
        open_max <= FILES - FILES_LEFT_MIN,
        "{open_max} of {FILES} files were open"
    );
}

fn saves(client: &mut Client) -> bool {
    client.send(b"SAVE\r\n");
    client.line() == "+OK"
}

#[test]
fn connections_that_only_err_do_not_use_up_the_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with_files(dir.path(), FILES, &[]);
    server.logged(&format!("WARN maxclients is {CLIENTS} instead of 10000"));
    let mut writer = server.connect();
    assert_eq!(writer.info("maxclients"), CLIENTS.to_string());
    check_flooded(&server, &mut writer, b"*99999999\r\n");
    server.terminate().check(0, &["the log is clean"]);
}

#[test]
fn refused_connections_do_not_use_up_the_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with_files(dir.path(), FILES, &[]);
    let mut writer = server.connect();
    let idle: Vec<Client> = (1..CLIENTS)
        .map(|_| {
            let mut client = server.connect();
            client.check("PING", "+PONG\r\n");
            client
        })
        .collect();
    check_flooded(&server, &mut writer, b"PING\r\n");
    drop(idle);
    server
        .terminate()
        .check(0, &["client refused", "the log is clean"]);
}

#[test]
fn a_limit_that_leaves_nearly_nothing_still_serves_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with_files(dir.path(), 64, &[]);
    server.logged("WARN maxclients is 1 instead of 10000");
    let mut client = server.connect();
    client.check("SET k v", "+OK\r\n");
    // Nobody can be told why, and nobody is kept open for it.
    assert_eq!(server.connect().rest(), b"");
    assert!(saves(&mut client));
}

/// What redis-py's `pipeline()` sends by default, in one packet.
#[test]
fn a_pipeline_in_a_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.send(b"SET before 1\r\nMULTI\r\nIDEM k BEGIN f o 60000\r\nINCR before\r\nEXEC\r\nPING\r\n");
    for expected in [
        "+OK", "+OK", "+QUEUED", "+QUEUED", "*2", "*1", "$8", "acquired", ":2", "+PONG",
    ] {
        assert_eq!(client.line(), expected);
    }
    // What is queued by a client that goes away never happens.
    client.send(b"MULTI\r\nSET gone 1\r\n");
    assert_eq!(
        (client.line(), client.line()),
        ("+OK".to_owned(), "+QUEUED".to_owned())
    );
    drop(client);
    let mut other = server.connect();
    other.check("GET gone", "$-1\r\n");
    other.check("GET before", "$1\r\n2\r\n");
}

#[test]
fn an_http_request_is_no_command() {
    let (dir, began) = (tempfile::tempdir().unwrap(), Instant::now());
    let server = Server::start(dir.path(), &[]);
    let body = "SET stolen yes\r\n";
    let requests: Vec<Vec<u8>> = vec![
        format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16\r\n\r\n{body}").into(),
        format!("post / HTTP/1.0\r\n\r\n{body}").into(),
        // Not even what was right about it is answered.
        format!("PUT / HTTP/1.1\r\nhOST: localhost\r\n\r\n{body}").into(),
        [encode(&[b"Post", b"/"]), body.into()].concat(),
        format!("PING\r\nHost:\r\n{body}").into(),
    ];
    for request in &requests {
        let mut client = server.connect();
        client.send(request);
        let rest = client.rest();
        assert_eq!(rest, b"", "{:?}", String::from_utf8_lossy(request));
    }
    let mut client = server.connect();
    client.check("EXISTS stolen", ":0\r\n");
    // Only the names themselves are of HTTP.
    client.check("SET Host: POST", "+OK\r\n");
    client.send(b"POSTS\r\nHost\r\n");
    assert!(client.line().starts_with("-ERR unknown command"));
    assert!(client.line().starts_with("-ERR unknown command"));
    let ended = server.terminate();
    ended.check(
        0,
        &[
            "WARN client dropped: it sent an HTTP request",
            "address=127.0.0.1:",
        ],
    );
    let told = count_lines(
        &ended.stderr,
        "client dropped: it sent an HTTP request",
        "HTTP request: … ",
    );
    assert_eq!(told.all, requests.len());
    assert!(told.written <= 1 + seconds(began), "{told:?} in {}", ended.stderr);
}

#[test]
fn a_flood_of_mistakes_is_ten_lines_a_second() {
    const MISTAKES: usize = 300;
    let (dir, began) = (tempfile::tempdir().unwrap(), Instant::now());
    let server = Server::start(dir.path(), &["--maxclients", "1"]);
    for _ in 0..MISTAKES {
        let mut client = server.connect();
        client.send(b"*x\r\n");
        client.rest();
    }
    let ended = server.terminate();
    ended.check(0, &[]);
    // One client at a time: those who come before the last one is gone are refused, and that is as many lines.
    let mistakes = count_lines(&ended.stderr, "closing client: Protocol", "closing client: … ");
    let refusals = count_lines(&ended.stderr, "client refused: maxclients", "client refused: … ");
    assert_eq!(mistakes.all + refusals.all, MISTAKES, "{}", ended.stderr);
    let lines_max = 10 * (1 + seconds(began));
    assert!(
        mistakes.written <= lines_max && refusals.written <= lines_max,
        "{mistakes:?} {refusals:?}"
    );
}

/// Lines of one kind: written, and with those that were only counted.
#[derive(Debug)]
struct Told {
    written: usize,
    all: usize,
}

fn count_lines(log: &str, line: &str, more: &str) -> Told {
    let written = log.lines().filter(|text| text.contains(line)).count();
    let counted = log
        .lines()
        .filter_map(|text| text.split_once(more))
        .map(|(_, rest)| {
            let number = rest.split(' ').next().unwrap();
            number.parse::<usize>().unwrap()
        });
    let counted: usize = counted.sum();
    Told {
        written,
        all: written + counted,
    }
}

/// Whole seconds since then, rounded up.
fn seconds(began: Instant) -> usize {
    usize::try_from(began.elapsed().as_secs()).unwrap() + 1
}
