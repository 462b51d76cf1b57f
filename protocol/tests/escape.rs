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
                !text.chars().any(|c| c.is_ascii_control()),
                "a line of output stays one line"
            );
            assert_eq!(unescape(&text).as_deref(), Ok(&bytes[..]));
        }
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
