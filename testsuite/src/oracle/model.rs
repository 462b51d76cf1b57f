//! The model: what each operation does to a writer's keys, and what it answers.

use std::collections::BTreeMap;

use idem_protocol::idem::{IdemRecord, IdemState, transition};
use idem_protocol::resp::value::Value;

use super::deadlines::{Deadlines, now_ms};

/// How far `now + PTTL` may be from a deadline: the time that a reply may lie around.
const SLACK_MS: u64 = 20_000;

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing.
    Absent,
    /// An ordinary string.
    Text {
        /// Its bytes.
        value: Vec<u8>,
        /// Its deadline, Unix ms.
        deadline_ms: Option<u64>,
    },
    /// An IDEM record. Its deadline is fixed by its owner ([`Deadlines`]).
    Idem {
        /// Whether it is completed.
        completed: bool,
        /// Its fingerprint.
        fingerprint: Vec<u8>,
        /// Its owner.
        owner: Vec<u8>,
        /// Its result, empty while pending.
        result: Vec<u8>,
    },
}

/// A writer's keys.
pub(super) type World = BTreeMap<String, State>;

/// One operation of a writer.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// IDEM BEGIN.
    Begin {
        key: String,
        fingerprint: Vec<u8>,
        owner: Vec<u8>,
        ttl_ms: u64,
    },
    /// IDEM COMPLETE.
    Complete {
        key: String,
        fingerprint: Vec<u8>,
        owner: Vec<u8>,
        result: Vec<u8>,
    },
    /// IDEM ABORT.
    Abort {
        key: String,
        fingerprint: Vec<u8>,
        owner: Vec<u8>,
    },
    /// SET, with PXAT when there is a deadline.
    Set {
        key: String,
        value: Vec<u8>,
        deadline_ms: Option<u64>,
    },
    /// DEL.
    Del { key: String },
    /// GET.
    Get { key: String },
    /// IDEM INSPECT.
    Inspect { key: String },
}

/// What the reply has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// An array of these bulk strings.
    Words(Vec<Vec<u8>>),
    /// An integer.
    Int(i64),
    /// `+OK`
    Ok,
    /// A bulk string, or null.
    Bytes(Option<Vec<u8>>),
    /// `WRONGTYPE`
    WrongType,
    /// What INSPECT says about this state.
    Inspection(State),
}

impl Op {
    /// The key.
    pub(super) fn key(&self) -> &str {
        match self {
            Op::Begin { key, .. }
            | Op::Complete { key, .. }
            | Op::Abort { key, .. }
            | Op::Set { key, .. }
            | Op::Del { key }
            | Op::Get { key }
            | Op::Inspect { key } => key,
        }
    }

    /// The command.
    pub(super) fn args(&self) -> Vec<Vec<u8>> {
        let words: Vec<&[u8]> = match self {
            Op::Begin {
                key,
                fingerprint,
                owner,
                ttl_ms,
            } => {
                let ttl = ttl_ms.to_string();
                return [
                    b"IDEM",
                    key.as_bytes(),
                    b"BEGIN",
                    fingerprint,
                    owner,
                    ttl.as_bytes(),
                ]
                .map(<[u8]>::to_vec)
                .into();
            }
            Op::Complete {
                key,
                fingerprint,
                owner,
                result,
            } => {
                vec![b"IDEM", key.as_bytes(), b"COMPLETE", fingerprint, owner, result]
            }
            Op::Abort {
                key,
                fingerprint,
                owner,
            } => vec![b"IDEM", key.as_bytes(), b"ABORT", fingerprint, owner],
            Op::Set {
                key,
                value,
                deadline_ms: None,
            } => vec![b"SET", key.as_bytes(), value],
            Op::Set {
                key,
                value,
                deadline_ms: Some(at),
            } => {
                let at = at.to_string();
                return [b"SET", key.as_bytes(), value, b"PXAT", at.as_bytes()]
                    .map(<[u8]>::to_vec)
                    .into();
            }
            Op::Del { key } => vec![b"DEL", key.as_bytes()],
            Op::Get { key } => vec![b"GET", key.as_bytes()],
            Op::Inspect { key } => vec![b"IDEM", key.as_bytes(), b"INSPECT"],
        };
        words.into_iter().map(<[u8]>::to_vec).collect()
    }

    /// Does it to the model, and says what the reply has to be.
    pub(super) fn apply(&self, world: &mut World) -> Expected {
        let state = world.entry(self.key().to_owned()).or_insert(State::Absent);
        match self {
            Op::Set {
                value, deadline_ms, ..
            } => {
                *state = State::Text {
                    value: value.clone(),
                    deadline_ms: *deadline_ms,
                };
                Expected::Ok
            }
            Op::Del { .. } => {
                let there = *state != State::Absent;
                *state = State::Absent;
                Expected::Int(i64::from(there))
            }
            Op::Get { .. } => Expected::Bytes(state.stored_bytes()),
            Op::Inspect { .. } => match state {
                State::Text { .. } => Expected::WrongType,
                state => Expected::Inspection(state.clone()),
            },
            Op::Begin { .. } | Op::Complete { .. } | Op::Abort { .. }
                if matches!(state, State::Text { .. }) =>
            {
                Expected::WrongType
            }
            Op::Begin {
                fingerprint, owner, ..
            } => match transition::begin(state.record(), fingerprint) {
                transition::Begin::Acquire => {
                    *state = State::Idem {
                        completed: false,
                        fingerprint: fingerprint.clone(),
                        owner: owner.clone(),
                        result: Vec::new(),
                    };
                    Expected::Words(vec![b"acquired".to_vec()])
                }
                transition::Begin::Conflict => Expected::Words(vec![b"conflict".to_vec()]),
                transition::Begin::Pending => Expected::Words(vec![b"pending".to_vec()]),
                transition::Begin::Completed { result } => {
                    Expected::Words(vec![b"completed".to_vec(), result.to_vec()])
                }
            },
            Op::Complete {
                fingerprint,
                owner,
                result,
                ..
            } => match transition::complete(state.record(), fingerprint, owner, result) {
                transition::Complete::Store => {
                    *state = State::Idem {
                        completed: true,
                        fingerprint: fingerprint.clone(),
                        owner: owner.clone(),
                        result: result.clone(),
                    };
                    Expected::Int(1)
                }
                transition::Complete::AlreadyStored => Expected::Int(1),
                transition::Complete::Refused => Expected::Int(0),
            },
            Op::Abort {
                fingerprint, owner, ..
            } => match transition::abort(state.record(), fingerprint, owner) {
                transition::Abort::Remove => {
                    *state = State::Absent;
                    Expected::Int(1)
                }
                transition::Abort::Refused => Expected::Int(0),
            },
        }
    }
}

