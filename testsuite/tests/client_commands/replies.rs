//! Which replies are sent.

use idem_protocol::resp::value::Value;
use idem_testsuite::process::client::encode_command;
use idem_testsuite::process::{Idemd, IdemdOptions, Strace};
use idem_testsuite::require::skip;
use idem_testsuite::testdir::TestDir;

use super::{is_silent, ok, send};

/// Replies are off, messages are not: what comes is what was asked for, and nothing out of place.
#[test]
fn replies_that_are_off() {
    let dir = TestDir::new("client-reply", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let (mut client, mut publisher) = (server.client(), server.client());
    client.ask("HELLO 3");
    client.ask("SUBSCRIBE news");
    for line in [
        "CLIENT REPLY OFF",
        "SET k v",
        "NOSUCH",
        "GET k",
        "SAVE",
        "SUBSCRIBE more",
    ] {
        send(&mut client, line);
    }
    let subscribed = client.receive().unwrap();
    assert!(
        matches!(&subscribed, Value::Push(items) if items[2] == Value::Int(2)),
        "{subscribed:?}"
    );
    assert_eq!(publisher.ask("GET k"), Value::Bulk(b"v".to_vec()));
    assert_eq!(publisher.ask("PUBLISH news hello"), Value::Int(1));
    let message = client.receive().unwrap();
    assert!(matches!(&message, Value::Push(items) if items[2] == Value::Bulk(b"hello".to_vec())));
    // Published to itself: the reply is off, the message comes.
    send(&mut client, "PUBLISH news own");
    let message = client.receive().unwrap();
    assert!(matches!(&message, Value::Push(items) if items[2] == Value::Bulk(b"own".to_vec())));
    assert_eq!(client.ask("CLIENT REPLY ON"), ok());
    // A whole pipeline in which every other reply is skipped.
    let mut bytes = Vec::new();
    for number in 0..1000 {
        let number = number.to_string();
        bytes.extend(encode_command(&[b"CLIENT", b"REPLY", b"SKIP"]));
        bytes.extend(encode_command(&[b"SET", b"n", number.as_bytes()]));
        bytes.extend(encode_command(&[b"GET", b"n"]));
    }
    client.send_raw(&bytes).unwrap();
    for number in 0..1000 {
        assert_eq!(
            client.receive().unwrap(),
            Value::Bulk(number.to_string().into_bytes())
        );
    }
}

/// A message tells that the writes before it have happened, also when their replies are off: it waits for the disk.
#[test]
fn a_message_waits_for_what_no_reply_tells() {
    if !Strace::available() {
        return skip(
            "a_message_waits_for_what_no_reply_tells",
            "strace may not trace here",
        );
    }
    let dir = TestDir::new("client-reply-publish", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let (mut publisher, mut subscriber) = (server.client(), server.client());
    subscriber.ask("SUBSCRIBE news");
    send(&mut publisher, "CLIENT REPLY OFF");
    let slow = ["fdatasync:delay_enter=1000000"];
    let strace = Strace::attach_thread(server.pid(), "wal", &dir.path().join("trace"), &slow);
    send(&mut publisher, "SET k v");
    send(&mut publisher, "PUBLISH news k");
    assert!(is_silent(&mut subscriber), "the message came before the sync");
    assert!(subscriber.receive().is_ok());
    drop(strace);
}
