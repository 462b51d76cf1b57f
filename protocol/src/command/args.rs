//! Reading single arguments: the helpers that every command's parser uses.

use std::ops::RangeInclusive;

pub use super::glob::{Glob, glob_matches};
pub use crate::resp::number::{parse_i64, parse_u64};

/// Whether `argument` is the keyword `word`, in any case.
pub fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// Reads an integer as [`parse_i64`] does; `None` also when it is outside `range`.
pub fn parse_i64_in(argument: &[u8], range: RangeInclusive<i64>) -> Option<i64> {
    parse_i64(argument).filter(|value| range.contains(value))
}
