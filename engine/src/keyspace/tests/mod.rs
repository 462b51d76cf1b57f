//! The keyspace as a whole, against a naive model and under chosen hashes.

mod growth;
mod index;
mod model;
pub(crate) mod operations;
mod same_as_model;
mod scanning;

use super::Keyspace;
use super::hasher::KeyHasher;

impl Keyspace {
    /// A keyspace whose hashes the test chooses.
    pub(crate) fn with_chosen_hashes(hash: fn(&[u8]) -> u64) -> Self {
        Self::with_hasher(16, KeyHasher::Chosen(hash))
    }

    /// Walks tables and wheels and checks that they agree.
    pub(crate) fn check(&self) {
        self.existing().for_each(|(_, database)| database.check());
    }
}

/// Keyspaces that have to behave alike: an ordinary one, one with five hashes only, and one where all bits but the lowest
/// agree.
pub(crate) fn keyspaces() -> [Keyspace; 3] {
    [
        Keyspace::new(16, [1, 2, 3, 4]),
        Keyspace::with_chosen_hashes(|key| (sum(key) % 5) << 62),
        Keyspace::with_chosen_hashes(|key| u64::MAX - sum(key) % 2),
    ]
}

fn sum(key: &[u8]) -> u64 {
    key.iter()
        .fold(7, |sum, byte| sum * 31 % 1_000_003 + u64::from(*byte))
}
