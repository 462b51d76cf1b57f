//! CONFIG on the real server: what can be changed while it runs, with which values, and that it has its effect.
//!
//! Goal: a value is taken exactly when the start would take it; what is refused changes nothing, whatever came with it; what
//! is taken is shown, holds for those who are connected already, and survives a restart through REWRITE. Method: one table
//! of options with good and bad values, CONFIG GET before and after, and a client that feels each limit.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_server::config::Options;
use idem_server::config::table::{OPTIONS, option};
use idem_testsuite::process::{Client, ClientError, Idemd, IdemdOptions, Policy};
use idem_testsuite::rng::Rng;
use idem_testsuite::testdir::TestDir;

/// How long an effect may take to show itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// An option that can be changed while the server runs: values with what GET shows then, and texts that are none.
type Row = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
);

const SIZE: &[&str] = &[
    "",
    "x",
    "-1",
    "+1",
    " 1",
    "1 mb",
    "1.5gb",
    "1tb",
    "18446744073709551616",
    "0x10",
];
const NUMBER: &[&str] = &[
    "",
    "x",
    "-1",
    "+1",
    " 1",
    "1 ",
    "1.0",
    "1e3",
    "99999999999999999999",
    "1mb",
    "٣",
];

const TABLE: &[Row] = &[
    (
        "appendfsync",
        &[("everysec", "everysec"), ("no", "no"), ("always", "always")],
        &["", "ALWAYS", "yes", "1"],
    ),
    (
        "proto-max-bulk-len",
        &[("1kb", "1024"), ("32MB", "33554432"), ("16mb", "16777216")],
        &["1023", "257mb", "33mb", "0"],
    ),
    (
        "maxmemory",
        &[("1gb", "1073741824"), ("100", "100"), ("0", "0")],
        SIZE,
    ),
    (
        "maxmemory-policy",
        &[("allkeys-lru", "allkeys-lru"), ("noeviction", "noeviction")],
        &["", "allkeys-lfu", "lru"],
    ),
    (
        "maxmemory-samples",
        &[("1", "1"), ("64", "64")],
        &["0", "65", "x", ""],
    ),
    (
        "idem-evictable",
        &[("yes", "yes"), ("no", "no")],
        &["", "true", "1", "YES"],
    ),
    (
        "maxclients",
        &[("50", "50"), ("100", "100")],
        &["0", "-1", "1000001", "x", ""],
    ),
    (
        "timeout",
        &[("3600", "3600"), ("4294967295", "4294967295"), ("0", "0")],
        NUMBER,
    ),
    (
        "client-output-buffer-limit",
        &[("1mb", "1048576"), ("64mb", "67108864")],
        &["0", "16383", "normal 0 0 0", "2tb"],
    ),
    (
        "client-query-buffer-limit",
        &[("64mb", "67108864"), ("32mb", "33554432")],
        &["0", "1mb", "16383", "x"],
    ),
    (
        "client-buffers-total",
        &[("2gb", "2147483648"), ("1g", "1000000000")],
        &["0", "1023kb", "x"],
    ),
    (
        "wal-segment-bytes",
        &[("2mb", "2097152"), ("1mb", "1048576")],
        &["0", "1023kb", "5gb"],
    ),
    ("wal-keep-bytes", &[("0", "0"), ("1gb", "1073741824")], SIZE),
    (
        "snapshot-wal-bytes",
        &[("4kb", "4096"), ("256mb", "268435456")],
        &["0", "4095", "x"],
    ),
    (
        "log-level",
        &[("trace", "trace"), ("error", "error"), ("info", "info")],
        &["", "INFO", "notice", "2"],
    ),
    (
        "slowlog-log-slower-than",
        &[("0", "0"), ("-1", "-1"), ("10000", "10000")],
        &["", "-2", "x", "9223372036854775808"],
    ),
    (
        "slowlog-max-len",
        &[("0", "0"), ("1000", "1000"), ("128", "128")],
        &["", "-1", "100001"],
    ),
    ("latency-monitor-threshold", &[("100", "100"), ("0", "0")], NUMBER),
];

fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).expect("options are text"),
        Value::Simple(text) | Value::Error(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// CONFIG GET.
fn get(client: &mut Client, pattern: &str) -> BTreeMap<String, String> {
    let Value::Array(items) = client.ask(&format!("CONFIG GET {pattern}")) else {
        panic!("CONFIG GET answers an array")
    };
    items
        .chunks(2)
        .map(|pair| (text(&pair[0]), text(&pair[1])))
        .collect()
}

/// CONFIG SET with arguments that may be empty or hold blanks; the reply's text.
fn set(client: &mut Client, pairs: &[(&str, &str)]) -> String {
    let mut words: Vec<&[u8]> = vec![b"CONFIG", b"SET"];
    for (name, value) in pairs {
        words.extend([name.as_bytes(), value.as_bytes()]);
    }
    text(&client.call(&words).expect("CONFIG SET is answered"))
}

fn must_set(client: &mut Client, pairs: &[(&str, &str)]) {
    assert_eq!(set(client, pairs), "OK", "{pairs:?}");
}

/// A number of INFO.
fn info(client: &mut Client, field: &str) -> u64 {
    let all = text(&client.ask("INFO everything"));
    let mark = format!("{field}:");
    let value = all.lines().find_map(|line| line.strip_prefix(mark.as_str()));
    let value = value.unwrap_or_else(|| panic!("no {field} in {all}"));
    value.parse().unwrap_or_else(|_| panic!("{field} is {value}"))
}

/// Looks again and again until it is so: for effects of other threads, which no reply tells of.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn small() -> IdemdOptions {
    IdemdOptions::default().option("wal-segment-bytes", "1mb")
}

/// A configuration file and the options of a start with it.
fn with_file(dir: &TestDir, contents: &str) -> (PathBuf, IdemdOptions) {
    let path = dir.path().join("idemd.toml");
    std::fs::write(&path, contents).expect("the directory is ours");
    let options = IdemdOptions::default().option("config", &path);
    (path, options)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the file is there")
}

#[test]
fn every_option_takes_what_a_start_takes_and_nothing_else() {
    let dir = TestDir::new("config-table", 1);
    let server = Idemd::start(&dir.data(), &small());
    let mut client = server.client();
    let begun = get(&mut client, "*");
    let named: Vec<&str> = TABLE.iter().map(|row| row.0).collect();
    for row in OPTIONS {
        assert_eq!(named.contains(&row.name), row.at_run_time, "{}", row.name);
    }
    for (name, good, bad) in TABLE {
        for (value, shown) in *good {
            must_set(&mut client, &[(name, value)]);
            assert_eq!(get(&mut client, name)[*name], *shown, "{name} {value}");
        }
        let before = get(&mut client, "*");
        for value in *bad {
            // Not even with something good in front of it or behind it.
            for pairs in [
                vec![(*name, *value)],
                vec![("maxmemory-samples", "7"), (*name, *value)],
                vec![(*name, *value), ("maxmemory-samples", "7")],
            ] {
                if pairs.len() > 1 && *name == "maxmemory-samples" {
                    continue;
                }
                let reply = set(&mut client, &pairs);
                let frame = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - ");
                assert!(
                    reply.starts_with(&frame) && reply.len() > frame.len(),
                    "{pairs:?}: {reply}"
                );
            }
            // The start refuses it as well, by itself or beside the defaults.
            let mut options = Options::default();
            let refused = (option(name).expect("it is an option").set)(&mut options, value).is_err();
            assert!(
                refused || idem_server::config::check(&options).is_err(),
                "{name} {value:?}"
            );
        }
        assert_eq!(get(&mut client, "*"), before, "{name}");
        must_set(&mut client, &[(name, &begun[*name])]);
    }
    assert_eq!(get(&mut client, "*"), begun);
    server.stop();
}

