//! What an allocation takes.

/// Bytes that an allocator by size classes holds for an allocation of so many: multiples of 16 up to 128, then four
/// classes in each doubling, as mimalloc and jemalloc have them; whole pages of 4 KiB from 64 KiB on.
pub(super) fn held(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=128 => bytes.next_multiple_of(16),
        129..=0x1_0000 => {
            let class = 1_usize << (bytes - 1).ilog2();
            bytes.next_multiple_of(class / 4)
        }
        _ => bytes.checked_next_multiple_of(4096).unwrap_or(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_classes() {
        for (bytes, expected) in [
            (0, 0),
            (1, 16),
            (16, 16),
            (17, 32),
            (128, 128),
            (129, 160),
            (152, 160),
            (161, 192),
            (256, 256),
            (257, 320),
            (60_000, 65_536),
            (65_537, 69_632),
            (usize::MAX, usize::MAX),
        ] {
            assert_eq!(held(bytes), expected, "{bytes}");
        }
    }
}
