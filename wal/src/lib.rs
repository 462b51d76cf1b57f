//! The durable log: what is written, when it is on disk, and what a start makes of what it finds.
//!
//! # Vocabulary
//!
//! * **lsn** — a position in the stream of record bytes; frames and headers do not count.
//! * **group** — the records of one group commit; on disk a **frame**: one write, one sync.
//! * **segment** — one file of frames, `wal/<first lsn>.wal`; **spare** — a zeroed, synced file that becomes one.
//! * **written** — what the kernel has; **synced** — what the disk has. A frame's **mark** says what had been written when
//!   the last successful sync was called.
//! * **seal** — an empty frame at the end of a quiet log; **clean mark** — the end lsn that a clean shutdown leaves in the
//!   control file. Both are **witnesses**: they prove that something was there.
//! * **verdict** — what a start decides about a directory, one letter of the table in [`recovery`].
//!
//! # Where to begin
//!
//! ```text
//!                    Batch (sans-IO: gathers records, plans where they go)
//!                      │ Group                        ▲ Spare
//!                      ▼                              │
//! thread::WalThread ─ LogWriter ─ segment      Housekeeping ─ spares, snapshots' names, retention
//!                      │                              │
//!                      └────────── ControlFile ───────┘            everything through storage::Storage
//!
//! recovery::judge ─ reader ─▶ Judgement ─▶ recovery::open ─▶ (LogWriter, Batch, ControlFile)
//! ```
//!
//! # Invariants
//!
//! * `synced ≤ written ≤ appended`; each only grows.
//! * Space first: a record is appended only where zeroed, synced space for it and one seal exists.
//! * A segment that has a successor is complete and synced; the successor's header vouches for its bytes. A segment that
//!   holds no record has no successor. The control file names a segment before its first frame.
//! * A write that failed may be repeated; a sync that failed ends the process, and nothing is reported after it
//!   ([`FatalError`]).
//! * A start changes nothing until the verdict allows it, and a refused directory keeps every byte.
//! * A snapshot gets its name only when the log is synced to its end, and something older goes only after that. Retention
//!   is by lsn, oldest first.
//! * No globals: several logs can live in one process.
//!
//! # Deliberately absent
//!
//! What a record means (the engine's), sockets, the wall clock, randomness (salts and ids are handed in), and any way for a
//! server to skip damage: this crate refuses, tools repair. Only the [`reader`] goes past it, for somebody who looks.

#![forbid(unsafe_code)]

pub mod batch;
pub mod control;
pub mod error;
pub mod housekeeping;
pub mod lock;
pub mod reader;
pub mod recovery;
pub mod retention;
pub mod segment;
pub mod snapshot;
pub mod storage;
pub mod thread;
pub mod writer;

#[cfg(test)]
mod testing;

pub use error::{FatalError, WriteError};
