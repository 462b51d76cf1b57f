//! HTTP requests that run once: a tower layer for routes whose clients send an `Idempotency-Key`.
//!
//! ```
//! # #[cfg(feature = "axum")] mod example {
//! use axum::{Router, routing::{get, post}};
//! use idem_client::Store;
//! use idem_http::{ConfigError, IdempotencyLayer, Principal};
//!
//! fn routes<S: Store>(store: S) -> Result<Router, ConfigError> {
//!     let once = IdempotencyLayer::builder(store)
//!         .namespace("payments-production")
//!         .principal(|request| request.extensions.get::<Principal>().cloned())
//!         .scope(|_| "the only tenant".to_owned())
//!         .build()?;
//!     Ok(Router::new()
//!         .route("/payments", post(async || "paid").route_layer(once))
//!         .route("/health", get(async || "well"))) // untouched
//! }
//! # }
//! ```
//!
//! # Vocabulary
//! * *marked route*: one that the layer was put on. An unmarked route does not know that the layer exists.
//! * *principal*: the authenticated subject. *scope*: the tenant. *namespace*: the deployment. Together with the client's
//!   key they are the *storage key*, as a hash.
//! * *fingerprint*: a hash of everything that says what is asked for. The same key with another one is a conflict.
//! * *attempt*: BEGIN, the handler, COMPLETE. *replay*: the stored answer of an attempt, sent again.
//!
//! # The order of layers
//! ```text
//!   tracing, panic handling
//!     compression of answers, decompression of requests
//!       authentication and authorization          on every request, and so on every replay
//!         ┌ IdempotencyLayer ┐
//!         │     handler      │                    in a task of its own
//!         └──────────────────┘
//! ```
//!
//! # Invariants
//! * The handler runs only for a BEGIN that was answered with `acquired`, and once for it.
//! * Nothing of its answer is sent before COMPLETE was acknowledged.
//! * What failed after BEGIN leaves its record pending. Nothing here deletes one, except for a status that the application
//!   does not want stored.
//! * What has begun goes on without its client. [`IdempotencyLayer::idle`] waits for it at a shutdown.
//!
//! # Deliberately absent
//! Buffering in files, streamed answers, retries, locks that are renewed, and a default for who the caller is.
//!
//! # Features
//! `axum`, on by default: the path that is hashed is the one that the client sent, also behind nested routers of axum's.
//!
//! It needs a tokio runtime with its timer. A build with `panic = "abort"` has no panics to catch.
#![forbid(unsafe_code)]

mod attempt;
mod body;
mod fingerprint;
mod key;
mod layer;
mod observe;
mod operation;
mod policy;
mod problem;
mod service;
mod stored_response;

pub use key::{IDEMPOTENCY_KEY, STORAGE_PREFIX, storage_key};
pub use layer::{Builder, IdempotencyLayer, Missing, Namespace, PrincipalFound, ScopeFound};
pub use operation::OperationKey;
pub use policy::{BODY_BYTES_MAX, ConfigError, FIELD_BYTES_MAX, Principal, Profile, RETENTION_MAX};
pub use service::{IdempotencyService, ResponseFuture};
