//! What the layer asks of a request, and in which order. Nothing that is refused here reaches the store.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};

use crate::support::{
    Double, RequestBody, builder, marked, numbered_service, on_one_thread, post, request, send,
};

/// Changes a good request and says which status it gets then.
async fn check(change: impl Fn(&mut Request<RequestBody>), expected: u16) -> crate::support::Seen {
    let store = Double::new();
    let (service, runs) = numbered_service(builder(store.clone()));
    let mut request = post("/payments", "key-1", "{}");
    change(&mut request);
    let answer = send(&service, request).await;
    assert_eq!(answer.status, expected, "{answer:?}");
    let accepted = expected == 201;
    assert_eq!(runs.count(), usize::from(accepted));
    let commands: &[&str] = if accepted { &["BEGIN", "COMPLETE"] } else { &[] };
    assert_eq!(store.commands(), commands);
    answer
}

fn set(name: &'static str, value: &str) -> impl Fn(&mut Request<RequestBody>) {
    let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
    move |request| {
        request
            .headers_mut()
            .insert(HeaderName::from_static(name), value.clone());
    }
}

fn without(name: &'static str) -> impl Fn(&mut Request<RequestBody>) {
    move |request| {
        request.headers_mut().remove(name);
    }
}

#[tokio::test]
async fn four_methods_are_taken_and_others_are_told_so() {
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        check(|request| *request.method_mut() = method.parse().unwrap(), 201).await;
    }
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "CONNECT", "LINK", "post"] {
        let answer = check(|request| *request.method_mut() = method.parse().unwrap(), 405).await;
        assert_eq!(answer.header("allow"), Some("POST, PUT, PATCH, DELETE"));
        assert_eq!(answer.problem_type(), "about:blank");
    }
}

#[tokio::test]
async fn nobody_is_told_so() {
    let answer = check(without("x-user"), 401).await;
    assert_eq!(answer.problem_type(), "about:blank");
    assert_eq!(answer.header("www-authenticate"), None);
    check(set("x-user", ""), 401).await;
    // A subject that is too long is the service's mistake.
    check(set("x-user", &"u".repeat(8192)), 201).await;
    check(set("x-user", &"u".repeat(8193)), 500).await;
}

#[tokio::test]
async fn a_challenge_goes_with_a_401_where_one_is_configured() {
    let challenged = builder(Double::new()).challenge(HeaderValue::from_static("Bearer"));
    let (service, _) = numbered_service(challenged);
    let mut request = post("/payments", "k", "");
    request.headers_mut().remove("x-user");
    let answer = send(&service, request).await;
    assert_eq!(
        (answer.status, answer.header("www-authenticate")),
        (401, Some("Bearer"))
    );
}

#[tokio::test]
async fn an_empty_or_overlong_scope_is_the_services_mistake_before_anything_runs() {
    check(without("x-tenant"), 500).await;
    check(set("x-tenant", ""), 500).await;
    check(set("x-tenant", &"t".repeat(8193)), 500).await;
    check(set("x-tenant", &"t".repeat(8192)), 201).await;
}

#[tokio::test]
async fn one_key_of_printable_characters() {
    for key in ["k", "\"k\"", &"k".repeat(128), "~!\"#$%&'()*+,-./:;<=>?@[]^_`{|}"] {
        check(set("idempotency-key", key), 201).await;
    }
    // A key of 10 kB is refused, not hashed into one that somebody else may have.
    for key in [
        "",
        "\"\"",
        "a b",
        "\"a b\"",
        "\u{e9}",
        "\"open",
        &"k".repeat(129),
        &"k".repeat(10_000),
    ] {
        let answer = check(set("idempotency-key", key), 400).await;
        assert_eq!(answer.problem_type(), "urn:idem:http:problem:missing-or-invalid");
    }
    let answer = check(without("idempotency-key"), 400).await;
    assert_eq!(answer.problem_type(), "urn:idem:http:problem:missing-or-invalid");
    let twice = |request: &mut Request<RequestBody>| {
        request
            .headers_mut()
            .append("idempotency-key", HeaderValue::from_static("key-1"));
    };
    let answer = check(twice, 400).await;
    assert!(answer.detail().contains("more than one"));
}

#[tokio::test]
async fn method_comes_before_login_before_scope_before_key_before_body() {
    let spoil = |upto: usize| {
        move |request: &mut Request<RequestBody>| {
            *request.body_mut() = RequestBody::from(vec![b'x'; 100_000]);
            if upto >= 1 {
                request.headers_mut().remove("idempotency-key");
            }
            if upto >= 2 {
                request.headers_mut().remove("x-tenant");
            }
            if upto >= 3 {
                request.headers_mut().remove("x-user");
            }
            if upto >= 4 {
                *request.method_mut() = http::Method::GET;
            }
        }
    };
    for (upto, expected) in [(0, 413), (1, 400), (2, 500), (3, 401), (4, 405)] {
        check(spoil(upto), expected).await;
    }
}

