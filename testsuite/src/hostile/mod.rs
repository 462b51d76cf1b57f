//! Clients that want the server's end, and what is measured while they try.
//!
//! # Vocabulary
//!
//! * **attack** — what hostile clients do for about a second ([`attack`]).
//! * **bystander** — a client that behaves well and does the main job, BEGIN to replay, again and again; how long each of
//!   its commands takes is what an attack must not change ([`bystanders`]).
//! * **calm**, **attacked** — the two kinds of windows in which bystanders are measured. They alternate, so that whatever
//!   else this machine does at the time meets both.
//! * **probe** — a look at the process from outside: resident memory and its highest value, open descriptors ([`probe`]).
//!
//! # Invariants
//!
//! * Attackers have a core of their own, away from the server and its bystanders: they stand for other machines, and what
//!   they take by using up this one is not the server's fault. For the same reason the log is in memory.
//! * Sockets of attackers close with a reset, so that ports of the loopback are free again at once.
//! * The verdict on latency is made of medians of windows, with a floor, and is asked for again when it is bad: noise
//!   makes a good server look bad now and then, and never the other way round.
//!
//! # Deliberately absent
//!
//! Randomness: an attack is a loop. Any bytes at all are the business of [`crate::fuzz`].

pub mod attack;
pub mod bystanders;
mod cores;
pub mod probe;
mod scene;

pub use bystanders::{Bystanders, Measured};
pub use probe::{Probe, open_files_allowed};
pub use scene::{Scene, attempts, is_long};
