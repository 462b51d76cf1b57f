//! Values on the command line: what is accepted, and what is said about the rest.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::builder::{OsStringValueParser, TypedValueParser};
use idem_protocol::escape::{UnescapeError, unescape};
use idem_protocol::wal::Opcode;
use idem_protocol::{Lsn, UnixMs};
use jiff::Timestamp;

/// Any bytes; a type of its own, because the command line takes a plain vector for a list of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// For a key or a part of one.
pub(crate) fn bytes() -> impl TypedValueParser<Value = Bytes> {
    OsStringValueParser::new().try_map(|text: OsString| unescape_bytes(text.as_bytes()).map(Bytes))
}

/// Bytes in the escaped form: `\xNN` for a byte, `\\` for a backslash, anything else stands for itself, also what is no UTF-8.
fn unescape_bytes(text: &[u8]) -> Result<Vec<u8>, UnescapeError> {
    let mut out = Vec::with_capacity(text.len());
    let mut begin = 0;
    for chunk in text.utf8_chunks() {
        // An escape is of plain letters, so none reaches from one part into the next.
        let valid = unescape(chunk.valid()).map_err(|error| UnescapeError { at: begin + error.at })?;
        out.extend_from_slice(&valid);
        out.extend_from_slice(chunk.invalid());
        begin += chunk.valid().len() + chunk.invalid().len();
    }
    Ok(out)
}

/// A position in the log.
pub(crate) fn lsn(text: &str) -> Result<Lsn, String> {
    text.parse()
        .map(Lsn::new)
        .map_err(|_| "a position in the log is a number of bytes, 0 to 2^64 - 1".to_owned())
}

/// The kind of a record, by its number or by its name in any case.
pub(crate) fn opcode(text: &str) -> Result<Opcode, String> {
    let by_name = Opcode::ALL
        .into_iter()
        .find(|opcode| opcode.name().eq_ignore_ascii_case(text));
    let by_number = || text.parse().ok().and_then(Opcode::from_byte);
    by_name.or_else(by_number).ok_or_else(|| {
        let known = Opcode::ALL.map(|opcode| format!("{} {}", opcode.to_byte(), opcode.name()));
        format!("no such kind of record; there are {}", known.join(", "))
    })
}

/// Unix milliseconds, or RFC 3339 **with an offset**: without one, the same words would mean another moment on another
/// machine. Fractions beyond the millisecond are cut off.
pub(crate) fn time(text: &str) -> Result<UnixMs, String> {
    let outside = || {
        format!(
            "outside of the times that a log can have, 0 to {} Unix ms",
            UnixMs::MAX
        )
    };
    let ms = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().map_err(|_| outside())?
    } else {
        let stamp = rfc3339(text)?;
        u64::try_from(stamp.as_millisecond()).map_err(|_| outside())?
    };
    if ms > UnixMs::MAX.get() {
        return Err(outside());
    }
    Ok(UnixMs::new(ms))
}

