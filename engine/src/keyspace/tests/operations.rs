//! Random records in a form that owns its bytes, with their times.

use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::wal::{DeleteReason, Record, SubRecords};
use idem_protocol::{Deadline, UnixMs};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use crate::keyspace::Keyspace;

pub(crate) type Bytes = Vec<u8>;

/// A record that owns its bytes.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    StringPut(Bytes, u64, Bytes),
    Delete(Bytes),
    DeadlinePut(Bytes, u64),
    HashPut(Bytes, u64, Vec<(Bytes, Bytes)>),
    HashDelete(Bytes, Vec<Bytes>),
    FlushDb,
    FlushAll,
    Clock,
    Idem(Bytes, u64, IdemState, Bytes),
}

/// What one record of the log holds: a part, or several as one transaction.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) time: u64,
    pub(crate) parts: Vec<(u8, Operation)>,
}

impl Logged {
    pub(crate) fn apply(&self, keyspace: &mut Keyspace) {
        let time = UnixMs::new(self.time);
        if let [(db, operation)] = self.parts.as_slice() {
            operation.with_record(|record| keyspace.apply(time, *db, record));
            return;
        }
        // Borrowed bottom up: the parts' lists first, then the parts, then the transaction.
        let lists: Vec<_> = self
            .parts
            .iter()
            .map(|(_, operation)| operation.lists())
            .collect();
        let records: Vec<(u8, Record<'_>)> = self
            .parts
            .iter()
            .zip(&lists)
            .map(|((db, op), (pairs, strings))| (*db, op.record(pairs, strings)))
            .collect();
        keyspace.apply(
            time,
            0,
            &Record::Transaction {
                records: SubRecords::Slice(&records),
            },
        );
    }
}

type Lists<'a> = (Vec<(&'a [u8], &'a [u8])>, Vec<&'a [u8]>);

impl Operation {
    fn with_record(&self, use_record: impl FnOnce(&Record<'_>)) {
        let (pairs, strings) = self.lists();
        use_record(&self.record(&pairs, &strings));
    }

    fn lists(&self) -> Lists<'_> {
        match self {
            Self::HashPut(_, _, fields) => (
                fields
                    .iter()
                    .map(|(name, value)| (name.as_slice(), value.as_slice()))
                    .collect(),
                Vec::new(),
            ),
            Self::HashDelete(_, fields) => (Vec::new(), fields.iter().map(Vec::as_slice).collect()),
            _ => (Vec::new(), Vec::new()),
        }
    }

    fn record<'a>(&'a self, pairs: &'a [(&'a [u8], &'a [u8])], strings: &'a [&'a [u8]]) -> Record<'a> {
        match self {
            Self::StringPut(key, deadline, value) => Record::StringPut {
                key,
                deadline: Deadline::at(*deadline),
                value,
            },
            Self::Delete(key) => Record::Delete {
                reason: DeleteReason::Command,
                key,
            },
            Self::DeadlinePut(key, deadline) => Record::DeadlinePut {
                key,
                deadline: Deadline::at(*deadline),
            },
            Self::HashPut(key, deadline, _) => Record::HashPut {
                key,
                deadline: Deadline::at(*deadline),
                fields: pairs.into(),
            },
            Self::HashDelete(key, _) => Record::HashDelete {
                key,
                fields: strings.into(),
            },
            Self::FlushDb => Record::FlushDb,
            Self::FlushAll => Record::FlushAll,
            Self::Clock => Record::Clock,
            Self::Idem(key, deadline, state, result) => Record::IdempotencyPut {
                key,
                deadline: Deadline::at(*deadline),
                record: idem(*state, result),
            },
        }
    }
}

pub(crate) fn idem(state: IdemState, result: &[u8]) -> IdemRecord<'_> {
    let result = if state == IdemState::Completed {
        result
    } else {
        &[]
    };
    IdemRecord {
        state,
        fingerprint: b"fingerprint",
        owner: b"owner",
        result,
    }
}

/// The same cases in every run.
pub(crate) fn cases(count: u32) -> Config {
    Config {
        cases: count,
        rng_seed: RngSeed::Fixed(0x1de3),
        failure_persistence: None,
        ..Config::default()
    }
}

