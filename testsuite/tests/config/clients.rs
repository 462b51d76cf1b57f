//! Limits of clients and of the data, felt by those who are connected.

use idem_protocol::resp::value::Value;
use idem_testsuite::process::{Client, ClientError, Idemd};
use idem_testsuite::testdir::TestDir;

use crate::support::{PATIENCE, info, must_set, set, small, text, until};

#[test]
fn maxclients_holds_for_the_next_client() {
    let dir = TestDir::new("config-maxclients", 1);
    let server = Idemd::start(&dir.data(), &small().option("maxclients", "3"));
    let mut first = server.client();
    let (mut second, mut third) = (server.client(), server.client());
    second.ask("PING");
    third.ask("PING");
    let refused = |server: &Idemd| {
        let mut client = server.client();
        let reply = client.receive();
        matches!(&reply, Ok(Value::Error(text)) if text.starts_with("ERR max number of clients"))
            || matches!(reply, Err(ClientError::Closed))
    };
    assert!(refused(&server));
    must_set(&mut first, &[("maxclients", "4")]);
    assert_eq!(info(&mut first, "maxclients"), 4);
    let mut fourth = server.client();
    assert_eq!(text(&fourth.ask("PING")), "PONG");
    assert!(refused(&server));
    // Lowered: those who are there stay, and nobody comes until enough have gone.
    must_set(&mut first, &[("maxclients", "2")]);
    for client in [&mut first, &mut second, &mut third, &mut fourth] {
        assert_eq!(text(&client.ask("PING")), "PONG");
    }
    drop((third, fourth));
    until("two are left", || info(&mut first, "connected_clients") == 2);
    assert!(refused(&server));
    drop(second);
    until("one is left", || info(&mut first, "connected_clients") == 1);
    assert_eq!(text(&server.client().ask("PING")), "PONG");
    // More than the process may have files for is refused, in words.
    let reply = set(&mut first, &[("maxclients", "1000000")]);
    assert!(reply == "OK" || reply.contains("(ulimit -n)"), "{reply}");
    server.stop();
}

#[test]
fn timeout_holds_for_those_who_are_idle_already() {
    let dir = TestDir::new("config-timeout", 1);
    let server = Idemd::start(&dir.data(), &small());
    let (mut idle, mut busy) = (server.client(), server.client());
    idle.ask("PING");
    must_set(&mut busy, &[("timeout", "1")]);
    idle.set_timeout(PATIENCE);
    let watcher = std::thread::spawn(move || idle.receive());
    until("the idle one is dropped", || {
        busy.ask("PING");
        watcher.is_finished()
    });
    let ended = watcher.join().expect("it only waits");
    assert!(matches!(ended, Err(ClientError::Closed)), "{ended:?}");
    must_set(&mut busy, &[("timeout", "0")]);
    server.stop();
}

/// A client that reads nothing is dropped at the limit of now, also one that has had more before.
#[test]
fn output_limits_hold_for_those_who_are_connected() {
    let dir = TestDir::new("config-output", 1);
    let server = Idemd::start(&dir.data(), &small());
    let (mut slow, mut other) = (server.client(), server.client());
    let value = vec![b'v'; 12 << 20];
    other.call(&[b"SET", b"k", &value]).expect("it fits");
    let ask = |client: &mut Client| {
        for _ in 0..3 {
            client.send(&[b"GET", b"k"]).expect("a few bytes");
        }
    };
    ask(&mut slow);
    until("its replies wait", || {
        info(&mut other, "client_buffers_bytes") > 8 << 20
    });
    assert_eq!(info(&mut other, "connected_clients"), 2);
    must_set(&mut other, &[("client-output-buffer-limit", "1mb")]);
    until("it is dropped", || info(&mut other, "connected_clients") == 1);
    assert_eq!(info(&mut other, "client_output_buffer_limit_disconnections"), 1);
    // Raised again, the same client is fine.
    must_set(&mut other, &[("client-output-buffer-limit", "64mb")]);
    let mut slow = server.client();
    ask(&mut slow);
    for _ in 0..3 {
        assert_eq!(slow.receive().expect("all of it"), Value::Bulk(value.clone()));
    }
    // The buffers of all together.
    let mut slow = server.client();
    ask(&mut slow);
    until("its replies wait", || {
        info(&mut other, "client_buffers_bytes") > 8 << 20
    });
    must_set(&mut other, &[("client-buffers-total", "2mb")]);
    until("it is dropped", || {
        info(&mut other, "client_buffers_bytes") < 2 << 20
    });
    assert_eq!(text(&other.ask("PING")), "PONG");
    server.stop();
}

