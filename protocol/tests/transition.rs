//! The legality of IDEM transitions, exhaustively over a small space.
//!
//! Goal: the three functions are the three tables of docs/protocol.md, and no sequence of calls breaks what callers rely
//! on. Method: the tables are written down as rows, and for every record that can live under a key and every argument
//! exactly one row must apply and give the answer; then every sequence of five calls out of an alphabet of two fingerprints,
//! two owners and two results, with the deadline passing in between, is played.

use idem_protocol::idem::transition::{Abort, Begin, Complete, abort, begin, complete};
use idem_protocol::idem::{IdemRecord, IdemState};

const FINGERPRINTS: [&[u8]; 3] = [b"f", b"g", b"ff"];
const OWNERS: [&[u8]; 3] = [b"o", b"p", b"oo"];
const RESULTS: [&[u8]; 3] = [b"", b"r", b"s"];

/// Everything that can live under a key: nothing, and each record over the alphabets.
fn lives() -> Vec<Option<IdemRecord<'static>>> {
    let mut lives = vec![None];
    for fingerprint in FINGERPRINTS {
        for owner in OWNERS {
            lives.push(Some(IdemRecord {
                state: IdemState::Pending,
                fingerprint,
                owner,
                result: b"",
            }));
            for result in RESULTS {
                lives.push(Some(IdemRecord {
                    state: IdemState::Completed,
                    fingerprint,
                    owner,
                    result,
                }));
            }
        }
    }
    lives
}

/// The one row that applies.
fn only<T>(rows: impl IntoIterator<Item = (bool, T)>) -> T {
    let mut matching = rows.into_iter().filter(|(applies, _)| *applies);
    let (_, answer) = matching.next().expect("some row applies");
    assert!(matching.next().is_none(), "rows exclude each other");
    answer
}

fn is(live: Option<IdemRecord<'_>>, state: IdemState) -> bool {
    live.is_some_and(|record| record.state == state)
}

#[test]
fn begin_is_its_table() {
    for live in lives() {
        for fingerprint in FINGERPRINTS {
            let same = live.is_some_and(|record| record.fingerprint == fingerprint);
            let result = live.map_or(&b""[..], |record| record.result);
            let rows = [
                (live.is_none(), Begin::Acquire),
                (live.is_some() && !same, Begin::Conflict),
                // Even when the owner is the same: BEGIN is not told the owner at all.
                (is(live, IdemState::Pending) && same, Begin::Pending),
                (
                    is(live, IdemState::Completed) && same,
                    Begin::Completed { result },
                ),
            ];
            assert_eq!(begin(live, fingerprint), only(rows), "{live:?} {fingerprint:?}");
        }
    }
}

#[test]
fn complete_is_its_table() {
    for live in lives() {
        for (fingerprint, owner, result) in arguments() {
            let exact = live.is_some_and(|record| record.fingerprint == fingerprint && record.owner == owner);
            let stored = live.is_some_and(|record| record.result == result);
            let (pending, completed) = (is(live, IdemState::Pending), is(live, IdemState::Completed));
            let rows = [
                (pending && exact, Complete::Store),
                (completed && exact && stored, Complete::AlreadyStored),
                (
                    live.is_none() || !exact || (completed && !stored),
                    Complete::Refused,
                ),
            ];
            let found = complete(live, fingerprint, owner, result);
            assert_eq!(found, only(rows), "{live:?} {fingerprint:?} {owner:?} {result:?}");
        }
    }
}

#[test]
fn abort_is_its_table() {
    for live in lives() {
        for (fingerprint, owner, _) in arguments() {
            let exact = live.is_some_and(|record| record.fingerprint == fingerprint && record.owner == owner);
            let pending = is(live, IdemState::Pending);
            let rows = [
                (pending && exact, Abort::Remove),
                (!pending || !exact, Abort::Refused),
            ];
            assert_eq!(
                abort(live, fingerprint, owner),
                only(rows),
                "{live:?} {fingerprint:?} {owner:?}"
            );
        }
    }
}

/// An aborted record never lives under a key. If one did, nothing may run or be stored because of it.
#[test]
fn an_aborted_record_permits_nothing() {
    let live = Some(IdemRecord {
        state: IdemState::Aborted,
        fingerprint: b"f",
        owner: b"o",
        result: b"",
    });
    assert_eq!(begin(live, b"f"), Begin::Pending);
    assert_eq!(begin(live, b"g"), Begin::Conflict);
    assert_eq!(complete(live, b"f", b"o", b""), Complete::Refused);
    assert_eq!(abort(live, b"f", b"o"), Abort::Refused);
}

