//! What a node counts. All of it restarts at zero with the process.

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commands answered, refused ones included. A command that waits for log space counts once, when it is answered.
    pub commands: u64,
    /// Replies that were errors, by their codes.
    pub errors: ErrorCounts,
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

/// The codes that errors begin with here, in the order in which INFO shows them; `ERR` is also everything else's. A text
/// may hold bytes of a client, but its first word never does: the set is closed, and what is counted is bounded by it.
pub const ERROR_CODES: [&str; 7] = [
    "ERR",
    "EXECABORT",
    "MISCONF",
    "NOPROTO",
    "NOTBUSY",
    "OOM",
    "WRONGTYPE",
];

/// One of [`ERROR_CODES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(usize);

impl ErrorCode {
    /// The code of an error, from its whole text.
    pub fn of(text: &str) -> ErrorCode {
        let word = text.split(' ').next().unwrap_or(text);
        let place = ERROR_CODES.iter().position(|code| *code == word);
        ErrorCode(place.unwrap_or(0))
    }
}

/// How often a reply was an error of each code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts([u64; ERROR_CODES.len()]);

impl ErrorCounts {
    /// Counts one.
    pub fn count(&mut self, code: ErrorCode) {
        self.0[code.0] += 1;
    }

    /// Code and count of those that there were.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ERROR_CODES
            .into_iter()
            .zip(self.0)
            .filter(|(_, count)| *count > 0)
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
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

#[cfg(test)]
mod tests {
    use super::{ERROR_CODES, ErrorCode, ErrorCounts};

    #[test]
    fn an_error_is_counted_by_its_first_word() {
        let mut counts = ErrorCounts::default();
        for (text, code) in [
            ("ERR syntax error", "ERR"),
            ("OOM command not allowed when used memory > 'maxmemory'.", "OOM"),
            ("WRONGTYPE", "WRONGTYPE"),
            ("MISCONF no space", "MISCONF"),
            ("OOMPH", "ERR"),
            ("oom small", "ERR"),
            (" OOM", "ERR"),
            ("", "ERR"),
        ] {
            assert_eq!(ERROR_CODES[ErrorCode::of(text).0], code, "{text:?}");
            counts.count(ErrorCode::of(text));
        }
        let expected = [("ERR", 5), ("MISCONF", 1), ("OOM", 1), ("WRONGTYPE", 1)];
        assert_eq!(counts.iter().collect::<Vec<_>>(), expected);
        assert_eq!(counts.total(), 8);
    }
}
