//! What a node needs of the log, and nothing more.
//!
//! The log is handed in with each command, so that a node can be driven by the real batch, by a simulated disk or by a
//! vector in a test. Placement, groups, frames and syncs are behind this trait.

use idem_protocol::wal::Record;
use idem_protocol::{Lsn, UnixMs};

/// Whether bytes of records may be appended now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// [`Log::append`] of these bytes cannot fail.
    Granted,
    /// Space is being made, or the open group is full: the command is decided again after the next event of the log.
    Wait,
    /// There is no space and none is coming soon: the command answers `MISCONF`.
    NoSpace,
}

/// The appending side of a log, as one shard sees it.
pub trait Log {
    /// Sets `record_bytes` (headers of the records included) aside for the records of **one** command, which then land
    /// in one group: all of them survive a crash, or none. A new reservation replaces one that was not used.
    fn reserve(&mut self, record_bytes: u64) -> Reservation;

    /// Closes the open group, so that what is reserved next begins one of its own. False when too many closed groups wait
    /// for the disk: the command is decided again after the next event of the log. A log without groups has nothing to do.
    fn close_group(&mut self) -> bool {
        true
    }

    /// Appends a record inside the reservation and answers its end. `time` never goes back. Asserts both.
    fn append(&mut self, time: UnixMs, db: u8, record: &Record<'_>) -> Lsn;

    /// The end of the last record appended.
    fn appended(&self) -> Lsn;

    /// False while nothing at all can be written: every decision then looks at the state as of the log's time, so that
    /// a time to live that was read does not run on while what it belongs to cannot end. A log may leave this at true
    /// and refuse reservations only; what is answered then differs in times left, never in what is there.
    fn can_write(&self) -> bool {
        true
    }
}
