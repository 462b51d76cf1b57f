//! Publish and subscribe with real sockets: who gets what, in which order, as which bytes, and what a subscriber that does
//! not read costs the others. (That a message waits for what its publisher wrote before it is in `sabotage.rs`, beside a
//! build in which it does not.)

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

mod bytes;
mod delivery;
mod limits;

use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::process::{Client, Idemd, IdemdOptions};
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
