//! Routes, error texts, and the readers of single arguments.

use idem_protocol::command::args::{glob_matches, is, parse_i64, parse_i64_in, parse_u64};
use idem_protocol::command::{self, Flags, SubcommandId, errors};
use idem_protocol::resp::{Args, ProtocolError};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

/// Where a call leads, or its error.
fn check(call: &[&str], expected: &str) {
    let bytes: Vec<&[u8]> = call.iter().map(|argument| argument.as_bytes()).collect();
    let found = match command::resolve(Args::from(bytes.as_slice())) {
        Ok(route) => route.full_name().to_owned(),
        Err(text) => text.into_owned(),
    };
    assert_eq!(found, expected, "{call:?}");
}

#[test]
fn calls_find_their_row_or_redis_error() {
    check(&["get", "k"], "get");
    check(&["GET"], "ERR wrong number of arguments for 'get' command");
    check(
        &["GET", "a", "b"],
        "ERR wrong number of arguments for 'get' command",
    );
    check(&["DEL", "a", "b", "c"], "del");
    check(&["DEL"], "ERR wrong number of arguments for 'del' command");
    check(&["CLIENT"], "ERR wrong number of arguments for 'client' command");
    check(&["client", "SetName", "x"], "client|setname");
    check(
        &["client", "setname"],
        "ERR wrong number of arguments for 'client|setname' command",
    );
    check(
        &["client", "Foo", "x"],
        "ERR unknown subcommand 'Foo'. Try CLIENT HELP.",
    );
    check(&["COMMAND"], "command");
    check(&["command", "docs", "get"], "command|docs");
    check(
        &["command", "getkeys"],
        "ERR wrong number of arguments for 'command|getkeys' command",
    );
    check(
        &["command", "get"],
        "ERR unknown subcommand 'get'. Try COMMAND HELP.",
    );
}

/// The action is argument 2; a key may have the name of one.
#[test]
fn calls_of_idem() {
    check(&["IDEM", "k", "begin", "f", "o", "1000"], "idem|begin");
    check(&["idem", "begin", "COMPLETE", "f", "o", ""], "idem|complete");
    check(&["idem", "k", "Abort", "f", "o"], "idem|abort");
    check(&["idem", "k", "INSPECT"], "idem|inspect");
    check(&["idem"], "ERR wrong number of arguments for 'idem' command");
    check(&["idem", "k"], "ERR wrong number of arguments for 'idem' command");
    check(
        &["idem", "begin"],
        "ERR wrong number of arguments for 'idem' command",
    );
    check(
        &["idem", "k", "begin"],
        "ERR wrong number of arguments for 'idem|begin' command",
    );
    check(
        &["idem", "k", "begin", "f", "o", "1", "2"],
        "ERR wrong number of arguments for 'idem|begin' command",
    );
    check(
        &["idem", "k", "abort", "f", "o", "r"],
        "ERR wrong number of arguments for 'idem|abort' command",
    );
    check(
        &["idem", "k", "inspect", "x"],
        "ERR wrong number of arguments for 'idem|inspect' command",
    );
    check(&["idem", "k", "renew", "f", "o"], "ERR syntax error");
    check(&["idem", "k", ""], "ERR syntax error");
}

#[test]
fn routes_carry_the_flags_of_the_action() {
    let call: &[&[u8]] = &[b"idem", b"k", b"inspect"];
    let route = command::resolve(Args::from(call)).expect("an action");
    assert_eq!(
        route.subcommand.map(|sub| sub.id),
        Some(SubcommandId::IdemInspect)
    );
    assert!(route.flags().contains(Flags::READONLY) && !route.flags().contains(Flags::WRITE));
    assert_eq!(route.categories().to_string(), "@read @write");
}

