//! Faults at the syncs of the real server: failing, slow and deadly ones.
//!
//! Goal: whatever a sync does, nothing is acknowledged that a restart does not have, and a failed one ends the process at
//! once. Method: strace is attached to a server that is ready (calls are then counted from there, thread by thread), or
//! put before it to reach the calls of a start; one client writes, and keeps a ledger of what was told.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::faults::Bench;
use idem_testsuite::invariants::reply_after_sync;
use idem_testsuite::ledger::Refusal;
use idem_testsuite::process::{ClientError, Idemd, Policy, Strace};
use idem_testsuite::trace;

/// The promise of operations.md: a failed sync ends the process at once. Generous for a traced process on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Results of this size go through a segment of 1 MiB in a few steps.
const LARGE: usize = 200_000;

/// The sync of that number fails: the process is gone at once with exit code 1 and one line that names the file; the sync
/// was not tried again; no reply left that depended on it (with `always`; otherwise a reply depends on no sync).
fn failing_sync(name: &str, policy: Policy, call: &str, when: u32, result_bytes: usize) {
    let Some(mut bench) = Bench::new(name, policy) else {
        return;
    };
    let server = bench.start();
    let mut client = server.client();
    bench.ledger.steps(&mut client, 10, 3).expect("nothing fails yet");
    let strace = bench.attach(&server, &format!("{call}:error=EIO:when={when}"));
    let mut begin = Instant::now();
    // With everysec half a second passes before a sync.
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < end, "{call} number {when} does not come");
        begin = if policy == Policy::Always {
            Instant::now()
        } else {
            begin
        };
        match bench.ledger.step(&mut client, result_bytes) {
            Ok(()) => {}
            Err(Refusal::Lost(_)) => break,
            Err(Refusal::Error(text)) => panic!("an error instead of the end: {text}"),
        }
    }
    let left = if policy == Policy::Always {
        AT_ONCE.saturating_sub(begin.elapsed())
    } else {
        AT_ONCE
    };
    let status = server.wait_exit(left);
    assert_eq!(status.code(), Some(1), "{}", server.stderr());
    let stderr = server.stderr();
    let calls = trace::read(&strace.finish());
    let failed = calls
        .iter()
        .find(|call| call.is_sync() && !call.succeeded() && call.end.is_some());
    let failed = failed.expect("the injected failure is in the trace");
    // strace counts for each thread: two of them can fail before the process is gone.
    let failures = calls
        .iter()
        .filter(|call| call.is_sync() && call.result == Some(-1))
        .count();
    let fatal: Vec<&str> = stderr.lines().filter(|line| line.contains("FATAL")).collect();
    assert!(
        (1..=failures).contains(&fatal.len()),
        "one line says why:\n{stderr}"
    );
    let directory = failed
        .file()
        .and_then(|file| Path::new(file).parent())
        .expect("a sync is of a file");
    assert!(
        fatal[0].contains(&*directory.to_string_lossy()),
        "it names the file: {}",
        fatal[0]
    );
    // A directory is synced by several threads, and another one may be about to do it while the process ends.
    let is_segment = failed.file().is_some_and(|file| file.ends_with(".wal"));
    let again = |call: &&trace::Call| {
        let same = call.file() == failed.file() && (is_segment || call.thread == failed.thread);
        call.is_sync() && same && Some(call.begin) > failed.end
    };
    assert_eq!(
        calls.iter().find(again),
        None,
        "a failed sync is never tried again"
    );
    if policy == Policy::Always {
        assert_eq!(reply_after_sync::check(&calls), Vec::<String>::new());
    }
    bench.check_after_restart();
}

#[test]
fn after_a_failed_fdatasync_nothing_is_acknowledged() {
    for when in 1..=4 {
        failing_sync("eio-always", Policy::Always, "fdatasync", when, 10);
    }
}

#[test]
fn after_a_failed_fdatasync_nothing_is_acknowledged_with_everysec() {
    for when in 1..=2 {
        failing_sync("eio-everysec", Policy::Everysec, "fdatasync", when, 10);
    }
}

#[test]
fn after_a_failed_fsync_of_a_file_or_directory_nothing_is_acknowledged() {
    for when in 1..=3 {
        failing_sync("eio-fsync", Policy::Always, "fsync", when, LARGE);
    }
}

