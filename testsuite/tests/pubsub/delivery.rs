//! Who gets what, in which order, in which protocol.

use std::time::Instant;

use idem_protocol::resp::value::Value;
use idem_testsuite::process::Client;
use idem_testsuite::process::client::encode_command;
use idem_testsuite::testdir::TestDir;

use crate::{PATIENCE, bulk, info, message, options, start, subscriber, until};

/// Every subscriber gets every message, in the order in which they were published, whatever it speaks.
#[test]
fn all_get_everything_in_order() {
    const SUBSCRIBERS: usize = 100;
    const MESSAGES: usize = 2000;
    let dir = TestDir::new("pubsub-all", 1);
    let server = start(&dir, &options());
    let mut subscribers: Vec<Client> = (0..SUBSCRIBERS)
        .map(|index| subscriber(&server, if index % 2 == 0 { "2" } else { "3" }, "news"))
        .collect();
    let mut publisher = server.client();
    assert_eq!(
        publisher.ask("PUBSUB NUMSUB news"),
        Value::Array(vec![bulk("news"), Value::Int(100)])
    );
    let pipeline: Vec<u8> = (0..MESSAGES)
        .flat_map(|index| encode_command(&[b"PUBLISH", b"news", index.to_string().as_bytes()]))
        .collect();
    publisher.send_raw(&pipeline).unwrap();
    for _ in 0..MESSAGES {
        assert_eq!(publisher.receive().unwrap(), Value::Int(100));
    }
    for (index, client) in subscribers.iter_mut().enumerate() {
        for number in 0..MESSAGES {
            let expected = message("news", &number.to_string());
            let expected = if index % 2 == 0 {
                Value::Array(expected)
            } else {
                Value::Push(expected)
            };
            assert_eq!(client.receive().unwrap(), expected);
        }
    }
    drop(subscribers);
    until(
        &mut publisher,
        "PUBSUB NUMSUB news",
        &Value::Array(vec![bulk("news"), Value::Int(0)]),
    );
    assert_eq!(publisher.ask("PUBSUB CHANNELS"), Value::Array(vec![]));
    assert_eq!(
        info(&mut publisher, "client_output_buffer_limit_disconnections"),
        0
    );
    server.stop();
}

/// The end of a connection and RESET end its subscriptions, however many they are; INFO counts.
#[test]
fn what_ends_leaves_nothing() {
    let dir = TestDir::new("pubsub-ends", 1);
    let server = start(&dir, &options());
    let mut observer = server.client();
    let counts = |observer: &mut Client| {
        ["pubsub_channels", "pubsub_patterns", "pubsub_clients"].map(|field| info(observer, field))
    };
    let mut client = server.client();
    client.ask("SUBSCRIBE a");
    for name in ["b", "c"] {
        client.ask(&format!("PSUBSCRIBE {name}*"));
    }
    let mut other = server.client();
    other.ask("SUBSCRIBE a");
    assert_eq!(counts(&mut observer), [1, 2, 2]);
    assert_eq!(observer.ask("PUBSUB NUMPAT"), Value::Int(2));
    client.ask("RESET");
    assert_eq!(counts(&mut observer), [1, 0, 1]);
    drop(other);
    let end = Instant::now() + PATIENCE;
    while counts(&mut observer) != [0, 0, 0] {
        assert!(Instant::now() < end, "{:?}", counts(&mut observer));
    }
}

/// As in Redis 7.2: the reply of PUBLISH comes first, then the message, then the reply of the next command.
#[test]
fn a_client_reads_its_own_message_behind_the_reply() {
    let dir = TestDir::new("pubsub-self", 1);
    let server = start(&dir, &options());
    let mut client = subscriber(&server, "3", "own");
    let pipeline = [
        encode_command(&[b"PUBLISH", b"own", b"1"]),
        encode_command(&[b"SET", b"k", b"v"]),
        encode_command(&[b"PUBLISH", b"own", b"2"]),
        encode_command(&[b"UNSUBSCRIBE", b"own"]),
        encode_command(&[b"PUBLISH", b"own", b"3"]),
        encode_command(&[b"GET", b"k"]),
    ];
    client.send_raw(&pipeline.concat()).unwrap();
    for expected in [
        Value::Int(1),
        Value::Push(message("own", "1")),
        Value::Simple("OK".into()),
        Value::Int(1),
        Value::Push(message("own", "2")),
        Value::Push(vec![bulk("unsubscribe"), bulk("own"), Value::Int(0)]),
        Value::Int(0),
        bulk("v"),
    ] {
        assert_eq!(client.receive().unwrap(), expected);
    }
}

