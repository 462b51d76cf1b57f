//! Faults at the writes of the real server: no space, short ones, calls that a file system does not know.
//!
//! Goal and method as in `strace.rs`; the faults reach only the thread that writes the log.

use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::faults::Bench;
use idem_testsuite::process::{ClientError, Idemd, Policy, Strace};
use idem_testsuite::trace;

/// Results of this size go through a segment of 1 MiB in a few steps.
const LARGE: usize = 200_000;

/// No space for one write inside of reserved space: it is repeated at the same place, and its reply only comes later.
#[test]
fn a_write_without_space_is_repeated() {
    let Some(mut bench) = Bench::new("enospc-once", Policy::Always) else {
        return;
    };
    let server = bench.start();
    let mut client = server.client();
    bench.ledger.steps(&mut client, 10, 2).expect("nothing fails");
    let strace = bench.attach_log_thread(&server, "pwrite64:error=ENOSPC:when=2");
    bench.ledger.steps(&mut client, 10, 5).expect("late, not refused");
    server.sigkill();
    let calls = trace::read(&strace.finish());
    let failed = calls
        .iter()
        .find(|call| call.is_file_write() && !call.succeeded())
        .expect("one write failed");
    let next = calls
        .iter()
        .find(|call| call.is_file_write() && call.begin > failed.begin && call.thread == failed.thread);
    assert_eq!(
        next.map(|call| call.args.as_str()),
        Some(failed.args.as_str()),
        "the same bytes to the same place"
    );
    bench.check_after_restart();
}

/// No space for a while: what was begun waits, new writes are refused with MISCONF, reads go on, and so do writes when
/// space is back.
#[test]
fn while_writes_fail_new_ones_are_refused_and_reads_go_on() {
    let Some(mut bench) = Bench::new("enospc-while", Policy::Always) else {
        return;
    };
    let server = bench.start();
    let (mut client, mut other) = (server.client(), server.client());
    bench.ledger.steps(&mut client, 10, 2).expect("nothing fails");
    let settled = bench
        .ledger
        .completed_key()
        .expect("two are completed")
        .to_owned();
    // Repeated every 50 ms: about a second and a half.
    let strace = bench.attach_log_thread(&server, "pwrite64:error=ENOSPC:when=1..30");
    client.send(&[b"SET", b"waits", b"v"]).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    let mut probes = 0;
    let refused = loop {
        assert!(Instant::now() < end, "no write is refused");
        probes += 1;
        // Before the failure is noticed, a write joins what waits.
        let mut probe = server.client();
        probe.set_timeout(Duration::from_millis(100));
        let key = format!("probe {probes}");
        match probe.call(&[b"IDEM", key.as_bytes(), b"BEGIN", b"f", b"o", b"60000"]) {
            Ok(Value::Error(text)) => break text,
            Err(ClientError::Timeout) => {}
            other => panic!("accepted although nothing can be written: {other:?}"),
        }
    };
    assert!(refused.starts_with("MISCONF"), "{refused}");
    assert!(
        matches!(other.ask(&format!("GET {settled}")), Value::Bulk(_)),
        "reads go on"
    );
    assert!(
        matches!(client.receive(), Ok(Value::Simple(_))),
        "what waited is answered"
    );
    bench.ledger.steps(&mut client, 10, 3).expect("writes go on");
    assert_eq!(client.ask("GET waits"), Value::Bulk(b"v".to_vec()));
    server.sigkill();
    strace.finish();
    bench.check_after_restart();
}

/// A short write is continued where it stopped. (The injected one writes nothing at all, so that the frame is damaged on
/// purpose: what is looked at is only the next call.)
#[test]
fn a_short_write_is_continued() {
    let Some(mut bench) = Bench::new("short-write", Policy::Always) else {
        return;
    };
    let server = bench.start();
    let mut client = server.client();
    bench.ledger.steps(&mut client, 10, 2).expect("nothing fails");
    let strace = bench.attach_log_thread(&server, "pwrite64:retval=100:when=2");
    bench
        .ledger
        .steps(&mut client, 1000, 3)
        .expect("nothing is refused");
    server.sigkill();
    let calls = trace::read(&strace.finish());
    let writes: Vec<_> = calls.iter().filter(|call| call.is_file_write()).collect();
    let short = writes
        .iter()
        .position(|call| call.result == Some(100))
        .expect("one write was short");
    let span = |index: usize| writes[index].span().expect("a write has a length and an offset");
    let ((length, offset), next) = (span(short), span(short + 1));
    assert_eq!(next, (length - 100, offset + 100), "the rest follows");
}

/// An optional call that a file system does not know is no reason to give up.
#[test]
fn a_file_system_without_fallocate_is_fine() {
    let Some(mut bench) = Bench::new("fallocate", Policy::Always) else {
        return;
    };
    let launch = Strace::launch(&bench.log(), &["fallocate:error=EOPNOTSUPP"]);
    let server = Idemd::start(&bench.dir.data(), &bench.options.clone().through(launch));
    bench
        .ledger
        .steps(&mut server.client(), LARGE, 10)
        .expect("nothing fails");
    server.sigkill();
    bench.check_after_restart();
}
