//! Replies to bytes.
//!
//! A command builds a [`Reply`] without knowing which version its client speaks; [`encode`] writes it for either. What
//! RESP2 has no type for becomes what Redis makes of it: maps and sets are flat arrays, booleans 1 and 0, doubles and
//! verbatim strings bulk strings, both nulls keep their two spellings.
//!
//! A reply is always one well-formed value, whatever bytes a command puts in: line ends inside simple strings and errors
//! (which may quote a client's own bytes) become blanks, since they would otherwise start a second reply.
//!
//! `Ok`, `Pong`, `Simple`, `Int`, `Bulk`, `Null` and `Bulks` of up to two allocate nothing, apart from the growth of the
//! output buffer.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Protocol;

/// One reply, borrowing what it can from the keyspace or the request.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply<'a> {
    /// `+OK`.
    Ok,
    /// `+PONG`.
    Pong,
    /// A short status in one line.
    Simple(&'a str),
    /// The whole text of an error; its first word is the code (`ERR`, `WRONGTYPE`, …).
    Error(Cow<'a, str>),
    /// An integer.
    Int(i64),
    /// A binary string.
    Bulk(&'a [u8]),
    /// A binary string made for this reply.
    Owned(Vec<u8>),
    /// No value, where a string would be.
    Null,
    /// No value, where an array would be.
    NullArray,
    /// An array of binary strings; up to two are held without the heap.
    Bulks(SmallVec<[&'a [u8]; 2]>),
    /// An array of anything.
    Array(Vec<Reply<'a>>),
    /// Keys and values; in RESP2 a flat array of both.
    Map(Vec<(Reply<'a>, Reply<'a>)>),
    /// Distinct values without order; in RESP2 an array.
    Set(Vec<Reply<'a>>),
    /// A message that answers no command; in RESP2 an array.
    Push(Vec<Reply<'a>>),
    /// Several replies, one after the other, where a command has more than one: SUBSCRIBE answers each of its channels.
    /// Never inside another reply.
    Frames(Vec<Reply<'a>>),
    /// A floating-point number; in RESP2 a bulk string.
    Double(f64),
    /// True or false; in RESP2 the integer 1 or 0.
    Bool(bool),
    /// Text for people with its format of exactly three bytes (`txt`, `mkd`); in RESP2 a bulk string without the format.
    Verbatim(&'a str, Cow<'a, str>),
}

impl<'a> Reply<'a> {
    /// An error from its whole text, code first.
    pub fn error(text: impl Into<Cow<'a, str>>) -> Reply<'a> {
        Reply::Error(text.into())
    }

    /// A bulk string from text.
    pub const fn text(text: &'a str) -> Reply<'a> {
        Reply::Bulk(text.as_bytes())
    }
}

/// Appends `reply` to `out` as `protocol` writes it.
pub fn encode(reply: &Reply<'_>, protocol: Protocol, out: &mut Vec<u8>) {
    let resp3 = protocol == Protocol::Resp3;
    match reply {
        Reply::Ok => out.extend_from_slice(b"+OK\r\n"),
        Reply::Pong => out.extend_from_slice(b"+PONG\r\n"),
        Reply::Simple(text) => line(b'+', text, out),
        Reply::Error(text) => line(b'-', text, out),
        Reply::Int(value) => {
            out.push(b':');
            out.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Reply::Bulk(bytes) => bulk(bytes, out),
        Reply::Owned(bytes) => bulk(bytes, out),
        Reply::Null | Reply::NullArray if resp3 => out.extend_from_slice(b"_\r\n"),
        Reply::Null => out.extend_from_slice(b"$-1\r\n"),
        Reply::NullArray => out.extend_from_slice(b"*-1\r\n"),
        Reply::Bulks(strings) => {
            header(b'*', strings.len(), out);
            for string in strings {
                bulk(string, out);
            }
        }
        Reply::Array(items) => sequence(b'*', items, protocol, out),
        Reply::Set(items) => sequence(if resp3 { b'~' } else { b'*' }, items, protocol, out),
        Reply::Push(items) => sequence(if resp3 { b'>' } else { b'*' }, items, protocol, out),
        Reply::Frames(frames) => frames.iter().for_each(|frame| encode(frame, protocol, out)),
        Reply::Map(pairs) => {
            if resp3 {
                header(b'%', pairs.len(), out);
            } else {
                header(b'*', pairs.len() * 2, out);
            }
            for (key, value) in pairs {
                encode(key, protocol, out);
                encode(value, protocol, out);
            }
        }
        Reply::Double(value) if resp3 => {
            out.push(b',');
            out.extend_from_slice(double_text(*value).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Reply::Double(value) => bulk(double_text(*value).as_bytes(), out),
        Reply::Bool(value) => out.extend_from_slice(match (resp3, value) {
            (true, true) => b"#t\r\n",
            (true, false) => b"#f\r\n",
            (false, true) => b":1\r\n",
            (false, false) => b":0\r\n",
        }),
        Reply::Verbatim(format, text) if resp3 => {
            // A format of another length would shift the text: the reader takes three bytes unseen.
            let format = if format.len() == 3 {
                format.as_bytes()
            } else {
                b"txt"
            };
            header(b'=', text.len() + 4, out);
            out.extend_from_slice(format);
            out.push(b':');
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Reply::Verbatim(_, text) => bulk(text.as_bytes(), out),
    }
}

fn sequence(kind: u8, items: &[Reply<'_>], protocol: Protocol, out: &mut Vec<u8>) {
    header(kind, items.len(), out);
    for item in items {
        encode(item, protocol, out);
    }
}

fn header(kind: u8, count: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    // One growth instead of up to five when the output is nearly full.
    out.reserve(bytes.len() + 16);
    header(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn line(kind: u8, text: &str, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend(
        text.bytes()
            .map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }),
    );
    out.extend_from_slice(b"\r\n");
}

/// The shortest text that reads back as the same number: `3`, `0.1`, `1e300`, `inf`, `-inf`, `nan`.
fn double_text(value: f64) -> String {
    let magnitude = value.abs();
    if value.is_nan() {
        // Rust writes NaN; Redis and its clients write and expect nan.
        "nan".to_owned()
    } else if magnitude != 0.0 && magnitude.is_finite() && !(1e-5..1e17).contains(&magnitude) {
        format!("{value:e}")
    } else {
        format!("{value}")
    }
}
