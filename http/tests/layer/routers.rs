//! The layer among axum's routers and other layers: what it leaves alone, and which order of layers does what.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post as on_post};
use http::{HeaderValue, StatusCode};
use tower::ServiceExt;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::decompression::RequestDecompressionLayer;

use crate::support::{Double, Runs, Seen, builder, numbered, post, request, seen, soon};

async fn send(router: &Router, request: Request) -> Seen {
    seen(soon(router.clone().oneshot(request)).await.unwrap()).await
}

/// A route whose answers are numbered and long enough to be compressed.
fn handler(runs: &Runs) -> axum::routing::MethodRouter {
    let runs = runs.clone();
    on_post(async move || {
        let number = runs.started();
        (StatusCode::CREATED, format!("run {number} {}", "x".repeat(2000)))
    })
}

#[tokio::test]
async fn an_unmarked_route_is_untouched() {
    let (store, runs) = (Double::new(), Runs::default());
    let once = builder(store.clone()).build().unwrap();
    let plain = async |request: Request| {
        assert_eq!(request.headers()["accept-encoding"], "gzip");
        request.into_body()
    };
    let router = Router::new()
        .route("/marked", handler(&runs).route_layer(once))
        .route("/plain", on_post(plain).get(plain));
    for method in ["POST", "GET"] {
        for _ in 0..2 {
            let mut request = request(method, "/plain", "k", "x".repeat(100_000));
            request
                .headers_mut()
                .insert("accept-encoding", HeaderValue::from_static("gzip"));
            let answer = send(&router, request).await;
            assert_eq!(
                (answer.status, answer.body.len(), answer.is_replay()),
                (200, 100_000, false)
            );
        }
    }
    assert!(store.commands().is_empty());
    assert_eq!(send(&router, post("/marked", "k", "")).await.status, 201);
    assert_eq!(store.commands(), ["BEGIN", "COMPLETE"]);
    // A method that the route does not have is the router's to answer.
    let answer = send(&router, request("GET", "/marked", "k", "")).await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
}

/// Two nested routers with the same inner paths: the handlers see one path, and the keys do not mix.
#[tokio::test]
async fn a_nested_routers_prefix_is_part_of_the_request() {
    let (store, runs) = (Double::new(), Runs::default());
    let once = builder(store.clone()).build().unwrap();
    let inner = || Router::new().route("/payments", handler(&runs).route_layer(once.clone()));
    let router = Router::new()
        .nest("/v1", inner())
        .nest("/v2", inner())
        .nest("/deep", Router::new().nest("/er", inner()));
    assert_eq!(send(&router, post("/v1/payments", "k", "")).await.status, 201);
    assert!(send(&router, post("/v1/payments", "k", "")).await.is_replay());
    for other in ["/v2/payments", "/deep/er/payments"] {
        let answer = send(&router, post(other, "k", "")).await;
        assert_eq!(
            (answer.status, answer.problem_type().ends_with(":reused")),
            (409, true)
        );
    }
    // Put on the whole of a nested router it sees the same.
    let outer = Router::new().nest(
        "/v1",
        Router::new()
            .route("/payments", handler(&runs))
            .layer(once.clone()),
    );
    assert!(send(&outer, post("/v1/payments", "k", "")).await.is_replay());
    assert_eq!(runs.count(), 1);
}

fn accepting(encoding: &'static str) -> Request {
    let mut request = post("/payments", "k", "{}");
    request
        .headers_mut()
        .insert("accept-encoding", HeaderValue::from_static(encoding));
    request
}

