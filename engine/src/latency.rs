//! Slow moments of the server, by kind: what `LATENCY` shows.
//!
//! A *moment* is a command, or a sync of the log, that took at least `latency-monitor-threshold`. For each kind the worst
//! of every second is kept, for the last [`SAMPLES_MAX`] seconds that had one; memory is bounded by that.
//!
//! Deliberately absent: distributions over all commands (`LATENCY HISTOGRAM` is empty). They would be one count more for
//! every command, and a client sees its own better.

use std::collections::VecDeque;

/// Seconds kept of each kind, as in Redis.
pub const SAMPLES_MAX: usize = 160;

/// The kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyEvent {
    /// A command that is not of constant or logarithmic time.
    Command,
    /// A command that is: it was the server that was slow.
    FastCommand,
    /// A sync of the log: every reply that waited for it was late.
    WalSync,
}

impl LatencyEvent {
    /// All of them.
    pub const ALL: [LatencyEvent; 3] = [
        LatencyEvent::Command,
        LatencyEvent::FastCommand,
        LatencyEvent::WalSync,
    ];

    /// As clients name it.
    pub const fn name(self) -> &'static str {
        match self {
            LatencyEvent::Command => "command",
            LatencyEvent::FastCommand => "fast-command",
            LatencyEvent::WalSync => "wal-sync",
        }
    }

    /// The kind of that name; in any case, when `any_case`.
    pub fn by_name(name: &[u8], any_case: bool) -> Option<LatencyEvent> {
        LatencyEvent::ALL.into_iter().find(|event| {
            let known = event.name().as_bytes();
            known == name || (any_case && known.eq_ignore_ascii_case(name))
        })
    }
}

/// The worst moment of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Unix seconds.
    pub seconds: u64,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

/// What is kept of one kind. Nothing, until there is something.
#[derive(Clone, Debug, Default)]
pub struct Series {
    samples: VecDeque<Sample>,
    worst_ms: u64,
}

impl Series {
    /// The oldest first.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = Sample> {
        self.samples.iter().copied()
    }

    /// The last second that had one.
    pub fn latest(&self) -> Option<Sample> {
        self.samples.back().copied()
    }

    /// The worst since the last reset, also when its second is no longer kept.
    pub fn worst_ms(&self) -> u64 {
        self.worst_ms
    }

    fn note(&mut self, seconds: u64, ms: u64) {
        self.worst_ms = self.worst_ms.max(ms);
        match self.samples.back_mut() {
            Some(last) if last.seconds == seconds => last.ms = last.ms.max(ms),
            _ => {
                if self.samples.len() == SAMPLES_MAX {
                    self.samples.pop_front();
                }
                self.samples.push_back(Sample { seconds, ms });
            }
        }
    }
}

/// What is kept of every kind.
#[derive(Clone, Debug, Default)]
pub struct Latency([Series; LatencyEvent::ALL.len()]);

impl Latency {
    /// What is kept of a kind; `None` when there was nothing.
    pub fn series(&self, event: LatencyEvent) -> Option<&Series> {
        Some(&self.0[event as usize]).filter(|series| !series.samples.is_empty())
    }

    /// Notes a moment at these Unix seconds.
    pub fn note(&mut self, event: LatencyEvent, seconds: u64, ms: u64) {
        self.0[event as usize].note(seconds, ms);
    }

    /// Forgets a kind.
    pub fn reset(&mut self, event: LatencyEvent) {
        self.0[event as usize] = Series::default();
    }
}

#[cfg(test)]
mod tests {
    use super::{Latency, LatencyEvent, SAMPLES_MAX, Sample};

    #[test]
    fn the_worst_of_each_second_is_kept() {
        let mut latency = Latency::default();
        assert!(latency.series(LatencyEvent::Command).is_none());
        for (seconds, ms) in [(10, 5), (10, 7), (10, 6), (12, 3)] {
            latency.note(LatencyEvent::Command, seconds, ms);
        }
        let series = latency.series(LatencyEvent::Command).unwrap();
        let expected = [Sample { seconds: 10, ms: 7 }, Sample { seconds: 12, ms: 3 }];
        assert_eq!(series.samples().collect::<Vec<_>>(), expected);
        assert_eq!((series.latest(), series.worst_ms()), (Some(expected[1]), 7));
        assert!(latency.series(LatencyEvent::WalSync).is_none());
        latency.reset(LatencyEvent::Command);
        assert!(latency.series(LatencyEvent::Command).is_none());
    }

    #[test]
    fn seconds_are_bounded_and_the_worst_stays() {
        let mut latency = Latency::default();
        latency.note(LatencyEvent::WalSync, 0, 99);
        for seconds in 1..1000 {
            latency.note(LatencyEvent::WalSync, seconds, 1);
        }
        let series = latency.series(LatencyEvent::WalSync).unwrap();
        assert_eq!(series.samples().len(), SAMPLES_MAX);
        assert_eq!(series.worst_ms(), 99);
        assert_eq!(series.samples().map(|sample| sample.seconds).min(), Some(840));
    }

    #[test]
    fn names() {
        for event in LatencyEvent::ALL {
            let name = event.name();
            assert_eq!(LatencyEvent::by_name(name.as_bytes(), false), Some(event));
            let upper = name.to_ascii_uppercase();
            assert_eq!(LatencyEvent::by_name(upper.as_bytes(), false), None);
            assert_eq!(LatencyEvent::by_name(upper.as_bytes(), true), Some(event));
        }
        assert_eq!(LatencyEvent::by_name(b"fork", true), None);
    }
}
