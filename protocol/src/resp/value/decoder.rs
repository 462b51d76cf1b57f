//! The push decoder of replies.
//!
//! It keeps the bytes it has not understood yet and a stack of the aggregates that are not complete; it recurses nowhere,
//! looks at no byte of a finished element twice, and reserves nothing by a claimed count or length. [`ReplyLimits`] bound
//! one reply; they protect a client from a server that is none.

use super::Value;
use crate::resp::error::{ProtocolError, ReplyBound};
use crate::resp::number::parse_i64;

/// Bounds on one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Aggregates inside aggregates: 1 allows an array of strings.
    pub depth: usize,
    /// Elements of one aggregate (a map's pairs count twice).
    pub elements: usize,
    /// Bytes of one string.
    pub string_bytes: usize,
    /// Bytes of one line: simple strings, errors, numbers.
    pub line_bytes: usize,
    /// Bytes of one whole reply on the wire.
    pub total_bytes: usize,
}

impl Default for ReplyLimits {
    /// Room for the largest values and listings a server of ours sends.
    fn default() -> Self {
        ReplyLimits {
            depth: 32,
            elements: 1 << 24,
            string_bytes: 512 << 20,
            line_bytes: 64 << 10,
            total_bytes: 1 << 30,
        }
    }
}

/// Makes [`Value`]s from received bytes.
#[derive(Debug, Default)]
pub struct ReplyDecoder {
    limits: ReplyLimits,
    buffer: Vec<u8>,
    /// The first byte of `buffer` that belongs to no finished element.
    position: usize,
    /// Bytes from `position` on that were searched and hold no CR.
    searched: usize,
    /// Wire bytes of the current reply before `position`.
    reply_bytes: usize,
    open: Vec<Open>,
    failed: Option<ProtocolError>,
}

/// An aggregate that waits for elements.
#[derive(Debug)]
struct Open {
    kind: Kind,
    missing: usize,
    items: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Array,
    Map,
    Set,
    Push,
    /// Attributes describe the value that follows them; nobody here reads them.
    Attribute,
}

/// What one line, and the string behind it, turned out to be.
enum Element {
    Whole(Value),
    Begin(Kind, usize),
}

impl ReplyDecoder {
    /// A decoder with the default limits.
    pub fn new() -> ReplyDecoder {
        ReplyDecoder::default()
    }

    /// A decoder with limits of its own.
    pub fn with_limits(limits: ReplyLimits) -> ReplyDecoder {
        ReplyDecoder {
            limits,
            ..ReplyDecoder::default()
        }
    }

