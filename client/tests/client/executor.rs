//! The executor where nothing fails but the work: outcomes, commands, arguments, values.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use idem_client::{
    Codec, CodecError, ErrorKind, ExecuteError, Fingerprint, IdempotentExecutor, MemoryStore, Outcome,
    OwnerToken, Store,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::recording::Recording;
use crate::support::Server;

const DAY: Duration = Duration::from_secs(86_400);

/// The error of work in these tests.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of stock")]
pub(crate) struct OutOfStock;

pub(crate) type Call<T> = Result<Outcome<T>, ExecuteError<T, OutOfStock>>;

pub(crate) fn executor<S: Store>(store: &S) -> IdempotentExecutor<S> {
    IdempotentExecutor::builder(store.clone(), "test:")
        .build()
        .unwrap()
}

pub(crate) fn aborting<S: Store>(store: &S) -> IdempotentExecutor<S> {
    let builder = IdempotentExecutor::builder(store.clone(), "test:");
    builder.abort_on_error(true).build().unwrap()
}

pub(crate) async fn succeed() -> Result<u32, OutOfStock> {
    Ok(42)
}

pub(crate) async fn never_run() -> Result<u32, OutOfStock> {
    panic!("this work must not run");
}

#[tokio::test]
async fn one_command_for_a_repeat_and_two_for_a_run() {
    let store = Recording::new();
    let once = executor(&store);
    let first: Call<u32> = once.execute_once("k", "fp", None, succeed).await;
    assert_eq!(
        first.unwrap(),
        Outcome::Executed {
            value: 42,
            stored: true
        }
    );
    assert_eq!(store.take_names(), ["begin", "complete"]);
    let again: Call<u32> = once.execute_once("k", "fp", None, never_run).await;
    assert_eq!(again.unwrap(), Outcome::Replayed { value: 42 });
    assert_eq!(store.take_names(), ["begin"]);
    let other: Call<u32> = once.execute_once("k", "other", None, never_run).await;
    assert_eq!(other.unwrap(), Outcome::Conflict);
    assert_eq!(store.take_names(), ["begin"]);
    let meanwhile: Call<u32> = once
        .execute_once("k2", "fp", None, async || {
            // idem-2, another attempt while the first one works: it is pending, and the first one still completes.
            let inner: Call<u32> = once.execute_once("k2", "fp", None, never_run).await;
            assert_eq!(inner.unwrap(), Outcome::Pending);
            Ok(7)
        })
        .await;
    assert_eq!(
        meanwhile.unwrap(),
        Outcome::Executed {
            value: 7,
            stored: true
        }
    );
    assert_eq!(store.take_names(), ["begin", "begin", "complete"]);
}

