//! One key of a state: the fields as the records of a log have them, and what is known of the record behind it.

use std::io::{self, Write};

use idem_engine::keyspace::{EntryRef, HashValue, ValueRef};
use idem_protocol::Deadline;
use idem_protocol::idem::{IdemRecord, IdemState};
use serde::{Serialize, Serializer};

use crate::output::{Paint, Tone};
use crate::text::{Escaped, Time};

/// What does not apply is left out.
#[derive(Default, Serialize)]
pub(super) struct Entry<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lsn: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) opcode: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'static str>,
    db: u8,
    key: Escaped<'a>,
    /// `idem`, `string` or `hash`.
    r#type: &'static str,
    /// Unix milliseconds, null for a key without an end.
    deadline_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<Escaped<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<Escaped<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_bytes: Option<usize>,
    /// Of a string; of a hash, all fields and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    value_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Escaped<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value<'a>>,
}

/// A string, or `[field, value]` each.
#[derive(Clone, Copy)]
enum Value<'a> {
    String(&'a [u8]),
    Hash(&'a HashValue),
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::String(bytes) => Escaped(bytes).serialize(serializer),
            Value::Hash(hash) => {
                serializer.collect_seq(hash.iter().map(|(field, value)| (Escaped(field), Escaped(value))))
            }
        }
    }
}

impl<'a> Entry<'a> {
    /// What is under a key, with the value when it is wanted.
    pub(super) fn new(db: u8, entry: &EntryRef<'a>, values: bool) -> Entry<'a> {
        let deadline = entry.deadline();
        let mut line = Entry {
            db,
            key: Escaped(entry.key()),
            deadline_ms: deadline.is_some().then(|| deadline.get()),
            ..Entry::default()
        };
        match entry.value() {
            ValueRef::String(bytes) => match IdemRecord::decode_stored(bytes) {
                Ok(record) => line.idem(&record, values),
                Err(_) => {
                    line.r#type = "string";
                    line.value_bytes = Some(bytes.len());
                    line.value = values.then_some(Value::String(bytes));
                }
            },
            ValueRef::Hash(hash) => {
                line.r#type = "hash";
                line.fields = Some(hash.len());
                line.value_bytes = Some(hash.iter().map(|(field, value)| field.len() + value.len()).sum());
                line.value = values.then_some(Value::Hash(hash));
            }
        }
        line
    }

    fn idem(&mut self, record: &IdemRecord<'a>, values: bool) {
        self.r#type = "idem";
        self.state = Some(match record.state {
            IdemState::Pending => "pending",
            IdemState::Completed => "completed",
            IdemState::Aborted => "aborted",
        });
        self.fingerprint = Some(Escaped(record.fingerprint));
        self.owner = Some(Escaped(record.owner));
        self.result_bytes = Some(record.result.len());
        self.result = (values && record.state == IdemState::Completed).then_some(Escaped(record.result));
    }

    /// A line for people, without its end.
    pub(super) fn human(&self, out: &mut impl Write, paint: Paint) -> io::Result<()> {
        write!(out, "db {}  {}", self.db, self.key)?;
        match self.state {
            Some(state) => {
                let tone = if state == "completed" {
                    Tone::Good
                } else {
                    Tone::Warning
                };
                write!(out, "  {}", paint.tone(tone, state))?;
            }
            None => write!(out, "  {}", self.r#type)?,
        }
        match self.deadline_ms {
            Some(ms) => write!(out, "  until {}", Time::from(Deadline::at(ms)))?,
            None => write!(out, "  no end")?,
        }
        if let (Some(owner), Some(fingerprint)) = (self.owner, self.fingerprint) {
            write!(out, "  owner {owner}  fingerprint {fingerprint}")?;
        }
        if let Some(bytes) = self.result_bytes.filter(|_| self.state == Some("completed")) {
            write!(out, "  result {bytes} B")?;
        }
        if let Some(fields) = self.fields {
            write!(out, "  fields {fields}")?;
        }
        if let Some(bytes) = self.value_bytes {
            write!(out, "  value {bytes} B")?;
        }
        if let (Some(lsn), Some(time), Some(name)) = (self.lsn, self.time_ms, self.name) {
            let time = Time::from(idem_protocol::UnixMs::new(time));
            write!(out, "  last record {name} at lsn {lsn}, {time}")?;
        }
        match (self.result, self.value) {
            (Some(result), _) => write!(out, "  = {result}"),
            (None, Some(Value::String(bytes))) => write!(out, "  = {}", Escaped(bytes)),
            (None, Some(Value::Hash(hash))) => hash
                .iter()
                .try_for_each(|(field, value)| write!(out, "  {} = {}", Escaped(field), Escaped(value))),
            (None, None) => Ok(()),
        }
    }
}
