//! The commands on every kind of connection that the `redis` crate has: that this compiles is the test. The connections
//! of the plain features are played with in the other tests; for these, other servers would have to run.
//!
//! `cargo test -p idem-client --features cluster,sentinel,connection-manager,tls --test connections`

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use idem_client::{
    AsyncIdempotencyCommands, Begin, Error, IdempotencyCommands, IdempotencyPipeline, LazyConnection,
    RedisStore, Store,
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

#[test]
fn pipelines_of_clusters_have_them() -> Result<(), Error> {
    let mut pipeline = redis::cluster::cluster_pipe();
    pipeline
        .idempotency_begin("k", "f", "o", TTL)?
        .idempotency_complete("k", "f", "o", "r")?
        .once("other", TTL)?;
    assert!(pipeline.idempotency_begin("k", "", "o", TTL).is_err());
    assert_eq!(pipeline.cmd_iter().count(), 3);
    Ok(())
}
