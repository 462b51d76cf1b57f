//! Other ways to speak than HTTP/1.1: HTTP/2 with its streams, and gRPC-Web through tonic.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::post as on_post;
use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::Full;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tower::{BoxError, ServiceExt};
use tower_layer::Layer;

use crate::support::{
    Double, Gate, RequestBody, Runs, Seen, builder, fed, numbered, polled_once, post, request, seen, soon,
};

/// Serves `/` (numbered answers) and `/held` (the same behind a gate), over HTTP/1.1 and HTTP/2, until the test ends.
pub(crate) async fn serve(store: Double, runs: &Runs, gate: &Arc<Gate>) -> SocketAddr {
    let (first, second, gate) = (runs.clone(), runs.clone(), Arc::clone(gate));
    let held = async move || {
        gate.pass().await;
        numbered(&second).map(RequestBody::new)
    };
    let router = Router::new()
        .route("/", on_post(async move || numbered(&first).map(RequestBody::new)))
        .route("/held", on_post(held))
        .route_layer(builder(store).build().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn connect(address: SocketAddr) -> SendRequest<RequestBody> {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// A request as HTTP/2 has it: with scheme and authority, which are no part of what is hashed.
fn absolute(path: &str, key: &str, body: impl Into<RequestBody>) -> Request<RequestBody> {
    let mut request = request("POST", &format!("http://test{path}"), key, body);
    *request.version_mut() = http::Version::HTTP_2;
    request
}

/// A first attempt over HTTP/2, its repeats in pieces, with trailers, and over HTTP/1.1.
#[tokio::test]
async fn a_request_is_the_same_over_http_2() {
    let (runs, store) = (Runs::default(), Double::new());
    let address = serve(store.clone(), &runs, &Gate::new()).await;
    let mut client = connect(address).await;
    let first = seen(
        soon(client.send_request(absolute("/", "k", "abcdef")))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(
        (first.status, first.is_replay(), &first.body[..]),
        (201, false, &b"run 1"[..])
    );

    let (feed, body) = fed();
    for piece in ["ab", "", "cdef"] {
        feed.send(Frame::data(Bytes::from(piece))).unwrap();
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", "1".parse().unwrap());
    feed.send(Frame::trailers(trailers)).unwrap();
    drop(feed);
    let again = seen(soon(client.send_request(absolute("/", "k", body))).await.unwrap()).await;
    assert_eq!(
        (again.status, again.is_replay(), again.body),
        (201, true, first.body.clone())
    );

    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut older, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut repeat = post("/", "k", "abcdef");
    repeat.headers_mut().insert("host", "test".parse().unwrap());
    let old = seen(soon(older.send_request(repeat)).await.unwrap()).await;
    assert_eq!((old.status, old.is_replay(), old.body), (201, true, first.body));

    let other = seen(
        soon(client.send_request(absolute("/", "k", "abcdeg")))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(other.status, 409);
    let long = vec![b'x'; 1 << 20];
    let refused = seen(
        soon(client.send_request(absolute("/", "long", long)))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(refused.status, 413);
    assert_eq!(runs.count(), 1);
}

/// A stream that is reset while it sends has begun nothing; one that is reset while its handler runs has its answer
/// stored. The connection and its other streams go on.
#[tokio::test]
async fn a_stream_that_is_reset_is_a_client_that_went_away() {
    let (runs, gate, store) = (Runs::default(), Gate::new(), Double::new());
    let address = serve(store.clone(), &runs, &gate).await;
    let mut client = connect(address).await;

    let (feed, body) = fed();
    feed.send(Frame::data(Bytes::from_static(b"ab"))).unwrap();
    let mut sending = Box::pin(client.send_request(absolute("/", "half", body)));
    // Its headers are on their way when another stream has been answered behind them.
    assert!(polled_once(sending.as_mut()).await.is_none());
    let other = seen(
        soon(client.send_request(absolute("/", "other", "x")))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(other.body, "run 1");
    drop(sending);
    assert_eq!(store.commands(), ["BEGIN", "COMPLETE"]);

    let mut held = Box::pin(client.send_request(absolute("/held", "k", "x")));
    assert!(polled_once(held.as_mut()).await.is_none());
    gate.wait_reached().await;
    drop(held);
    // The reset has arrived when a stream behind it has been answered.
    let other = seen(
        soon(client.send_request(absolute("/", "other", "x")))
            .await
            .unwrap(),
    )
    .await;
    assert!(other.is_replay());
    gate.let_one_through();
    soon(async {
        loop {
            let answer = client.send_request(absolute("/held", "k", "x")).await.unwrap();
            let answer = seen(answer).await;
            if answer.is_replay() {
                return assert_eq!(answer.body, "run 2");
            }
            assert_eq!(answer.status, 409);
        }
    })
    .await;
    assert_eq!(runs.count(), 2);
}

/// Two hundred streams of one connection at once.
#[tokio::test]
async fn of_equal_streams_one_runs() {
    let (runs, gate, store) = (Runs::default(), Gate::new(), Double::new());
    let address = serve(store.clone(), &runs, &gate).await;
    let client = connect(address).await;
    let streams = (0..200).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move {
            let answer = client.send_request(absolute("/held", "k", "x")).await.unwrap();
            seen(answer).await
        })
    });
    let streams: Vec<_> = streams.collect();
    gate.wait_reached().await;
    gate.let_one_through();
    let mut first = 0;
    for stream in streams {
        let answer = soon(stream).await.unwrap();
        match answer.status {
            201 if !answer.is_replay() => first += 1,
            201 => assert_eq!(answer.body, "run 1"),
            409 => assert!(answer.problem_type().ends_with("in-progress")),
            _ => panic!("{answer:?}"),
        }
    }
    assert_eq!((first, runs.count()), (1, 1));
}

/// Messages that are their own bytes, so that nothing has to be generated.
#[derive(Clone, Copy, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Plain;
    type Decoder = Plain;

    fn encoder(&mut self) -> Plain {
        Plain
    }

    fn decoder(&mut self) -> Plain {
        Plain
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(message);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// A unary method: a numbered answer, or the status that the message asks for.
fn unary(
    runs: &Runs,
) -> impl tower_service::Service<
    Request<tonic::body::Body>,
    Response = Response<tonic::body::Body>,
    Error = Infallible,
    Future: Send,
> + Clone
+ Send
+ use<> {
    let runs = runs.clone();
    tower::service_fn(move |request| {
        let runs = runs.clone();
        let method = tower::service_fn(move |message: tonic::Request<Bytes>| {
            let run = runs.started();
            async move {
                match message.get_ref().as_ref() {
                    b"refuse" => Err(Status::failed_precondition("not now")),
                    _ => Ok(tonic::Response::new(Bytes::from(format!("run {run}")))),
                }
            }
        });
        async move { Ok(tonic::server::Grpc::new(Plain).unary(method, request).await) }
    })
}

fn framed(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    bytes.extend(message);
    bytes
}

fn grpc(content_type: &str, key: &str, message: &[u8]) -> Request<RequestBody> {
    let mut request = post("/payments.Payments/Create", key, framed(message));
    request
        .headers_mut()
        .insert("content-type", content_type.parse().unwrap());
    request
}

async fn ask<S, B>(service: &S, request: Request<RequestBody>) -> Seen
where
    S: tower_service::Service<Request<RequestBody>, Response = Response<B>> + Clone,
    S::Error: std::fmt::Debug,
    B: Body,
    B::Error: std::fmt::Debug,
{
    seen(soon(service.clone().oneshot(request)).await.unwrap()).await
}

/// gRPC-Web has its trailers in the body, so that they are stored and replayed with it.
#[tokio::test]
async fn grpc_web_inside_of_the_layer() {
    let (runs, store) = (Runs::default(), Double::new());
    let once = builder(store.clone()).build().unwrap();
    let service = once.layer(tonic_web::GrpcWebLayer::new().layer(unary(&runs)));
    let web = "application/grpc-web+proto";

    let first = ask(&service, grpc(web, "k", b"pay")).await;
    let trailers = b"grpc-status:0\r\n";
    assert_eq!((first.status, first.header("content-type")), (200, Some(web)));
    assert!(first.body.starts_with(&framed(b"run 1")), "{:?}", first.body);
    assert!(first.body.ends_with(trailers), "{:?}", first.body);
    let again = ask(&service, grpc(web, "k", b"pay")).await;
    assert_eq!(
        (again.status, again.is_replay(), &again.body),
        (200, true, &first.body)
    );
    assert_eq!(again.header("content-type"), Some(web));
    assert_eq!(ask(&service, grpc(web, "k", b"pay more")).await.status, 409);
    assert_eq!((runs.count(), store.commands().len()), (1, 4));

    // An error is a status in the headers and no body. It is stored, and the method does not run again; what it was has
    // gone with the headers.
    let refused = ask(&service, grpc(web, "r", b"refuse")).await;
    assert_eq!((refused.status, refused.header("grpc-status")), (200, Some("9")));
    let again = ask(&service, grpc(web, "r", b"refuse")).await;
    assert!(again.is_replay() && again.body.is_empty());
    assert_eq!(again.header("grpc-status"), None);
    assert_eq!(runs.count(), 2);
}

/// Trailers of HTTP cannot be stored: gRPC itself, and gRPC-Web when its layer is outside, are refused and not repeated.
#[tokio::test]
async fn grpc_with_trailers_is_refused_after_one_run() {
    let (runs, store) = (Runs::default(), Double::new());
    let once = builder(store.clone()).build().unwrap();
    let body = |request: Request<tonic::body::Body>| Ok::<_, BoxError>(request.map(RequestBody::new));
    let inside =
        unary(&runs).map_request(|request: Request<Full<Bytes>>| request.map(tonic::body::Body::new));
    let native = once.layer(inside);
    let outside = tonic_web::GrpcWebLayer::new()
        .layer(native.clone().map_request(move |request| body(request).unwrap()));

    for (key, content_type) in [("native", "application/grpc"), ("web", "application/grpc-web")] {
        for expected in [500, 409] {
            let answer = match key {
                "native" => ask(&native, grpc(content_type, key, b"pay")).await,
                _ => ask(&outside, grpc(content_type, key, b"pay")).await,
            };
            assert_eq!(answer.status, expected, "{key}: {answer:?}");
        }
    }
    assert_eq!(runs.count(), 2);
}
