//! Log space: which spare is being made, what could not be made, and what a command that needs more is told.
//!
//! The log's batch places records into space that is ready: the rest of the segment, or a spare. When it has none that
//! is large enough, the command waits and housekeeping makes one; when that failed, the command is refused (`MISCONF`)
//! instead of waiting for a disk that may stay full for hours. Failing is remembered per size: a value of a hundred
//! megabytes that does not fit refuses nobody else's small record.
//!
//! Sans-IO: housekeeping is asked through [`Space::next_chore`], and reports through [`Space::ready`] and
//! [`Space::failed`]; time comes in.

use std::time::{Duration, Instant};

use idem_engine::Reservation;

/// A spare that could not be made is tried again after this.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Failure {
    bytes: u64,
    retry_at: Instant,
}

/// See the module. Sizes are those of whole files, in bytes.
#[derive(Debug, Default)]
pub struct Space {
    /// The size that housekeeping is making now.
    asked: Option<u64>,
    /// Somebody waits for that.
    asked_in_need: bool,
    /// The largest size that a waiting command needs.
    wanted: Option<u64>,
    failure: Option<Failure>,
    /// The smallest size of which a failure was reported and no success since.
    reported: Option<u64>,
    /// The wal thread cannot write: nothing new may be appended, whatever room there is.
    stalled: bool,
}

impl Space {
    /// Whether the wal thread cannot write.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// The wal thread cannot write (true), or can again.
    pub fn set_stalled(&mut self, stalled: bool) {
        self.stalled = stalled;
    }

    /// Whether a spare could not be made and none of its size was made since.
    pub fn has_failed(&self) -> bool {
        self.reported.is_some()
    }

    /// A command needs a spare of `bytes` and there is none.
    pub fn need(&mut self, bytes: u64) -> Reservation {
        if self
            .failure
            .as_ref()
            .is_some_and(|failure| bytes >= failure.bytes)
        {
            return Reservation::NoSpace;
        }
        self.wanted = Some(self.wanted.map_or(bytes, |wanted| wanted.max(bytes)));
        Reservation::Wait
    }

    /// Whether a command waits for a spare.
    pub fn is_waited_for(&self) -> bool {
        self.wanted.is_some() || (self.asked.is_some() && self.asked_in_need)
    }

    /// The size to ask housekeeping for now, if any. `ahead` is the size that the batch wants in reserve.
    /// Calling this is asking: the answer has to be carried out.
    pub fn next_chore(&mut self, ahead: Option<u64>, now: Instant) -> Option<u64> {
        if self.asked.is_some() {
            return None;
        }
        if let Some(failure) = &self.failure
            && now >= failure.retry_at
        {
            // A special size is made again when somebody needs it again, not every second: each try writes zeros until
            // the disk is full.
            self.failure = None;
        }
        let in_need = self.wanted.is_some();
        let wanted = self.wanted.take().or(ahead)?;
        if self
            .failure
            .as_ref()
            .is_some_and(|failure| wanted >= failure.bytes)
        {
            return None;
        }
        self.asked = Some(wanted);
        self.asked_in_need = in_need;
        self.asked
    }

    /// A spare of `bytes` is ready.
    pub fn ready(&mut self, bytes: u64) {
        self.asked = None;
        if self.reported.is_some_and(|reported| bytes >= reported) {
            self.reported = None;
        }
        if self
            .failure
            .as_ref()
            .is_some_and(|failure| bytes >= failure.bytes)
        {
            self.failure = None;
        }
        if self.wanted.is_some_and(|wanted| wanted <= bytes) {
            self.wanted = None;
        }
    }

    /// A spare of `bytes` could not be made. True when this is news (to be logged once, not every second).
    pub fn failed(&mut self, bytes: u64, now: Instant) -> bool {
        self.asked = None;
        let news = self.reported.is_none_or(|reported| bytes < reported);
        if news {
            self.reported = Some(bytes);
        }
        if self.wanted.is_some_and(|wanted| wanted >= bytes) {
            self.wanted = None;
        }
        self.failure = Some(Failure {
            bytes,
            retry_at: now + RETRY_AFTER,
        });
        news
    }

