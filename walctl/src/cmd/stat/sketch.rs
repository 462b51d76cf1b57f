//! The keys with the most bytes, in bounded memory: a frequent-items sketch.
//!
//! Each key has a counter. When there are too many of them, the median of all counters is taken off each, and those that
//! are used up go: half of them at a time, so that a record costs the same however many keys there are. What was taken off
//! is the error: a counter is between the truth minus that and the truth, and a key that is not there has had no more than
//! that. (J. Misra and D. Gries, "Finding repeated elements", 1982; the step by the median: D. Anderson et al., "A
//! High-Performance Algorithm for Identifying Frequent Items in Data Streams", 2017.)

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// So many different keys are counted exactly.
pub(super) const KEYS_KEPT: usize = 1 << 16;
/// A longer key is held by its beginning, its length and a hash: memory must not depend on how long keys are.
const KEY_BYTES_KEPT: usize = 256;

/// A key in its database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    db: u8,
    /// All of a short key, the beginning of a long one.
    start: Box<[u8]>,
    /// Of the whole key.
    key_bytes: usize,
    /// Of the whole key, when it is a long one; else 0.
    hash: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    bytes: u64,
    records: u64,
}

/// A key among the largest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heavy {
    pub(super) db: u8,
    /// The key, or the beginning of a long one.
    pub(super) start: Box<[u8]>,
    /// Of the whole key.
    pub(super) key_bytes: usize,
    /// At least so many bytes.
    pub(super) bytes: u64,
    /// At least so many records.
    pub(super) records: u64,
}

/// Counts bytes by key.
#[derive(Debug)]
pub(super) struct Sketch {
    counters: HashMap<Name, Counter>,
    capacity: usize,
    taken_off: u64,
}

impl Sketch {
    /// Counts `capacity` different keys exactly.
    pub(super) fn new(capacity: usize) -> Sketch {
        Sketch {
            counters: HashMap::new(),
            capacity: capacity.max(1),
            taken_off: 0,
        }
    }

