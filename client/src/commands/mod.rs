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
//! Time-outs, pools and reconnecting stay those of the connection. A **cluster connection of the `redis` crate repeats
//! commands by itself** after a lost connection unless it was built with `retries(0)`. For these commands that does no
//! harm (a repeated BEGIN finds its own record and answers `pending`), but a `pending` can then be one's own.
//!
//! [`Begin`]: crate::Begin
//! [`Inspection`]: crate::Inspection

mod asynchronous;
mod blocking;
mod pipeline;
mod reply;

use std::time::Duration;

use redis::Cmd;

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

fn idem(key: &[u8], action: &str) -> Cmd {
    let mut cmd = redis::cmd("IDEM");
    cmd.arg(key).arg(action);
    cmd
}

pub(crate) fn begin(key: &[u8], fingerprint: &[u8], owner: &[u8], ttl: Duration) -> Result<Cmd, Error> {
    bounds::token("fingerprint", fingerprint)?;
    bounds::token("owner", owner)?;
    let ttl_ms = bounds::ttl_ms(ttl)?;
    let mut cmd = idem(key, "BEGIN");
    cmd.arg(fingerprint).arg(owner).arg(ttl_ms);
    Ok(cmd)
}

pub(crate) fn complete(key: &[u8], fingerprint: &[u8], owner: &[u8], result: &[u8]) -> Result<Cmd, Error> {
    bounds::token("fingerprint", fingerprint)?;
    bounds::token("owner", owner)?;
    bounds::result(result)?;
    let mut cmd = idem(key, "COMPLETE");
    cmd.arg(fingerprint).arg(owner).arg(result);
    Ok(cmd)
}

pub(crate) fn abort(key: &[u8], fingerprint: &[u8], owner: &[u8]) -> Result<Cmd, Error> {
    bounds::token("fingerprint", fingerprint)?;
    bounds::token("owner", owner)?;
    let mut cmd = idem(key, "ABORT");
    cmd.arg(fingerprint).arg(owner);
    Ok(cmd)
}

pub(crate) fn inspect(key: &[u8]) -> Cmd {
    idem(key, "INSPECT")
}

fn once(key: &[u8], ttl: Duration) -> Result<Cmd, Error> {
    let ttl_ms = bounds::ttl_ms(ttl)?;
    let mut cmd = redis::cmd("ONCE");
    cmd.arg(key).arg(ttl_ms);
    Ok(cmd)
}

/// Always with WITHRETRY: without it a refusal says nothing about how long to wait.
fn limit(key: &[u8], max: u32, window: Duration, mode: LimitMode) -> Result<Cmd, Error> {
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
