//! The executor where something fails: the work, a command, its answer, or the caller who goes away.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use idem_client::{ErrorKind, ExecuteError, Outcome, State, Store};
use tokio::sync::oneshot;

use crate::executor::{Call, OutOfStock, aborting, executor, never_run, succeed};
use crate::recording::{Fault, Recording};

async fn fail() -> Result<u32, OutOfStock> {
    Err(OutOfStock)
}

#[tokio::test]
async fn failed_work_leaves_its_record_pending() {
    let store = Recording::new();
    let once = executor(&store);
    let failed: Call<u32> = once.execute_once("k", None, None, fail).await;
    assert!(
        matches!(failed, Err(ExecuteError::Work(OutOfStock))),
        "{failed:?}"
    );
    let again: Call<u32> = once.execute_once("k", None, None, never_run).await;
    assert_eq!(again.unwrap(), Outcome::Pending);
    assert_eq!(store.take_names(), ["begin", "begin"]);
}

/// idem-56: work fails with abort-on-error, so the redelivery runs.
#[tokio::test]
async fn failed_work_gives_its_record_back_when_that_is_asked_for() {
    let store = Recording::new();
    let once = aborting(&store);
    let failed: Call<u32> = once.execute_once("k", None, None, fail).await;
    assert!(
        matches!(failed, Err(ExecuteError::Work(OutOfStock))),
        "{failed:?}"
    );
    assert_eq!(store.take_names(), ["begin", "abort"]);
    let again: Call<u32> = once.execute_once("k", None, None, succeed).await;
    assert_eq!(
        again.unwrap(),
        Outcome::Executed {
            value: 42,
            stored: true
        }
    );
    assert_eq!(store.take_names(), ["begin", "complete"]);
}

/// idem-10: an attempt's late ABORT is bound to the attempt, and frees nobody else's record.
#[tokio::test]
async fn a_late_abort_does_not_free_the_next_attempt() {
    let store = Recording::new();
    let once = aborting(&store);
    let _: Call<u32> = once.execute_once("k", None, None, fail).await;
    let first = store.asked()[0].clone();
    let second: Call<u32> = once
        .execute_once("k", None, None, async || {
            assert!(
                !store
                    .memory
                    .abort(&first.key, &first.fingerprint, &first.owner)
                    .await
                    .unwrap()
            );
            Ok(1)
        })
        .await;
    assert_eq!(
        second.unwrap(),
        Outcome::Executed {
            value: 1,
            stored: true
        }
    );
}

#[tokio::test]
async fn a_failed_abort_never_hides_the_error_of_the_work() {
    let store = Recording::new();
    let once = aborting(&store);
    for fault in [
        Fault::Refused(ErrorKind::Unsupported),
        Fault::Refused(ErrorKind::NotWritable),
        Fault::AnswerLost,
        Fault::CommandLost,
    ] {
        store.fail_next("abort", fault);
        let key = format!("{fault:?}");
        let failed: Call<u32> = once.execute_once(&key, None, None, fail).await;
        assert!(
            matches!(failed, Err(ExecuteError::Work(OutOfStock))),
            "{failed:?}"
        );
        assert_eq!(
            store.take_names(),
            ["begin", "abort"],
            "sent once, whatever became of it"
        );
    }
}

#[tokio::test]
async fn a_panic_goes_through_and_gives_the_record_back_when_that_is_asked_for() {
    for (is_aborting, names) in [(false, vec!["begin"]), (true, vec!["begin", "abort"])] {
        let store = Recording::new();
        let once = if is_aborting {
            aborting(&store)
        } else {
            executor(&store)
        };
        // At the first call of the work, and while it is awaited.
        for (key, at_once) in [("first", true), ("later", false)] {
            let work = async || -> Result<u32, OutOfStock> {
                if !at_once {
                    tokio::task::yield_now().await;
                }
                panic!("a fault of the work")
            };
            let call = once.execute_once(key, None, None, work);
            let panic = AssertUnwindSafe(call)
                .catch_unwind()
                .await
                .expect_err("it panics");
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"a fault of the work"));
            assert_eq!(store.take_names(), names);
            let left = store.memory.inspect(format!("test:{key}").as_bytes());
            assert_eq!(left.is_none(), is_aborting);
        }
    }
}

