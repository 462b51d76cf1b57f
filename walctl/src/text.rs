//! How bytes and times look, in every command and in both kinds of output.

use std::fmt;

use idem_protocol::escape::escape;
use idem_protocol::{Deadline, UnixMs};
use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// Bytes in the escaped form, written piece by piece: a result of megabytes is never held a second time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

/// How many bytes are escaped at once.
const PIECE_BYTES: usize = 1 << 16;

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pieces(self.0, PIECE_BYTES).try_for_each(|piece| f.write_str(&escape(piece)))
    }
}

impl Serialize for Escaped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Cuts `bytes` into pieces of about `size` bytes, never within a character: each piece escapes to its part of the whole.
fn pieces(bytes: &[u8], size: usize) -> impl Iterator<Item = &[u8]> {
    assert!(size >= 4, "a piece has room for any character");
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // A character has at most three continuation bytes. Where four stand in a row the text is none anyway, and a cut
        // before the last of them parts nothing that belongs together.
        let continues = |at: usize| rest.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
        let cut = (0..4)
            .map(|back| size - back)
            .find(|at| !continues(*at))
            .unwrap_or(size)
            .min(rest.len());
        let (piece, after) = rest.split_at(cut);
        rest = after;
        Some(piece)
    })
}

/// A time as RFC 3339 in UTC with milliseconds; one that the calendar does not reach as plain milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(u64);

impl From<UnixMs> for Time {
    fn from(time: UnixMs) -> Self {
        Time(time.get())
    }
}

impl From<Deadline> for Time {
    fn from(deadline: Deadline) -> Self {
        Time(deadline.get())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamp = i64::try_from(self.0)
            .ok()
            .and_then(|ms| Timestamp::from_millisecond(ms).ok());
        match stamp {
            Some(stamp) => write!(f, "{stamp:.3}"),
            None => write!(f, "{} ms", self.0),
        }
    }
}

/// A checksum as messages show it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crc(pub(crate) u32);

impl fmt::Display for Crc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_escape_to_what_the_whole_does() {
        let texts: [&[u8]; 7] = [
            b"",
            b"plain and \\ and \x00 and \x7f",
            b"\xc2\x80\xc2\x9b\xc2\xa0\xc2\xc2\x9b\x9b",
            "grüße, 漢字, 🦀🦀🦀, é".as_bytes(),
            b"\x80\x80\x80\x80\x80\x80\x80\x80\x80",
            b"\xf0\x9f\xa6\xf0\x9f\xa6\x80\x80\xe6\xbc\xc3",
            b"\xff\xfe\xf0\x9f\xa6\x80\xc3\xa9\xed\xa0\x80\xf8\x88\x80\x80\x80",
        ];
        for text in texts {
            for size in 4..12 {
                for from in 0..text.len() {
                    let bytes = &text[from..];
                    let together: String = pieces(bytes, size).map(escape).collect();
                    assert_eq!(together, escape(bytes), "{bytes:02x?} in pieces of {size}");
                    assert_eq!(pieces(bytes, size).map(<[u8]>::len).sum::<usize>(), bytes.len());
                }
            }
        }
    }

    #[test]
    fn times_are_readable_as_far_as_the_calendar_goes() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_767_225_600_007, "2026-01-01T00:00:00.007Z"),
            (UnixMs::MAX.get(), "281474976710655 ms"),
        ] {
            assert_eq!(Time::from(UnixMs::new(ms)).to_string(), expected);
        }
        assert_eq!(
            Time::from(Deadline::at(u64::MAX)).to_string(),
            "18446744073709551615 ms"
        );
    }
}