#[test]
fn unknown_commands_quote_a_bounded_beginning() {
    check(&["foo"], "ERR unknown command 'foo', with args beginning with: ");
    check(
        &["FOO", "a", "b c", ""],
        "ERR unknown command 'FOO', with args beginning with: 'a' 'b c' '' ",
    );
    check(&[], "ERR unknown command '', with args beginning with: ");
    // 126 bytes and the signs around them leave no room for another argument.
    let (long, cut) = ("x".repeat(1000), "x".repeat(128));
    check(
        &[&long, &long, "b"],
        &format!("ERR unknown command '{cut}', with args beginning with: '{cut}' "),
    );
    let part = "y".repeat(100);
    let rest = "x".repeat(25);
    check(
        &["foo", &part, &long, "b"],
        &format!("ERR unknown command 'foo', with args beginning with: '{part}' '{rest}' "),
    );
    let many = vec!["z"; 1000];
    let text = errors_of(&many);
    assert!(text.len() < 256 && text.ends_with("'z' "), "{text}");
}

fn errors_of(call: &[&str]) -> String {
    let bytes: Vec<&[u8]> = call.iter().map(|argument| argument.as_bytes()).collect();
    errors::unknown_command(Args::from(bytes.as_slice())).into_owned()
}

/// Whatever a client sends, an error is one short line of valid text without control characters.
#[test]
fn quoted_bytes_are_made_harmless() {
    let call: &[&[u8]] = &[b"a\r\nb\x1b[31m\0", b"\xff\xfe\x80", b"\n"];
    assert_eq!(
        errors::unknown_command(Args::from(call)),
        "ERR unknown command 'a  b\u{fffd}[31m\u{fffd}', with args beginning with: '\u{fffd}\u{fffd}\u{fffd}' ' ' "
    );
    let client = command::lookup(b"client").expect("a container");
    let text = errors::unknown_subcommand(client, &[b'\r'; 500]);
    assert_eq!(
        text,
        format!("ERR unknown subcommand '{}'. Try CLIENT HELP.", " ".repeat(128))
    );
    // A character cut in two.
    let word = [&[b'x'; 127][..], "é".as_bytes()].concat();
    assert!(errors::unknown_subcommand(client, &word).contains("x\u{fffd}'"));
}

