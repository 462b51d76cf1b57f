//! The whole server once through its life: starts, stops, snapshots, limits, and many clients at one key.

use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::files;
use idem_testsuite::ledger::Ledger;
use idem_testsuite::process::{Client, Idemd, IdemdOptions, Policy};
use idem_testsuite::testdir::TestDir;
use idem_testsuite::walctl;

fn bulk(bytes: &[u8]) -> Value {
    Value::Bulk(bytes.to_vec())
}

/// Clean stops and kills in turn; every start is a new epoch, and has all results and deadlines.
#[test]
fn restarts_keep_results_and_deadlines() {
    for policy in Policy::ALL {
        let dir = TestDir::new("restarts", 1);
        let options = IdemdOptions::default().policy(policy);
        let mut ledger = Ledger::default();
        for round in 0..4 {
            let server = Idemd::start(&dir.data(), &options);
            assert_eq!(server.ready().epoch, round + 1, "each start begins an epoch");
            assert_eq!(server.ready().role, "primary");
            let mut client = server.client();
            ledger.check(&mut client);
            ledger.steps(&mut client, 100, 10).expect("nothing fails");
            if round % 2 == 0 {
                server.stop();
                let verdict = walctl::verify(&dir.data());
                assert_eq!((verdict.code, verdict.letter()), (0, "A"), "{}", verdict.last());
            } else {
                server.sigkill();
                let verdict = walctl::verify(&dir.data());
                assert!([0, 2, 3].contains(&verdict.code), "{}", verdict.last());
            }
        }
        assert_eq!(ledger.acknowledged(), 80);
    }
}

