//! Replies: the exact bytes of both versions, the way back through the reply decoder, and its limits.

use std::borrow::Cow;

use idem_protocol::resp::Protocol::{self, Resp2, Resp3};
use idem_protocol::resp::encode::{Reply, encode};
use idem_protocol::resp::value::{ReplyDecoder, ReplyLimits, Value};
use idem_protocol::resp::{ProtocolError, ReplyBound};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use smallvec::smallvec;

fn bytes_of(reply: &Reply<'_>, protocol: Protocol) -> Vec<u8> {
    let mut out = Vec::new();
    encode(reply, protocol, &mut out);
    out
}

fn check(reply: Reply<'_>, resp2: &str, resp3: &str) {
    for (protocol, expected) in [(Resp2, resp2), (Resp3, resp3)] {
        let found = String::from_utf8_lossy(&bytes_of(&reply, protocol)).into_owned();
        assert_eq!(found, expected, "{reply:?} in {protocol:?}");
    }
}

#[test]
fn every_reply_in_both_versions() {
    check(Reply::Ok, "+OK\r\n", "+OK\r\n");
    check(Reply::Pong, "+PONG\r\n", "+PONG\r\n");
    check(Reply::Simple("string"), "+string\r\n", "+string\r\n");
    check(Reply::error("ERR no"), "-ERR no\r\n", "-ERR no\r\n");
    check(
        Reply::Int(i64::MIN),
        ":-9223372036854775808\r\n",
        ":-9223372036854775808\r\n",
    );
    check(Reply::Int(0), ":0\r\n", ":0\r\n");
    check(Reply::Bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n");
    check(Reply::Bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n");
    check(Reply::Owned(b"ab".to_vec()), "$2\r\nab\r\n", "$2\r\nab\r\n");
    check(Reply::Null, "$-1\r\n", "_\r\n");
    check(Reply::NullArray, "*-1\r\n", "_\r\n");
    check(Reply::Bulks(smallvec![]), "*0\r\n", "*0\r\n");
    let completed = Reply::Bulks(smallvec![b"completed".as_slice(), b"".as_slice()]);
    check(
        completed,
        "*2\r\n$9\r\ncompleted\r\n$0\r\n\r\n",
        "*2\r\n$9\r\ncompleted\r\n$0\r\n\r\n",
    );
    let nested = Reply::Array(vec![Reply::Int(1), Reply::Array(vec![Reply::Null])]);
    check(nested, "*2\r\n:1\r\n*1\r\n$-1\r\n", "*2\r\n:1\r\n*1\r\n_\r\n");
    let map = Reply::Map(vec![
        (Reply::text("a"), Reply::Int(1)),
        (Reply::text("b"), Reply::Bool(true)),
    ]);
    check(
        map,
        "*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:1\r\n",
        "%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n#t\r\n",
    );
    check(Reply::Set(vec![Reply::Int(1)]), "*1\r\n:1\r\n", "~1\r\n:1\r\n");
    check(Reply::Push(vec![Reply::Int(1)]), "*1\r\n:1\r\n", ">1\r\n:1\r\n");
    check(Reply::Bool(false), ":0\r\n", "#f\r\n");
    check(
        Reply::Verbatim("txt", Cow::Borrowed("hi")),
        "$2\r\nhi\r\n",
        "=6\r\ntxt:hi\r\n",
    );
    check(
        Reply::Verbatim("markdown", Cow::Borrowed("")),
        "$0\r\n\r\n",
        "=4\r\ntxt:\r\n",
    );
}

#[test]
fn doubles_are_short_and_exact() {
    let texts = [
        (0.0, "0"),
        (-0.0, "-0"),
        (3.0, "3"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (1e300, "1e300"),
        (5e-324, "5e-324"),
        (123_456_789_012.5, "123456789012.5"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
    ];
    for (value, text) in texts {
        check(
            Reply::Double(value),
            &format!("${}\r\n{text}\r\n", text.len()),
            &format!(",{text}\r\n"),
        );
    }
}

/// A client's bytes in an error or a status cannot begin a second reply.
#[test]
fn line_ends_inside_lines_become_blanks() {
    check(
        Reply::error("ERR 'a\r\n+OK\r\n'"),
        "-ERR 'a  +OK  '\r\n",
        "-ERR 'a  +OK  '\r\n",
    );
    check(Reply::Simple("a\nb\rc"), "+a b c\r\n", "+a b c\r\n");
}

/// What a client gets for a reply.
fn expected(reply: &Reply<'_>, protocol: Protocol) -> Value {
    let resp3 = protocol == Resp3;
    let one_line = |text: &str| text.replace(['\r', '\n'], " ");
    let all = |items: &[Reply<'_>]| {
        items
            .iter()
            .map(|item| expected(item, protocol))
            .collect::<Vec<_>>()
    };
    match reply {
        Reply::Ok => Value::Simple("OK".into()),
        Reply::Pong => Value::Simple("PONG".into()),
        Reply::Simple(text) => Value::Simple(one_line(text)),
        Reply::Error(text) => Value::Error(one_line(text)),
        Reply::Int(value) => Value::Int(*value),
        Reply::Bulk(bytes) => Value::Bulk(bytes.to_vec()),
        Reply::Owned(bytes) => Value::Bulk(bytes.clone()),
        Reply::Null | Reply::NullArray => Value::Null,
        Reply::Bulks(strings) => Value::Array(strings.iter().map(|s| Value::Bulk(s.to_vec())).collect()),
        Reply::Array(items) => Value::Array(all(items)),
        Reply::Set(items) if resp3 => Value::Set(all(items)),
        Reply::Push(items) if resp3 => Value::Push(all(items)),
        Reply::Set(items) | Reply::Push(items) => Value::Array(all(items)),
        Reply::Frames(_) => unreachable!("several replies are no value"),
        Reply::Map(pairs) => {
            let pairs = pairs
                .iter()
                .map(|(key, value)| (expected(key, protocol), expected(value, protocol)));
            if resp3 {
                Value::Map(pairs.collect())
            } else {
                Value::Array(pairs.flat_map(|(key, value)| [key, value]).collect())
            }
        }
        Reply::Double(value) if resp3 => Value::Double(*value),
        Reply::Double(value) => Value::Bulk(format!("{value}").into_bytes()),
        Reply::Bool(value) if resp3 => Value::Bool(*value),
        Reply::Bool(value) => Value::Int((*value).into()),
        Reply::Verbatim(format, text) if resp3 => Value::Verbatim {
            format: (*format).into(),
            text: text.clone().into_owned(),
        },
        Reply::Verbatim(_, text) => Value::Bulk(text.as_bytes().to_vec()),
    }
}

fn reply() -> impl Strategy<Value = Reply<'static>> {
    let texts = prop::sample::select(&["", "OK", "a b", "line\r\nends", "\u{e9}\u{1f980}"][..]);
    const STRINGS: &[&[u8]] = &[b"", b"x", b"\r\n", b"\0\xff\x80", b"$-1\r\n*3\r\n"];
    let strings = prop::sample::select(STRINGS);
    let leaf = prop_oneof![
        Just(Reply::Ok),
        Just(Reply::Pong),
        Just(Reply::Null),
        Just(Reply::NullArray),
        texts.clone().prop_map(Reply::Simple),
        "[A-Z]{1,9} [ -~\r\n]{0,30}".prop_map(|text| Reply::Error(Cow::Owned(text))),
        any::<i64>().prop_map(Reply::Int),
        strings.clone().prop_map(Reply::Bulk),
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Reply::Owned),
        prop::collection::vec(strings, 0..4).prop_map(|strings| Reply::Bulks(strings.into())),
        (-1e15..1e15).prop_map(Reply::Double),
        any::<bool>().prop_map(Reply::Bool),
        texts.prop_map(|text| Reply::Verbatim("mkd", Cow::Borrowed(text))),
    ];
    leaf.prop_recursive(4, 60, 6, |inner| {
        let items = || prop::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            items().prop_map(Reply::Array),
            items().prop_map(Reply::Set),
            items().prop_map(Reply::Push),
            prop::collection::vec((inner.clone(), inner.clone()), 0..4).prop_map(Reply::Map),
        ]
    })
}

/// All replies in `input`, received in pieces of `piece` bytes.
fn decode(input: &[u8], piece: usize, limits: ReplyLimits) -> (Vec<Value>, Result<bool, ProtocolError>) {
    let mut decoder = ReplyDecoder::with_limits(limits);
    let mut values = Vec::new();
    for bytes in input.chunks(piece.max(1)) {
        decoder.push(bytes);
        loop {
            match decoder.next() {
                Ok(Some(value)) => values.push(value),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next(), Err(error), "an error is final");
                    return (values, Err(error));
                }
            }
        }
    }
    (values, Ok(decoder.in_reply()))
}

