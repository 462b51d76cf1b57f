//! Bytes as text and back: every byte, every short text over an alphabet that hurts, and what is refused.

use idem_protocol::escape::{UnescapeError, escape, unescape};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn check(bytes: &[u8], text: &str) {
    assert_eq!(escape(bytes), text);
    assert_eq!(unescape(text).as_deref(), Ok(bytes));
}

#[test]
fn texts() {
    check(b"", "");
    check(b"order:1", "order:1");
    check(b"a b\"c'", "a b\"c'");
    check(b"a\\b", "a\\\\b");
    check(b"\\x41", "\\\\x41");
    check(b"\x00\r\n\t\x1f\x7f", "\\x00\\x0d\\x0a\\x09\\x1f\\x7f");
    check("zurück — 返金".as_bytes(), "zurück — 返金");
    // The second set of control characters: to some terminals U+009B is what ESC [ is to all.
    check(b"\xc2\x9b31mred", "\\xc2\\x9b31mred");
    check(
        "\u{80}\u{85}\u{9f}\u{a0}".as_bytes(),
        "\\xc2\\x80\\xc2\\x85\\xc2\\x9f\u{a0}",
    );
    check("\\\u{90}ü".as_bytes(), "\\\\\\xc2\\x90ü");
    // What only changes the direction of text is printable.
    check("\u{202e}\u{2066}".as_bytes(), "\u{202e}\u{2066}");
    // No UTF-8: a lone continuation, a cut sequence, an overlong form, a surrogate, a byte that never occurs.
    check(b"\x80", "\\x80");
    check(b"\xe2\x82", "\\xe2\\x82");
    check(b"\xe2\x82x", "\\xe2\\x82x");
    check(b"\xc0\xaf", "\\xc0\\xaf");
    check(b"\xed\xa0\x80", "\\xed\\xa0\\x80");
    check(b"\xff\xc3\xbc", "\\xffü");
}

#[test]
fn every_byte_alone_and_every_pair() {
    for first in 0..=255u8 {
        assert_eq!(unescape(&escape(&[first])), Ok(vec![first]));
        for second in 0..=255u8 {
            let bytes = [first, second];
            let text = escape(&bytes);
            assert!(
                !text.chars().any(char::is_control),
                "a line of output stays one line"
            );
            assert_eq!(unescape(&text).as_deref(), Ok(&bytes[..]));
        }
    }
}

#[test]
fn every_character_is_itself_or_its_bytes() {
    for character in '\0'..=char::MAX {
        let bytes = character.to_string().into_bytes();
        let text = escape(&bytes);
        let expected = match character {
            '\\' => "\\\\".to_owned(),
            control if control.is_control() => bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect(),
            other => other.to_string(),
        };
        assert_eq!(text, expected, "{:x}", u32::from(character));
        assert_eq!(unescape(&text), Ok(bytes));
    }
}

#[test]
fn people_may_write_more_than_is_printed() {
    assert_eq!(unescape("\\x41\\xFF\\xfF"), Ok(b"A\xff\xff".to_vec()));
    assert_eq!(unescape("tab\there"), Ok(b"tab\there".to_vec()));
}

#[test]
fn refused() {
    let cases = [
        ("\\", 0),
        ("abc\\", 3),
        ("\\n", 0),
        ("\\X41", 0),
        ("\\x", 0),
        ("\\x4", 0),
        ("ok\\xg0", 2),
        ("\\x 1", 0),
        ("\\x+1", 0),
        ("\\x-1", 0),
        ("\\\\\\", 2),
        ("ü\\ü", 2),
        ("\\xü", 0),
        ("\\x1ü", 0),
    ];
    for (text, at) in cases {
        assert_eq!(unescape(text), Err(UnescapeError { at }), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000, rng_seed: RngSeed::Fixed(0x1de0), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        prop_assert_eq!(unescape(&escape(&bytes)), Ok(bytes));
    }

    #[test]
    fn text_comes_back_and_is_unique(text in "\\PC{0,32}", other in "\\PC{0,32}") {
        prop_assert_eq!(unescape(&escape(text.as_bytes())), Ok(text.clone().into_bytes()));
        prop_assert_eq!(escape(text.as_bytes()) == escape(other.as_bytes()), text == other);
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>(), hurt in "[\\\\x0-9a-gü]{0,12}") {
        for text in [text, hurt] {
            if let Ok(bytes) = unescape(&text) {
                prop_assert_eq!(unescape(&escape(&bytes)), Ok(bytes));
            }
        }
    }
}