/// Syncs of a start, one after the other: each failure is exit code 1 in one line, changes nothing that matters, and the
/// first start without a failure has everything.
fn failing_start(call: &str) {
    let Some(mut bench) = Bench::new("eio-start", Policy::Always) else {
        return;
    };
    let server = bench.start();
    bench
        .ledger
        .steps(&mut server.client(), 1000, 5)
        .expect("nothing fails");
    server.sigkill();
    drop(server);
    for when in 1.. {
        assert!(when < 100, "a start has fewer syncs than that");
        let injection = format!("{call}:error=EIO:when={when}");
        let options = bench
            .options
            .clone()
            .through(Strace::launch(&bench.log(), &[&injection]));
        match Idemd::try_start(&bench.dir.data(), &options) {
            Err(failure) => {
                assert_eq!(failure.code(), 1, "sync {when}: {}", failure.stderr);
                assert!(!failure.stderr.contains("panicked"), "{}", failure.stderr);
            }
            Ok(server) => {
                // The thread of the start has made all its syncs before the failure would have come.
                bench.ledger.check(&mut server.client());
                assert!(when > 1, "a start syncs");
                break;
            }
        }
    }
    bench.check_after_restart();
}

#[test]
fn a_failed_fdatasync_of_a_start_is_a_failed_start() {
    failing_start("fdatasync");
}

#[test]
fn a_failed_fsync_of_a_start_is_a_failed_start() {
    failing_start("fsync");
}

/// A stop that cannot sync is no clean stop.
#[test]
fn a_failed_sync_of_a_stop_is_exit_code_1_without_the_clean_mark() {
    let Some(mut bench) = Bench::new("eio-stop", Policy::No) else {
        return;
    };
    let server = bench.start();
    bench
        .ledger
        .steps(&mut server.client(), 10, 3)
        .expect("nothing fails");
    let strace = bench.attach(&server, "fdatasync:error=EIO");
    server.sigterm();
    assert_eq!(
        server.wait_exit(Duration::from_secs(10)).code(),
        Some(1),
        "{}",
        server.stderr()
    );
    strace.finish();
    assert_ne!(idem_testsuite::walctl::verify(&bench.dir.data()).letter(), "A");
    bench.check_after_restart();
}

/// Dying inside of a sync: what was written is in the kernel, what was acknowledged is there.
#[test]
fn a_kill_at_the_sync_loses_nothing_acknowledged() {
    for (when, result_bytes) in [(1, 10), (2, 10), (3, LARGE), (8, LARGE)] {
        let Some(mut bench) = Bench::new("kill-sync", Policy::Always) else {
            return;
        };
        let server = bench.start();
        let mut client = server.client();
        bench.ledger.steps(&mut client, 10, 2).expect("nothing fails yet");
        let strace = bench.attach_log_thread(&server, &format!("fdatasync:signal=SIGKILL:when={when}"));
        let outcome = bench.ledger.steps(&mut client, result_bytes, 200);
        assert!(matches!(outcome, Err(Refusal::Lost(_))), "{outcome:?}");
        assert_eq!(server.wait_exit(AT_ONCE).signal(), Some(9));
        strace.finish();
        bench.check_after_restart();
    }
}

/// What each reply reveals about a write whose sync takes 200 ms: preparation, the slow write, and a question on another
/// connection with the answer that reveals the write.
const REVELATIONS: &[(&str, &str, &str, &str)] = &[
    ("", "IDEM k BEGIN f o 60000", "IDEM k BEGIN f p 60000", "pending"),
    ("", "IDEM k BEGIN f o 60000", "IDEM k BEGIN g p 60000", "conflict"),
    ("", "IDEM k BEGIN f o 60000", "IDEM k INSPECT", "pending"),
    (
        "IDEM k BEGIN f o 60000",
        "IDEM k COMPLETE f o r",
        "IDEM k BEGIN f p 60000",
        "completed",
    ),
    (
        "IDEM k BEGIN f o 60000",
        "IDEM k COMPLETE f o r",
        "IDEM k COMPLETE f o s",
        "Int(0)",
    ),
    (
        "IDEM k BEGIN f o 60000",
        "IDEM k ABORT f o",
        "IDEM k INSPECT",
        "Null",
    ),
    (
        "IDEM k BEGIN f o 60000",
        "PERSIST k",
        "IDEM k BEGIN f o 60000",
        "no deadline",
    ),
    ("", "SET k v", "IDEM k BEGIN f o 60000", "WRONGTYPE"),
    ("", "SET k value", "GET k", "value"),
    ("", "SET k v", "TYPE k", "string"),
    ("", "SET k v PX 60000", "DBSIZE", "Int(1)"),
    ("", "SET key v", "SCAN 0 COUNT 1000", "key"),
    ("SET k v", "DEL k", "GET k", "Null"),
    ("SET k v", "FLUSHALL", "EXISTS k", "Int(0)"),
    ("", "HSET k f value", "HGET k f", "value"),
    ("HSET k f v", "HDEL k f", "HGETALL k", "[]"),
];

