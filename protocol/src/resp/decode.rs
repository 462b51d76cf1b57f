//! The push decoder of requests.
//!
//! ```text
//! Start ─ '*' ─▶ Count ─ "*n\r\n" ─▶ BulkLine ─ "$len\r\n" ─▶ BulkBody ─ bytes "\r\n" ─▶ … n times ─▶ Done
//!   └─── else ─▶ Inline ─ line ─▶ Done                     any of them ─ error ─▶ Failed
//! ```
//!
//! The caller keeps the bytes, the decoder keeps where it stands in them. [`Decoder::step`] is called with everything
//! received since the first byte of the current command; what an earlier call has looked at is not looked at again, so
//! that a command that arrives in a thousand pieces costs no more than one that arrives whole. In the steady state
//! nothing is allocated: the list of argument positions is kept from command to command, up to a bound.
//!
//! A count or a length only *limits* what is read. The list of positions grows when an argument has arrived whole,
//! never because a client said how many there will be.

use super::args::{Args, Range};
use super::error::ProtocolError;
use super::inline;
use super::number::parse_i64;

/// How many positions, and bytes of unescaped inline text, a decoder keeps between commands. One command with a million
/// arguments must not cost its connection eight megabytes for the rest of its life.
const KEPT_RANGES: usize = 1024;
const KEPT_TEXT_BYTES: usize = 4096;

/// Bounds on one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest argument, in bytes (`proto-max-bulk-len`).
    pub bulk_bytes: usize,
    /// The most arguments of one command, the name counted.
    pub array_count: usize,
    /// The longest inline command, and the longest line with a count or length, in bytes without the line end.
    pub inline_bytes: usize,
}

impl Limits {
    /// More arguments than any command needs.
    pub const ARRAY_COUNT_MAX: usize = 1_048_576;
    /// Redis's bound.
    pub const INLINE_BYTES: usize = 64 * 1024;

    /// The usual bounds with the given longest argument.
    pub const fn with_bulk_bytes(bulk_bytes: usize) -> Limits {
        Limits {
            bulk_bytes,
            array_count: Limits::ARRAY_COUNT_MAX,
            inline_bytes: Limits::INLINE_BYTES,
        }
    }
}

/// What [`Decoder::step`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A whole command, `consumed` bytes long; [`Decoder::args`] has it until the next step.
    Command {
        /// Bytes of the command, from the first byte of the input.
        consumed: usize,
    },
    /// Bytes that ask for nothing and get no reply: a blank line, `*0`, `*-1`.
    Empty {
        /// Bytes to drop from the front of the input.
        consumed: usize,
    },
    /// The command is not complete.
    NeedMore {
        /// At least so many bytes are missing, 1 or more. A client chose this number (within the limits): use it to
        /// postpone the next call, reserve no memory by it.
        at_least: usize,
    },
    /// The input is no command. Final: every later step answers the same.
    Error(ProtocolError),
}

/// Finds commands in a connection's input. One per connection; see the module's page.
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
    /// Every byte before this place has been looked at; in a line: and is no line end.
    position: usize,
    /// Arguments still to come.
    missing: usize,
    /// Where the arguments found so far lie: in the input, or in `text` for an inline command.
    ranges: Vec<Range>,
    /// The unescaped words of an inline command.
    text: Vec<u8>,
    inline: bool,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Start,
    Inline,
    Count,
    BulkLine {
        start: usize,
    },
    BulkBody {
        start: usize,
        end: usize,
    },
    Done,
    Failed(ProtocolError),
}

impl Decoder {
    /// A decoder before its first command. Allocates nothing.
    pub const fn new() -> Decoder {
        Decoder {
            state: State::Start,
            position: 0,
            missing: 0,
            ranges: Vec::new(),
            text: Vec::new(),
            inline: false,
        }
    }

    /// Goes on with the current command. `input` begins with its first byte and holds what the previous call was given
    /// and anything received since. After `Command` and `Empty` a new command begins: the caller drops (or steps over)
    /// `consumed` bytes.
    pub fn step(&mut self, input: &[u8], limits: &Limits) -> Step {
        match self.advance(input, limits) {
            Ok(step) => step,
            Err(error) => {
                self.state = State::Failed(error);
                self.ranges = Vec::new();
                self.text = Vec::new();
                Step::Error(error)
            }
        }
    }

