//! Answers that cannot be kept: each is a 500 that says why, its record stays pending, and nobody runs the handler again.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_RANGE, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use crate::support::{Double, Gate, Runs, Seen, builder, marked, on_one_thread, post, send, soon};

/// A handler's body, frame by frame.
#[derive(Clone)]
struct Pieces {
    frames: Vec<Piece>,
    hint: Option<u64>,
}

#[derive(Clone)]
enum Piece {
    Data(Bytes),
    Trailers,
    Error,
    /// Never comes.
    Never,
    /// Always comes, and has no bytes.
    Endless,
    Panic,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.frames.first() {
            None => return Poll::Ready(None),
            Some(Piece::Never) => return Poll::Pending,
            Some(Piece::Endless) => return Poll::Ready(Some(Ok(Frame::data(Bytes::new())))),
            Some(_) => {}
        }
        Poll::Ready(Some(match self.frames.remove(0) {
            Piece::Data(bytes) => Ok(Frame::data(bytes)),
            Piece::Trailers => Ok(Frame::trailers(HeaderMap::new())),
            Piece::Error => Err("cut"),
            Piece::Never | Piece::Endless => unreachable!("it stays the first"),
            Piece::Panic => panic!("a body that panics"),
        }))
    }

    fn size_hint(&self) -> SizeHint {
        self.hint.map(SizeHint::with_exact).unwrap_or_default()
    }
}

fn pieces(frames: impl IntoIterator<Item = Piece>) -> Pieces {
    Pieces {
        frames: frames.into_iter().collect(),
        hint: None,
    }
}

fn data(length: usize) -> Piece {
    Piece::Data(Bytes::from(vec![b'x'; length]))
}

/// Sends a request whose handler answers with this, and then the same one again.
async fn check(answer: Response<Pieces>, limit: usize, expected: Result<(), &str>) -> Seen {
    let (store, runs) = (Double::new(), Runs::default());
    let counting = runs.clone();
    let (parts, body) = answer.into_parts();
    // Only a test about it waits for it; the others have all the time that a busy machine takes.
    let timeout_ms = if expected == Err("timeout") { 50 } else { 20_000 };
    let service = marked(
        builder(store.clone())
            .max_response_bytes(limit)
            .response_timeout(Duration::from_millis(timeout_ms)),
        move |_| {
            counting.started();
            let answer = Response::from_parts(parts.clone(), body.clone());
            async move { answer }
        },
    );
    let first = send(&service, post("/", "k", "")).await;
    let again = send(&service, post("/", "k", "")).await;
    assert_eq!(runs.count(), 1);
    match expected {
        Ok(()) => {
            assert!(again.is_replay());
            assert_eq!(first.body, again.body);
            assert_eq!(store.commands(), ["BEGIN", "COMPLETE", "BEGIN"]);
        }
        Err(reason) => {
            assert_eq!(
                (first.status, first.problem_type()),
                (500, "about:blank".to_owned())
            );
            assert!(
                first.detail().contains(reason),
                "{} has no `{reason}`",
                first.detail()
            );
            assert_eq!(again.status, 409, "{again:?}");
            assert_eq!(
                store.commands(),
                ["BEGIN", "BEGIN"],
                "neither completed nor given back"
            );
        }
    }
    first
}

fn with(name: HeaderName, value: &str, body: Pieces) -> Response<Pieces> {
    let mut answer = Response::new(body);
    answer.headers_mut().insert(name, value.parse().unwrap());
    answer
}

fn with_status(status: u16, body: Pieces) -> Response<Pieces> {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}

#[tokio::test]
async fn bodies_up_to_the_limit_and_one_byte_more() {
    for (limit, length) in [(1, 1), (5000, 5000), (65_536, 65_536), (1 << 20, 1 << 20)] {
        check(Response::new(pieces([data(length)])), limit, Ok(())).await;
        check(
            Response::new(pieces([data(length + 1)])),
            limit,
            Err("over the limit"),
        )
        .await;
        check(
            Response::new(pieces([data(length), data(1)])),
            limit,
            Err("over the limit"),
        )
        .await;
        let mut hinted = pieces([Piece::Never]);
        hinted.hint = Some(u64::MAX);
        check(Response::new(hinted), limit, Err("over the limit")).await;
    }
}

#[tokio::test]
async fn bodies_in_pieces_are_one_body() {
    let first = check(Response::new(pieces([data(3), data(0), data(4)])), 7, Ok(())).await;
    assert_eq!((first.header("content-length"), first.body.len()), (Some("7"), 7));
}

#[tokio::test]
async fn streams_and_upgrades_are_refused() {
    for value in [
        "text/event-stream",
        "Text/Event-Stream; charset=utf-8",
        "text/event-stream ;x=y",
    ] {
        let stream = with(CONTENT_TYPE, value, pieces([data(1), Piece::Never]));
        check(stream, 100, Err("text/event-stream")).await;
    }
    check(
        with(CONTENT_TYPE, "text/event-streams", pieces([data(1)])),
        100,
        Ok(()),
    )
    .await;
    check(with_status(101, pieces([])), 100, Err("switched protocols")).await;
    check(with_status(103, pieces([])), 100, Err("switched protocols")).await;
    check(
        Response::new(pieces([data(1), Piece::Trailers])),
        100,
        Err("trailers"),
    )
    .await;
    check(Response::new(pieces([Piece::Trailers])), 100, Err("trailers")).await;
}

