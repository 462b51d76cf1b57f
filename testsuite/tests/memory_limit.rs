//! `maxmemory` on the real server.
//!
//! Goal: a client that writes a million keys meets the limit and not the machine's; what is refused or evicted is counted;
//! the log replays, also under a limit that it exceeds. Method: one client, pipelined, 64 MiB.

use std::collections::BTreeMap;

use idem_protocol::resp::value::Value;
use idem_testsuite::process::{Client, Idemd, IdemdOptions, Policy};
use idem_testsuite::testdir::TestDir;
use idem_testsuite::walctl;

const KEYS: u64 = 1_000_000;
const DEPTH: u64 = 500;
const LIMIT: u64 = 64 << 20;
/// What one command may add beyond the limit, growth of a table included.
const ONE_COMMAND: u64 = 1 << 20;

fn options(policy: &str) -> IdemdOptions {
    IdemdOptions::default()
        .policy(Policy::Everysec)
        .option("maxmemory", "64mb")
        .option("maxmemory-policy", policy)
}

/// Sends a command for each key and counts the replies by what they are.
fn write_all(client: &mut Client, command: impl Fn(&[u8]) -> Vec<Vec<u8>>) -> BTreeMap<String, u64> {
    let mut replies = BTreeMap::new();
    for first in (0..KEYS).step_by(usize::try_from(DEPTH).expect("it is small")) {
        let mut batch = Vec::new();
        for key in first..first + DEPTH {
            let words = command(format!("key:{key:012}").as_bytes());
            batch.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                batch.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                batch.extend_from_slice(&word);
                batch.extend_from_slice(b"\r\n");
            }
        }
        client.send_raw(&batch).expect("the server reads");
        for _ in 0..DEPTH {
            let reply = match client.receive().expect("every command has a reply") {
                Value::Simple(text) | Value::Error(text) => text,
                Value::Array(items) => format!("{items:?}"),
                other => format!("{other:?}"),
            };
            *replies.entry(reply).or_insert(0) += 1;
        }
    }
    replies
}

/// A number of INFO.
fn info(client: &mut Client, field: &str) -> u64 {
    let Value::Bulk(text) = client.ask("INFO") else {
        panic!("INFO is text");
    };
    let text = String::from_utf8(text).expect("INFO is text");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{field}:")));
    let line = line.unwrap_or_else(|| panic!("no {field} in INFO"));
    line.parse().unwrap_or_else(|_| panic!("{field} is {line}"))
}

fn begin(key: &[u8]) -> Vec<Vec<u8>> {
    let words: [&[u8]; 6] = [b"IDEM", key, b"BEGIN", &[b'f'; 64], &[b'o'; 32], b"600000000"];
    words.map(<[u8]>::to_vec).to_vec()
}

/// Whatever evicts, records of IDEM stay: both policies refuse, and not one key goes.
#[test]
fn a_million_operations_meet_the_limit() {
    for policy in ["noeviction", "allkeys-lru"] {
        let dir = TestDir::new("memory-idem", 1);
        let server = Idemd::start(&dir.data(), &options(policy));
        let mut client = server.client();
        let replies = write_all(&mut client, begin);
        let oom: Vec<_> = replies
            .iter()
            .filter(|(reply, _)| reply.starts_with("OOM "))
            .collect();
        let [(_, refused)] = oom[..] else {
            panic!("{policy}: {replies:?}");
        };
        let acquired = KEYS - refused;
        assert_eq!(replies.len(), 2, "{policy}: {replies:?}");
        // 160 bytes a record and its places; no limit would have taken all of them.
        assert!(
            (300_000..450_000).contains(&acquired),
            "{policy}: {acquired} acquired"
        );
        assert_eq!(info(&mut client, "evicted_keys"), 0);
        assert_eq!(info(&mut client, "idem_records"), acquired);
        assert_eq!(client.ask("DBSIZE"), Value::Int(i64::try_from(acquired).unwrap()));
        let used = info(&mut client, "used_memory");
        assert!((LIMIT..LIMIT + ONE_COMMAND).contains(&used), "{policy}: {used}");
        let resident = info(&mut client, "used_memory_rss");
        assert!(resident < 2 * LIMIT, "{policy}: {resident} bytes resident");
        // What would not write is answered, and ABORT makes room.
        let first = "key:000000000000";
        let (fingerprint, owner) = ("f".repeat(64), "o".repeat(32));
        assert_eq!(
            client.ask(&format!("IDEM {first} BEGIN {fingerprint} other 1000")),
            Value::Array(vec![Value::Bulk(b"pending".to_vec())])
        );
        while info(&mut client, "used_memory") > LIMIT {
            let key = info(&mut client, "idem_aborted");
            assert_eq!(
                client.ask(&format!("IDEM key:{key:012} ABORT {fingerprint} {owner}")),
                Value::Int(1)
            );
        }
        assert_eq!(client.ask("ONCE new 1000"), Value::Int(1));
    }
}

