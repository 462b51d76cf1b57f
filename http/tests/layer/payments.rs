//! The example `payments`, started as a reader would start it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use idem_http::{Principal, storage_key};
use idem_testsuite::process::binaries;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{Server, namespace};
use crate::support::{Seen, seen, soon};

fn executable() -> PathBuf {
    binaries::example("idem-http", "payments")
}

/// The running example; killed when a test lets go of it.
struct Payments {
    child: Child,
    address: String,
    namespace: String,
}

impl Payments {
    fn start(store: &str, flags: &[&str]) -> Payments {
        Payments::start_as(namespace(), store, flags)
    }

    fn start_as(namespace: String, store: &str, flags: &[&str]) -> Payments {
        let mut child = Command::new(executable())
            .args([
                "--store",
                store,
                "--listen",
                "127.0.0.1:0",
                "--namespace",
                &namespace,
            ])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .unwrap()
            .to_owned();
        Payments {
            child,
            address,
            namespace,
        }
    }

    async fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Seen {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.address);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.to_owned())).unwrap();
        seen(soon(sender.send_request(request)).await.unwrap()).await
    }

    /// Somebody's request with a key.
    async fn keyed(&self, method: &str, path: &str, key: &str, body: &str) -> Seen {
        let headers = [("authorization", "Bearer acme:ada"), ("idempotency-key", key)];
        self.call(method, path, &headers, body).await
    }

    async fn runs(&self, route: &str) -> u64 {
        let runs = self.call("GET", "/runs", &[], "").await;
        assert_eq!(runs.status, 200);
        let runs: serde_json::Value = serde_json::from_slice(&runs.body).unwrap();
        runs.get(route).map_or(0, |count| count.as_u64().unwrap())
    }

    /// Sends the head and body of a request and leaves the answer to whoever reads the stream.
    async fn start_request(&self, path: &str, key: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer acme:ada\r\nIdempotency-Key: {key}\r\n\
             Content-Length: 0\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    async fn wait_exit(&mut self) -> Option<i32> {
        soon(async {
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    return status.code();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
    }

    /// Says what the test is about to make.
    fn makes(&self, server: &Server, keys: &[&str]) {
        let principal = Principal::new("Bearer", "demonstration", "ada");
        for key in keys {
            server.note(storage_key(&self.namespace, &principal, "acme", key));
        }
    }
}

impl Drop for Payments {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn each_route_does_what_it_says() {
    let Some(server) = Server::find("each_route_does_what_it_says") else {
        return;
    };
    let payments = Payments::start(&server.address().to_string(), &[]);
    let keys = [
        "create", "put", "delete", "slow", "status", "empty", "big", "panic", "big2", "status2",
    ];
    payments.makes(&server, &keys);
    let body = r#"{"amount":5}"#;

    let first = payments.keyed("POST", "/payments", "create", body).await;
    assert_eq!(first.status, 201);
    for name in ["location", "etag", "set-cookie"] {
        assert!(first.headers.contains_key(name), "{name}");
    }
    let again = payments.keyed("POST", "/payments", "create", body).await;
    assert_eq!(
        (again.status, again.is_replay(), &again.body),
        (201, true, &first.body)
    );
    assert_eq!(again.header("etag"), first.header("etag"));
    assert!(!again.headers.contains_key("set-cookie") && !again.headers.contains_key("location"));
    assert_eq!(
        payments
            .keyed("POST", "/payments", "create", r#"{"amount":6}"#)
            .await
            .status,
        409
    );
    assert_eq!(payments.runs("POST /payments").await, 1);

    for (method, path, key, status, route, runs) in [
        ("PUT", "/payments/1", "put", 200, "PUT /payments/{id}", 1),
        ("DELETE", "/payments/1", "delete", 200, "DELETE /payments/{id}", 1),
        ("POST", "/slow?ms=1", "slow", 200, "POST /slow", 1),
        ("POST", "/status?code=418", "status", 418, "POST /status", 1),
        ("POST", "/empty", "empty", 204, "POST /empty", 1),
        ("POST", "/big?bytes=65536", "big", 200, "POST /big", 1),
    ] {
        let first = payments.keyed(method, path, key, body).await;
        let again = payments.keyed(method, path, key, body).await;
        assert_eq!(
            (first.status, again.status, again.is_replay()),
            (status, status, true),
            "{path}"
        );
        assert_eq!(first.body, again.body);
        assert_eq!(payments.runs(route).await, runs);
    }
    for (path, key, route, runs) in [
        ("/panic", "panic", "POST /panic", 1),
        ("/big?bytes=65537", "big2", "POST /big", 2),
        ("/status?code=101", "status2", "POST /status", 2),
    ] {
        assert_eq!(payments.keyed("POST", path, key, "").await.status, 500, "{path}");
        assert_eq!(payments.keyed("POST", path, key, "").await.status, 409, "{path}");
        assert_eq!(payments.runs(route).await, runs);
    }
    let login = [("authorization", "Bearer acme:ada")];
    for run in 1..=2 {
        assert_eq!(payments.call("POST", "/plain", &login, "").await.status, 200);
        assert_eq!(payments.runs("POST /plain").await, run);
    }
}

#[tokio::test]
async fn refusals_come_in_order() {
    let Some(server) = Server::find("refusals_come_in_order") else {
        return;
    };
    let payments = Payments::start(&server.address().to_string(), &["--max-request", "10"]);
    let method = payments.call("GET", "/payments", &[], "").await;
    assert_eq!((method.status, method.header("allow")), (405, Some("POST")));
    let key = ("idempotency-key", "k");
    let login = ("authorization", "Bearer acme:ada");
    for (headers, status) in [
        (vec![], 401),
        (vec![("authorization", "Bearer nonsense"), key], 401),
        (vec![("authorization", "Bearer acme:"), key], 401),
        (vec![("authorization", "Bearer :ada"), key], 500),
        (vec![login], 400),
        (vec![login, key, key], 400),
        (vec![login, key], 413),
    ] {
        let answer = payments
            .call("POST", "/payments", &headers, r#"{"amount":5}"#)
            .await;
        assert_eq!(answer.status, status, "{headers:?}");
        assert_eq!(answer.problem()["status"], status);
    }
    assert_eq!(payments.runs("POST /payments").await, 0);
}

#[tokio::test]
async fn flags_change_what_they_say() {
    let Some(server) = Server::find("flags_change_what_they_say") else {
        return;
    };
    let flags = [
        "--profile",
        "ietf",
        "--max-response",
        "10",
        "--retention-ms",
        "60000",
    ];
    let payments = Payments::start(&server.address().to_string(), &flags);
    payments.makes(&server, &["a", "b"]);
    assert_eq!(payments.keyed("POST", "/big?bytes=10", "a", "").await.status, 200);
    assert_eq!(
        payments.keyed("POST", "/big?bytes=10", "a", "other").await.status,
        422
    );
    assert_eq!(payments.keyed("POST", "/big?bytes=11", "b", "").await.status, 500);
    assert_eq!(payments.keyed("POST", "/big?bytes=11", "b", "").await.status, 409);

    for wrong in [
        ["--retention-ms", "0"],
        ["--max-request", "0"],
        ["--max-response", "1048577"],
    ] {
        let output = Command::new(executable())
            .args(["--listen", "127.0.0.1:0"])
            .args(wrong)
            .output();
        assert_eq!(output.unwrap().status.code(), Some(1), "{wrong:?}");
    }
}

/// Stopped in mid-handler it answers whoever waits, and stores the answer of whoever has left.
#[tokio::test]
async fn a_signal_ends_it_after_what_is_under_way() {
    let Some(server) = Server::find("a_signal_ends_it_after_what_is_under_way") else {
        return;
    };
    let address = server.address().to_string();
    for signal in ["TERM", "INT"] {
        let mut payments = Payments::start(&address, &[]);
        payments.makes(&server, &["left", "waiting"]);
        let left = payments.start_request("/slow?ms=700", "left").await;
        let mut waiting = payments.start_request("/slow?ms=300", "waiting").await;
        soon(async {
            while payments.runs("POST /slow").await < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        drop(left);
        payments.signal(signal);
        let mut answer = String::new();
        soon(waiting.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{signal}: {answer}");
        assert_eq!(payments.wait_exit().await, Some(0), "{signal}");

        let again = Payments::start_as(payments.namespace.clone(), &address, &[]);
        for (path, key) in [("/slow?ms=700", "left"), ("/slow?ms=300", "waiting")] {
            let replay = again.keyed("POST", path, key, "").await;
            assert!(replay.status == 200 && replay.is_replay(), "{signal}: {replay:?}");
        }
        assert_eq!(again.runs("POST /slow").await, 0);
    }
}

/// It starts while its store is away, and serves when the store has come.
#[tokio::test]
async fn it_starts_with_the_store_away() {
    let Some(mut server) = Server::own("it_starts_with_the_store_away") else {
        return;
    };
    server.kill();
    let payments = Payments::start(&server.address().to_string(), &[]);
    let body = r#"{"amount":5}"#;
    assert_eq!(payments.keyed("POST", "/payments", "k", body).await.status, 503);
    assert_eq!(payments.runs("POST /payments").await, 0);
    server.start_again();
    assert_eq!(payments.keyed("POST", "/payments", "k", body).await.status, 201);
    server.kill();
    assert_eq!(payments.keyed("POST", "/payments", "k", body).await.status, 503);
    server.start_again();
    assert!(payments.keyed("POST", "/payments", "k", body).await.is_replay());
    assert_eq!(payments.runs("POST /payments").await, 1);
}
