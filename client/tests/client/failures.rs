//! Servers that are away, slow, killed, full, or none of ours.

use std::future::Future;
use std::task::Poll;
use std::time::{Duration, Instant};

use idem_client::{
    Begin, ErrorKind, ExecuteError, IdempotencyCommands, IdempotencyPipeline, IdempotentExecutor, Outcome,
    RedisStore, Store,
};
use idem_testsuite::contract::RedisTarget;
use idem_testsuite::process::Idemd;
use idem_testsuite::require::skip;
use idem_testsuite::testdir::TestDir;
use rustix::process::{Pid, Signal, kill_process};

use crate::executor::{Call, never_run};
use crate::support::{Server, can_start, closed_address, options, own_idemd};

pub(crate) const TTL: Duration = Duration::from_secs(60);

pub(crate) fn store_at(address: impl std::fmt::Display) -> RedisStore {
    RedisStore::open(format!("redis://{address}/")).unwrap()
}

/// A server is stopped and goes on when this goes.
struct Stopped(Pid);

impl Stopped {
    fn new(idemd: &Idemd) -> Stopped {
        let pid = Pid::from_raw(i32::try_from(idemd.pid()).unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[tokio::test]
async fn a_server_that_is_away_fails_calls_and_the_first_one_after_its_return_works() {
    if !can_start("a_server_that_is_away_fails_calls") {
        return;
    }
    let address = closed_address();
    let store = store_at(address);
    for _ in 0..3 {
        let started = Instant::now();
        let error = store.begin(b"k", b"f", b"o", TTL).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.may_have_run()),
            (ErrorKind::Connection, false),
            "{error}"
        );
        assert!(error.is_transient() && started.elapsed() < Duration::from_secs(1));
    }
    let (_idemd, _dir) = own_idemd("away", options().port(address.port()));
    assert_eq!(store.begin(b"k", b"f", b"o", TTL).await.unwrap(), Begin::Acquired);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_killed_is_found_again_by_a_runtime_of_many_threads() {
    killed_while_idle().await;
}

#[tokio::test]
async fn a_server_that_was_killed_while_nobody_asked_is_found_again_by_the_first_call() {
    killed_while_idle().await;
}

async fn killed_while_idle() {
    let Some(mut server) = Server::own("killed_while_idle") else {
        return;
    };
    let store = server.store();
    assert_eq!(store.begin(b"k", b"f", b"o", TTL).await.unwrap(), Begin::Acquired);
    for _ in 0..3 {
        server.restart();
        assert_eq!(store.begin(b"k", b"f", b"p", TTL).await.unwrap(), Begin::Pending);
    }
}

/// Programs that make a runtime for each piece of work share a store all the same.
#[test]
fn a_store_outlives_the_runtime_that_it_was_used_in() {
    let Some(server) = Server::find("a_store_outlives_the_runtime") else {
        return;
    };
    let (store, key) = (server.store(), server.key("k"));
    for (owner, expected) in [
        (b"a", Begin::Acquired),
        (b"b", Begin::Pending),
        (b"c", Begin::Pending),
    ] {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let begun = runtime.block_on(store.begin(key.as_bytes(), b"f", owner, TTL));
        assert_eq!(begun.unwrap(), expected);
    }
}

/// Runtimes side by side, one of which stands still for as long as nobody blocks on it, or ends while others call.
#[test]
fn a_store_in_several_runtimes_has_a_connection_in_each() {
    let Some(server) = Server::find("a_store_in_several_runtimes") else {
        return;
    };
    let (store, key) = (server.store(), server.key("k"));
    let current = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let begin = |runtime: &tokio::runtime::Runtime, owner: &[u8]| {
        runtime.block_on(async {
            let begun = store.begin(key.as_bytes(), b"f", owner, TTL);
            tokio::time::timeout(Duration::from_secs(5), begun)
                .await
                .unwrap()
                .unwrap()
        })
    };
    let (idle, other) = (current(), current());
    assert_eq!(begin(&idle, b"a"), Begin::Acquired);
    for owner in [b"b", b"c", b"d"] {
        assert_eq!(begin(&other, owner), Begin::Pending);
    }
    // An attempt to connect that was begun and not waited for.
    let begun = current();
    begun.block_on(async {
        let store = server.store();
        let mut call = std::pin::pin!(store.begin(b"never", b"f", b"o", TTL));
        let polled = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context)));
        assert!(polled.await.is_pending());
    });
    assert_eq!(begin(&other, b"e"), Begin::Pending);
    drop(idle);
    assert_eq!(begin(&other, b"f"), Begin::Pending);
    assert_eq!(begin(&current(), b"g"), Begin::Pending);
}

/// A database that the server does not have is no lost connection, and nothing was sent.
#[tokio::test]
async fn a_database_that_is_not_there_is_a_wrong_configuration() {
    let Some(server) = Server::find("a_database_that_is_not_there") else {
        return;
    };
    let store = RedisStore::open(format!("redis://{}/12345", server.address())).unwrap();
    let error = store.begin(b"k", b"f", b"o", TTL).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.is_transient(), error.may_have_run()),
        (ErrorKind::InvalidArgument, false, false),
        "{error}"
    );
}

