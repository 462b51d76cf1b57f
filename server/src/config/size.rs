//! Sizes as Redis writes them in its configuration: `64mb`, `1gb`, `1000`, `5k`.
//!
//! `k`, `m`, `g` are powers of 1000; `kb`, `mb`, `gb` are powers of 1024; case does not matter. A sign,
//! blanks, a fraction or an overflow are refused: a limit that is not the one that was typed shows itself on the worst
//! day.

/// The size in bytes that `text` says, or a sentence saying what is wrong with it.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => {
            return Err(format!(
                "`{text}` is not a size (examples: 1000, 64kb, 16mb, 1gb)"
            ));
        }
    };
    if number.is_empty() {
        return Err(format!(
            "`{text}` is not a size (examples: 1000, 64kb, 16mb, 1gb)"
        ));
    }
    let number: u64 = number
        .parse()
        .map_err(|_| format!("`{text}` is too large for a size"))?;
    number
        .checked_mul(factor)
        .ok_or_else(|| format!("`{text}` is too large for a size"))
}

/// The shortest spelling of a size that [`parse_size`] reads back to the same number.
pub fn spell_size(bytes: u64) -> String {
    for (unit, shift) in [("gb", 30), ("mb", 20), ("kb", 10)] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::{parse_size, spell_size};

    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(parse_size(text).ok(), expected, "{text:?}");
    }

    #[test]
    fn sizes() {
        check("0", Some(0));
        check("1000", Some(1000));
        check("7b", Some(7));
        check("1k", Some(1000));
        check("1kb", Some(1024));
        check("2M", Some(2_000_000));
        check("64mb", Some(64 << 20));
        check("64MB", Some(64 << 20));
        check("3g", Some(3_000_000_000));
        check("1Gb", Some(1 << 30));
        check("18446744073709551615", Some(u64::MAX));
        check("18446744073709551616", None);
        check("17179869184gb", None);
        check("17179869183gb", Some(17_179_869_183 << 30));
    }

    #[test]
    fn what_is_no_size() {
        for text in [
            "", " ", "mb", "-1", "+1", "1 mb", " 1", "1.5gb", "1tb", "1mbb", "0x10", "1e3", "٣",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_size_is_spelled_as_it_is_read() {
        for bytes in [0, 1, 1023, 1024, 1 << 20, (1 << 20) + 1, 64 << 20, 3 << 30] {
            assert_eq!(parse_size(&spell_size(bytes)), Ok(bytes));
        }
    }
}
