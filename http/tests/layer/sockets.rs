//! Real connections: framing, bodies in pieces, clients that hang up.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::post as on_post;
use bytes::Bytes;
use http::{Request, StatusCode, Version};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{
    Double, Gate, Ready, Runs, Seen, builder, numbered, numbered_service, post, seen, send, soon,
};

/// Serves `/` (numbered answers), `/held` (the same behind a gate) and `/empty` until the test ends.
async fn serve(builder: Ready<Double>, runs: &Runs, gate: &std::sync::Arc<Gate>) -> SocketAddr {
    let (first, second, third, gate) = (runs.clone(), runs.clone(), runs.clone(), gate.clone());
    let router = Router::new()
        .route(
            "/",
            on_post(async move || numbered(&first).map(axum::body::Body::new)),
        )
        .route(
            "/held",
            on_post(async move || {
                gate.pass().await;
                numbered(&second).map(axum::body::Body::new)
            }),
        )
        .route(
            "/empty",
            on_post(async move || {
                third.started();
                StatusCode::NO_CONTENT
            }),
        )
        .route_layer(builder.build().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn head(path: &str, key: &str, more: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nx-user: ada\r\nx-tenant: acme\r\nIdempotency-Key: {key}\r\n\
         Connection: close\r\n{more}\r\n"
    )
}

/// Writes these pieces with pauses and reads the whole answer.
async fn exchange(address: SocketAddr, pieces: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    for piece in pieces {
        stream.write_all(piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut answer = Vec::new();
    soon(stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

/// How the bytes come does not count: in one piece or in three, chunked or not.
#[tokio::test]
async fn framing_is_no_part_of_a_request() {
    let (runs, gate) = (Runs::default(), Gate::new());
    let address = serve(builder(Double::new()), &runs, &gate).await;
    let whole = format!("{}abcdef", head("/", "k", "Content-Length: 6\r\n"));
    let chunked = head("/", "k", "Transfer-Encoding: chunked\r\n");
    let first = exchange(address, &[whole.as_bytes()]).await;
    assert!(
        first.starts_with("HTTP/1.1 201 ") && first.ends_with("\r\n\r\nrun 1"),
        "{first}"
    );
    let pieces: &[&[u8]] = &[
        chunked.as_bytes(),
        b"2\r\nab\r\n",
        b"3\r\ncde\r\n",
        b"1\r\nf\r\n",
        b"0\r\n\r\n",
    ];
    let again = exchange(address, pieces).await;
    assert!(
        again.contains("idempotent-replayed: true") && again.ends_with("\r\n\r\nrun 1"),
        "{again}"
    );
    assert!(
        again.to_lowercase().contains("content-length: 5") && !again.contains("chunked"),
        "{again}"
    );
    let other = exchange(address, &[chunked.as_bytes(), b"6\r\nabcdeg\r\n0\r\n\r\n"]).await;
    assert!(other.starts_with("HTTP/1.1 409 "), "{other}");
    assert_eq!(runs.count(), 1);
}

/// A client that writes everything before it reads sees the 413, not a reset connection.
#[tokio::test]
async fn a_body_over_the_limit_is_answered() {
    let (runs, gate) = (Runs::default(), Gate::new());
    let address = serve(builder(Double::new()), &runs, &gate).await;
    let body = vec![b'x'; 3 << 20];
    let known = head("/", "k", &format!("Content-Length: {}\r\n", body.len()));
    let answer = exchange(address, &[known.as_bytes(), &body]).await;
    assert!(
        answer.starts_with("HTTP/1.1 413 ") && answer.contains("over the limit"),
        "{answer}"
    );
    let mut chunked = head("/", "k", "Transfer-Encoding: chunked\r\n").into_bytes();
    chunked.extend(format!("{:x}\r\n", body.len()).bytes());
    chunked.extend(&body);
    chunked.extend(b"\r\n0\r\n\r\n");
    let answer = exchange(address, &[&chunked]).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert_eq!(runs.count(), 0);
}

/// A client that asks first reads a 413, and not a 100 that makes it send.
#[tokio::test]
async fn a_client_that_asks_first_is_not_told_to_send_what_is_too_long() {
    let (runs, gate) = (Runs::default(), Gate::new());
    let address = serve(builder(Double::new()), &runs, &gate).await;
    let asking = |length| {
        head(
            "/",
            "k",
            &format!("Expect: 100-continue\r\nContent-Length: {length}\r\n"),
        )
    };
    let answer = exchange(address, &[asking(65_537).as_bytes()]).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let answer = exchange(address, &[asking(3).as_bytes(), b"abc"]).await;
    assert!(
        answer.starts_with("HTTP/1.1 100 ") && answer.contains("HTTP/1.1 201 "),
        "{answer}"
    );
    assert_eq!(runs.count(), 1);
}

/// A handler that wants the connection to end says so with its own answer only.
#[tokio::test]
async fn a_handler_can_close_its_connection() {
    let layer = builder(Double::new()).build().unwrap();
    let handler = async || [("connection", "x-option, Close"), ("x-option", "1")];
    let router = Router::new().route("/", on_post(handler).route_layer(layer));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let request = head("/", "k", "Content-Length: 0\r\n").replace("Connection: close\r\n", "");
    let first = exchange(address, &[request.as_bytes()]).await;
    assert!(
        first.contains("connection: close"),
        "it ended, and says so: {first}"
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.repeat(2).as_bytes()).await.unwrap();
    let mut replays = Vec::new();
    soon(async {
        while replays.windows(4).filter(|end| end == b"\r\n\r\n").count() < 2 {
            assert_ne!(stream.read_buf(&mut replays).await.unwrap(), 0, "it was closed");
        }
    })
    .await;
    let replays = String::from_utf8(replays).unwrap();
    assert_eq!(
        replays.matches("idempotent-replayed: true").count(),
        2,
        "{replays}"
    );
    assert!(!replays.contains("connection"), "{replays}");
}

#[tokio::test]
async fn a_client_that_hangs_up_while_it_sends_has_begun_nothing() {
    let (runs, gate, store) = (Runs::default(), Gate::new(), Double::new());
    let address = serve(builder(store.clone()), &runs, &gate).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let half = format!("{}abc", head("/", "k", "Content-Length: 6\r\n"));
    stream.write_all(half.as_bytes()).await.unwrap();
    drop(stream);
    let whole = format!("{}abcdef", head("/", "k", "Content-Length: 6\r\n"));
    let answer = exchange(address, &[whole.as_bytes()]).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!((runs.count(), store.commands()), (1, vec!["BEGIN", "COMPLETE"]));
}

#[tokio::test]
async fn a_client_that_hangs_up_while_the_handler_runs_finds_its_answer_later() {
    let (runs, gate, store) = (Runs::default(), Gate::new(), Double::new());
    let address = serve(builder(store.clone()), &runs, &gate).await;
    let request = format!("{}abc", head("/held", "k", "Content-Length: 3\r\n"));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    gate.wait_reached().await;
    drop(stream);
    // The server has to notice first, or the test would not be about a lost client.
    tokio::time::sleep(Duration::from_millis(50)).await;
    gate.let_one_through();
    soon(async {
        loop {
            let answer = exchange(address, &[request.as_bytes()]).await;
            if answer.contains("idempotent-replayed: true") {
                return assert!(answer.ends_with("run 1"), "{answer}");
            }
            assert!(answer.starts_with("HTTP/1.1 409 "), "{answer}");
        }
    })
    .await;
    assert_eq!(runs.count(), 1);
}

/// One connection for many requests: answers without a body, refusals and replays leave it in step.
#[tokio::test]
async fn a_connection_stays_usable() {
    let (runs, gate) = (Runs::default(), Gate::new());
    let address = serve(builder(Double::new()), &runs, &gate).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut call = async |path: &str, key: &str, body: &'static str| -> Seen {
        let request = Request::builder()
            .method("POST")
            .uri(path)
            .header("host", "test")
            .header("x-user", "ada")
            .header("x-tenant", "acme")
            .header("idempotency-key", key)
            .body(Full::from(body))
            .unwrap();
        sender.ready().await.unwrap();
        seen(soon(sender.send_request(request)).await.unwrap()).await
    };
    for round in 1..=3 {
        let empty = call("/empty", "e", "").await;
        assert_eq!(
            (empty.status, empty.header("content-length"), empty.is_replay()),
            (204, None, round > 1)
        );
        let full = call("/", "k", "body").await;
        assert_eq!(
            (full.status, full.is_replay(), full.body.len()),
            (201, round > 1, 5)
        );
        assert_eq!(call("/", "k", "other").await.status, 409);
        assert_eq!(call("/", "", "").await.status, 400);
    }
    assert_eq!(runs.count(), 2);
}

/// A retry may come over another version of HTTP.
#[tokio::test]
async fn the_version_of_the_protocol_is_no_part_of_a_request() {
    let (service, runs) = numbered_service(builder(Double::new()));
    for version in [Version::HTTP_2, Version::HTTP_11, Version::HTTP_10] {
        let mut request = post("/", "k", "x");
        *request.version_mut() = version;
        assert_eq!(send(&service, request).await.body, "run 1");
    }
    assert_eq!(runs.count(), 1);
}
