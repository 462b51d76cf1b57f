//! Patterns of `SCAN`, `KEYS`, `CONFIG GET` and `COMMAND LIST`: `*`, `?`, `[abc]`, `[a-z]`, `[^a]`, and `\` for the next
//! byte as it is. A class that is not closed ends with the pattern.
//!
//! A pattern is read once, into *units* that each take one byte, and stars between them. What it is held against may be a
//! million keys: a class of a thousand bytes that were read again for each byte of each of them would stop everybody for
//! half a minute. So a unit is decided in constant time.
//!
//! Matching is iterative, with one place to go back to: a text costs at most its length times the smaller of its length
//! and the pattern's, where a recursive matcher can be made to take exponential time with a row of stars.
//!
//! Deliberately absent: a bound on a pattern's length (the caller's), and anything but bytes: `?` is one byte.

/// A pattern that has been read. Holds up to 40 bytes for each of its own.
#[derive(Debug, Clone)]
pub struct Glob {
    units: Vec<Unit>,
    ignore_case: bool,
}

#[derive(Debug, Clone)]
enum Unit {
    /// Any bytes, also none.
    Star,
    /// One byte, whatever it is.
    Any,
    /// This byte, folded.
    Byte(u8),
    /// A byte of this set, looked up folded.
    Class(ByteSet),
}

impl Glob {
    /// Reads `pattern`; every one means something.
    pub fn new(pattern: &[u8], ignore_case: bool) -> Glob {
        let fold = |byte| folded(byte, ignore_case);
        // Never more units than bytes; growing by doubling would keep room for twice as many.
        let mut units = Vec::with_capacity(pattern.len());
        let mut rest = pattern;
        loop {
            let (unit, after) = match rest {
                [] => break,
                [b'*', after @ ..] => (Unit::Star, after),
                [b'?', after @ ..] => (Unit::Any, after),
                [b'[', class @ ..] => {
                    let (set, after) = read_class(class, fold);
                    (Unit::Class(set), after)
                }
                [b'\\', literal, after @ ..] | [literal, after @ ..] => (Unit::Byte(fold(*literal)), after),
            };
            // A second star beside one changes nothing.
            if !matches!((units.last(), &unit), (Some(Unit::Star), Unit::Star)) {
                units.push(unit);
            }
            rest = after;
        }
        Glob { units, ignore_case }
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        let (mut at, mut seen) = (0, 0);
        // After the last star: where the pattern goes on, and how much of the text the star has taken.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let unit = self.units.get(at);
            if let Some(Unit::Star) = unit {
                at += 1;
                retry = Some((at, seen));
                continue;
            }
            let Some(byte) = text.get(seen) else {
                // With units left, a longer star could not help: the text is over.
                return unit.is_none();
            };
            if unit.is_some_and(|unit| unit.takes(folded(*byte, self.ignore_case))) {
                at += 1;
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
}

/// Whether `text` matches `pattern`, for a pattern that is needed once.
pub fn glob_matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    Glob::new(pattern, ignore_case).matches(text)
}

impl Unit {
    /// Whether this takes one byte, which is folded.
    fn takes(&self, byte: u8) -> bool {
        match self {
            // Takes any number of them and is asked for none.
            Unit::Star => false,
            Unit::Any => true,
            Unit::Byte(own) => *own == byte,
            Unit::Class(set) => set.contains(byte),
        }
    }
}

fn folded(byte: u8, ignore_case: bool) -> u8 {
    if ignore_case {
        byte.to_ascii_lowercase()
    } else {
        byte
    }
}

/// Reads what stands behind `[`; answers the set and what stands behind its `]`.
fn read_class(class: &[u8], fold: impl Fn(u8) -> u8) -> (ByteSet, &[u8]) {
    let (inverted, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut set = ByteSet::default();
    let after = loop {
        rest = match rest {
            [] => break rest,
            [b']', after @ ..] => break after,
            [b'\\', literal, after @ ..] => {
                set.insert(fold(*literal));
                after
            }
            [low, b'-', high, after @ ..] => {
                let (low, high) = (fold(*low.min(high)), fold(*low.max(high)));
                (low..=high).for_each(|byte| set.insert(byte));
                after
            }
            [literal, after @ ..] => {
                set.insert(fold(*literal));
                after
            }
        };
    };
    (if inverted { set.inverted() } else { set }, after)
}

/// A set of bytes: a bit for each.
#[derive(Debug, Clone, Default)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    fn inverted(self) -> ByteSet {
        ByteSet(self.0.map(|bits| !bits))
    }
}
