//! CLIENT with real connections: who is listed, who is ended and what of its work happens, what a pause holds and whom it
//! lets go, which replies are sent. And what goes by the clock: the slow log and the latency events.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

mod listing;
mod pauses;
mod replies;
mod watching;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::process::{Client, ClientError, IdemdOptions};

const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough for a reply that is not held to have come, were it sent.
const SILENCE: Duration = Duration::from_millis(150);

/// A pause that no test waits for.
const LONG: &str = "600000";

/// Without syncs: what is about them asks for them.
fn options() -> IdemdOptions {
    IdemdOptions::default()
        .option("appendfsync", "no")
        .option("enable-debug-command", "yes")
}

fn text(value: Value) -> String {
    let bytes = value.as_bytes().unwrap_or_else(|| panic!("no text: {value:?}"));
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The fields of one line, in order.
fn fields(line: &str) -> Vec<(&str, &str)> {
    line.split(' ')
        .map(|field| field.split_once('=').unwrap())
        .collect()
}

/// A client's own line.
fn own(client: &mut Client) -> BTreeMap<String, String> {
    let line = text(client.ask("CLIENT INFO"));
    let line = line.strip_suffix('\n').expect("a line ends");
    fields(line)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn id(client: &mut Client) -> String {
    client.ask("CLIENT ID").as_int().unwrap().to_string()
}

/// The lines of a listing, by their ids.
fn listed(client: &mut Client, how: &str) -> Vec<String> {
    let lines = text(client.ask(&format!("CLIENT LIST{how}")));
    lines.lines().map(|line| fields(line)[0].1.to_owned()).collect()
}

fn info(client: &mut Client, field: &str) -> u64 {
    let all = text(client.ask("INFO"));
    let line = all
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("INFO has {field}"))
        .parse()
        .unwrap()
}

/// Waits until so many connections are there, or wait for something.
fn until(client: &mut Client, field: &str, expected: u64) {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = info(client, field);
        if found == expected {
            return;
        }
        assert!(Instant::now() < end, "{field} is still {found}, not {expected}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(client: &mut Client, words: &str) {
    let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    client.send(&args).unwrap();
}

fn is_silent(client: &mut Client) -> bool {
    client.set_timeout(SILENCE);
    let silent = matches!(client.receive(), Err(ClientError::Timeout));
    client.set_timeout(PATIENCE);
    silent
}

fn is_closed(client: &mut Client) -> bool {
    matches!(client.receive(), Err(ClientError::Closed))
}

fn ok() -> Value {
    Value::Simple("OK".into())
}
