//! What a record meant to the key, given what was there before it.
//!
//! Whether a transition of IDEM is the one that a server makes is asked of [`transition`]; nothing is decided here.

use idem_engine::keyspace::{EntryRef, ValueRef};
use idem_protocol::escape::escape;
use idem_protocol::idem::transition::{self, Abort, Begin, Complete};
use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::wal::{DeleteReason, Record};

/// Something that happened, by the word that stands for it in every output.
pub(super) type Event = &'static str;

pub(super) const FOUND: Event = "found";
pub(super) const EXPIRED: Event = "expired";

/// What is known of the key before a record.
#[derive(Clone, Copy)]
pub(super) struct Before<'a> {
    /// What is there, when something is known to be.
    pub(super) live: Option<EntryRef<'a>>,
    /// Whether nothing there means that nothing was there: the log may begin in the middle of a life.
    pub(super) is_known: bool,
    /// Whether the last that happened was its expiry.
    pub(super) has_expired: bool,
    /// Whether a part of the log before the record was not read.
    pub(super) has_gaps: bool,
}

/// The IDEM record in an entry.
pub(super) fn idem_of<'a>(entry: &EntryRef<'a>) -> Option<IdemRecord<'a>> {
    match entry.value() {
        ValueRef::String(bytes) => IdemRecord::decode_stored(bytes).ok(),
        ValueRef::Hash(_) => None,
    }
}

impl Before<'_> {
    /// The word for `record`, and a note. `None` for what does nothing to a key.
    pub(super) fn event(&self, record: &Record<'_>) -> Option<(Event, Option<String>)> {
        Some(match record {
            Record::IdempotencyPut { record, .. } => self.transition(record),
            Record::StringPut { .. } => match self.lost() {
                Some(lost) => ("overwritten", Some(lost)),
                None => ("set", None),
            },
            Record::HashPut { .. } => {
                let over = matches!(self.live.map(|entry| entry.value()), Some(ValueRef::String(_)));
                let note = self.lost().or_else(|| over.then(|| "over a string".to_owned()));
                ("fields_set", note)
            }
            Record::HashDelete { .. } => ("fields_removed", self.nothing()),
            Record::DeadlinePut { deadline, .. } if deadline.is_none() => ("persisted", self.nothing()),
            Record::DeadlinePut { .. } => ("deadline", self.nothing()),
            Record::Delete { reason, .. } => {
                let word = match reason {
                    DeleteReason::Command => "deleted",
                    DeleteReason::Evicted => "evicted",
                };
                (word, self.lost().or_else(|| self.nothing()))
            }
            // Of a key that is not there, a flush says nothing.
            Record::FlushDb | Record::FlushAll if self.live.is_some() => ("flushed", self.lost()),
            Record::FlushDb
            | Record::FlushAll
            | Record::Transaction { .. }
            | Record::EpochStart { .. }
            | Record::Members { .. }
            | Record::Clock => return None,
        })
    }

    fn transition(&self, record: &IdemRecord<'_>) -> (Event, Option<String>) {
        let live = self.live.as_ref().and_then(idem_of);
        let (fingerprint, owner) = (record.fingerprint, record.owner);
        let (word, lawful) = match record.state {
            IdemState::Pending => ("acquired", transition::begin(live, fingerprint) == Begin::Acquire),
            IdemState::Completed => {
                let answer = transition::complete(live, fingerprint, owner, record.result);
                ("completed", answer == Complete::Store)
            }
            IdemState::Aborted => (
                "aborted",
                transition::abort(live, fingerprint, owner) == Abort::Remove,
            ),
        };
        let note = match &self.live {
            // What is no IDEM record stands in the way of every action.
            Some(entry) if !lawful || live.is_none() => Some(format!("though {} was there", describe(entry))),
            None if !lawful && self.is_known => Some("though nothing was pending".to_owned()),
            None if !lawful && self.has_gaps => Some("begun where the log was not read".to_owned()),
            None if !lawful => Some("begun before the kept log".to_owned()),
            None if self.has_expired => Some("after expiry".to_owned()),
            Some(_) | None => None,
        };
        (word, note)
    }

    /// What of IDEM the record destroys.
    fn lost(&self) -> Option<String> {
        let record = self.live.as_ref().and_then(idem_of)?;
        Some(format!("lost: {}", describe_idem(&record)))
    }

    fn nothing(&self) -> Option<String> {
        (self.is_known && self.live.is_none()).then(|| "nothing was there".to_owned())
    }
}

fn describe(entry: &EntryRef<'_>) -> String {
    match (idem_of(entry), entry.value()) {
        (Some(record), _) => describe_idem(&record),
        (None, ValueRef::String(_)) => "a string".to_owned(),
        (None, ValueRef::Hash(_)) => "a hash".to_owned(),
    }
}

fn describe_idem(record: &IdemRecord<'_>) -> String {
    format!("a {} record of {}", record.state.word(), escape(record.owner))
}
