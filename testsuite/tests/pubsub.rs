//! Publish and subscribe with real sockets: who gets what, in which order, as which bytes, and what a subscriber that does
//! not read costs the others. (That a message waits for what its publisher wrote before it is in `sabotage.rs`, beside a
//! build in which it does not.)

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::contract::RedisTarget;
use idem_testsuite::process::client::encode_command;
use idem_testsuite::process::{Client, ClientError, Idemd, IdemdOptions};
use idem_testsuite::require::skip;
use idem_testsuite::testdir::TestDir;

const PATIENCE: Duration = Duration::from_secs(20);

/// Without syncs: nothing here is about them.
fn options() -> IdemdOptions {
    IdemdOptions::default().option("appendfsync", "no")
}

fn start(dir: &TestDir, options: &IdemdOptions) -> Idemd {
    Idemd::start(&dir.data(), options)
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn message(channel: &str, text: &str) -> Vec<Value> {
    vec![bulk("message"), bulk(channel), bulk(text)]
}

/// A client that is subscribed to a channel.
fn subscriber(server: &Idemd, protocol: &str, channel: &str) -> Client {
    let mut client = server.client();
    client.ask(&format!("HELLO {protocol}"));
    client.ask(&format!("SUBSCRIBE {channel}"));
    client
}

/// Asks until the answer is the expected one; a connection that was closed is noticed a little later.
fn until(client: &mut Client, words: &str, expected: &Value) {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = client.ask(words);
        if found == *expected {
            return;
        }
        assert!(Instant::now() < end, "`{words}` still answers {found:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn info(client: &mut Client, field: &str) -> u64 {
    let Value::Bulk(text) = client.ask("INFO") else {
        panic!("INFO answers a string");
    };
    let text = String::from_utf8(text).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("INFO has {field}"))
        .parse()
        .unwrap()
}

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

/// A subscriber that does not read is dropped at its limit; the publisher is never held up, and who reads gets everything.
#[test]
fn a_subscriber_that_does_not_read_is_dropped() {
    let dir = TestDir::new("pubsub-slow", 1);
    let options = options().option("client-output-buffer-limit", "4mb");
    let server = start(&dir, &options);
    let mut slow = subscriber(&server, "2", "news");
    let mut reader = subscriber(&server, "3", "news");
    let mut publisher = server.client();
    let text = "x".repeat(100_000);
    let begin = Instant::now();
    let mut published = 0;
    // The kernel takes a few megabytes for a client that does not read.
    let receivers = loop {
        assert!(published < 1000, "100 MB are sent and nobody is dropped");
        let sent = Instant::now();
        let Ok(Value::Int(receivers)) = publisher.call(&[b"PUBLISH", b"news", text.as_bytes()]) else {
            panic!("PUBLISH answers a number");
        };
        assert!(
            sent.elapsed() < Duration::from_secs(5),
            "the publisher waited {:?}",
            sent.elapsed()
        );
        published += 1;
        assert_eq!(reader.receive().unwrap(), Value::Push(message("news", &text)));
        if receivers < 2 {
            break receivers;
        }
    };
    assert_eq!(receivers, 1, "the one that reads is still there");
    assert!(published > 40, "nothing is dropped below the limit: {published}");
    println!("dropped behind {published} messages, {:?}", begin.elapsed());
    assert_eq!(
        info(&mut publisher, "client_output_buffer_limit_disconnections"),
        1
    );
    assert!(
        info(&mut publisher, "client_buffers_bytes") < 4 << 20,
        "its memory has come back"
    );
    // What the kernel had is still read; then it ends, and is not left hanging.
    let end = loop {
        if let Err(error) = slow.receive() {
            break error;
        }
    };
    assert!(matches!(end, ClientError::Closed), "{end:?}");
}

/// Crowds that do not read are held back by the limit of all buffers together, whatever each of them may hold.
#[test]
fn many_that_do_not_read_stay_within_the_common_limit() {
    const LIMIT: u64 = 16 << 20;
    let dir = TestDir::new("pubsub-crowd", 1);
    let options = options().option("client-buffers-total", "16mb");
    let server = start(&dir, &options);
    let crowd: Vec<Client> = (0..100).map(|_| subscriber(&server, "2", "news")).collect();
    let (mut publisher, mut observer) = (server.client(), server.client());
    let text = "x".repeat(1 << 20);
    let mut least = 100;
    for _ in 0..20 {
        let Ok(Value::Int(receivers)) = publisher.call(&[b"PUBLISH", b"news", text.as_bytes()]) else {
            panic!("PUBLISH answers a number");
        };
        least = receivers.min(least);
        let held = info(&mut observer, "client_buffers_bytes");
        assert!(held <= LIMIT + (4 << 20), "{held} bytes are held");
    }
    assert!(least < 100, "some had to go");
    drop(crowd);
}

/// What one client says and gets, byte for byte, beside Redis. (Publishing to oneself is not in it: Redis 7.0 sends the
/// message before the reply.)
#[test]
fn bytes_are_those_of_redis() {
    const LINES: &[&str] = &[
        "SUBSCRIBE a b a",
        "GET x",
        "CONFIG GET nothing",
        "NOSUCH",
        "GET",
        "PING",
        "PING hi",
        "PING a b",
        "PSUBSCRIBE p* q*",
        "UNSUBSCRIBE b nothing",
        "UNSUBSCRIBE",
        "UNSUBSCRIBE",
        "PUNSUBSCRIBE q*",
        "PUBSUB NUMPAT",
        "SELECT 1",
        "ECHO x",
        "CLIENT ID x",
        "PUBLISH nobody x",
        "SUBSCRIBE",
        "RESET",
        "PING",
        "PUBSUB CHANNELS x*",
        "PUBSUB NUMSUB",
        "PUNSUBSCRIBE",
        "SUBSCRIBE last",
        "QUIT",
    ];
    let dir = TestDir::new("pubsub-bytes", 1);
    let redis = match RedisTarget::start(&dir.path().join("redis")) {
        Ok(redis) => redis,
        Err(reason) => return skip("bytes_are_those_of_redis", &reason),
    };
    let server = start(&dir, &options());
    for protocol in ["2", "3"] {
        let (ours, theirs) = (
            conversation(server.address(), protocol, LINES),
            conversation(redis.address(), protocol, LINES),
        );
        assert_eq!(
            String::from_utf8_lossy(&ours),
            String::from_utf8_lossy(&theirs),
            "RESP{protocol}"
        );
    }
}

/// Everything that comes until the server closes, behind the reply of HELLO.
fn conversation(address: SocketAddr, protocol: &str, lines: &[&str]) -> Vec<u8> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut hello = Client::connect(address).unwrap();
    assert!(hello.ask(&format!("HELLO {protocol}")).entry(b"proto").is_some());
    if protocol == "3" {
        stream.write_all(b"HELLO 3\r\n").unwrap();
        // Its reply names the server and is not compared; it ends with an empty list of modules.
        let mut seen = Vec::new();
        let mut byte = [0];
        while !seen.ends_with(b"modules\r\n*0\r\n") {
            stream.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
        }
    }
    let all: String = lines.iter().flat_map(|line| [line, "\r\n"]).collect();
    stream.write_all(all.as_bytes()).unwrap();
    let mut out = Vec::new();
    stream.read_to_end(&mut out).unwrap();
    out
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

/// What names take is bounded for each connection, and counted with its buffers.
#[test]
fn names_are_bounded_and_counted() {
    let dir = TestDir::new("pubsub-names", 1);
    let server = start(&dir, &options());
    let (mut client, mut observer) = (server.client(), server.client());
    let name = |letter: &str| letter.repeat(12 << 20).into_bytes();
    let before = info(&mut observer, "client_buffers_bytes");
    client.call(&[b"SUBSCRIBE", &name("a")]).unwrap();
    client.call(&[b"SUBSCRIBE", b"short"]).unwrap();
    let held = info(&mut observer, "client_buffers_bytes") - before;
    assert!((12 << 20..14 << 20).contains(&held), "{held}");
    let refused = client.call(&[b"SUBSCRIBE", b"other", &name("b")]).unwrap();
    let expected = "ERR the subscriptions of this connection would take more than 16777216 bytes";
    assert_eq!(refused.as_error(), Some(expected));
    assert_eq!(
        observer.ask("PUBSUB CHANNELS s*"),
        Value::Array(vec![bulk("short")])
    );
    assert_eq!(info(&mut observer, "pubsub_channels"), 2);
    // Of a request that is refused nothing is kept.
    let many: Vec<&[u8]> = [b"SUBSCRIBE".as_slice()]
        .into_iter()
        .chain(std::iter::repeat_n(b"x".as_slice(), 16_385))
        .collect();
    assert_eq!(
        client.call(&many).unwrap().as_error(),
        Some("ERR more than 16384 names in one call, send several")
    );
    assert_eq!(info(&mut observer, "pubsub_channels"), 2);
    client.ask("UNSUBSCRIBE short");
    client.ask("RESET");
    let end = Instant::now() + PATIENCE;
    while info(&mut observer, "client_buffers_bytes") > before + (1 << 20) {
        assert!(Instant::now() < end, "the names' memory does not come back");
    }
}

/// `timeout` is for clients that say nothing and wait for nothing.
#[test]
fn a_subscriber_is_not_idle() {
    let dir = TestDir::new("pubsub-idle", 1);
    let server = start(&dir, &options().option("timeout", "1"));
    let mut client = subscriber(&server, "2", "news");
    let mut idle = server.client();
    idle.ask("PING");
    assert!(matches!(idle.receive(), Err(ClientError::Closed)));
    assert_eq!(server.client().ask("PUBLISH news late"), Value::Int(1));
    assert_eq!(client.receive().unwrap(), Value::Array(message("news", "late")));
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
