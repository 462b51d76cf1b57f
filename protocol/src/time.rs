//! Times and deadlines, in Unix milliseconds.

use std::fmt;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z. Range on disk: 0 to 2^48 − 1 (the year 10889).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMs(u64);

impl UnixMs {
    /// The first instant that exists here.
    pub const ZERO: UnixMs = UnixMs(0);
    /// The last instant that six bytes of a record can carry.
    pub const MAX: UnixMs = UnixMs((1 << 48) - 1);

    /// The instant `ms` milliseconds after the epoch, at most [`UnixMs::MAX`].
    pub const fn new(ms: u64) -> Self {
        if ms > Self::MAX.0 { Self::MAX } else { UnixMs(ms) }
    }

    /// Milliseconds since the epoch.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for UnixMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// When a key ends, in absolute Unix milliseconds; 0 on disk means that it has no end.
///
/// A deadline is computed once, by the primary that takes the command, and never again: recovery, replicas and
/// snapshots carry the number on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(u64);

impl Deadline {
    /// The key does not end.
    pub const NONE: Deadline = Deadline(0);

    /// Ends at `ms` Unix milliseconds; 0 is [`Deadline::NONE`].
    pub const fn at(ms: u64) -> Self {
        Deadline(ms)
    }

    /// Unix milliseconds, 0 for none.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// True for a key that does not end.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// True for a key that ends at some time.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// True once `now` has reached the deadline: a key lives while `now < deadline`.
    pub const fn has_ended(self, now: UnixMs) -> bool {
        self.0 != 0 && now.get() >= self.0
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
