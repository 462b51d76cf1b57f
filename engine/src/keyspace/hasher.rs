//! The keyed hash of keys and of the fields of large hashes.

use ahash::RandomState;

/// A hash that clients cannot steer: they do not know the seed.
#[derive(Clone, Debug)]
pub(super) enum KeyHasher {
    Seeded(RandomState),
    /// Chosen hashes, to build collisions and crowded partitions.
    #[cfg(test)]
    Chosen(fn(&[u8]) -> u64),
}

impl KeyHasher {
    pub(super) fn seeded(seed: [u64; 4]) -> Self {
        let [a, b, c, d] = seed;
        Self::Seeded(RandomState::with_seeds(a, b, c, d))
    }

    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        match self {
            Self::Seeded(state) => state.hash_one(bytes),
            #[cfg(test)]
            Self::Chosen(hash) => hash(bytes),
        }
    }
}