fn config(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x1de3),
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn replies_come_back(replies in prop::collection::vec(reply(), 0..4), piece in 1usize..50) {
        for protocol in [Resp2, Resp3] {
            let input: Vec<u8> = replies.iter().flat_map(|reply| bytes_of(reply, protocol)).collect();
            let values: Vec<Value> = replies.iter().map(|reply| expected(reply, protocol)).collect();
            for piece in [input.len(), 1, piece] {
                prop_assert_eq!(decode(&input, piece, ReplyLimits::default()), (values.clone(), Ok(false)));
            }
        }
    }

    #[test]
    fn noise_never_panics_and_cuts_never_matter(
        pieces in prop::collection::vec(prop_oneof![
            6 => prop::sample::select(b"+-:$*_#,(!=~>%|\r\n0123456789tfx.e?".as_slice()).prop_map(|byte| vec![byte]),
            1 => any::<u8>().prop_map(|byte| vec![byte]),
            3 => Just(b"\r\n".to_vec()),
            1 => Just(b"*2\r\n:1\r\n$1\r\nk\r\n".to_vec()),
            1 => Just(b"|1\r\n+a\r\n+b\r\n".to_vec()),
        ], 0..60),
        piece in 1usize..20,
    ) {
        let input = pieces.concat();
        let tight = ReplyLimits { depth: 2, elements: 6, string_bytes: 30, line_bytes: 12, total_bytes: 60 };
        for limits in [ReplyLimits::default(), tight] {
            // NaN is equal to nothing: compare what is shown.
            let whole = format!("{:?}", decode(&input, input.len(), limits));
            prop_assert_eq!(&whole, &format!("{:?}", decode(&input, 1, limits)));
            prop_assert_eq!(&whole, &format!("{:?}", decode(&input, piece, limits)));
        }
    }
}

