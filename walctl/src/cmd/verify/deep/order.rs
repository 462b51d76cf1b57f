//! Whether a record could have come from a server that found the state that it meets.
//!
//! Every transition of an IDEM key is one record of its own kind, and [`transition`] says when one is written: what it would
//! not have written must not be in a log. Other records are commands of operators and clients, who may do to such a key what
//! they like; they are applied and not judged.

use idem_engine::Keyspace;
use idem_engine::keyspace::{EntryRef, ValueRef};
use idem_protocol::idem::transition::{self, Abort, Begin, Complete};
use idem_protocol::idem::{IdemRecord, IdemState, TTL_MS_MAX};
use idem_protocol::wal::Record;
use idem_protocol::{Deadline, UnixMs};

/// What is wrong with a record's place in the life of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Breach {
    /// The word that scripts know it by.
    pub(super) kind: &'static str,
    /// The sentence.
    pub(super) message: String,
}

fn breach(kind: &'static str, message: impl Into<String>) -> Option<Breach> {
    Some(Breach {
        kind,
        message: message.into(),
    })
}

/// Judges one record, or one part of a Transaction, of `time` against the state before it.
pub(super) fn judge(state: &Keyspace, time: UnixMs, db: u8, record: &Record<'_>) -> Option<Breach> {
    let Record::IdempotencyPut {
        key,
        deadline,
        record,
    } = record
    else {
        return None;
    };
    let live = state
        .get(db, key)
        .filter(|entry| !entry.deadline().has_ended(time));
    match record.state {
        IdemState::Pending => begun(live, time, *deadline, record),
        IdemState::Completed => completed(live, *deadline, record),
        IdemState::Aborted => aborted(live, *deadline, record),
    }
}

/// The IDEM record in an entry.
fn idem<'a>(entry: EntryRef<'a>) -> Option<IdemRecord<'a>> {
    match entry.value() {
        ValueRef::String(bytes) => IdemRecord::decode_stored(bytes).ok(),
        ValueRef::Hash(_) => None,
    }
}

fn begun(
    live: Option<EntryRef<'_>>,
    time: UnixMs,
    deadline: Deadline,
    record: &IdemRecord<'_>,
) -> Option<Breach> {
    if let Some(entry) = live {
        // Whatever it is, BEGIN acquires only what nobody has.
        let what = match idem(entry).map(|held| transition::begin(Some(held), record.fingerprint)) {
            Some(Begin::Conflict) => "another request's record",
            Some(Begin::Completed { .. }) => "a completed record",
            Some(Begin::Pending | Begin::Acquire) => "a pending record",
            None => "another value",
        };
        let message = format!("begun while {what} lives under the key");
        return breach("begun_while_live", message);
    }
    let ttl_ms = deadline.get().checked_sub(time.get());
    match ttl_ms {
        Some(1..=TTL_MS_MAX) => None,
        _ => breach(
            "deadline_out_of_bounds",
            format!(
                "begun at {time} with the deadline {deadline}, which is no time to live of 1 ms to 7 days"
            ),
        ),
    }
}

fn completed(live: Option<EntryRef<'_>>, deadline: Deadline, record: &IdemRecord<'_>) -> Option<Breach> {
    let held = live.and_then(idem);
    match transition::complete(held, record.fingerprint, record.owner, record.result) {
        Complete::Store => unchanged(live, deadline),
        Complete::AlreadyStored => breach("completed_twice", "completed a second time"),
        Complete::Refused => breach(
            "completed_without_pending",
            format!("completed, and {}", held_words(live, held)),
        ),
    }
}

fn aborted(live: Option<EntryRef<'_>>, deadline: Deadline, record: &IdemRecord<'_>) -> Option<Breach> {
    let held = live.and_then(idem);
    match transition::abort(held, record.fingerprint, record.owner) {
        Abort::Remove => unchanged(live, deadline),
        Abort::Refused => breach(
            "aborted_without_pending",
            format!("aborted, and {}", held_words(live, held)),
        ),
    }
}

/// Neither completing nor aborting gives a key another end.
fn unchanged(live: Option<EntryRef<'_>>, deadline: Deadline) -> Option<Breach> {
    let before = live.map(|entry| entry.deadline())?;
    if before == deadline {
        return None;
    }
    breach(
        "deadline_changed",
        format!("the deadline became {deadline}, it was {before}"),
    )
}

