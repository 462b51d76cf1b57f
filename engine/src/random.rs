//! Numbers for choices that nobody must be able to foresee and that need no secrecy: which key RANDOMKEY names, which
//! entries a sample looks at.
//!
//! A counter that is mixed when it is read (splitmix64). The node has no randomness of its own: it is seeded with what it
//! was given for hashing, so a test that gives the same seed sees the same choices. No record and no state depends on it.

/// A stream of numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

/// The golden ratio in 64 bits: odd, so that the counter visits every number before one comes again.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// A stream that the four words choose together, and from which they cannot be computed.
    pub(crate) fn seeded(words: [u64; 4]) -> Self {
        Random(words.into_iter().fold(0, |state, word| mix(state ^ word)))
    }

    /// Moves on without a number: one addition.
    pub(crate) fn step(&mut self) {
        self.0 = self.0.wrapping_add(STEP);
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.step();
        mix(self.0)
    }

    /// A stream of its own for whoever may only look; another one after each [`Random::step`].
    pub(crate) const fn fork(self) -> Self {
        Random(mix(self.0 ^ STEP))
    }
}

/// Every bit of the result depends on every bit of `bits`; no two have the same result.
const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Random;

    #[test]
    fn a_seed_gives_one_stream_and_other_seeds_give_others() {
        let stream = |seed| {
            let mut random = Random::seeded(seed);
            std::array::from_fn::<u64, 8, _>(|_| random.next())
        };
        assert_eq!(stream([1, 2, 3, 4]), stream([1, 2, 3, 4]));
        for other in [[0, 0, 0, 0], [2, 1, 3, 4], [1, 2, 3, 5]] {
            assert_ne!(stream([1, 2, 3, 4]), stream(other));
        }
    }

    #[test]
    fn forks_of_different_steps_have_nothing_in_common() {
        let mut random = Random::seeded([5, 6, 7, 8]);
        let mut seen = HashSet::new();
        for _ in 0..1000 {
            let mut fork = random.fork();
            for _ in 0..8 {
                assert!(seen.insert(fork.next()));
            }
            random.step();
        }
    }

    /// Each bit is set in about half of the numbers.
    #[test]
    fn bits_are_even() {
        let mut random = Random::seeded([9, 9, 9, 9]);
        let mut set = [0_u32; 64];
        for _ in 0..4096 {
            let number = random.next();
            for (bit, count) in set.iter_mut().enumerate() {
                *count += u32::try_from(number >> bit & 1).unwrap();
            }
        }
        assert!(set.iter().all(|count| (1850..=2250).contains(count)), "{set:?}");
    }
}
