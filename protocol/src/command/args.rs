//! Reading single arguments: the helpers that every command's parser uses.

use std::ops::RangeInclusive;

pub use crate::resp::number::{parse_i64, parse_u64};

/// Whether `argument` is the keyword `word`, in any case.
pub fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// Reads an integer as [`parse_i64`] does; `None` also when it is outside `range`.
pub fn parse_i64_in(argument: &[u8], range: RangeInclusive<i64>) -> Option<i64> {
    parse_i64(argument).filter(|value| range.contains(value))
}

/// Whether `text` matches a pattern of `SCAN`, `KEYS` and `COMMAND LIST`: `*`, `?`, `[abc]`, `[a-z]`, `[^a]`, and `\`
/// for the next byte as it is. A class that is not closed ends with the pattern.
///
/// Iterative, with one place to go back to: a pattern from a client costs at most pattern × text, where a recursive
/// matcher can be made to take exponential time with a row of stars.
pub fn glob_matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut at, mut seen) = (0, 0);
    // After the last star: where the pattern goes on, and how much of the text the star has taken.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let rest = pattern.get(at..).unwrap_or_default();
        if let [b'*', ..] = rest {
            at += 1;
            retry = Some((at, seen));
            continue;
        }
        let byte = text.get(seen).copied();
        let step = match byte {
            None if rest.is_empty() => return true,
            // Only what a longer star could not help: the text is over.
            None => return false,
            Some(byte) => one_byte(rest, byte, ignore_case),
        };
        if let Some(used) = step {
            at += used;
            seen += 1;
        } else if let Some((after_star, taken)) = retry {
            at = after_star;
            seen = taken + 1;
            retry = Some((after_star, seen));
        } else {
            return false;
        }
    }
}

/// Matches the first unit of `pattern`, which is no star, with one byte; answers the pattern bytes of that unit.
fn one_byte(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    let fold = |byte: u8| {
        if ignore_case {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => {
            let (matched, used) = class_matches(class, fold(byte), fold);
            matched.then_some(used + 1)
        }
        [b'\\', literal, ..] => (fold(*literal) == fold(byte)).then_some(2),
        [literal, ..] => (fold(*literal) == fold(byte)).then_some(1),
    }
}

/// Whether a folded byte is in the class, and how many pattern bytes the class has, its `]` counted.
fn class_matches(class: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (bool, usize) {
    let (inverted, mut at) = if class.first() == Some(&b'^') {
        (true, 1)
    } else {
        (false, 0)
    };
    let mut found = false;
    loop {
        let used = match class.get(at..).unwrap_or_default() {
            [] => return (found != inverted, at),
            [b']', ..] => return (found != inverted, at + 1),
            [b'\\', literal, ..] => {
                found |= fold(*literal) == byte;
                2
            }
            [low, b'-', high, ..] => {
                let (low, high) = (fold(*low.min(high)), fold(*low.max(high)));
                found |= (low..=high).contains(&byte);
                3
            }
            [literal, ..] => {
                found |= fold(*literal) == byte;
                1
            }
        };
        at += used;
    }
}
