//! What clients may do to the real binary, and to each other: limits, slow readers, order. Bytes that are no request, and
//! crowds, are in `testsuite/tests/hostile_*.rs`.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use support::{Client, PATIENCE, Server, encode};

fn server(extra: &[&str]) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), extra);
    (dir, server)
}

/// The server is there for others, at once.
fn check_alive(server: &Server) {
    let began = Instant::now();
    server.connect().check("PING", "+PONG\r\n");
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "a client waited {:?}",
        began.elapsed()
    );
}

#[test]
fn one_client_too_many() {
    let (_dir, server) = server(&["--maxclients", "2"]);
    let mut first = server.connect();
    let mut second = server.connect();
    first.check("PING", "+PONG\r\n");
    second.check("PING", "+PONG\r\n");
    let mut third = server.connect();
    assert_eq!(third.rest(), b"-ERR max number of clients reached\r\n");
    assert_eq!(first.info("rejected_connections"), "1");
    assert_eq!(first.info("connected_clients"), "2");
    second.check("QUIT", "+OK\r\n");
    assert_eq!(second.rest(), b"");
    // The place is free as soon as the server has noticed the end, which the client cannot see.
    let give_up = Instant::now() + PATIENCE;
    loop {
        let mut third = server.connect();
        third.send(b"PING\r\n");
        if third.line() == "+PONG" {
            break;
        }
        assert!(Instant::now() < give_up, "the place stays taken");
    }
}

#[test]
fn a_command_over_the_query_limit() {
    let (_dir, server) = server(&[
        "--proto-max-bulk-len",
        "64kb",
        "--client-query-buffer-limit",
        "256kb",
    ]);
    let mut client = server.connect();
    // Fits by the arguments, not by their sum.
    let argument = vec![b'x'; 60 << 10];
    client.send(b"*11\r\n$3\r\nDEL\r\n");
    for _ in 0..10 {
        let _ = client.0.write_all(&encode(&[&argument])[4..]);
    }
    let rest = String::from_utf8(client.rest()).unwrap();
    assert_eq!(
        rest,
        "-ERR Protocol error: the command exceeds client-query-buffer-limit\r\n"
    );
    server.logged("client-query-buffer-limit");
    let mut client = server.connect();
    client.command(&[b"SET", b"k", &argument]);
    client.expect(b"+OK\r\n");
    assert_eq!(client.info("client_query_buffer_limit_disconnections"), "1");
}

#[test]
fn a_reply_over_the_output_limit() {
    let (_dir, server) = server(&["--client-output-buffer-limit", "64kb"]);
    let mut client = server.connect();
    // More than the limit together with what the kernel takes.
    client.command(&[b"SET", b"big", &vec![b'x'; 16 << 20]]);
    client.expect(b"+OK\r\n");
    let mut slow = server.connect();
    slow.command(&[b"GET", b"big"]);
    server.logged("client-output-buffer-limit");
    assert!(slow.rest().len() < 16 << 20);
    assert_eq!(client.info("client_output_buffer_limit_disconnections"), "1");
    client.check("STRLEN big", ":16777216\r\n");
}

#[test]
fn a_slow_reader_beside_a_fast_one() {
    let (_dir, server) = server(&[]);
    let mut fast = server.connect();
    fast.command(&[b"SET", b"big", &vec![b'x'; 1 << 20]]);
    fast.expect(b"+OK\r\n");
    let before = server.resident();
    let slow = server.connect();
    slow.0.set_nonblocking(true).unwrap();
    let get = encode(&[b"GET", b"big"]).repeat(1000);
    // Asks for a gigabyte and takes nothing.
    let mut stream: &TcpStream = &slow.0;
    let _ = stream.write(&get);
    for key in 0..200 {
        let began = Instant::now();
        fast.check(&format!("SET k{key} v"), "+OK\r\n");
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "waited {:?} for a slow reader",
            began.elapsed()
        );
    }
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for a reader that takes nothing");
    // It gets everything once it reads.
    slow.0.set_nonblocking(false).unwrap();
    let mut slow = slow;
    let asked = get.len() / encode(&[b"GET", b"big"]).len();
    for _ in 0..asked.min(40) {
        assert_eq!(slow.bulk().len(), 1 << 20);
    }
}

#[test]
fn all_buffers_together() {
    let (_dir, server) = server(&["--client-buffers-total", "4mb"]);
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    // Seven unfinished commands of 400 KiB stay below the limit; one of 3 MiB goes over it and is the largest.
    for (index, client) in clients.iter_mut().enumerate() {
        let bytes = if index == 7 { 3 << 20 } else { 400 << 10 };
        client.send(b"*2\r\n$3\r\nGET\r\n$16000000\r\n");
        let _ = client.0.write_all(&vec![b'x'; bytes]);
    }
    let line = server.logged("client dropped");
    assert!(
        line.contains("client-buffers-total") && line.contains("largest"),
        "{line}"
    );
    assert_eq!(clients[7].rest(), b"");
    check_alive(&server);
}

#[test]
fn an_idle_client_is_closed_and_a_busy_one_is_not() {
    let (_dir, server) = server(&["--timeout", "1"]);
    let mut idle = server.connect();
    idle.check("PING", "+PONG\r\n");
    let mut busy = server.connect();
    idle.0.set_nonblocking(true).unwrap();
    let give_up = Instant::now() + PATIENCE;
    let mut byte = [0];
    while idle
        .0
        .peek(&mut byte)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    {
        busy.check("PING", "+PONG\r\n");
        assert!(Instant::now() < give_up, "the idle client stays");
    }
    busy.check("PING", "+PONG\r\n");
    server.logged("idle for longer than timeout");
}

