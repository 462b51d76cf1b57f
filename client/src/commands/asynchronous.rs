//! On asynchronous connections.

use std::future::Future;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, FromRedisValue};

use super::reply::Flag;
use super::{Limit, LimitMode};
use crate::error::Error;
use crate::outcome::{Begin, Inspection};

/// The commands of idemd, on every asynchronous connection of the `redis` crate.
///
/// Keys, fingerprints, owners and results are bytes; anything that is `AsRef<[u8]>` will do. A command is sent once: when
/// its answer is lost, [`Error::may_have_run`] says so and nobody repeats it.
///
/// A future that is dropped gives up the answer, and not the command: it may have been sent.
///
/// # Errors
/// Of each method: an argument outside of its bounds, of which nothing is sent; what the server answered; what became of
/// the connection. [`Error`] tells them apart.
///
/// ```no_run
/// use std::time::Duration;
/// use idem_client::{AsyncIdempotencyCommands, Begin, OwnerToken};
///
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let client = redis::Client::open("redis://127.0.0.1:6379")?;
/// let mut connection = client.get_multiplexed_async_connection().await?;
/// let owner = OwnerToken::random()?;
/// match connection.idempotency_begin("order:17", "sha256:9f86d081", &owner, Duration::from_secs(86_400)).await? {
///     Begin::Acquired => {
///         let receipt = "receipt 42";
///         let stored = connection.idempotency_complete("order:17", "sha256:9f86d081", &owner, receipt).await?;
///         assert!(stored, "the record ended before the work did");
///     }
///     Begin::Completed(receipt) => println!("done before: {}", String::from_utf8_lossy(&receipt)),
///     Begin::Pending => println!("somebody is at it, or died at it"),
///     Begin::Conflict => println!("the key was used for another order"),
/// }
/// # Ok(()) }
/// ```
pub trait AsyncIdempotencyCommands: ConnectionLike + Send {
    /// `IDEM key BEGIN fingerprint owner ttl`: fingerprint and owner have 1 to 128 bytes, `ttl` is 1 ms to 7 days in whole
    /// milliseconds.
    fn idempotency_begin(
        &mut self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> impl Future<Output = Result<Begin, Error>> + Send {
        let cmd = super::begin(key.as_ref(), fingerprint.as_ref(), owner.as_ref(), ttl);
        call(self, cmd)
    }

    /// `IDEM key COMPLETE fingerprint owner result`: a result has at most 4 MiB. True when it is stored now; false when
    /// the record is gone, another's, or holds another result.
    fn idempotency_complete(
        &mut self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        result: impl AsRef<[u8]>,
    ) -> impl Future<Output = Result<bool, Error>> + Send {
        let cmd = super::complete(
            key.as_ref(),
            fingerprint.as_ref(),
            owner.as_ref(),
            result.as_ref(),
        );
        flag(self, cmd)
    }

    /// `IDEM key ABORT fingerprint owner`. True when the pending record was this owner's and is gone now. For work of which
    /// it is certain that it had no effect; never after a COMPLETE whose answer was lost.
    fn idempotency_abort(
        &mut self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
    ) -> impl Future<Output = Result<bool, Error>> + Send {
        let cmd = super::abort(key.as_ref(), fingerprint.as_ref(), owner.as_ref());
        flag(self, cmd)
    }

    /// `IDEM key INSPECT`: what is known of the key's live record, without its result; `None` when there is none.
    fn idempotency_inspect(
        &mut self,
        key: impl AsRef<[u8]>,
    ) -> impl Future<Output = Result<Option<Inspection>, Error>> + Send {
        let cmd = super::inspect(key.as_ref());
        call(self, cmd)
    }

    /// `ONCE key ttl`: true for the first caller, false for every other until `ttl` (1 ms to 7 days) after the first.
    fn once(
        &mut self,
        key: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> impl Future<Output = Result<bool, Error>> + Send {
        let cmd = super::once(key.as_ref(), ttl);
        flag(self, cmd)
    }

    /// `LIMIT key max window …`: counts a call, when it fits. `max` is 1 to 2147483647 (a bucket: 1000000), `window` 1 to
    /// 4294967295 whole milliseconds.
    fn limit(
        &mut self,
        key: impl AsRef<[u8]>,
        max: u32,
        window: Duration,
        mode: LimitMode,
    ) -> impl Future<Output = Result<Limit, Error>> + Send {
        let cmd = super::limit(key.as_ref(), max, window, mode);
        call(self, cmd)
    }
}

impl<C: ConnectionLike + Send + ?Sized> AsyncIdempotencyCommands for C {}

async fn call<C, T>(connection: &mut C, cmd: Result<Cmd, Error>) -> Result<T, Error>
where
    C: ConnectionLike + Send + ?Sized,
    T: FromRedisValue,
{
    let value = connection.req_packed_command(&cmd?).await;
    super::read(value)
}

async fn flag<C>(connection: &mut C, cmd: Result<Cmd, Error>) -> Result<bool, Error>
where
    C: ConnectionLike + Send + ?Sized,
{
    call(connection, cmd).await.map(|Flag(is_one)| is_one)
}
