//! Transactions on a disk that loses things: whatever is cut, torn or not synced, a start finds all of an EXEC or nothing.
//!
//! Method: a node writes through the log's own batch and writer to the simulated disk. Every EXEC puts the same number
//! under four keys of three kinds, in two databases; between them stand single commands. Then the disk is damaged and the
//! log is judged and replayed as a start does it. The four keys have to agree, whenever the verdict starts the server.

#![allow(clippy::unwrap_used, reason = "a wrong test may panic")]

use idem_engine::keyspace::ValueRef;
use idem_engine::{Durability, Facts, Log, Node, NodeConfig, Outcome, Reservation, ServerFacts, Session};
use idem_protocol::idem::IdemRecord;
use idem_protocol::resp::Args;
use idem_protocol::wal::{RawRecord, Record, SEGMENT_HEADER_BYTES};
use idem_protocol::{Lsn, UnixMs};
use idem_wal::batch::{Batch, NotReserved, Spare};
use idem_wal::recovery::{JudgeOptions, OpenParams, Opened, Place, Sink, judge, open};
use idem_wal::segment::make_spare;
use idem_wal::storage::Dir;
use idem_wal::storage::sim::{SimDisk, SimStorage, SplitMix};

const SEGMENT_BYTES: u64 = 4096 + 3072;

struct NoFacts;

impl Facts for NoFacts {
    fn info(&self) -> ServerFacts {
        ServerFacts::default()
    }

    fn last_save(&self) -> u64 {
        0
    }

    fn snapshot_running(&self) -> bool {
        false
    }
}

/// The log as the node sees it: spares are made when they are needed.
struct DiskLog {
    storage: SimStorage,
    batch: Batch,
    spares: u32,
}

impl Log for DiskLog {
    fn reserve(&mut self, record_bytes: u64) -> Reservation {
        loop {
            match self.batch.reserve(record_bytes) {
                Ok(()) => return Reservation::Granted,
                Err(NotReserved::GroupFull) => return Reservation::Wait,
                Err(NotReserved::NeedsSpare { bytes }) => {
                    self.spares += 1;
                    let spare = Spare {
                        number: self.spares,
                        bytes,
                    };
                    make_spare(&self.storage, spare, &mut || {}).unwrap();
                    self.batch.spare_ready(spare);
                }
            }
        }
    }

    fn append(&mut self, time: UnixMs, db: u8, record: &Record<'_>) -> Lsn {
        self.batch.append(time, db, record)
    }

    fn appended(&self) -> Lsn {
        self.batch.appended()
    }
}

fn node() -> Node {
    Node::new(NodeConfig {
        databases: 16,
        hash_seed: [1, 2, 3, 4],
        policy: Durability::Always,
        bulk_bytes_max: 1 << 20,
    })
}

fn start(storage: &SimStorage) -> Opened<SimStorage> {
    let options = JudgeOptions {
        retain_tail: true,
        ..JudgeOptions::default()
    };
    let mut chance = SplitMix(7);
    let params = OpenParams {
        now: UnixMs::new(1_000),
        segment_bytes: SEGMENT_BYTES,
        entropy: Box::new(move || {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&chance.next_u64().to_le_bytes());
            bytes
        }),
    };
    open(storage, judge(storage, &options, &mut Replay(node())), params).expect("a new directory opens")
}

/// What a start replays.
struct Replay(Node);

impl Sink for Replay {
    fn reset(&mut self) {
        self.0.reset();
    }

    fn snapshot_item(&mut self, raw: &RawRecord<'_>, item: &Record<'_>) {
        self.0.recover(raw.lsn, raw.time, raw.db, item);
    }

    fn record(&mut self, _: Place<'_>, raw: &RawRecord<'_>, record: &Record<'_>) {
        self.0.recover(raw.end(), raw.time, raw.db, record);
    }
}

impl Replay {
    fn string(&self, db: u8, key: &[u8]) -> Option<&[u8]> {
        match self.0.keyspace().get(db, key)?.value() {
            ValueRef::String(bytes) => Some(bytes),
            ValueRef::Hash(_) => panic!("{key:?} is a string"),
        }
    }

    /// The number that the four keys agree about; `None` before the first EXEC.
    fn number(&self) -> Result<Option<Vec<u8>>, String> {
        let field = match self.0.keyspace().get(0, b"h").map(|entry| entry.value()) {
            Some(ValueRef::Hash(hash)) => hash.get(b"n"),
            _ => None,
        };
        let result = self.string(3, b"i").map(|bytes| {
            let record = IdemRecord::decode_stored(bytes).expect("a whole record");
            record.result
        });
        let deadline = self
            .0
            .keyspace()
            .get(3, b"i")
            .map(|entry| entry.deadline().is_some());
        let found = [self.string(0, b"a"), self.string(3, b"b"), field, result];
        if found.iter().any(|one| *one != found[0]) || deadline == Some(false) {
            return Err(format!("{found:?}, deadline {deadline:?}"));
        }
        Ok(found[0].map(<[u8]>::to_vec))
    }
}

