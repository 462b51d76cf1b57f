//! The harness can fail: four builds that are broken on purpose are caught, each by the check that is meant to, and the
//! honest build passes exactly the same checks.
//!
//! The broken server is built once, with the feature `sabotage`, into a target directory of its own. The environment
//! chooses what is broken; without it the same build is honest, which is checked, too: it shows that a failed check is
//! due to the sabotage and not to the build.

use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::invariants::{completed_has_deadline, directory_synced_before_use, reply_after_sync};
use idem_testsuite::ledger::Ledger;
use idem_testsuite::process::binaries::sabotaged_idemd;
use idem_testsuite::process::{Idemd, IdemdOptions, Strace};
use idem_testsuite::require::skip;
use idem_testsuite::testdir::TestDir;
use idem_testsuite::trace;
use idem_testsuite::walctl;

const VARIABLE: &str = "IDEM_SABOTAGE";
/// Large enough for a rotation of segments of 1 MiB in a few steps.
const LARGE: usize = 200_000;

/// Runs a check on the honest build, on the sabotage build without its switch, and on the broken one. A check returns
/// what it found wrong.
fn caught(sabotage: &str, check: impl Fn(&IdemdOptions) -> Vec<String>) {
    if !Strace::available() {
        skip(sabotage, "strace is not here, or may not trace");
        return;
    }
    let honest = IdemdOptions::default().small_files();
    assert_eq!(check(&honest), Vec::<String>::new(), "the honest build passes");
    let switched_off = IdemdOptions::of(sabotaged_idemd()).small_files();
    assert_eq!(
        check(&switched_off),
        Vec::<String>::new(),
        "the sabotage build passes without its switch"
    );
    let broken = check(&switched_off.env(VARIABLE, sabotage));
    assert!(!broken.is_empty(), "{sabotage} is not caught");
    println!("{sabotage} is caught: {}", broken[0]);
}

/// A reply must not come before the sync has returned: seen by the clock when syncs are slow, and in the trace.
#[test]
fn a_reply_before_its_sync_is_caught() {
    const DELAY: Duration = Duration::from_millis(300);
    caught("reply-before-sync", |options| {
        let dir = TestDir::new("reply-before-sync", 1);
        let server = Idemd::start(&dir.data(), options);
        let mut client = server.client();
        let log = dir.path().join("strace.log");
        let strace = Strace::attach(server.pid(), &log, &["fdatasync:delay_enter=300000"]);
        let mut violations = Vec::new();
        for key in ["k1", "k2"] {
            let begin = Instant::now();
            assert!(matches!(
                client.ask(&format!("IDEM {key} BEGIN f o 60000")),
                Value::Array(_)
            ));
            if begin.elapsed() < DELAY {
                violations.push(format!(
                    "a reply after {:?}, before any sync can have returned",
                    begin.elapsed()
                ));
            }
        }
        server.sigkill();
        let calls = trace::read(&strace.finish());
        violations.extend(reply_after_sync::check(&calls));
        violations
    });
}

/// A message must not come before the writes that its publisher sent ahead of it, in a pipeline or in a transaction, are
/// on disk: it may speak of them. One that can speak of nothing comes at once.
#[test]
fn a_message_before_its_sync_is_caught() {
    const DELAY: Duration = Duration::from_millis(300);
    const PIPELINES: [(&str, usize); 2] = [
        ("SET k v\r\nPUBLISH news k\r\n", 2),
        ("MULTI\r\nSET k w\r\nPUBLISH news k\r\nEXEC\r\n", 4),
    ];
    caught("message-before-sync", |options| {
        let dir = TestDir::new("message-before-sync", 1);
        let server = Idemd::start(&dir.data(), options);
        let (mut publisher, mut subscriber) = (server.client(), server.client());
        subscriber.ask("SUBSCRIBE news");
        let log = dir.path().join("strace.log");
        let strace = Strace::attach(server.pid(), &log, &["fdatasync:delay_enter=300000"]);
        let mut violations = Vec::new();
        for (pipeline, replies) in PIPELINES {
            let begin = Instant::now();
            publisher.send_raw(pipeline.as_bytes()).expect("the server reads");
            subscriber.receive().expect("the message comes");
            if begin.elapsed() < DELAY {
                violations.push(format!(
                    "a message after {:?}, before any sync can have returned",
                    begin.elapsed()
                ));
            }
            // Nothing of it is under way when the next one is timed.
            for _ in 0..replies {
                publisher.receive().expect("every command is answered");
            }
        }
        let begin = Instant::now();
        server.client().ask("PUBLISH news nothing");
        subscriber.receive().expect("the message comes");
        if begin.elapsed() >= DELAY {
            violations.push(format!(
                "a message that speaks of nothing took {:?}",
                begin.elapsed()
            ));
        }
        server.sigkill();
        strace.finish();
        violations
    });
}

/// A segment's name must be on disk before its first frame: seen in the trace of a rotation.
#[test]
fn a_missing_directory_sync_is_caught() {
    caught("no-directory-sync", |options| {
        let dir = TestDir::new("no-directory-sync", 1);
        let log = dir.path().join("strace.log");
        let server = Idemd::start(&dir.data(), &options.clone().through(Strace::launch(&log, &[])));
        let mut ledger = Ledger::default();
        ledger
            .steps(&mut server.client(), LARGE, 12)
            .expect("nothing fails");
        server.sigkill();
        let calls = trace::read_when_finished(&log);
        let renamed = directory_synced_before_use::renamed_segments(&calls);
        assert!(
            renamed >= 2,
            "the first segment and a rotation are in the trace: {renamed}"
        );
        directory_synced_before_use::check(&calls)
    });
}

/// An IDEM record and its deadline must be one record: seen in the log, and in a server that was killed between two
/// writes.
#[test]
fn a_deadline_in_a_second_record_is_caught() {
    caught("deadline-in-second-record", |options| {
        let mut violations = Vec::new();
        for when in 2..=4 {
            let dir = TestDir::new("second-record", 1);
            let server = Idemd::start(&dir.data(), options);
            let log = dir.path().join("strace.log");
            let kill = format!("pwrite64:signal=SIGKILL:when={when}");
            let strace = Strace::attach_thread(server.pid(), "wal", &log, &[&kill]);
            let mut ledger = Ledger::default();
            let outcome = ledger.steps(&mut server.client(), 10, 20);
            assert!(outcome.is_err(), "the process dies at a write");
            server.sigkill();
            strace.finish();
            let dump = walctl::dump(&dir.data(), &[]);
            violations.extend(completed_has_deadline::in_log(&dump.lines, |key| {
                key.starts_with("ledger:")
            }));
            let server = Idemd::start(&dir.data(), options);
            violations.extend(completed_has_deadline::in_server(
                &mut server.client(),
                &ledger.keys(),
            ));
        }
        violations
    });
}
