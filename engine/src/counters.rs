//! What a node counts. All of it restarts at zero with the process.

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commands answered, refused ones included. A command that waits for log space counts once, when it is answered.
    pub commands: u64,
    /// Replies that were errors.
    pub error_replies: u64,
    /// Entries whose memory was given back after their deadline.
    pub expired_keys: u64,
    /// Keys deleted to make room.
    pub evicted_keys: u64,
    /// BEGIN answered `acquired`.
    pub idem_acquired: u64,
    /// BEGIN answered `pending`.
    pub idem_pending: u64,
    /// BEGIN answered `conflict`.
    pub idem_conflict: u64,
    /// BEGIN answered `completed`.
    pub idem_replayed: u64,
    /// COMPLETE stored a result; a repeated COMPLETE that finds it stored is not counted again.
    pub idem_completed: u64,
    /// ABORT removed a record.
    pub idem_aborted: u64,
    /// COMPLETE answered `0`.
    pub idem_refused_complete: u64,
}

/// How an IDEM command ended: the one thing that a decision wants counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tally {
    /// Nothing to count.
    #[default]
    None,
    /// BEGIN answered `acquired`.
    Acquired,
    /// BEGIN answered `pending`.
    Pending,
    /// BEGIN answered `conflict`.
    Conflict,
    /// BEGIN answered `completed`.
    Replayed,
    /// COMPLETE stored a result.
    Completed,
    /// ABORT removed a record.
    Aborted,
    /// COMPLETE answered `0`.
    RefusedComplete,
}

impl Counters {
    /// Counts one outcome.
    pub fn count(&mut self, tally: Tally) {
        let counter = match tally {
            Tally::None => return,
            Tally::Acquired => &mut self.idem_acquired,
            Tally::Pending => &mut self.idem_pending,
            Tally::Conflict => &mut self.idem_conflict,
            Tally::Replayed => &mut self.idem_replayed,
            Tally::Completed => &mut self.idem_completed,
            Tally::Aborted => &mut self.idem_aborted,
            Tally::RefusedComplete => &mut self.idem_refused_complete,
        };
        *counter += 1;
    }
}