/// Replies, and whatever another client is told of what is not synced, come after the sync; reads of settled keys do not
/// wait for it.
#[test]
fn nothing_is_revealed_before_its_slow_sync_and_settled_reads_do_not_wait() {
    const DELAY: Duration = Duration::from_millis(200);
    let Some(bench) = Bench::new("slow-sync", Policy::Always) else {
        return;
    };
    let server = bench.start();
    let (mut writer, mut reader) = (server.client(), server.client());
    for (preparation, write, question, answer) in REVELATIONS {
        let split = |words: &'static str| words.split(' ').map(str::as_bytes).collect::<Vec<_>>();
        writer.ask("FLUSHDB");
        if !preparation.is_empty() {
            writer.ask(preparation);
        }
        // DBSIZE has to count what is written alone; FLUSHALL changes what it finds.
        let with_settled = *write != "FLUSHALL" && *question != "DBSIZE";
        if with_settled {
            writer.ask("SET settled v");
        }
        let strace = bench.attach(&server, "fdatasync:delay_enter=200000");
        let begin = Instant::now();
        writer.send(&split(write)).expect("the server is there");
        // Answers that reveal nothing new come at once; and with one the write has been carried out, too.
        assert_eq!(reader.ask("PING"), Value::Simple("PONG".into()));
        if with_settled {
            assert_eq!(reader.ask("GET settled"), Value::Bulk(b"v".to_vec()));
        }
        writer.set_timeout(Duration::from_millis(1));
        let early = writer.receive();
        assert!(
            matches!(early, Err(ClientError::Timeout)),
            "{write} was answered early: {early:?}"
        );
        let told = reader.ask(question);
        let took = begin.elapsed();
        let shown = show(&told);
        assert!(shown.contains(answer), "{question} after {write}: {shown}");
        assert!(
            took >= DELAY,
            "{question} revealed {write} after {took:?}: {shown}"
        );
        writer.set_timeout(Duration::from_secs(20));
        assert!(!matches!(
            writer.receive().expect("a late reply comes"),
            Value::Error(_)
        ));
        drop(strace);
    }
    server.stop();
}

/// The text of a reply with its strings readable.
fn show(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" ")),
        other => format!("{other:?}"),
    }
}

/// The order in the trace of one writing client: write, sync, reply. Rotations included.
#[test]
fn every_reply_follows_the_sync_of_what_it_says() {
    let Some(mut bench) = Bench::new("order", Policy::Always) else {
        return;
    };
    let server = bench.start();
    let mut client = server.client();
    let strace = bench.attach(&server, "fdatasync:delay_enter=2000");
    bench.ledger.steps(&mut client, LARGE, 20).expect("nothing fails");
    server.sigkill();
    let calls = trace::read(&strace.finish());
    assert!(reply_after_sync::replies(&calls) >= 40, "the replies were traced");
    assert_eq!(reply_after_sync::check(&calls), Vec::<String>::new());
    bench.check_after_restart();
}

/// The disk is slower than a second: with `everysec` replies wait once the oldest unsynced record is older than that.
#[test]
fn everysec_holds_replies_back_while_the_disk_is_too_slow() {
    let Some(mut bench) = Bench::new("slow-everysec", Policy::Everysec) else {
        return;
    };
    let server = bench.start();
    let mut client = server.client();
    bench.ledger.steps(&mut client, 10, 2).expect("nothing fails");
    let strace = bench.attach(&server, "fdatasync:delay_enter=2500000");
    let begin = Instant::now();
    let mut slowest = Duration::ZERO;
    while begin.elapsed() < Duration::from_millis(2500) {
        let step = Instant::now();
        bench
            .ledger
            .step(&mut client, 10)
            .expect("replies are late, not refused");
        slowest = slowest.max(step.elapsed());
    }
    assert!(
        slowest >= Duration::from_millis(500),
        "no reply took longer than {slowest:?}"
    );
    server.sigkill();
    strace.finish();
    bench.check_after_restart();
}
