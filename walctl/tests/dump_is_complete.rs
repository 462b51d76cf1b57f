//! Goal: what `walctl dump` prints is the log: every record that was written is exactly one line, in order, and a
//! Transaction one line for each of its parts.
//!
//! Method: random logs through the log's own writer, over segments, seals, restarts and groups of any size, beside a list of
//! what was written that no reader has made.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

mod support;

use idem_protocol::idem::IdemState;
use idem_protocol::wal::{DeleteReason, MemberList, Pairs, Record, Strings, SubRecords};
use idem_protocol::{Deadline, Member, NodeId};
use serde_json::Value;
use support::histories::Rng;
use support::*;

/// A line that has to come.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    lsn: u64,
    time_ms: u64,
    opcode: u64,
    tx_index: Option<u64>,
    key: Option<String>,
}

const KEYS: [(&[u8], &str); 4] = [
    (b"a", "a"),
    (b"order:1", "order:1"),
    (b"", ""),
    (BINARY_KEY, BINARY_KEY_TEXT),
];

/// The text of the key of a record that has one.
fn key(record: &Record<'_>) -> Option<String> {
    let bytes = match record {
        Record::StringPut { key, .. }
        | Record::Delete { key, .. }
        | Record::DeadlinePut { key, .. }
        | Record::HashPut { key, .. }
        | Record::HashDelete { key, .. }
        | Record::IdempotencyPut { key, .. } => *key,
        _ => return None,
    };
    let known = KEYS.iter().find(|(key, _)| *key == bytes);
    Some(known.unwrap().1.to_owned())
}

/// What records are made of.
struct Stuff {
    values: [Vec<u8>; 4],
    members: [Member; 2],
}

impl Stuff {
    fn new() -> Stuff {
        let member = |id: u8| Member {
            node: NodeId([id; 16]),
            address: format!("10.0.0.{id}:6379"),
        };
        Stuff {
            // Nothing, a line end, something of a frame, and more than a segment holds.
            values: [
                Vec::new(),
                b"\r\n".to_vec(),
                b"IFRM\0\0\0".repeat(400),
                vec![b'v'; 70_000],
            ],
            members: [member(1), member(2)],
        }
    }

    fn value(&self, rng: &mut Rng) -> &[u8] {
        // The long ones rarely: a log of them is soon a large one.
        let index = [0, 0, 0, 1, 1, 1, 1, 2, 2, 3][usize::try_from(rng.below(10)).unwrap()];
        &self.values[index]
    }

    /// Whatever may stand in a log by itself.
    fn record(&self, rng: &mut Rng, ms: u64) -> Record<'_> {
        match rng.below(12) {
            0 => Record::Clock,
            1 => Record::FlushAll,
            2 => Record::FlushDb,
            3 => Record::Members {
                required: 1,
                members: MemberList::Slice(&self.members),
            },
            _ => self.part(rng, ms),
        }
    }

    /// Whatever has a key.
    fn part(&self, rng: &mut Rng, ms: u64) -> Record<'_> {
        const PAIRS: [(&[u8], &[u8]); 2] = [(b"f", b"1"), (b"g", b"")];
        const FIELDS: [&[u8]; 2] = [b"f", b"nope"];
        let key = KEYS[usize::try_from(rng.below(4)).unwrap()].0;
        let ends = ms + 1 + rng.below(500);
        let deadline = Deadline::at(START_MS + ends);
        match rng.below(8) {
            0 => Record::Delete {
                reason: DeleteReason::Command,
                key,
            },
            1 => Record::DeadlinePut { key, deadline },
            2 => Record::HashPut {
                key,
                deadline,
                fields: Pairs::from(&PAIRS[..]),
            },
            3 => Record::HashDelete {
                key,
                fields: Strings::from(&FIELDS[..]),
            },
            4 => idem(key, ends, IdemState::Pending, b"fp", b"owner", b""),
            5 => idem(key, ends, IdemState::Completed, b"fp", b"owner", self.value(rng)),
            6 => idem(key, ends, IdemState::Aborted, b"fp", b"owner", b""),
            _ => Record::StringPut {
                key,
                deadline,
                value: self.value(rng),
            },
        }
    }
}

