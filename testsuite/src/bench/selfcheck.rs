//! Before anything is measured: both servers do the same job. A comparison of two different jobs would be worth nothing.

use idem_protocol::resp::value::Value;

use super::Failure;
use super::server::Server;
use super::wire::{Arguments, Phase};

/// A command and its reply: phase, key, fingerprint, owner, result; what has to come.
type Step = (
    Phase,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Answer,
);

#[derive(Clone, Copy, Debug)]
enum Answer {
    Words(&'static [&'static str]),
    Number(i64),
    Error(&'static str),
}

/// The tables of the contract, as far as the measured phases touch them.
const STEPS: &[Step] = &[
    (Phase::Complete, "k", "f", "o", "r", Answer::Number(0)),
    (Phase::Begin, "k", "f", "o", "", Answer::Words(&["acquired"])),
    (Phase::Begin, "k", "f", "o", "", Answer::Words(&["pending"])),
    (Phase::Begin, "k", "f", "other", "", Answer::Words(&["pending"])),
    (Phase::Begin, "k", "other", "o", "", Answer::Words(&["conflict"])),
    (Phase::Complete, "k", "other", "o", "r", Answer::Number(0)),
    (Phase::Complete, "k", "f", "other", "r", Answer::Number(0)),
    (Phase::Complete, "k", "f", "o", "r", Answer::Number(1)),
    (Phase::Complete, "k", "f", "o", "r", Answer::Number(1)),
    (Phase::Complete, "k", "f", "o", "another", Answer::Number(0)),
    (Phase::Complete, "k", "f", "other", "r", Answer::Number(0)),
    (
        Phase::Begin,
        "k",
        "f",
        "other",
        "",
        Answer::Words(&["completed", "r"]),
    ),
    (Phase::Begin, "k", "other", "o", "", Answer::Words(&["conflict"])),
    (Phase::Begin, "empty", "f", "o", "", Answer::Words(&["acquired"])),
    (Phase::Complete, "empty", "f", "o", "", Answer::Number(1)),
    (
        Phase::Begin,
        "empty",
        "f",
        "o",
        "",
        Answer::Words(&["completed", ""]),
    ),
    (Phase::Begin, "plain", "f", "o", "", Answer::Error("WRONGTYPE")),
    (
        Phase::Complete,
        "plain",
        "f",
        "o",
        "r",
        Answer::Error("WRONGTYPE"),
    ),
];

/// What lies under `k` after the steps, in both servers.
const RECORD: &[u8] = b"IDM\x01\x01\x01\x01\x01\0\0\0for";

/// Takes a server through all steps. It is empty before and afterwards.
pub fn check(server: &Server) -> Result<(), Failure> {
    let mut client = server.client()?;
    let name = server.system().word();
    let mut call = |words: &[&[u8]]| {
        client
            .call(words)
            .map_err(|error| Failure::new(format!("self-check of {name}: {error}")))
    };
    call(&[b"SET", b"plain", b"no record"])?;
    for step in STEPS {
        let (phase, key, fingerprint, owner, result, expected) = *step;
        let args = Arguments {
            key: key.as_bytes(),
            fingerprint: fingerprint.as_bytes(),
            owner: owner.as_bytes(),
            result: result.as_bytes(),
        };
        let reply = call(&server.dialect().command(phase, &args))?;
        if !fits(&reply, expected) {
            return Err(Failure::new(format!(
                "self-check: {name} answers {step:?} with {reply:?}"
            )));
        }
    }
    let stored = call(&[b"GET", b"k"])?;
    if stored != Value::Bulk(RECORD.to_vec()) {
        return Err(Failure::new(format!("self-check: {name} stores {stored:?}")));
    }
    // The deadline is that of BEGIN: it is there, and a completion moved it by nothing.
    match call(&[b"PTTL", b"k"])? {
        Value::Int(1..=86_400_000) => {}
        other => {
            return Err(Failure::new(format!(
                "self-check: {name} keeps a TTL of {other:?}"
            )));
        }
    }
    call(&[b"FLUSHALL"])?;
    Ok(())
}

fn fits(reply: &Value, expected: Answer) -> bool {
    match (reply, expected) {
        (Value::Array(items), Answer::Words(words)) => {
            items.len() == words.len()
                && items
                    .iter()
                    .zip(words)
                    .all(|(item, word)| matches!(item, Value::Bulk(bytes) if bytes == word.as_bytes()))
        }
        (Value::Int(found), Answer::Number(number)) => *found == number,
        (Value::Error(text), Answer::Error(code)) => text.starts_with(code),
        _ => false,
    }
}