#[tokio::test]
async fn work_that_is_dropped_gives_the_record_back_when_that_is_asked_for() {
    for is_aborting in [false, true] {
        let store = Recording::new();
        let once = if is_aborting {
            aborting(&store)
        } else {
            executor(&store)
        };
        let (started, has_started) = oneshot::channel();
        let work = async move || -> Result<u32, OutOfStock> {
            started.send(()).unwrap();
            std::future::pending().await
        };
        tokio::select! {
            _ = once.execute_once("k", None, None, work) => panic!("the work has no end"),
            _ = has_started => {}
        }
        // ABORT goes out in a task of its own.
        tokio::time::timeout(Duration::from_secs(10), async {
            while is_aborting && store.memory.inspect(b"test:k").is_some() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the record is given back");
        let names = if is_aborting {
            vec!["begin", "abort"]
        } else {
            vec!["begin"]
        };
        assert_eq!(store.take_names(), names);
        assert_eq!(store.memory.inspect(b"test:k").is_none(), is_aborting);
    }
}

/// idem-35: after a COMPLETE was begun nobody knows whether it was carried out; ABORT could allow a second run.
#[tokio::test]
async fn who_is_dropped_while_completing_does_not_abort() {
    let store = Recording::new();
    store.fail_next("complete", Fault::Hangs);
    let once = aborting(&store);
    let call = once.execute_once("k", None, None, succeed);
    assert!(
        tokio::time::timeout(Duration::from_millis(20), call)
            .await
            .is_err()
    );
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.take_names(), ["begin", "complete"]);
    assert_eq!(store.memory.inspect(b"test:k").unwrap().state, State::Pending);
}

/// A BEGIN that never came back may have begun. Nothing is deleted for it.
#[tokio::test]
async fn who_is_dropped_while_beginning_sends_nothing_more() {
    let store = Recording::new();
    store.fail_next("begin", Fault::Hangs);
    let once = aborting(&store);
    let call = once.execute_once("k", None, None, never_run);
    assert!(
        tokio::time::timeout(Duration::from_millis(20), call)
            .await
            .is_err()
    );
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.take_names(), ["begin"]);
}

#[tokio::test]
async fn a_begin_that_fails_runs_nothing_and_is_sent_once() {
    let kinds = [
        ErrorKind::WrongType,
        ErrorKind::NotWritable,
        ErrorKind::NoSpace,
        ErrorKind::NoReplicas,
        ErrorKind::Unsupported,
        ErrorKind::Denied,
    ];
    let faults = kinds
        .map(|kind| (Fault::Refused(kind), kind, false))
        .into_iter()
        .chain([
            (Fault::AnswerLost, ErrorKind::Connection, true),
            (Fault::CommandLost, ErrorKind::Connection, true),
        ]);
    for (fault, kind, may_have_run) in faults {
        let store = Recording::new();
        store.fail_next("begin", fault);
        let failed: Call<u32> = aborting(&store).execute_once("k", None, None, never_run).await;
        let Err(ExecuteError::Begin(error)) = failed else {
            panic!("{fault:?}: {failed:?}");
        };
        assert_eq!(
            (error.kind(), error.may_have_run()),
            (kind, may_have_run),
            "{fault:?}"
        );
        assert_eq!(store.take_names(), ["begin"]);
    }
}

/// idem-35: the error carries the value, there is no ABORT and no second COMPLETE. A later BEGIN tells what became of it.
#[tokio::test]
async fn a_failed_complete_carries_the_value_and_is_followed_by_nothing() {
    for (fault, later) in [
        (Fault::AnswerLost, Outcome::Replayed { value: 42 }),
        (Fault::CommandLost, Outcome::Pending),
        (Fault::Refused(ErrorKind::NoSpace), Outcome::Pending),
        (Fault::Refused(ErrorKind::NotWritable), Outcome::Pending),
    ] {
        let store = Recording::new();
        store.fail_next("complete", fault);
        let once = aborting(&store);
        let failed: Call<u32> = once.execute_once("k", None, None, succeed).await;
        let Err(ExecuteError::Complete { value: 42, error }) = &failed else {
            panic!("{fault:?}: {failed:?}");
        };
        assert_eq!(
            error.may_have_run(),
            matches!(fault, Fault::AnswerLost | Fault::CommandLost)
        );
        assert_eq!(failed.unwrap_err().into_value(), Some(42));
        assert_eq!(store.take_names(), ["begin", "complete"]);
        let again: Call<u32> = once.execute_once("k", None, None, never_run).await;
        assert_eq!(again.unwrap(), later, "{fault:?}");
    }
}

#[tokio::test]
async fn a_value_that_cannot_be_stored_comes_with_the_error() {
    let store = Recording::new();
    let once = aborting(&store);
    // In JSON two bytes more than the limit.
    let large = "x".repeat(idem_client::RESULT_BYTES);
    let run = || async { Ok::<_, OutOfStock>(large.clone()) };
    let failed = once.execute_once("k", None, None, run).await;
    let Err(ExecuteError::Unstorable { value, error }) = failed else {
        panic!("{failed:?}");
    };
    assert!(value == large && error.to_string().contains("4194304"), "{error}");
    assert_eq!(store.take_names(), ["begin"], "no COMPLETE, no ABORT");
    let again: Call<String> = once.execute_once("k", None, None, run).await;
    assert_eq!(again.unwrap(), Outcome::Pending);
}
