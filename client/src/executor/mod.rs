//! Running work once, and keeping what it returned.
//!
//! ```text
//!             ┌─ completed ──────────────────────────────────────────────▶ Replayed
//! BEGIN ──────┼─ pending ────────────────────────────────────────────────▶ Pending
//!             ├─ conflict ───────────────────────────────────────────────▶ Conflict
//!             ├─ error ──────────────────────────────────────────────────▶ ExecuteError::Begin, no work
//!             └─ acquired ─▶ work ─┬─ value ─▶ COMPLETE ─┬─ 1 or 0 ──────▶ Executed { stored }
//!                                  │                     └─ error ───────▶ ExecuteError::Complete with the value
//!                                  └─ error, panic, dropped ─▶ (ABORT) ──▶ ExecuteError::Work
//! ```
//!
//! Invariants
//! * One command for a repeat, two for a run, three for a failed run with `abort_on_error`; never more, and none twice.
//! * The work runs only after `acquired` was read. Every other answer, and no answer, means that it does not run.
//! * After a COMPLETE was begun there is no ABORT any more: the result may be stored.
//! * The owner's token is new for each call.

mod abort;
mod builder;
mod error;
mod fingerprint;

use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument;

pub use builder::ExecutorBuilder;
pub use error::ExecuteError;
pub use fingerprint::Fingerprint;

use crate::bounds;
use crate::codec::{Codec, CodecError, Json};
use crate::error::Error;
use crate::outcome::Begin;
use crate::owner::OwnerToken;
use crate::store::Store;
use abort::{Attempt, Warnings};

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "Pending and Conflict mean that nothing was run"]
pub enum Outcome<T> {
    /// The work ran now.
    Executed {
        /// What it returned.
        value: T,
        /// Whether a repeat will get it. False: the record had ended or was lost before COMPLETE, so that the work may be
        /// run again.
        stored: bool,
    },
    /// It ran before; what it returned then.
    Replayed {
        /// The stored value.
        value: T,
    },
    /// Another call runs it, or a run failed and its record has not ended.
    Pending,
    /// The key was used with another fingerprint.
    Conflict,
}

/// Runs work once for each key. Cheap to clone.
///
/// Counts `idem_outcomes_total{outcome}` through the `metrics` crate: `executed`, `replayed`, `pending`, `conflict`,
/// `aborted`. Its span (`idem_execute_once`, level debug) has the outcome and nothing else.
#[derive(Clone, Debug)]
pub struct IdempotentExecutor<S, C = Json> {
    settings: Arc<Settings<S, C>>,
}

#[derive(Debug)]
struct Settings<S, C> {
    store: S,
    codec: C,
    key_prefix: Vec<u8>,
    retention: Duration,
    abort_on_error: bool,
    warnings: Arc<Warnings>,
}

impl<S: Store> IdempotentExecutor<S> {
    /// Begins to configure one. `key_prefix` stands before each key and may not be empty: it keeps the operations of one
    /// executor apart from everything else on the server. No prefix may be the beginning of another one's: `order:` with
    /// the key `line:5` and `order:line:` with the key `5` are one key.
    pub fn builder(store: S, key_prefix: impl Into<Vec<u8>>) -> ExecutorBuilder<S> {
        ExecutorBuilder::new(store, key_prefix.into())
    }
}

impl<S: Store, C: Codec> IdempotentExecutor<S, C> {
    /// Runs `work` unless it was run before, and keeps what it returns.
    ///
    /// * `key` names the operation; the executor's prefix is put before it. It is not empty, and both together have at most
    ///   16 MiB.
    /// * `fingerprint` says what exactly is asked for: bytes, a string, or `None` when the key alone identifies the work.
    ///   Empty or over 128 bytes is an error before anything is sent: pass a digest then.
    /// * `retention`: how long the outcome is kept, and how long a failed run blocks its key; 1 ms to 7 days in whole
    ///   milliseconds, `None` for the executor's.
    ///
    /// A future that is dropped stops the work wherever it was; see [`ExecutorBuilder::abort_on_error`]. One that is dropped
    /// while it waits for BEGIN may have taken the key, like a BEGIN whose answer is lost. A panic of the work goes through.
    ///
    /// # Errors
    /// [`ExecuteError`] says which step failed, and so whether the work was done. It is a `std::error::Error` when `E` is
    /// one; `anyhow::Error` and `Box<dyn Error>` are none, so match on it, or let the work return an error type.
    pub async fn execute_once<T, E, W, F>(
        &self,
        key: impl AsRef<[u8]>,
        fingerprint: impl Into<Fingerprint<'_>>,
        retention: impl Into<Option<Duration>>,
        work: W,
    ) -> Result<Outcome<T>, ExecuteError<T, E>>
    where
        T: Serialize + DeserializeOwned,
        W: FnOnce() -> F,
        F: Future<Output = Result<T, E>>,
    {
        let settings = &*self.settings;
        let fingerprint = fingerprint.into();
        let retention = retention.into().unwrap_or(settings.retention);
        // A store is not asked to check what can be known here: an error of BEGIN then always is one of the store.
        let key = key.as_ref();
        checked_key(&settings.key_prefix, key)
            .and_then(|()| bounds::token("fingerprint", fingerprint.as_bytes()))
            .and_then(|()| bounds::ttl_ms(retention))
            .map_err(ExecuteError::Refused)?;
        let owner = OwnerToken::random().map_err(ExecuteError::Refused)?;
        let attempt = Attempt {
            store: settings.store.clone(),
            key: [settings.key_prefix.as_slice(), key].concat(),
            fingerprint: fingerprint.as_bytes().to_vec(),
            owner,
            warnings: Arc::clone(&settings.warnings),
        };
        let span = tracing::debug_span!("idem_execute_once", outcome = tracing::field::Empty);
        let outcome = self
            .run(attempt, retention, work)
            .instrument(span.clone())
            .await?;
        let name = match &outcome {
            Outcome::Executed { .. } => "executed",
            Outcome::Replayed { .. } => "replayed",
            Outcome::Pending => "pending",
            Outcome::Conflict => "conflict",
        };
        count(name);
        span.record("outcome", name);
        Ok(outcome)
    }

