//! The end of a service: attempts whose clients are gone come to theirs before.

use axum::Router;
use axum::routing::post as on_post;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use crate::support::{
    Double, Fault, Gate, RequestBody, Runs, builder, numbered, numbered_service, polled_once, post, send,
    soon,
};

#[tokio::test]
async fn a_layer_without_attempts_is_idle_at_once() {
    let layer = builder(Double::new()).max_detached(3).build().unwrap();
    for _ in 0..2 {
        assert!(polled_once(Box::pin(layer.idle())).await.is_some());
    }
}

/// The client leaves, the server ends, and the answer is in the store.
#[tokio::test]
async fn an_attempt_without_a_client_ends_before_the_layer_is_idle() {
    let (store, gate, runs) = (Double::new(), Gate::new(), Runs::default());
    let layer = builder(store.clone()).build().unwrap();
    let (held, counting) = (gate.clone(), runs.clone());
    let handler = async move || {
        held.pass().await;
        numbered(&counting).map(RequestBody::new)
    };
    let router = Router::new().route("/", on_post(handler).route_layer(layer.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(
        axum::serve(listener, router)
            .with_graceful_shutdown(async { stopping.await.unwrap() })
            .into_future(),
    );
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = "POST / HTTP/1.1\r\nHost: test\r\nx-user: ada\r\nx-tenant: acme\r\n\
                   Idempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\nx";
    client.write_all(request.as_bytes()).await.unwrap();
    gate.wait_reached().await;
    drop(client);
    stop.send(()).unwrap();
    soon(server).await.unwrap().unwrap();
    assert_eq!(
        store.commands(),
        ["BEGIN"],
        "the server has ended, the attempt has not"
    );

    let mut idle = Box::pin(layer.idle());
    assert!(polled_once(idle.as_mut()).await.is_none());
    gate.let_one_through();
    soon(idle).await;
    assert_eq!(store.commands(), ["COMPLETE"]);
    let (later, _) = numbered_service(builder(store));
    let replay = send(&later, post("/", "k", "x")).await;
    assert_eq!(
        (replay.is_replay(), &replay.body[..], runs.count()),
        (true, &b"run 1"[..], 1)
    );
}

/// While somebody waits nothing new begins; afterwards, and when the wait is given up, all places are there again.
#[tokio::test]
async fn what_comes_while_somebody_waits_is_refused_before_it_begins() {
    let store = Double::new();
    let gate = store.hold_complete();
    let layer = builder(store.clone()).max_detached(3).build().unwrap();
    let runs = Runs::default();
    let counting = runs.clone();
    let service = tower_layer::Layer::layer(
        &layer,
        tower::service_fn(move |_| {
            let answer = numbered(&counting);
            async move { Ok::<_, std::convert::Infallible>(answer) }
        }),
    );
    let call = async |key: &str| soon(service.clone().oneshot(post("/", key, ""))).await.unwrap();
    let running = tokio::spawn(service.clone().oneshot(post("/", "a", "")));
    gate.wait_reached().await;
    store.hold_nothing();
    store.commands();

    let mut idle = Box::pin(layer.idle());
    assert!(polled_once(idle.as_mut()).await.is_none());
    assert_eq!(call("b").await.status(), 503);
    assert!(store.commands().is_empty());
    drop(idle);
    assert_eq!(call("b").await.status(), 201);

    let mut idle = Box::pin(layer.idle());
    assert!(polled_once(idle.as_mut()).await.is_none());
    gate.let_one_through();
    soon(idle).await;
    assert_eq!(soon(running).await.unwrap().unwrap().status(), 201);
    for key in ["c", "d", "e"] {
        assert_eq!(call(key).await.status(), 201);
    }
}

/// However attempts end, their places come back.
#[tokio::test]
async fn attempts_that_fail_are_over_too() {
    let store = Double::new();
    let ready = builder(store.clone()).response_timeout(std::time::Duration::from_millis(20));
    let layer = ready.build().unwrap();
    let service = tower_layer::Layer::layer(
        &layer,
        tower::service_fn(|request: http::Request<_>| async move {
            match request.uri().path() {
                "/panic" => panic!("as asked"),
                "/slow" => std::future::pending().await,
                _ => Err::<crate::support::Answer, _>("an error"),
            }
        }),
    );
    for (path, key) in [("/panic", "a"), ("/slow", "b"), ("/error", "c"), ("/error", "c")] {
        let _ = soon(service.clone().oneshot(post(path, key, ""))).await;
        soon(layer.idle()).await;
    }
    store.fail_begin(Fault::Unreachable);
    let _ = soon(service.clone().oneshot(post("/", "d", ""))).await;
    soon(layer.idle()).await;
}
