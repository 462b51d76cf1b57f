//! Random logs with everything that a node writes, fuzzy snapshots in between, and a state machine that shares no code
//! with the real one.

use std::collections::BTreeMap;
use std::path::Path;

use idem_engine::Keyspace;
use idem_engine::digest::digest;
use idem_engine::snapshot::SnapshotCursor;
use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::{DeleteReason, Pairs, RawRecord, Record, Strings, SubRecords, snapshot_name};
use idem_protocol::{Deadline, Epoch, Lsn, UnixMs};
use idem_wal::reader::{LogReader, LogStep, frame_records};
use idem_wal::snapshot::SnapshotWriter;
use idem_wal::storage::{Dir, DiskStorage, Storage};

use super::snapshots::cluster_of;
use super::{BINARY_KEY, START_MS, TestLog};

/// Numbers that a seed chooses (splitmix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

/// A record of a log, as it was read.
#[derive(Clone)]
pub struct Logged {
    pub lsn: Lsn,
    pub end: Lsn,
    pub time: UnixMs,
    pub bytes: Vec<u8>,
}

impl Logged {
    pub fn raw(&self) -> RawRecord<'_> {
        RawRecord::parse(&self.bytes).unwrap()
    }
}

/// All records of a directory from its first segment on.
pub fn records(dir: &Path) -> Vec<Logged> {
    let storage = DiskStorage::open(dir).unwrap();
    let mut reader = LogReader::open(&storage, Lsn::ZERO).unwrap();
    let mut found = Vec::new();
    while let LogStep::Frame { file, frame } = reader.next_step().unwrap() {
        for record in frame_records(file, frame) {
            let raw = record.raw;
            let (mut bytes, decoded) = (Vec::new(), raw.decode().unwrap());
            decoded.encode(raw.lsn, raw.time, raw.db, &mut bytes);
            found.push(Logged {
                lsn: raw.lsn,
                end: raw.end(),
                time: raw.time,
                bytes,
            });
        }
    }
    found
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    String(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
}

/// What a log stands for, told by a map.
#[derive(Clone, Debug, Default)]
pub struct Model {
    keys: BTreeMap<(u8, Vec<u8>), (Deadline, Value)>,
    pub time: UnixMs,
}

impl Model {
    pub fn apply(&mut self, raw: &RawRecord<'_>) {
        self.time = raw.time;
        self.change(raw.db, &raw.decode().unwrap());
    }

    /// The keys that are there at the log's time.
    pub fn live(&self) -> impl Iterator<Item = (&(u8, Vec<u8>), &(Deadline, Value))> {
        self.keys
            .iter()
            .filter(|(_, (deadline, _))| !deadline.has_ended(self.time))
    }

    /// The digest of the same keys in a fresh keyspace.
    pub fn digest(&self) -> String {
        let mut keyspace = Keyspace::new(256, [7; 4]);
        for ((db, key), (deadline, value)) in self.live() {
            let pairs: Vec<(&[u8], &[u8])>;
            let record = match value {
                Value::String(value) => Record::StringPut {
                    key,
                    deadline: *deadline,
                    value,
                },
                Value::Hash(fields) => {
                    pairs = fields
                        .iter()
                        .map(|(field, value)| (&field[..], &value[..]))
                        .collect();
                    Record::HashPut {
                        key,
                        deadline: *deadline,
                        fields: Pairs::from(&pairs[..]),
                    }
                }
            };
            keyspace.apply(UnixMs::ZERO, *db, &record);
        }
        digest(&keyspace, self.time).to_string()
    }

    fn change(&mut self, db: u8, record: &Record<'_>) {
        let time = self.time;
        let at = |key: &[u8]| (db, key.to_vec());
        match *record {
            Record::StringPut { key, deadline, value } => {
                self.keys
                    .insert(at(key), (deadline, Value::String(value.to_vec())));
            }
            Record::Delete { key, .. } => _ = self.keys.remove(&at(key)),
            Record::DeadlinePut { key, deadline } => {
                if let Some(entry) = self.keys.get_mut(&at(key))
                    && !entry.0.has_ended(time)
                {
                    entry.0 = deadline;
                }
            }
            Record::HashPut {
                key,
                deadline,
                fields,
            } => {
                let entry = self
                    .keys
                    .entry(at(key))
                    .or_insert((deadline, Value::Hash(BTreeMap::new())));
                if entry.0.has_ended(time) || matches!(entry.1, Value::String(_)) {
                    entry.1 = Value::Hash(BTreeMap::new());
                }
                entry.0 = deadline;
                if let Value::Hash(hash) = &mut entry.1 {
                    hash.extend(
                        fields
                            .iter()
                            .map(|(field, value)| (field.to_vec(), value.to_vec())),
                    );
                }
            }
            Record::HashDelete { key, fields } => {
                let Some((deadline, Value::Hash(hash))) = self.keys.get_mut(&at(key)) else {
                    return;
                };
                if deadline.has_ended(time) {
                    return;
                }
                hash.retain(|field, _| fields.iter().all(|gone| gone != field));
                if hash.is_empty() {
                    self.keys.remove(&at(key));
                }
            }
            Record::FlushDb => self.keys.retain(|(of, _), _| *of != db),
            Record::FlushAll => self.keys.clear(),
            Record::Transaction { records } => {
                records.iter().for_each(|(db, part)| self.change(db, &part));
            }
            Record::IdempotencyPut {
                key,
                deadline,
                record,
            } => {
                if record.state == IdemState::Aborted {
                    self.keys.remove(&at(key));
                } else {
                    let mut value = Vec::new();
                    record.encode(&mut value);
                    self.keys.insert(at(key), (deadline, Value::String(value)));
                }
            }
            Record::EpochStart { .. } | Record::Members { .. } | Record::Clock => {}
        }
    }
}

/// A snapshot that is being taken while the log goes on.
struct Taking {
    cursor: SnapshotCursor,
    start: Lsn,
    items: Vec<u8>,
}

/// A random log of about `groups` groups, with restarts of the server and fuzzy snapshots in it. It is open.
pub fn random_log(seed: u64, groups: u64) -> TestLog {
    let mut rng = Rng(seed);
    let mut log = TestLog::new(0);
    let mut state = Keyspace::new(256, [seed; 4]);
    let (mut ms, mut taking): (u64, Option<Taking>) = (1, None);
    let value = vec![b'v'; 9000];
    for _ in 0..groups {
        let mut group: Vec<(u64, u8, Vec<u8>)> = Vec::new();
        for _ in 0..1 + rng.below(3) {
            ms += [0, 0, 1, 3, 40, 300][usize::try_from(rng.below(6)).unwrap()];
            let db = u8::try_from(rng.below(3)).unwrap();
            let mut bytes = Vec::new();
            random_record(&mut rng, ms, &value, &mut |record| {
                state.apply(UnixMs::new(START_MS + ms), db, record);
                record.encode(Lsn::ZERO, UnixMs::new(START_MS + ms), db, &mut bytes);
            });
            group.push((ms, db, bytes));
        }
        let raws: Vec<RawRecord<'_>> = group
            .iter()
            .map(|(_, _, bytes)| RawRecord::parse(bytes).unwrap())
            .collect();
        let records: Vec<_> = raws
            .iter()
            .zip(&group)
            .map(|(raw, (ms, db, _))| (*ms, *db, raw.decode().unwrap()))
            .collect();
        log.group(&records);
        match rng.below(12) {
            // Nothing witnesses a group of Clock records.
            0 if records
                .iter()
                .all(|(_, _, record)| matches!(record, Record::Clock)) => {}
            0 => log.seal(),
            1 => log.reopen(),
            2 | 3 if taking.is_none() => {
                taking = Some(Taking {
                    cursor: SnapshotCursor::new(),
                    start: log.end(),
                    items: Vec::new(),
                });
            }
            _ => {}
        }
        if let Some(mut now) = taking.take() {
            let time = UnixMs::new(START_MS + ms);
            let done = now.cursor.step(&state, log.end(), time, 1, &mut now.items);
            if done {
                publish(log.path(), &now, time);
            } else {
                taking = Some(now);
            }
        }
    }
    log
}

fn publish(dir: &Path, taken: &Taking, log_time: UnixMs) {
    let storage = DiskStorage::open(dir).unwrap();
    let all = records(dir);
    let last = all.last().unwrap();
    let epoch = all
        .iter()
        .rev()
        .find_map(|record| match record.raw().decode().unwrap() {
            Record::EpochStart { epoch, .. } => Some(epoch),
            _ => None,
        });
    let mut writer = SnapshotWriter::begin(storage.clone(), cluster_of(dir), taken.start).unwrap();
    writer.items(&taken.items).unwrap();
    let trailer = SnapshotTrailer {
        end_lsn: last.end,
        epoch: epoch.unwrap_or(Epoch::default()),
        end_crc: last.raw().crc,
        log_time,
        databases: taken.cursor.counts().to_vec(),
        ..SnapshotTrailer::default()
    };
    let finished = writer.finish(&trailer).unwrap();
    storage
        .rename(Dir::Snap, &finished.temporary, &snapshot_name(taken.start))
        .unwrap();
}

fn random_record(rng: &mut Rng, ms: u64, long: &[u8], take: &mut dyn FnMut(&Record<'_>)) {
    let keys: [&[u8]; 5] = [b"a", b"b", b"order:1", BINARY_KEY, b""];
    let fields: [&[u8]; 4] = [b"f", b"g", b"", b"\xff"];
    let values: [&[u8]; 4] = [b"", b"1", b"\x00\xff\\", long];
    let key = rng.pick(&keys);
    let ends = Deadline::at(START_MS + ms + 1 + rng.below(500));
    let deadline = if rng.below(2) == 0 { Deadline::NONE } else { ends };
    let pairs = [
        (rng.pick(&fields), rng.pick(&values)),
        (rng.pick(&fields), &b"2"[..]),
    ];
    let idem = IdemRecord {
        state: [IdemState::Pending, IdemState::Completed, IdemState::Aborted]
            [usize::try_from(rng.below(3)).unwrap()],
        fingerprint: b"fp",
        owner: b"worker",
        result: b"",
    };
    let idem = IdemRecord {
        result: if idem.state == IdemState::Completed {
            rng.pick(&values)
        } else {
            b""
        },
        ..idem
    };
    let put = Record::IdempotencyPut {
        key,
        deadline: ends,
        record: idem,
    };
    let string = Record::StringPut {
        key,
        deadline,
        value: rng.pick(&values),
    };
    let delete = Record::Delete {
        reason: DeleteReason::Command,
        key,
    };
    match rng.below(16) {
        0..4 => take(&string),
        4..8 => take(&put),
        8 => take(&delete),
        9 => take(&Record::DeadlinePut { key, deadline }),
        10 | 11 => take(&Record::HashPut {
            key,
            deadline,
            fields: Pairs::from(&pairs[..]),
        }),
        12 => take(&Record::HashDelete {
            key,
            fields: Strings::from(&[pairs[0].0][..]),
        }),
        13 => take(&Record::Clock),
        14 => {
            let parts = [(0, put), (2, delete), (1, string)];
            take(&Record::Transaction {
                records: SubRecords::Slice(&parts),
            });
        }
        _ if rng.below(4) == 0 => take(&Record::FlushAll),
        _ => take(&Record::FlushDb),
    }
}
