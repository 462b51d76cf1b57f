//! Uploads over HTTP/2 that are cut in the middle, by a client that sends single frames.
//!
//! hyper's own client resets a stream with CANCEL and with nothing else. Which code a client chooses must not matter: what
//! did not come whole was not asked for.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::Request;
use tokio::net::TcpStream;

use crate::protocols::serve;
use crate::support::{Double, Gate, Runs, soon};

struct Client(SendRequest<Bytes>);

impl Client {
    async fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Client(sender)
    }

    /// Sends the head of a request, and the length of its body where one is to be announced.
    async fn begin(&mut self, key: &str, announced: Option<usize>) -> (ResponseFuture, SendStream<Bytes>) {
        let mut request = Request::builder()
            .method("POST")
            .uri("http://test/")
            .header("x-user", "ada")
            .header("x-tenant", "acme")
            .header("idempotency-key", key);
        if let Some(length) = announced {
            request = request.header("content-length", length);
        }
        let request = request.body(()).unwrap();
        let sender = soon(self.0.clone().ready()).await.unwrap();
        self.0 = sender;
        self.0.send_request(request, false).unwrap()
    }

    /// A whole request: status and body of its answer.
    async fn call(&mut self, key: &str, body: &'static str) -> (u16, Bytes) {
        let (answer, mut stream) = self.begin(key, None).await;
        stream
            .send_data(Bytes::from_static(body.as_bytes()), true)
            .unwrap();
        let answer = soon(answer).await.unwrap();
        let status = answer.status().as_u16();
        let mut bytes = Vec::new();
        let mut body = answer.into_body();
        while let Some(data) = soon(body.data()).await {
            bytes.extend(data.unwrap());
        }
        (status, Bytes::from(bytes))
    }
}

/// Every code, with and without a length. NO_ERROR is the one after which hyper ends the body as if it were whole.
#[tokio::test]
async fn an_upload_that_is_reset_has_begun_nothing_whatever_the_code() {
    let (runs, store) = (Runs::default(), Double::new());
    let address = serve(store.clone(), &runs, &Gate::new()).await;
    let mut client = Client::connect(address).await;
    let mut expected = 1;
    assert_eq!(client.call("other", "x").await, (201, Bytes::from("run 1")));
    // 0 to 13 have names; 14 has none, and is a reset all the same.
    for code in 0..15 {
        for announced in [None, Some("half and half".len())] {
            let what = format!("{:?}, length {announced:?}", Reason::from(code));
            let key = format!("k-{code}-{}", announced.is_some());
            store.commands();
            let (answer, mut stream) = client.begin(&key, announced).await;
            stream.send_data(Bytes::from_static(b"half "), false).unwrap();
            // The half has arrived when a stream behind it has been answered, and so has the reset.
            assert_eq!(client.call("other", "x").await.0, 201);
            stream.send_reset(Reason::from(code));
            assert_eq!(client.call("other", "x").await.0, 201);
            assert!(soon(answer).await.is_err());
            assert_eq!(
                (runs.count(), store.commands()),
                (expected, vec!["BEGIN"; 2]),
                "{what}"
            );
            // Its key is as free as before: for the whole request, and for the half if that is what is meant.
            expected += 1;
            let body = Bytes::from(format!("run {expected}"));
            assert_eq!(client.call(&key, "half and half").await, (201, body), "{what}");
        }
    }
    assert_eq!(runs.count(), expected);
}

/// A client that resets with NO_ERROR after it has sent everything is one that went away: its request runs.
#[tokio::test]
async fn a_reset_after_the_whole_request_stops_nothing() {
    let (runs, gate, store) = (Runs::default(), Gate::new(), Double::new());
    let address = serve(store.clone(), &runs, &gate).await;
    let mut client = Client::connect(address).await;
    let gate = store.hold_begin();
    let (answer, mut stream) = client.begin("k", None).await;
    stream.send_data(Bytes::from_static(b"whole"), true).unwrap();
    gate.wait_reached().await;
    stream.send_reset(Reason::NO_ERROR);
    assert!(soon(answer).await.is_err());
    store.hold_nothing();
    gate.let_one_through();
    soon(async {
        loop {
            match client.call("k", "whole").await {
                (201, body) => return assert_eq!(body, "run 1"),
                (status, _) => assert_eq!(status, 409),
            }
        }
    })
    .await;
    assert_eq!(runs.count(), 1);
}
