//! One client's acknowledged transitions, one key after the other: the oracle for tests of one fault at a time.
//!
//! Where several clients and random kills are wanted, see [`crate::oracle`]; here the point is that a reader of a test
//! sees at once what was acknowledged before and after the fault.

use idem_protocol::resp::value::Value;

use crate::process::{Client, ClientError};

const TTL_MS: i64 = 3_600_000;
const FINGERPRINT: &[u8] = b"fingerprint";

/// What was acknowledged, and the one operation that was not.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    key: String,
    result: Vec<u8>,
    begun: Known,
    deadline_ms: Option<i64>,
    completed: Known,
}

/// What is known of one transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    NotSent,
    Unknown,
    Acknowledged,
    /// Answered with an error: it did not happen.
    Refused,
}

/// Why a step did not get to its end.
#[derive(Debug)]
pub enum Refusal {
    /// No reply: unknown.
    Lost(ClientError),
    /// An error reply, for example `MISCONF …`: not done.
    Error(String),
}

impl Ledger {
    /// Begins and completes one new key with a result of so many bytes.
    pub fn step(&mut self, client: &mut Client, result_bytes: usize) -> Result<(), Refusal> {
        let key = format!("ledger:{}", self.entries.len());
        // The bytes differ from key to key, so that one result cannot stand in for another.
        let result = key.bytes().cycle().take(result_bytes).collect();
        self.entries.push(Entry {
            key,
            result,
            begun: Known::NotSent,
            deadline_ms: None,
            completed: Known::NotSent,
        });
        self.entries.last_mut().expect("it was just pushed").step(client)
    }

    /// Steps until one is refused or lost; at most `most`.
    pub fn steps(&mut self, client: &mut Client, result_bytes: usize, most: usize) -> Result<(), Refusal> {
        (0..most).try_for_each(|_| self.step(client, result_bytes))
    }

    /// Transitions that were acknowledged.
    pub fn acknowledged(&self) -> usize {
        let known = self
            .entries
            .iter()
            .flat_map(|entry| [entry.begun, entry.completed]);
        known.filter(|known| *known == Known::Acknowledged).count()
    }

    /// The keys, begun or not.
    pub fn keys(&self) -> Vec<String> {
        self.entries.iter().map(|entry| entry.key.clone()).collect()
    }

    /// A key that was completed, for reads of something settled.
    pub fn completed_key(&self) -> Option<&str> {
        self.entries
            .iter()
            .find(|entry| entry.completed == Known::Acknowledged)
            .map(|entry| entry.key.as_str())
    }

    /// Everything acknowledged is there, with exactly its deadline and result, and nothing that was refused is. Panics
    /// with the first difference.
    pub fn check(&self, client: &mut Client) {
        self.differences(client)
            .unwrap_or_else(|difference| panic!("{difference}"));
    }

    /// As [`Ledger::check`]; the error is the first difference.
    pub fn differences(&self, client: &mut Client) -> Result<(), String> {
        self.entries.iter().try_for_each(|entry| {
            let known = (entry.begun, entry.completed);
            entry
                .check(client)
                .map_err(|difference| format!("{}: {difference} (known: {known:?})", entry.key))
        })
    }
}

impl Entry {
    fn step(&mut self, client: &mut Client) -> Result<(), Refusal> {
        let (key, owner) = (self.key.as_bytes(), self.owner());
        let ttl = TTL_MS.to_string();
        self.begun = Known::Unknown;
        match client
            .call(&[b"IDEM", key, b"BEGIN", FINGERPRINT, &owner, ttl.as_bytes()])
            .map_err(Refusal::Lost)?
        {
            Value::Array(items) if items == [Value::Bulk(b"acquired".to_vec())] => {
                self.begun = Known::Acknowledged
            }
            Value::Error(text) => {
                self.begun = Known::Refused;
                return Err(Refusal::Error(text));
            }
            other => panic!("BEGIN {} answered {other:?}", self.key),
        }
        let inspection = client.call(&[b"IDEM", key, b"INSPECT"]).map_err(Refusal::Lost)?;
        self.deadline_ms = inspection.entry(b"deadline_ms").and_then(Value::as_int);
        assert!(
            self.deadline_ms.is_some(),
            "INSPECT {} answered {inspection:?}",
            self.key
        );
        self.completed = Known::Unknown;
        let reply = client.call(&[b"IDEM", key, b"COMPLETE", FINGERPRINT, &owner, &self.result]);
        match reply.map_err(Refusal::Lost)? {
            Value::Int(1) => {
                self.completed = Known::Acknowledged;
                Ok(())
            }
            Value::Error(text) => {
                self.completed = Known::Refused;
                Err(Refusal::Error(text))
            }
            other => panic!("COMPLETE {} answered {other:?}", self.key),
        }
    }

    fn owner(&self) -> Vec<u8> {
        format!("owner of {}", self.key).into_bytes()
    }

    fn check(&self, client: &mut Client) -> Result<(), String> {
        let inspection = client
            .call(&[b"IDEM", self.key.as_bytes(), b"INSPECT"])
            .map_err(|error| error.to_string())?;
        let is_completed = match inspection.entry(b"state").and_then(Value::as_bytes) {
            None if inspection == Value::Null && self.begun != Known::Acknowledged => return Ok(()),
            Some(b"pending") if may_be(self.begun) && self.completed != Known::Acknowledged => false,
            Some(b"completed") if may_be(self.begun) && may_be(self.completed) => true,
            _ => return Err(format!("INSPECT answered {inspection:?}")),
        };
        if inspection.entry(b"owner").and_then(Value::as_bytes) != Some(&self.owner()) {
            return Err(format!("another owner: {inspection:?}"));
        }
        let deadline = inspection.entry(b"deadline_ms").and_then(Value::as_int);
        if deadline.is_none() || self.deadline_ms.is_some_and(|told| Some(told) != deadline) {
            return Err(format!(
                "the deadline is {deadline:?}, told was {:?}",
                self.deadline_ms
            ));
        }
        if is_completed {
            let reply = client.call(&[
                b"IDEM",
                self.key.as_bytes(),
                b"BEGIN",
                FINGERPRINT,
                b"somebody",
                b"1000",
            ]);
            let expected = Value::Array(vec![
                Value::Bulk(b"completed".to_vec()),
                Value::Bulk(self.result.clone()),
            ]);
            if reply.map_err(|error| error.to_string())? != expected {
                return Err("the result is another one".to_owned());
            }
        }
        Ok(())
    }
}

fn may_be(known: Known) -> bool {
    matches!(known, Known::Unknown | Known::Acknowledged)
}
