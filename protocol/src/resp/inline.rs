//! Inline commands: a line of words with the quoting rules of Redis's own clients.
//!
//! Words are separated by blanks. `"…"` understands `\n \r \t \b \a \xHH` and takes any other escaped byte as itself;
//! `'…'` understands only `\'`. A quote may open inside a word (`a"b c"` is `ab c`) and ends the word: a closing quote
//! must be followed by a blank or the end of the line. Everything is bytes; there is no character set.

use super::args::Range;
use super::error::ProtocolError;

/// Splits `line` (without its line end) into unescaped words, appended to `text`, with their places in `ranges`.
/// Both are cleared first and never grow beyond the line's own length.
pub(super) fn split(line: &[u8], text: &mut Vec<u8>, ranges: &mut Vec<Range>) -> Result<(), ProtocolError> {
    text.clear();
    ranges.clear();
    let mut rest = line;
    loop {
        while let [blank, tail @ ..] = rest
            && is_blank(*blank)
        {
            rest = tail;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let start = text.len();
        rest = word(rest, text)?;
        let range = Range {
            start: position(start)?,
            end: position(text.len())?,
        };
        ranges.push(range);
    }
}

/// Takes one word from the front of `rest`, which is not blank; answers what follows it.
fn word<'l>(mut rest: &'l [u8], text: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        match rest {
            // Vertical tab and form feed separate words only in front of one: so does Redis.
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            [b'"', tail @ ..] => return double_quoted(tail, text),
            [b'\'', tail @ ..] => return single_quoted(tail, text),
            [byte, tail @ ..] => {
                text.push(*byte);
                rest = tail;
            }
        }
    }
}

fn double_quoted<'l>(mut rest: &'l [u8], text: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        rest = match rest {
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                text.push(hex(*high) << 4 | hex(*low));
                tail
            }
            [b'\\', escaped, tail @ ..] => {
                text.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                tail
            }
            [b'"', tail @ ..] => return closed(tail),
            [byte, tail @ ..] => {
                text.push(*byte);
                tail
            }
            [] => return Err(ProtocolError::UnbalancedQuotes),
        }
    }
}

fn single_quoted<'l>(mut rest: &'l [u8], text: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        rest = match rest {
            [b'\\', b'\'', tail @ ..] => {
                text.push(b'\'');
                tail
            }
            [b'\'', tail @ ..] => return closed(tail),
            [byte, tail @ ..] => {
                text.push(*byte);
                tail
            }
            [] => return Err(ProtocolError::UnbalancedQuotes),
        }
    }
}

/// Behind a closing quote: the word is over, and something must separate it from the next.
fn closed(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !is_blank(*byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => 0,
    }
}

fn position(at: usize) -> Result<u32, ProtocolError> {
    u32::try_from(at).map_err(|_| ProtocolError::RequestTooLong)
}