impl State {
    /// As the codec sees it.
    pub(super) fn record(&self) -> Option<IdemRecord<'_>> {
        let State::Idem {
            completed,
            fingerprint,
            owner,
            result,
        } = self
        else {
            return None;
        };
        let state = if *completed {
            IdemState::Completed
        } else {
            IdemState::Pending
        };
        Some(IdemRecord {
            state,
            fingerprint,
            owner,
            result,
        })
    }

    /// What GET answers.
    pub(super) fn stored_bytes(&self) -> Option<Vec<u8>> {
        match self {
            State::Absent => None,
            State::Text { value, .. } => Some(value.clone()),
            State::Idem { .. } => self.record().map(|record| {
                let mut bytes = Vec::new();
                record.encode(&mut bytes);
                bytes
            }),
        }
    }

    /// What a key holds, from the replies to GET and PTTL.
    pub(super) fn observe(get: &Value, pttl: &Value) -> Result<State, String> {
        let (Value::Bulk(bytes), Value::Int(left_ms)) = (get, pttl) else {
            return match (get, pttl) {
                (Value::Null, Value::Int(-2)) => Ok(State::Absent),
                other => Err(format!("GET and PTTL answered {other:?}")),
            };
        };
        if let Ok(record) = IdemRecord::decode_stored(bytes) {
            if *left_ms < 0 {
                return Err(format!("an IDEM record without a deadline: {record:?}"));
            }
            return Ok(State::Idem {
                completed: record.state == IdemState::Completed,
                fingerprint: record.fingerprint.to_vec(),
                owner: record.owner.to_vec(),
                result: record.result.to_vec(),
            });
        }
        let deadline_ms = u64::try_from(*left_ms).ok().map(|left| now_ms() + left);
        Ok(State::Text {
            value: bytes.clone(),
            deadline_ms,
        })
    }

    /// Whether an observed state is this one. A string's deadline was computed from what was left of it.
    pub(super) fn is_observed_as(&self, observed: &State) -> bool {
        match (self, observed) {
            (
                State::Text { value, deadline_ms },
                State::Text {
                    value: found,
                    deadline_ms: found_ms,
                },
            ) => {
                value == found
                    && match (deadline_ms, found_ms) {
                        (Some(at), Some(found)) => at.abs_diff(*found) <= SLACK_MS,
                        (at, found) => at == found,
                    }
            }
            (state, observed) => state == observed,
        }
    }
}

impl Expected {
    /// Compares with the reply, and takes note of a deadline in it. The error is the violation.
    pub(super) fn check(&self, reply: &Value, deadlines: &Deadlines) -> Result<(), String> {
        let as_expected = match (self, reply) {
            (Expected::Words(words), Value::Array(items)) => {
                words.len() == items.len()
                    && words
                        .iter()
                        .zip(items)
                        .all(|(word, item)| item.as_bytes() == Some(word.as_slice()))
            }
            (Expected::Int(expected), Value::Int(found)) => expected == found,
            (Expected::Ok, Value::Simple(text)) => text == "OK",
            (Expected::Bytes(None), Value::Null) => true,
            (Expected::Bytes(Some(expected)), Value::Bulk(found)) => expected == found,
            (Expected::WrongType, Value::Error(text)) => text.starts_with("WRONGTYPE"),
            (Expected::Inspection(State::Absent), Value::Null) => true,
            (Expected::Inspection(state), reply) => return check_inspection(state, reply, deadlines),
            _ => false,
        };
        if as_expected {
            Ok(())
        } else {
            Err(format!("expected {}, got {}", short(self), short(reply)))
        }
    }
}

fn check_inspection(state: &State, reply: &Value, deadlines: &Deadlines) -> Result<(), String> {
    let wrong = || format!("expected an inspection of {}, got {}", short(state), short(reply));
    let record = state.record().ok_or_else(wrong)?;
    let field = |name: &str| reply.entry(name.as_bytes());
    let bytes = |name| field(name).and_then(Value::as_bytes);
    let same = bytes("state") == Some(record.state.word().as_bytes())
        && bytes("fingerprint") == Some(record.fingerprint)
        && bytes("owner") == Some(record.owner)
        && field("result_bytes").and_then(Value::as_int) == i64::try_from(record.result.len()).ok();
    if !same {
        return Err(wrong());
    }
    deadlines.told(
        record.owner,
        field("deadline_ms").and_then(Value::as_int).ok_or_else(wrong)?,
    )
}

/// The beginning of a value's debug form: results can be large.
pub(super) fn short(value: &impl std::fmt::Debug) -> String {
    const SHOWN: usize = 400;
    let text = format!("{value:?}");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