#[test]
fn types_that_only_other_servers_send() {
    let check = |input: &str, value: Value| {
        assert_eq!(
            decode(input.as_bytes(), 3, ReplyLimits::default()),
            (vec![value], Ok(false)),
            "{input:?}"
        );
    };
    check("!10\r\nERR a\r\nb c\r\n", Value::Error("ERR a\r\nb c".into()));
    check(
        "(-3492890328409238509324850943850943825024385\r\n",
        Value::BigNumber("-3492890328409238509324850943850943825024385".into()),
    );
    check(":+7\r\n", Value::Int(7));
    check(
        "=4\r\ntxt:\r\n",
        Value::Verbatim {
            format: "txt".into(),
            text: String::new(),
        },
    );
    // An attribute is no element: the array has two.
    let array = Value::Array(vec![Value::Int(1), Value::Int(2)]);
    check("|1\r\n+ttl\r\n:1\r\n*2\r\n:1\r\n|0\r\n:2\r\n", array);
}

#[test]
fn limits_of_replies() {
    let limits = ReplyLimits {
        depth: 2,
        elements: 4,
        string_bytes: 8,
        line_bytes: 24,
        total_bytes: 64,
    };
    let check = |input: &str, bound: Option<ReplyBound>| {
        let error = decode(input.as_bytes(), 5, limits).1.err();
        assert_eq!(error, bound.map(ProtocolError::ReplyTooLarge), "{input:?}");
    };
    check("*1\r\n*1\r\n:1\r\n", None);
    check("*1\r\n*1\r\n*1\r\n:1\r\n", Some(ReplyBound::Depth));
    check("*4\r\n", None);
    check("*5\r\n", Some(ReplyBound::Elements));
    check("%3\r\n", Some(ReplyBound::Elements));
    check("%9223372036854775807\r\n", Some(ReplyBound::Elements));
    check("$8\r\n", None);
    check("$9\r\n", Some(ReplyBound::StringBytes));
    check("$9223372036854775807\r\n", Some(ReplyBound::StringBytes));
    check("+12345678901234567890123\r\n", None);
    check("+123456789012345678901234\r\n", Some(ReplyBound::LineBytes));
    // Four strings of 14 bytes and two lines of 4 are just 64.
    let strings = "$8\r\n12345678\r\n".repeat(4);
    check(&format!("*4\r\n*4\r\n{strings}"), None);
    check(&format!("*4\r\n*4\r\n{strings}:"), Some(ReplyBound::TotalBytes));
    // 14 bytes are left for a line that is longer, and is no reply either: what is said first is what is met first.
    let strings = "$8\r\n12345678\r\n".repeat(3);
    for piece in 1..100 {
        let (values, end) = decode(
            format!("*4\r\n*4\r\n{strings}?2345678901234567\r\n").as_bytes(),
            piece,
            limits,
        );
        let error = ProtocolError::ReplyTooLarge(ReplyBound::TotalBytes);
        assert_eq!(
            (values.len(), end.err()),
            (0, Some(error)),
            "in pieces of {piece}"
        );
    }
    // The next reply begins with nothing.
    check(&"$8\r\n12345678\r\n".repeat(50), None);
}

