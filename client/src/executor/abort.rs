//! One attempt, and giving its record back when the work fails, panics or is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use super::count;
use crate::error::{Error, ErrorKind};
use crate::outcome::Begin;
use crate::owner::OwnerToken;
use crate::store::Store;

/// What has been warned of: each once for an executor, or a queue of failing messages would fill the log.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    is_abort_unsupported: AtomicBool,
    has_abort_failed: AtomicBool,
    has_no_runtime: AtomicBool,
}

/// Everything that its commands need, owned: a future that is dropped leaves nothing to borrow from.
#[derive(Clone)]
pub(super) struct Attempt<S> {
    pub(super) store: S,
    pub(super) key: Vec<u8>,
    pub(super) fingerprint: Vec<u8>,
    pub(super) owner: OwnerToken,
    pub(super) warnings: Arc<Warnings>,
}

impl<S: Store> Attempt<S> {
    pub(super) async fn begin(&self, retention: Duration) -> Result<Begin, Error> {
        let owner = self.owner.as_bytes();
        self.store
            .begin(&self.key, &self.fingerprint, owner, retention)
            .await
    }

    pub(super) async fn complete(&self, result: &[u8]) -> Result<bool, Error> {
        let owner = self.owner.as_bytes();
        self.store
            .complete(&self.key, &self.fingerprint, owner, result)
            .await
    }

    /// From here on ABORT is sent when the guard goes.
    pub(super) fn abort_when_dropped(self) -> Guard<S> {
        Guard {
            attempt: Some(self),
            // A future may be dropped outside of its runtime.
            runtime: Handle::try_current().ok(),
        }
    }

    /// Sends ABORT. What becomes of it changes nothing for the caller: the error of the work is the one that counts.
    async fn abort(self) {
        let owner = self.owner.as_bytes();
        match self.store.abort(&self.key, &self.fingerprint, owner).await {
            Ok(true) => count("aborted"),
            Ok(false) => tracing::debug!("ABORT found the record ended or in other hands"),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                if !self.warnings.is_abort_unsupported.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "the server does not know ABORT: failed work keeps its key until the end of its retention"
                    );
                }
            }
            Err(error) => {
                if self.warnings.has_abort_failed.swap(true, Ordering::Relaxed) {
                    tracing::debug!(%error, "ABORT failed");
                } else {
                    tracing::warn!(
                        %error,
                        "ABORT failed: the key stays taken until the end of its retention; further ones are debug"
                    );
                }
            }
        }
    }
}

/// Holds an attempt while its work runs.
pub(super) struct Guard<S: Store> {
    attempt: Option<Attempt<S>>,
    runtime: Option<Handle>,
}

impl<S: Store> Guard<S> {
    /// The work succeeded: there will be no ABORT.
    pub(super) fn disarm(mut self) -> Attempt<S> {
        self.attempt
            .take()
            .expect("only disarming and aborting take it, and both take the guard")
    }

    /// Sends ABORT and waits for what becomes of it. In a task: it is sent also when the caller is dropped meanwhile.
    pub(super) async fn abort(mut self) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        match &self.runtime {
            // The task fails only when the runtime ends.
            Some(runtime) => drop(runtime.spawn(attempt.abort()).await),
            None => attempt.abort().await,
        }
    }
}

impl<S: Store> Drop for Guard<S> {
    fn drop(&mut self) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        match &self.runtime {
            Some(runtime) => drop(runtime.spawn(attempt.abort())),
            None => {
                if !attempt.warnings.has_no_runtime.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "work was dropped outside of tokio: its key stays taken until its retention ends"
                    );
                }
            }
        }
    }
}
