//! `idemd`, the server: configuration, sockets, the core loop and the threads around it.
//!
//! # Vocabulary
//!
//! * **shard**: one thread with one keyspace, one log, one port ([`core::Shard`]).
//! * **session**: one connection's state as commands see it; its socket and buffers are in [`conn`].
//! * **core**: everything of a shard that changes, borrowed for a moment by one task at a time.
//! * **barrier**: the lsn up to which everything is as safe as `appendfsync` promises; replies wait for it.
//! * **peer**: what the core knows of a connection.
//!
//! # Invariants
//!
//! 1. A reply leaves only when the barrier has passed what it reveals ([`replies`], [`conn`]).
//! 2. Waiting and changing never mix: the core is never borrowed across an await.
//! 3. No client waits for another client, and none makes the server hold more memory ([`peers`]) or
//!    more descriptors ([`places`]) than its limits say.
//! 4. A failed sync ends the process at once ([`exit::end_at_once`]).
//! 5. Nothing on disk is touched before the configuration is known to be good and the port is ours ([`startup`]).
//!
//! # Deliberately absent
//!
//! What commands mean (the engine's), bytes on disk and on the wire (the protocol's), recovery (the wal's); globals and
//! locks (a second shard in the process is a second thread); reading the environment (flags and one file are all).

#![forbid(unsafe_code)]

pub mod clock;
pub mod config;
pub mod conn;
pub mod core;
mod descriptors;
pub mod exit;
pub mod facts;
pub mod inbox;
pub mod input;
pub mod listener;
pub mod logging;
pub mod peer;
pub mod peers;
pub mod places;
pub mod postman;
pub mod procfs;
pub mod replies;
pub mod shutdown;
pub mod snapshotter;
pub mod socket;
pub mod startup;
pub mod stopwatch;
pub mod turn;
