//! A connection that comes to be when it is used, and again when it was lost.
//!
//! Why it exists beside the `redis` crate's `ConnectionManager`: a caller who sends a BEGIN wants to know whether it was
//! sent, and wants an answer now. So
//! * a failure to connect is told apart from a failure after sending ([`Error::may_have_run`] is false);
//! * an attempt to connect is made once for all calls that wait for it, and its failure fails them: no backoff, no queue;
//! * a connection that is known to be lost is never used again, so the first call after the server's return works;
//! * a command is sent once, whatever becomes of it.
//!
//! Each tokio runtime that it is used in has a connection of its own. A connection lives in a task of one runtime: shared
//! with another, it would stand still when its runtime is idle, and end with it in the middle of the other's calls.
//!
//! It speaks RESP3 whatever the URL says: only there the `redis` crate reports that a connection is lost while nobody
//! waits for an answer.
//!
//! [`Error::may_have_run`]: crate::Error::may_have_run

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, ProtocolVersion, PushInfo, PushKind, RedisError,
    RedisFuture, RedisResult, ServerErrorKind, Value,
};
use tokio::runtime::{self, Handle, RuntimeFlavor};
use tokio::task;

use crate::error::NotSent;

/// How long connecting may take, by default.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an answer may take, by default: longer than a server waits for its replicas, so that its own word comes
/// first.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(6);

/// A connection to one server that connects at its first command, and anew at the first command after it was lost.
///
/// Clones share it, and any number of calls may be on their way at once. It needs a runtime of tokio when it is used, and
/// not when it is made; each runtime has its own connection. Messages of Pub/Sub are not for it.
#[derive(Clone)]
pub struct LazyConnection {
    shared: Arc<Settings>,
}

struct Settings {
    client: Client,
    connect_timeout: Duration,
    response_timeout: Duration,
    /// One for each runtime that has one: those that are lost go when the next is made.
    links: Mutex<Vec<(runtime::Id, Link)>>,
}

/// Lives as long as the task that reads from a connection does, whose end is the connection's: also when the runtime that
/// it ran in has ended.
struct Alive(Arc<AtomicBool>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// One connection, there or on its way.
#[derive(Clone)]
struct Link {
    attempt: Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>>,
    /// Set once and for ever: by the connection's own report, or by a command that failed on it.
    is_lost: Arc<AtomicBool>,
}

impl fmt::Debug for LazyConnection {
    /// Without the client: its URL may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyConnection")
            .field("connect_timeout", &self.shared.connect_timeout)
            .field("response_timeout", &self.shared.response_timeout)
            .finish_non_exhaustive()
    }
}

impl LazyConnection {
    /// A connection to the client's server, with 2 s for connecting and 6 s for an answer. Nothing connects here.
    ///
    /// # Errors
    /// A client's configuration that leads to no server.
    pub fn new(client: &Client) -> RedisResult<LazyConnection> {
        LazyConnection::with_timeouts(client, CONNECT_TIMEOUT, RESPONSE_TIMEOUT)
    }

    /// With time-outs of the caller's. One for answers that is shorter than the server's slowest sync gives up on
    /// commands that are carried out.
    ///
    /// # Errors
    /// A time-out of zero, or a client's configuration that leads to no server.
    pub fn with_timeouts(
        client: &Client,
        connect_timeout: Duration,
        response_timeout: Duration,
    ) -> RedisResult<LazyConnection> {
        if connect_timeout.is_zero() || response_timeout.is_zero() {
            let error = "a time-out of zero is over before anything is sent";
            return Err((ErrorKind::InvalidClientConfig, error).into());
        }
        let info = client.get_connection_info().clone();
        let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        Ok(LazyConnection {
            shared: Arc::new(Settings {
                client: Client::open(info.set_redis_settings(redis))?,
                connect_timeout,
                response_timeout,
                links: Mutex::default(),
            }),
        })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.shared.client
    }

    pub(crate) fn timeouts(&self) -> (Duration, Duration) {
        (self.shared.connect_timeout, self.shared.response_timeout)
    }

    /// The link that a new command goes over: the runtime's own, unless it is lost.
    fn link(&self) -> Link {
        let here = Handle::current().id();
        let mut links = self.shared.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, link)) = links.iter().find(|(id, link)| *id == here && !link.is_lost()) {
            return link.clone();
        }
        // Also those of runtimes that have ended: their tasks said so when they were dropped.
        links.retain(|(_, link)| !link.is_lost());
        let link = self.shared.connect();
        links.push((here, link.clone()));
        link
    }

    async fn connected(&self) -> RedisResult<(MultiplexedConnection, Link)> {
        // The task that reads from the connection gets its turn first: it may have to say that the connection is lost.
        if task::try_id().is_none() && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
            // A future of `block_on` runs on a thread that is none of the runtime's: its own turns say nothing about theirs.
            // The task fails only when the runtime ends.
            drop(tokio::spawn(others_turn()).await);
        } else {
            others_turn().await;
        }
        let link = self.link();
        match link.attempt.clone().await {
            Ok(connection) => Ok((connection, link)),
            Err(error) => {
                link.lose();
                Err(NotSent::wrap(error))
            }
        }
    }
}

/// Once for the runtime to look at its sockets, once for the task: a future of `block_on` goes before tasks.
async fn others_turn() {
    for _ in 0..2 {
        task::yield_now().await;
    }
}

impl Settings {
    /// Begins to connect, in a task: an attempt goes on when the call that began it is given up, and others wait for it.
    fn connect(&self) -> Link {
        let is_lost = Arc::new(AtomicBool::new(false));
        let alive = Alive(Arc::clone(&is_lost));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.response_timeout))
            .set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    alive.0.store(true, Ordering::Release);
                }
                Ok::<(), redis::aio::SendError>(())
            });
        let client = self.client.clone();
        let task =
            tokio::spawn(async move { client.get_multiplexed_async_connection_with_config(&config).await });
        let attempt = task.map(|joined| match joined {
            Ok(connected) => connected,
            // It will panic every time. The one known cause: TLS without a cryptography that rustls could choose.
            Err(joined) if joined.is_panic() => Err((
                ErrorKind::InvalidClientConfig,
                "connecting panicked; with TLS, install one cryptography for rustls (CryptoProvider::install_default)",
            )
                .into()),
            // The runtime that it was begun in has ended.
            Err(_) => Err(io::Error::from(io::ErrorKind::NotConnected).into()),
        });
        Link {
            attempt: attempt.boxed().shared(),
            is_lost,
        }
    }
}

impl Link {
    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    /// Looks at what became of a command. After a time-out the connection is given up, too: an end that nobody announces
    /// looks like that, and would for a quarter of an hour.
    fn judge<T>(&self, result: &RedisResult<T>) {
        if result.as_ref().err().is_some_and(is_of_the_connection) {
            self.lose();
        }
    }
}

fn is_of_the_connection(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_unrecoverable_error()
        // A deposed primary: the name may lead to another by now.
        || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}

impl ConnectionLike for LazyConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        async move {
            let (mut connection, link) = self.connected().await?;
            let result = connection.req_packed_command(cmd).await;
            // An error that the server answered is a value here.
            match &result {
                Ok(Value::ServerError(error)) => link.judge(&Err::<(), _>(error.clone().into())),
                _ => link.judge(&result),
            }
            result
        }
        .boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        async move {
            let (mut connection, link) = self.connected().await?;
            let result = connection.req_packed_commands(pipeline, offset, count).await;
            link.judge(&result);
            result
        }
        .boxed()
    }

    fn get_db(&self) -> i64 {
        self.shared.client.get_connection_info().redis_settings().db()
    }
}