/// Steps of time on every level of the wheel.
pub(crate) fn span() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0_u64..4,
        4 => 100_u64..1_000,
        3 => 10_000_u64..200_000,
        2 => 1_000_000_u64..40_000_000,
        1 => 4_000_000_000_u64..10_000_000_000,
    ]
}

#[derive(Clone, Debug)]
enum When {
    Never,
    In(u64),
    Ago(u64),
    At(u64),
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        3 => Just(When::Never),
        6 => span().prop_map(When::In),
        2 => span().prop_map(When::Ago),
        1 => prop_oneof![Just(1_u64), Just((1 << 48) - 1), Just(1 << 48), Just(u64::MAX)].prop_map(When::At),
    ]
}

fn key() -> impl Strategy<Value = Bytes> {
    (0_u8..12).prop_map(|n| vec![b'k'; usize::from(n % 4)].into_iter().chain([n]).collect())
}

fn field() -> impl Strategy<Value = Bytes> {
    (0_u8..100).prop_map(|n| vec![b'f', n])
}

fn bytes() -> impl Strategy<Value = Bytes> {
    let idem_bytes = |state| {
        let mut out = Vec::new();
        idem(state, b"stored by SET").encode(&mut out);
        Just(out)
    };
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..24),
        1 => idem_bytes(IdemState::Pending),
        1 => idem_bytes(IdemState::Completed),
        1 => idem_bytes(IdemState::Aborted),
    ]
}

fn operation() -> impl Strategy<Value = (Operation, When)> {
    let fields = || {
        prop_oneof![
            6 => prop::collection::vec((field(), bytes()), 1..4),
            1 => prop::collection::vec((field(), bytes()), 80..200),
        ]
    };
    let names = || {
        prop_oneof![
            prop::collection::vec(field(), 1..4),
            prop::collection::vec(field(), 80..200)
        ]
    };
    let state = prop_oneof![
        Just(IdemState::Pending),
        Just(IdemState::Completed),
        Just(IdemState::Aborted)
    ];
    let operation = prop_oneof![
        6 => (key(), bytes()).prop_map(|(key, value)| Operation::StringPut(key, 0, value)),
        3 => key().prop_map(Operation::Delete),
        4 => key().prop_map(|key| Operation::DeadlinePut(key, 0)),
        6 => (key(), fields()).prop_map(|(key, fields)| Operation::HashPut(key, 0, fields)),
        4 => (key(), names()).prop_map(|(key, names)| Operation::HashDelete(key, names)),
        1 => prop_oneof![6 => Just(Operation::FlushDb), 1 => Just(Operation::FlushAll)],
        1 => Just(Operation::Clock),
        6 => (key(), state, bytes()).prop_map(|(key, state, result)| Operation::Idem(key, 0, state, result)),
    ];
    (operation, when())
}

/// A log of up to `count` records whose times never go back.
pub(crate) fn log(count: usize) -> impl Strategy<Value = Vec<Logged>> {
    let parts = prop_oneof![
        8 => prop::collection::vec((0_u8..3, operation()), 1),
        1 => prop::collection::vec((0_u8..3, operation()), 2..5),
    ];
    prop::collection::vec((span(), parts), 1..count).prop_map(|steps| {
        let mut time = 1_700_000_000_000;
        let logged = steps.into_iter().map(|(step, parts)| {
            time += step;
            let parts = parts
                .into_iter()
                .map(|(db, (operation, when))| (db, at(operation, when, time)))
                .collect();
            Logged { time, parts }
        });
        logged.collect()
    })
}

/// Fills in the deadline, relative to the record's time.
fn at(mut operation: Operation, when: When, time: u64) -> Operation {
    let chosen = match when {
        When::Never => 0,
        When::In(span) => time + span,
        When::Ago(span) => time - span,
        When::At(at) => at,
    };
    match &mut operation {
        Operation::StringPut(_, deadline, _)
        | Operation::DeadlinePut(_, deadline)
        | Operation::HashPut(_, deadline, _) => *deadline = chosen,
        // Never 0 in this record; a decoder refuses that.
        Operation::Idem(_, deadline, ..) => *deadline = chosen.max(1),
        _ => {}
    }
    operation
}
