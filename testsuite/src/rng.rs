//! Seeded choices. A test's whole plan comes from one number, so that a failure can be repeated.

/// The environment variable that replaces a test's own seed.
pub const SEED_VARIABLE: &str = "IDEM_SEED";

/// A small generator (SplitMix64): good enough for choices, the same on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// A generator of its own for part `index` of the plan, so that parts do not shift each other.
    pub fn part(&self, index: u64) -> Rng {
        let mut rng = Rng(self.0 ^ index.wrapping_add(1).wrapping_mul(0xD6E8_FEB8_6659_FD93));
        rng.next();
        rng
    }

    /// 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below 0");
        self.next() % bound
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "{low}..={high} is empty");
        low + self.below(high - low + 1)
    }

    /// An index of a slice of `len` elements.
    pub fn index(&mut self, len: usize) -> usize {
        let bound = u64::try_from(len).expect("a usize has at most 64 bits");
        usize::try_from(self.below(bound)).expect("it is below a usize")
    }
}

/// The seed of this run: `IDEM_SEED` when it is set, otherwise the test's own.
pub fn seed(default: u64) -> u64 {
    match std::env::var(SEED_VARIABLE) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{SEED_VARIABLE}={text} is no number")),
        Err(_) => default,
    }
}
