//! What subscribers that do not read, or that subscribe without end, cost the others.

use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::process::{Client, ClientError};
use idem_testsuite::testdir::TestDir;

use crate::{PATIENCE, bulk, info, message, options, start, subscriber};

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
