//! Requests: every example and every error through one `check`, then the promises that hold for all input: cut anywhere,
//! the answer is the same; nothing panics; no claimed count or length reserves memory.

use idem_protocol::resp::ProtocolError::{self, *};
use idem_protocol::resp::decode::{Decoder, Limits, Step};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

const LIMITS: Limits = Limits {
    bulk_bytes: 1 << 20,
    array_count: 1 << 20,
    inline_bytes: 64 * 1024,
};

/// What a stream of bytes says: commands, and how it ends.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    commands: Vec<Vec<Vec<u8>>>,
    empties: usize,
    /// Bytes behind the last whole command; all of them before an error.
    left: usize,
    error: Option<ProtocolError>,
}

/// Decodes `input` as a connection does, receiving it in pieces that end at the given places.
fn decode(input: &[u8], cuts: impl IntoIterator<Item = usize>, limits: &Limits) -> Said {
    let mut said = Said {
        commands: Vec::new(),
        empties: 0,
        left: 0,
        error: None,
    };
    let mut decoder = Decoder::new();
    let mut start = 0;
    for cut in cuts.into_iter().chain([input.len()]) {
        loop {
            let pending = &input[start..cut];
            let consumed = match decoder.step(pending, limits) {
                Step::Command { consumed } => {
                    said.commands
                        .push(decoder.args(pending).iter().map(<[u8]>::to_vec).collect());
                    consumed
                }
                Step::Empty { consumed } => {
                    assert!(decoder.args(pending).is_empty());
                    said.empties += 1;
                    consumed
                }
                Step::NeedMore { at_least } => {
                    assert!(at_least >= 1);
                    break;
                }
                Step::Error(error) => {
                    assert_eq!(
                        decoder.step(pending, limits),
                        Step::Error(error),
                        "an error is final"
                    );
                    said.left = input.len() - start;
                    said.error = Some(error);
                    return said;
                }
            };
            assert!((1..=pending.len()).contains(&consumed));
            start += consumed;
        }
    }
    said.left = input.len() - start;
    said
}

fn check(input: &[u8], commands: &[&[&[u8]]], left: usize) {
    let said = decode(input, [], &LIMITS);
    let found: Vec<Vec<&[u8]>> = said
        .commands
        .iter()
        .map(|c| c.iter().map(Vec::as_slice).collect())
        .collect();
    assert_eq!(found, commands, "{}", input.escape_ascii());
    assert_eq!((said.left, said.error), (left, None), "{}", input.escape_ascii());
    assert_eq!(
        said,
        decode(input, 0..input.len(), &LIMITS),
        "byte by byte: {}",
        input.escape_ascii()
    );
}

fn check_error(input: &[u8], error: ProtocolError) {
    let said = decode(input, [], &LIMITS);
    let shown = || input[..input.len().min(60)].escape_ascii().to_string();
    assert_eq!(said.error, Some(error), "{}", shown());
    assert_eq!(
        said,
        decode(input, 0..input.len(), &LIMITS),
        "byte by byte: {}",
        shown()
    );
}

#[test]
fn whole_commands() {
    check(b"", &[], 0);
    check(b"*1\r\n$4\r\nPING\r\n", &[&[b"PING"]], 0);
    check(
        b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nQUIT\r\n",
        &[&[b"GET", b"k"], &[b"QUIT"]],
        0,
    );
    check(
        b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n",
        &[&[b"SET", b"", b"\r\n"]],
        0,
    );
    check(
        b"*2\r\n$4\r\nECHO\r\n$6\r\n\0\xff*1\r\n\r\n",
        &[&[b"ECHO", b"\0\xff*1\r\n"]],
        0,
    );
    // What asks for nothing is stepped over, between commands too.
    check(
        b"*0\r\n*-1\r\n*-9223372036854775808\r\n\r\n\n*1\r\n$4\r\nPING\r\n",
        &[&[b"PING"]],
        0,
    );
    check(
        b"PING\r\n*1\r\n$4\r\nPING\r\nECHO hi\n",
        &[&[b"PING"], &[b"PING"], &[b"ECHO", b"hi"]],
        0,
    );
}

#[test]
fn unfinished_commands_wait() {
    let whole = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$12\r\nsome longer t\r\n";
    for cut in 0..whole.len() - 1 {
        check(&whole[..cut], &[], cut);
    }
    check(b"PING", &[], 4);
    check(b"*1\r", &[], 3);
    check(b"PING\r\nPIN", &[&[b"PING"]], 3);
}

#[test]
fn what_is_missing_is_said() {
    let mut decoder = Decoder::new();
    let mut step = |input: &[u8]| decoder.step(input, &LIMITS);
    assert_eq!(
        step(b"*2\r\n$3\r\nGET\r\n$1000\r\nabc"),
        Step::NeedMore { at_least: 999 }
    );
    assert_eq!(
        step(b"*2\r\n$3\r\nGET\r\n$1000\r\nabcd"),
        Step::NeedMore { at_least: 998 }
    );
}