/// Everything that is no CONFIG SET that can be, and the file beside it.
#[test]
fn nonsense_changes_nothing() {
    let dir = TestDir::new("config-nonsense", 1);
    let (path, options) = with_file(&dir, "# mine\ntimeout = 60\n");
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    let before = get(&mut client, "*");
    let long = "9".repeat(1 << 20);
    let frame = |name: &str, reason: &str| {
        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
    };
    let unknown = |name: &str| format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'");
    let fixed = "can't set immutable config";
    for (pairs, reply) in [
        (vec![("nosuch", "1")], unknown("nosuch")),
        (vec![("", "")], unknown("")),
        (vec![("timeout\r\n+OK", "1")], unknown("timeout  +OK")),
        (vec![("time*", "1")], unknown("time*")),
        (vec![("config", "x")], unknown("config")),
        (
            vec![("hash-max-listpack-entries", "128")],
            unknown("hash-max-listpack-entries"),
        ),
        (vec![("timeout", "1"), ("nosuch", "1")], unknown("nosuch")),
        (
            vec![("timeout", "1"), ("TIMEOUT", "2")],
            frame("TIMEOUT", "duplicate parameter"),
        ),
        (
            vec![("timeout", "1"), ("timeout", "1")],
            frame("timeout", "duplicate parameter"),
        ),
        (
            vec![("save", ""), ("save", "")],
            frame("save", "duplicate parameter"),
        ),
        (vec![("timeout", "1"), ("save", "900 1")], frame("save", fixed)),
        (vec![("appendonly", "no")], frame("appendonly", fixed)),
        (
            vec![("timeout", "1"), ("replicaof", "a 1")],
            frame("replicaof", "this version does not have replication"),
        ),
        (
            vec![("proto-max-bulk-len", "40mb"), ("timeout", "1")],
            frame(
                "proto-max-bulk-len",
                "proto-max-bulk-len (40mb) is above client-query-buffer-limit (32mb): such an argument could never arrive",
            ),
        ),
        (
            vec![("timeout", "1"), ("client-query-buffer-limit", "1mb")],
            frame(
                "client-query-buffer-limit",
                "proto-max-bulk-len (16mb) is above client-query-buffer-limit (1mb): such an argument could never arrive",
            ),
        ),
        (
            vec![("timeout", &long)],
            frame("timeout", "a value has 4096 bytes at most"),
        ),
    ] {
        let pairs: Vec<(&str, &str)> = pairs;
        if pairs.iter().any(|(_, value)| value.len() > 64 << 10) {
            // Bounded with the names, before it is looked at.
            assert!(set(&mut client, &pairs).starts_with("ERR "), "a long value");
            continue;
        }
        assert_eq!(set(&mut client, &pairs), reply, "{pairs:?}");
    }
    for row in OPTIONS.iter().filter(|row| !row.at_run_time) {
        let own = before[row.name].clone();
        assert_eq!(set(&mut client, &[(row.name, &own)]), frame(row.name, fixed));
    }
    let bytes: [&[u8]; 4] = [b"CONFIG", b"SET", b"timeout", b"\xff\x00"];
    let reply = text(&client.call(&bytes).expect("it is answered"));
    assert_eq!(reply, frame("timeout", "the value is not UTF-8"));
    assert_eq!(
        text(&client.ask("CONFIG SET timeout 1 maxclients")),
        "ERR syntax error"
    );
    assert_eq!(
        text(&client.ask("CONFIG SET timeout")),
        "ERR wrong number of arguments for 'config|set' command"
    );
    assert_eq!(get(&mut client, "*"), before);
    // Nothing was changed, so there is nothing to write.
    assert_eq!(text(&client.ask("CONFIG REWRITE")), "OK");
    assert_eq!(read(&path), "# mine\ntimeout = 60\n");
    server.stop();
}

/// Two that contradict each other one by one, and not together.
#[test]
fn what_is_changed_together_is_judged_together() {
    let dir = TestDir::new("config-together", 1);
    let server = Idemd::start(&dir.data(), &small());
    let mut client = server.client();
    for pairs in [
        [
            ("proto-max-bulk-len", "64mb"),
            ("client-query-buffer-limit", "128mb"),
        ],
        [
            ("client-query-buffer-limit", "8mb"),
            ("proto-max-bulk-len", "4mb"),
        ],
    ] {
        assert!(set(&mut client, &pairs[..1]).starts_with("ERR "));
        must_set(&mut client, &pairs);
    }
    server.stop();
}

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

/// Lengths of the segments, by their names.
fn segments(data: &Path) -> Vec<u64> {
    let mut all: Vec<(String, u64)> = std::fs::read_dir(data.join("wal"))
        .expect("there is a log")
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let length = entry.metadata().ok()?.len();
            name.ends_with(".wal").then_some((name, length))
        })
        .collect();
    all.sort();
    all.into_iter().map(|(_, length)| length).collect()
}

