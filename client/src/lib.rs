//! Running something once, from Rust: the commands of [idemd](https://docs.rs/idem-client) as typed methods on the `redis`
//! crate's connections, and an executor that uses them.
//!
//! # Vocabulary
//! * *key*: names the operation. *fingerprint*: what exactly is asked for; the same key with another one is a conflict.
//!   *owner*: names the attempt, never the worker. *retention*: how long the record lives, counted from BEGIN.
//! * *store*: what keeps the records: a server, or [`MemoryStore`] in a test.
//!
//! # Deliberately absent
//! A protocol, a connection or a pool of its own; a retry of a command whose answer was lost; anything that deletes.

mod error;
mod outcome;
mod store;

pub use error::{Error, ErrorKind};
pub use outcome::{Begin, Inspection, State};
pub use store::Store;
