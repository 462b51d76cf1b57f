//! Hash slots, as Redis Cluster counts them: CRC-16 (XMODEM) of the key, or of its `{tag}`, modulo 16384.

/// How many slots there are.
pub const SLOT_COUNT: u16 = 16384;

const fn table() -> [u16; 256] {
    let mut table = [0u16; 256];
    // Counted in u16, so that no index has to be cut to the width of the remainder.
    let mut byte: u16 = 0;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 {
                (crc << 1) ^ 0x1021
            } else {
                crc << 1
            };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

static TABLE: [u16; 256] = table();

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (crc << 8) ^ TABLE[usize::from((crc >> 8) ^ u16::from(*byte))]
    })
}

/// The slot of a key: 0–16383. Of a key with a non-empty `{…}` only what stands between the first pair of braces counts.
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let after = &key[open + 1..];
        let length = after.iter().position(|byte| *byte == b'}')?;
        (length > 0).then_some(&after[..length])
    });
    crc16(tag.unwrap_or(key)) % SLOT_COUNT
}

#[cfg(test)]
mod tests {
    use super::slot;

    fn check(key: &[u8], expected: u16) {
        assert_eq!(slot(key), expected, "{}", key.escape_ascii());
    }

    /// The first three stand in the specification of Redis Cluster, the others were computed with another
    /// implementation of CRC-16/XMODEM.
    #[test]
    fn slots_are_those_of_redis_cluster() {
        check(b"123456789", 12739);
        check(b"foo", 12182);
        check(b"foo{{bar}}zap", 4015);
        check(b"", 0);
        check(b"\x00", 0);
        check(b"bar", 5061);
        check(b"order:1", 14374);
        check(b"\xff\x00\xff", 4499);
        let all: Vec<u8> = (0..=255).collect();
        check(&all, 16155);
    }

    #[test]
    fn a_tag_stands_for_the_key() {
        for key in [
            &b"user1000"[..],
            b"{user1000}.following",
            b"{user1000}.followers",
            b"x{user1000}",
            b"{user1000}{y}",
        ] {
            check(key, 3443);
        }
        check(b"foo{bar}{zap}", 5061);
        // The first brace opens and the next closing one closes, also with another opening one between them.
        check(b"{bar", 4015);
        check(b"a}b{c}d", 7365);
        check(b"c", 7365);
    }

    #[test]
    fn an_empty_or_open_tag_is_none() {
        check(b"{}foo", 9500);
        check(b"{}{foo}", 2263);
        check(b"foo{}{bar}", 8363);
        check(b"foo{", 7673);
        check(b"foo{bar", 15278);
        check(b"foo}bar{", 11073);
        check(b"}{", 12793);
    }
}
