//! The log, its syncs, its snapshots; the server's own log; the totals.

use std::path::Path;
use std::time::{Duration, Instant};

use idem_testsuite::faults::Bench;
use idem_testsuite::process::{Client, Idemd, Policy};
use idem_testsuite::testdir::TestDir;

use crate::support::{info, must_set, small, text, until};

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

/// Goal: from the change on nothing is told that a loss of power could take back, also when it was written before. Method:
/// every sync of the log takes 300 ms, and the first reply that reveals the write has to wait for one.
#[test]
fn what_no_has_written_is_synced_before_always_tells_of_it() {
    const DELAY: Duration = Duration::from_millis(300);
    let Some(bench) = Bench::new("config-slow-sync", Policy::No) else {
        return;
    };
    let server = bench.start();
    let (mut client, mut other) = (server.client(), server.client());
    let _strace = bench.attach_log_thread(&server, "fdatasync:delay_enter=300000");
    assert_eq!(text(&client.ask("SET k v")), "OK");
    assert_eq!(text(&other.ask("GET k")), "v");
    let begun = Instant::now();
    must_set(&mut client, &[("appendfsync", "always")]);
    for reader in [&mut other, &mut client] {
        assert_eq!(text(&reader.ask("GET k")), "v");
        assert!(begun.elapsed() >= DELAY, "told after {:?}", begun.elapsed());
    }
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
