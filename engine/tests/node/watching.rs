//! What was slow: the slow log and the latency events.

use idem_engine::{Durability, Thresholds};
use idem_protocol::UnixMs;
use idem_protocol::resp::Args;

use crate::clients::check_lines;
use crate::support::World;

fn slow(world: &mut World, words: &[&[u8]], usec: u64) {
    let now = UnixMs::new(world.now);
    world
        .node
        .note_slow_command(Args::from(words), usec, now, "127.0.0.1:9".to_owned(), b"me");
}

#[test]
fn slow_commands_are_shown() {
    let mut world = World::new(Durability::Always);
    assert_eq!(world.node.slow_from_usec(), Some(10_000));
    world.now = 5_000;
    slow(&mut world, &[b"GET", b"quick"], 9_999);
    slow(&mut world, &[b"GET", b"k"], 10_000);
    world.now = 6_000;
    slow(&mut world, &[b"KEYS", b"*"], 70_000);
    check_lines(
        &mut world,
        &[
            ("SLOWLOG LEN", "2"),
            (
                "SLOWLOG GET 1",
                r#"[[1 6 70000 ["KEYS" "*"] "127.0.0.1:9" "me"]]"#,
            ),
            (
                "SLOWLOG GET",
                r#"[[1 6 70000 ["KEYS" "*"] "127.0.0.1:9" "me"] [0 5 10000 ["GET" "k"] "127.0.0.1:9" "me"]]"#,
            ),
            ("SLOWLOG GET 0", "[]"),
            ("MULTI", "OK"),
            ("SLOWLOG RESET", "QUEUED"),
            ("SLOWLOG LEN", "QUEUED"),
            ("SLOWLOG GET -1", "QUEUED"),
            ("EXEC", "[OK 0 []]"),
            ("SLOWLOG LEN", "0"),
        ],
    );
    for number in 0..20 {
        slow(&mut world, &[b"GET", &[number]], 10_000);
    }
    assert_eq!(
        world.line("SLOWLOG GET").reply.unwrap().as_items().unwrap().len(),
        10
    );
    assert_eq!(
        world
            .line("SLOWLOG GET -1")
            .reply
            .unwrap()
            .as_items()
            .unwrap()
            .len(),
        20
    );
    // A shorter log takes effect at once; none at all measures nothing.
    let shorter = Thresholds {
        slowlog_entries: 3,
        ..Thresholds::default()
    };
    world.node.monitor(shorter);
    check_lines(&mut world, &[("SLOWLOG LEN", "3")]);
    let off = Thresholds {
        slowlog_usec: None,
        ..shorter
    };
    world.node.monitor(off);
    assert_eq!(world.node.slow_from_usec(), None);
    slow(&mut world, &[b"GET", b"k"], u64::MAX);
    check_lines(&mut world, &[("SLOWLOG LEN", "3")]);
    let all = Thresholds {
        slowlog_usec: Some(0),
        ..shorter
    };
    world.node.monitor(all);
    assert_eq!(world.node.slow_from_usec(), Some(0));
}

/// An entry shows a key and a value: nobody reads it before the disk has what its command wrote.
#[test]
fn a_slow_command_is_shown_when_it_is_on_disk() {
    let mut world = World::new(Durability::Always);
    let written = world.line("SET k secret").depends_on;
    assert!(written.get() > 0);
    slow(&mut world, &[b"SET", b"k", b"secret"], 10_000);
    let shown = world.line("SLOWLOG GET");
    assert!(shown.text().contains("secret"));
    assert_eq!(shown.depends_on, written);
    assert_eq!(world.line("SLOWLOG LEN").depends_on.get(), 0);
    for command in ["LATENCY LATEST", "LATENCY DOCTOR"] {
        assert_eq!(world.line(command).depends_on.get(), 0, "{command}");
    }
}

#[test]
fn slow_moments_are_shown() {
    let mut world = World::new(Durability::Always);
    world.now = 5_000;
    slow(&mut world, &[b"GET", b"k"], 900_000);
    world.node.note_sync(900_000, UnixMs::new(5_000));
    check_lines(&mut world, &[("LATENCY LATEST", "[]")]);
    assert!(
        world
            .line("LATENCY DOCTOR")
            .text()
            .starts_with("\"Latency monitoring is off.")
    );
    world.node.monitor(Thresholds {
        latency_ms: 5,
        ..Thresholds::default()
    });
    assert_eq!(world.node.slow_from_usec(), Some(5_000));
    assert!(
        world
            .line("LATENCY DOCTOR")
            .text()
            .starts_with("\"Nothing was slow")
    );
    slow(&mut world, &[b"GET", b"k"], 4_999);
    slow(&mut world, &[b"GET", b"k"], 6_000);
    slow(&mut world, &[b"KEYS", b"*"], 30_000);
    world.node.note_sync(4_999, UnixMs::new(5_000));
    world.node.note_sync(7_000, UnixMs::new(5_000));
    world.node.note_sync(9_000, UnixMs::new(7_000));
    world.node.note_sync(8_000, UnixMs::new(7_999));
    check_lines(
        &mut world,
        &[
            (
                "LATENCY LATEST",
                r#"[["command" 5 30 30] ["fast-command" 5 6 6] ["wal-sync" 7 9 9]]"#,
            ),
            ("LATENCY HISTORY wal-sync", "[[5 7] [7 9]]"),
            ("LATENCY HISTORY WAL-SYNC", "[]"),
            ("LATENCY HISTOGRAM get", "[]"),
            // What is below the threshold of the slow log is no entry of it.
            ("SLOWLOG LEN", "2"),
        ],
    );
    let doctor = world.line("LATENCY DOCTOR").text();
    for line in [
        "command: 1 seconds",
        "fast-command: 1",
        "wal-sync: 2 seconds with slow moments, 8 ms on average",
    ] {
        assert!(doctor.contains(line), "{line} in {doctor}");
    }
    world.now = 8_000;
    let graph = world.line("LATENCY GRAPH wal-sync").reply.unwrap();
    let graph = String::from_utf8_lossy(graph.as_bytes().unwrap()).into_owned();
    let lines: Vec<&str> = graph.lines().collect();
    assert_eq!(lines[0], "wal-sync - high 9 ms, low 7 ms (all time high 9 ms)");
    assert_eq!(lines[2..], ["_#", "##", "##", "##", "3 s ago to 1 s ago"]);
    check_lines(
        &mut world,
        &[
            (
                "LATENCY GRAPH nosuch",
                "-ERR No samples available for event 'nosuch'",
            ),
            ("MULTI", "OK"),
            ("LATENCY RESET COMMAND nosuch command", "QUEUED"),
            ("LATENCY RESET command", "QUEUED"),
            ("LATENCY HISTORY command", "QUEUED"),
            ("EXEC", "[1 0 []]"),
            ("LATENCY HISTORY command", "[]"),
            ("LATENCY RESET", "2"),
            ("LATENCY RESET", "0"),
            ("LATENCY LATEST", "[]"),
        ],
    );
}
