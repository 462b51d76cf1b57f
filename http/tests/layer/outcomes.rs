//! What a request is answered with, by what the store knows of its key.

use std::time::Duration;

use http::HeaderValue;
use idem_client::{Begin, State, Store};
use idem_http::{Principal, Profile, storage_key};

use crate::support::{Double, Fault, builder, numbered_service, post, request, send, soon};

/// Where the record of a request of `post` lies.
fn stored_under(key: &str) -> Vec<u8> {
    storage_key("tests", &Principal::new("test", "", "ada"), "acme", key).into_bytes()
}

fn state(store: &Double, key: &str) -> Option<State> {
    store
        .memory
        .inspect(&stored_under(key))
        .map(|record| record.state)
}

#[tokio::test]
async fn a_repeated_request_is_answered_by_the_first_run() {
    let store = Double::new();
    let (service, runs) = numbered_service(builder(store.clone()));
    let first = send(&service, post("/payments", "k", "{}")).await;
    assert_eq!(
        (first.status, first.is_replay(), &first.body[..]),
        (201, false, &b"run 1"[..])
    );
    assert_eq!(store.commands(), ["BEGIN", "COMPLETE"]);
    for key in ["k", "\"k\""] {
        let again = send(&service, post("/payments", key, "{}")).await;
        assert_eq!(
            (again.status, again.is_replay(), &again.body),
            (201, true, &first.body)
        );
        assert_eq!(store.commands(), ["BEGIN"]);
    }
    assert_eq!(runs.count(), 1);
    let record = store.memory.inspect(&stored_under("k")).unwrap();
    assert_eq!((record.fingerprint.len(), record.owner.len()), (64, 32));
    assert!(record.ttl <= Duration::from_secs(86_400) && record.ttl > Duration::from_secs(86_000));
}

#[tokio::test]
async fn a_request_that_is_under_way_is_to_come_back() {
    let store = Double::new();
    let (service, runs) = numbered_service(builder(store.clone()).retry_after_seconds(7));
    let gate = store.hold_complete();
    let running = tokio::spawn({
        let service = service.clone();
        async move { send(&service, post("/", "k", "")).await }
    });
    gate.wait_reached().await;
    let second = send(&service, post("/", "k", "")).await;
    assert_eq!((second.status, second.header("retry-after")), (409, Some("7")));
    assert_eq!(second.problem_type(), "urn:idem:http:problem:in-progress");
    // Another request is told that it is another one, even while the first is under way.
    let other = send(&service, post("/", "k", "other")).await;
    assert_eq!((other.status, other.header("retry-after")), (409, None));
    assert_eq!(other.problem_type(), "urn:idem:http:problem:reused");
    gate.let_one_through();
    assert_eq!(soon(running).await.unwrap().status, 201);
    assert_eq!(
        (send(&service, post("/", "k", "")).await.is_replay(), runs.count()),
        (true, 1)
    );
}

#[tokio::test]
async fn the_profile_of_the_ietf_changes_the_conflict_and_nothing_else() {
    for (profile, expected) in [(Profile::Standard, 409), (Profile::Ietf, 422)] {
        let store = Double::new();
        let (service, runs) = numbered_service(builder(store.clone()).profile(profile));
        send(&service, post("/", "k", "a")).await;
        let conflict = send(&service, post("/", "k", "b")).await;
        assert_eq!((conflict.status, runs.count()), (expected, 1));
        assert_eq!(conflict.problem_type(), "urn:idem:http:problem:reused");
        // Pending, missing, method, login: as ever.
        store.fail_complete(Fault::Unreachable);
        assert_eq!(send(&service, post("/", "p", "")).await.status, 503);
        assert_eq!(send(&service, post("/", "p", "")).await.status, 409);
        assert_eq!(send(&service, post("/", "", "")).await.status, 400);
        assert_eq!(send(&service, request("GET", "/", "k", "")).await.status, 405);
    }
}

/// One key on all of these: each is another request, and none is answered with another one's answer.
#[tokio::test]
async fn a_key_belongs_to_one_request() {
    let (service, runs) = numbered_service(builder(Double::new()));
    assert_eq!(
        send(&service, post("/orders?dry=1&a=2", "k", "{}")).await.status,
        201
    );
    let other_type = |value: Option<&'static str>| {
        let mut request = post("/orders?dry=1&a=2", "k", "{}");
        request.headers_mut().remove("content-type");
        if let Some(value) = value {
            request
                .headers_mut()
                .insert("content-type", HeaderValue::from_static(value));
        }
        request
    };
    for other in [
        post("/orders", "k", "{}"),
        post("/orders?", "k", "{}"),
        post("/orders?dry=1", "k", "{}"),
        post("/orders?a=2&dry=1", "k", "{}"),
        post("/orders/?dry=1&a=2", "k", "{}"),
        post("/orders/1/cancel", "k", "{}"),
        post("/%6Frders?dry=1&a=2", "k", "{}"),
        post("/orders?dry=1&a=2", "k", "{} "),
        post("/orders?dry=1&a=2", "k", ""),
        request("DELETE", "/orders?dry=1&a=2", "k", "{}"),
        other_type(None),
        other_type(Some("text/plain")),
        // A form with a new boundary has another body and another type: a conflict, and documented as one.
        other_type(Some("multipart/form-data; boundary=b2")),
    ] {
        let what = format!("{} {}", other.method(), other.uri());
        assert_eq!(send(&service, other).await.status, 409, "{what}");
    }
    assert_eq!(runs.count(), 1);
}