    /// Spares have another size from now on: that those of the old one could not be made says nothing any more.
    pub fn forget_failures(&mut self) {
        self.failure = None;
        self.reported = None;
    }

    /// When [`Space::next_chore`] will try again what failed.
    pub fn retry_at(&self) -> Option<Instant> {
        self.failure.as_ref().map(|failure| failure.retry_at)
    }
}

#[cfg(test)]
mod tests {
    use super::{RETRY_AFTER, Space};
    use idem_engine::Reservation;
    use std::time::Instant;

    const SEGMENT: u64 = 1 << 20;
    const HUGE: u64 = 100 << 20;

    fn check(space: &mut Space, bytes: u64, granted: bool) {
        let expected = if granted {
            Reservation::Wait
        } else {
            Reservation::NoSpace
        };
        assert_eq!(space.need(bytes), expected, "{bytes} {space:?}");
    }

    #[test]
    fn one_spare_at_a_time_and_the_waiting_command_first() {
        let (mut space, now) = (Space::default(), Instant::now());
        assert_eq!(space.next_chore(None, now), None);
        assert_eq!(space.next_chore(Some(SEGMENT), now), Some(SEGMENT));
        check(&mut space, HUGE, true);
        check(&mut space, SEGMENT, true);
        assert_eq!(space.next_chore(Some(SEGMENT), now), None);
        space.ready(SEGMENT);
        assert_eq!(space.next_chore(Some(SEGMENT), now), Some(HUGE));
        space.ready(HUGE);
        assert_eq!(space.next_chore(None, now), None);
    }

    #[test]
    fn what_failed_is_refused_until_it_is_tried_again() {
        let (mut space, now) = (Space::default(), Instant::now());
        check(&mut space, HUGE, true);
        assert_eq!(space.next_chore(None, now), Some(HUGE));
        assert!(space.failed(HUGE, now));
        check(&mut space, HUGE, false);
        check(&mut space, HUGE + 1, false);
        // Smaller ones are made meanwhile, and their success says nothing about the large one.
        check(&mut space, SEGMENT, true);
        assert_eq!(space.next_chore(None, now), Some(SEGMENT));
        space.ready(SEGMENT);
        check(&mut space, HUGE, false);
        assert_eq!(space.next_chore(None, now + RETRY_AFTER), None);
        check(&mut space, HUGE, true);
        assert_eq!(space.next_chore(None, now + RETRY_AFTER), Some(HUGE));
    }

    #[test]
    fn another_size_is_tried_at_once() {
        let (mut space, now) = (Space::default(), Instant::now());
        assert_eq!(space.next_chore(Some(HUGE), now), Some(HUGE));
        space.failed(HUGE, now);
        space.forget_failures();
        assert!(!space.has_failed());
        assert_eq!(space.next_chore(Some(SEGMENT), now), Some(SEGMENT));
        check(&mut space, HUGE, true);
        // Nor is it news when it fails again while the old one is still being made.
        let mut space = Space::default();
        assert_eq!(space.next_chore(Some(HUGE), now), Some(HUGE));
        space.forget_failures();
        assert_eq!(space.next_chore(Some(SEGMENT), now), None, "one at a time");
        assert!(space.failed(HUGE, now));
        assert_eq!(space.next_chore(Some(SEGMENT), now), Some(SEGMENT));
        space.ready(SEGMENT);
    }

    #[test]
    fn the_reserve_is_tried_every_second() {
        let (mut space, mut now) = (Space::default(), Instant::now());
        for round in 0..3 {
            assert_eq!(space.next_chore(Some(SEGMENT), now), Some(SEGMENT));
            assert_eq!(space.failed(SEGMENT, now), round == 0);
            assert!(space.has_failed());
            assert_eq!(space.next_chore(Some(SEGMENT), now), None);
            check(&mut space, SEGMENT, false);
            now += RETRY_AFTER;
        }
        assert_eq!(space.next_chore(Some(SEGMENT), now), Some(SEGMENT));
        space.ready(SEGMENT);
        check(&mut space, SEGMENT, true);
        assert!(!space.has_failed());
    }
}
