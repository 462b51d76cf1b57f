//! The one reader of decimal integers: counts and lengths on the wire, and integer arguments of commands.

/// Reads an integer exactly as Redis does: digits with an optional minus, nothing else.
///
/// `None` for an empty input, a plus, blanks, leading zeros, `-0`, any other byte, and everything outside
/// `i64::MIN..=i64::MAX`. An integer has one spelling only, so that equal arguments are equal bytes.
pub fn parse_i64(bytes: &[u8]) -> Option<i64> {
    // Of 10^18 - 1 at most: cannot overflow. The usual case, kept short.
    if let [first @ b'1'..=b'9', rest @ ..] = bytes
        && rest.len() < 18
    {
        let mut value = i64::from(first - b'0');
        for &byte in rest {
            if !byte.is_ascii_digit() {
                return None;
            }
            value = value * 10 + i64::from(byte - b'0');
        }
        return Some(value);
    }
    let (negative, digits) = match bytes {
        b"0" => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let magnitude = parse_digits(digits)?;
    if negative {
        // The smallest i64 has no positive counterpart.
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Reads an unsigned integer with the same rules as [`parse_i64`], up to `u64::MAX`; for cursors.
pub fn parse_u64(bytes: &[u8]) -> Option<u64> {
    if bytes == b"0" {
        Some(0)
    } else {
        parse_digits(bytes)
    }
}

/// Digits that begin with 1 to 9.
fn parse_digits(digits: &[u8]) -> Option<u64> {
    if !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &byte| {
        if !byte.is_ascii_digit() {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })
}