#[test]
fn fixed_texts() {
    let texts = [
        (errors::syntax(), "ERR syntax error"),
        (
            errors::not_an_integer(),
            "ERR value is not an integer or out of range",
        ),
        (
            errors::wrong_type(),
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (
            errors::invalid_expire_time("set"),
            "ERR invalid expire time in 'set' command",
        ),
        (errors::database_out_of_range(), "ERR DB index is out of range"),
        (errors::invalid_cursor(), "ERR invalid cursor"),
        (
            errors::unsupported_protocol(),
            "NOPROTO unsupported protocol version",
        ),
        (
            errors::protocol(ProtocolError::InvalidBulkLength),
            "ERR Protocol error: invalid bulk length",
        ),
    ];
    for (found, expected) in texts {
        assert_eq!(found, expected);
    }
}

#[test]
fn integers_have_one_spelling() {
    let good = [
        ("0", 0),
        ("1", 1),
        ("-1", -1),
        ("10", 10),
        ("604800000", 604_800_000),
        ("999999999999999999", 999_999_999_999_999_999),
        ("1000000000000000000", 1_000_000_000_000_000_000),
        ("9223372036854775807", i64::MAX),
        ("-9223372036854775808", i64::MIN),
    ];
    for (text, value) in good {
        assert_eq!(parse_i64(text.as_bytes()), Some(value), "{text}");
    }
    let bad = [
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "01",
        "-01",
        "00",
        "-0",
        "--1",
        "1-",
        "1.0",
        "1e3",
        "0x10",
        "1_000",
        "1\0",
        "١",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "99999999999999999999999999",
    ];
    for text in bad {
        assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
    }
    assert_eq!(parse_i64_in(b"7", 1..=7), Some(7));
    assert_eq!(parse_i64_in(b"8", 1..=7), None);
    assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
    for text in ["18446744073709551616", "-1", "01", ""] {
        assert_eq!(parse_u64(text.as_bytes()), None, "{text}");
    }
    assert!(is(b"kEEpTtl", "KEEPTTL") && !is(b"keepttl ", "KEEPTTL") && !is(b"", "X"));
}

#[test]
fn patterns() {
    let check = |pattern: &str, yes: &[&str], no: &[&str]| {
        for (texts, expected) in [(yes, true), (no, false)] {
            for text in texts {
                assert_eq!(
                    glob_matches(pattern.as_bytes(), text.as_bytes(), false),
                    expected,
                    "{pattern} {text}"
                );
            }
        }
    };
    check("", &[""], &["a"]);
    check("*", &["", "a", "abc"], &[]);
    check("a*", &["a", "ab"], &["", "b", "ba"]);
    check("*a", &["a", "ba", "aa"], &["", "ab"]);
    check("a*b*c", &["abc", "aXbXc", "abbcc"], &["ab", "acb", "abcd"]);
    check("a?c", &["abc", "a?c"], &["ac", "abbc"]);
    check("[abc]x", &["ax", "cx"], &["dx", "x", "abcx"]);
    check("[a-c]", &["a", "b", "c"], &["d", "-", ""]);
    check("[c-a]", &["b"], &["d"]);
    check("[^a-c]", &["d", "^"], &["a", ""]);
    check("[\\]]", &["]"], &["\\", "a"]);
    check("[ab", &["a", "b"], &["c", "[ab"]);
    check("\\*", &["*"], &["a", "\\*"]);
    check("a\\", &["a\\"], &["a"]);
    check("idem:http:*{*}", &["idem:http:v1:{ab}"], &["idem:http:v1:"]);
    assert!(glob_matches(b"GeT*", b"gEtex", true) && !glob_matches(b"GeT*", b"gEtex", false));
    assert!(glob_matches(b"[A-C]", b"b", true) && glob_matches(b"\\A", b"a", true));
    // A class is read once, however long, and not for each byte of the text: that would be a hundred times this test.
    let class = [b"*[".as_slice(), &b"!".repeat(1 << 20)].concat();
    assert!(!glob_matches(&class, &b"a".repeat(1 << 20), false));
    // A matcher that tries every split of the text between the stars would never end.
    assert!(!glob_matches(&b"*a".repeat(500), &b"a".repeat(499), false));
    assert!(!glob_matches(
        &[&b"*a".repeat(200)[..], b"b"].concat(),
        &b"a".repeat(20_000),
        false
    ));
}

/// The recursive definition, as slow as it is plain.
fn plain_glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], text) => text.is_empty(),
        ([b'*', rest @ ..], text) => (0..=text.len()).any(|skip| plain_glob(rest, &text[skip..])),
        ([b'?', rest @ ..], [_, tail @ ..]) => plain_glob(rest, tail),
        ([byte, rest @ ..], [first, tail @ ..]) => byte == first && plain_glob(rest, tail),
        (_, []) => false,
    }
}

proptest! {
    #![proptest_config(Config {
        cases: 2000, failure_persistence: None, rng_seed: RngSeed::Fixed(0x1de4), ..Config::default()
    })]

    #[test]
    fn integers_are_those_of_the_standard_library_in_its_own_spelling(value in any::<i64>(), text in "[-+ 0-9]{0,22}") {
        prop_assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        let canonical = text.parse::<i64>().ok().filter(|value| value.to_string() == text);
        prop_assert_eq!(parse_i64(text.as_bytes()), canonical);
    }

    #[test]
    fn stars_match_as_defined(pattern in "[ab?*]{0,8}", text in "[ab]{0,10}") {
        prop_assert_eq!(glob_matches(pattern.as_bytes(), text.as_bytes(), false), plain_glob(pattern.as_bytes(), text.as_bytes()));
    }

    #[test]
    fn no_bytes_break_patterns_or_errors(
        pattern in prop::collection::vec(prop_oneof![prop::sample::select(b"[]^-\\*?a".as_slice()), any::<u8>()], 0..20),
        text in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        glob_matches(&pattern, &text, true);
        let call: &[&[u8]] = &[&text, &pattern, &text];
        if let Err(error) = command::resolve(Args::from(call)) {
            prop_assert!(!error.chars().any(char::is_control));
            prop_assert!(error.len() <= 64 + 3 * 2 * 128 + 32);
        }
    }
}
