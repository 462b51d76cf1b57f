//! How bytes and times look, in every command and in both kinds of output.
//!
//! JSON has bytes in the escaped form and no more than that: whoever reads it is a program. For people the characters that
//! are not seen, or that change the order in which a terminal shows the others, are written as their bytes too: a key must
//! not be able to look like another one, nor to hide what follows it on the line. Both forms are accepted back.

use std::fmt;

use idem_protocol::escape::escape;
use idem_protocol::{Deadline, UnixMs};
use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// Bytes in the escaped form, written piece by piece: a result of megabytes is never held a second time. As text it is the
/// form for people, serialised the one for programs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

/// How many bytes are escaped at once.
const PIECE_BYTES: usize = 1 << 16;

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pieces(self.0, PIECE_BYTES).try_for_each(|piece| Shown(&escape(piece)).fmt(f))
    }
}

impl Serialize for Escaped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Exact(self.0))
    }
}

/// The escaped form itself.
struct Exact<'a>(&'a [u8]);

impl fmt::Display for Exact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pieces(self.0, PIECE_BYTES).try_for_each(|piece| f.write_str(&escape(piece)))
    }
}

/// Text that is escaped already, or has words around what is: as people are shown it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        if rest.is_ascii() {
            return f.write_str(rest);
        }
        while let Some((at, character)) = rest.char_indices().find(|(_, character)| deceives(*character)) {
            let (before, after) = rest.split_at(at);
            f.write_str(before)?;
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                write!(f, "\\x{byte:02x}")?;
            }
            rest = &after[character.len_utf8()..];
        }
        f.write_str(rest)
    }
}

/// Whether a character is not seen, ends a line, or turns the order of the others around; controls are escaped anyway.
fn deceives(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            // Of no width; marks for the order of writing.
            | '\u{200b}'..='\u{200f}'
            // Separators of lines and paragraphs; embeddings, overrides and their end.
            | '\u{2028}'..='\u{202e}'
            // Invisible operators; isolates and their end.
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
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
    use idem_protocol::escape::unescape;

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
    fn people_see_every_character_that_a_terminal_would_hide_or_obey() {
        for (bytes, json, human) in [
            ("plain é 漢 🦀 \\", "plain é 漢 🦀 \\\\", "plain é 漢 🦀 \\\\"),
            ("a\u{202e}b", "a\u{202e}b", "a\\xe2\\x80\\xaeb"),
            (
                "\u{200e}\u{200f}\u{202a}",
                "\u{200e}\u{200f}\u{202a}",
                "\\xe2\\x80\\x8e\\xe2\\x80\\x8f\\xe2\\x80\\xaa",
            ),
            (
                "\u{2066}x\u{2069}",
                "\u{2066}x\u{2069}",
                "\\xe2\\x81\\xa6x\\xe2\\x81\\xa9",
            ),
            (
                "\u{2028}\u{2029}",
                "\u{2028}\u{2029}",
                "\\xe2\\x80\\xa8\\xe2\\x80\\xa9",
            ),
            ("\u{feff}", "\u{feff}", "\\xef\\xbb\\xbf"),
            ("\u{200b}\u{ad}", "\u{200b}\u{ad}", "\\xe2\\x80\\x8b\\xc2\\xad"),
            (
                "\u{80}\u{9f}\u{1b}",
                "\\xc2\\x80\\xc2\\x9f\\x1b",
                "\\xc2\\x80\\xc2\\x9f\\x1b",
            ),
        ] {
            let escaped = Escaped(bytes.as_bytes());
            assert_eq!(escaped.to_string(), human);
            assert_eq!(serde_json::to_value(escaped).unwrap(), json);
            // Copied from either, it is the same key.
            for text in [json, human] {
                assert_eq!(unescape(text).unwrap(), bytes.as_bytes());
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
