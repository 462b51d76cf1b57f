//! Histograms that need no limits beforehand: sizes in powers of two, times in steps that grow with the log.

use std::collections::BTreeMap;

use serde::Serialize;

/// What is counted in a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Count {
    pub(super) records: u64,
    pub(super) bytes: u64,
}

impl Count {
    pub(super) fn add(&mut self, bytes: u64) {
        *self += Count { records: 1, bytes };
    }
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.records += other.records;
        self.bytes += other.bytes;
    }
}

/// By size: a class for each power of two, named by the largest number in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes(BTreeMap<u32, Count>);

impl Sizes {
    /// Counts something of this size, and its bytes.
    pub(super) fn add(&mut self, size: u64, bytes: u64) {
        // The bits of `size - 1` are the exponent of the next power of two: 1 is 2^0, 2 is 2^1, 3 and 4 are 2^2.
        let exponent = u64::BITS - size.saturating_sub(1).leading_zeros();
        self.0.entry(exponent).or_default().add(bytes);
    }

    /// The classes in which there is something, the smallest first, each with the largest number that belongs to it.
    pub(super) fn classes(&self) -> impl Iterator<Item = (u64, Count)> {
        self.0
            .iter()
            .map(|(exponent, count)| (1_u64.checked_shl(*exponent).unwrap_or(u64::MAX), *count))
    }
}

/// Steps of time in seconds. Each is a multiple of the one before, so that classes join without being cut.
const STEPS_S: [u64; 12] = [
    1,
    10,
    60,
    600,
    3600,
    6 * 3600,
    86_400,
    7 * 86_400,
    28 * 86_400,
    364 * 86_400,
    3640 * 86_400,
    36_400 * 86_400,
];
/// The span of the log has at most so many steps; the last step is for whatever is left.
const CLASSES_MAX: u64 = 48;

/// By time.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// Which of the steps is used.
    step: usize,
    /// By the number of the step since 1970.
    classes: BTreeMap<u64, Count>,
}

impl Times {
    /// Counts a record of this time, in Unix milliseconds.
    pub(super) fn add(&mut self, time_ms: u64, bytes: u64) {
        let index = time_ms / self.step_ms();
        self.classes.entry(index).or_default().add(bytes);
        while self.span() > CLASSES_MAX && self.step + 1 < STEPS_S.len() {
            self.widen();
        }
    }

    /// The length of a class in milliseconds.
    pub(super) fn step_ms(&self) -> u64 {
        STEPS_S[self.step] * 1000
    }

    /// The classes in which there is something, the oldest first, each with the time at which it begins.
    pub(super) fn classes(&self) -> impl Iterator<Item = (u64, Count)> {
        let step = self.step_ms();
        self.classes
            .iter()
            .map(move |(index, count)| (index * step, *count))
    }

    fn span(&self) -> u64 {
        let first = self.classes.keys().next();
        let last = self.classes.keys().next_back();
        first.zip(last).map_or(0, |(first, last)| last - first + 1)
    }

    fn widen(&mut self) {
        let factor = STEPS_S[self.step + 1] / STEPS_S[self.step];
        self.step += 1;
        for (index, count) in std::mem::take(&mut self.classes) {
            *self.classes.entry(index / factor).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_belongs_to_the_next_power_of_two() {
        for (size, class) in [
            (0, 1),
            (1, 1),
            (2, 2),
            (3, 4),
            (4, 4),
            (5, 8),
            (1024, 1024),
            (1025, 2048),
            (1 << 63, 1 << 63),
            (u64::MAX, u64::MAX),
        ] {
            let mut sizes = Sizes::default();
            sizes.add(size, 7);
            let found: Vec<_> = sizes.classes().collect();
            assert_eq!(found, [(class, Count { records: 1, bytes: 7 })], "{size}");
        }
    }

    #[test]
    fn every_step_is_a_multiple_of_the_one_before() {
        assert!(
            STEPS_S
                .windows(2)
                .all(|pair| pair[1] % pair[0] == 0 && pair[1] > pair[0])
        );
    }

    #[test]
    fn classes_of_time_join_and_lose_nothing() {
        let start = 1_767_225_600_000;
        for (span_ms, step_ms) in [
            (1, 1000),
            (47_000, 1000),
            (48_000, 10_000),
            (3_600_000, 600_000),
            (86_400_000, 3_600_000),
            (365 * 86_400_000, 28 * 86_400_000),
            (1 << 47, 36_400 * 86_400_000),
        ] {
            let mut times = Times::default();
            for part in 0..=100 {
                times.add(
                    start + span_ms / 100 * part + if part == 100 { span_ms % 100 } else { 0 },
                    part,
                );
            }
            let classes: Vec<_> = times.classes().collect();
            assert_eq!(times.step_ms(), step_ms, "{span_ms}");
            assert!(classes.len() as u64 <= CLASSES_MAX);
            assert_eq!(classes.iter().map(|(_, count)| count.records).sum::<u64>(), 101);
            assert_eq!(classes.iter().map(|(_, count)| count.bytes).sum::<u64>(), 5050);
            assert!(classes.iter().all(|(at, _)| at % step_ms == 0));
            assert!(classes[0].0 <= start && classes.last().unwrap().0 <= start + span_ms);
        }
    }
}
