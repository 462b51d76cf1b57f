//! Connections that end where a test wants them to: before, within and after an answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use idem_client::{AsyncIdempotencyCommands, Begin, ErrorKind, IdempotencyCommands, State, Store};

use crate::failures::{TTL, store_at};
use crate::support::Server;

/// Passes bytes on in one direction, and drops both connections when the server answers BEGIN: the command was carried
/// out, and nobody is told.
fn proxy_that_loses_an_answer(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut upstream = TcpStream::connect(server).unwrap();
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from_client, &mut to_server);
        });
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = upstream.read(&mut buffer) {
            if buffer[..count].windows(8).any(|part| part == b"acquired") {
                return drop(client.shutdown(std::net::Shutdown::Both));
            }
            client.write_all(&buffer[..count]).unwrap();
        }
    });
    address
}

#[tokio::test]
async fn an_answer_that_is_lost_may_have_run_and_here_it_has() {
    let Some(server) = Server::find("an_answer_that_is_lost") else {
        return;
    };
    let address = server.address().parse().unwrap();
    let key = server.key("k");
    let error = store_at(proxy_that_loses_an_answer(address))
        .begin(key.as_bytes(), b"f", b"o", TTL)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.may_have_run()),
        (ErrorKind::Connection, true),
        "{error}"
    );
    let found = server.store().inspect(key.as_bytes()).await.unwrap().unwrap();
    assert_eq!(
        (found.state, found.owner.as_slice()),
        (State::Pending, b"o".as_slice())
    );

    // The same over a connection of the `redis` crate, and a blocking one.
    let client = redis::Client::open(format!("redis://{}/", proxy_that_loses_an_answer(address))).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let error = connection
        .idempotency_begin(server.key("async"), "f", "o", TTL)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.may_have_run()),
        (ErrorKind::Connection, true),
        "{error}"
    );
    let (key, proxy) = (server.key("blocking"), proxy_that_loses_an_answer(address));
    let client = redis::Client::open(format!("redis://{proxy}/")).unwrap();
    let error = client
        .get_connection()
        .unwrap()
        .idempotency_begin(key, "f", "o", TTL)
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.may_have_run()),
        (ErrorKind::Connection, true),
        "{error}"
    );
}

/// Passes everything on, and of what the server sends so many bytes only; then it drops both connections.
fn proxy_that_cuts_after(bytes: usize, server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let upstream = TcpStream::connect(server).unwrap();
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from_client, &mut to_server);
        });
        let limit = u64::try_from(bytes).unwrap();
        let _ = std::io::copy(&mut (&upstream).take(limit), &mut client);
        let _ = client.shutdown(std::net::Shutdown::Both);
        let _ = upstream.shutdown(std::net::Shutdown::Both);
    });
    address
}

/// A connection that ends anywhere, within the handshake or within an answer, is a lost connection, and worth another
/// try; within the handshake nothing was sent.
#[tokio::test]
async fn an_answer_that_is_cut_is_a_lost_connection_wherever_it_is_cut() {
    let Some(server) = Server::find("an_answer_that_is_cut") else {
        return;
    };
    let address = server.address().parse().unwrap();
    let (mut unsent, mut lost, mut bytes) = (0, 0, 0);
    loop {
        let key = server.key(&format!("cut {bytes}"));
        let store = store_at(proxy_that_cuts_after(bytes, address));
        let error = match store.begin(key.as_bytes(), b"f", b"o", TTL).await {
            Ok(begun) => break assert_eq!(begun, Begin::Acquired),
            Err(error) => error,
        };
        assert_eq!(
            (error.kind(), error.is_transient()),
            (ErrorKind::Connection, true),
            "{bytes}: {error}"
        );
        let has_run = server.store().inspect(key.as_bytes()).await.unwrap().is_some();
        assert!(error.may_have_run() || !has_run, "{bytes}: {error}");
        *if error.may_have_run() {
            &mut lost
        } else {
            &mut unsent
        } += 1;
        bytes += 1;
    }
    // HELLO's answer and two of CLIENT SETINFO; `*1 $8 acquired`.
    assert!(unsent > 50 && lost >= 17, "{unsent} {lost}");
}

/// What is accepted and never answered is no connection: nothing was sent, although it took as long as a time-out.
#[tokio::test]
async fn a_handshake_that_is_not_answered_has_sent_nothing() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let store = store_at(listener.local_addr().unwrap())
        .with_connect_timeout(Duration::from_millis(100))
        .unwrap();
    // Two hundred calls wait for one attempt, and not one after the other.
    let started = Instant::now();
    let calls = (0..200).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.begin(b"k", b"f", b"o", TTL).await.unwrap_err() })
    });
    for call in calls.collect::<Vec<_>>() {
        let error = call.await.unwrap();
        assert_eq!(
            (error.kind(), error.may_have_run()),
            (ErrorKind::Timeout, false),
            "{error}"
        );
    }
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
}