/// A message is encoded for what its receiver spoke when it was published.
#[test]
fn a_change_of_protocol_comes_behind_what_was_published_before() {
    let dir = TestDir::new("pubsub-hello", 1);
    let server = start(&dir, &options());
    let mut client = subscriber(&server, "3", "own");
    let pipeline = [
        encode_command(&[b"PUBLISH", b"own", b"1"]),
        encode_command(&[b"HELLO", b"2"]),
    ];
    client.send_raw(&pipeline.concat()).unwrap();
    assert_eq!(client.receive().unwrap(), Value::Int(1));
    assert_eq!(client.receive().unwrap(), Value::Push(message("own", "1")));
    assert!(matches!(client.receive().unwrap(), Value::Array(_)));
    server.client().ask("PUBLISH own 2");
    assert_eq!(client.receive().unwrap(), Value::Array(message("own", "2")));
    assert!(
        client
            .ask("GET k")
            .as_error()
            .is_some_and(|text| text.contains("allowed in this context"))
    );
}

/// What Sentinels do: each says hello on one connection and hears it, its own included, on another.
#[test]
fn a_hello_comes_back_to_who_said_it() {
    const CHANNEL: &str = "__sentinel__:hello";
    let dir = TestDir::new("pubsub-hello", 1);
    let server = start(&dir, &options());
    let mut listening: Vec<Client> = (0..3).map(|_| subscriber(&server, "2", CHANNEL)).collect();
    let mut speaking: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for (index, client) in speaking.iter_mut().enumerate() {
        let hello = format!(
            "127.0.0.1,2638{index},{},0,mymaster,127.0.0.1,6379,0",
            "ab".repeat(20)
        );
        assert_eq!(
            client
                .call(&[b"PUBLISH", CHANNEL.as_bytes(), hello.as_bytes()])
                .unwrap(),
            Value::Int(3)
        );
        for client in &mut listening {
            assert_eq!(client.receive().unwrap(), Value::Array(message(CHANNEL, &hello)));
            // It keeps the connection alive like this.
            assert_eq!(client.ask("PING"), Value::Array(vec![bulk("pong"), bulk("")]));
        }
    }
    server.stop();
}

/// In a transaction a message leaves when it is carried out: others get it, the own connection reads it behind the reply of
/// EXEC. What has several replies is refused while it is queued, and takes the transaction with it.
#[test]
fn in_a_transaction() {
    let dir = TestDir::new("pubsub-exec", 1);
    let server = start(&dir, &options());
    let mut other = subscriber(&server, "2", "news");
    let mut client = subscriber(&server, "3", "news");
    client.ask("MULTI");
    client.ask("SET k v");
    assert_eq!(client.ask("PUBLISH news 1"), Value::Simple("QUEUED".into()));
    client.ask("PUBLISH nobody 2");
    let replies = vec![Value::Simple("OK".into()), Value::Int(2), Value::Int(0)];
    assert_eq!(client.ask("EXEC"), Value::Array(replies));
    assert_eq!(client.receive().unwrap(), Value::Push(message("news", "1")));
    assert_eq!(other.receive().unwrap(), Value::Array(message("news", "1")));
    for command in ["SUBSCRIBE a", "PSUBSCRIBE a", "UNSUBSCRIBE", "PUNSUBSCRIBE a"] {
        client.ask("MULTI");
        client.ask("PUBLISH news never");
        let refused = client.ask(command);
        assert!(refused.as_error().is_some(), "{command}: {refused:?}");
        let end = client.ask("EXEC");
        assert!(
            end.as_error().is_some_and(|text| text.starts_with("EXECABORT")),
            "{end:?}"
        );
    }
    // A transaction that is given up leaves the subscriptions; RESET ends both.
    client.ask("MULTI");
    client.ask("PUBLISH news never");
    client.ask("DISCARD");
    assert_eq!(client.ask("PUBLISH news 3"), Value::Int(2));
    assert_eq!(client.receive().unwrap(), Value::Push(message("news", "3")));
    assert_eq!(other.receive().unwrap(), Value::Array(message("news", "3")));
    client.ask("MULTI");
    assert_eq!(client.ask("RESET"), Value::Simple("RESET".into()));
    assert_eq!(client.ask("PUBLISH news 4"), Value::Int(1));
}