#[test]
fn the_log_follows() {
    let dir = TestDir::new("config-log", 1);
    let server = Idemd::start(&dir.data(), &small().policy(Policy::No));
    let mut client = server.client();
    let value = vec![b'v'; 100 << 10];
    let fill = |client: &mut Client, megabytes: u32| {
        for _ in 0..megabytes * 10 {
            let reply = client.call(&[b"SET", b"k", &value]).expect("it is answered");
            assert_eq!(text(&reply), "OK");
        }
    };
    fill(&mut client, 4);
    assert!(segments(&dir.data()).iter().all(|length| *length == 1 << 20));
    must_set(&mut client, &[("wal-segment-bytes", "3mb")]);
    until("a segment of the new length", || {
        fill(&mut client, 1);
        segments(&dir.data()).last() == Some(&(3 << 20))
    });
    // A snapshot starts because of the distance of now; of two, the log behind the older one may go.
    assert_eq!(info(&mut client, "rdb_saves"), 0);
    must_set(&mut client, &[("snapshot-wal-bytes", "1mb")]);
    until("two snapshots", || {
        fill(&mut client, 1);
        info(&mut client, "rdb_saves") >= 2
    });
    must_set(&mut client, &[("snapshot-wal-bytes", "1gb")]);
    until("no snapshot is being made", || {
        info(&mut client, "rdb_bgsave_in_progress") == 0
    });
    let before = segments(&dir.data()).len();
    assert!(before > 4, "{before} segments");
    must_set(&mut client, &[("wal-keep-bytes", "0")]);
    until("less log is kept", || segments(&dir.data()).len() < before);
    server.stop();
}

/// `no` to `always` and back: what an answer means is what it says then.
#[test]
fn appendfsync_follows() {
    let dir = TestDir::new("config-fsync", 1);
    let server = Idemd::start(&dir.data(), &small().policy(Policy::No));
    let mut client = server.client();
    let writes = |client: &mut Client| {
        let before = info(client, "wal_syncs");
        for _ in 0..20 {
            assert_eq!(text(&client.ask("SET k v")), "OK");
        }
        (
            info(client, "wal_syncs") - before,
            info(client, "wal_lsn") - info(client, "wal_synced_lsn"),
        )
    };
    let (syncs, unsynced) = writes(&mut client);
    assert!(
        syncs == 0 && unsynced > 0,
        "{syncs} syncs, {unsynced} bytes unsynced"
    );
    for _ in 0..3 {
        must_set(&mut client, &[("appendfsync", "always")]);
        // A look at what was written before waits for its sync, too.
        assert_eq!(text(&client.ask("GET k")), "v");
        assert_eq!(info(&mut client, "wal_lsn"), info(&mut client, "wal_synced_lsn"));
        let (syncs, unsynced) = writes(&mut client);
        assert!(
            syncs >= 20 && unsynced == 0,
            "{syncs} syncs, {unsynced} bytes unsynced"
        );
        must_set(&mut client, &[("appendfsync", "no")]);
        client.ask("SET k v");
        until("everything handed over under always is done", || {
            info(&mut client, "wal_written_lsn") == info(&mut client, "wal_lsn")
        });
        let (syncs, unsynced) = writes(&mut client);
        assert!(
            syncs <= 1 && unsynced > 0,
            "{syncs} syncs, {unsynced} bytes unsynced"
        );
    }
    must_set(&mut client, &[("appendfsync", "everysec")]);
    until("what nobody was to sync is synced", || {
        info(&mut client, "wal_lsn") == info(&mut client, "wal_synced_lsn")
    });
    client.ask("SET k v");
    until("and so is what comes after it", || {
        info(&mut client, "wal_lsn") == info(&mut client, "wal_synced_lsn")
    });
    server.stop();
}

#[test]
fn the_log_level_follows() {
    let dir = TestDir::new("config-level", 1);
    let server = Idemd::start(&dir.data(), &small());
    let mut client = server.client();
    server.client().ask("PING");
    assert!(!server.stderr().contains("client connected"));
    must_set(&mut client, &[("log-level", "debug")]);
    until("lines of the new level", || {
        server.client().ask("PING");
        server.stderr().contains("client connected")
    });
    must_set(&mut client, &[("log-level", "error")]);
    must_set(&mut client, &[("timeout", "77")]);
    must_set(&mut client, &[("log-level", "info")]);
    must_set(&mut client, &[("timeout", "78")]);
    until("the change is logged", || {
        server.stderr().contains("CONFIG SET timeout 78")
    });
    assert!(!server.stderr().contains("CONFIG SET timeout 77"));
    server.stop();
}

