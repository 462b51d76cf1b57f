//! What can be wrong with received bytes, in the words that Redis uses, since clients and people search for them.

/// A protocol error. `Display` is the text after `-ERR `; it never holds a line end.
///
/// After one of these the position in the stream is lost: answer it and close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// `*` is not followed by a whole number, or by one above the limit.
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// `$` is not followed by a whole number from 0 to the limit.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// An argument of an array does not begin with `$`.
    #[error("Protocol error: expected '$', got '{}'", Shown(*.0))]
    ExpectedBulk(u8),
    /// A bulk string is not followed by CR LF. Redis skips these two bytes unread; a length that is wrong by one would
    /// then shift every later command, so that this is an error of ours.
    #[error("Protocol error: expected CRLF after bulk string")]
    ExpectedLineEnd,
    /// An inline command is longer than the limit.
    #[error("Protocol error: too big inline request")]
    InlineTooLong,
    /// The line with an array's count is longer than the limit.
    #[error("Protocol error: too big mbulk count string")]
    CountLineTooLong,
    /// The line with a bulk string's length is longer than the limit.
    #[error("Protocol error: too big bulk count string")]
    BulkLineTooLong,
    /// An inline command with an open quote, or with text right behind a closing one.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// One request of 4 GiB or more.
    #[error("Protocol error: too big request")]
    RequestTooLong,
    /// A reply begins with a byte that is no RESP type, or with a streamed type.
    #[error("Protocol error: unexpected reply type '{}'", Shown(*.0))]
    UnknownReplyType(u8),
    /// The line of a reply is not what its type allows.
    #[error("Protocol error: malformed reply line")]
    MalformedReply,
    /// A reply is nested deeper, or has longer lines, strings, aggregates or more bytes, than the limits allow.
    #[error("Protocol error: reply exceeds the limit on its {0}")]
    ReplyTooLarge(ReplyBound),
}

/// Which limit of a reply decoder was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyBound {
    /// Aggregates inside aggregates.
    Depth,
    /// Elements of one aggregate.
    Elements,
    /// Bytes of one string.
    StringBytes,
    /// Bytes of one line.
    LineBytes,
    /// Bytes of one whole reply.
    TotalBytes,
}

impl std::fmt::Display for ReplyBound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReplyBound::Depth => "depth",
            ReplyBound::Elements => "number of elements",
            ReplyBound::StringBytes => "length of a string",
            ReplyBound::LineBytes => "length of a line",
            ReplyBound::TotalBytes => "total length",
        })
    }
}

/// A peer's byte inside a message: printable ASCII as it is, everything else escaped, so that a binary stream sent to
/// the wrong port can break neither the reply nor a log line.
struct Shown(u8);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            b' '..=b'~' => write!(f, "{}", char::from(self.0)),
            other => write!(f, "\\x{other:02x}"),
        }
    }
}
