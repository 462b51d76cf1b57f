//! Snapshots of the real binary: when they start, what they keep, that they disturb nobody.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

mod support;

use std::path::Path;
use std::time::Instant;

use support::{PATIENCE, Server, field};

fn snapshots(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir.join("snap"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn save_waits_and_bgsave_does_not() {
    for policy in ["always", "everysec", "no"] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), &["--appendfsync", policy]);
        let mut client = server.connect();
        client.check("SET k v", "+OK\r\n");
        client.check("HSET h f v", ":1\r\n");
        client.check("IDEM i BEGIN f o 600000", "*1\r\n$8\r\nacquired\r\n");
        // The commands behind SAVE wait for it, and keep their order.
        client.send(b"SAVE\r\nGET k\r\n");
        client.expect(b"+OK\r\n$1\r\nv\r\n");
        assert_eq!(snapshots(dir.path()).len(), 1, "{policy}");
        assert_eq!(client.info("rdb_saves"), "1");
        assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
        assert_ne!(client.info("wal_last_snapshot_lsn"), "0");
        client.check("SET after v", "+OK\r\n");
        client.check("BGSAVE", "+Background saving started\r\n");
        server.logged("snapshot published");
        server.kill();
        let server = Server::start(dir.path(), &["--appendfsync", policy]);
        let mut client = server.connect();
        client.check("GET k", "$1\r\nv\r\n");
        client.check("GET after", "$1\r\nv\r\n");
        client.check("HGET h f", "$1\r\nv\r\n");
        client.check("IDEM i BEGIN f o 600000", "*1\r\n$7\r\npending\r\n");
    }
}

#[test]
fn a_snapshot_starts_when_enough_log_has_gathered_and_old_log_goes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(
        dir.path(),
        &["--snapshot-wal-bytes", "1mb", "--wal-keep-bytes", "0"],
    );
    let mut client = server.connect();
    let value = "x".repeat(10_000);
    let give_up = Instant::now() + PATIENCE;
    let mut key = 0;
    while client.info("rdb_saves").parse::<u64>().unwrap() < 3 {
        for _ in 0..50 {
            client.check(&format!("SET key{} {value}", key % 20), "+OK\r\n");
            key += 1;
        }
        assert!(Instant::now() < give_up, "no third snapshot");
    }
    let names = snapshots(dir.path());
    assert_eq!(
        names.iter().filter(|name| name.ends_with(".snap")).count(),
        2,
        "the two newest stay: {names:?}"
    );
    assert!(
        !dir.path().join("wal").join(format!("{:020}.wal", 0)).exists(),
        "the first segment is gone"
    );
    let lsn = client.info("wal_lsn");
    server.terminate().check(0, &["the log is clean"]);
    let server = Server::start(dir.path(), &[]);
    assert!(field(&server.ready, "lsn").parse::<u64>().unwrap() > lsn.parse().unwrap());
    let mut client = server.connect();
    client.check("DBSIZE", ":20\r\n");
    for key in 0..20 {
        client.check(&format!("STRLEN key{key}"), ":10000\r\n");
    }
}

#[test]
fn a_snapshot_that_fails_hurts_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.check("SET k v", "+OK\r\n");
    // No directory, no snapshot: a disk error that also root gets.
    std::fs::remove_dir_all(dir.path().join("snap")).unwrap();
    std::fs::write(dir.path().join("snap"), "in the way").unwrap();
    client.send(b"SAVE\r\n");
    let reply = client.line();
    assert!(reply.starts_with("-ERR the snapshot failed: "), "{reply}");
    assert_eq!(client.info("rdb_last_bgsave_status"), "err");
    client.check("SET k w", "+OK\r\n");
    std::fs::remove_file(dir.path().join("snap")).unwrap();
    std::fs::create_dir(dir.path().join("snap")).unwrap();
    client.check("SAVE", "+OK\r\n");
    assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
    server.terminate().check(0, &["snapshot failed"]);
}

#[test]
fn what_cannot_be_removed_is_no_failed_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.check("SET k v", "+OK\r\n");
    client.check("SAVE", "+OK\r\n");
    client.check("SET k w", "+OK\r\n");
    client.check("SAVE", "+OK\r\n");
    // The oldest of three snapshots is to go; a directory with something in it does not go the way a file does.
    let oldest = dir.path().join("snap").join(&snapshots(dir.path())[0]);
    std::fs::remove_file(&oldest).unwrap();
    std::fs::create_dir_all(oldest.join("kept")).unwrap();
    client.check("SET k x", "+OK\r\n");
    client.check("SAVE", "+OK\r\n");
    server.logged("ERROR removing what is no longer needed");
    assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
    assert_eq!(client.info("rdb_saves"), "3");
    server.terminate().check(0, &["the log is clean"]);
}

/// Log that a restart needs, because it does not find the snapshots in whose stead the log could go, stays.
#[test]
fn snapshots_that_are_moved_away_take_no_log_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--wal-keep-bytes", "0"];
    let server = Server::start(dir.path(), &options);
    let mut client = server.connect();
    let mut written = 0;
    let mut write = |client: &mut support::Client| {
        for _ in 0..30 {
            written += 1;
            client.command(&[b"SET", format!("k{written}").as_bytes(), &[b'v'; 100_000]]);
            client.expect(b"+OK\r\n");
        }
        written
    };
    write(&mut client);
    client.check("SAVE", "+OK\r\n");
    std::fs::rename(dir.path().join("snap"), dir.path().join("away")).unwrap();
    std::fs::create_dir(dir.path().join("snap")).unwrap();
    write(&mut client);
    client.send(b"SAVE\r\n");
    let line = client.line();
    assert!(line.starts_with("-ERR") && line.contains("snap/"), "{line}");
    // The next ones go to where a restart looks.
    for _ in 0..3 {
        write(&mut client);
        client.check("SAVE", "+OK\r\n");
    }
    let keys = write(&mut client);
    server.kill();
    let server = Server::start(dir.path(), &options);
    server.connect().check("DBSIZE", &format!(":{keys}\r\n"));
}