#[test]
fn totals_begin_again_and_the_rest_stays() {
    let dir = TestDir::new("config-resetstat", 1);
    let server = Idemd::start(&dir.data(), &small());
    let mut client = server.client();
    for words in ["SET k v", "NOSUCH", "IDEM i BEGIN f o 60000", "HGET k f"] {
        client.ask(words);
    }
    let before = text(&client.ask("INFO everything"));
    assert!(before.contains("errorstat_WRONGTYPE"), "{before}");
    assert_eq!(text(&client.ask("CONFIG RESETSTAT")), "OK");
    let after = text(&client.ask("INFO everything"));
    for (field, most) in [
        ("total_commands_processed", 1),
        ("total_connections_received", 0),
        ("total_error_replies", 0),
        ("idem_acquired", 0),
        ("wal_syncs", 0),
        ("wal_sync_usec_max", 0),
        ("total_net_output_bytes", 5),
    ] {
        let value = after
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{field}:")));
        let value: u64 = value.and_then(|value| value.parse().ok()).expect(field);
        assert!(value <= most, "{field} is {value}");
    }
    assert!(!after.contains("errorstat_"), "{after}");
    for field in [
        "idem_records",
        "rdb_changes_since_last_save",
        "wal_lsn",
        "connected_clients",
        "run_id",
    ] {
        let line = |text: &str| {
            let found = text.lines().find(|line| line.starts_with(&format!("{field}:")));
            found.map(str::to_owned).expect(field)
        };
        assert_eq!(line(&before), line(&after));
    }
    server.stop();
}

const FILE: &str = "\
# idemd of the orders\n\
\n\
timeout    =  60   # a minute\n\
maxmemory = \"1gb\"\n\
# the log\n\
snapshot-wal-bytes = '512kb' # small\n\
'maxclients' = 50\n\
# the end";

#[test]
fn a_rewritten_file_keeps_what_is_not_changed_and_starts_the_same_server() {
    let dir = TestDir::new("config-rewrite", 1);
    let (path, _) = with_file(&dir, FILE);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("it is ours");
    let link = dir.path().join("link.toml");
    symlink("idemd.toml", &link).expect("the directory is ours");
    let options = IdemdOptions::default()
        .option("config", &link)
        .option("wal-segment-bytes", "1mb")
        .option("slowlog-max-len", "7");
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    must_set(
        &mut client,
        &[
            ("timeout", "120"),
            ("maxmemory", "3gb"),
            ("appendfsync", "everysec"),
            ("idem-evictable", "yes"),
        ],
    );
    // What is as it was, in another spelling or after a detour, is no change.
    must_set(
        &mut client,
        &[("snapshot-wal-bytes", "524288"), ("log-level", "debug")],
    );
    must_set(&mut client, &[("log-level", "info"), ("maxmemory", "2gb")]);
    assert_eq!(text(&client.ask("CONFIG REWRITE")), "OK");
    let expected = "\
# idemd of the orders\n\
\n\
timeout    =  120   # a minute\n\
maxmemory = \"2gb\"\n\
# the log\n\
snapshot-wal-bytes = '512kb' # small\n\
'maxclients' = 50\n\
# the end\n\
\n\
# Written by CONFIG REWRITE:\n\
appendfsync = \"everysec\"\n\
idem-evictable = true\n";
    assert_eq!(read(&path), expected);
    assert!(link.is_symlink());
    let mode = std::fs::metadata(&path)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
    // Once more changes nothing, not even the file's identity.
    let inode =
        |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("it is there"));
    let before = inode(&path);
    assert_eq!(text(&client.ask("CONFIG REWRITE")), "OK");
    assert_eq!(inode(&path), before);
    let shown = get(&mut client, "*");
    server.stop();
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    assert_eq!(get(&mut client, "*"), shown);
    // Nothing is left beside it.
    let names = std::fs::read_dir(dir.path()).expect("it is ours");
    assert!(
        names
            .filter_map(Result::ok)
            .all(|entry| !entry.file_name().to_string_lossy().contains("tmp"))
    );
    server.stop();
}

