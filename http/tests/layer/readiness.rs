//! Inner services that are not always ready: who waits for them, and who does not.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use tower::ServiceExt;
use tower::limit::ConcurrencyLimit;
use tower::util::BoxCloneSyncService;
use tower_layer::Layer;

use crate::support::{
    Answer, Double, Gate, Ready, RequestBody, Runs, Service, builder, fed, numbered, post, request, send,
    soon,
};

/// So many places for handlers, which pass a gate.
fn limited(builder: Ready<Double>, places: usize) -> (Service, Arc<Gate>, Runs) {
    let (gate, runs) = (Gate::new(), Runs::default());
    let (held, counting) = (Arc::clone(&gate), runs.clone());
    let handler = tower::service_fn(move |_: Request<Full<Bytes>>| {
        let (held, counting) = (Arc::clone(&held), counting.clone());
        async move {
            let answer = numbered(&counting);
            held.pass().await;
            Ok::<_, Infallible>(answer)
        }
    });
    let layer = builder.build().unwrap();
    let service = BoxCloneSyncService::new(layer.layer(ConcurrencyLimit::new(handler, places)));
    (service, gate, runs)
}

/// The only place is taken. What does not run waits for nobody; what is to run waits for its turn.
#[tokio::test]
async fn a_limit_inside_holds_up_runs_and_nothing_else() {
    let store = Double::new();
    let (service, gate, runs) = limited(builder(store.clone()), 1);
    gate.let_one_through();
    assert_eq!(send(&service, post("/", "done", "")).await.status, 201);
    gate.wait_reached().await;
    let spawn = |key: &'static str| {
        let service = service.clone();
        tokio::spawn(async move { send(&service, post("/", key, "")).await })
    };
    let running = spawn("running");
    gate.wait_reached().await;

    let replay = send(&service, post("/", "done", "")).await;
    assert_eq!((replay.is_replay(), &replay.body[..]), (true, &b"run 1"[..]));
    assert_eq!(send(&service, post("/", "done", "other")).await.status, 409);
    assert_eq!(send(&service, post("/", "running", "")).await.status, 409);
    assert_eq!(send(&service, post("/", "", "")).await.status, 400);
    assert_eq!(send(&service, request("GET", "/", "k", "")).await.status, 405);
    let large = vec![b'x'; 100_000];
    assert_eq!(send(&service, post("/", "large", large)).await.status, 413);

    store.commands();
    let waiting = spawn("waiting");
    soon(async {
        while store.commands().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(
        send(&service, post("/", "waiting", "")).await.status,
        409,
        "it has begun"
    );
    assert_eq!(runs.count(), 2, "and does not run yet");
    gate.let_one_through();
    assert_eq!(soon(running).await.unwrap().body, "run 2");
    gate.let_one_through();
    assert_eq!(soon(waiting).await.unwrap().body, "run 3");
}

/// A client that does not send its body occupies no place.
#[tokio::test]
async fn a_body_that_does_not_come_takes_no_place() {
    let (service, gate, runs) = limited(builder(Double::new()), 1);
    let (feed, body) = fed();
    let mut hanging = Box::pin(service.clone().oneshot(post("/", "hanging", body)));
    assert!(crate::support::polled_once(hanging.as_mut()).await.is_none());
    gate.let_one_through();
    assert_eq!(send(&service, post("/", "k", "")).await.body, "run 1");
    drop(feed);
    gate.let_one_through();
    assert_eq!(soon(hanging).await.unwrap().status(), 201);
    assert_eq!(runs.count(), 2);
}

/// Waiting for a turn is part of the handler's time.
#[tokio::test]
async fn a_turn_that_does_not_come_is_a_timeout() {
    let store = Double::new();
    let limits = builder(store.clone()).response_timeout(Duration::from_millis(50));
    let (service, _, runs) = limited(limits, 0);
    let answer = send(&service, post("/", "k", "")).await;
    assert_eq!((answer.status, runs.count()), (500, 0));
    assert!(answer.detail().contains("timeout"), "{}", answer.detail());
    assert_eq!(send(&service, post("/", "k", "")).await.status, 409);
    assert_eq!(store.commands(), ["BEGIN", "BEGIN"], "no key is given back");
}

/// The copy that said it is ready is the one that is called.
#[tokio::test]
async fn the_inner_service_is_asked_before_it_is_called() {
    let store = Double::new();
    let layer = builder(store.clone()).build().unwrap();
    let (mut service, mut handle) =
        tower_test::mock::spawn_layer::<Request<Full<Bytes>>, Response<Full<Bytes>>, _>(layer);
    handle.allow(0);
    assert!(service.poll_ready::<Request<RequestBody>>().is_ready());
    let answer = tokio::spawn(service.call(post("/", "k", "body")));
    soon(async {
        while store.commands().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    handle.allow(1);
    let (request, respond) = soon(handle.next_request()).await.unwrap();
    assert_eq!(request.uri(), "/");
    let mut response = Response::new(Full::<Bytes>::from("served"));
    response
        .headers_mut()
        .insert("x-seen", HeaderValue::from_static("1"));
    respond.send_response(response);
    let answer = soon(answer).await.unwrap().unwrap();
    assert_eq!(answer.headers()["x-seen"], "1");
}

/// Will never be ready, or panics when it is asked.
#[derive(Clone)]
enum Never {
    Error,
    Panic,
}

impl tower_service::Service<Request<Full<Bytes>>> for Never {
    type Response = Answer;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Answer, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        match self {
            Never::Error => Poll::Ready(Err("it will never be ready")),
            Never::Panic => panic!("as asked"),
        }
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        unreachable!("it was never ready")
    }
}

#[tokio::test]
async fn an_error_of_readiness_is_passed_on_and_a_panic_is_answered() {
    let store = Double::new();
    let layer = builder(store.clone()).build().unwrap();
    let call = |inner: Never, key| soon(layer.layer(inner).oneshot(post("/", key, "")));
    assert_eq!(
        call(Never::Error, "k").await.unwrap_err(),
        "it will never be ready"
    );
    assert_eq!(call(Never::Error, "k").await.unwrap().status(), 409);
    assert_eq!(call(Never::Panic, "p").await.unwrap().status(), 500);
    assert_eq!(call(Never::Panic, "p").await.unwrap().status(), 409);
    assert_eq!(store.commands(), ["BEGIN"; 4]);
}
