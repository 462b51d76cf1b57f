//! Running something once, from Rust: the commands of idemd as typed methods on the `redis` crate's connections, and an
//! executor that uses them.
//!
//! ```
//! use idem_client::{IdempotentExecutor, MemoryStore, Outcome};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In a test; in a service: RedisStore::open("redis://127.0.0.1:6379")?
//! let store = MemoryStore::new();
//! let once = IdempotentExecutor::builder(store, "billing:charge:").build()?;
//!
//! let charge = || async { Ok::<_, std::io::Error>("receipt 42".to_owned()) };
//! let first = once.execute_once("order-17", "sha256:9f86d081", None, charge).await?;
//! assert_eq!(first, Outcome::Executed { value: "receipt 42".to_owned(), stored: true });
//!
//! // The same message again, here or in another process: no work, the same value.
//! let again = once.execute_once("order-17", "sha256:9f86d081", None, charge).await?;
//! assert_eq!(again, Outcome::Replayed { value: "receipt 42".to_owned() });
//! # Ok(()) }
//! ```
//!
//! # Vocabulary
//! * *key*: names the operation. *fingerprint*: what exactly is asked for; the same key with another one is a conflict.
//!   *owner*: names the attempt, never the worker. *retention*: how long the record lives, counted from BEGIN.
//! * *store*: what keeps the records: a server ([`RedisStore`]), or [`MemoryStore`] in a test.
//!
//! # What is where
//! * [`AsyncIdempotencyCommands`], [`IdempotencyCommands`], [`IdempotencyPipeline`]: one method for each command.
//! * [`IdempotentExecutor`]: run once, keep the result, give it to whoever asks again.
//! * [`Error`]: whether a command may have run, and whether trying again is worth it.
//!
//! # Invariants
//! * A command is sent once. One whose answer was lost is an error that says that it may have run.
//! * Arguments are checked before anything is sent.
//! * Keys, values and tokens are in no log line, no metric and no text of an error.
//!
//! # Deliberately absent
//! A protocol or a pool of its own; a retry of a command whose answer was lost; anything that deletes; a lease that is
//! renewed.
//!
//! # Features
//! `cluster`, `sentinel`, `connection-manager` and `tls` pass on to the `redis` crate. With `tls` the application installs
//! the cryptography of rustls; a `rediss://` URL without one is an error of each call.
#![forbid(unsafe_code)]

mod bounds;
mod codec;
mod commands;
mod error;
mod executor;
mod lazy;
mod memory;
mod outcome;
mod owner;
mod redis_store;
mod store;

/// The crate whose connections these are, so that an application can name the same version.
pub use redis;

pub use bounds::{KEY_BYTES, RESULT_BYTES, RETENTION_MAX, TOKEN_BYTES};
pub use codec::{Codec, CodecError, Json};
pub use commands::{AsyncIdempotencyCommands, IdempotencyCommands, IdempotencyPipeline, Limit, LimitMode};
pub use error::{Error, ErrorKind};
pub use executor::{ExecuteError, ExecutorBuilder, Fingerprint, IdempotentExecutor, Outcome};
pub use lazy::LazyConnection;
pub use memory::MemoryStore;
pub use outcome::{Begin, Inspection, State};
pub use owner::OwnerToken;
pub use redis_store::RedisStore;
pub use store::Store;
