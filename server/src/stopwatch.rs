//! How long commands take, for next to nothing.
//!
//! An exact look at the clock costs 35 to 50 ns, a tenth of a GET in a pipeline. The kernel's own clock, which only moves
//! with its ticks (every 4 ms as a rule), costs 5. A command that took ten milliseconds has seen a tick, so that for most
//! commands it is enough to find that there was none; where there was one, the exact clock is asked.
//!
//! What is measured so is never too short. It is too long by less than a tick: by what the commands before it took, in the
//! same pipeline, since the last exact look. A command that is alone in its turn is measured from the look with which the
//! turn began. Against a limit that is not much longer than a tick, every command is measured exactly.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

use crate::clock::boot_time;

/// A limit of so many ticks is far enough from one.
const TICKS_MIN: u32 = 2;

/// See the module. One for each turn of a connection.
#[derive(Debug)]
pub struct Stopwatch {
    /// Limits from here on are looked for by ticks.
    by_ticks_from: Duration,
    /// The last exact look, as [`boot_time`].
    seen: Duration,
    /// The last tick then.
    tick: Duration,
}

/// What there is to know of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lap {
    /// [`boot_time`] behind it, when that was looked at.
    pub ended: Option<Duration>,
    /// How long it took, when that reached the limit.
    pub took: Option<Duration>,
}

impl Stopwatch {
    /// Measures from `boot`, which is now, on a machine whose ticks are so long ([`tick_length`]).
    pub fn begin(boot: Duration, tick_length: Duration) -> Stopwatch {
        Stopwatch {
            by_ticks_from: tick_length.saturating_mul(TICKS_MIN),
            seen: boot,
            tick: last_tick(),
        }
    }

    /// A command has ended, and another may begin: whether this one took `limit` or longer.
    pub fn lap(&mut self, limit: Duration) -> Lap {
        if limit >= self.by_ticks_from {
            let tick = last_tick();
            if tick == self.tick {
                return Lap::default();
            }
            self.tick = tick;
        }
        let ended = boot_time();
        let took = ended.saturating_sub(self.seen);
        self.seen = ended;
        Lap {
            ended: Some(ended),
            took: (took >= limit).then_some(took),
        }
    }
}

/// From one tick of the kernel's clock to the next.
pub fn tick_length() -> Duration {
    duration(clock_getres(ClockId::MonotonicCoarse))
}

fn last_tick() -> Duration {
    duration(clock_gettime(ClockId::MonotonicCoarse))
}

fn duration(time: Timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Lap, Stopwatch, boot_time, tick_length};

    #[test]
    fn what_is_long_is_never_missed() {
        let tick = tick_length();
        assert!(tick > Duration::ZERO && tick < Duration::from_secs(1), "{tick:?}");
        for limit in [tick * 2, tick * 3, tick / 2, Duration::ZERO] {
            for parts in 1..20 {
                let mut watch = Stopwatch::begin(boot_time(), tick);
                // Quick ones before it, so that it begins anywhere between two ticks.
                for _ in 0..parts * 500 {
                    let lap = watch.lap(limit);
                    assert!(lap.took.is_none_or(|took| took >= limit));
                }
                let began = boot_time();
                std::thread::sleep(limit);
                let took = watch.lap(limit).took.expect("it took the limit");
                let really = boot_time() - began;
                assert!(
                    took >= limit && took <= really + tick + tick / 2,
                    "{took:?}, {really:?}"
                );
            }
        }
    }

    #[test]
    fn the_exact_clock_is_asked_when_a_tick_has_passed() {
        let tick = tick_length();
        let mut watch = Stopwatch::begin(boot_time(), tick);
        let began = boot_time();
        let (mut laps, mut looks) = (0_u32, 0_u32);
        while boot_time() - began < tick * 10 {
            laps += 1;
            looks += u32::from(watch.lap(Duration::from_secs(3600)) != Lap::default());
        }
        assert!((1..=30).contains(&looks) && laps > looks, "{looks} of {laps}");
        // Where each counts, each is looked at.
        assert!((0..100).all(|_| watch.lap(Duration::from_nanos(1)).ended.is_some()));
    }
}