#[tokio::test]
async fn bytes_that_need_a_header_which_is_not_stored_are_refused() {
    for value in ["gzip", "br", "identity, gzip"] {
        check(
            with(CONTENT_ENCODING, value, pieces([data(1)])),
            100,
            Err("Content-Encoding"),
        )
        .await;
    }
    check(with(CONTENT_ENCODING, "identity", pieces([data(1)])), 100, Ok(())).await;
    check(
        with(CONTENT_RANGE, "bytes 0-0/9", pieces([data(1)])),
        100,
        Err("Content-Range"),
    )
    .await;
    check(with(ETAG, &"e".repeat(8193), pieces([data(1)])), 100, Err("8192")).await;
    for (values, expected) in [(255, Ok(())), (256, Err("more than 255 values"))] {
        let mut answer = Response::new(pieces([data(1)]));
        for _ in 0..values {
            answer
                .headers_mut()
                .append(CONTENT_LANGUAGE, HeaderValue::from_static("en"));
        }
        check(answer, 100, expected).await;
    }
    check(with(ETAG, &"e".repeat(8192), pieces([data(1)])), 100, Ok(())).await;
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_answer() {
    check(
        Response::new(pieces([data(1), Piece::Error])),
        100,
        Err("ended in an error"),
    )
    .await;
}

#[tokio::test]
async fn a_handler_that_is_too_slow_is_dropped_and_not_run_again() {
    check(
        Response::new(pieces([data(1), Piece::Never])),
        100,
        Err("timeout"),
    )
    .await;

    let (gate, runs) = (Gate::new(), Runs::default());
    let (held, counting) = (gate.clone(), runs.clone());
    let layer = builder(Double::new())
        .response_timeout(Duration::from_millis(50))
        .max_detached(1);
    let service = marked(layer, move |_| {
        let held = held.clone();
        counting.started();
        async move {
            held.pass().await;
            Response::new(Full::<Bytes>::default())
        }
    });
    let answer = send(&service, post("/", "k", "")).await;
    assert!(answer.status == 500 && answer.detail().contains("timeout"));
    assert_eq!(send(&service, post("/", "k", "")).await.status, 409);
    // Its place is free again.
    assert_eq!(send(&service, post("/", "other", "")).await.status, 500);
    assert_eq!(runs.count(), 2);
}

/// Frames that are always there leave nobody else the only thread: the time-out holds, and others are answered.
#[test]
fn a_body_without_end_is_a_timeout_too() {
    on_one_thread(async || {
        check(Response::new(pieces([Piece::Endless])), 100, Err("timeout")).await;

        let store = Double::new();
        let layer = builder(store.clone())
            .response_timeout(Duration::from_millis(300))
            .max_detached(2);
        let service = marked(layer, |request| async move {
            let endless = request.uri().path() == "/endless";
            Response::new(pieces(endless.then_some(Piece::Endless)))
        });
        let running = tokio::spawn({
            let service = service.clone();
            async move { send(&service, post("/endless", "k", "")).await }
        });
        soon(async {
            while store.commands().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(send(&service, post("/", "other", "")).await.status, 200);
        assert!(!running.is_finished());
        assert_eq!(soon(running).await.unwrap().status, 500);
        assert_eq!(send(&service, post("/endless", "k", "")).await.status, 409);
        // Both places are free again.
        let both = ["a", "b"].map(|key| {
            let service = service.clone();
            tokio::spawn(async move { send(&service, post("/endless", key, "")).await })
        });
        for one in both {
            assert_eq!(soon(one).await.unwrap().status, 500);
        }
    });
}

#[tokio::test]
async fn a_panic_is_an_answer_and_never_stored() {
    check(
        Response::new(pieces([data(1), Piece::Panic])),
        100,
        Err("panicked"),
    )
    .await;

    let (store, runs) = (Double::new(), Runs::default());
    let counting = runs.clone();
    let service = marked(builder(store.clone()).max_detached(1), move |_| {
        let counting = counting.clone();
        async move {
            counting.started();
            tokio::task::yield_now().await;
            if counting.count() > 0 {
                panic!("as asked");
            }
            Response::new(Full::<Bytes>::default())
        }
    });
    let answer = send(&service, post("/", "k", "")).await;
    assert_eq!(
        (answer.status, answer.detail()),
        (500, "The handler panicked.".to_owned())
    );
    assert_eq!(send(&service, post("/", "k", "")).await.status, 409);
    assert_eq!(runs.count(), 1);
    assert_eq!(store.commands(), ["BEGIN", "BEGIN"]);
    // The place of an attempt that panicked is given back.
    assert_eq!(send(&service, post("/", "other", "")).await.status, 500);
}

/// A handler that is a service and can fail: its error is its caller's, and the record stays pending.
#[tokio::test]
async fn an_error_of_the_inner_service_is_passed_on() {
    let store = Double::new();
    let layer = builder(store.clone()).build().unwrap();
    let service = tower_layer::Layer::layer(
        &layer,
        tower::service_fn(|_| async { Err::<Response<Full<Bytes>>, _>("the inner service failed") }),
    );
    let call = |service| soon(tower::ServiceExt::oneshot(service, post("/", "k", "")));
    assert_eq!(
        call(service.clone()).await.unwrap_err(),
        "the inner service failed"
    );
    assert_eq!(call(service).await.unwrap().status(), 409);
    assert_eq!(store.commands(), ["BEGIN", "BEGIN"]);
}
