//! A server as a [`Store`].

use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Client, IntoConnectionInfo};

use crate::commands::AsyncIdempotencyCommands;
use crate::error::Error;
use crate::lazy::LazyConnection;
use crate::outcome::{Begin, Inspection};
use crate::store::Store;

/// A server, over a connection that connects by itself, or over one of the caller's.
///
/// ```
/// use std::time::Duration;
/// use idem_client::RedisStore;
///
/// # fn main() -> Result<(), idem_client::Error> {
/// // Nothing connects here: a server that is down fails calls, and not the start.
/// let store = RedisStore::open("redis://127.0.0.1:6379")?.with_response_timeout(Duration::from_secs(2))?;
/// # let _ = store; Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct RedisStore<C = LazyConnection> {
    connection: C,
}

impl RedisStore {
    /// The server of a URL (`redis://host:port/db`, `rediss://` with the feature `tls`), of a host and port, or of a
    /// `redis::ConnectionInfo`, over a [`LazyConnection`].
    ///
    /// # Errors
    /// That is no server's address, or one that needs the feature `tls`.
    pub fn open(server: impl IntoConnectionInfo) -> Result<RedisStore, Error> {
        RedisStore::from_client(&Client::open(server).map_err(Error::of_address)?)
    }

    /// The server of a client, over a [`LazyConnection`].
    ///
    /// # Errors
    /// As of [`RedisStore::open`].
    pub fn from_client(client: &Client) -> Result<RedisStore, Error> {
        let connection = LazyConnection::new(client).map_err(Error::of_address)?;
        Ok(RedisStore::from_connection(connection))
    }

    /// The same server with another limit for connecting (2 s). To be called before the store is cloned and used.
    ///
    /// # Errors
    /// A limit of zero.
    pub fn with_connect_timeout(self, timeout: Duration) -> Result<RedisStore, Error> {
        let (_, response) = self.connection.timeouts();
        self.with_timeouts(timeout, response)
    }

    /// The same server with another limit for an answer (6 s). To be called before the store is cloned and used. A command
    /// that takes longer may have run.
    ///
    /// # Errors
    /// A limit of zero.
    pub fn with_response_timeout(self, timeout: Duration) -> Result<RedisStore, Error> {
        let (connect, _) = self.connection.timeouts();
        self.with_timeouts(connect, timeout)
    }

    fn with_timeouts(self, connect: Duration, response: Duration) -> Result<RedisStore, Error> {
        if connect.is_zero() || response.is_zero() {
            return Err(Error::invalid(
                "a time-out of zero is over before anything is sent",
            ));
        }
        let connection = LazyConnection::with_timeouts(self.connection.client(), connect, response)?;
        Ok(RedisStore::from_connection(connection))
    }
}

impl<C> RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    /// A server over a connection of the caller's, which is cloned for each call: multiplexed, managed, cluster. Its
    /// time-outs and how it reconnects stay its own.
    pub fn from_connection(connection: C) -> RedisStore<C> {
        RedisStore { connection }
    }

    /// `IDEM key INSPECT`: what is known of the key's live record; `None` when there is none.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub async fn inspect(&self, key: &[u8]) -> Result<Option<Inspection>, Error> {
        self.connection.clone().idempotency_inspect(key).await
    }
}

impl<C> Store for RedisStore<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    async fn begin(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        ttl: Duration,
    ) -> Result<Begin, Error> {
        self.connection
            .clone()
            .idempotency_begin(key, fingerprint, owner, ttl)
            .await
    }

    async fn complete(
        &self,
        key: &[u8],
        fingerprint: &[u8],
        owner: &[u8],
        result: &[u8],
    ) -> Result<bool, Error> {
        self.connection
            .clone()
            .idempotency_complete(key, fingerprint, owner, result)
            .await
    }

    async fn abort(&self, key: &[u8], fingerprint: &[u8], owner: &[u8]) -> Result<bool, Error> {
        self.connection
            .clone()
            .idempotency_abort(key, fingerprint, owner)
            .await
    }
}