    /// The arguments of the command that the last step found; `input` as it was given to that step. Empty when the last
    /// step found none.
    pub fn args<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        let complete = matches!(self.state, State::Done);
        let ranges = if complete { self.ranges.as_slice() } else { &[] };
        Args::positions(if self.inline { &self.text } else { input }, ranges)
    }

    /// Whether a command has begun and is not complete: for closing connections that stop in the middle of one.
    pub fn in_command(&self) -> bool {
        !matches!(self.state, State::Start | State::Done | State::Failed(_))
    }

    /// Heap bytes that this decoder holds, for the accounting of client buffers.
    pub fn held_bytes(&self) -> usize {
        self.ranges.capacity() * size_of::<Range>() + self.text.capacity()
    }

    fn advance(&mut self, input: &[u8], limits: &Limits) -> Result<Step, ProtocolError> {
        loop {
            match self.state {
                State::Failed(error) => return Err(error),
                State::Done => self.begin(),
                State::Start => match input.first() {
                    None => return Ok(Step::NeedMore { at_least: 1 }),
                    Some(b'*') => {
                        self.position = 1;
                        self.state = State::Count;
                    }
                    Some(_) => self.state = State::Inline,
                },
                State::Inline => {
                    let too_long = ProtocolError::InlineTooLong;
                    let Some(newline) = self.find(b'\n', 0, input, limits, too_long)? else {
                        return Ok(Step::NeedMore { at_least: 1 });
                    };
                    return self.finish_inline(input, newline);
                }
                State::Count => {
                    let (invalid, too_long) = (
                        ProtocolError::InvalidMultibulkLength,
                        ProtocolError::CountLineTooLong,
                    );
                    let Some(end) = self.line_end(0, input, limits, too_long, invalid)? else {
                        return Ok(Step::NeedMore { at_least: 1 });
                    };
                    let count = input.get(1..end).and_then(parse_i64).ok_or(invalid)?;
                    if count <= 0 {
                        // Redis takes every negative count for an empty command, not only -1.
                        self.state = State::Done;
                        self.ranges.clear();
                        return Ok(Step::Empty { consumed: end + 2 });
                    }
                    let count = usize::try_from(count).map_err(|_| invalid)?;
                    if count > limits.array_count {
                        return Err(invalid);
                    }
                    self.missing = count;
                    self.begin_bulk(end + 2);
                }
                State::BulkLine { start } => {
                    match input.get(start) {
                        None => return Ok(Step::NeedMore { at_least: 1 }),
                        Some(b'$') => {}
                        Some(&other) => return Err(ProtocolError::ExpectedBulk(other)),
                    }
                    let (invalid, too_long) =
                        (ProtocolError::InvalidBulkLength, ProtocolError::BulkLineTooLong);
                    let Some(end) = self.line_end(start, input, limits, too_long, invalid)? else {
                        return Ok(Step::NeedMore { at_least: 1 });
                    };
                    let length = input.get(start + 1..end).and_then(parse_i64).ok_or(invalid)?;
                    let length = usize::try_from(length).map_err(|_| invalid)?;
                    if length > limits.bulk_bytes {
                        return Err(invalid);
                    }
                    let start = end + 2;
                    let end = start.checked_add(length).ok_or(ProtocolError::RequestTooLong)?;
                    // With room for the line end behind it, so that no later sum overflows.
                    if u32::try_from(end).is_err() || end.checked_add(2).is_none() {
                        return Err(ProtocolError::RequestTooLong);
                    }
                    self.state = State::BulkBody { start, end };
                }
                State::BulkBody { start, end } => {
                    if input.len() < end + 2 {
                        return Ok(Step::NeedMore {
                            at_least: end + 2 - input.len(),
                        });
                    }
                    if input.get(end..end + 2) != Some(b"\r\n") {
                        return Err(ProtocolError::ExpectedLineEnd);
                    }
                    let (start, stop) = (u32::try_from(start), u32::try_from(end));
                    let (Ok(start), Ok(stop)) = (start, stop) else {
                        return Err(ProtocolError::RequestTooLong);
                    };
                    self.ranges.push(Range { start, end: stop });
                    self.missing -= 1;
                    if self.missing == 0 {
                        self.state = State::Done;
                        return Ok(Step::Command { consumed: end + 2 });
                    }
                    self.begin_bulk(end + 2);
                }
            }
        }
    }

    /// Forgets the previous command, and most of the memory when it was a large one.
    fn begin(&mut self) {
        self.state = State::Start;
        self.position = 0;
        self.inline = false;
        self.ranges.clear();
        self.text.clear();
        if self.ranges.capacity() > KEPT_RANGES {
            self.ranges.shrink_to(KEPT_RANGES);
        }
        if self.text.capacity() > KEPT_TEXT_BYTES {
            self.text.shrink_to(KEPT_TEXT_BYTES);
        }
    }

    fn begin_bulk(&mut self, start: usize) {
        self.state = State::BulkLine { start };
        self.position = start;
    }

    fn finish_inline(&mut self, input: &[u8], newline: usize) -> Result<Step, ProtocolError> {
        let line = input.get(..newline).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        inline::split(line, &mut self.text, &mut self.ranges)?;
        self.inline = true;
        self.state = State::Done;
        let consumed = newline + 1;
        Ok(if self.ranges.is_empty() {
            Step::Empty { consumed }
        } else {
            Step::Command { consumed }
        })
    }

    /// The place of the CR of the CR LF that ends the line beginning at `start`.
    fn line_end(
        &mut self,
        start: usize,
        input: &[u8],
        limits: &Limits,
        too_long: ProtocolError,
        invalid: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let Some(end) = self.find(b'\r', start, input, limits, too_long)? else {
            return Ok(None);
        };
        match input.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => Ok(Some(end)),
            Some(_) => Err(invalid),
        }
    }

    /// The place of the next `byte`, not more than the limit behind `start`. Bytes that were searched before are not
    /// searched again. Whether a line is too long depends on the line alone, never on how it was cut in pieces.
    fn find(
        &mut self,
        byte: u8,
        start: usize,
        input: &[u8],
        limits: &Limits,
        too_long: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let last = start.saturating_add(limits.inline_bytes);
        let window_end = input.len().min(last.saturating_add(1));
        let window = input.get(self.position..window_end).unwrap_or_default();
        if let Some(offset) = find_near(byte, window) {
            self.position += offset;
            return Ok(Some(self.position));
        }
        self.position = self.position.max(window_end);
        if input.len() > last {
            Err(too_long)
        } else {
            Ok(None)
        }
    }
}

/// `memchr` for what is nearly always within a few bytes: a count line has four or five.
fn find_near(byte: u8, window: &[u8]) -> Option<usize> {
    let (near, far) = window.split_at(window.len().min(8));
    if let Some(at) = near.iter().position(|&candidate| candidate == byte) {
        return Some(at);
    }
    memchr::memchr(byte, far).map(|at| near.len() + at)
}
