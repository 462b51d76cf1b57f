//! What a start makes of the log it finds: the verdict, and what follows from it.
//!
//! One function, [`judge`], reads a directory and answers with a lettered row of a table. The server, `walctl verify` and
//! the tests call the same function. It changes nothing. [`open`] then does what the row says (cut, write again, sync) and
//! leaves a log that can be written; it is only reached with a verdict that starts the server.
//!
//! # Vocabulary
//!
//! * **L** — the first place that is neither a valid frame nor the end that the next segment's header names.
//! * **witness** — something that stands intact *after* or *beside* the log up to L and promises that the log once
//!   reached a position: a later frame header, a snapshot, the clean mark, the history of epochs.
//! * **promise** — the position a witness vouches for: it was on disk then, so it has to be there now.
//! * **judged segment** — one that reading from the newest valid snapshot on passes through.
//!
//! # The table
//!
//! The first row that applies decides ([`cases`]); none depends on the sync policy.
//!
//! | row | found | verdict |
//! |---|---|---|
//! | I | a read fails | `IO_ERROR`, refused |
//! | H | a newer format, another cluster or node, an unknown opcode | `FOREIGN`, refused |
//! | G | something that is needed is missing, misnamed or short | `HOLE`, refused |
//! | J | undamaged and impossible | `BUG`, refused |
//! | F | what is gone was promised | `ROT`, refused |
//! | D | later frames, none promises what is gone | `TORN_TAIL`, cut |
//! | A | clean mark at L, nothing after it | `CLEAN` |
//! | C | clean mark at L, something after it | `TORN_TAIL`, cut |
//! | B | no clean mark, nothing after L | `CLEAN` |
//! | E | no clean mark, junk after L | `UNPROVEN_TAIL`, cut with a warning |
//!
//! # Deliberately absent
//!
//! What a record means (the sink's), when to give up a tail after a failover (the replica's), any repair of a refused log
//! (an operator's decision, with `walctl`).

pub mod cases;
mod epoch;
mod inventory;
mod judge;
mod judgement;
mod open;
mod pass;
mod repair;
pub mod restore;
mod tail;
mod until;
mod witness;

pub use cases::Row;
pub use judge::{Ignore, JudgeOptions, Place, REPAIR_MARK, RESTORE_MARK, Sink, judge, judge_until};
pub use judgement::{
    Finding, FindingKind, Found, Judgement, LogEnd, SegmentSummary, SnapshotSummary, UnjudgedSegment, Verdict,
};
pub use open::{OpenError, OpenParams, Opened, open};
pub use until::Until;
