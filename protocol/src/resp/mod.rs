//! RESP, the wire format of Redis clients, in both of its versions: bytes to requests and replies, and back.
//!
//! Vocabulary
//! * A *request* is one command with its arguments: an array of bulk strings, or an *inline* command (a line of words,
//!   for people with a terminal). [`decode::Decoder`] finds the boundaries of one request in the bytes received so far
//!   and answers with positions; it copies no argument.
//! * [`Args`] is the borrowed argument list of one request. Argument 0 is the command's name.
//! * A *reply* is what the server answers: [`encode::Reply`] is built by commands and written by [`encode::encode`];
//!   [`value::Value`] is the owned tree that clients and tests get from [`value::ReplyDecoder`].
//! * [`Protocol`] is the version that a connection speaks, RESP2 until it says `HELLO 3`.
//!
//! Invariants
//! * No input makes anything here panic, and nothing reserves memory because a peer *claimed* a count or a length:
//!   memory grows with the bytes that arrived.
//! * Bytes may be cut anywhere: feeding one byte at a time gives exactly what feeding all at once gives, errors too.
//! * A protocol error is final for its connection. What follows it cannot be told apart from data, so that a decoder
//!   that has failed repeats its error.
//!
//! Deliberately absent: sockets, buffers and their limits (the caller owns the bytes), the meaning of commands, and
//! streamed aggregates of RESP3 (`*?`, `$?`), which no server sends to a client that did not ask.

mod args;
pub mod decode;
pub mod encode;
mod error;
mod inline;
pub(crate) mod number;
mod queue;
pub mod value;

pub use args::Args;
pub use error::{ProtocolError, ReplyBound};
pub use queue::{ArgsQueue, QueueFull};

/// The version of RESP that a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Protocol {
    /// What every connection starts with.
    #[default]
    Resp2,
    /// After `HELLO 3`: maps, sets, doubles, booleans, verbatim strings and push messages exist.
    Resp3,
}

impl Protocol {
    /// The version as `HELLO` takes and reports it.
    pub const fn number(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}
