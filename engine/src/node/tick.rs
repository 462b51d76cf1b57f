//! What happens without a command: memory of ended entries comes back, and the expiry index is kept in shape.

use idem_protocol::UnixMs;
use idem_protocol::wal::{RECORD_HEADER_BYTES, Record};

use super::Node;
use crate::log::{Log, Reservation};

/// Least time between two Clock records that are written for reclaiming, in milliseconds.
const RECLAIM_CLOCK_MS: u64 = 100;
/// Entries freed per call: a few hundred nanoseconds each, so well below a millisecond.
const RECLAIM_BUDGET: usize = 512;
/// Entries moved within the expiry index, or freed after a flush, per call.
const MAINTAIN_BUDGET: usize = 512;

/// What a tick did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// Entries whose memory was given back.
    pub reclaimed: usize,
    /// More can be done at once: serve what is ready and call again.
    pub more: bool,
}

impl Node {
    /// To be called about every 100 ms, and again soon after an answer with `more`.
    ///
    /// Only what had ended by the settled time goes: a client that then misses it depends on no record that could still be
    /// lost. When the log's time is behind what has ended, one Clock record brings it up; the memory follows when the
    /// barrier has passed that record.
    pub fn tick<L: Log>(&mut self, now: UnixMs, log: &mut L) -> Tick {
        #[cfg(feature = "sabotage")]
        self.append_late_deadlines(now, log);

        // Before anything is given back.
        self.note_peak();
        let reclaimed = self.keyspace.reclaim(self.barrier.settled_time(), RECLAIM_BUDGET);
        self.counters.expired_keys += reclaimed.count as u64;
        if !reclaimed.more {
            self.bring_time(now, log);
        }
        let more = self.keyspace.maintain(now, MAINTAIN_BUDGET);
        Tick {
            reclaimed: reclaimed.count,
            more: reclaimed.more || more,
        }
    }

    /// Appends a Clock record when something has ended that the log's time does not reach.
    fn bring_time<L: Log>(&mut self, now: UnixMs, log: &mut L) {
        let (last_end, last_time) = self.reclaim_clock;
        let wanted = now > self.barrier.log_time()
            && now.get() >= last_time.get() + RECLAIM_CLOCK_MS
            // While the disk is stuck, one record that waits for it is enough.
            && last_end <= self.barrier.settled()
            && self.keyspace.due(now);
        if wanted && log.reserve(RECORD_HEADER_BYTES as u64) == Reservation::Granted {
            let end = self.commit(log, now, 0, &Record::Clock);
            self.reclaim_clock = (end, now);
        }
    }
}
