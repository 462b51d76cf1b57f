//! The commands as typed methods on the connections of the `redis` crate.
//!
//! | trait | on |
//! |---|---|
//! | [`AsyncIdempotencyCommands`] | everything that is a `redis::aio::ConnectionLike`: multiplexed, managed, cluster |
//! | [`IdempotencyCommands`] | everything that is a `redis::ConnectionLike`: blocking, pooled, cluster |
//! | [`IdempotencyPipeline`] | `redis::Pipeline`, also as a transaction; answers come out typed ([`Begin`], `bool`, `Option<`[`Inspection`]`>`, [`Limit`]) |
//!
//! A method sends one command and never repeats it. Arguments are bytes; they are checked before anything is sent.
//!
//! Time-outs, pools and reconnecting stay those of the connection. Two things to know of the crate's:
//! * **A cluster connection repeats commands by itself** after a lost connection. Build it with `retries(0)`. Otherwise a
//!   repeated BEGIN finds its own record (`pending`), a repeated ONCE answers `false` to the first caller, a repeated LIMIT
//!   counts twice, and an error speaks of the last attempt only, so that [`Error::may_have_run`] can be wrong.
//! * **A blocking connection that failed while it wrote** (a write time-out) has sent half a command; what is sent next
//!   becomes the rest of it. Drop a blocking connection after any error that is not the server's answer.
//!
//! The pipelines of a *blocking* cluster connection are left out: after a failure they leave answers unread, and the next
//! command on the connection gets one of those.
//!
//! [`Begin`]: crate::Begin
//! [`Inspection`]: crate::Inspection

mod asynchronous;
mod blocking;
mod pipeline;
mod reply;

use std::time::Duration;

use redis::{Cmd, FromRedisValue, RedisResult, Value};

pub use asynchronous::AsyncIdempotencyCommands;
pub use blocking::IdempotencyCommands;
pub use pipeline::IdempotencyPipeline;

use crate::bounds;
use crate::error::Error;

/// How LIMIT counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitMode {
    /// A window that the first call opens.
    Fixed,
    /// The previous window counts by its overlap.
    Sliding,
    /// A bucket of `max` tokens that refills over the window.
    Tokens {
        /// Tokens that this call takes: 1 to `max`.
        cost: u32,
    },
}

/// The answer of LIMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a call that was refused must not be made"]
pub enum Limit {
    /// The call fits and is counted.
    Allowed {
        /// Calls (of cost 1) that would still fit now.
        left: u32,
    },
    /// The call does not fit; nothing is counted.
    Refused {
        /// The shortest time after which this very call would fit if no other came in between; at least 1 ms.
        retry_after: Duration,
    },
}

impl Limit {
    /// Whether the call fits.
    pub fn is_allowed(self) -> bool {
        matches!(self, Limit::Allowed { .. })
    }
}

/// The answer of one command. What the connection says is told apart from an answer that the command does not have.
fn read<T: FromRedisValue>(answer: RedisResult<Value>) -> Result<T, Error> {
    let value = answer.and_then(Value::extract_error).map_err(Error::of_command)?;
    T::from_redis_value(value).map_err(|_| Error::unexpected_answer())
}

fn idem(key: &[u8], action: &str) -> Cmd {
    let mut cmd = redis::cmd("IDEM");
    cmd.arg(key).arg(action);
    cmd
}

pub(crate) fn begin(key: &[u8], fingerprint: &[u8], owner: &[u8], ttl: Duration) -> Result<Cmd, Error> {
    bounds::key(key)?;
    bounds::token("fingerprint", fingerprint)?;
    bounds::token("owner", owner)?;
    let ttl_ms = bounds::ttl_ms(ttl)?;
    let mut cmd = idem(key, "BEGIN");
    cmd.arg(fingerprint).arg(owner).arg(ttl_ms);
    Ok(cmd)
}

pub(crate) fn complete(key: &[u8], fingerprint: &[u8], owner: &[u8], result: &[u8]) -> Result<Cmd, Error> {
    bounds::key(key)?;
    bounds::token("fingerprint", fingerprint)?;
    bounds::token("owner", owner)?;
    bounds::result(result)?;
    let mut cmd = idem(key, "COMPLETE");
    cmd.arg(fingerprint).arg(owner).arg(result);
    Ok(cmd)
}

pub(crate) fn abort(key: &[u8], fingerprint: &[u8], owner: &[u8]) -> Result<Cmd, Error> {
    bounds::key(key)?;
    bounds::token("fingerprint", fingerprint)?;
    bounds::token("owner", owner)?;
    let mut cmd = idem(key, "ABORT");
    cmd.arg(fingerprint).arg(owner);
    Ok(cmd)
}

pub(crate) fn inspect(key: &[u8]) -> Result<Cmd, Error> {
    bounds::key(key)?;
    Ok(idem(key, "INSPECT"))
}

fn once(key: &[u8], ttl: Duration) -> Result<Cmd, Error> {
    bounds::key(key)?;
    let ttl_ms = bounds::ttl_ms(ttl)?;
    let mut cmd = redis::cmd("ONCE");
    cmd.arg(key).arg(ttl_ms);
    Ok(cmd)
}

/// Always with WITHRETRY: without it a refusal says nothing about how long to wait.
fn limit(key: &[u8], max: u32, window: Duration, mode: LimitMode) -> Result<Cmd, Error> {
    bounds::key(key)?;
    let window_ms = bounds::limit(max, window, mode)?;
    let mut cmd = redis::cmd("LIMIT");
    cmd.arg(key).arg(max).arg(window_ms);
    match mode {
        LimitMode::Fixed => {}
        LimitMode::Sliding => {
            cmd.arg("SLIDING");
        }
        LimitMode::Tokens { cost } => {
            cmd.arg("TOKENS").arg("COST").arg(cost);
        }
    }
    cmd.arg("WITHRETRY");
    Ok(cmd)
}