/// What a failover tool sends: within one transaction the file says what the commands before said.
#[test]
fn a_transaction_sets_shows_and_writes() {
    let dir = TestDir::new("config-multi", 1);
    let (path, options) = with_file(&dir, FILE);
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    for words in [
        "MULTI",
        "CONFIG SET timeout 7",
        "CONFIG SET client-query-buffer-limit 20mb",
        // Each would do alone; after the other it does not.
        "CONFIG SET proto-max-bulk-len 30mb",
        "CONFIG GET timeout",
        "CONFIG REWRITE",
        "CONFIG SET nosuch 1",
    ] {
        let reply = text(&client.ask(words));
        assert!(reply == "OK" || reply == "QUEUED", "{words}: {reply}");
    }
    let Value::Array(replies) = client.ask("EXEC") else {
        panic!("EXEC answers an array")
    };
    let bulk = |text: &str| Value::Bulk(text.into());
    assert_eq!(replies[3], Value::Array(vec![bulk("timeout"), bulk("7")]));
    let replies: Vec<String> = replies.iter().map(text).collect();
    assert_eq!(replies[..2], ["OK", "OK"]);
    assert!(replies[2].contains("proto-max-bulk-len (30mb) is above client-query-buffer-limit (20mb)"));
    assert_eq!(replies[4], "OK");
    assert!(replies[5].starts_with("ERR Unknown option"));
    let shown = get(&mut client, "*");
    assert_eq!(shown["timeout"], "7");
    assert_eq!(shown["client-query-buffer-limit"], (20 << 20).to_string());
    assert_eq!(shown["proto-max-bulk-len"], (16 << 20).to_string());
    let written = read(&path);
    assert!(written.contains("timeout    =  7   # a minute"), "{written}");
    assert!(
        written.ends_with("client-query-buffer-limit = \"20mb\"\n"),
        "{written}"
    );
    server.stop();
}

#[test]
fn a_file_that_cannot_be_rewritten_stays() {
    let dir = TestDir::new("config-refused", 1);
    let (path, options) = with_file(&dir, FILE);
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    must_set(&mut client, &[("timeout", "5")]);
    // Somebody is editing it.
    for half in ["timeout = \n", "[clients]\ntimeout = 5\n", "nosuch = 1\n"] {
        std::fs::write(&path, half).expect("it is ours");
        let reply = text(&client.ask("CONFIG REWRITE"));
        assert!(reply.starts_with("ERR Rewriting config file: "), "{reply}");
        assert_eq!(read(&path), half);
    }
    std::fs::remove_file(&path).expect("it is ours");
    let reply = text(&client.ask("CONFIG REWRITE"));
    assert!(reply.starts_with("ERR Rewriting config file: "), "{reply}");
    assert!(!path.exists());
    std::fs::write(&path, FILE).expect("it is ours");
    assert_eq!(text(&client.ask("CONFIG REWRITE")), "OK");
    assert!(read(&path).contains("timeout    =  5   # a minute"));
    server.stop();
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let mut client = server.client();
    must_set(&mut client, &[("timeout", "5")]);
    assert_eq!(
        text(&client.ask("CONFIG REWRITE")),
        "ERR The server is running without a config file"
    );
    server.stop();
}

/// SIGKILL while files are being written: the old one or the new one, whole, with everything of it that is not ours.
#[test]
fn a_kill_leaves_the_old_file_or_the_new_one() {
    const CYCLES: u32 = 12;
    let dir = TestDir::new("config-kill", 1);
    let mut rng = Rng::new(dir.seed());
    let (path, options) = with_file(&dir, FILE);
    let mut last_told = 60;
    for _ in 0..CYCLES {
        let server = Idemd::start(&dir.data(), &options);
        let mut client = server.client();
        let first: u64 = get(&mut client, "timeout")["timeout"].parse().expect("a number");
        assert!(
            first == last_told || first == last_told + 1,
            "{first} after {last_told}"
        );
        last_told = first;
        let pid = rustix::process::Pid::from_raw(i32::try_from(server.pid()).expect("a pid")).expect("a pid");
        let after = Duration::from_micros(rng.below(30_000));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(after);
            rustix::process::kill_process(pid, rustix::process::Signal::KILL)
        });
        // As fast as it goes, until there is nobody any more.
        for timeout in first + 1.. {
            let value = timeout.to_string();
            let words: [&[u8]; 4] = [b"CONFIG", b"SET", b"timeout", value.as_bytes()];
            let done = client
                .call(&words)
                .and_then(|_| client.call(&[b"CONFIG", b"REWRITE"]));
            match done {
                Ok(reply) => assert_eq!(text(&reply), "OK"),
                Err(_) => break,
            }
            last_told = timeout;
        }
        killer
            .join()
            .expect("it only kills")
            .expect("the process was there");
        server.wait_exit(PATIENCE);
        let text = read(&path);
        let value = text.lines().find_map(|line| line.strip_prefix("timeout    =  "));
        let value = value.and_then(|rest| rest.strip_suffix("   # a minute"));
        let value: u64 = value
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("{text}"));
        assert!(
            value == last_told || value == last_told + 1,
            "{value} after {last_told}"
        );
        assert_eq!(text, FILE.replace("=  60", &format!("=  {value}")));
    }
}
