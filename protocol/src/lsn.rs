//! Positions in the stream of records.

use std::fmt;

/// A log sequence number: how many bytes of records come before this position since the log began.
///
/// Frames and segment headers are local to a node and do not count, so one lsn names the same byte of the same record
/// on the primary, on each replica and in every tool. Unit: bytes. Range: 0 to 2^64 − 1; 2^64 − 1 itself is "none" in
/// the control file and never a real position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(u64);

impl Lsn {
    /// The beginning of every log.
    pub const ZERO: Lsn = Lsn(0);
    /// Above every real position.
    pub const MAX: Lsn = Lsn(u64::MAX);

    /// The position after `bytes` record bytes.
    pub const fn new(bytes: u64) -> Self {
        Lsn(bytes)
    }

    /// The number of record bytes before this position.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position `bytes` further on.
    ///
    /// # Panics
    /// When the sum passes 2^64: at a gigabyte a second that takes five centuries, so it is a bug and not an input.
    /// Positions that come from input go through [`Lsn::checked_plus`].
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Self {
        Lsn(self
            .0
            .checked_add(bytes)
            .expect("an lsn of a log that we write does not overflow"))
    }

    /// The position `bytes` further on, or `None` past 2^64: for positions read from input.
    #[must_use]
    pub const fn checked_plus(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(sum) => Some(Lsn(sum)),
            None => None,
        }
    }

    /// How many record bytes lie between `earlier` and this position.
    ///
    /// # Panics
    /// When `earlier` is later than `self`: the two were mixed up.
    #[must_use]
    pub const fn bytes_since(self, earlier: Lsn) -> u64 {
        assert!(
            earlier.0 <= self.0,
            "an earlier position lies after the later one"
        );
        self.0 - earlier.0
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
