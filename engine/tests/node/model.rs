//! IDEM against a naive model, with clocks that hit deadlines exactly, restarts under older clocks, reclaiming in
//! between, and a log that is full now and then.

use std::collections::BTreeMap;

use idem_engine::Durability;
use idem_engine::digest::digest;
use proptest::prelude::*;

use crate::support::{Mode, World, seeded};

#[derive(Clone, Debug)]
enum Step {
    Begin {
        key: u8,
        fingerprint: u8,
        owner: u8,
        ttl: u64,
    },
    Complete {
        key: u8,
        fingerprint: u8,
        owner: u8,
        result: u8,
    },
    Abort {
        key: u8,
        fingerprint: u8,
        owner: u8,
    },
    Inspect {
        key: u8,
    },
    /// The clock goes on.
    Later(u64),
    /// The clock comes to a key's deadline, one before, at, or one after it.
    ToDeadline {
        key: u8,
        offset: u64,
    },
    Settle,
    Tick,
    Space(Mode),
    /// Everything appended survives; the wall clock is this much behind.
    Restart {
        behind: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let token = || 0..2_u8;
    let key = || 0..3_u8;
    let step = prop_oneof![
        8 => (key(), token(), token(), 1..40_u64)
            .prop_map(|(key, fingerprint, owner, ttl)| Step::Begin { key, fingerprint, owner, ttl }),
        6 => (key(), token(), token(), token())
            .prop_map(|(key, fingerprint, owner, result)| Step::Complete { key, fingerprint, owner, result }),
        2 => (key(), token(), token()).prop_map(|(key, fingerprint, owner)| Step::Abort { key, fingerprint, owner }),
        2 => key().prop_map(|key| Step::Inspect { key }),
        2 => (0..50_u64).prop_map(Step::Later),
        4 => (key(), 0..3_u64).prop_map(|(key, offset)| Step::ToDeadline { key, offset }),
        2 => Just(Step::Settle),
        2 => Just(Step::Tick),
        1 => prop_oneof![Just(Mode::Granted), Just(Mode::NoSpace)].prop_map(Step::Space),
        1 => (0..100_u64).prop_map(|behind| Step::Restart { behind }),
    ];
    proptest::collection::vec(step, 1..120)
}

struct Record {
    fingerprint: u8,
    owner: u8,
    deadline: u64,
    result: Option<u8>,
}

/// What the contract's tables say, written down once more and as plainly as possible.
#[derive(Default)]
struct Model {
    records: BTreeMap<u8, Record>,
    /// The latest deadline that a reply treated as over.
    revealed_end: u64,
}

impl Model {
    fn live(&mut self, key: u8, now: u64) -> Option<&mut Record> {
        let record = self.records.get_mut(&key)?;
        if now < record.deadline {
            return Some(record);
        }
        self.revealed_end = self.revealed_end.max(record.deadline);
        None
    }

