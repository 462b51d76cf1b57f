//! A record as one line: the fields in the order in which JSON has them. What does not apply to a kind is left out.
//!
//! Every command that shows records shows them like this, with the same names and the same columns.

pub(crate) mod human;

use idem_protocol::Deadline;
use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::wal::{
    DeleteReason, EpochReason, FrameHeader, MemberList, Pairs, RawRecord, Record, Strings,
};
use serde::{Serialize, Serializer};

use crate::text::Escaped;

/// Which databases a record changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    One(u8),
    All,
    None,
}

/// The key that a record is about.
pub(crate) fn key<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    match *record {
        Record::StringPut { key, .. }
        | Record::Delete { key, .. }
        | Record::DeadlinePut { key, .. }
        | Record::HashPut { key, .. }
        | Record::HashDelete { key, .. }
        | Record::IdempotencyPut { key, .. } => Some(key),
        Record::FlushDb
        | Record::FlushAll
        | Record::Transaction { .. }
        | Record::EpochStart { .. }
        | Record::Members { .. }
        | Record::Clock => None,
    }
}

/// The databases that a record in database `db` changes.
pub(crate) fn scope(db: u8, record: &Record<'_>) -> Scope {
    match record {
        Record::FlushDb => Scope::One(db),
        Record::FlushAll => Scope::All,
        other if key(other).is_some() => Scope::One(db),
        _ => Scope::None,
    }
}

/// A record, or one of the records in a Transaction.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Line<'a> {
    pub(crate) lsn: u64,
    pub(crate) time_ms: u64,
    /// Of the record; an event without one has neither this nor a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) opcode: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<&'static str>,
    /// Which part of its transaction, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tx_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tx_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) db: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<Escaped<'a>>,
    /// Unix milliseconds, null for a key without an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline_ms: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fingerprint: Option<Escaped<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Escaped<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result_bytes: Option<usize>,
    /// Of a string; of a hash, all fields and values that the record names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value_bytes: Option<usize>,
    /// How many fields of a hash the record names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fields: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) epoch: Option<u64>,
    /// Hex: it is no number to calculate with, and has more digits than many JSON readers keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nonce: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) previous_epoch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) previous_nonce: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) required: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) members: Option<Members<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Escaped<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Value<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<u64>,
}

/// The state that an IDEM transition leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Pending,
    Completed,
    Aborted,
}

impl State {
    /// As JSON has it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Completed => "completed",
            State::Aborted => "aborted",
        }
    }
}

/// The members of a list, as objects.
#[derive(Clone, Copy)]
pub(crate) struct Members<'a>(pub(crate) MemberList<'a>);

#[derive(Serialize)]
struct MemberLine<'a> {
    node: String,
    address: Escaped<'a>,
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(node, address)| MemberLine {
            node: node.to_string(),
            address: Escaped(address),
        }))
    }
}

/// What a key holds after the record; of a hash only the fields that the record names.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    String(&'a [u8]),
    /// `[field, value]` each.
    Set(Pairs<'a>),
    /// Field names.
    Removed(Strings<'a>),
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::String(bytes) => Escaped(bytes).serialize(serializer),
            Value::Set(pairs) => serializer.collect_seq(
                pairs
                    .iter()
                    .map(|(field, value)| (Escaped(field), Escaped(value))),
            ),
            Value::Removed(fields) => serializer.collect_seq(fields.iter().map(Escaped)),
        }
    }
}

impl<'a> Line<'a> {
    /// What `record` in database `db` says, with its values when they are wanted.
    pub(crate) fn new(raw: &RawRecord<'_>, db: u8, record: &Record<'a>, values: bool) -> Line<'a> {
        let mut line = Line {
            lsn: raw.lsn.get(),
            time_ms: raw.time.get(),
            opcode: Some(record.opcode().to_byte()),
            name: Some(record.opcode().name()),
            db: match scope(db, record) {
                Scope::One(db) => Some(db),
                Scope::All | Scope::None => None,
            },
            key: key(record).map(Escaped),
            ..Line::default()
        };
        match *record {
            Record::StringPut { deadline, value, .. } => {
                line.deadline_ms = Some(end(deadline));
                line.value_bytes = Some(value.len());
                line.value = values.then_some(Value::String(value));
                // Whoever wrote it, a server takes it as what it looks like.
                if let Ok(record) = IdemRecord::decode_stored(value) {
                    line.idem(&record, values);
                }
            }
            Record::Delete { reason, .. } => {
                line.reason = Some(match reason {
                    DeleteReason::Command => "command",
                    DeleteReason::Evicted => "evicted",
                });
            }
            Record::DeadlinePut { deadline, .. } => line.deadline_ms = Some(end(deadline)),
            Record::HashPut { deadline, fields, .. } => {
                line.deadline_ms = Some(end(deadline));
                line.fields = Some(fields.len());
                line.value_bytes = Some(
                    fields
                        .iter()
                        .map(|(field, value)| field.len() + value.len())
                        .sum(),
                );
                line.value = values.then_some(Value::Set(fields));
            }
            Record::HashDelete { fields, .. } => {
                line.fields = Some(fields.len());
                line.value = values.then_some(Value::Removed(fields));
            }
            Record::EpochStart {
                epoch,
                node,
                previous,
                reason,
            } => {
                line.epoch = Some(epoch.number);
                line.nonce = Some(format!("{:016x}", epoch.nonce));
                line.previous_epoch = Some(previous.number);
                line.previous_nonce = Some(format!("{:016x}", previous.nonce));
                line.node = Some(node.to_string());
                line.reason = Some(match reason {
                    EpochReason::Start => "start",
                    EpochReason::Promotion => "promotion",
                    EpochReason::Restore => "restore",
                });
            }
            Record::Members { required, members } => {
                line.required = Some(required);
                line.members = Some(Members(members));
            }
            Record::IdempotencyPut { deadline, record, .. } => {
                line.deadline_ms = Some(end(deadline));
                line.idem(&record, values);
            }
            Record::FlushDb | Record::FlushAll | Record::Clock | Record::Transaction { .. } => {}
        }
        line
    }

    /// What an IDEM record says, with its result when that is wanted.
    pub(crate) fn idem(&mut self, record: &IdemRecord<'a>, values: bool) {
        self.state = Some(match record.state {
            IdemState::Pending => State::Pending,
            IdemState::Completed => State::Completed,
            IdemState::Aborted => State::Aborted,
        });
        self.fingerprint = Some(Escaped(record.fingerprint));
        self.owner = Some(Escaped(record.owner));
        self.result_bytes = Some(record.result.len());
        self.result = (values && record.state == IdemState::Completed).then_some(Escaped(record.result));
    }
}

fn end(deadline: Deadline) -> Option<u64> {
    deadline.is_some().then(|| deadline.get())
}

/// A group commit, before its records.
#[derive(Serialize)]
pub(crate) struct FrameLine {
    /// `group`, or `seal` for an empty one that witnesses the group before it.
    pub(crate) frame: &'static str,
    pub(crate) lsn: u64,
    pub(crate) synced_lsn: u64,
    pub(crate) records: u32,
    pub(crate) record_bytes: u32,
    pub(crate) file: String,
    pub(crate) offset: u64,
}

impl FrameLine {
    pub(crate) fn new(file: String, offset: u64, header: &FrameHeader) -> FrameLine {
        FrameLine {
            frame: if header.seal { "seal" } else { "group" },
            lsn: header.lsn.get(),
            synced_lsn: header.synced.get(),
            records: header.count,
            record_bytes: header.payload_bytes,
            file,
            offset,
        }
    }
}