#[tokio::test]
async fn no_answer_in_time_may_have_run_and_a_kill_between_command_and_answer_too() {
    let Some(mut server) = Server::own("no_answer_in_time") else {
        return;
    };
    let store = server
        .store()
        .with_response_timeout(Duration::from_millis(200))
        .unwrap();
    let patient = server.store();
    assert_eq!(store.begin(b"k", b"f", b"o", TTL).await.unwrap(), Begin::Acquired);
    assert!(patient.inspect(b"k").await.unwrap().is_some());

    let stopped = Stopped::new(server.idemd());
    let error = store.begin(b"slow", b"f", b"o", TTL).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.may_have_run()),
        (ErrorKind::Timeout, true),
        "{error}"
    );
    // This one waits longer than the server lives.
    let waiting = tokio::spawn(async move { patient.begin(b"killed", b"f", b"o", TTL).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    std::mem::forget(stopped);
    server.restart();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.may_have_run()),
        (ErrorKind::Connection, true),
        "{error}"
    );
    assert_eq!(store.begin(b"k", b"f", b"o", TTL).await.unwrap(), Begin::Pending);
}

/// idem-35: the server dies after the work and before COMPLETE. No ABORT, the value is not lost, and the retry is pending.
#[tokio::test]
async fn a_server_that_dies_before_complete_leaves_the_record_pending() {
    let Some(mut server) = Server::own("dies_before_complete") else {
        return;
    };
    let builder = IdempotentExecutor::builder(server.store(), "test:");
    let once = builder.abort_on_error(true).build().unwrap();
    let died: Call<u32> = once
        .execute_once("k", None, None, async || {
            server.idemd().sigkill();
            Ok(42)
        })
        .await;
    assert!(
        matches!(died, Err(ExecuteError::Complete { value: 42, .. })),
        "{died:?}"
    );
    server.restart();
    let again: Call<u32> = once.execute_once("k", None, None, never_run).await;
    assert_eq!(again.unwrap(), Outcome::Pending);
}

#[test]
fn errors_that_a_server_answers() {
    let Some(server) = Server::find("errors_that_a_server_answers") else {
        return;
    };
    let mut connection = server.client(false).get_connection().unwrap();
    let check = |result: Result<Begin, idem_client::Error>, kind: ErrorKind| {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.may_have_run()), (kind, false), "{error}");
    };
    let key = server.key("hash");
    redis::cmd("HSET")
        .arg(&key)
        .arg("f")
        .arg("v")
        .exec(&mut connection)
        .unwrap();
    check(
        connection.idempotency_begin(&key, "f", "o", TTL),
        ErrorKind::WrongType,
    );
    let key = server.key("without-deadline");
    assert_eq!(
        connection.idempotency_begin(&key, "f", "o", TTL).unwrap(),
        Begin::Acquired
    );
    redis::cmd("PERSIST").arg(&key).exec(&mut connection).unwrap();
    check(
        connection.idempotency_begin(&key, "f", "o", TTL),
        ErrorKind::WrongType,
    );
    // An action of a later version, as this one answers it.
    let error = redis::cmd("IDEM")
        .arg("secret")
        .arg("RENEW")
        .exec(&mut connection)
        .unwrap_err();
    let error = idem_client::Error::from(error);
    assert_eq!(
        (error.kind(), error.may_have_run()),
        (ErrorKind::Unsupported, true),
        "{error}: nothing says that it was one command"
    );
}

/// Whatever a transaction's error says, its commands may have run: what EXEC answered is not in it.
#[test]
fn an_error_of_a_transaction_is_no_proof() {
    let Some(server) = Server::find("an_error_of_a_transaction") else {
        return;
    };
    let key = server.key("k");
    let mut connection = server.client(false).get_connection().unwrap();
    let mut pipeline = redis::pipe();
    pipeline.atomic().idempotency_begin(&key, "f", "o", TTL).unwrap();
    // Refused while it is queued, and EXEC does not mind.
    pipeline.cmd("WATCH").arg("x");
    let error = idem_client::Error::from(pipeline.exec(&mut connection).unwrap_err());
    assert!(connection.idempotency_inspect(&key).unwrap().is_some(), "it ran");
    assert!(error.may_have_run(), "{error}");

    let mut pipeline = redis::pipe();
    pipeline.atomic().idempotency_abort(&key, "f", "o").unwrap();
    pipeline.cmd("IDEM").arg("secret").arg("RENEW");
    let error = idem_client::Error::from(pipeline.exec(&mut connection).unwrap_err());
    assert_eq!(
        (error.kind(), error.may_have_run()),
        (ErrorKind::Unsupported, true),
        "{error}"
    );
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
}

#[test]
fn a_full_server_has_no_space() {
    if !can_start("a_full_server_has_no_space") {
        return;
    }
    let (idemd, _dir) = own_idemd("full", options().option("maxmemory", "1"));
    let mut connection = redis::Client::open(format!("redis://{}/", idemd.address())).unwrap();
    let error = (0..1_000)
        .find_map(|number| {
            connection
                .idempotency_begin(format!("k{number}"), "f", "o", TTL)
                .err()
        })
        .expect("a byte is not much");
    assert_eq!(
        (error.kind(), error.may_have_run()),
        (ErrorKind::NoSpace, false),
        "{error}"
    );
    assert!(error.is_transient());
}

#[test]
fn a_server_that_is_no_idemd_does_not_know_the_command() {
    let test = "a_server_that_is_no_idemd";
    let dir = TestDir::new(test, 1);
    match RedisTarget::start(&dir.data()) {
        Ok(redis) => {
            let mut connection = redis::Client::open(format!("redis://{}/", redis.address())).unwrap();
            let error = connection.idempotency_begin("secret", "f", "o", TTL).unwrap_err();
            assert_eq!(
                (error.kind(), error.may_have_run()),
                (ErrorKind::Unsupported, false),
                "{error}"
            );
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
        Err(reason) => skip(test, &reason),
    }
}