/// The same key of somebody else is another key.
#[tokio::test]
async fn callers_do_not_share_keys() {
    let store = Double::new();
    let (service, runs) = numbered_service(builder(store.clone()));
    let (elsewhere, other_runs) = numbered_service(builder(store).namespace("other"));
    for (user, tenant) in [
        ("ada", "acme"),
        ("eve", "acme"),
        ("ada", "umbrella"),
        ("acme", "ada"),
    ] {
        let by = |mut request: http::Request<crate::support::RequestBody>| {
            request
                .headers_mut()
                .insert("x-user", HeaderValue::from_static(user));
            request
                .headers_mut()
                .insert("x-tenant", HeaderValue::from_static(tenant));
            request
        };
        let first = send(&service, by(post("/", "k", "{}"))).await;
        assert!(!first.is_replay(), "{user} {tenant}");
        let again = send(&service, by(post("/", "k", "{}"))).await;
        assert_eq!((again.is_replay(), &again.body), (true, &first.body));
    }
    assert_eq!(send(&elsewhere, post("/", "k", "{}")).await.body, "run 1");
    assert_eq!((runs.count(), other_runs.count()), (4, 1));
}

#[tokio::test]
async fn a_store_that_is_away_runs_nothing_and_the_first_request_after_its_return_works() {
    for fault in [Fault::Unreachable, Fault::AnswerLost] {
        let store = Double::new();
        let (service, runs) = numbered_service(builder(store.clone()));
        store.fail_begin(fault);
        for _ in 0..3 {
            let answer = send(&service, post("/", "k", "")).await;
            assert_eq!(
                (answer.status, answer.problem_type()),
                (503, "about:blank".to_owned())
            );
        }
        assert_eq!(store.commands(), ["BEGIN"; 3], "nothing is tried again");
        assert_eq!(runs.count(), 0);
        store.fail_begin(Fault::None);
        // What was begun and never heard of blocks its own key only.
        let expected = if fault == Fault::AnswerLost { 409 } else { 201 };
        assert_eq!(send(&service, post("/", "k", "")).await.status, expected);
        assert_eq!(send(&service, post("/", "k2", "")).await.status, 201);
    }
}

/// The store fails after the handler: its record is never given back, and the handler never runs again.
#[tokio::test]
async fn a_completion_that_fails_is_not_followed_by_an_abort() {
    for (fault, status, later, replay) in [
        (Fault::Unreachable, 503, 409, false),
        (Fault::AnswerLost, 503, 201, true),
        (Fault::Zero, 500, 409, false),
    ] {
        let store = Double::new();
        let (service, runs) = numbered_service(builder(store.clone()));
        store.fail_complete(fault);
        let answer = send(&service, post("/", "k", "")).await;
        assert_eq!(
            (answer.status, answer.problem_type()),
            (status, "about:blank".to_owned())
        );
        assert!(
            !answer.body.windows(5).any(|text| text == b"run 1"),
            "the answer is not sent as if it were safe"
        );
        assert_eq!(store.commands(), ["BEGIN", "COMPLETE"]);
        store.fail_complete(Fault::None);
        let answer = send(&service, post("/", "k", "")).await;
        assert_eq!(
            (answer.status, answer.is_replay(), runs.count()),
            (later, replay, 1),
            "{fault:?}"
        );
        assert!(state(&store, "k").is_some());
    }
}

/// The record ended while the handler ran, and somebody else has its key.
#[tokio::test]
async fn an_answer_whose_record_is_gone_is_not_sent() {
    let store = Double::new();
    let (service, runs) = numbered_service(builder(store.clone()).retention(Duration::from_millis(1)));
    let gate = store.hold_complete();
    let running = tokio::spawn({
        let service = service.clone();
        async move { send(&service, post("/", "k", "")).await }
    });
    gate.wait_reached().await;
    soon(async {
        while store.memory.inspect(&stored_under("k")).is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    gate.let_one_through();
    let answer = soon(running).await.unwrap();
    assert_eq!((answer.status, runs.count()), (500, 1));
    assert!(answer.detail().contains("gone"));
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_and_no_reason_to_run() {
    for (stored, detail) in [
        (&b"\x02whatever"[..], "another version"),
        (b"", "cannot be read"),
        (b"\x01", "cannot be read"),
        (b"\x01\x00\x00\x00\x00\x00\x00\x00", "cannot be read"),
    ] {
        let store = Double::new();
        let (service, runs) = numbered_service(builder(store.clone()));
        // The fingerprint of such a request, as the layer makes it.
        send(&service, post("/", "k", "")).await;
        let record = store.memory.inspect(&stored_under("k")).unwrap();
        let key = stored_under("other");
        let ttl = Duration::from_secs(60);
        let begun = store
            .memory
            .begin(&key, &record.fingerprint, b"o", ttl)
            .await
            .unwrap();
        assert_eq!(begun, Begin::Acquired);
        assert!(
            store
                .memory
                .complete(&key, &record.fingerprint, b"o", stored)
                .await
                .unwrap()
        );
        let answer = send(&service, post("/", "other", "")).await;
        assert_eq!((answer.status, runs.count()), (500, 1));
        assert!(answer.detail().contains(detail), "{answer:?}");
    }
}
