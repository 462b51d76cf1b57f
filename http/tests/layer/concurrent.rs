//! Many at once, and clients that go away: at every stage, what has begun goes on without them.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::ServiceExt;

use crate::support::{
    Double, Fault, Gate, RequestBody, builder, marked, numbered, numbered_service, post, send, soon,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_200_equal_requests_one_runs() {
    let store = Double::new();
    let runs = crate::support::Runs::default();
    let counting = runs.clone();
    let service = marked(builder(store.clone()), move |_| {
        let counting = counting.clone();
        async move {
            let answer = numbered(&counting);
            tokio::time::sleep(Duration::from_millis(20)).await;
            answer
        }
    });
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let service = service.clone();
        requests.spawn(async move { send(&service, post("/payments", "k", "{}")).await });
    }
    let answers = soon(requests.join_all()).await;
    let fresh = answers
        .iter()
        .filter(|answer| answer.status == 201 && !answer.is_replay());
    assert_eq!((fresh.count(), runs.count()), (1, 1));
    for answer in &answers {
        match answer.status {
            201 => assert_eq!(answer.body, "run 1"),
            409 => assert_eq!(answer.problem_type(), "urn:idem:http:problem:in-progress"),
            other => panic!("{other}"),
        }
    }
    assert!(send(&service, post("/payments", "k", "{}")).await.is_replay());
}

/// A client that is gone, for whoever polls its request once: it was being answered, and then it was not.
async fn begin_and_leave(service: &crate::support::Service, request: Request<RequestBody>, reached: &Gate) {
    let mut answer = Box::pin(service.clone().oneshot(request));
    tokio::select! {
        _ = &mut answer => panic!("it was answered"),
        () = reached.wait_reached() => {}
    }
    drop(answer);
}

async fn replayed_soon(service: &crate::support::Service, store: &Double) {
    store.hold_nothing();
    soon(async {
        loop {
            let answer = send(service, post("/", "k", "")).await;
            if answer.status == 201 {
                assert!(answer.is_replay());
                assert_eq!(answer.body, "run 1");
                return;
            }
            assert_eq!(answer.status, 409);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_during_begin_leaves_no_key_that_nobody_completes() {
    let store = Double::new();
    let gate = store.hold_begin();
    let (service, runs) = numbered_service(builder(store.clone()));
    begin_and_leave(&service, post("/", "k", ""), &gate).await;
    gate.let_one_through();
    replayed_soon(&service, &store).await;
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_while_the_handler_runs_finds_its_answer_later() {
    let (store, gate, runs) = (Double::new(), Gate::new(), crate::support::Runs::default());
    let (held, counting) = (gate.clone(), runs.clone());
    let service = marked(builder(store.clone()), move |_| {
        let (held, counting) = (held.clone(), counting.clone());
        async move {
            held.pass().await;
            numbered(&counting)
        }
    });
    begin_and_leave(&service, post("/", "k", ""), &gate).await;
    gate.let_one_through();
    replayed_soon(&service, &store).await;
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_during_complete_finds_its_answer_later() {
    let store = Double::new();
    let gate = store.hold_complete();
    let (service, runs) = numbered_service(builder(store.clone()));
    begin_and_leave(&service, post("/", "k", ""), &gate).await;
    gate.let_one_through();
    replayed_soon(&service, &store).await;
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_while_its_answer_is_sent_finds_it_later() {
    let store = Double::new();
    let (service, runs) = numbered_service(builder(store.clone()));
    let answer = service.clone().oneshot(post("/", "k", "")).await.unwrap();
    drop(answer);
    let answer = service.clone().oneshot(post("/", "k", "")).await.unwrap();
    let mut body = answer.into_body();
    let _ = body.frame().await;
    drop(body);
    replayed_soon(&service, &store).await;
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_while_it_sends_has_begun_nothing() {
    struct Endless;
    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            std::task::Poll::Pending
        }
    }
    let store = Double::new();
    let (service, runs) = numbered_service(builder(store.clone()));
    let mut answer = Box::pin(service.clone().oneshot(post("/", "k", RequestBody::new(Endless))));
    assert!(futures_pending(&mut answer).await);
    drop(answer);
    assert_eq!((store.commands().len(), runs.count()), (0, 0));
    assert_eq!(send(&service, post("/", "k", "")).await.status, 201);
}

async fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
    })
    .await
}

#[tokio::test]
async fn beyond_max_detached_nothing_is_begun() {
    let store = Double::new();
    let gate = store.hold_complete();
    let (service, runs) = numbered_service(builder(store.clone()).max_detached(2));
    for key in ["a", "b"] {
        begin_and_leave(&service, post("/", key, ""), &gate).await;
    }
    store.commands();
    let crowded = send(&service, post("/", "c", "")).await;
    assert_eq!(
        (crowded.status, crowded.problem_type()),
        (503, "about:blank".to_owned())
    );
    assert!(store.commands().is_empty());
    assert_eq!(runs.count(), 2);
    gate.let_one_through();
    store.hold_nothing();
    soon(async {
        while send(&service, post("/", "c", "")).await.status != 201 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    gate.let_one_through();
}

/// Places are not lost: not by refusals, replays, conflicts, errors, and failures of the store.
#[tokio::test]
async fn places_come_back() {
    let store = Double::new();
    let (service, _) = numbered_service(builder(store.clone()).max_detached(1));
    for round in 0..20 {
        let key = format!("k{round}");
        assert_eq!(send(&service, post("/", &key, "")).await.status, 201);
        assert_eq!(send(&service, post("/", &key, "")).await.status, 201);
        assert_eq!(send(&service, post("/", &key, "other")).await.status, 409);
        assert_eq!(send(&service, post("/", "", "")).await.status, 400);
        store.fail_begin(Fault::Unreachable);
        assert_eq!(send(&service, post("/", &key, "")).await.status, 503);
        store.fail_begin(Fault::None);
        store.fail_complete(Fault::Zero);
        assert_eq!(
            send(&service, post("/", &format!("z{round}"), "")).await.status,
            500
        );
        store.fail_complete(Fault::None);
    }
}

#[tokio::test]
async fn nothing_is_sent_before_the_answer_is_stored() {
    let store = Double::new();
    let gate = store.hold_complete();
    let (service, _) = numbered_service(builder(store.clone()));
    let mut answer = Box::pin(service.clone().oneshot(post("/", "k", "")));
    tokio::select! {
        _ = &mut answer => panic!("it was answered"),
        () = gate.wait_reached() => {}
    }
    for _ in 0..100 {
        assert!(futures_pending(&mut answer).await);
        tokio::task::yield_now().await;
    }
    gate.let_one_through();
    let answer: Response<Full<Bytes>> = soon(answer).await.unwrap();
    assert_eq!(answer.status(), 201);
}