    /// The reply; `full` refuses what would write.
    fn answer(&mut self, step: &Step, now: u64, full: bool) -> String {
        const FULL: &str = "-MISCONF";
        match *step {
            Step::Begin {
                key,
                fingerprint,
                owner,
                ttl,
            } => match self.live(key, now) {
                None if full => FULL.to_owned(),
                None => {
                    self.records.insert(
                        key,
                        Record {
                            fingerprint,
                            owner,
                            deadline: now + ttl,
                            result: None,
                        },
                    );
                    "[\"acquired\"]".to_owned()
                }
                Some(record) if record.fingerprint != fingerprint => "[\"conflict\"]".to_owned(),
                Some(Record { result: None, .. }) => "[\"pending\"]".to_owned(),
                Some(Record {
                    result: Some(result), ..
                }) => format!("[\"completed\" \"{result}\"]"),
            },
            Step::Complete {
                key,
                fingerprint,
                owner,
                result,
            } => match self.live(key, now) {
                Some(record) if (record.fingerprint, record.owner) == (fingerprint, owner) => {
                    match record.result {
                        None if full => FULL.to_owned(),
                        None => {
                            record.result = Some(result);
                            "1".to_owned()
                        }
                        Some(stored) => u8::from(stored == result).to_string(),
                    }
                }
                _ => "0".to_owned(),
            },
            Step::Abort {
                key,
                fingerprint,
                owner,
            } => match self.live(key, now) {
                Some(Record {
                    result: None,
                    fingerprint: f,
                    owner: o,
                    ..
                }) if (*f, *o) == (fingerprint, owner) => {
                    if full {
                        return FULL.to_owned();
                    }
                    self.records.remove(&key);
                    "1".to_owned()
                }
                _ => "0".to_owned(),
            },
            Step::Inspect { key } => match self.live(key, now) {
                None => "nil".to_owned(),
                Some(record) => {
                    let state = if record.result.is_some() {
                        "completed"
                    } else {
                        "pending"
                    };
                    format!(
                        "[\"state\" \"{state}\" \"fingerprint\" \"{}\" \"owner\" \"{}\" \"deadline_ms\" {} \"ttl_ms\" {} \
                         \"result_bytes\" {}]",
                        record.fingerprint,
                        record.owner,
                        record.deadline,
                        record.deadline - now,
                        u8::from(record.result.is_some())
                    )
                }
            },
            _ => unreachable!("no command"),
        }
    }
}

fn line(step: &Step) -> Option<String> {
    Some(match step {
        Step::Begin {
            key,
            fingerprint,
            owner,
            ttl,
        } => format!("IDEM k{key} BEGIN {fingerprint} {owner} {ttl}"),
        Step::Complete {
            key,
            fingerprint,
            owner,
            result,
        } => {
            format!("IDEM k{key} COMPLETE {fingerprint} {owner} {result}")
        }
        Step::Abort {
            key,
            fingerprint,
            owner,
        } => format!("IDEM k{key} ABORT {fingerprint} {owner}"),
        Step::Inspect { key } => format!("IDEM k{key} INSPECT"),
        _ => return None,
    })
}

proptest! {
    #![proptest_config(seeded(400))]

    #[test]
    fn idem_agrees_with_the_model(steps in steps(), admits in any::<bool>()) {
        let mut world = World::new(Durability::Always);
        world.log.admits = true;
        world.now = 1000;
        let mut model = Model::default();
        for step in steps {
            match &step {
                Step::Later(ms) => world.now += ms,
                Step::ToDeadline { key, offset } => {
                    // Never back: the server's clock does not run backwards.
                    let deadline = model.records.get(key).map_or(0, |record| record.deadline);
                    world.now = world.now.max((deadline + offset).saturating_sub(1));
                }
                Step::Settle => world.settle(),
                Step::Tick => _ = world.tick(),
                Step::Space(mode) => world.log.mode = *mode,
                Step::Restart { behind } => {
                    let before = digest(world.node.keyspace(), world.node.log_time());
                    let (mode, time) = (world.log.mode, world.node.log_time());
                    let log = world.log.prefix(world.node.appended());
                    let wall = world.now.saturating_sub(*behind);
                    let opened = World::open(Durability::Always, log, wall);
                    prop_assert_eq!(digest(opened.node.keyspace(), time), before, "state equals replay");
                    world = opened;
                    world.log.mode = mode;
                    prop_assert!(world.now >= model.revealed_end, "the clock starts after what was revealed as over");
                }
                command => {
                    world.log.admits = admits || matches!(command, Step::Inspect { .. });
                    let full = world.log.mode == Mode::NoSpace;
                    let now = if full { world.node.log_time().get() } else { world.now };
                    let expected = model.answer(command, now, full);
                    let line = line(command).expect("a command");
                    let ran = world.line(&line);
                    let told = ran.text();
                    let same = if expected == "-MISCONF" { told.starts_with(&expected) } else { told == expected };
                    prop_assert!(same, "{} at {}: {} instead of {}", line, now, told, expected);
                    if !matches!(command, Step::Begin { .. } | Step::Complete { .. } | Step::Abort { .. }) {
                        prop_assert!(ran.written.iter().all(|record| record == "clock"));
                    }
                    prop_assert!(ran.written.len() <= 1, "one record a transition");
                }
            }
        }
    }
}
