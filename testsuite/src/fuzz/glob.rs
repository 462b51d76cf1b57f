//! Patterns of KEYS and SCAN: the matcher against the definition, and its bound on time.

use idem_protocol::command::args::{glob_matches, parse_i64, parse_u64};

use super::bytes::byte;

/// Any bytes as a pattern and a text, and as a number. Input: the pattern's length, pattern, text.
///
/// # Panics
/// When the matcher or a reader of numbers is wrong.
pub fn glob(mut data: &[u8]) {
    number(data);
    let length = usize::from(byte(&mut data)).min(data.len());
    let (pattern, text) = data.split_at(length);
    let matches = glob_matches(pattern, text, false);
    assert_eq!(matches, defined(pattern, text), "{pattern:02x?} on {text:02x?}");
    // Without regard to case there are only more matches, for patterns without classes.
    if !pattern.contains(&b'[') {
        assert!(!matches || glob_matches(pattern, text, true));
    }
    glob_matches(pattern, text, true);
}

/// An integer is taken in one spelling only.
fn number(text: &[u8]) {
    if let Some(value) = parse_i64(text) {
        assert_eq!(value.to_string().as_bytes(), text);
    }
    if let Some(value) = parse_u64(text) {
        assert_eq!(value.to_string().as_bytes(), text);
    }
}

/// The definition, unit by unit: which lengths of the text the pattern so far can have taken. No going back, and so no
/// shortcut that the matcher could share.
fn defined(mut pattern: &[u8], text: &[u8]) -> bool {
    // taken[n]: the pattern so far matches the first n bytes.
    let mut taken = vec![false; text.len() + 1];
    taken[0] = true;
    while let Some((&first, rest)) = pattern.split_first() {
        if first == b'*' {
            let mut any = false;
            for place in &mut taken {
                any |= *place;
                *place = any;
            }
            pattern = rest;
            continue;
        }
        let (unit, after) = match (first, rest) {
            (b'?', _) => (Unit::Any, rest),
            (b'\\', [byte, after @ ..]) => (Unit::Byte(*byte), after),
            (b'[', _) => class(rest),
            _ => (Unit::Byte(first), rest),
        };
        let mut next = vec![false; taken.len()];
        for (at, byte) in text.iter().enumerate() {
            next[at + 1] = taken[at] && unit.takes(*byte);
        }
        taken = next;
        pattern = after;
    }
    taken[text.len()]
}

enum Unit {
    Any,
    Byte(u8),
    Class { negated: bool, ranges: Vec<(u8, u8)> },
}

impl Unit {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Unit::Any => true,
            Unit::Byte(own) => *own == byte,
            Unit::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&byte)) != *negated
            }
        }
    }
}

/// A class, from behind its `[`; one that is not closed ends with the pattern.
fn class(rest: &[u8]) -> (Unit, &[u8]) {
    let (negated, mut rest) = match rest {
        [b'^', after @ ..] => (true, after),
        _ => (false, rest),
    };
    let mut ranges = Vec::new();
    loop {
        match rest {
            [] => break,
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [b'\\', byte, after @ ..] => {
                ranges.push((*byte, *byte));
                rest = after;
            }
            [low, b'-', high, after @ ..] => {
                ranges.push((*low.min(high), *low.max(high)));
                rest = after;
            }
            [byte, after @ ..] => {
                ranges.push((*byte, *byte));
                rest = after;
            }
        }
    }
    (Unit::Class { negated, ranges }, rest)
}
