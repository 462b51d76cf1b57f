//! In pipelines and transactions.

use std::time::Duration;

use redis::Pipeline;

use super::LimitMode;
use crate::error::Error;

/// The commands of idemd as parts of a `redis::Pipeline`, also of a transaction.
///
/// Answers come out typed, in the order of the commands: [`Begin`](crate::Begin), `bool` for COMPLETE, ABORT and ONCE,
/// `Option<`[`Inspection`](crate::Inspection)`>`, [`Limit`](super::Limit). An argument outside of its bounds is an error
/// here, and the pipeline is what it was before.
///
/// An error of the whole pipeline becomes an [`Error`] with `Error::from`: it then may have run, in part or completely.
/// That goes for a transaction, too, whatever the error says: what `EXEC` answered is not in it.
///
/// ```no_run
/// use std::time::Duration;
/// use idem_client::{Begin, IdempotencyPipeline};
///
/// # fn f(owner: &str) -> Result<(), Box<dyn std::error::Error>> {
/// let mut connection = redis::Client::open("redis://127.0.0.1:6379")?.get_connection()?;
/// // The result and what it is about: both or neither.
/// let mut pipeline = redis::pipe();
/// pipeline.atomic().cmd("SET").arg("order:17").arg("paid").ignore();
/// pipeline.idempotency_complete("pay:17", "fp", owner, "ok")?;
/// let (stored,): (bool,) = pipeline.query(&mut connection)?;
/// # assert!(stored); Ok(()) }
/// ```
pub trait IdempotencyPipeline {
    /// Adds `IDEM key BEGIN fingerprint owner ttl`.
    fn idempotency_begin(
        &mut self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<&mut Self, Error>;

    /// Adds `IDEM key COMPLETE fingerprint owner result`.
    fn idempotency_complete(
        &mut self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        result: impl AsRef<[u8]>,
    ) -> Result<&mut Self, Error>;

    /// Adds `IDEM key ABORT fingerprint owner`.
    fn idempotency_abort(
        &mut self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
    ) -> Result<&mut Self, Error>;

    /// Adds `IDEM key INSPECT`.
    fn idempotency_inspect(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Self, Error>;

    /// Adds `ONCE key ttl`.
    fn once(&mut self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<&mut Self, Error>;

    /// Adds `LIMIT key max window …`.
    fn limit(
        &mut self,
        key: impl AsRef<[u8]>,
        max: u32,
        window: Duration,
        mode: LimitMode,
    ) -> Result<&mut Self, Error>;
}

impl IdempotencyPipeline for Pipeline {
    fn idempotency_begin(
        &mut self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<&mut Self, Error> {
        let cmd = super::begin(key.as_ref(), fingerprint.as_ref(), owner.as_ref(), ttl)?;
        Ok(self.add_command(cmd))
    }

    fn idempotency_complete(
        &mut self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        result: impl AsRef<[u8]>,
    ) -> Result<&mut Self, Error> {
        let cmd = super::complete(
            key.as_ref(),
            fingerprint.as_ref(),
            owner.as_ref(),
            result.as_ref(),
        )?;
        Ok(self.add_command(cmd))
    }

    fn idempotency_abort(
        &mut self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
    ) -> Result<&mut Self, Error> {
        let cmd = super::abort(key.as_ref(), fingerprint.as_ref(), owner.as_ref())?;
        Ok(self.add_command(cmd))
    }

    fn idempotency_inspect(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Self, Error> {
        let cmd = super::inspect(key.as_ref())?;
        Ok(self.add_command(cmd))
    }

    fn once(&mut self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<&mut Self, Error> {
        let cmd = super::once(key.as_ref(), ttl)?;
        Ok(self.add_command(cmd))
    }

    fn limit(
        &mut self,
        key: impl AsRef<[u8]>,
        max: u32,
        window: Duration,
        mode: LimitMode,
    ) -> Result<&mut Self, Error> {
        let cmd = super::limit(key.as_ref(), max, window, mode)?;
        Ok(self.add_command(cmd))
    }
}
