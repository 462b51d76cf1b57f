//! Changes to inputs, for runs without a fuzzer: seeded, and the same on every machine.

use crate::rng::Rng;

/// Bytes and words that stand near a bound of some format.
const WORDS: [&[u8]; 24] = [
    b"\r\n",
    b"\r",
    b"\n",
    b"\0",
    b"-1",
    b"0",
    b"1",
    b"-0",
    b"+1",
    b"2147483648",
    b"4294967295",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"*",
    b"$",
    b"\"",
    b"\\x",
    b"\xff",
    &[0xff; 4],
    &[0xff; 8],
    &[0, 0, 0, 0x80],
    &[1, 0, 0, 0],
    &[0; 8],
];

/// Changes `input` in one to eight places; `other` is a second input to take a part from. Never longer than `bytes_max`.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], bytes_max: usize, rng: &mut Rng) {
    for _ in 0..=rng.below(8) {
        change(input, other, rng);
    }
    input.truncate(bytes_max);
}

fn change(input: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let at = rng.index(input.len() + 1);
    match rng.below(8) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        1 => {
            let random = rng.next().to_le_bytes()[0];
            if let Some(byte) = input.get_mut(at) {
                *byte = random;
            }
        }
        // A neighbour: lengths and counts that are wrong by one.
        2 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = if rng.below(2) == 0 {
                    byte.wrapping_add(1)
                } else {
                    byte.wrapping_sub(1)
                };
            }
        }
        3 => insert(input, at, WORDS[rng.index(WORDS.len())]),
        4 => {
            let word = WORDS[rng.index(WORDS.len())];
            let end = (at + word.len()).min(input.len());
            input.splice(at..end, word.iter().copied());
        }
        5 => {
            let end = at + rng.index(input.len() - at + 1).min(64);
            input.drain(at..end);
        }
        6 => {
            let end = at + rng.index(input.len() - at + 1).min(256);
            let part = input[at..end].to_vec();
            let place = rng.index(input.len() + 1);
            insert(input, place, &part);
        }
        _ => {
            let from = rng.index(other.len() + 1);
            let to = from + rng.index(other.len() - from + 1).min(256);
            insert(input, at, &other[from..to]);
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, part: &[u8]) {
    input.splice(at..at, part.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::mutate;
    use crate::rng::Rng;

    #[test]
    fn the_same_seed_makes_the_same_inputs_within_the_bound() {
        let run = || {
            let (mut rng, mut input) = (Rng::new(7), Vec::new());
            let mut all = Vec::new();
            for _ in 0..500 {
                mutate(&mut input, b"*1\r\n$4\r\nPING\r\n", 300, &mut rng);
                assert!(input.len() <= 300);
                all.push(input.clone());
            }
            all
        };
        let all = run();
        assert_eq!(all, run());
        let mut different = all.clone();
        different.sort();
        different.dedup();
        assert!(
            different.len() > 450,
            "{} of {} differ",
            different.len(),
            all.len()
        );
    }
}