#[test]
fn malformed_counts_and_lengths() {
    for count in [
        "", "+1", " 1", "1 ", "01", "00", "-0", "-01", "--1", "1.0", "1e3", "0x1", "a", "1\0", "\u{b9}",
    ] {
        check_error(format!("*{count}\r\n").as_bytes(), InvalidMultibulkLength);
        check_error(format!("*1\r\n${count}\r\n").as_bytes(), InvalidBulkLength);
    }
    check_error(b"*1\rX", InvalidMultibulkLength);
    check_error(b"*1\r\n$4\rX", InvalidBulkLength);
    for negative in ["-1", "-2", "-9223372036854775808", "-9223372036854775809"] {
        check_error(format!("*1\r\n${negative}\r\n").as_bytes(), InvalidBulkLength);
    }
    check_error(b"*-9223372036854775809\r\n", InvalidMultibulkLength);
    check_error(b"*1048577\r\n", InvalidMultibulkLength);
    check_error(b"*1\r\n$1048577\r\n", InvalidBulkLength);
    check_error(b"*1\r\nPING\r\n", ExpectedBulk(b'P'));
    check_error(b"*2\r\n$3\r\nGET\r\n:1\r\n", ExpectedBulk(b':'));
    check_error(b"*1\r\n$4\r\nPINGG\r\n", ExpectedLineEnd);
    check_error(b"*1\r\n$4\r\nPIN\r\n\r\n", ExpectedLineEnd);
    check_error(b"PING\r\nSET 'a\r\n", UnbalancedQuotes);
}

#[test]
fn lines_have_a_limit() {
    let long = |prefix: &str, length: usize| {
        let mut line = prefix.as_bytes().to_vec();
        line.resize(length, b'1');
        line
    };
    let bytes = LIMITS.inline_bytes;
    check_error(&long("", bytes + 1), InlineTooLong);
    check_error(&long("*", bytes + 1), CountLineTooLong);
    check_error(&long("*1\r\n$", bytes + 5), BulkLineTooLong);
    // Of just the limit is fine, in one piece or many, and what follows it is not looked at.
    let mut fits = long("", bytes);
    fits.push(b'\n');
    let said = decode(&fits, [], &LIMITS);
    assert_eq!((said.commands.len(), said.error), (1, None));
    assert_eq!(said, decode(&fits, 0..fits.len(), &LIMITS));
    let mut one_more = long("", bytes + 1);
    one_more.push(b'\n');
    check_error(&one_more, InlineTooLong);
}