#[tokio::test]
async fn keys_fingerprints_retention_and_owners_as_they_are_sent() {
    let store = Recording::new();
    let once = executor(&store);
    let minute = Duration::from_secs(60);
    let bytes = [0xff; 128];
    let _ = once.execute_once("text", "fp", minute, succeed).await.unwrap();
    let _ = once
        .execute_once([0_u8, 255], &bytes, Some(minute), succeed)
        .await
        .unwrap();
    let _ = once.execute_once("none", None, None, succeed).await.unwrap();
    let _ = once
        .execute_once("none2", Fingerprint::NONE, None, succeed)
        .await
        .unwrap();
    let asked = store.asked();
    let begun: Vec<_> = asked.iter().filter(|asked| asked.name == "begin").collect();
    for (begun, (key, fingerprint, retention)) in begun.iter().zip([
        (b"test:text".as_slice(), b"fp".as_slice(), minute),
        (b"test:\x00\xff", &bytes, minute),
        (b"test:none", b"-", DAY),
        (b"test:none2", b"-", DAY),
    ]) {
        assert_eq!(
            (begun.key.as_slice(), begun.fingerprint.as_slice()),
            (key, fingerprint)
        );
        let ttl = store.memory.inspect(key).unwrap().ttl;
        assert!(ttl <= retention && ttl > retention / 2, "{ttl:?}");
        // 128 bits of the operating system, 32 digits, used for this one attempt and for both of its commands.
        assert_eq!(begun.owner.len(), 32);
        let users = asked.iter().filter(|asked| asked.owner == begun.owner);
        assert!(users.clone().count() == 2 && users.clone().all(|asked| asked.key == begun.key));
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_before_begin() {
    let store = Recording::new();
    let once = executor(&store);
    let too_long = [b'x'; 129];
    let micros = Duration::from_micros(1_500);
    for (fingerprint, retention) in [
        (b"".as_slice(), DAY),
        (&too_long, DAY),
        (b"fp", Duration::ZERO),
        (b"fp", micros),
        (b"fp", 7 * DAY + Duration::from_millis(1)),
    ] {
        let refused: Call<u32> = once.execute_once("k", fingerprint, retention, never_run).await;
        let Err(ExecuteError::Refused(error)) = refused else {
            panic!("{} bytes, {retention:?}: {refused:?}", fingerprint.len());
        };
        assert_eq!(
            (error.kind(), error.may_have_run()),
            (ErrorKind::InvalidArgument, false)
        );
    }
    for key in [String::new(), "k".repeat(idem_client::KEY_BYTES)] {
        let refused: Call<u32> = once.execute_once(&key, None, None, never_run).await;
        assert!(matches!(refused, Err(ExecuteError::Refused(_))), "{}", key.len());
    }
    let refused: Call<u32> = once.execute_once("k", &too_long, None, never_run).await;
    assert!(refused.unwrap_err().to_string().contains("pass a digest"));
    assert!(store.asked().is_empty());
}

#[test]
fn construction_checks_and_connects_to_nothing() {
    let build = |prefix: &str, retention: Option<Duration>| {
        let nobody =
            idem_client::RedisStore::open(format!("redis://{}/", crate::support::closed_address())).unwrap();
        let builder = IdempotentExecutor::builder(nobody, prefix);
        match retention {
            Some(retention) => builder.retention(retention).build(),
            None => builder.build(),
        }
        .is_ok()
    };
    let ms = Duration::from_millis;
    for (prefix, retention, expected) in [
        ("p", None, true),
        ("", None, false),
        ("p", Some(ms(1)), true),
        ("p", Some(7 * DAY), true),
        ("p", Some(7 * DAY + ms(1)), false),
        ("p", Some(Duration::ZERO), false),
        ("p", Some(Duration::from_nanos(1_000_001)), false),
    ] {
        assert_eq!(build(prefix, retention), expected, "{prefix} {retention:?}");
    }
}

/// idem-29: what other libraries did not store, or gave back as something else.
#[tokio::test]
async fn values_that_look_like_nothing_come_back() {
    async fn check<T>(name: &str, value: T)
    where
        T: Serialize + DeserializeOwned + Clone + PartialEq + Debug,
    {
        let once = executor(&MemoryStore::new());
        let run = || async { Ok::<_, OutOfStock>(value.clone()) };
        let first = once.execute_once(name, None, None, run).await.unwrap();
        assert_eq!(
            first,
            Outcome::Executed {
                value: value.clone(),
                stored: true
            },
            "{name}"
        );
        let again = once.execute_once(name, None, None, run).await.unwrap();
        assert_eq!(again, Outcome::Replayed { value: value.clone() }, "{name}");
    }
    check("unit", ()).await;
    check("zero", 0_u64).await;
    check("false", false).await;
    check("none", None::<u32>).await;
    check("empty list", Vec::<u32>::new()).await;
    for text in ["", "0", "null", "None", "\0", "\r\n", "\u{fffd}"] {
        check(&format!("text {text:?}"), text.to_owned()).await;
    }
    check("a mebibyte", "\u{ff}".repeat(1 << 19)).await;
    // Amounts whose shortest decimals are read back as another float by a reader that takes the short way.
    let amounts: Vec<f64> = (0..5_000_u32)
        .map(|cents| f64::from(cents) / 100.0 * 1.19)
        .collect();
    check("amounts", amounts).await;
    check(
        "edges",
        vec![f64::MIN_POSITIVE, f64::MAX, 5e-324, -0.0, 981_721.689_899_999_9],
    )
    .await;
}

/// What a codec cannot read again is told when it was made, and not to everybody who repeats it.
#[tokio::test]
async fn a_value_that_cannot_be_read_again_is_not_stored() {
    for value in [f64::NAN, f64::INFINITY] {
        let store = Recording::new();
        let run = || async { Ok::<_, OutOfStock>(value) };
        let failed = executor(&store).execute_once("k", None, None, run).await;
        assert!(
            matches!(failed, Err(ExecuteError::Unstorable { value: kept, .. }) if kept.to_bits() == value.to_bits())
        );
        assert_eq!(store.take_names(), ["begin"]);
        let again: Call<f64> = executor(&store).execute_once("k", None, None, run).await;
        assert_eq!(again.unwrap(), Outcome::Pending);
    }
}

/// A log is read by more people than may read what is stored.
#[tokio::test]
async fn an_error_does_not_show_a_stored_value() {
    let once = executor(&MemoryStore::new());
    let card = || async { Ok::<_, OutOfStock>("4111 1111 1111 1111".to_owned()) };
    let _ = once.execute_once("k", None, None, card).await.unwrap();
    let other: Call<u32> = once.execute_once("k", None, None, never_run).await;
    let error = other.unwrap_err();
    let told = format!("{error} {error:?} {:?}", std::error::Error::source(&error));
    assert!(
        told.contains("does not fit the type") && !told.contains("4111"),
        "{told}"
    );
}

/// A codec that says how often it was used, and stores no JSON.
#[derive(Clone, Debug, Default)]
struct Reversed(Arc<AtomicUsize>);

impl Codec for Reversed {
    fn encode<T: Serialize>(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let mut bytes = idem_client::Json.encode(value)?;
        bytes.reverse();
        Ok(bytes)
    }

    fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, CodecError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        idem_client::Json.decode(&bytes.iter().rev().copied().collect::<Vec<u8>>())
    }
}

#[tokio::test]
async fn another_codec_and_what_it_cannot_read() {
    let store = MemoryStore::new();
    let codec = Reversed::default();
    let builder = IdempotentExecutor::builder(store.clone(), "test:");
    let reversed = builder.codec(codec.clone()).build().unwrap();
    let work = || async { Ok::<_, OutOfStock>("abc".to_owned()) };
    let _ = reversed.execute_once("k", None, None, work).await.unwrap();
    let again = reversed.execute_once("k", None, None, work).await.unwrap();
    assert_eq!(
        again,
        Outcome::Replayed {
            value: "abc".to_owned()
        }
    );
    // Encoded and tried once, and read for the replay.
    assert_eq!(codec.0.load(Ordering::SeqCst), 3);
    // Another version of the application, which expects something else: an error, and no second run.
    let other: Call<u32> = executor(&store).execute_once("k", None, None, never_run).await;
    assert!(
        matches!(other, Err(ExecuteError::Undecodable { .. })),
        "{other:?}"
    );
}

/// idem-8 and idem-5: who outlives the retention has run, and has nothing stored; the second one's record is its own.
#[tokio::test]
async fn a_run_that_outlives_its_retention_stores_nothing() {
    let now = Arc::new(AtomicU64::new(1_000_000));
    let clock = Arc::clone(&now);
    let store = Recording::over(MemoryStore::with_clock(move || clock.load(Ordering::SeqCst)));
    for once in [executor(&store), aborting(&store)] {
        let slow: Call<u32> = once
            .execute_once("k", None, Duration::from_millis(50), async || {
                now.fetch_add(50, Ordering::SeqCst);
                let second: Call<u32> = once
                    .execute_once("k", None, Duration::from_millis(50), async || Ok(2))
                    .await;
                assert_eq!(
                    second.unwrap(),
                    Outcome::Executed {
                        value: 2,
                        stored: true
                    }
                );
                Ok(1)
            })
            .await;
        assert_eq!(
            slow.unwrap(),
            Outcome::Executed {
                value: 1,
                stored: false
            }
        );
        let third: Call<u32> = once.execute_once("k", None, None, never_run).await;
        assert_eq!(third.unwrap(), Outcome::Replayed { value: 2 });
        assert_eq!(
            store.take_names(),
            ["begin", "begin", "complete", "complete", "begin"]
        );
        now.fetch_add(50, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn two_hundred_calls_at_once_run_the_work_once() {
    at_once(MemoryStore::new(), "two-hundred").await;
    if let Some(server) = Server::find("two_hundred_calls_at_once_run_the_work_once") {
        at_once(server.store(), &server.key("two-hundred")).await;
    }
}

async fn at_once(store: impl Store, prefix: &str) {
    let once = IdempotentExecutor::builder(store, prefix).build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let (once, runs) = (once.clone(), Arc::clone(&runs));
            tokio::spawn(async move {
                let work = async || {
                    runs.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    Ok::<_, OutOfStock>(OwnerToken::random().unwrap().as_bytes().to_vec())
                };
                once.execute_once("k", "fp", None, work).await.unwrap()
            })
        })
        .collect();
    let mut values = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            Outcome::Executed { value, stored: true } | Outcome::Replayed { value } => values.push(value),
            Outcome::Pending => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(!values.is_empty());
    assert!(
        values.iter().all(|value| *value == values[0]),
        "all got the value of the one run"
    );
}