    /// A record of `bytes` bytes about a key.
    pub(super) fn add(&mut self, db: u8, key: &[u8], bytes: u64) {
        let kept = key.len().min(KEY_BYTES_KEPT);
        let name = Name {
            db,
            start: key[..kept].into(),
            key_bytes: key.len(),
            hash: if kept < key.len() { hash(key) } else { 0 },
        };
        let counter = self.counters.entry(name).or_default();
        counter.bytes += bytes;
        counter.records += 1;
        if self.counters.len() > self.capacity {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        let mut bytes: Vec<u64> = self.counters.values().map(|counter| counter.bytes).collect();
        let middle = bytes.len() / 2;
        let (_, median, _) = bytes.select_nth_unstable(middle);
        let median = *median;
        self.counters.retain(|_, counter| {
            counter.bytes = counter.bytes.saturating_sub(median);
            counter.bytes > 0
        });
        self.taken_off += median;
    }

    /// What may be missing from each number of bytes; 0 while they are exact.
    pub(super) fn missing_bytes_max(&self) -> u64 {
        self.taken_off
    }

    /// The `count` largest, the largest first. Once numbers are least numbers, only those that surely have more than every
    /// key that is not counted any more: the others are there by chance.
    pub(super) fn largest(&self, count: usize) -> Vec<Heavy> {
        let counters = self.counters.iter();
        let mut all: Vec<(&Name, &Counter)> = counters
            .filter(|(_, counter)| self.taken_off == 0 || counter.bytes > self.taken_off)
            .collect();
        all.sort_unstable_by(|(a, a_counter), (b, b_counter)| {
            // A fixed order among equals: the same log gives the same answer.
            b_counter
                .bytes
                .cmp(&a_counter.bytes)
                .then_with(|| (a.db, &a.start, a.key_bytes).cmp(&(b.db, &b.start, b.key_bytes)))
        });
        all.into_iter()
            .take(count)
            .map(|(name, counter)| Heavy {
                db: name.db,
                start: name.start.clone(),
                key_bytes: name.key_bytes,
                bytes: counter.bytes,
                records: counter.records,
            })
            .collect()
    }
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A stream of `(key, bytes)` that is the same each time.
    fn stream(seed: u64, length: usize) -> impl Iterator<Item = (u64, u64)> {
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        (0..length).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let draw = state >> 33;
            // A few keys again and again among many that come once.
            let key = if draw.is_multiple_of(4) { draw % 7 } else { draw };
            (key, 1 + draw % 100)
        })
    }

    #[test]
    fn numbers_are_exact_up_to_the_capacity() {
        let mut sketch = Sketch::new(3);
        for (key, bytes) in [(&b"a"[..], 5), (b"b", 7), (b"a", 4), (b"c", 1)] {
            sketch.add(0, key, bytes);
        }
        sketch.add(1, b"a", 0);
        let found: Vec<_> = sketch
            .largest(2)
            .iter()
            .map(|key| (key.start[0], key.bytes, key.records))
            .collect();
        assert_eq!(found, [], "the fourth key took 7 off each, and 2 are left of 9");
        assert_eq!(sketch.missing_bytes_max(), 7);
        sketch.add(0, b"a", 6);
        assert_eq!(sketch.largest(2)[0].bytes, 8, "more than any other can have had");

        let mut sketch = Sketch::new(4);
        sketch.add(0, b"a", 5);
        sketch.add(1, b"a", 6);
        sketch.add(0, b"a", 5);
        let found: Vec<_> = sketch
            .largest(9)
            .iter()
            .map(|key| (key.db, key.bytes, key.records))
            .collect();
        assert_eq!(
            (found, sketch.missing_bytes_max()),
            (vec![(0, 10, 2), (1, 6, 1)], 0)
        );
    }

    #[test]
    fn beyond_it_nothing_large_is_missed_and_nothing_is_overstated() {
        for seed in 0..20 {
            let mut sketch = Sketch::new(256);
            let mut truth: BTreeMap<u64, u64> = BTreeMap::new();
            for (key, bytes) in stream(seed, 20_000) {
                sketch.add(0, &key.to_le_bytes(), bytes);
                *truth.entry(key).or_default() += bytes;
                assert!(sketch.counters.len() <= 256);
            }
            let missing = sketch.missing_bytes_max();
            let number = |start: &[u8]| u64::from_le_bytes(start.try_into().unwrap());
            let counters = sketch.counters.iter();
            let found: BTreeMap<u64, u64> = counters
                .map(|(name, counter)| (number(&name.start), counter.bytes))
                .collect();
            for (key, bytes) in &truth {
                let counted = found.get(key).copied().unwrap_or(0);
                assert!(counted <= *bytes, "seed {seed}: {key} has {counted} of {bytes}");
                assert!(
                    counted + missing >= *bytes,
                    "seed {seed}: {key} has {counted} of {bytes}"
                );
            }
            // What is shown is larger than everything that is not held, and nothing much larger is left out.
            let shown: Vec<u64> = sketch
                .largest(usize::MAX)
                .iter()
                .map(|key| number(&key.start))
                .collect();
            for (key, bytes) in &truth {
                assert!(
                    *bytes <= 2 * missing || shown.contains(key),
                    "seed {seed}: {key} has {bytes}"
                );
                assert!(
                    *bytes > missing || !shown.contains(key),
                    "seed {seed}: {key} has {bytes}"
                );
            }
            assert!(shown.len() >= 5, "seed {seed}: {shown:?}");
            let total: u64 = truth.values().sum();
            assert!(missing <= total / 128, "seed {seed}: {missing} of {total}");
        }
    }

    #[test]
    fn long_keys_are_told_apart_and_not_held() {
        let mut sketch = Sketch::new(10);
        let key = |last: u8| [&[b'k'; 5000][..], &[last]].concat();
        sketch.add(0, &key(1), 30);
        sketch.add(0, &key(2), 20);
        sketch.add(0, &key(1), 1);
        let found = sketch.largest(10);
        assert_eq!(found.iter().map(|key| key.bytes).collect::<Vec<_>>(), [31, 20]);
        assert!(
            found
                .iter()
                .all(|key| key.key_bytes == 5001 && key.start.len() == KEY_BYTES_KEPT)
        );
    }
}