/// SAVE, after the snapshot that may be running already.
fn save(client: &mut Client) {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match client.ask("SAVE") {
            Value::Simple(text) if text == "OK" => return,
            Value::Error(text) if text.contains("in progress") => assert!(Instant::now() < end, "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Snapshots by SAVE, BGSAVE and by size; old segments go; a kill afterwards loses nothing.
#[test]
fn snapshots_replace_old_segments() {
    let dir = TestDir::new("snapshots", 1);
    let options = IdemdOptions::default().small_files();
    let mut ledger = Ledger::default();
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    ledger.steps(&mut client, 1000, 5).expect("nothing fails");
    assert_eq!(client.ask("SAVE"), Value::Simple("OK".into()));
    assert_eq!(
        files::snapshots(&dir.data()).len(),
        1,
        "SAVE answers when the snapshot is there"
    );
    assert!(client.ask("LASTSAVE").as_int().unwrap() > 1_000_000_000);
    ledger.steps(&mut client, 100_000, 60).expect("nothing fails");
    save(&mut client);
    // One may have begun by size: then there is nothing to begin.
    let reply = client.ask("BGSAVE");
    assert!(
        matches!(&reply, Value::Simple(text) | Value::Error(text) if text.contains("ackground")),
        "{reply:?}"
    );
    // Six mebibytes went through segments of one; without retention there would be six of them.
    let end = Instant::now() + Duration::from_secs(10);
    while files::segments(&dir.data()).len() > 3 {
        assert!(
            Instant::now() < end,
            "old segments stay: {:?}",
            files::segments(&dir.data())
        );
        save(&mut client);
    }
    assert!(files::snapshots(&dir.data()).len() <= 2);
    ledger.steps(&mut client, 1000, 5).expect("nothing fails");
    server.sigkill();
    let verdict = walctl::verify(&dir.data());
    assert!([0, 2, 3].contains(&verdict.code), "{}", verdict.last());
    let server = Idemd::start(&dir.data(), &options);
    ledger.check(&mut server.client());
    server.stop();
}

/// Values around the size of a segment: one less, the same, one more, three times; before and after a crash.
#[test]
fn values_around_the_size_of_a_segment() {
    let dir = TestDir::new("sizes", 1);
    let options = IdemdOptions::default().small_files();
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    let segment = 1 << 20;
    // Header page, frame header, record header, key and lengths: somewhere in this span lies the exact fit.
    let sizes =
        (segment - 4300..=segment - 4140)
            .step_by(8)
            .chain([segment - 1, segment, segment + 1, 3 * segment]);
    let values: Vec<(String, Vec<u8>)> = sizes
        .enumerate()
        .map(|(index, size)| {
            (
                format!("k{index}"),
                vec![u8::try_from(index).expect("a few"); size],
            )
        })
        .collect();
    for (key, value) in &values {
        assert_eq!(
            client.call(&[b"SET", key.as_bytes(), value]).unwrap(),
            Value::Simple("OK".into())
        );
    }
    server.sigkill();
    let verdict = walctl::verify(&dir.data());
    assert!([0, 2, 3].contains(&verdict.code), "{}", verdict.last());
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    for (key, value) in &values {
        assert!(
            client.ask(&format!("GET {key}")) == bulk(value),
            "{key} of {} bytes",
            value.len()
        );
    }
    server.stop();
}

/// Two hundred clients begin one key at the same time: one of them acquires it (idem-1).
#[test]
fn two_hundred_clients_and_one_key() {
    let dir = TestDir::new("crowd", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let mut clients: Vec<_> = (0..200).map(|_| server.client()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        let owner = format!("owner {index}");
        client
            .send(&[b"IDEM", b"k", b"BEGIN", b"f", owner.as_bytes(), b"60000"])
            .unwrap();
    }
    let replies: Vec<Value> = clients
        .iter_mut()
        .map(|client| client.receive().unwrap())
        .collect();
    let count = |word: &[u8]| {
        replies
            .iter()
            .filter(|reply| **reply == Value::Array(vec![bulk(word)]))
            .count()
    };
    assert_eq!((count(b"acquired"), count(b"pending")), (1, 199));
    server.stop();
}

/// COMPLETE just before the deadline against BEGIN just after it: once a second owner has acquired, the first one
/// completes nothing (idem-5, idem-11).
#[test]
fn the_deadline_belongs_to_one_side_only() {
    let dir = TestDir::new("deadline", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default().policy(Policy::No));
    let (mut first, mut second) = (server.client(), server.client());
    let mut taken_over = 0;
    for round in 0..300 {
        let key = format!("k{round}");
        assert_eq!(
            first.ask(&format!("IDEM {key} BEGIN f first 3")),
            Value::Array(vec![bulk(b"acquired")])
        );
        // The second one asks until it is told something else than pending; the first one completes somewhere in it.
        let complete_at = Instant::now() + Duration::from_micros(2000 + (round % 20) * 100);
        let mut completed = None;
        let answer = loop {
            if completed.is_none() && Instant::now() >= complete_at {
                first
                    .send(&[b"IDEM", key.as_bytes(), b"COMPLETE", b"f", b"first", b"r"])
                    .unwrap();
                completed = Some(());
            }
            match second.ask(&format!("IDEM {key} BEGIN f second 60000")) {
                Value::Array(items) if items == [bulk(b"pending")] => {}
                Value::Array(items) => break items,
                other => panic!("{other:?}"),
            }
        };
        if completed.is_none() {
            first
                .send(&[b"IDEM", key.as_bytes(), b"COMPLETE", b"f", b"first", b"r"])
                .unwrap();
        }
        let stored = first.receive().unwrap();
        if answer == [bulk(b"acquired")] {
            taken_over += 1;
            // It can have been stored and have ended before the second one came; then nothing of it is left.
            let now = second.ask(&format!("IDEM {key} BEGIN f third 60000"));
            assert_eq!(now, Value::Array(vec![bulk(b"pending")]), "after {stored:?}");
            assert_eq!(
                second.ask(&format!("IDEM {key} COMPLETE f first late")),
                Value::Int(0)
            );
            assert_eq!(
                second.ask(&format!("IDEM {key} COMPLETE f second done")),
                Value::Int(1)
            );
        } else {
            assert_eq!(
                (answer, stored),
                (vec![bulk(b"completed"), bulk(b"r")], Value::Int(1))
            );
        }
    }
    assert!((1..300).contains(&taken_over), "both sides won: {taken_over}");
    server.stop();
}

/// `proto-max-bulk-len` also bounds the packed record, header and tokens included.
#[test]
fn a_record_has_to_fit_the_value_limit() {
    let dir = TestDir::new("value-limit", 1);
    let server = Idemd::start(
        &dir.data(),
        &IdemdOptions::default().option("proto-max-bulk-len", "1kb"),
    );
    let mut client = server.client();
    assert_eq!(
        client.ask("IDEM k BEGIN f o 60000"),
        Value::Array(vec![bulk(b"acquired")])
    );
    // 11 bytes of header and two tokens of one byte.
    let most = 1024 - 11 - 2;
    let mut complete = |bytes: usize| {
        client
            .call(&[b"IDEM", b"k", b"COMPLETE", b"f", b"o", &vec![b'r'; bytes]])
            .unwrap()
    };
    let refused = complete(most + 1);
    assert!(
        refused
            .as_error()
            .is_some_and(|text| text.starts_with("ERR") && text.contains("result")),
        "{refused:?}"
    );
    assert_eq!(complete(most), Value::Int(1));
    server.stop();
}

/// A log that needs more databases than there are: exit code 2, and the number is named.
#[test]
fn too_few_databases_are_refused_by_number() {
    let dir = TestDir::new("databases", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let mut client = server.client();
    client.ask("SELECT 9");
    client.ask("IDEM k BEGIN f o 600000");
    server.stop();
    let before = files::tree(&dir.data());
    let failure =
        Idemd::try_start(&dir.data(), &IdemdOptions::default().option("databases", "9")).unwrap_err();
    assert_eq!(failure.code(), 2, "{}", failure.stderr);
    assert!(failure.stderr.contains("10"), "{}", failure.stderr);
    assert!(files::tree(&dir.data()) == before, "nothing was changed");
    Idemd::start(&dir.data(), &IdemdOptions::default().option("databases", "10")).stop();
}

/// The directory belongs to one server; the second one says so soon, and the first one is not disturbed.
#[test]
fn a_second_server_is_refused() {
    let dir = TestDir::new("second", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let begin = Instant::now();
    let failure = Idemd::try_start(&dir.data(), &IdemdOptions::default()).unwrap_err();
    assert_eq!(failure.code(), 4, "{}", failure.stderr);
    assert!(begin.elapsed() < Duration::from_secs(3));
    assert_eq!(server.client().ask("PING"), Value::Simple("PONG".into()));
    server.sigkill();
    // The lock goes with the process, however that ended.
    Idemd::start(&dir.data(), &IdemdOptions::default()).stop();
}

/// INFO has the documented sections and names, and counts what was answered.
#[test]
fn info_counts_what_was_answered() {
    let dir = TestDir::new("info", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let mut client = server.client();
    for (command, reply) in [
        ("IDEM k BEGIN f o 60000", Value::Array(vec![bulk(b"acquired")])),
        ("IDEM k BEGIN f p 60000", Value::Array(vec![bulk(b"pending")])),
        ("IDEM k BEGIN g p 60000", Value::Array(vec![bulk(b"conflict")])),
        ("IDEM k COMPLETE f p r", Value::Int(0)),
        ("IDEM k COMPLETE f o r", Value::Int(1)),
        (
            "IDEM k BEGIN f p 60000",
            Value::Array(vec![bulk(b"completed"), bulk(b"r")]),
        ),
        ("IDEM l BEGIN f o 60000", Value::Array(vec![bulk(b"acquired")])),
        ("IDEM l ABORT f o", Value::Int(1)),
    ] {
        assert_eq!(client.ask(command), reply, "{command}");
    }
    let reply = client.ask("INFO");
    let text = String::from_utf8(reply.as_bytes().expect("INFO is text").to_vec()).expect("INFO is UTF-8");
    let field = |name: &str| {
        let found = text
            .split("\r\n")
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found
            .unwrap_or_else(|| panic!("{name} is missing in INFO:\n{text}"))
            .to_owned()
    };
    let number = |name: &str| {
        field(name)
            .parse::<u64>()
            .unwrap_or_else(|_| panic!("{name} is no number"))
    };
    for (name, count) in [
        ("idem_acquired", 2),
        ("idem_pending", 1),
        ("idem_conflict", 1),
        ("idem_replayed", 1),
        ("idem_completed", 1),
        ("idem_aborted", 1),
        ("idem_refused_complete", 1),
        ("idem_records", 1),
        ("wal_epoch", 1),
        ("wal_segments", 1),
        ("connected_slaves", 0),
        ("connected_clients", 1),
        ("fenced", 0),
        ("clock_ahead_ms", 0),
        ("loading", 0),
    ] {
        assert_eq!(number(name), count, "{name}");
    }
    assert_eq!(
        number("wal_synced_lsn"),
        number("wal_lsn"),
        "what was answered is synced"
    );
    for name in [
        "wal_bytes",
        "wal_syncs",
        "wal_sync_usec_p50",
        "wal_sync_usec_p99",
        "wal_sync_usec_max",
        "used_memory",
        "master_repl_offset",
        "instantaneous_ops_per_sec",
        "sync_full",
        "sync_partial_ok",
        "sync_partial_err",
        "tcp_port",
    ] {
        number(name);
    }
    assert!(field("wal_group_size_avg").parse::<f64>().is_ok());
    field("wal_last_snapshot_lsn");
    assert_eq!(field("role"), "master");
    assert_eq!(field("run_id").len(), 40);
    for section in [
        "Server",
        "Clients",
        "Persistence",
        "Stats",
        "Replication",
        "Keyspace",
        "Idempotency",
        "Wal",
    ] {
        assert!(text.contains(&format!("# {section}\r\n")), "{section}");
    }
    server.stop();
}

/// walctl looks at the directory of a running server without its lock and without disturbing it.
#[test]
fn tools_read_a_live_directory() {
    let dir = TestDir::new("live", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let mut client = server.client();
    let mut ledger = Ledger::default();
    ledger.steps(&mut client, 100, 10).expect("nothing fails");
    let verdict = walctl::verify(&dir.data());
    assert_eq!(verdict.code, 0, "{:?} {}", verdict.lines, verdict.stderr);
    assert_eq!(verdict.last()["live"], true, "{}", verdict.last());
    let dump = walctl::dump(&dir.data(), &["--opcode", "53"]);
    assert_eq!(dump.code, 0, "{}", dump.stderr);
    assert!(
        dump.lines.len() >= 19,
        "everything but what is still being sealed is there: {}",
        dump.lines.len()
    );
    ledger.steps(&mut client, 100, 10).expect("nothing fails");
    server.stop();
    let dump = walctl::dump(&dir.data(), &["--opcode", "53"]);
    assert_eq!(dump.lines.len(), 40, "{}", dump.stderr);
}
