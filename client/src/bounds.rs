//! What arguments have to look like: checked before anything is sent, with the server's own bounds.

use std::time::Duration;

use idem_protocol::idem::{RESULT_BYTES_MAX, TOKEN_BYTES_MAX, TTL_MS_MAX};
use idem_protocol::limit::{BUCKET_MAX, MAX_MAX};

use crate::commands::LimitMode;
use crate::error::Error;

/// Longest key, in bytes: 16 MiB, what a server reads when its `proto-max-bulk-len` is the default. A longer one would end
/// the connection, and every other call on it with it.
pub const KEY_BYTES: usize = 16 * 1024 * 1024;
/// Longest fingerprint and longest owner, in bytes; the shortest is one byte.
pub const TOKEN_BYTES: usize = TOKEN_BYTES_MAX;
/// Longest result, in bytes; the shortest is empty.
pub const RESULT_BYTES: usize = RESULT_BYTES_MAX;
/// Longest retention: seven days; the shortest is one millisecond.
pub const RETENTION_MAX: Duration = Duration::from_millis(TTL_MS_MAX);

/// At most 16 MiB; empty is a key like any other.
pub(crate) fn key(bytes: &[u8]) -> Result<(), Error> {
    key_length(bytes.len())
}

/// The same of a key that is not put together yet.
pub(crate) fn key_length(length: usize) -> Result<(), Error> {
    if length <= KEY_BYTES {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "the key has {length} bytes, more than {KEY_BYTES}"
        )))
    }
}

/// 1 to 128 bytes.
pub(crate) fn token(name: &'static str, bytes: &[u8]) -> Result<(), Error> {
    if (1..=TOKEN_BYTES).contains(&bytes.len()) {
        return Ok(());
    }
    let advice = if bytes.is_empty() {
        ""
    } else {
        "; pass a digest of what is longer"
    };
    Err(Error::invalid(format!(
        "the {name} has {} bytes, not 1 to {TOKEN_BYTES}{advice}",
        bytes.len()
    )))
}

/// At most 4 MiB.
pub(crate) fn result(bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() <= RESULT_BYTES {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "the result has {} bytes, more than {RESULT_BYTES}",
            bytes.len()
        )))
    }
}

/// A time to live in milliseconds: 1 ms to 7 days, whole milliseconds. Nothing is rounded: a caller who asks for half a
/// millisecond means something else.
pub(crate) fn ttl_ms(ttl: Duration) -> Result<u64, Error> {
    let millis = ttl.as_millis();
    u64::try_from(millis)
        .ok()
        .filter(|millis| (1..=TTL_MS_MAX).contains(millis) && Duration::from_millis(*millis) == ttl)
        .ok_or_else(|| {
            Error::invalid(format!(
                "a retention of {ttl:?} is not 1 ms to 7 days in whole milliseconds"
            ))
        })
}

/// The numbers of LIMIT: `max` 1 to 2147483647 (a bucket: 1 to 1000000), a window of 1 to 4294967295 ms, a cost of 1 to
/// `max`. The window in milliseconds.
pub(crate) fn limit(max: u32, window: Duration, mode: LimitMode) -> Result<u64, Error> {
    let most = match mode {
        LimitMode::Fixed | LimitMode::Sliding => MAX_MAX,
        LimitMode::Tokens { .. } => BUCKET_MAX,
    };
    if !(1..=most).contains(&max) {
        return Err(Error::invalid(format!("max is {max}, not 1 to {most}")));
    }
    if let LimitMode::Tokens { cost } = mode
        && !(1..=max).contains(&cost)
    {
        return Err(Error::invalid(format!("the cost is {cost}, not 1 to {max}")));
    }
    u32::try_from(window.as_millis())
        .ok()
        .filter(|millis| *millis >= 1 && Duration::from_millis(u64::from(*millis)) == window)
        .map(u64::from)
        .ok_or_else(|| {
            Error::invalid(format!(
                "a window of {window:?} is not 1 to {} whole milliseconds",
                u32::MAX
            ))
        })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{KEY_BYTES, key, limit, result, token, ttl_ms};
    use crate::commands::LimitMode;

    #[test]
    fn tokens_and_results_at_their_bounds() {
        for (length, expected) in [(0, false), (1, true), (128, true), (129, false)] {
            assert_eq!(token("owner", &vec![0; length]).is_ok(), expected, "{length}");
        }
        for (length, expected) in [(0, true), (4_194_304, true), (4_194_305, false)] {
            assert_eq!(result(&vec![0; length]).is_ok(), expected, "{length}");
        }
        for (length, expected) in [(0, true), (KEY_BYTES, true), (KEY_BYTES + 1, false)] {
            assert_eq!(key(&vec![0; length]).is_ok(), expected, "{length}");
        }
        let error = token("fingerprint", &[0; 129]).unwrap_err();
        assert!(error.to_string().contains("digest") && !error.may_have_run());
    }

    #[test]
    fn times_to_live_are_whole_milliseconds() {
        let day = Duration::from_secs(86_400);
        for (ttl, expected) in [
            (Duration::ZERO, None),
            (Duration::from_micros(999), None),
            (Duration::from_millis(1), Some(1)),
            (Duration::from_micros(1_500), None),
            (day, Some(86_400_000)),
            (day * 7, Some(604_800_000)),
            (day * 7 + Duration::from_millis(1), None),
            (day * 7 + Duration::from_nanos(1), None),
            (Duration::MAX, None),
        ] {
            assert_eq!(ttl_ms(ttl).ok(), expected, "{ttl:?}");
        }
    }

    #[test]
    fn limits_at_their_bounds() {
        let ms = Duration::from_millis;
        let tokens = |cost| LimitMode::Tokens { cost };
        for (max, window, mode, expected) in [
            (1, ms(1), LimitMode::Fixed, true),
            (0, ms(1), LimitMode::Fixed, false),
            (2_147_483_647, ms(1), LimitMode::Sliding, true),
            (2_147_483_648, ms(1), LimitMode::Sliding, false),
            (1_000_000, ms(1), tokens(1_000_000), true),
            (1_000_001, ms(1), tokens(1), false),
            (5, ms(1), tokens(0), false),
            (5, ms(1), tokens(6), false),
            (5, ms(4_294_967_295), LimitMode::Fixed, true),
            (5, ms(4_294_967_296), LimitMode::Fixed, false),
            (5, Duration::ZERO, LimitMode::Fixed, false),
            (5, Duration::from_micros(1_001), LimitMode::Fixed, false),
        ] {
            assert_eq!(
                limit(max, window, mode).is_ok(),
                expected,
                "{max} {window:?} {mode:?}"
            );
        }
    }
}
