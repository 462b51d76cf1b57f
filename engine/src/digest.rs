//! One number for the content of a keyspace: equal states have equal digests, on any node and after any history.
//!
//! Each live entry is hashed by itself (xxh3, 128 bits) over `database u8 | type u8 | deadline u64 | key length u64 | key |
//! value`, and the hashes are added up. A sum does not depend on the order of the entries, so neither the seed of the
//! tables nor splits nor the moment of reclaiming shows in it. The value of a hash is `count u64` and the sum of the
//! fields' hashes, each over `field length u64 | field | value`. Integers are little-endian.
//!
//! This is a check against faults of ours, not against somebody who constructs collisions.

use std::fmt;

use idem_protocol::UnixMs;
use xxhash_rust::xxh3::Xxh3Default;

use crate::keyspace::{EntryRef, HashValue, Keyspace, ValueRef};

/// The digest of a state. Displays as 32 hexadecimal digits; all zeros is the empty state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 16]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Digests what is live at `log_time`. Reads everything: for tools and tests, not for a serving node.
pub fn digest(keyspace: &Keyspace, log_time: UnixMs) -> Digest {
    let live = keyspace
        .iter()
        .filter(|(_, entry)| !entry.deadline().has_ended(log_time));
    let sum = live.fold(0_u128, |sum, (db, entry)| {
        sum.wrapping_add(digest_entry(db, entry))
    });
    Digest(sum.to_be_bytes())
}

const TYPE_STRING: u8 = 0;
const TYPE_HASH: u8 = 1;

fn digest_entry(db: u8, entry: EntryRef<'_>) -> u128 {
    let mut hasher = Xxh3Default::new();
    let kind = match entry.value() {
        ValueRef::String(_) => TYPE_STRING,
        ValueRef::Hash(_) => TYPE_HASH,
    };
    hasher.update(&[db, kind]);
    hasher.update(&entry.deadline().get().to_le_bytes());
    update_with_length(&mut hasher, entry.key());
    match entry.value() {
        ValueRef::String(value) => hasher.update(value),
        ValueRef::Hash(value) => {
            hasher.update(&length(value.len()).to_le_bytes());
            hasher.update(&sum_of_fields(value).to_le_bytes());
        }
    }
    hasher.digest128()
}

fn sum_of_fields(value: &HashValue) -> u128 {
    value.iter().fold(0, |sum, (field, content)| {
        let mut hasher = Xxh3Default::new();
        update_with_length(&mut hasher, field);
        hasher.update(content);
        sum.wrapping_add(hasher.digest128())
    })
}

fn update_with_length(hasher: &mut Xxh3Default, bytes: &[u8]) {
    hasher.update(&length(bytes.len()).to_le_bytes());
    hasher.update(bytes);
}

fn length(n: usize) -> u64 {
    u64::try_from(n).expect("what is in memory can be counted in 64 bits")
}

#[cfg(test)]
mod tests {
    use idem_protocol::Deadline;
    use idem_protocol::wal::Record;

    use super::*;

    fn state(seed: u64, records: &[(u8, Record<'_>)]) -> Keyspace {
        let mut keyspace = Keyspace::new(16, [seed; 4]);
        records
            .iter()
            .for_each(|(db, record)| keyspace.apply(UnixMs::new(5), *db, record));
        keyspace
    }

    const NOW: UnixMs = UnixMs::new(10);

    type Fields = &'static [(&'static [u8], &'static [u8])];

    fn string<'a>(key: &'a [u8], value: &'a [u8], deadline: u64) -> Record<'a> {
        Record::StringPut {
            key,
            deadline: Deadline::at(deadline),
            value,
        }
    }

    /// Each of these states is another one.
    #[test]
    fn tells_states_apart() {
        let hash = |pairs: &[(u8, Fields)]| {
            let records = pairs.iter().map(|(db, fields)| {
                (
                    *db,
                    Record::HashPut {
                        key: b"k",
                        deadline: Deadline::NONE,
                        fields: (*fields).into(),
                    },
                )
            });
            digest(&state(1, &records.collect::<Vec<_>>()), NOW)
        };
        let digests = [
            digest(&state(1, &[]), NOW),
            digest(&state(1, &[(0, string(b"k", b"v", 0))]), NOW),
            digest(&state(1, &[(1, string(b"k", b"v", 0))]), NOW),
            digest(&state(1, &[(0, string(b"k", b"v", 11))]), NOW),
            digest(&state(1, &[(0, string(b"kv", b"", 0))]), NOW),
            digest(&state(1, &[(0, string(b"", b"kv", 0))]), NOW),
            digest(
                &state(1, &[(0, string(b"k", b"v", 0)), (0, string(b"l", b"v", 0))]),
                NOW,
            ),
            hash(&[(0, &[(b"f", b"v")])]),
            hash(&[(0, &[(b"fv", b"")])]),
            hash(&[(0, &[(b"f", b"v"), (b"g", b"v")])]),
            hash(&[(0, &[(b"f", b"v")]), (2, &[(b"f", b"v")])]),
        ];
        for (n, one) in digests.iter().enumerate() {
            for other in &digests[..n] {
                assert_ne!(one, other);
            }
        }
    }

    #[test]
    fn order_seed_and_ended_entries_do_not_count() {
        let one = state(1, &[(0, string(b"a", b"1", 0)), (3, string(b"b", b"2", 99))]);
        let two = state(
            2,
            &[
                (3, string(b"b", b"2", 99)),
                (0, string(b"a", b"1", 0)),
                (0, string(b"c", b"", 10)),
            ],
        );
        assert_eq!(digest(&one, NOW), digest(&two, NOW));
        assert_ne!(digest(&one, UnixMs::new(9)), digest(&two, UnixMs::new(9)));
    }

    /// The encoding is the same in every build; `walctl replay` of two versions can be compared.
    #[test]
    fn known_values() {
        assert_eq!(
            digest(&state(1, &[]), NOW).to_string(),
            "00000000000000000000000000000000"
        );
        let one = state(1, &[(0, string(b"key", b"value", 1_700_000_000_000))]);
        assert_eq!(digest(&one, NOW).to_string(), KNOWN_STRING);
    }

    const KNOWN_STRING: &str = "2818e0f4b88e98406a1d6976f988a8ee";
}