fn held_words(live: Option<EntryRef<'_>>, held: Option<IdemRecord<'_>>) -> &'static str {
    match (live, held.map(|held| held.state)) {
        (None, _) => "nothing lives under the key",
        (Some(_), Some(IdemState::Pending)) => {
            "the pending record under the key has another fingerprint or owner"
        }
        (Some(_), Some(_)) => "the key is completed already",
        (Some(_), None) => "the key holds another value",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMs = UnixMs::new(1_000);

    /// Fingerprint and owner.
    type Tokens = (&'static [u8], &'static [u8]);

    fn put(state: IdemState, deadline: u64, tokens: Tokens) -> Record<'static> {
        let result: &[u8] = if state == IdemState::Completed { b"r" } else { b"" };
        Record::IdempotencyPut {
            key: b"k",
            deadline: Deadline::at(deadline),
            record: IdemRecord {
                state,
                fingerprint: tokens.0,
                owner: tokens.1,
                result,
            },
        }
    }

    fn string(value: &'static [u8]) -> Record<'static> {
        Record::StringPut {
            key: b"k",
            deadline: Deadline::NONE,
            value,
        }
    }

    #[test]
    fn what_a_server_would_not_have_written_is_a_breach() {
        use IdemState::{Aborted, Completed, Pending};
        let ours: Tokens = (b"f", b"o");
        let owner: Tokens = (b"f", b"p");
        let print: Tokens = (b"g", b"o");
        let flush = Record::FlushAll;
        for (before, record, expected) in [
            // Life as it should be.
            (&[][..], put(Pending, 2_000, ours), None),
            (&[put(Pending, 2_000, ours)], put(Completed, 2_000, ours), None),
            (&[put(Pending, 2_000, ours)], put(Aborted, 2_000, ours), None),
            (&[put(Pending, 1_000, ours)], put(Pending, 9_000, owner), None),
            (&[put(Completed, 1_000, ours)], put(Pending, 9_000, print), None),
            (
                &[put(Pending, 2_000, ours), flush],
                put(Pending, 3_000, owner),
                None,
            ),
            // Another one than the pending one, or none.
            (
                &[],
                put(Completed, 2_000, ours),
                Some("completed_without_pending"),
            ),
            (&[], put(Aborted, 2_000, ours), Some("aborted_without_pending")),
            (
                &[put(Pending, 1_000, ours)],
                put(Completed, 1_000, ours),
                Some("completed_without_pending"),
            ),
            (
                &[put(Pending, 2_000, ours)],
                put(Completed, 2_000, owner),
                Some("completed_without_pending"),
            ),
            (
                &[put(Pending, 2_000, ours)],
                put(Completed, 2_000, print),
                Some("completed_without_pending"),
            ),
            (
                &[put(Pending, 2_000, ours)],
                put(Aborted, 2_000, owner),
                Some("aborted_without_pending"),
            ),
            (
                &[put(Completed, 2_000, ours)],
                put(Aborted, 2_000, ours),
                Some("aborted_without_pending"),
            ),
            (
                &[put(Completed, 2_000, ours)],
                put(Completed, 2_000, ours),
                Some("completed_twice"),
            ),
            (
                &[string(b"v")],
                put(Completed, 2_000, ours),
                Some("completed_without_pending"),
            ),
            // Begun over something.
            (
                &[put(Pending, 2_000, ours)],
                put(Pending, 2_000, ours),
                Some("begun_while_live"),
            ),
            (
                &[put(Pending, 2_000, ours)],
                put(Pending, 2_000, print),
                Some("begun_while_live"),
            ),
            (
                &[put(Completed, 2_000, ours)],
                put(Pending, 2_000, ours),
                Some("begun_while_live"),
            ),
            (
                &[string(b"v")],
                put(Pending, 2_000, ours),
                Some("begun_while_live"),
            ),
            // Another end.
            (
                &[put(Pending, 2_000, ours)],
                put(Completed, 2_001, ours),
                Some("deadline_changed"),
            ),
            (
                &[put(Pending, 2_000, ours)],
                put(Aborted, 1_999, ours),
                Some("deadline_changed"),
            ),
            (&[], put(Pending, 1_000, ours), Some("deadline_out_of_bounds")),
            (&[], put(Pending, 999, ours), Some("deadline_out_of_bounds")),
            (&[], put(Pending, 1_000 + TTL_MS_MAX, ours), None),
            (
                &[],
                put(Pending, 1_001 + TTL_MS_MAX, ours),
                Some("deadline_out_of_bounds"),
            ),
            // What operators do is not judged.
            (&[put(Pending, 2_000, ours)], string(b"v"), None),
            (&[string(b"v")], Record::Clock, None),
        ] {
            let mut state = Keyspace::new(16, [7; 4]);
            for record in before {
                state.apply(UnixMs::new(500), 0, record);
            }
            let found = judge(&state, NOW, 0, &record).map(|breach| breach.kind);
            assert_eq!(found, expected, "{before:?} then {record:?}");
        }
    }
}