#[test]
fn pipelines_keep_their_order_however_they_are_cut() {
    let (_dir, server) = server(&[]);
    let mut commands = Vec::new();
    let mut expected = Vec::new();
    for index in 0..300 {
        let (key, value) = (format!("k{}", index % 7), format!("v{index}"));
        commands.extend(encode(&[b"SET", key.as_bytes(), value.as_bytes()]));
        commands.extend(encode(&[b"GET", key.as_bytes()]));
        commands.extend(encode(&[b"NOSUCH", key.as_bytes()]));
        commands.extend(format!("ECHO {index}\r\n\r\n").as_bytes());
        expected.extend(format!("+OK\r\n${}\r\n{value}\r\n", value.len()).as_bytes());
        expected.extend(
            format!("-ERR unknown command 'NOSUCH', with args beginning with: '{key}' \r\n").as_bytes(),
        );
        let index = index.to_string();
        expected.extend(format!("${}\r\n{index}\r\n", index.len()).as_bytes());
    }
    for piece in [1, 2, 7, 100, 4096, commands.len()] {
        let mut client = server.connect();
        // One byte at a time for a part is enough; all of it would be a test of the network.
        let end = if piece == 1 { 2000 } else { commands.len() };
        for part in commands[..end].chunks(piece) {
            client.send(part);
        }
        client.send(&commands[end..]);
        client.expect(&expected);
    }
}

#[test]
fn a_client_that_sends_no_more_still_gets_its_replies() {
    let (_dir, server) = server(&[]);
    let mut client = server.connect();
    client.send(b"SET k v\r\nGET k\r\nPING");
    client.finish();
    assert_eq!(client.rest(), b"+OK\r\n$1\r\nv\r\n");
}

#[test]
fn many_clients_share_syncs() {
    let (_dir, server) = server(&[]);
    let address = server.address;
    let threads: Vec<_> = (0..16)
        .map(|thread| {
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                for index in 0..50 {
                    client.check(
                        &format!("IDEM {thread}:{index} BEGIN f o 60000"),
                        "*1\r\n$8\r\nacquired\r\n",
                    );
                    client.check(&format!("IDEM {thread}:{index} COMPLETE f o r"), ":1\r\n");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let mut client = server.connect();
    assert_eq!(client.info("idem_completed"), "800");
    assert_eq!(client.info("wal_lsn"), client.info("wal_synced_lsn"));
    let syncs: u64 = client.info("wal_syncs").parse().unwrap();
    assert!((1..1600).contains(&syncs), "{syncs} syncs for 1600 changes");
    assert!(client.info("wal_sync_usec_max").parse::<u64>().unwrap() >= 1);
}

#[test]
fn values_larger_than_a_segment() {
    let (dir, server) = server(&[]);
    let mut client = server.connect();
    for (key, bytes) in [
        ("a", 3 << 20),
        ("b", 100),
        ("c", (1 << 20) - 4096),
        ("d", 9 << 20),
    ] {
        client.command(&[b"SET", key.as_bytes(), &vec![key.as_bytes()[0]; bytes]]);
        client.expect(b"+OK\r\n");
        client.check(&format!("STRLEN {key}"), &format!(":{bytes}\r\n"));
    }
    server.kill();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.check("STRLEN a", ":3145728\r\n");
    client.check("STRLEN d", ":9437184\r\n");
    client.check("DBSIZE", ":4\r\n");
}

/// A pipeline of slow commands is cut by time, not only by number: others have their turn in the middle of it.
#[test]
fn a_pipeline_of_slow_commands_lets_others_in() {
    const COMMANDS: usize = 100;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    let keys: Vec<String> = (0..20_000).map(|key| format!("key:{key}")).collect();
    let mut fill: Vec<&[u8]> = vec![b"MSET"];
    keys.iter()
        .for_each(|key| fill.extend([key.as_bytes(), &b"v"[..]]));
    slow.command(&fill);
    assert_eq!(slow.line(), "+OK");

    let scan: [&[u8]; 6] = [b"SCAN", b"0", b"COUNT", b"10000", b"MATCH", b"nothing"];
    slow.send(&encode(&scan).repeat(COMMANDS));
    // The first of it has been executed when the other client asks.
    let reply: Vec<String> = (0..4).map(|_| slow.line()).collect();
    other.check("PING", "+PONG\r\n");
    let reply_bytes: usize = reply.iter().map(|line| line.len() + 2).sum();
    slow.0.set_nonblocking(true).unwrap();
    let mut answered = vec![0; COMMANDS * reply_bytes];
    let count = std::io::Read::read(&mut slow.0, &mut answered).unwrap_or(0);
    assert!(
        count < (COMMANDS - 1) * reply_bytes,
        "the other one waited for the last of them"
    );
}

/// As redis-py's pipelines are: all requests first, then all replies.
#[test]
fn a_client_may_write_a_whole_pipeline_before_it_reads() {
    let (_dir, server) = server(&[]);
    let mut client = server.connect();
    let value = vec![b'v'; 10_000];
    let (set, get) = (encode(&[b"SET", b"key", &value]), encode(&[b"GET", b"key"]));
    let replies = [b"+OK\r\n$10000\r\n", value.as_slice(), b"\r\n"].concat();
    const PAIRS: usize = 1200;
    client.send(&[set, get].concat().repeat(PAIRS));
    for _ in 0..PAIRS {
        client.expect(&replies);
    }
    // And what takes much more to answer than to ask.
    client.send(&encode(&[b"GET", b"key"]).repeat(10_000));
    let reply = [b"$10000\r\n", value.as_slice(), b"\r\n"].concat();
    for _ in 0..10_000 {
        client.expect(&reply);
    }
}
