//! Configuring an executor.

use std::sync::Arc;
use std::time::Duration;

use super::{IdempotentExecutor, Settings, checked_prefix};
use crate::bounds;
use crate::codec::{Codec, Json};
use crate::error::Error;
use crate::store::Store;

/// One day.
const DEFAULT_RETENTION: Duration = Duration::from_secs(86_400);

/// What an executor is made of. [`build`](ExecutorBuilder::build) checks it and connects to nothing.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct ExecutorBuilder<S, C = Json> {
    store: S,
    codec: C,
    key_prefix: Vec<u8>,
    retention: Duration,
    abort_on_error: bool,
}

impl<S: Store> ExecutorBuilder<S> {
    pub(super) fn new(store: S, key_prefix: Vec<u8>) -> ExecutorBuilder<S> {
        ExecutorBuilder {
            store,
            codec: Json,
            key_prefix,
            retention: DEFAULT_RETENTION,
            abort_on_error: false,
        }
    }
}

impl<S: Store, C: Codec> ExecutorBuilder<S, C> {
    /// How long outcomes are kept when a call does not say: 1 ms to 7 days in whole milliseconds; one day if nothing is
    /// said here either. It is also how long a run that failed or died blocks its key.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Whether a run that fails gives its key back, so that the next attempt runs at once: when `work` returns an error,
    /// panics, or is dropped while it runs. Off by default, and only right when work that failed has had no effect: an error
    /// can come after the card was charged.
    pub fn abort_on_error(mut self, abort_on_error: bool) -> Self {
        self.abort_on_error = abort_on_error;
        self
    }

    /// How values are stored; JSON if nothing is said.
    pub fn codec<D: Codec>(self, codec: D) -> ExecutorBuilder<S, D> {
        ExecutorBuilder {
            store: self.store,
            codec,
            key_prefix: self.key_prefix,
            retention: self.retention,
            abort_on_error: self.abort_on_error,
        }
    }

    /// The executor.
    ///
    /// # Errors
    /// An empty key prefix, or a retention outside of its bounds.
    pub fn build(self) -> Result<IdempotentExecutor<S, C>, Error> {
        checked_prefix(&self.key_prefix)?;
        bounds::ttl_ms(self.retention)?;
        Ok(IdempotentExecutor {
            settings: Arc::new(Settings {
                store: self.store,
                codec: self.codec,
                key_prefix: self.key_prefix,
                retention: self.retention,
                abort_on_error: self.abort_on_error,
                warnings: Arc::default(),
            }),
        })
    }
}