/// The parser behind takes more than RFC 3339: offsets up to a day and more, offsets in seconds, names of zones that it then
/// ignores. Whoever writes one of these may mean something else.
fn rfc3339(text: &str) -> Result<Timestamp, String> {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let (head, rest) = text.as_bytes().split_at(FORM.len().min(text.len()));
    let is_form = |text: &[u8], form: &[u8]| {
        let is_alike = |(byte, like): (&u8, &u8)| match like {
            b'0' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b't' | b' '),
            other => byte == other,
        };
        text.len() == form.len() && text.iter().zip(form).all(is_alike)
    };
    let fraction_bytes = match rest.strip_prefix(b".") {
        Some(digits) => 1 + digits.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        None => 0,
    };
    let (fraction, offset) = rest.split_at(fraction_bytes);
    let is_utc = matches!(offset, b"Z" | b"z");
    let is_offset = is_form(offset, b"+00:00") || is_form(offset, b"-00:00");
    if !is_form(head, FORM) || fraction.len() == 1 || !(is_utc || is_offset) {
        return Err(
            "neither Unix milliseconds nor RFC 3339 with an offset, such as 2026-01-31T12:00:00Z or \
             2026-01-31T13:00:00.250+01:00"
                .to_owned(),
        );
    }
    // Digits of equal number stand in the order of their values.
    if is_offset && (offset[1..3] > b"23"[..] || offset[4..6] > b"59"[..]) {
        return Err("an offset reaches from -23:59 to +23:59".to_owned());
    }
    // Nanoseconds are as fine as the parser goes.
    let finest = FORM.len() + fraction.len().min(10);
    let offset_at = FORM.len() + fraction.len();
    format!("{}{}", &text[..finest], &text[offset_at..])
        .parse()
        .map_err(|_| "there is no such day or time of day".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_as_they_are_and_escapes_among_them() {
        for (text, expected) in [
            (&b""[..], Some(&b""[..])),
            (b"plain", Some(b"plain")),
            (b"\\x00\\\\", Some(b"\x00\\")),
            (b"\xff\xfe", Some(b"\xff\xfe")),
            (b"a\\x00\xffb\\\\\xc3", Some(b"a\x00\xffb\\\xc3")),
            (b"\xff\\q", None),
            (b"\\\xff", None),
            (b"\\x\xff", None),
            (b"\\x0\xff", None),
        ] {
            assert_eq!(unescape_bytes(text).ok().as_deref(), expected, "{text:02x?}");
        }
        assert_eq!(unescape_bytes(b"\xff\xff\\q"), Err(UnescapeError { at: 2 }));
    }

    fn check_time(text: &str, expected: Option<u64>) {
        assert_eq!(time(text).ok().map(UnixMs::get), expected, "{text:?}");
    }

    #[test]
    fn times_are_milliseconds_or_have_an_offset() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1767225600007", Some(1_767_225_600_007)),
            ("281474976710655", Some(281_474_976_710_655)),
            ("281474976710656", None),
            ("99999999999999999999", None),
            ("2026-01-01T00:00:00Z", Some(1_767_225_600_000)),
            ("2026-01-01T01:00:00+01:00", Some(1_767_225_600_000)),
            ("2025-12-31T19:00:00.0079-05:00", Some(1_767_225_600_007)),
            ("2026-01-01T00:00:00", None),
            ("2026-01-01 00:00:00", None),
            ("2026-01-01", None),
            // The offsets that RFC 3339 knows.
            ("2026-01-01T23:59:00+23:59", Some(1_767_225_600_000)),
            ("2025-12-31T00:01:00-23:59", Some(1_767_225_600_000)),
            ("2026-01-01T00:00:00-00:00", Some(1_767_225_600_000)),
            ("2026-01-01t00:00:00.0z", Some(1_767_225_600_000)),
            ("2026-01-01T00:00:00.0079999999999Z", Some(1_767_225_600_007)),
            ("2026-01-01 00:00:00Z", Some(1_767_225_600_000)),
            ("2026-01-01T00:00:00+24:00", None),
            ("2026-01-01T00:00:00-25:00", None),
            ("2026-01-01T00:00:00+01:60", None),
            ("2026-01-01T00:00:00+99:99", None),
            // What is no RFC 3339, and other standards have.
            ("2026-01-01T00:00:00+01", None),
            ("2026-01-01T00:00:00+0100", None),
            ("2026-01-01T00:00:00+01:00:30", None),
            ("2026-01-01T00:00:00+01:00[Asia/Tokyo]", None),
            ("2026-01-01T00:00:00Z[Asia/Tokyo]", None),
            ("2026-01-01T00:00Z", None),
            ("20260101T000000Z", None),
            ("+002026-01-01T00:00:00Z", None),
            ("2026-01-01T00:00:00,5Z", None),
            ("2026-01-01T00:00:00.Z", None),
            ("2026-01-01T00:00:00\u{2212}01:00", None),
            ("２026-01-01T00:00:00Z", None),
            // Right in form, and in no calendar.
            ("2026-02-29T00:00:00Z", None),
            ("2026-01-01T24:00:00Z", None),
            ("2026-01-01T00:60:00Z", None),
            ("1969-12-31T23:59:59Z", None),
            ("-1", None),
            ("+1", None),
            ("", None),
            ("now", None),
        ] {
            check_time(text, expected);
        }
    }

    #[test]
    fn what_is_printed_as_a_time_is_accepted_as_one() {
        for ms in [0, 1, 999, 1_767_225_600_007, 253_402_207_199_999] {
            let printed = crate::text::Time::from(UnixMs::new(ms)).to_string();
            check_time(&printed, Some(ms));
        }
    }

    #[test]
    fn kinds_have_numbers_and_names() {
        for (text, expected) in [
            ("53", Some(Opcode::IdempotencyPut)),
            ("IdempotencyPut", Some(Opcode::IdempotencyPut)),
            ("idempotencyput", Some(Opcode::IdempotencyPut)),
            ("1", Some(Opcode::StringPut)),
            ("0", None),
            ("54", None),
            ("256", None),
            ("", None),
        ] {
            assert_eq!(opcode(text).ok(), expected, "{text:?}");
        }
    }
}
