//! Reading a plan from the front of a fuzzer's input.
//!
//! The fuzzer learns best when one byte means one thing wherever it stands, and when a missing byte means something too:
//! everything here answers 0 at the end of the input.

/// The next byte.
pub(super) fn byte(input: &mut &[u8]) -> u8 {
    let Some((first, rest)) = input.split_first() else {
        return 0;
    };
    *input = rest;
    *first
}

/// Splits the input in two: a plan of up to `most` bytes, whose length the first byte says, and the rest.
pub(super) fn plan<'a>(input: &mut &'a [u8], most: u8) -> &'a [u8] {
    let count = usize::from(byte(input) % (most + 1)).min(input.len());
    let (plan, rest) = input.split_at(count);
    *input = rest;
    plan
}

/// Where `input` is cut: piece by piece, as the bytes of `plan` say, over and over. No plan: one piece.
pub(super) fn pieces<'a>(input: &'a [u8], plan: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut sizes = plan.iter().cycle().map(|size| usize::from(*size) + 1);
    let mut rest = input;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let size = sizes.next().unwrap_or(rest.len()).min(rest.len());
        let (piece, after) = rest.split_at(size);
        rest = after;
        Some(piece)
    })
}
