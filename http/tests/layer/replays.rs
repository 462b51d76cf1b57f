//! What of an answer is stored, what is sent again, and what is given back instead.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::{
    CONTENT_LANGUAGE, CONTENT_TYPE, ETAG, LAST_MODIFIED, LOCATION, SET_COOKIE, WWW_AUTHENTICATE,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use idem_http::{ConfigError, OperationKey, Principal, storage_key};

use crate::support::{Double, Fault, Runs, builder, marked, numbered_service, post, send};

#[tokio::test]
async fn the_marker_has_any_name_or_none() {
    for name in [Some(HeaderName::from_static("x-replay")), None] {
        let (service, _) = numbered_service(builder(Double::new()).replay_header(name.clone()));
        send(&service, post("/", "k", "")).await;
        let replay = send(&service, post("/", "k", "")).await;
        assert!(!replay.headers.contains_key("idempotent-replayed"));
        assert_eq!(replay.header("x-replay"), name.map(|_| "true"));
    }
}

/// A marker of such a name would say `true` where a client reads something else.
#[test]
fn a_header_that_means_something_else_marks_nothing() {
    for name in [
        "Content-Type",
        "Content-Language",
        "ETag",
        "Last-Modified",
        "Content-Length",
        "Content-Encoding",
        "Content-Range",
        "Transfer-Encoding",
        "Connection",
        "Trailer",
        "Upgrade",
        "Set-Cookie",
        "Location",
        "Retry-After",
        "WWW-Authenticate",
        "Cache-Control",
        "Date",
    ] {
        let name: HeaderName = name.parse().unwrap();
        let refused = builder(Double::new()).replay_header(Some(name.clone())).build();
        assert_eq!(refused.err(), Some(ConfigError::ReplayHeader(name)));
    }
    for name in ["Idempotent-Replayed", "X-Content-Type", "X-Cache"] {
        let named = builder(Double::new()).replay_header(Some(name.parse().unwrap()));
        assert!(named.build().is_ok(), "{name}");
    }
}

#[tokio::test]
async fn only_the_listed_headers_are_sent_again() {
    let kept = [
        (CONTENT_TYPE, "application/vnd.payment+json; charset=iso-8859-1"),
        (CONTENT_LANGUAGE, "de"),
        (ETAG, "\"v1\""),
        (LAST_MODIFIED, "Wed, 21 Oct 2015 07:28:00 GMT"),
    ];
    let dropped = [
        (SET_COOKIE, "session=secret"),
        (SET_COOKIE, "second=secret"),
        (WWW_AUTHENTICATE, "Bearer"),
        (LOCATION, "/payments/1"),
        (HeaderName::from_static("cache-control"), "no-store"),
        (HeaderName::from_static("strict-transport-security"), "max-age=1"),
        (HeaderName::from_static("x-anything"), "1"),
        // A handler cannot pretend.
        (HeaderName::from_static("idempotent-replayed"), "true"),
        (HeaderName::from_static("content-length"), "999"),
        (HeaderName::from_static("transfer-encoding"), "chunked"),
        (HeaderName::from_static("connection"), "keep-alive, upgrade"),
    ];
    let (all_kept, all_dropped) = (kept.clone(), dropped.clone());
    let service = marked(builder(Double::new()), move |_| {
        let mut response = Response::new(Full::<Bytes>::from("body"));
        for (name, value) in all_kept.iter().chain(&all_dropped) {
            response
                .headers_mut()
                .append(name, HeaderValue::from_static(value));
        }
        async move { response }
    });
    let first = send(&service, post("/", "k", "")).await;
    assert_eq!(first.headers.get_all(SET_COOKIE).iter().count(), 2);
    assert_eq!(first.header("location"), Some("/payments/1"));
    assert!(!first.is_replay());
    let again = send(&service, post("/", "k", "")).await;
    for answer in [&first, &again] {
        for (name, value) in &kept {
            assert_eq!(answer.headers[name], value);
        }
        assert_eq!(
            (answer.header("content-length"), &answer.body[..]),
            (Some("4"), &b"body"[..])
        );
        assert!(!answer.headers.contains_key("transfer-encoding"));
        assert!(!answer.headers.contains_key("connection"));
    }
    assert_eq!(
        again.headers.len(),
        kept.len() + 2,
        "besides: length and marker: {again:?}"
    );
}

