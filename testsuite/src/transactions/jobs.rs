//! What is done in one transaction, and how it is recognised as a whole.

use idem_protocol::resp::value::Value;

use super::{Command, Peer, words};
use crate::process::Client;

/// What the transactions of one writer do, and what there is after them. Transactions are counted from 1.
pub trait Job: Sync {
    /// The commands before transaction `n` that are no part of it.
    fn before(&self, writer: usize, n: u64) -> Vec<Command>;
    /// Its commands, each with the reply that EXEC has to hold for it.
    fn inside(&self, writer: usize, n: u64) -> Vec<(Command, Value)>;
    /// Which transaction was the last that left what is there: at least `least`, at most `most`. The error says what is
    /// there of one transaction and not of another.
    fn last(&self, client: &mut Client, writer: usize, least: u64, most: u64) -> Result<u64, String>;
    /// A reader's look at one moment, in a transaction of its own: the last one that it saw the effect of, 0 when there
    /// is none, and `None` when the connection is lost. `newest` is about the last one that was sent.
    fn seen(&self, peer: &mut Peer, writer: usize, newest: u64) -> Result<Option<u64>, String>;
}

/// A string, a hash, and two keys of which each transaction makes one and deletes the other.
#[derive(Clone, Copy, Debug)]
pub struct ThreeKeys;

impl ThreeKeys {
    fn keys(writer: usize) -> [String; 4] {
        ["string", "hash", "even", "odd"].map(|name| format!("{name}:{writer}"))
    }

    /// Long ones reach over pages, so that a write can be torn inside of a transaction.
    fn value(n: u64) -> Vec<u8> {
        let padding = usize::try_from(n * 7_919 % 9_000).expect("it is small");
        let mut value = format!("{n}:").into_bytes();
        value.resize(value.len() + padding, b'x');
        value
    }

    fn number(value: &Value) -> Result<u64, String> {
        let bytes = match value {
            Value::Null => return Ok(0),
            Value::Bulk(bytes) => bytes,
            other => return Err(format!("{other:?} is no value")),
        };
        let digits: String = bytes
            .iter()
            .map_while(|byte| byte.is_ascii_digit().then_some(char::from(*byte)))
            .collect();
        let n = digits.parse().map_err(|_| format!("{digits:?} is no number"))?;
        (*bytes == ThreeKeys::value(n))
            .then_some(n)
            .ok_or(format!("a changed value of {n}"))
    }

    fn asked(writer: usize) -> Vec<Command> {
        let [string, hash, even, odd] = ThreeKeys::keys(writer);
        vec![
            words(&[b"GET", string.as_bytes()]),
            words(&[b"HGET", hash.as_bytes(), b"n"]),
            words(&[b"GET", even.as_bytes()]),
            words(&[b"GET", odd.as_bytes()]),
        ]
    }

    /// The one transaction that these replies are of.
    fn of_one(replies: &[Value]) -> Result<u64, String> {
        let found: Vec<u64> = replies.iter().map(ThreeKeys::number).collect::<Result<_, _>>()?;
        let n = found[0];
        let expected = if n.is_multiple_of(2) {
            [n, n, n, 0]
        } else {
            [n, n, 0, n]
        };
        if found == expected {
            Ok(n)
        } else {
            Err(format!("string, hash, even, odd are of transactions {found:?}"))
        }
    }
}

impl Job for ThreeKeys {
    fn before(&self, _: usize, _: u64) -> Vec<Command> {
        Vec::new()
    }

    fn inside(&self, writer: usize, n: u64) -> Vec<(Command, Value)> {
        let [string, hash, even, odd] = ThreeKeys::keys(writer);
        let (made, deleted) = if n.is_multiple_of(2) {
            (even, odd)
        } else {
            (odd, even)
        };
        let value = ThreeKeys::value(n);
        let is_first = i64::from(n == 1);
        vec![
            (
                words(&[b"SET", string.as_bytes(), &value]),
                Value::Simple("OK".into()),
            ),
            (
                words(&[b"HSET", hash.as_bytes(), b"n", &value]),
                Value::Int(is_first),
            ),
            (
                words(&[b"SET", made.as_bytes(), &value]),
                Value::Simple("OK".into()),
            ),
            (words(&[b"DEL", deleted.as_bytes()]), Value::Int(1 - is_first)),
        ]
    }