    /// Takes received bytes. Call [`next`](Self::next) until it has nothing more before pushing again: bytes wait here
    /// unexamined, and unlimited, until then.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.position > 0 {
            self.buffer.drain(..self.position);
            self.position = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole reply, `None` when more bytes are needed. An error is final.
    #[expect(
        clippy::should_implement_trait,
        reason = "None is no end: more bytes may follow"
    )]
    pub fn next(&mut self) -> Result<Option<Value>, ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.advance().inspect_err(|error| {
            self.failed = Some(*error);
            self.buffer = Vec::new();
            self.position = 0;
            self.open = Vec::new();
        })
    }

    /// Whether the bytes taken so far end in the middle of a reply.
    pub fn in_reply(&self) -> bool {
        self.position < self.buffer.len() || !self.open.is_empty()
    }

    fn advance(&mut self) -> Result<Option<Value>, ProtocolError> {
        while let Some(element) = self.element()? {
            match element {
                Element::Begin(kind, count) => {
                    if self.open.len() >= self.limits.depth {
                        return Err(ProtocolError::ReplyTooLarge(ReplyBound::Depth));
                    }
                    self.open.push(Open {
                        kind,
                        missing: count,
                        items: Vec::new(),
                    });
                }
                Element::Whole(value) => {
                    if let Some(value) = self.place(value) {
                        return Ok(Some(self.finish(value)));
                    }
                }
            }
            if let Some(value) = self.close() {
                return Ok(Some(self.finish(value)));
            }
        }
        Ok(None)
    }

    fn finish(&mut self, value: Value) -> Value {
        self.reply_bytes = 0;
        value
    }

    /// Puts a value into the innermost open aggregate, or hands it back when there is none.
    fn place(&mut self, value: Value) -> Option<Value> {
        let Some(open) = self.open.last_mut() else {
            return Some(value);
        };
        open.items.push(value);
        open.missing = open.missing.saturating_sub(1);
        None
    }

    /// Closes aggregates that have all their elements; answers the outermost one when that is among them.
    fn close(&mut self) -> Option<Value> {
        while self.open.last().is_some_and(|open| open.missing == 0) {
            let Open { kind, items, .. } = self.open.pop()?;
            let value = match kind {
                Kind::Attribute => continue,
                Kind::Array => Value::Array(items),
                Kind::Set => Value::Set(items),
                Kind::Push => Value::Push(items),
                Kind::Map => {
                    let mut pairs = Vec::with_capacity(items.len() / 2);
                    let mut items = items.into_iter();
                    while let (Some(key), Some(value)) = (items.next(), items.next()) {
                        pairs.push((key, value));
                    }
                    Value::Map(pairs)
                }
            };
            if let Some(value) = self.place(value) {
                return Some(value);
            }
        }
        None
    }

    /// Takes the next element's line, and string, off the buffer.
    fn element(&mut self) -> Result<Option<Element>, ProtocolError> {
        let pending = self.buffer.get(self.position..).unwrap_or_default();
        // Not beyond the first byte that is too many: which of two bounds is met first must not depend on how much of what
        // follows has arrived.
        let left = self.limits.total_bytes.saturating_sub(self.reply_bytes);
        let allowed = pending.get(..left.saturating_add(1)).unwrap_or(pending);
        let Some(line_end) = find_line_end(allowed, &mut self.searched, self.limits.line_bytes)? else {
            return self.check_total(pending.len()).map(|()| None);
        };
        let (kind, line) = match pending.get(..line_end) {
            Some([kind, line @ ..]) => (*kind, line),
            _ => return Err(ProtocolError::MalformedReply),
        };
        let mut used = line_end + 2;
        let element = match kind {
            b'+' => Element::Whole(Value::Simple(text(line))),
            b'-' => Element::Whole(Value::Error(text(line))),
            b':' => Element::Whole(Value::Int(integer(line)?)),
            b'_' if line.is_empty() => Element::Whole(Value::Null),
            b'_' => return Err(ProtocolError::MalformedReply),
            b'#' => Element::Whole(Value::Bool(match line {
                b"t" => true,
                b"f" => false,
                _ => return Err(ProtocolError::MalformedReply),
            })),
            b',' => Element::Whole(Value::Double(double(line)?)),
            b'(' => Element::Whole(Value::BigNumber(big_number(line)?)),
            b'$' | b'*' if line == b"-1" => Element::Whole(Value::Null),
            b'$' | b'!' | b'=' => {
                let length = usize::try_from(integer(line)?).map_err(|_| ProtocolError::MalformedReply)?;
                if length > self.limits.string_bytes {
                    return Err(ProtocolError::ReplyTooLarge(ReplyBound::StringBytes));
                }
                let end = used.checked_add(length).ok_or(ProtocolError::MalformedReply)?;
                let whole = end.checked_add(2).ok_or(ProtocolError::MalformedReply)?;
                self.check_total(whole)?;
                let Some(line_end) = pending.get(end..whole) else {
                    return Ok(None);
                };
                if line_end != b"\r\n" {
                    return Err(ProtocolError::ExpectedLineEnd);
                }
                let bytes = pending.get(used..end).unwrap_or_default();
                used = whole;
                Element::Whole(string(kind, bytes)?)
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let (kind, factor) = match kind {
                    b'~' => (Kind::Set, 1),
                    b'>' => (Kind::Push, 1),
                    b'%' => (Kind::Map, 2),
                    b'|' => (Kind::Attribute, 2),
                    _ => (Kind::Array, 1),
                };
                let count = usize::try_from(integer(line)?).map_err(|_| ProtocolError::MalformedReply)?;
                let count = count
                    .checked_mul(factor)
                    .filter(|&count| count <= self.limits.elements);
                Element::Begin(
                    kind,
                    count.ok_or(ProtocolError::ReplyTooLarge(ReplyBound::Elements))?,
                )
            }
            other => return Err(ProtocolError::UnknownReplyType(other)),
        };
        self.check_total(used)?;
        self.position += used;
        self.reply_bytes += used;
        self.searched = 0;
        Ok(Some(element))
    }

    fn check_total(&self, pending: usize) -> Result<(), ProtocolError> {
        if self.reply_bytes.saturating_add(pending) > self.limits.total_bytes {
            return Err(ProtocolError::ReplyTooLarge(ReplyBound::TotalBytes));
        }
        Ok(())
    }
}

/// The place of the CR LF that ends the first line of `pending`, which begins with the type byte.
fn find_line_end(pending: &[u8], searched: &mut usize, limit: usize) -> Result<Option<usize>, ProtocolError> {
    let too_long = ProtocolError::ReplyTooLarge(ReplyBound::LineBytes);
    let window_end = pending.len().min(limit.saturating_add(1));
    let window = pending.get(*searched..window_end).unwrap_or_default();
    let Some(offset) = memchr::memchr(b'\r', window) else {
        *searched = window_end;
        return if pending.len() > limit {
            Err(too_long)
        } else {
            Ok(None)
        };
    };
    *searched += offset;
    match pending.get(*searched + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some(*searched)),
        Some(_) => Err(ProtocolError::MalformedReply),
    }
}

fn string(kind: u8, bytes: &[u8]) -> Result<Value, ProtocolError> {
    Ok(match (kind, bytes) {
        (b'!', bytes) => Value::Error(text(bytes)),
        (b'=', [format @ .., b':']) if format.len() == 3 => Value::Verbatim {
            format: text(format),
            text: String::new(),
        },
        (b'=', [a, b, c, b':', rest @ ..]) => Value::Verbatim {
            format: text(&[*a, *b, *c]),
            text: text(rest),
        },
        (b'=', _) => return Err(ProtocolError::MalformedReply),
        (_, bytes) => Value::Bulk(bytes.to_vec()),
    })
}

/// Lines are text; a byte that is no UTF-8 becomes the replacement character.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn integer(line: &[u8]) -> Result<i64, ProtocolError> {
    // RESP3 allows a plus here, unlike the arguments of commands.
    let digits = line
        .strip_prefix(b"+")
        .filter(|rest| !rest.starts_with(b"-"))
        .unwrap_or(line);
    parse_i64(digits).ok_or(ProtocolError::MalformedReply)
}

fn double(line: &[u8]) -> Result<f64, ProtocolError> {
    let text = std::str::from_utf8(line).map_err(|_| ProtocolError::MalformedReply)?;
    text.parse().map_err(|_| ProtocolError::MalformedReply)
}

fn big_number(line: &[u8]) -> Result<String, ProtocolError> {
    let digits = line
        .strip_prefix(b"-")
        .or_else(|| line.strip_prefix(b"+"))
        .unwrap_or(line);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ProtocolError::MalformedReply);
    }
    Ok(text(line))
}
