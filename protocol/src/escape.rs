//! Binary bytes in JSON strings, messages and on the command line, and back.
//!
//! Printable UTF-8 stays as it is, a backslash is doubled, control characters (00–1f, 7f) and bytes that are no UTF-8
//! become `\xNN` in lower case. The text is unique for the bytes, so a key copied from any tool's output finds the key.
//!
//! U+0080 to U+009F are control characters too, which some terminals obey: they become their two bytes, `\xc2\x80` to
//! `\xc2\x9f`. Printed text is in the order of its bytes; what a terminal makes of marks for right-to-left text is its own.

use std::fmt::Write;

/// The text for `bytes`.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                control if control.is_control() => {
                    for byte in control.encode_utf8(&mut [0; 4]).bytes() {
                        push_hex(&mut out, byte);
                    }
                }
                other => out.push(other),
            }
        }
        for byte in chunk.invalid() {
            push_hex(&mut out, *byte);
        }
    }
    out
}

fn push_hex(out: &mut String, byte: u8) {
    write!(out, "\\x{byte:02x}").expect("writing to a string does not fail");
}

/// Why a text is not an escaped one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the backslash at byte {at} is followed by neither a backslash nor xNN")]
pub struct UnescapeError {
    /// Byte offset of the backslash.
    pub at: usize,
}

/// The bytes for a text. Hex digits of either case are taken; any other text stands for itself.
pub fn unescape(text: &str) -> Result<Vec<u8>, UnescapeError> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        match bytes.get(at + 1) {
            Some(b'\\') => {
                out.push(b'\\');
                at += 2;
            }
            Some(b'x') => {
                let digits = text
                    .get(at + 2..at + 4)
                    .filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()));
                let value = digits.and_then(|pair| u8::from_str_radix(pair, 16).ok());
                out.push(value.ok_or(UnescapeError { at })?);
                at += 4;
            }
            _ => return Err(UnescapeError { at }),
        }
    }
    Ok(out)
}
