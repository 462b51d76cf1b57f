//! How long a reply may become that a client puts together by naming values.
//!
//! One large value named a million times is a request of a few megabytes and would be a reply of terabytes. Replies of
//! what is there once (`HGETALL`, `KEYS`) need no such bound: what they repeat is in memory already.

use idem_protocol::command::errors::Text;

use super::View;

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
