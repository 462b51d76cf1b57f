//! On blocking connections.

use std::time::Duration;

use redis::{Cmd, ConnectionLike, FromRedisValue};

use super::reply::Flag;
use super::{Limit, LimitMode};
use crate::error::Error;
use crate::outcome::{Begin, Inspection};

/// The commands of idemd, on every blocking connection of the `redis` crate. As
/// [`AsyncIdempotencyCommands`](super::AsyncIdempotencyCommands) in everything else: there is what each method does.
///
/// **Drop the connection after an error that is not the server's answer** (`Connection`, `Timeout`, `Protocol`). One that
/// failed while it wrote has sent half a command, and the next command's bytes become the rest of it: of a COMPLETE, the
/// tail of a result that nobody sent. Pools do so when they are told that the connection is broken.
///
/// # Errors
/// Of each method: an argument outside of its bounds, of which nothing is sent; what the server answered; what became of
/// the connection. [`Error`] tells them apart.
///
/// ```no_run
/// use std::time::Duration;
/// use idem_client::IdempotencyCommands;
///
/// # fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let mut connection = redis::Client::open("redis://127.0.0.1:6379")?.get_connection()?;
/// if connection.once("welcome:ada", Duration::from_secs(3600))? {
///     println!("the first one within the hour");
/// }
/// # Ok(()) }
/// ```
pub trait IdempotencyCommands: ConnectionLike {
    /// `IDEM key BEGIN fingerprint owner ttl`.
    fn idempotency_begin(
        &mut self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Begin, Error> {
        let cmd = super::begin(key.as_ref(), fingerprint.as_ref(), owner.as_ref(), ttl)?;
        call(self, &cmd)
    }

    /// `IDEM key COMPLETE fingerprint owner result`.
    fn idempotency_complete(
        &mut self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        result: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        let cmd = super::complete(
            key.as_ref(),
            fingerprint.as_ref(),
            owner.as_ref(),
            result.as_ref(),
        )?;
        flag(self, &cmd)
    }

    /// `IDEM key ABORT fingerprint owner`.
    fn idempotency_abort(
        &mut self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        let cmd = super::abort(key.as_ref(), fingerprint.as_ref(), owner.as_ref())?;
        flag(self, &cmd)
    }

    /// `IDEM key INSPECT`.
    fn idempotency_inspect(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Inspection>, Error> {
        call(self, &super::inspect(key.as_ref())?)
    }

    /// `ONCE key ttl`.
    fn once(&mut self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool, Error> {
        flag(self, &super::once(key.as_ref(), ttl)?)
    }

    /// `LIMIT key max window …`.
    fn limit(
        &mut self,
        key: impl AsRef<[u8]>,
        max: u32,
        window: Duration,
        mode: LimitMode,
    ) -> Result<Limit, Error> {
        call(self, &super::limit(key.as_ref(), max, window, mode)?)
    }
}

impl<C: ConnectionLike + ?Sized> IdempotencyCommands for C {}

fn call<C: ConnectionLike + ?Sized, T: FromRedisValue>(connection: &mut C, cmd: &Cmd) -> Result<T, Error> {
    super::read(connection.req_command(cmd))
}

fn flag<C: ConnectionLike + ?Sized>(connection: &mut C, cmd: &Cmd) -> Result<bool, Error> {
    call(connection, cmd).map(|Flag(is_one)| is_one)
}