#[test]
fn texts_are_those_of_redis() {
    let texts = [
        (InvalidMultibulkLength, "Protocol error: invalid multibulk length"),
        (InvalidBulkLength, "Protocol error: invalid bulk length"),
        (ExpectedBulk(b'x'), "Protocol error: expected '$', got 'x'"),
        (ExpectedBulk(b'\n'), "Protocol error: expected '$', got '\\x0a'"),
        (ExpectedBulk(0xff), "Protocol error: expected '$', got '\\xff'"),
        (InlineTooLong, "Protocol error: too big inline request"),
        (CountLineTooLong, "Protocol error: too big mbulk count string"),
        (BulkLineTooLong, "Protocol error: too big bulk count string"),
        (UnbalancedQuotes, "Protocol error: unbalanced quotes in request"),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
}

/// Counts and lengths of any size are refused, or, when the limits allow them, believed without reserving a byte.
#[test]
fn hostile_lengths_reserve_nothing() {
    let ten_to_the_fortieth = format!("1{}", "0".repeat(40));
    let hostile = [
        "1048576",
        "2147483647",
        "2147483648",
        "4294967295",
        "4294967296",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        &ten_to_the_fortieth,
    ];
    let open = Limits {
        bulk_bytes: usize::MAX,
        array_count: usize::MAX,
        inline_bytes: usize::MAX,
    };
    for limits in [LIMITS, open] {
        for length in hostile {
            for input in [
                format!("*{length}\r\n$1\r\n"),
                format!("*2\r\n$1\r\na\r\n${length}\r\nb\r\n"),
            ] {
                let mut decoder = Decoder::new();
                let step = decoder.step(input.as_bytes(), &limits);
                assert!(
                    matches!(step, Step::NeedMore { .. } | Step::Error(_)),
                    "{input:?}: {step:?}"
                );
                assert!(
                    decoder.held_bytes() <= 256,
                    "{input:?}: holds {}",
                    decoder.held_bytes()
                );
            }
        }
    }
}

#[test]
fn large_commands_give_their_memory_back() {
    let mut large = b"*100000\r\n".to_vec();
    for _ in 0..100_000 {
        large.extend_from_slice(b"$1\r\nx\r\n");
    }
    let mut decoder = Decoder::new();
    assert_eq!(
        decoder.step(&large, &LIMITS),
        Step::Command {
            consumed: large.len()
        }
    );
    assert_eq!(decoder.args(&large).len(), 100_000);
    assert_eq!(&decoder.args(&large)[99_999], b"x");
    assert!(decoder.held_bytes() >= 800_000);
    let ping = b"*1\r\n$4\r\nPING\r\n";
    assert_eq!(
        decoder.step(ping, &LIMITS),
        Step::Command { consumed: ping.len() }
    );
    assert!(
        decoder.held_bytes() <= 16 * 1024,
        "holds {}",
        decoder.held_bytes()
    );
    // From here on nothing is allocated, and nothing given back.
    let held = decoder.held_bytes();
    for _ in 0..100 {
        assert_eq!(
            decoder.step(ping, &LIMITS),
            Step::Command { consumed: ping.len() }
        );
        assert_eq!(decoder.held_bytes(), held);
    }
}

/// What was understood is not read again: the bytes before the place where the decoder stands may change under it.
#[test]
fn understood_bytes_are_not_read_again() {
    let mut input = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n".to_vec();
    let mut decoder = Decoder::new();
    for end in 0..input.len() - 1 {
        assert!(matches!(
            decoder.step(&input[..end], &LIMITS),
            Step::NeedMore { .. }
        ));
        if end == 13 {
            // Behind `SET`: its header and the array's are gone, the argument's place is kept.
            input[..8].fill(b'!');
        }
    }
    assert_eq!(
        decoder.step(&input, &LIMITS),
        Step::Command {
            consumed: input.len()
        }
    );
    let args: Vec<&[u8]> = decoder.args(&input).iter().collect();
    assert_eq!(args, [b"SET".as_slice(), b"key", b"value"]);
    assert!(!decoder.in_command());
}

#[test]
fn args_behave_like_a_slice() {
    use idem_protocol::resp::Args;
    let slices: &[&[u8]] = &[b"SET", b"k", b"v"];
    let wire = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    let mut decoder = Decoder::new();
    decoder.step(wire, &LIMITS);
    for args in [Args::from(slices), decoder.args(wire)] {
        assert_eq!(
            (args.len(), args.is_empty(), args.name()),
            (3, false, b"SET".as_slice())
        );
        assert_eq!((args.get(2), args.get(3)), (Some(b"v".as_slice()), None));
        assert_eq!(
            args.iter().rev().collect::<Vec<_>>(),
            [b"v".as_slice(), b"k", b"SET"]
        );
        assert_eq!(args.tail(1).iter().collect::<Vec<_>>(), slices[1..]);
        assert!(args.tail(3).is_empty() && args.tail(9).is_empty());
        assert_eq!(format!("{args:?}"), r#"["SET", "k", "v"]"#);
    }
    assert_eq!(Args::from(&[] as &[&[u8]]).name(), b"");
}

fn config(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x1de2),
        ..Config::default()
    }
}

/// Bytes in which the signs of the protocol are frequent.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let sign = prop::sample::select(b"*$\r\n0123456789-+ '\"\\x".as_slice());
    let piece = prop_oneof![
        8 => sign.prop_map(|byte| vec![byte]),
        2 => any::<u8>().prop_map(|byte| vec![byte]),
        2 => Just(b"\r\n".to_vec()),
        1 => Just(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".to_vec()),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn request() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8)
}

fn encode(arguments: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        out.extend(format!("${}\r\n", argument.len()).into_bytes());
        out.extend(argument);
        out.extend(b"\r\n");
    }
    out
}

/// Small enough that noise reaches every limit.
const SMALL: Limits = Limits {
    bulk_bytes: 50,
    array_count: 20,
    inline_bytes: 24,
};

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn noise_never_panics_and_cuts_never_matter(input in noise(), cuts in prop::collection::vec(0usize..400, 0..6)) {
        for limits in [LIMITS, SMALL] {
            let whole = decode(&input, [], &limits);
            prop_assert_eq!(&whole, &decode(&input, 0..input.len(), &limits));
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
            cuts.sort_unstable();
            prop_assert_eq!(&whole, &decode(&input, cuts, &limits));
        }
    }

    #[test]
    fn requests_come_back(requests in prop::collection::vec(request(), 0..5)) {
        let input: Vec<u8> = requests.iter().flat_map(|request| encode(request)).collect();
        let whole = decode(&input, [], &LIMITS);
        prop_assert_eq!((&whole.commands, whole.left, whole.error), (&requests, 0, None));
        prop_assert_eq!(&whole, &decode(&input, 0..input.len(), &LIMITS));
    }

    #[test]
    fn damaged_requests_never_panic(
        requests in prop::collection::vec(request(), 1..4),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..4),
    ) {
        let mut input: Vec<u8> = requests.iter().flat_map(|request| encode(request)).collect();
        for (place, byte, kind) in damage {
            if input.is_empty() {
                break;
            }
            let place = place.index(input.len());
            match kind {
                0 => input[place] = byte,
                1 => { input.remove(place); }
                _ => input.insert(place, byte),
            }
        }
        for limits in [LIMITS, SMALL] {
            prop_assert_eq!(decode(&input, [], &limits), decode(&input, 0..input.len(), &limits));
        }
    }
}
