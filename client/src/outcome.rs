//! What the commands answer, as types.

use std::fmt;
use std::time::Duration;

/// The answer of `IDEM key BEGIN`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "only `Acquired` lets the work be done"]
pub enum Begin {
    /// The record is this caller's now: do the work, then complete it.
    Acquired,
    /// Somebody has begun and not completed it; whoever sent this BEGIN does nothing.
    Pending,
    /// The key is taken for another operation: its fingerprint is not this one.
    Conflict,
    /// It was done, with this result (which may be empty).
    Completed(Vec<u8>),
}

/// The answer of `IDEM key INSPECT`, when there is a live record.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Whether the result is there.
    pub state: State,
    /// What was being done, as BEGIN said it: 1 to 128 bytes.
    pub fingerprint: Vec<u8>,
    /// Who does it or did it: 1 to 128 bytes.
    pub owner: Vec<u8>,
    /// When the record ends, in Unix milliseconds by the server's clock.
    pub deadline_ms: u64,
    /// How long that is from now, in whole milliseconds.
    pub ttl: Duration,
    /// The length of the stored result; 0 while it is pending.
    pub result_bytes: u64,
}

/// Without the owner: whoever has it can complete the record.
impl fmt::Debug for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspection")
            .field("state", &self.state)
            .field("deadline_ms", &self.deadline_ms)
            .field("ttl", &self.ttl)
            .field("result_bytes", &self.result_bytes)
            .finish_non_exhaustive()
    }
}

/// Of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Begun.
    Pending,
    /// Done, with a result.
    Completed,
}