#[tokio::test]
async fn fields_of_a_request_have_a_bound() {
    let uri =
        |uri: String| move |request: &mut Request<RequestBody>| *request.uri_mut() = uri.parse().unwrap();
    check(uri(format!("/{}", "p".repeat(8191))), 201).await;
    check(uri(format!("/{}", "p".repeat(8192))), 400).await;
    check(uri(format!("/?{}", "q".repeat(8192))), 201).await;
    check(uri(format!("/?{}", "q".repeat(8193))), 400).await;
    check(set("content-type", &"c".repeat(8192)), 201).await;
    check(set("content-type", &"c".repeat(8193)), 400).await;
    let second = |request: &mut Request<RequestBody>| {
        request
            .headers_mut()
            .append("content-type", HeaderValue::from_static("text/plain"));
    };
    check(second, 400).await;
    check(without("content-type"), 201).await;
}

/// A body in frames of one size, with or without a length that is known.
struct Frames {
    bytes: Bytes,
    frame_bytes: usize,
    hint: Option<u64>,
    error_at_end: bool,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.bytes.is_empty() {
            let error = std::mem::take(&mut self.error_at_end);
            return Poll::Ready(error.then_some(Err("cut")));
        }
        let length = self.frame_bytes.min(self.bytes.len());
        Poll::Ready(Some(Ok(Frame::data(self.bytes.split_to(length)))))
    }

    fn size_hint(&self) -> SizeHint {
        self.hint.map(SizeHint::with_exact).unwrap_or_default()
    }
}

fn frames(length: usize, frame_bytes: usize) -> Frames {
    Frames {
        bytes: Bytes::from(vec![b'x'; length]),
        frame_bytes,
        hint: None,
        error_at_end: false,
    }
}

/// Sends a body under a limit; the handler answers with the length that it saw.
async fn send_body(limit: usize, body: Frames, declared: Option<u64>, expected: u16) {
    let length = body.bytes.len().to_string();
    let service = marked(builder(Double::new()).max_request_bytes(limit), |request| async {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Response::new(Full::<Bytes>::from(body.len().to_string()))
    });
    let mut request = post("/", "k", RequestBody::new(body));
    if let Some(length) = declared {
        request
            .headers_mut()
            .insert("content-length", HeaderValue::from(length));
    }
    let answer = send(&service, request).await;
    assert_eq!(answer.status, expected, "{answer:?}");
    if expected == 200 {
        assert_eq!(answer.body, length);
    }
}

#[tokio::test]
async fn bodies_up_to_the_limit_and_one_byte_more() {
    for (limit, length, expected) in [
        (1, 0, 200),
        (1, 1, 200),
        (1, 2, 413),
        (5000, 5000, 200),
        (5000, 5001, 413),
        (65_536, 65_536, 200),
        (65_536, 65_537, 413),
        (1 << 20, 1 << 20, 200),
        (1 << 20, (1 << 20) + 1, 413),
        (1 << 20, 3 << 20, 413),
    ] {
        for frame_bytes in [usize::MAX, 4096] {
            send_body(limit, frames(length, frame_bytes), None, expected).await;
            let known = u64::try_from(length).unwrap();
            let hinted = Frames {
                hint: Some(known),
                ..frames(length, frame_bytes)
            };
            send_body(limit, hinted, None, expected).await;
            send_body(limit, frames(length, frame_bytes), Some(known), expected).await;
        }
    }
}

#[tokio::test]
async fn a_known_length_has_to_be_the_length() {
    send_body(100, frames(5, 1), Some(6), 400).await;
    send_body(100, frames(5, 1), Some(4), 400).await;
    let hinted = |hint| Frames {
        hint: Some(hint),
        ..frames(5, 2)
    };
    send_body(100, hinted(4), None, 400).await;
    send_body(100, hinted(6), None, 400).await;
    send_body(100, hinted(5), Some(6), 400).await;
    // Nothing of this size is allocated, or waited for.
    send_body(100, frames(5, 1), Some(u64::MAX), 413).await;
}

