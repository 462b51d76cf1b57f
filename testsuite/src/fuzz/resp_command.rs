//! The decoder of requests: the same commands and the same error however the bytes are cut, and memory by what arrived.

use idem_protocol::resp::ProtocolError;
use idem_protocol::resp::decode::{Decoder, Limits, Step};

use super::bytes::{pieces, plan};

/// Small, so that inputs of a few bytes reach every bound.
const LIMITS: Limits = Limits {
    bulk_bytes: 64,
    array_count: 16,
    inline_bytes: 48,
};

/// What came out of an input: commands, where each ended, and the error that ended it all.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    commands: Vec<(usize, Vec<Vec<u8>>)>,
    error: Option<ProtocolError>,
}

/// Any bytes as requests. Input: a plan of cuts (first byte: how many, up to 8), then the stream.
///
/// # Panics
/// When the decoder is wrong.
pub fn resp_command(mut data: &[u8]) {
    let cuts = plan(&mut data, 8);
    let whole = decode(data, &[], &LIMITS);
    assert_eq!(
        decode(data, cuts, &LIMITS),
        whole,
        "the result depends on how the input is cut"
    );
    assert_eq!(
        decode(data, &[0], &LIMITS),
        whole,
        "the result depends on being fed byte by byte"
    );
    // The bounds of a real server, too: none of them may make a shorter input mean something else, or nothing.
    decode(data, cuts, &Limits::with_bulk_bytes(16 << 20));
}

/// Feeds a decoder as a connection does: everything since the first byte of the current command, again and again.
fn decode(stream: &[u8], cuts: &[u8], limits: &Limits) -> Found {
    let mut found = Found::default();
    let mut decoder = Decoder::new();
    let (mut start, mut end) = (0, 0);
    for piece in pieces(stream, cuts) {
        end += piece.len();
        loop {
            let input = &stream[start..end];
            let step = decoder.step(input, limits);
            let held = decoder.held_bytes();
            // Positions take 8 bytes each, an argument at least 6 on the wire; a vector doubles. What is kept from
            // larger commands is bounded.
            assert!(
                held <= 16 * input.len() + (16 << 10),
                "{held} bytes are held for {} received",
                input.len()
            );
            match step {
                Step::Command { consumed } => {
                    assert!(consumed > 0 && consumed <= input.len());
                    let args = decoder.args(input);
                    assert!(!args.is_empty(), "a command has a name");
                    assert!(args.len() <= limits.array_count.max(limits.inline_bytes));
                    found
                        .commands
                        .push((start + consumed, args.iter().map(<[u8]>::to_vec).collect()));
                    start += consumed;
                }
                Step::Empty { consumed } => {
                    assert!(consumed > 0 && consumed <= input.len());
                    start += consumed;
                }
                Step::NeedMore { at_least } => {
                    assert!(at_least > 0, "it asks for nothing");
                    assert!(
                        at_least <= limits.bulk_bytes + 2,
                        "it asks for more than any argument has"
                    );
                    break;
                }
                Step::Error(error) => {
                    assert_eq!(decoder.step(input, limits), step, "an error is final");
                    let text = error.to_string();
                    assert!(!text.contains(['\r', '\n']), "an error is one line");
                    found.error = Some(error);
                    return found;
                }
            }
        }
    }
    found
}