#[test]
fn malformed_replies() {
    let check = |input: &[u8], expected: ProtocolError| {
        let shown = input.escape_ascii().to_string();
        assert_eq!(
            decode(input, 4, ReplyLimits::default()),
            (vec![], Err(expected)),
            "{shown}"
        );
    };
    for line in [
        ":\r\n", ":x\r\n", ":1.5\r\n", "_x\r\n", "#x\r\n", ",x\r\n", "(1x\r\n", "(\r\n", "*-2\r\n", "$-2\r\n",
    ] {
        check(line.as_bytes(), ProtocolError::MalformedReply);
    }
    check(b"\r\n", ProtocolError::MalformedReply);
    check(b"+a\rb", ProtocolError::MalformedReply);
    check(b"$?\r\n", ProtocolError::MalformedReply);
    check(b"=3\r\ntxt\r\n", ProtocolError::MalformedReply);
    check(b"=5\r\ntextt\r\n", ProtocolError::MalformedReply);
    check(b"$3\r\nabcd\r\n", ProtocolError::ExpectedLineEnd);
    check(b"HTTP/1.1 400\r\n", ProtocolError::UnknownReplyType(b'H'));
    let no_reply = [ProtocolError::MalformedReply, ProtocolError::UnknownReplyType(0)];
    assert!(
        no_reply
            .iter()
            .all(|error| error.to_string().starts_with("Protocol error: "))
    );
}

#[test]
fn values_answer_questions() {
    let pairs = vec![(Value::Bulk(b"state".to_vec()), Value::Int(7))];
    let flat = Value::Array(vec![
        Value::Bulk(b"x".to_vec()),
        Value::Null,
        Value::Simple("state".into()),
        Value::Int(7),
    ]);
    for map in [Value::Map(pairs), flat] {
        assert_eq!(map.entry(b"state").and_then(Value::as_int), Some(7));
        assert_eq!(map.entry(b"7"), None);
    }
    assert_eq!(Value::Error("ERR x".into()).as_error(), Some("ERR x"));
    assert_eq!(Value::Error("ERR x".into()).as_bytes(), None);
    assert_eq!(
        Value::Set(vec![Value::Null]).as_items().map(<[Value]>::len),
        Some(1)
    );
}