/// Two lengths, or one that is a number only for this program, could have been read otherwise by whoever passed it on.
#[tokio::test]
async fn a_length_is_one_number_of_digits() {
    for (lengths, expected) in [
        (&["5"][..], 201),
        (&["005"], 201),
        (&["5", "5"], 201),
        (&["5", "7"], 400),
        (&["7", "5"], 400),
        (&["5", ""], 400),
        (&["+5"], 400),
        (&["-5"], 400),
        (&["5, 5"], 400),
        (&["0x5"], 400),
        (&["5.0"], 400),
        (&["99999999999999999999"], 400),
    ] {
        let announced = |request: &mut Request<RequestBody>| {
            *request.body_mut() = RequestBody::new(frames(5, 2));
            for length in lengths {
                request
                    .headers_mut()
                    .append("content-length", HeaderValue::from_static(length));
            }
        };
        check(announced, expected).await;
    }
}

/// A client that asks before it sends is told at once, and its body is not asked for.
#[tokio::test]
async fn an_announced_length_over_the_limit_is_refused_without_reading() {
    struct Unread;
    impl Body for Unread {
        type Data = Bytes;
        type Error = &'static str;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            panic!("it was asked for");
        }
    }
    let asking = |request: &mut Request<RequestBody>| {
        *request.body_mut() = RequestBody::new(Unread);
        set("expect", "100-Continue")(request);
        set("content-length", "65537")(request);
    };
    check(asking, 413).await;
    let within = |request: &mut Request<RequestBody>| {
        *request.body_mut() = RequestBody::new(frames(5, 5));
        set("expect", "100-continue")(request);
    };
    check(within, 201).await;
}

/// Frames without bytes that never end, on the only thread: a caller's time-out holds, and so does the bound for what is
/// thrown away.
#[test]
fn a_body_without_end_leaves_others_the_thread() {
    on_one_thread(async || {
        struct Endless(Option<Bytes>);
        impl Body for Endless {
            type Data = Bytes;
            type Error = &'static str;
            fn poll_frame(
                mut self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
                Poll::Ready(Some(Ok(Frame::data(self.0.take().unwrap_or_default()))))
            }
        }
        let (service, runs) = numbered_service(builder(Double::new()).max_request_bytes(10));
        let endless = post("/", "k", RequestBody::new(Endless(None)));
        let waited = tokio::time::timeout(Duration::from_millis(50), send(&service, endless)).await;
        assert!(waited.is_err());
        let too_long = post(
            "/",
            "k",
            RequestBody::new(Endless(Some(Bytes::from_static(&[0; 11])))),
        );
        let drained = tokio::spawn({
            let service = service.clone();
            async move { send(&service, too_long).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(send(&service, post("/", "other", "")).await.status, 201);
        assert!(!drained.is_finished());
        assert_eq!(drained.await.unwrap().status, 413);
        assert_eq!(runs.count(), 1);
    });
}

#[tokio::test]
async fn a_body_that_breaks_off_begins_nothing() {
    let broken = Frames {
        error_at_end: true,
        ..frames(10, 3)
    };
    send_body(100, broken, None, 400).await;
}

/// The way in which bytes arrive is no part of what was asked.
#[tokio::test]
async fn a_mebibyte_in_frames_of_one_byte_is_the_same_request() {
    let (service, runs) = numbered_service(builder(Double::new()).max_request_bytes(1 << 20));
    for (frame_bytes, replayed) in [(1, false), (1 << 20, true), (1000, true)] {
        let body = RequestBody::new(frames(1 << 20, frame_bytes));
        let answer = send(&service, post("/", "k", body)).await;
        assert_eq!((answer.status, answer.is_replay()), (201, replayed));
    }
    let mut other = frames(1 << 20, 1 << 20);
    let mut bytes = other.bytes.to_vec();
    bytes[(1 << 20) - 1] = b'y';
    other.bytes = bytes.into();
    let answer = send(&service, post("/", "k", RequestBody::new(other))).await;
    assert_eq!((answer.status, runs.count()), (409, 1));
}

/// What the handler gets is what was hashed, and nothing that would make its answer depend on one client.
#[tokio::test]
async fn the_handler_sees_the_request_as_it_was_sent() {
    let service = marked(builder(Double::new()), |request| async move {
        assert_eq!(request.uri(), "/payments?dry=1");
        assert_eq!(request.headers()["x-user"], "ada");
        assert_eq!(request.headers()["idempotency-key"], "k");
        assert!(!request.headers().contains_key("accept-encoding"));
        Response::new(request.into_body())
    });
    let mut request = request("PATCH", "/payments?dry=1", "k", "bytes");
    request
        .headers_mut()
        .insert("accept-encoding", HeaderValue::from_static("gzip"));
    assert_eq!(send(&service, request).await.body, "bytes");
}