/// Compression outside: each client gets its own encoding of the one stored answer.
#[tokio::test]
async fn compression_outside_encodes_each_replay_for_its_client() {
    for first_encoding in ["gzip", "identity"] {
        let runs = Runs::default();
        let once = builder(Double::new()).build().unwrap();
        let router = Router::new()
            .route("/payments", handler(&runs).route_layer(once))
            .layer(CompressionLayer::new());
        send(&router, accepting(first_encoding)).await;
        let plain = send(&router, accepting("identity")).await;
        assert_eq!(
            (plain.header("content-encoding"), &plain.body[..5]),
            (None, &b"run 1"[..])
        );
        let packed = send(&router, accepting("gzip")).await;
        assert_eq!(packed.header("content-encoding"), Some("gzip"));
        assert!(packed.body.len() < plain.body.len() && packed.is_replay() && plain.is_replay());
        assert_eq!(runs.count(), 1);
    }
}

/// Compression inside does nothing: what is stored must suit every client.
#[tokio::test]
async fn compression_inside_is_not_stored() {
    let runs = Runs::default();
    let once = builder(Double::new()).build().unwrap();
    let router = Router::new().route(
        "/payments",
        handler(&runs).layer(CompressionLayer::new()).route_layer(once),
    );
    for encoding in ["gzip", "identity", "gzip"] {
        let answer = send(&router, accepting(encoding)).await;
        assert_eq!(
            (answer.header("content-encoding"), &answer.body[..5]),
            (None, &b"run 1"[..])
        );
    }
    assert_eq!(runs.count(), 1);
}

/// Decompression of requests outside: the fingerprint is that of the content. Inside: of the bytes that were sent.
#[tokio::test]
async fn decompression_of_requests_on_both_sides() {
    // `{}` as gzip with stored blocks, made by hand: header, one stored block, CRC-32, length.
    let packed: &[u8] = &[
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1, 2, 0, 0xfd, 0xff, b'{', b'}', 0x43, 0xbf, 0xa6, 0xa3, 2, 0,
        0, 0,
    ];
    let encoded = || {
        let mut request = post("/payments", "k", packed);
        request
            .headers_mut()
            .insert("content-encoding", HeaderValue::from_static("gzip"));
        request
    };
    let echo = || on_post(async |body: String| body);
    let once = || builder(Double::new()).build().unwrap();
    let outside = Router::new()
        .route("/payments", echo().route_layer(once()))
        .layer(RequestDecompressionLayer::new());
    assert_eq!(send(&outside, encoded()).await.body, "{}");
    assert!(send(&outside, post("/payments", "k", "{}")).await.is_replay());

    let inside = Router::new().route(
        "/payments",
        echo().layer(RequestDecompressionLayer::new()).route_layer(once()),
    );
    assert_eq!(send(&inside, encoded()).await.body, "{}");
    assert!(send(&inside, encoded()).await.is_replay());
    assert_eq!(send(&inside, post("/payments", "k", "{}")).await.status, 409);
}

/// Authorization outside runs on every replay. Inside it is asked once and never again, which is why it belongs outside.
#[tokio::test]
async fn a_right_that_was_revoked_is_not_replayed() {
    let allowed = Arc::new(AtomicBool::new(true));
    let guard = |allowed: Arc<AtomicBool>| {
        from_fn(move |request: Request, next: Next| {
            let allowed = allowed.load(Ordering::SeqCst);
            async move {
                if allowed {
                    next.run(request).await
                } else {
                    StatusCode::FORBIDDEN.into_response()
                }
            }
        })
    };
    let runs = Runs::default();
    let once = || builder(Double::new()).build().unwrap();
    let outside = Router::new()
        .route("/payments", handler(&runs).route_layer(once()))
        .layer(guard(Arc::clone(&allowed)));
    let inside = Router::new().route(
        "/payments",
        handler(&runs)
            .layer(guard(Arc::clone(&allowed)))
            .route_layer(once()),
    );
    for router in [&outside, &inside] {
        assert_eq!(send(router, post("/payments", "k", "")).await.status, 201);
    }
    allowed.store(false, Ordering::SeqCst);
    let refused = send(&outside, post("/payments", "k", "")).await;
    assert_eq!((refused.status, refused.body.is_empty()), (403, true));
    let leaked = send(&inside, post("/payments", "k", "")).await;
    assert_eq!(
        (leaked.status, leaked.is_replay()),
        (201, true),
        "what the docs warn of"
    );
    // Nothing is lost by the refusal: the answer is there when the right is.
    allowed.store(true, Ordering::SeqCst);
    assert!(send(&outside, post("/payments", "k", "")).await.is_replay());
}