/// The table of docs/http.md: every status is stored, and answered again.
#[tokio::test]
async fn every_status_is_stored_errors_too() {
    for status in [
        200, 201, 202, 204, 205, 301, 303, 304, 400, 401, 404, 409, 422, 429, 500, 503, 599, 999,
    ] {
        let runs = Runs::default();
        let counting = runs.clone();
        let service = marked(builder(Double::new()), move |_| {
            let body = format!("answer {}", counting.started());
            let response = Response::builder().status(status).header("content-length", "77");
            async move { response.body(Full::<Bytes>::from(body)).unwrap() }
        });
        let first = send(&service, post("/", "k", "")).await;
        let again = send(&service, post("/", "k", "")).await;
        assert_eq!((first.status, again.status, runs.count()), (status, status, 1));
        assert!(again.is_replay());
        assert_eq!(first.body, again.body);
        let empty = matches!(status, 204 | 205 | 304);
        for answer in [first, again] {
            assert_eq!(
                answer.header("content-length"),
                (!empty).then_some("8"),
                "{status}"
            );
            assert_eq!(answer.body.is_empty(), empty);
        }
    }
}

#[tokio::test]
async fn bodies_are_stored_byte_by_byte() {
    let all: Vec<u8> = (0..=255).collect();
    for body in [
        &b""[..],
        b"0",
        b"null",
        b"None",
        b"\0",
        b"\r\n",
        b"\xff\xfe",
        &all,
    ] {
        for content_type in [
            None,
            Some("text/csv; charset=iso-8859-1"),
            Some("image/png"),
            Some("application/x+json"),
        ] {
            let body = bytes::Bytes::copy_from_slice(body);
            let answer = body.clone();
            let service = marked(builder(Double::new()), move |_| {
                let mut response = Response::new(Full::new(answer.clone()));
                if let Some(value) = content_type {
                    response
                        .headers_mut()
                        .insert(CONTENT_TYPE, HeaderValue::from_static(value));
                }
                async move { response }
            });
            for _ in 0..2 {
                let seen = send(&service, post("/", "k", "")).await;
                assert_eq!(
                    (seen.body.as_ref(), seen.header("content-type")),
                    (&body[..], content_type)
                );
            }
        }
    }
}

#[tokio::test]
async fn what_is_not_stored_is_sent_and_given_back() {
    let store = Double::new();
    let runs = Runs::default();
    let counting = runs.clone();
    let stored = builder(store.clone()).store_status(|status| status != StatusCode::TOO_MANY_REQUESTS);
    let service = marked(stored, move |_| {
        let status = if counting.started() == 1 { 429 } else { 200 };
        async move {
            Response::builder()
                .status(status)
                .body(Full::<Bytes>::from("x"))
                .unwrap()
        }
    });
    assert_eq!(send(&service, post("/", "k", "")).await.status, 429);
    assert_eq!(store.commands(), ["BEGIN", "ABORT"]);
    assert_eq!(send(&service, post("/", "k", "")).await.status, 200);
    let third = send(&service, post("/", "k", "")).await;
    assert_eq!((third.status, third.is_replay(), runs.count()), (200, true, 2));
}

#[tokio::test]
async fn an_abort_that_fails_does_not_hide_the_answer() {
    for fault in [Fault::Unreachable, Fault::AnswerLost, Fault::Zero] {
        let store = Double::new();
        store.fail_abort(fault);
        let (service, _) = numbered_service(builder(store.clone()).store_status(|_| false));
        assert_eq!(send(&service, post("/", "k", "")).await.status, 201);
    }
}

/// What a handler calls another system with is the same when the same request runs again, and only then.
#[tokio::test]
async fn a_handler_has_a_key_for_other_systems() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let tell = said.clone();
    // Nothing is kept, so every request runs.
    let service = marked(builder(Double::new()).store_status(|_| false), move |request| {
        let operation = request.extensions().get::<OperationKey>().unwrap();
        let derived = operation.derive("bank: charge");
        tell.lock()
            .unwrap()
            .push((operation.storage_key().to_owned(), derived));
        async { Response::new(Full::<Bytes>::default()) }
    });
    let mut of_somebody_else = post("/", "k", "a");
    of_somebody_else
        .headers_mut()
        .insert("x-user", "eve".parse().unwrap());
    for request in [
        post("/", "k", "a"),
        post("/", "k", "a"),
        post("/", "other", "a"),
        post("/", "k", "b"),
        of_somebody_else,
    ] {
        assert_eq!(send(&service, request).await.status, 200);
    }
    let said = said.lock().unwrap();
    let expected = storage_key("tests", &Principal::new("test", "", "ada"), "acme", "k");
    assert_eq!((&said[0].0, &said[0]), (&expected, &said[1]));
    let distinct: HashSet<_> = said.iter().map(|(_, derived)| derived).collect();
    assert_eq!(distinct.len(), 4);
}
