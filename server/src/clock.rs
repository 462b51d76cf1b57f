//! The server's clock: Unix milliseconds that never run backwards.
//!
//! At a start it is the larger of the wall clock and the log's time; from then on it advances with `CLOCK_BOOTTIME`,
//! which counts through a suspended machine and does not follow a stepped wall clock. A step therefore ends no
//! deadline early; it is noticed ([`Clock::observe_wall`]) and becomes a warning. Deadlines mean *this* clock.
//!
//! [`Clock`] itself looks at no clock: readings come in, so that tests can turn the hands.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idem_protocol::time::UnixMs;

/// A change of the distance between wall clock and server clock that is worth a warning, in milliseconds. Slewing by
/// NTP stays far below it between two looks.
const STEP_MS_MIN: i64 = 1_000;

/// A log's time so far ahead of the wall clock at the start is an ERROR: one of the two clocks was wrong.
pub const AHEAD_MS_MAX: u64 = 60_000;

/// Time since boot; never goes back.
pub fn boot_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

/// The wall clock in Unix milliseconds; before 1970 it is 0.
pub fn wall_time() -> UnixMs {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    clamped(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Server time at `origin`.
    base_ms: u64,
    /// [`boot_time`] at the start.
    origin: Duration,
    /// Wall clock minus server clock at the last look, in milliseconds.
    offset_ms: i64,
}

impl Clock {
    /// The clock of a server that starts now on a log whose newest record has `log_time`.
    pub fn start(wall: UnixMs, log_time: UnixMs, boot: Duration) -> Clock {
        let base_ms = wall.get().max(log_time.get());
        Clock {
            base_ms,
            origin: boot,
            offset_ms: difference(wall.get(), base_ms),
        }
    }

    /// The time when [`boot_time`] is `boot`.
    pub fn at(&self, boot: Duration) -> UnixMs {
        let passed = u64::try_from(boot.saturating_sub(self.origin).as_millis()).unwrap_or(u64::MAX);
        clamped(self.base_ms.saturating_add(passed))
    }

    /// The time now.
    pub fn now(&self) -> UnixMs {
        self.at(boot_time())
    }

    /// Looks at the wall clock; by how many milliseconds it was stepped since the last look, when it was.
    pub fn observe_wall(&mut self, wall: UnixMs, boot: Duration) -> Option<i64> {
        let offset_ms = difference(wall.get(), self.at(boot).get());
        let step = offset_ms.saturating_sub(self.offset_ms);
        self.offset_ms = offset_ms;
        (step.abs() >= STEP_MS_MIN).then_some(step)
    }

    /// How far the server's clock is ahead of the wall clock as of the last look, in milliseconds; 0 when it is not.
    pub fn ahead_ms(&self) -> u64 {
        // The wall clock reads 0 to 1 ms behind by rounding alone.
        let ahead = self.offset_ms.saturating_neg();
        u64::try_from(ahead).map_or(0, |ahead| if ahead <= 1 { 0 } else { ahead })
    }
}

fn difference(left: u64, right: u64) -> i64 {
    let left = i64::try_from(left).unwrap_or(i64::MAX);
    left.saturating_sub(i64::try_from(right).unwrap_or(i64::MAX))
}

fn clamped(ms: u64) -> UnixMs {
    UnixMs::new(ms.min(UnixMs::MAX.get()))
}

#[cfg(test)]
mod tests {
    use super::{Clock, boot_time};
    use idem_protocol::time::UnixMs;
    use std::time::Duration;

    fn ms(ms: u64) -> UnixMs {
        UnixMs::new(ms)
    }

    #[test]
    fn starts_at_the_larger_and_follows_boot_time() {
        let boot = Duration::from_secs(5);
        for (wall, log, expected) in [(1_000, 0, 1_000), (1_000, 999, 1_000), (1_000, 90_000, 90_000)] {
            let clock = Clock::start(ms(wall), ms(log), boot);
            assert_eq!(clock.at(boot), ms(expected));
            assert_eq!(clock.at(boot + Duration::from_millis(250)), ms(expected + 250));
            // A reading from before the start can only be a rounding of the caller's.
            assert_eq!(clock.at(Duration::ZERO), ms(expected));
        }
    }

    #[test]
    fn a_step_is_noticed_once_and_moves_nothing() {
        let mut clock = Clock::start(ms(1_000_000), ms(0), Duration::ZERO);
        let at = |seconds: u64| Duration::from_secs(seconds);
        assert_eq!(clock.observe_wall(ms(1_001_000), at(1)), None);
        assert_eq!(clock.observe_wall(ms(1_002_400), at(2)), None);
        assert_eq!(clock.observe_wall(ms(403_000), at(3)), Some(-600_400));
        assert_eq!(clock.ahead_ms(), 600_000);
        assert_eq!(clock.at(at(3)), ms(1_003_000));
        assert_eq!(clock.observe_wall(ms(404_000), at(4)), None);
        assert_eq!(clock.observe_wall(ms(1_005_000), at(5)), Some(600_000));
        assert_eq!(clock.ahead_ms(), 0);
    }

    #[test]
    fn ahead_at_the_start() {
        assert_eq!(
            Clock::start(ms(1_000), ms(91_000), Duration::ZERO).ahead_ms(),
            90_000
        );
        assert_eq!(Clock::start(ms(1_000), ms(500), Duration::ZERO).ahead_ms(), 0);
    }

    #[test]
    fn the_end_of_time_is_no_overflow() {
        let clock = Clock::start(UnixMs::MAX, ms(0), Duration::ZERO);
        assert_eq!(clock.at(Duration::MAX), UnixMs::MAX);
        assert!(boot_time() > Duration::ZERO);
    }
}
