//! How long a reply may become that a client puts together by naming things.
//!
//! One large value named a million times is a request of a few megabytes and would be a reply of terabytes. Replies of
//! what is there once (`HGETALL`, `KEYS`) need no such bound: what they repeat is in memory already. Nor do replies with a
//! number, a null or the argument itself for each argument (`EXISTS`, `HMGET` of missing fields, `COMMAND GETKEYS`): they
//! are no longer than the request.
//!
//! A name of a few bytes that asks for a page about the server (`COMMAND DOCS`), or a pattern that is held against every
//! option (`CONFIG GET`), is worth hundreds of its own size. There are about a hundred commands and options, so nobody who
//! means it lists a thousand: their *count* is bounded, before the first of them is looked at. So are their bytes, and
//! those of a pattern: one that begins with a star may have to be compared anew at each byte of a long key, and costs
//! the product of both.

use idem_protocol::command::errors::Text;
use idem_protocol::resp::Args;

use super::View;

/// Names or patterns that one call may list.
const NAMES_MAX: usize = 1024;

/// Bytes of all of them together.
const NAMES_BYTES_MAX: usize = 64 << 10;

/// Bytes of a pattern that is held against keys, fields or commands: there can be many.
const PATTERN_BYTES_MAX: usize = 1024;

/// The names or patterns of one call, or an error when they are too many.
pub(super) fn names(names: Args<'_>) -> Result<Args<'_>, Text> {
    if names.len() > NAMES_MAX {
        return Err(format!("ERR more than {NAMES_MAX} names or patterns in one call, ask for fewer").into());
    }
    if names.iter().map(<[u8]>::len).sum::<usize>() > NAMES_BYTES_MAX {
        return Err(
            format!("ERR the names or patterns have more than {NAMES_BYTES_MAX} bytes together").into(),
        );
    }
    Ok(names)
}

/// A single pattern, or an error when it is too long.
pub(super) fn pattern(pattern: &[u8]) -> Result<&[u8], Text> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("ERR the pattern has more than {PATTERN_BYTES_MAX} bytes").into());
    }
    Ok(pattern)
}

/// Bytes of values that one reply repeats at most, unless a single value may be larger.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// The values of one reply, as they are counted.
pub(super) struct ReplyBytes {
    used: usize,
    limit: usize,
}

impl ReplyBytes {
    pub(super) fn new(view: &View<'_>) -> Self {
        ReplyBytes {
            used: 0,
            limit: REPLY_BYTES_MAX.max(view.bulk_bytes_max()),
        }
    }

    /// The value, or an error when it is one too many.
    pub(super) fn take<'k>(&mut self, value: &'k [u8]) -> Result<&'k [u8], Text> {
        self.used = self.used.saturating_add(value.len());
        if self.used > self.limit {
            return Err(format!(
                "ERR the values have more than {} bytes together, ask for fewer",
                self.limit
            )
            .into());
        }
        Ok(value)
    }
}
