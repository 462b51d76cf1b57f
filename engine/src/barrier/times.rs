//! When the log's time moved, and by which record.
//!
//! Expiry writes nothing, so "it has ended" is known to a restart only through the time of some record. This is the list
//! of the records that brought a new time, from the position that matters on: at most one a millisecond.

use std::collections::VecDeque;

use idem_protocol::{Lsn, UnixMs};

/// The steps of the log's time above a position.
#[derive(Clone, Debug)]
pub struct LogTimes {
    /// The log's time at the position up to which steps were forgotten.
    base: UnixMs,
    /// Records that brought a later time than any before: strictly rising in all three fields.
    steps: VecDeque<Step>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    start: Lsn,
    end: Lsn,
    time: UnixMs,
}

impl LogTimes {
    /// A log whose newest record is of `time` and settled.
    pub const fn new(time: UnixMs) -> Self {
        LogTimes {
            base: time,
            steps: VecDeque::new(),
        }
    }

    /// The time of the newest record.
    pub fn newest(&self) -> UnixMs {
        self.steps.back().map_or(self.base, |step| step.time)
    }

    /// A record from `start` to `end` was appended.
    pub fn append(&mut self, start: Lsn, end: Lsn, time: UnixMs) {
        let newest = self.newest();
        assert!(time >= newest, "the log's time went back from {newest} to {time}");
        if time > newest {
            self.steps.push_back(Step { start, end, time });
        }
    }

    /// Nothing at or below `position` will be asked for again, except as "at or below".
    pub fn forget(&mut self, position: Lsn) {
        while let Some(step) = self.steps.front().filter(|step| step.end <= position) {
            self.base = step.time;
            self.steps.pop_front();
        }
    }

    /// How much memory the steps take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.steps.len() * size_of::<Step>()
    }

    /// The log's time at `position`.
    pub fn at(&self, position: Lsn) -> UnixMs {
        let passed = self.steps.partition_point(|step| step.end <= position);
        passed
            .checked_sub(1)
            .and_then(|last| self.steps.get(last))
            .map_or(self.base, |step| step.time)
    }

    /// The end of the record that brought the log's time to `time` or beyond, zero when that was forgotten.
    ///
    /// # Panics
    /// When the log's time has not come to `time`: nothing brought it.
    pub fn brought_by(&self, time: u64) -> Lsn {
        assert!(
            time <= self.newest().get(),
            "the log's time has not come to {time}"
        );
        if self.base.get() >= time {
            return Lsn::ZERO;
        }
        let first = self.steps.partition_point(|step| step.time.get() < time);
        self.steps.get(first).map_or(Lsn::ZERO, |step| step.end)
    }

    /// The time of the oldest record above `position` in a log that ends at `appended`, if there is one.
    pub fn oldest_above(&self, position: Lsn, appended: Lsn) -> Option<UnixMs> {
        if position >= appended {
            return None;
        }
        let next = self.steps.partition_point(|step| step.end <= position);
        match self.steps.get(next) {
            // The record right above the position is the one that brought the time.
            Some(step) if step.start <= position => Some(step.time),
            _ => Some(self.at(position)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the plain list of all records, asked at every record boundary from the forgotten position on.
        #[test]
        fn agrees_with_the_list_of_records(
            gaps in proptest::collection::vec((0..3_u64, 1..3_u64), 0..40),
            forgotten in 0..40_usize,
        ) {
            let mut times = LogTimes::new(UnixMs::new(100));
            let mut records = vec![(Lsn::ZERO, UnixMs::new(100))];
            for (gap, bytes) in gaps {
                let (start, last) = *records.last().unwrap();
                let (end, time) = (start.plus(bytes * 24), UnixMs::new(last.get() + gap));
                times.append(start, end, time);
                records.push((end, time));
            }
            let from = forgotten.min(records.len() - 1);
            times.forget(records[from].0);
            let (appended, newest) = *records.last().unwrap();
            prop_assert_eq!(times.newest(), newest);
            for index in from..records.len() {
                let (end, time) = records[index];
                prop_assert_eq!(times.at(end), time);
                prop_assert_eq!(times.oldest_above(end, appended), records.get(index + 1).map(|next| next.1));
            }
            for asked in 0..=newest.get() {
                let by = records.iter().find(|(_, time)| time.get() >= asked).unwrap().0;
                let told = times.brought_by(asked);
                prop_assert!(told == by || (by <= records[from].0 && told == Lsn::ZERO));
            }
        }
    }
}
