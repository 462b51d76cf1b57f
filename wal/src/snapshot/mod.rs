//! Snapshot files, written piece by piece beside the log.
//!
//! A snapshot is *fuzzy*: its items were read one by one between commands, and replaying the log from its start lsn gives the
//! exact state. It is written under a temporary name and synced here; it gets its own name only when the log is on disk up
//! to the snapshot's end (see [`crate::housekeeping`]).
//!
//! Deliberately absent: what an item means, and reading (the reader has it).

pub mod write;

pub use write::{FinishedSnapshot, SNAPSHOT_TEMPORARY_SUFFIX, SnapshotWriter};
