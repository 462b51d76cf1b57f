//! How far a log is wanted: to its end, or as it was at an earlier moment.

use idem_protocol::wal::RawRecord;
use idem_protocol::{Lsn, UnixMs};

/// A limit in the stream of records. Neither lsns nor times ever go back, so what is within it is always a beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// The end of the log.
    #[default]
    End,
    /// Records that end at or below this position.
    Lsn(Lsn),
    /// Records of this time or earlier.
    Time(UnixMs),
}

impl Until {
    /// Whether what ends at `end`, and whose newest record is of `time`, is within the limit.
    pub fn holds(self, end: Lsn, time: UnixMs) -> bool {
        match self {
            Until::End => true,
            Until::Lsn(limit) => end <= limit,
            Until::Time(limit) => time <= limit,
        }
    }

    /// Whether a record is within the limit, whole.
    pub fn takes(self, raw: &RawRecord<'_>) -> bool {
        self.holds(raw.end(), raw.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_an_end_position_or_a_time_that_still_belongs_to_it() {
        let (lsn, time) = (|n| Until::Lsn(Lsn::new(n)), |n| Until::Time(UnixMs::new(n)));
        for (until, expected) in [
            (Until::End, true),
            (lsn(99), false),
            (lsn(100), true),
            (time(6), false),
            (time(7), true),
        ] {
            assert_eq!(until.holds(Lsn::new(100), UnixMs::new(7)), expected, "{until:?}");
        }
    }
}