/// A log of `rounds` transactions, `synced` of them synced one by one and the rest only written.
fn written(rounds: u32, synced: u32) -> SimDisk {
    let disk = SimDisk::new();
    let storage = disk.storage();
    let Opened {
        batch, mut writer, ..
    } = start(&storage);
    let mut log = DiskLog {
        storage,
        batch,
        spares: 1_000,
    };
    let mut node = node();
    node.open(log.appended(), UnixMs::new(1_000), writer.epoch());
    let mut session = Session::new(1);
    for round in 0..rounds {
        let number = round.to_string();
        let lines = [
            "SET other 1".to_owned(),
            "MULTI".to_owned(),
            "SELECT 0".to_owned(),
            format!("SET a {number}"),
            format!("HSET h n {number}"),
            "SELECT 3".to_owned(),
            "DEL i".to_owned(),
            "IDEM i BEGIN f o 600000".to_owned(),
            format!("IDEM i COMPLETE f o {number}"),
            format!("SET b {number}"),
            "EXEC".to_owned(),
            "SET other 2".to_owned(),
        ];
        for line in lines {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let mut out = Vec::new();
            let now = UnixMs::new(1_000 + u64::from(round));
            let outcome = node.execute(
                &mut session,
                Args::from(&words[..]),
                now,
                &mut log,
                &NoFacts,
                &mut out,
            );
            assert!(matches!(outcome, Outcome::Reply { .. }), "{line}");
            assert_ne!(out[0], b'-', "{line}: {}", out.escape_ascii());
        }
        let mut group = log.batch.take(Vec::new()).expect("there are records");
        writer.write(&mut group).unwrap();
        if round < synced {
            writer.sync().unwrap();
        }
    }
    disk
}

fn newest(disk: &SimDisk) -> String {
    let segments = disk
        .names(Dir::Wal)
        .into_iter()
        .filter(|name| name.ends_with(".wal"));
    segments.max().expect("there is a segment")
}

/// Judges what is on the disk; the number, when a start would serve it.
fn found(disk: &SimDisk, what: &str) -> Option<Option<Vec<u8>>> {
    let mut replay = Replay(node());
    let judgement = judge(&disk.storage(), &JudgeOptions::default(), &mut replay);
    if !judgement.verdict.starts() {
        return None;
    }
    match replay.number() {
        Ok(number) => Some(number),
        Err(halves) => panic!("half a transaction, {what}: {halves}"),
    }
}

#[test]
fn cut_at_every_byte() {
    let disk = written(4, 4);
    disk.settle();
    let (image, name) = (disk.image(), newest(&disk));
    let length = disk.bytes(Dir::Wal, &name).expect("it is there").len();
    let mut numbers = std::collections::BTreeSet::new();
    for cut in SEGMENT_HEADER_BYTES..length {
        for zeros in [false, true] {
            disk.restore(&image);
            if zeros {
                disk.overwrite(Dir::Wal, &name, cut, &vec![0; length - cut]);
            } else {
                disk.truncate(Dir::Wal, &name, cut);
            }
            numbers.extend(found(&disk, &format!("cut at {cut}, zeros {zeros}")));
        }
    }
    assert!(numbers.len() > 1, "cuts that a start accepts: {numbers:?}");
}

#[test]
fn one_bit_at_every_byte() {
    let disk = written(3, 3);
    disk.settle();
    let (image, name) = (disk.image(), newest(&disk));
    let length = disk.bytes(Dir::Wal, &name).expect("it is there").len();
    for at in 0..length {
        disk.restore(&image);
        disk.flip(Dir::Wal, &name, at, 1 << (at % 8));
        found(&disk, &format!("a bit at {at}"));
    }
}

#[test]
fn power_losses() {
    let mut numbers = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let disk = written(9, 5);
        disk.power_loss_seeded(seed);
        let number = found(&disk, &format!("power loss {seed}")).expect("a loss of power starts");
        let number: u32 = String::from_utf8(number.expect("five were synced"))
            .unwrap()
            .parse()
            .unwrap();
        assert!(number >= 4, "what was synced is there, seed {seed}: {number}");
        numbers.insert(number);
    }
    assert!(numbers.len() > 2, "different losses: {numbers:?}");
}
