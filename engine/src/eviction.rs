//! The memory limit: what counts, what is refused, and who goes first.
//!
//! # Vocabulary
//!
//! * **limit**: `maxmemory`. What counts against it is the keyspace (`used_bytes`).
//! * **not counted**: what has a bound of its own, and what evicting cannot lower. What was flushed is on its way back
//!   already. The barrier's list of recent changes grows with each eviction, by about as much as a small key takes: if it
//!   counted, one eviction would be the reason for the next, until nothing is left. (Redis leaves its replication and AOF
//!   buffers out for this reason.) Clients' buffers have limits of their own.
//! * **full**: more is used than the limit says. What a command is about to add is not asked for beforehand; so memory
//!   stays within the limit and what one command adds.
//! * **to evict**: to delete a key that nobody asked to delete, as a record of the log like any other deletion.
//! * **may go**: what the policy and `idem-evictable` allow to be evicted.
//!
//! # Why IDEM records stay
//!
//! A cache that loses an entry is slower; a record of IDEM that is lost admits its operation a second time. So an evicting
//! policy leaves IDEM records alone unless it is told otherwise, and once they are all that is left, writes are refused as
//! with `noeviction`. Markers of ONCE and counters of LIMIT are ordinary strings and may go.
//!
//! Deliberately absent: a clock, and how the choice is carried out (`node/evict.rs`).

use crate::barrier::Barrier;
use crate::keyspace::{EntryRef, Keyspace};

/// The clock of accesses counts so many milliseconds as a power of two: 64. It lasts for eight years.
pub(crate) const ACCESS_CLOCK_SHIFT: u32 = 6;

/// What counts against the limit, in bytes.
pub(crate) fn used_bytes(keyspace: &Keyspace) -> u64 {
    keyspace.memory_bytes().saturating_sub(keyspace.condemned_bytes())
}

/// What the shard keeps beside it and does not count, in bytes.
pub(crate) fn uncounted_bytes(keyspace: &Keyspace, barrier: &Barrier) -> u64 {
    keyspace.condemned_bytes() + barrier.memory_bytes()
}

/// `maxmemory-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// Nothing is evicted: what would write is refused.
    #[default]
    NoEviction,
    /// Of what has a deadline, what ends first.
    VolatileTtl,
    /// What was not used for longest.
    AllkeysLru,
    /// The same, of what has a deadline.
    VolatileLru,
    /// Anything.
    AllkeysRandom,
    /// Anything that has a deadline.
    VolatileRandom,
}

impl EvictionPolicy {
    /// Every policy by its name.
    pub const ALL: [(&'static str, EvictionPolicy); 6] = [
        ("noeviction", EvictionPolicy::NoEviction),
        ("volatile-ttl", EvictionPolicy::VolatileTtl),
        ("allkeys-lru", EvictionPolicy::AllkeysLru),
        ("volatile-lru", EvictionPolicy::VolatileLru),
        ("allkeys-random", EvictionPolicy::AllkeysRandom),
        ("volatile-random", EvictionPolicy::VolatileRandom),
    ];

    /// As operators type it.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, policy)| *policy == self);
        named.map_or("noeviction", |(name, _)| name)
    }

    /// Whether only keys with a deadline may go.
    pub(crate) const fn is_volatile(self) -> bool {
        matches!(
            self,
            EvictionPolicy::VolatileTtl | EvictionPolicy::VolatileLru | EvictionPolicy::VolatileRandom
        )
    }

    const fn is_lru(self) -> bool {
        matches!(self, EvictionPolicy::AllkeysLru | EvictionPolicy::VolatileLru)
    }
}

/// How much memory a shard may use, and what is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// `maxmemory` in bytes; 0 = no limit.
    pub bytes: u64,
    /// `maxmemory-policy`.
    pub policy: EvictionPolicy,
    /// `maxmemory-samples`: how many keys are compared for each that goes; at least 1.
    pub samples: usize,
    /// `idem-evictable`: IDEM records are keys like any other.
    pub idem_evictable: bool,
}

impl Default for MemoryLimit {
    fn default() -> Self {
        MemoryLimit {
            bytes: 0,
            policy: EvictionPolicy::NoEviction,
            samples: 5,
            idem_evictable: false,
        }
    }
}

impl MemoryLimit {
    /// Whether `used` bytes are more than allowed.
    pub(crate) const fn is_exceeded_by(&self, used: u64) -> bool {
        self.bytes != 0 && used > self.bytes
    }

    /// Whether the choice depends on when keys were used.
    pub(crate) const fn wants_access_times(&self) -> bool {
        self.bytes != 0 && self.policy.is_lru()
    }

    /// How many keys are compared for one that goes: more than one has no use where any will do.
    pub(crate) fn candidates(&self) -> usize {
        match self.policy {
            EvictionPolicy::AllkeysRandom | EvictionPolicy::VolatileRandom => 1,
            _ => self.samples.max(1),
        }
    }

    /// Whether an entry may go; one that has ended is as good as any.
    pub(crate) fn may_go(&self, entry: &EntryRef<'_>) -> bool {
        self.policy != EvictionPolicy::NoEviction
            && (self.idem_evictable || !entry.is_idem())
            && (!self.policy.is_volatile() || entry.deadline().is_some())
    }

    /// Of two entries that may go, the one of the lower rank goes.
    pub(crate) fn rank(&self, entry: &EntryRef<'_>) -> u64 {
        match self.policy {
            EvictionPolicy::VolatileTtl => entry.deadline().get(),
            EvictionPolicy::AllkeysLru | EvictionPolicy::VolatileLru => u64::from(entry.touched()),
            EvictionPolicy::NoEviction | EvictionPolicy::AllkeysRandom | EvictionPolicy::VolatileRandom => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EvictionPolicy, MemoryLimit};

    #[test]
    fn names_and_kinds() {
        for (name, policy) in EvictionPolicy::ALL {
            assert_eq!(policy.name(), name);
            assert_eq!(policy.is_volatile(), name.starts_with("volatile"), "{name}");
            assert_eq!(policy.is_lru(), name.ends_with("lru"), "{name}");
        }
    }

    #[test]
    fn a_limit_of_zero_is_none() {
        let limit = |bytes| MemoryLimit {
            bytes,
            ..MemoryLimit::default()
        };
        assert!(!limit(0).is_exceeded_by(u64::MAX));
        assert!(!limit(10).is_exceeded_by(10));
        assert!(limit(10).is_exceeded_by(11));
    }
}