/// A log, and all lines of its dump.
fn random(seed: u64) -> (TestLog, Vec<Row>) {
    let (stuff, mut rng) = (Stuff::new(), Rng(seed));
    let mut log = TestLog::new(0);
    // A start writes its epoch.
    let epoch = |lsn: u64, ms: u64| Row {
        lsn,
        time_ms: START_MS + ms,
        opcode: 48,
        tx_index: None,
        key: None,
    };
    let (mut rows, mut ms) = (vec![epoch(0, 0)], 0);
    for _ in 0..30 {
        let parts: Vec<Vec<(u8, Record<'_>)>> = (0..1 + rng.below(6))
            .map(|_| match rng.below(4) {
                0 => (0..1 + rng.below(4))
                    .map(|db| (u8::try_from(db).unwrap(), stuff.part(&mut rng, ms)))
                    .collect(),
                _ => Vec::new(),
            })
            .collect();
        let mut group = Vec::new();
        let mut lsn = log.end().get();
        for parts in &parts {
            ms += rng.below(3);
            let record = match &parts[..] {
                [] => stuff.record(&mut rng, ms),
                parts => Record::Transaction {
                    records: SubRecords::Slice(parts),
                },
            };
            let row = |tx_index, record: &Record<'_>| Row {
                lsn,
                time_ms: START_MS + ms,
                opcode: u64::from(record.opcode().to_byte()),
                tx_index,
                key: key(record),
            };
            if parts.is_empty() {
                rows.push(row(None, &record));
            }
            let parts = (0..).zip(parts);
            rows.extend(parts.map(|(index, (_, part))| row(Some(index), part)));
            lsn += record.encoded_len();
            group.push((ms, 0, record));
        }
        // Synced or not: what was written is there.
        let end = if rng.below(3) == 0 {
            log.write(&group)
        } else {
            log.group(&group)
        };
        assert_eq!(end.get(), lsn, "the list knows where each record is");
        match rng.below(10) {
            0 if group
                .iter()
                .any(|(_, _, record)| !matches!(record, Record::Clock)) =>
            {
                log.seal()
            }
            1 => {
                log.reopen();
                rows.push(epoch(lsn, ms));
            }
            _ => {}
        }
    }
    (log, rows)
}

fn row(line: &Value) -> Row {
    Row {
        lsn: line["lsn"].as_u64().unwrap(),
        time_ms: line["time_ms"].as_u64().unwrap(),
        opcode: line["opcode"].as_u64().unwrap(),
        tx_index: line["tx_index"].as_u64(),
        key: line["key"].as_str().map(str::to_owned),
    }
}

#[test]
fn every_record_that_was_written_is_one_line() {
    let (mut segments, mut lines) = (0, 0);
    for seed in 0..20 {
        let (mut log, expected) = random(seed);
        if seed % 2 == 0 {
            log.shut_down();
        }
        segments += log.segments().len();
        lines += expected.len();
        let dir = log.path().to_str().unwrap();
        for options in [&["--json"][..], &["--json", "--values"], &["--json", "--frames"]] {
            let output = walctl(&[&["dump", dir], options].concat());
            assert_eq!(code(&output), 0, "seed {seed}: {}", stderr(&output));
            // With --frames a group has an object of its own.
            let found: Vec<Row> = objects(&output)
                .iter()
                .filter(|line| line["opcode"].is_u64())
                .map(row)
                .collect();
            assert_eq!(found, expected, "seed {seed} {options:?}");
        }
        let human = stdout(&walctl(&["dump", dir]));
        assert_eq!(human.lines().count(), expected.len(), "seed {seed}");
    }
    assert!(segments > 40 && lines > 1_500, "{segments} {lines}");
}
