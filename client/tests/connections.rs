//! The commands on every kind of connection that the `redis` crate has: that this compiles is the test. The connections
//! of the plain features are played with in the other tests; for these, other servers would have to run.
//!
//! `cargo test -p idem-client --features cluster,sentinel,connection-manager,tls --test connections`

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use idem_client::{
    AsyncIdempotencyCommands, Begin, Error, IdempotencyCommands, LazyConnection, RedisStore, Store,
};
use redis::aio::{ConnectionManager, MultiplexedConnection};

/// What a pool hands out: something that has a connection inside.
struct Pooled<C>(C);

impl<C> Deref for Pooled<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

impl<C> DerefMut for Pooled<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.0
    }
}

const TTL: Duration = Duration::from_secs(60);

async fn with_async(connection: &mut (impl AsyncIdempotencyCommands + ?Sized)) -> Result<Begin, Error> {
    connection.idempotency_begin("k", "f", "o", TTL).await
}

fn with_blocking(connection: &mut (impl IdempotencyCommands + ?Sized)) -> Result<Begin, Error> {
    connection.idempotency_begin("k", "f", "o", TTL)
}

fn is_store<S: Store>() {}

/// A service moves its calls between threads.
fn is_send(_: impl Send) {}

#[test]
fn every_connection_has_the_commands() {
    fn asynchronous<C: redis::aio::ConnectionLike + Send>(mut connection: C) {
        is_send(with_async(&mut connection));
    }
    fn blocking<C: redis::ConnectionLike>(mut connection: C) {
        let _ = with_blocking(&mut connection);
    }
    fn pooled(mut one: Pooled<MultiplexedConnection>, mut other: Pooled<redis::Connection>) {
        is_send(one.idempotency_inspect("k"));
        let _ = other.once("k", TTL);
    }
    let _ = asynchronous::<MultiplexedConnection>;
    let _ = asynchronous::<ConnectionManager>;
    let _ = asynchronous::<redis::cluster_async::ClusterConnection>;
    let _ = asynchronous::<LazyConnection>;
    let _ = blocking::<redis::Connection>;
    let _ = blocking::<redis::Client>;
    let _ = blocking::<redis::cluster::ClusterConnection>;
    let _ = pooled;
    is_store::<RedisStore>();
    is_store::<RedisStore<MultiplexedConnection>>();
    is_store::<RedisStore<ConnectionManager>>();
    is_store::<RedisStore<redis::cluster_async::ClusterConnection>>();
}

#[test]
fn connections_of_sentinels_have_them() {
    async fn asynchronous(mut client: redis::sentinel::SentinelClient) -> Result<Begin, Error> {
        with_async(&mut client.get_async_connection().await?).await
    }
    fn blocking(mut client: redis::sentinel::SentinelClient) -> Result<Begin, Error> {
        with_blocking(&mut client.get_connection()?)
    }
    let _ = (asynchronous, blocking);
}

/// The application chooses the cryptography of TLS. Without one nothing will ever connect: no error that is worth another
/// try.
#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_without_a_cryptography_is_a_wrong_configuration() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let store = RedisStore::open(format!("rediss://{address}/")).expect("an address");
    let begun = store.begin(b"k", b"f", b"o", TTL).await;
    let error = begun.expect_err("nobody speaks TLS");
    assert_eq!(
        (error.kind(), error.is_transient(), error.may_have_run()),
        (idem_client::ErrorKind::InvalidArgument, false, false),
        "{error}"
    );
}
