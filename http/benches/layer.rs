//! What the layer costs: on an unmarked route nothing, on a marked one hashing, a task, and at most two round trips.
//!
//! ```text
//! cargo bench -p idem-http                                    # with a store that answers at once
//! IDEM_TEST_ADDR=127.0.0.1:6379 cargo bench -p idem-http      # and with a running server
//! ```
//!
//! * `unmarked`: a route of a router that has a marked one beside it, and the same route of a router that has none.
//! * `marked`: a handler without the layer, a run and a replay behind it. The store answers at once, so the difference is
//!   the layer's own work.
//! * `server`: a run beside the BEGIN and COMPLETE that it consists of, sent by hand; a replay beside its BEGIN.
//!
//! How many commands a request costs is counted before anything is measured, and is no matter of luck.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use http::Request;
use idem_client::{Begin, Error, OwnerToken, RedisStore, Store, redis};
use idem_http::{IdempotencyLayer, Principal, storage_key};
use tokio::runtime::Runtime;
use tower::ServiceExt;

/// Answers at once: every key is new, or, once there is an answer to replay, was completed.
#[derive(Clone, Default)]
struct Instant {
    commands: Arc<AtomicU64>,
    replay: Option<Vec<u8>>,
}

impl Store for Instant {
    async fn begin(&self, _: &[u8], _: &[u8], _: &[u8], _: Duration) -> Result<Begin, Error> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        Ok(self.replay.clone().map_or(Begin::Acquired, Begin::Completed))
    }

    async fn complete(&self, _: &[u8], _: &[u8], _: &[u8], _: &[u8]) -> Result<bool, Error> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    async fn abort(&self, _: &[u8], _: &[u8], _: &[u8]) -> Result<bool, Error> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }
}

fn once<S: Store>(store: S, namespace: &str) -> IdempotencyLayer<S> {
    IdempotencyLayer::builder(store)
        .namespace(namespace)
        .principal(|_| Some(Principal::new("Bearer", "bench", "ada")))
        .scope(|_| "acme".to_owned())
        .max_request_bytes(1 << 20)
        .retention(Duration::from_secs(60))
        .build()
        .expect("its values are within their bounds")
}

/// Reads its body, as a handler does.
fn handler() -> axum::routing::MethodRouter {
    post(async |body: Bytes| body.len().to_string())
}

fn request(path: &str, key: &str, body: &Bytes) -> Request<Body> {
    Request::post(path)
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(Body::from(body.clone()))
        .expect("a request of constants")
}

fn call(runtime: &Runtime, router: &Router, request: Request<Body>) -> u16 {
    let Ok(answer) = runtime.block_on(router.clone().oneshot(request));
    answer.status().as_u16()
}

fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime for the benchmark")
}

fn unmarked(criterion: &mut Criterion) {
    let runtime = runtime();
    let body = Bytes::from(vec![b'x'; 1024]);
    let marked = handler().route_layer(once(Instant::default(), "bench"));
    let bare = Router::new()
        .route("/plain", handler())
        .route("/other", handler());
    let beside = Router::new().route("/plain", handler()).route("/other", marked);
    let mut group = criterion.benchmark_group("unmarked");
    for (name, router) in [
        ("no layer in the router", &bare),
        ("beside a marked route", &beside),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(call(&runtime, router, request("/plain", "k", &body))));
        });
    }
    group.finish();
}

fn marked(criterion: &mut Criterion) {
    let runtime = runtime();
    let run = Instant::default();
    let replay = Instant {
        // 200 without headers, and the body `1024`.
        replay: Some(b"\x01\x00\xc8\x00\x00\x00\x00\x041024".to_vec()),
        ..Instant::default()
    };
    let router =
        |store: &Instant| Router::new().route("/", handler().route_layer(once(store.clone(), "bench")));
    let (run_router, replay_router) = (router(&run), router(&replay));
    for (store, router, expected) in [(&run, &run_router, 2), (&replay, &replay_router, 1)] {
        assert_eq!(call(&runtime, router, request("/", "k", &Bytes::new())), 200);
        assert_eq!(store.commands.load(Ordering::Relaxed), expected);
    }
    let bare = Router::new().route("/", handler());
    let mut group = criterion.benchmark_group("marked");
    for length in [0, 1024, 64 * 1024, 1 << 20] {
        let body = Bytes::from(vec![b'x'; length]);
        for (name, router) in [
            ("no layer", &bare),
            ("run", &run_router),
            ("replay", &replay_router),
        ] {
            group.bench_with_input(BenchmarkId::new(name, length), &body, |bencher, body| {
                bencher.iter(|| black_box(call(&runtime, router, request("/", "k", body))));
            });
        }
    }
    group.finish();
}

fn server(criterion: &mut Criterion) {
    let Ok(address) = std::env::var("IDEM_TEST_ADDR") else {
        eprintln!("no IDEM_TEST_ADDR: nothing is measured on a server");
        return;
    };
    let runtime = runtime();
    let store = RedisStore::open(format!("redis://{address}/")).expect("IDEM_TEST_ADDR is host:port");
    let token = OwnerToken::random().expect("random bytes");
    let namespace = format!("bench-{}", String::from_utf8_lossy(token.as_bytes()));
    let router = Router::new().route("/", handler().route_layer(once(store.clone(), &namespace)));
    let body = Bytes::from(vec![b'x'; 1024]);
    let number = AtomicU64::new(0);
    let fresh = || format!("{namespace}-{}", number.fetch_add(1, Ordering::Relaxed));
    let (fingerprint, minute) = ([b'f'; 64], Duration::from_secs(60));
    let begin = async |key: &str| {
        store
            .begin(key.as_bytes(), &fingerprint, token.as_bytes(), minute)
            .await
    };

    let mut group = criterion.benchmark_group("server");
    group.bench_function("BEGIN and COMPLETE by hand", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let key = fresh();
                assert_eq!(begin(&key).await.expect("a server"), Begin::Acquired);
                let done = store
                    .complete(key.as_bytes(), &fingerprint, token.as_bytes(), b"1024")
                    .await;
                assert!(done.expect("a server"));
            });
        });
    });
    group.bench_function("run", |bencher| {
        bencher.iter(|| assert_eq!(call(&runtime, &router, request("/", &fresh(), &body)), 200));
    });
    let key = fresh();
    group.bench_function("BEGIN by hand", |bencher| {
        bencher.iter(|| black_box(runtime.block_on(begin(&key)).expect("a server")));
    });
    group.bench_function("replay", |bencher| {
        bencher.iter(|| assert_eq!(call(&runtime, &router, request("/", "replayed", &body)), 200));
    });
    group.finish();

    // The server has afterwards what it had before.
    let caller = Principal::new("Bearer", "bench", "ada");
    let stored = |key: &str| storage_key(&namespace, &caller, "acme", key);
    let mut delete = redis::cmd("DEL");
    delete.arg(stored("replayed"));
    for number in 0..number.load(Ordering::Relaxed) {
        let key = format!("{namespace}-{number}");
        delete.arg(stored(&key)).arg(key);
    }
    let client = redis::Client::open(format!("redis://{address}/")).expect("IDEM_TEST_ADDR is host:port");
    let mut connection = client.get_connection().expect("a server");
    delete.exec(&mut connection).expect("a server");
}

criterion_group! {
    name = layer;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(50);
    targets = unmarked, marked, server
}
criterion_main!(layer);
