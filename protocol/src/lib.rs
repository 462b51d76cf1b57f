//! Every format of idemd, bytes ⇄ values, and nothing else.
//!
//! # Vocabulary
//!
//! * **lsn** — a position in the stream of records: the number of record bytes before it since the log began. The same
//!   on every node, because the record bytes are ([`Lsn`]).
//! * **record** — one physical change of state with its checksum ([`wal::Record`]).
//! * **frame** — one group commit on disk: a header and whole records ([`wal::FrameHeader`]).
//! * **segment** — one file of the log; its header says what comes before it ([`wal::SegmentHeader`]).
//! * **IDEM record** — the packed string that an idempotency key holds ([`idem::IdemRecord`]).
//! * **epoch** — the reign of one primary, `(number, nonce)` ([`Epoch`]).
//!
//! # Invariants
//!
//! * No function panics on any input bytes, and none allocates by a length that the input only claims: buffers grow
//!   with bytes that are there.
//! * One codec per format. Golden bytes in `testdata/` pin each of them; nothing else in the workspace reads or writes
//!   these bytes.
//! * Decoders are strict: what an encoder would not write is refused, with the offset at which it went wrong.
//!
//! # Deliberately absent
//!
//! Sockets, files, clocks, threads, async. What a command *means* is the engine's, what a damaged log means is the wal
//! crate's; here is only what bytes say.

#![forbid(unsafe_code)]

pub mod command;
pub mod control;
pub mod cursor;
pub mod escape;
pub mod idem;
pub mod ids;
pub mod limit;
pub mod lsn;
pub mod repl;
pub mod resp;
pub mod slot;
pub mod snapshot;
pub mod time;
pub mod wal;

pub use ids::{ClusterId, Epoch, HistoryEntry, Member, NodeId};
pub use lsn::Lsn;
pub use time::{Deadline, UnixMs};