fn arguments() -> impl Iterator<Item = (&'static [u8], &'static [u8], &'static [u8])> {
    FINGERPRINTS.into_iter().flat_map(|fingerprint| {
        OWNERS.into_iter().flat_map(move |owner| {
            RESULTS
                .into_iter()
                .map(move |result| (fingerprint, owner, result))
        })
    })
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Begin(&'static [u8], &'static [u8]),
    Complete(&'static [u8], &'static [u8], &'static [u8]),
    Abort(&'static [u8], &'static [u8]),
    /// The deadline passes.
    End,
}

fn calls() -> Vec<Call> {
    let mut calls = vec![Call::End];
    for fingerprint in &FINGERPRINTS[..2] {
        for owner in &OWNERS[..2] {
            calls.extend([Call::Begin(fingerprint, owner), Call::Abort(fingerprint, owner)]);
            calls.extend(
                RESULTS[..2]
                    .iter()
                    .map(|result| Call::Complete(fingerprint, owner, result)),
            );
        }
    }
    calls
}

/// What a caller has been told since the key was last free.
#[derive(Clone, Copy, Default)]
struct Life {
    live: Option<IdemRecord<'static>>,
    holder: Option<(&'static [u8], &'static [u8])>,
    stored: Option<&'static [u8]>,
}

impl Life {
    fn step(self, call: Call) -> Life {
        match call {
            Call::End => Life::default(),
            Call::Begin(fingerprint, owner) => match begin(self.live, fingerprint) {
                Begin::Acquire => {
                    assert!(self.holder.is_none(), "acquired twice in one life");
                    let record = IdemRecord {
                        state: IdemState::Pending,
                        fingerprint,
                        owner,
                        result: b"",
                    };
                    Life {
                        live: Some(record),
                        holder: Some((fingerprint, owner)),
                        stored: None,
                    }
                }
                Begin::Conflict => {
                    assert_ne!(self.holder.map(|(held, _)| held), Some(fingerprint));
                    self
                }
                Begin::Pending => {
                    assert!(
                        self.stored.is_none(),
                        "a stored result never becomes pending again"
                    );
                    self
                }
                Begin::Completed { result } => {
                    assert_eq!(self.stored, Some(result), "a replay is what was stored first");
                    self
                }
            },
            Call::Complete(fingerprint, owner, result) => {
                match complete(self.live, fingerprint, owner, result) {
                    Complete::Store => {
                        assert_eq!(
                            self.holder,
                            Some((fingerprint, owner)),
                            "only who acquired may complete"
                        );
                        assert!(self.stored.is_none(), "a result is never overwritten");
                        let record = IdemRecord {
                            state: IdemState::Completed,
                            fingerprint,
                            owner,
                            result,
                        };
                        Life {
                            live: Some(record),
                            stored: Some(result),
                            ..self
                        }
                    }
                    Complete::AlreadyStored => {
                        assert_eq!(
                            (self.holder, self.stored),
                            (Some((fingerprint, owner)), Some(result))
                        );
                        self
                    }
                    Complete::Refused => self,
                }
            }
            Call::Abort(fingerprint, owner) => match abort(self.live, fingerprint, owner) {
                Abort::Remove => {
                    assert_eq!(
                        self.holder,
                        Some((fingerprint, owner)),
                        "only who acquired may give up"
                    );
                    assert!(self.stored.is_none(), "a stored result is never removed");
                    Life::default()
                }
                Abort::Refused => self,
            },
        }
    }
}

#[test]
fn no_sequence_of_calls_breaks_a_promise() {
    fn play(life: Life, calls: &[Call], left: usize, played: &mut u64) {
        *played += 1;
        if left > 0 {
            calls
                .iter()
                .for_each(|call| play(life.step(*call), calls, left - 1, played));
        }
    }
    let (calls, mut played) = (calls(), 0);
    assert_eq!(calls.len(), 17);
    play(Life::default(), &calls, 5, &mut played);
    assert_eq!(played, (0..=5).map(|length| 17u64.pow(length)).sum());
}
