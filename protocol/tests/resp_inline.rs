//! Inline commands: the quoting rules of Redis, one line each.

use idem_protocol::resp::ProtocolError;
use idem_protocol::resp::decode::{Decoder, Limits, Step};

const LIMITS: Limits = Limits::with_bulk_bytes(1 << 20);

fn words(line: &[u8], ending: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let input = [line, ending].concat();
    let mut decoder = Decoder::new();
    match decoder.step(&input, &LIMITS) {
        Step::Command { consumed } | Step::Empty { consumed } => {
            assert_eq!(consumed, input.len());
            Ok(decoder.args(&input).iter().map(<[u8]>::to_vec).collect())
        }
        Step::Error(error) => Err(error),
        Step::NeedMore { .. } => panic!("the line is complete: {}", input.escape_ascii()),
    }
}

fn check(line: &[u8], expected: &[&[u8]]) {
    for ending in [b"\r\n".as_slice(), b"\n"] {
        let found = words(line, ending);
        let expected = expected.iter().map(|word| word.to_vec()).collect();
        assert_eq!(found, Ok(expected), "{}", line.escape_ascii());
    }
}

fn check_unbalanced(line: &[u8]) {
    assert_eq!(
        words(line, b"\r\n"),
        Err(ProtocolError::UnbalancedQuotes),
        "{}",
        line.escape_ascii()
    );
}

#[test]
fn words_are_separated_by_blanks() {
    check(b"", &[]);
    check(b" \t ", &[]);
    check(b"PING", &[b"PING"]);
    check(b"  SET\tkey   value  ", &[b"SET", b"key", b"value"]);
    // A CR before the line's own separates words; form feed and vertical tab only in front of one.
    check(b"a\rb\r", &[b"a", b"b"]);
    check(b"\x0b\x0ca\x0bb c", &[b"a\x0bb", b"c"]);
    check(b"a\0b \0", &[b"a\0b", b"\0"]);
    check(b"\xff\xfe \x80", &[b"\xff\xfe", b"\x80"]);
    // Only a line that begins with it is an array.
    check(b"a *1 $3", &[b"a", b"*1", b"$3"]);
}

#[test]
fn double_quotes_know_escapes() {
    check(br#"SET "a b" "c""#, &[b"SET", b"a b", b"c"]);
    check(br#""" x"#, &[b"", b"x"]);
    check(br#""\n\r\t\b\a\\\"\q""#, &[b"\n\r\t\x08\x07\\\"q"]);
    check(br#""\x00\xfF\x0d\x0a""#, &[b"\x00\xff\r\n"]);
    check(br#""\x0g\x""#, &[b"x0gx"]);
    check(br#""it's""#, &[b"it's"]);
    check(br#"pre"fix ed""#, &[b"prefix ed"]);
    check(b"\"a\"\tb", &[b"a", b"b"]);
    check(b"\"a\"\x0bb", &[b"a", b"b"]);
}

#[test]
fn single_quotes_are_literal() {
    check(br"'a b' 'c'", &[b"a b", b"c"]);
    check(br"'it\'s'", &[b"it's"]);
    check(br"'\n\x00\\ '", &[br"\n\x00\\ "]);
    check(br#"'say "hi"'"#, &[br#"say "hi""#]);
    check(br"''", &[b""]);
    // Outside quotes a backslash is a byte like others.
    check(br"a\nb \", &[br"a\nb", br"\"]);
}

#[test]
fn unbalanced_quotes_are_an_error() {
    let lines: [&[u8]; 10] = [
        br#"""#,
        br#"" "#,
        br#""a"b"#,
        br#""a""b""#,
        br#"x "open"#,
        br#""a\""#,
        br"'",
        br"'a'b",
        br"'a\'",
        br"x 'open",
    ];
    for line in lines {
        check_unbalanced(line);
    }
}

/// An inline command after an array, and the other way round, does not see the other's words.
#[test]
fn forms_do_not_mix() {
    let mut decoder = Decoder::new();
    let array = b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n";
    let line = b"ECHO \"a b\"\r\n";
    for _ in 0..3 {
        assert_eq!(
            decoder.step(array, &LIMITS),
            Step::Command {
                consumed: array.len()
            }
        );
        assert_eq!(&decoder.args(array)[1], b"hi");
        assert_eq!(
            decoder.step(line, &LIMITS),
            Step::Command { consumed: line.len() }
        );
        assert_eq!(&decoder.args(line)[1], b"a b");
        assert_eq!(decoder.step(b"\r\n", &LIMITS), Step::Empty { consumed: 2 });
        assert!(decoder.args(b"\r\n").is_empty());
    }
}