/// The next command, also in the same pipeline, and also of a connection that was there before.
#[test]
fn the_size_of_commands_follows() {
    let dir = TestDir::new("config-query", 1);
    let server = Idemd::start(&dir.data(), &small());
    let (mut client, mut other) = (server.client(), server.client());
    other.ask("PING");
    let value = vec![b'v'; 2000];
    client.send(&[b"SET", b"k", &value]).expect("sent");
    client
        .send(&[b"CONFIG", b"SET", b"proto-max-bulk-len", b"1kb"])
        .expect("sent");
    client.send(&[b"SET", b"k", &value]).expect("sent");
    assert_eq!(text(&client.receive().expect("it fitted")), "OK");
    assert_eq!(text(&client.receive().expect("it is an option")), "OK");
    let refused = text(&client.receive().expect("an error"));
    assert!(
        refused.starts_with("ERR Protocol error: invalid bulk length"),
        "{refused}"
    );
    let refused = text(&other.call(&[b"SET", b"k", &value]).expect("an error"));
    assert!(
        refused.starts_with("ERR Protocol error: invalid bulk length"),
        "{refused}"
    );
    // What has begun is not cut off: its first half came under the larger limit.
    let (mut begun, mut other) = (server.client(), server.client());
    must_set(&mut other, &[("proto-max-bulk-len", "16mb")]);
    begun
        .send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2000\r\n")
        .expect("sent");
    until("it has arrived", || {
        let list = text(&other.ask("CLIENT LIST"));
        list.lines()
            .any(|line| line.contains(" qbuf=") && !line.contains(" qbuf=0 ") && !line.contains("cmd=client"))
    });
    must_set(&mut other, &[("proto-max-bulk-len", "1kb")]);
    begun.send_raw(&value).expect("sent");
    begun.send_raw(b"\r\n").expect("sent");
    assert_eq!(text(&begun.receive().expect("it was allowed")), "OK");
    let refused = text(&begun.call(&[b"SET", b"k", &value]).expect("an error"));
    assert!(
        refused.starts_with("ERR Protocol error: invalid bulk length"),
        "{refused}"
    );
    server.stop();
}

#[test]
fn maxmemory_follows() {
    let dir = TestDir::new("config-maxmemory", 1);
    let server = Idemd::start(&dir.data(), &small());
    let mut client = server.client();
    let value = vec![b'v'; 100 << 10];
    let put = |client: &mut Client, key: u32| {
        let key = format!("k{key}");
        text(
            &client
                .call(&[b"SET", key.as_bytes(), &value])
                .expect("it is answered"),
        )
    };
    for key in 0..30 {
        assert_eq!(put(&mut client, key), "OK");
    }
    must_set(&mut client, &[("maxmemory", "1mb")]);
    assert!(put(&mut client, 30).starts_with("OOM "));
    until("the operator is told", || {
        server.stderr().contains("and maxmemory is 1048576")
    });
    must_set(&mut client, &[("maxmemory-policy", "allkeys-random")]);
    assert_eq!(put(&mut client, 31), "OK");
    assert!(info(&mut client, "evicted_keys") > 15);
    must_set(
        &mut client,
        &[("maxmemory", "0"), ("maxmemory-policy", "noeviction")],
    );
    for key in 0..30 {
        assert_eq!(put(&mut client, key), "OK");
    }
    assert_eq!(client.ask("DBSIZE"), Value::Int(31));
    server.stop();
}
