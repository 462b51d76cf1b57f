//! The decoder of replies, which clients of any server use: the same values however the bytes are cut, within its limits.

use idem_protocol::resp::ProtocolError;
use idem_protocol::resp::value::{ReplyDecoder, ReplyLimits, Value};

use super::bytes::{pieces, plan};

/// Small, so that inputs of a few bytes reach every bound.
const LIMITS: ReplyLimits = ReplyLimits {
    depth: 4,
    elements: 32,
    string_bytes: 64,
    line_bytes: 48,
    total_bytes: 512,
};

/// Any bytes as replies. Input: a plan of cuts (first byte: how many, up to 8), then the stream.
///
/// # Panics
/// When the decoder is wrong.
pub fn resp_value(mut data: &[u8]) {
    let cuts = plan(&mut data, 8);
    let whole = decode(data, &[], LIMITS);
    same(&decode(data, cuts, LIMITS), &whole);
    same(&decode(data, &[0], LIMITS), &whole);
    let generous = decode(data, cuts, ReplyLimits::default());
    for value in &whole.0 {
        assert!(
            depth(value) <= LIMITS.depth,
            "a reply is nested deeper than allowed: {value:?}"
        );
    }
    // Limits only ever refuse: what was read within them is read without them.
    assert!(generous.0.len() >= whole.0.len());
}

type Found = (Vec<Value>, Option<ProtocolError>);

fn decode(stream: &[u8], cuts: &[u8], limits: ReplyLimits) -> Found {
    let mut decoder = ReplyDecoder::with_limits(limits);
    let mut found = Vec::new();
    for piece in pieces(stream, cuts) {
        decoder.push(piece);
        loop {
            match decoder.next() {
                Ok(Some(value)) => found.push(value),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next(), Err(error), "an error is final");
                    return (found, Some(error));
                }
            }
        }
    }
    (found, None)
}

/// Compared as text: a NaN is not equal to itself, and here it should be.
fn same(found: &Found, whole: &Found) {
    assert_eq!(
        format!("{found:?}"),
        format!("{whole:?}"),
        "the result depends on how the input is cut"
    );
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => items.iter().map(depth).max(),
        Value::Map(pairs) => pairs
            .iter()
            .map(|(key, value)| depth(key).max(depth(value)))
            .max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}