/// Panic handling outside has nothing to catch. Inside it would turn a panic into an answer that is stored.
#[tokio::test]
async fn panic_handling_belongs_outside() {
    let panicking = || on_post(async || -> Response { panic!("as asked") });
    let once = || builder(Double::new()).build().unwrap();
    let outside = Router::new()
        .route("/", panicking().route_layer(once()))
        .layer(CatchPanicLayer::new());
    assert!(
        send(&outside, post("/", "k", ""))
            .await
            .detail()
            .contains("panicked")
    );
    assert_eq!(send(&outside, post("/", "k", "")).await.status, 409);

    let inside = Router::new().route("/", panicking().layer(CatchPanicLayer::new()).route_layer(once()));
    assert_eq!(send(&inside, post("/", "k", "")).await.status, 500);
    let stored = send(&inside, post("/", "k", "")).await;
    assert_eq!(
        (stored.status, stored.is_replay()),
        (500, true),
        "what the docs warn of"
    );
}

/// A service that is no router, behind the same layer.
#[tokio::test]
async fn any_tower_service_can_be_marked() {
    let runs = Runs::default();
    let (service, counted) = crate::support::numbered_service(builder(Double::new()));
    let answer = crate::support::send(&service, post("/", "k", "")).await;
    assert_eq!((answer.status, counted.count()), (201, 1));
    assert_eq!(numbered(&runs).status(), 201);
    let router = Router::new()
        .route("/", get(async || "read"))
        .fallback_service(service);
    assert!(send(&router, post("/other", "k2", "")).await.status == 201);
}

/// The inner one would find the outer one's record, and the answer to everything would be "in progress".
#[tokio::test]
async fn twice_on_a_route_is_a_mistake_that_says_so() {
    let (store, runs) = (Double::new(), Runs::default());
    let once = builder(store.clone()).build().unwrap();
    let inner = Router::new().route("/", handler(&runs).route_layer(once.clone()));
    let router = inner.route_layer(once);
    let answer = send(&router, post("/", "k", "")).await;
    assert_eq!((answer.status, runs.count()), (500, 0));
    assert!(
        answer.detail().contains("two idempotency layers"),
        "{}",
        answer.detail()
    );
    assert_eq!(store.commands(), ["BEGIN", "COMPLETE"], "the outer one's");
}

/// A handler that calls another marked route, with what its own request carries, begins another operation.
#[tokio::test]
async fn operations_may_lie_inside_of_one_another() {
    let (store, runs) = (Double::new(), Runs::default());
    let once = builder(store.clone()).build().unwrap();
    let items = Router::new().route("/item", handler(&runs).route_layer(once.clone()));
    let batch = on_post(async move |request: Request| {
        let mut statuses = Vec::new();
        for key in ["k1", "k2", "k1"] {
            let mut item = post("/item", key, "");
            *item.extensions_mut() = request.extensions().clone();
            statuses.push(send(&items, item).await.status.to_string());
        }
        statuses.join(" ")
    });
    let router = Router::new().route("/batch", batch.route_layer(once));
    for is_replay in [false, true] {
        let answer = send(&router, post("/batch", "k", "")).await;
        assert_eq!((answer.status, answer.is_replay()), (200, is_replay));
        assert_eq!(answer.body, "201 201 201");
    }
    assert_eq!(runs.count(), 2);
    // In front of a layer of another namespace.
    let inner = builder(store.clone()).namespace("inner").build().unwrap();
    let outer = builder(store).namespace("gateway").build().unwrap();
    let router = Router::new().route("/", handler(&runs).route_layer(inner).route_layer(outer));
    assert_eq!(send(&router, post("/", "k", "")).await.status, 201);
}