    fn last(&self, client: &mut Client, writer: usize, _: u64, _: u64) -> Result<u64, String> {
        ThreeKeys::of_one(&all(client, &ThreeKeys::asked(writer))?)
    }

    fn seen(&self, peer: &mut Peer, writer: usize, _: u64) -> Result<Option<u64>, String> {
        match peer.transaction(&ThreeKeys::asked(writer))? {
            Some(replies) => ThreeKeys::of_one(&replies).map(Some),
            None => Ok(None),
        }
    }
}

/// `IDEM … COMPLETE`, `ONCE`, and a `SET` as the effect: a job of its own for each transaction.
#[derive(Clone, Copy, Debug)]
pub struct Completion;

impl Completion {
    fn keys(writer: usize, n: u64) -> [String; 3] {
        ["job", "once", "effect"].map(|name| format!("{name}:{writer}:{n}"))
    }

    fn result(n: u64) -> Vec<u8> {
        [b"\xff\r\n".as_slice(), &ThreeKeys::value(n)].concat()
    }

    /// Whether transaction `n` left what is there; a part of it is an error.
    fn is_done(replies: &[Value], n: u64) -> Result<bool, String> {
        let state = replies[0].entry(b"state").and_then(Value::as_bytes);
        match (state, &replies[1], &replies[2]) {
            (Some(b"completed"), Value::Int(1), Value::Bulk(effect)) if *effect == Completion::result(n) => {
                Ok(true)
            }
            // The BEGIN before it may be there alone.
            (Some(b"pending") | None, Value::Int(0), Value::Null) => Ok(false),
            _ => Err(format!("a part of transaction {n}: {replies:?}")),
        }
    }

    fn asked(writer: usize, n: u64) -> Vec<Command> {
        let [job, once, effect] = Completion::keys(writer, n);
        vec![
            words(&[b"IDEM", job.as_bytes(), b"INSPECT"]),
            words(&[b"EXISTS", once.as_bytes()]),
            words(&[b"GET", effect.as_bytes()]),
        ]
    }
}

impl Job for Completion {
    fn before(&self, writer: usize, n: u64) -> Vec<Command> {
        let [job, ..] = Completion::keys(writer, n);
        vec![words(&[
            b"IDEM",
            job.as_bytes(),
            b"BEGIN",
            b"fingerprint",
            b"owner",
            b"3600000",
        ])]
    }

    fn inside(&self, writer: usize, n: u64) -> Vec<(Command, Value)> {
        let [job, once, effect] = Completion::keys(writer, n);
        let result = Completion::result(n);
        vec![
            (
                words(&[
                    b"IDEM",
                    job.as_bytes(),
                    b"COMPLETE",
                    b"fingerprint",
                    b"owner",
                    &result,
                ]),
                Value::Int(1),
            ),
            (words(&[b"ONCE", once.as_bytes(), b"3600000"]), Value::Int(1)),
            (
                words(&[b"SET", effect.as_bytes(), &result]),
                Value::Simple("OK".into()),
            ),
        ]
    }

    fn last(&self, client: &mut Client, writer: usize, least: u64, most: u64) -> Result<u64, String> {
        // The ones before `least` were looked at after earlier kills; a few of them again.
        let first = least.saturating_sub(20).max(1);
        let mut last = first - 1;
        for n in first..=most {
            if !Completion::is_done(&all(client, &Completion::asked(writer, n))?, n)? {
                continue;
            }
            if last + 1 != n {
                return Err(format!("transaction {n} is there, and {} is not", last + 1));
            }
            last = n;
        }
        Ok(last)
    }

    fn seen(&self, peer: &mut Peer, writer: usize, newest: u64) -> Result<Option<u64>, String> {
        match peer.transaction(&Completion::asked(writer, newest))? {
            Some(replies) => Ok(Some(if Completion::is_done(&replies, newest)? {
                newest
            } else {
                0
            })),
            None => Ok(None),
        }
    }
}

/// The replies to these commands, one after the other; an error reply is an error.
fn all(client: &mut Client, commands: &[Command]) -> Result<Vec<Value>, String> {
    let ask = |command: &Command| {
        let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        match client.call(&words) {
            Ok(Value::Error(text)) => Err(text),
            Ok(value) => Ok(value),
            Err(error) => Err(error.to_string()),
        }
    };
    commands.iter().map(ask).collect()
}
