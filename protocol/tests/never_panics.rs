//! Hostile bytes for every decoder: none may panic, none may take two spellings of one value, and what a checksum covers
//! may not change by a bit.
//!
//! Method: every golden vector is cut at every byte, has every bit flipped, and has every place overwritten with the
//! lengths that broke others (0, 1, what is left and its neighbours, 2^31, 2^32 − 1), once with the checksums as they
//! were and once with checksums put right, so that only the layout can object.

mod support;

use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::{Opcode, RECORD_HEADER_BYTES};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use support::formats::{FORMATS, Format, reseal_record};

/// Lets every format try the bytes as they are, and with checksums put right.
fn try_all(input: &[u8]) {
    for format in &FORMATS {
        try_both(format, input);
    }
    let _ = SnapshotTrailer::decode(input);
    // A body by itself, under each opcode there is, and under some that there are not.
    let mut record = vec![0; RECORD_HEADER_BYTES];
    record.extend_from_slice(input);
    for opcode in Opcode::ALL
        .into_iter()
        .map(Opcode::to_byte)
        .chain([0, 8, 31, 33, 51, 52, 54, 255])
    {
        record[22] = opcode;
        reseal_record(&mut record);
        let taken = FORMATS[2].try_read(&record);
        assert!(
            !taken || Opcode::from_byte(opcode).is_some(),
            "an unknown opcode is never taken"
        );
    }
}

fn try_both(format: &Format, input: &[u8]) {
    format.try_read(input);
    let mut resealed = input.to_vec();
    (format.reseal)(&mut resealed);
    format.try_read(&resealed);
}

#[test]
fn cut_at_every_byte() {
    for format in &FORMATS {
        for vector in format.vectors() {
            // Of a segment's page only the first copy is read, and of a frame not the padding.
            let needed = (format.covered)(&vector.bytes).end;
            for cut in 0..vector.bytes.len() {
                let taken = format.try_read(&vector.bytes[..cut]);
                assert!(
                    !taken || cut >= needed && needed > 0,
                    "{} [{}] cut at {cut}",
                    format.file,
                    vector.name
                );
                try_both(format, &vector.bytes[..cut]);
            }
        }
    }
}

#[test]
fn every_bit_flipped() {
    for format in &FORMATS {
        for vector in format.vectors() {
            let covered = (format.covered)(&vector.bytes);
            for at in 0..vector.bytes.len() {
                for bit in 0..8 {
                    let mut flipped = vector.bytes.clone();
                    flipped[at] ^= 1 << bit;
                    let taken = format.try_read(&flipped);
                    assert!(
                        !(taken && covered.contains(&at)),
                        "{} [{}] byte {at} bit {bit}",
                        format.file,
                        vector.name
                    );
                    // The second half of a segment's page is not read, so nothing is left to learn there.
                    if at < 2048 {
                        try_both(format, &flipped);
                    }
                }
            }
        }
    }
}

#[test]
fn hostile_lengths_at_every_place() {
    for format in &FORMATS {
        for vector in format.vectors() {
            let size = vector.bytes.len().min(1024);
            for at in 0..size {
                let left = u32::try_from(vector.bytes.len() - at).unwrap();
                let near = [4, 5, 8, 24, 32].map(|less| left.saturating_sub(less));
                let lengths = [
                    0,
                    1,
                    left - 1,
                    left,
                    left + 1,
                    1 << 31,
                    (1 << 31) - 1,
                    u32::MAX - 1,
                    u32::MAX,
                ];
                for length in lengths.into_iter().chain(near) {
                    let mut changed = vector.bytes.clone();
                    let end = (at + 4).min(changed.len());
                    changed[at..end].copy_from_slice(&length.to_le_bytes()[..end - at]);
                    try_both(format, &changed);
                }
                for value in [0, 1 << 48, 1 << 63, (1 << 56) - 1, u64::MAX - 1, u64::MAX] {
                    let mut changed = vector.bytes.clone();
                    let end = (at + 8).min(changed.len());
                    changed[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
                    try_both(format, &changed);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000, rng_seed: RngSeed::Fixed(0x1de_0002), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn random_bytes(input in prop::collection::vec(any::<u8>(), 0..400)) {
        try_all(&input);
    }

    /// Few different small bytes: lengths and counts that nearly fit are common among them.
    #[test]
    fn small_bytes(input in prop::collection::vec(prop_oneof![Just(0u8), 1..6u8, Just(255)], 0..120)) {
        try_all(&input);
    }

    /// Good beginnings with random ends.
    #[test]
    fn vectors_with_other_ends(
        which in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>(),
        end in prop::collection::vec(any::<u8>(), 0..80)
    ) {
        let format = which.get(&FORMATS);
        for vector in format.vectors() {
            let mut input = vector.bytes[..cut.index(vector.bytes.len())].to_vec();
            input.extend_from_slice(&end);
            try_both(format, &input);
        }
    }
}