/// Ordinary keys are evicted, and only as many as have to be. A restart finds what was left, also under a smaller limit.
#[test]
fn a_million_keys_push_each_other_out() {
    let dir = TestDir::new("memory-evict", 1);
    let server = Idemd::start(
        &dir.data(),
        &options("allkeys-lru").option("snapshot-wal-bytes", "32mb"),
    );
    let mut client = server.client();
    let fingerprint = "f".repeat(64);
    assert_eq!(
        client.ask(&format!("IDEM operation BEGIN {fingerprint} owner 600000000")),
        Value::Array(vec![Value::Bulk(b"acquired".to_vec())])
    );
    let value = vec![b'v'; 100];
    let replies = write_all(&mut client, |key| {
        vec![b"SET".to_vec(), key.to_vec(), value.clone()]
    });
    assert_eq!(replies, BTreeMap::from([("OK".to_owned(), KEYS)]));
    let (used, evicted) = (
        info(&mut client, "used_memory"),
        info(&mut client, "evicted_keys"),
    );
    assert!((LIMIT * 9 / 10..LIMIT + ONE_COMMAND).contains(&used), "{used}");
    let resident = info(&mut client, "used_memory_rss");
    assert!(resident < 2 * LIMIT, "{resident} bytes resident");
    let Value::Int(left) = client.ask("DBSIZE") else {
        panic!("DBSIZE is a number");
    };
    assert_eq!(u64::try_from(left).unwrap() + evicted, KEYS + 1);
    assert_eq!(
        client.ask(&format!("IDEM operation BEGIN {fingerprint} other 1000")),
        Value::Array(vec![Value::Bulk(b"pending".to_vec())])
    );
    server.sigkill();

    let verdict = walctl::verify(&dir.data());
    assert!([0, 2, 3].contains(&verdict.code), "{}", verdict.last());
    // The log holds four times as much as this limit; nothing is evicted before somebody writes.
    let smaller = IdemdOptions::default()
        .policy(Policy::Everysec)
        .option("maxmemory", "16mb")
        .option("maxmemory-policy", "allkeys-random");
    let server = Idemd::start(&dir.data(), &smaller);
    let mut client = server.client();
    assert_eq!(client.ask("DBSIZE"), Value::Int(left));
    assert_eq!(info(&mut client, "evicted_keys"), 0);
    assert!(info(&mut client, "used_memory") > 3 * info(&mut client, "maxmemory"));
    // The first write waits until there is room, and is no error.
    assert_eq!(client.ask("SET new value"), Value::Simple("OK".into()));
    assert!(info(&mut client, "used_memory") <= (16 << 20) + ONE_COMMAND);
    assert!(info(&mut client, "evicted_keys") > 100_000);
    assert_eq!(
        client.ask(&format!("IDEM operation BEGIN {fingerprint} other 1000")),
        Value::Array(vec![Value::Bulk(b"pending".to_vec())])
    );
    server.stop();
    assert_eq!(walctl::verify(&dir.data()).letter(), "A");
}
