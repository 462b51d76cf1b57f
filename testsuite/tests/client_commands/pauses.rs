//! What a pause holds, and whom it lets go.

use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::process::{Client, Idemd, IdemdOptions};
use idem_testsuite::testdir::TestDir;

use super::{LONG, PATIENCE, id, info, is_closed, is_silent, ok, options, send, text, until};

#[test]
fn a_pause_holds_and_lets_go() {
    let dir = TestDir::new("client-pause", 1);
    let server = Idemd::start(&dir.data(), &options());
    let mut operator = server.client();
    let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
    assert_eq!(operator.ask(&format!("CLIENT PAUSE {LONG} WRITE")), ok());
    for (index, client) in clients.iter_mut().enumerate() {
        // A pipeline stays in order behind what is held.
        send(
            client,
            &format!("APPEND log {}", char::from(b'a' + u8::try_from(index).unwrap())),
        );
        send(client, "GET log");
        until(
            &mut operator,
            "blocked_clients",
            u64::try_from(index).unwrap() + 1,
        );
    }
    assert_eq!(
        operator.ask("GET log"),
        Value::Null,
        "nothing of it has happened, and reads go on"
    );
    let flags = text(operator.ask("CLIENT LIST"));
    assert_eq!(flags.matches(" flags=b ").count(), 20);
    assert!(clients.iter_mut().take(2).all(is_silent));
    assert_eq!(operator.ask("CLIENT UNPAUSE"), ok());
    for (index, client) in clients.iter_mut().enumerate() {
        let length = i64::try_from(index).unwrap() + 1;
        assert_eq!(
            client.receive().unwrap(),
            Value::Int(length),
            "in the order of arrival"
        );
        client.receive().unwrap();
    }
    assert_eq!(
        operator.ask("GET log"),
        Value::Bulk(b"abcdefghijklmnopqrst".to_vec())
    );
    // Everything is held but what ends it, from whatever connection; and it ends by itself.
    assert_eq!(operator.ask(&format!("CLIENT PAUSE {LONG}")), ok());
    send(&mut clients[0], "PING");
    send(&mut clients[1], "CLIENT LIST");
    assert!(is_silent(&mut clients[0]) && is_silent(&mut clients[1]));
    assert_eq!(clients[2].ask("CLIENT UNPAUSE"), ok());
    assert_eq!(clients[0].receive().unwrap(), Value::Simple("PONG".into()));
    clients[1].receive().unwrap();
    for ms in [0, 1, 30, 300] {
        let begun = Instant::now();
        assert_eq!(operator.ask(&format!("CLIENT PAUSE {ms} ALL")), ok());
        assert_eq!(clients[3].ask("PING"), Value::Simple("PONG".into()));
        assert!(begun.elapsed() >= Duration::from_millis(ms), "{ms}");
    }
}

/// Who gives up while it is held has not had its command carried out, and its place is free at once.
#[test]
fn who_leaves_during_a_pause_is_gone() {
    let dir = TestDir::new("client-pause-leave", 1);
    let server = Idemd::start(&dir.data(), &options().option("maxclients", "4"));
    let (mut operator, mut killed) = (server.client(), server.client());
    let number = id(&mut killed);
    assert_eq!(operator.ask(&format!("CLIENT PAUSE {LONG} WRITE")), ok());
    send(&mut killed, "SET killed v");
    for round in 0..10 {
        let mut leaver = server.client();
        send(&mut leaver, "SET left v");
        // More of it arrives while it waits, and some of it is not complete.
        send(&mut leaver, "SET left again");
        leaver.send_raw(b"*3\r\n$3\r\nSET\r\n").unwrap();
        until(&mut operator, "blocked_clients", 2);
        drop(leaver);
        until(&mut operator, "connected_clients", 2);
        assert_eq!(info(&mut operator, "rejected_connections"), 0, "{round}");
    }
    assert_eq!(operator.ask(&format!("CLIENT KILL ID {number}")), Value::Int(1));
    assert!(is_closed(&mut killed));
    until(&mut operator, "blocked_clients", 0);
    assert_eq!(operator.ask("CLIENT UNPAUSE"), ok());
    assert_eq!(operator.ask("EXISTS left killed"), Value::Int(0));
}

/// A stop does not wait for a pause: what had arrived is answered.
#[test]
fn a_pause_ends_with_the_server() {
    let dir = TestDir::new("client-pause-stop", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let (mut operator, mut client) = (server.client(), server.client());
    assert_eq!(operator.ask(&format!("CLIENT PAUSE {LONG}")), ok());
    send(&mut client, "SET k v");
    assert!(is_silent(&mut client));
    let begun = Instant::now();
    server.sigterm();
    assert_eq!(client.receive().unwrap(), ok());
    assert_eq!(server.wait_exit(PATIENCE).code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

/// Who is held is not idle, and an idle client of a paused server still is.
#[test]
fn a_pause_and_the_timeout() {
    let dir = TestDir::new("client-pause-timeout", 1);
    let server = Idemd::start(&dir.data(), &options().option("timeout", "1"));
    let (mut operator, mut held, mut idle) = (server.client(), server.client(), server.client());
    assert_eq!(operator.ask(&format!("CLIENT PAUSE {LONG} WRITE")), ok());
    send(&mut held, "SET k v");
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        operator.ask("PING");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(is_closed(&mut idle));
    assert_eq!(operator.ask("CLIENT UNPAUSE"), ok());
    assert_eq!(held.receive().unwrap(), ok());
}