    async fn run<T, E, W, F>(
        &self,
        attempt: Attempt<S>,
        retention: Duration,
        work: W,
    ) -> Result<Outcome<T>, ExecuteError<T, E>>
    where
        T: Serialize + DeserializeOwned,
        W: FnOnce() -> F,
        F: Future<Output = Result<T, E>>,
    {
        match attempt.begin(retention).await.map_err(ExecuteError::Begin)? {
            Begin::Acquired => {}
            Begin::Pending => return Ok(Outcome::Pending),
            Begin::Conflict => return Ok(Outcome::Conflict),
            Begin::Completed(bytes) => {
                let value = self.settings.codec.decode(&bytes);
                return Ok(Outcome::Replayed {
                    value: value.map_err(|error| ExecuteError::Undecodable { error })?,
                });
            }
        }
        let (attempt, value) = self.worked(attempt, work).await.map_err(ExecuteError::Work)?;
        let result = match self.settings.codec.encode(&value) {
            Ok(result) => result,
            Err(error) => return Err(ExecuteError::Unstorable { value, error }),
        };
        // What cannot be read again would be stored for its whole retention, and no repeat could be answered.
        let readable = bounds::result(&result)
            .map_err(CodecError::from)
            .and_then(|()| self.settings.codec.decode::<T>(&result).map(drop));
        if let Err(error) = readable {
            return Err(ExecuteError::Unstorable { value, error });
        }
        match attempt.complete(&result).await {
            Ok(stored) => Ok(Outcome::Executed { value, stored }),
            Err(error) => Err(ExecuteError::Complete { value, error }),
        }
    }

    /// Runs the work of an attempt that has acquired its record, and gives the record back when it fails and that is asked
    /// for.
    async fn worked<T, E, W, F>(&self, attempt: Attempt<S>, work: W) -> Result<(Attempt<S>, T), E>
    where
        W: FnOnce() -> F,
        F: Future<Output = Result<T, E>>,
    {
        if !self.settings.abort_on_error {
            return Ok((attempt, work().await?));
        }
        let guard = attempt.abort_when_dropped();
        // The work's future ends before the guard: what was given up does nothing any more when ABORT is sent.
        let ended = AssertUnwindSafe(async { work().await }).catch_unwind().await;
        match ended {
            Ok(Ok(value)) => Ok((guard.disarm(), value)),
            Ok(Err(error)) => {
                guard.abort().await;
                Err(error)
            }
            Err(panic) => {
                guard.abort().await;
                resume_unwind(panic)
            }
        }
    }
}

/// Counts one outcome.
fn count(outcome: &'static str) {
    metrics::counter!("idem_outcomes_total", "outcome" => outcome).increment(1);
}

/// What a call refuses: no key at all, as easily forgotten as a prefix, would make one operation of all of them.
fn checked_key(prefix: &[u8], key: &[u8]) -> Result<(), Error> {
    if key.is_empty() {
        return Err(Error::invalid(
            "an empty key names no operation: every call with it would be the same one",
        ));
    }
    bounds::key_length(prefix.len().saturating_add(key.len()))
}

/// What an executor refuses to be made of.
fn checked_prefix(prefix: &[u8]) -> Result<(), Error> {
    if prefix.is_empty() {
        Err(Error::invalid(
            "an executor needs a key prefix: without one its keys are anybody's",
        ))
    } else {
        Ok(())
    }
}
