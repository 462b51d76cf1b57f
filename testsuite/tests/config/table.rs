//! What is taken and what is refused.

use idem_server::config::Options;
use idem_server::config::table::{OPTIONS, option};
use idem_testsuite::process::Idemd;
use idem_testsuite::testdir::TestDir;

use crate::support::{get, must_set, read, set, small, text, with_file};

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
