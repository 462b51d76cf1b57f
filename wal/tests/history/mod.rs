//! A node without threads, sockets or commands, for histories on the simulated disk: it starts through the real verdict
//! and the real opening, and writes through the real batch, writer and housekeeper.
//!
//! [`Truth`] is kept apart from it and never looks at the disk: what was written where, and what was promised to whom.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::{FrameHeader, Pairs, RawRecord, Record, SegmentHeader};
use idem_protocol::{Deadline, Lsn, UnixMs};
use idem_wal::batch::{Batch, Group, NotReserved};
use idem_wal::control::ControlFile;
use idem_wal::error::WriteError;
use idem_wal::housekeeping::{Chore, ChoreEvent, Housekeeper, HousekeepingParams};
use idem_wal::recovery::{JudgeOptions, Judgement, OpenError, OpenParams, Opened, Place, Sink, judge, open};
use idem_wal::snapshot::SnapshotWriter;
use idem_wal::storage::Dir;
use idem_wal::storage::sim::{SimDisk, SimStorage, SplitMix, is_crash};
use idem_wal::writer::LogWriter;

/// Segments of so many bytes, header included: a handful of groups.
pub const SEGMENT_BYTES: u64 = 4096 + 2048;

/// Everything that a start read.
#[derive(Clone, Debug, Default)]
pub struct Read {
    pub records: BTreeMap<Lsn, Vec<u8>>,
    pub items: u64,
}

impl Sink for Read {
    fn reset(&mut self) {
        *self = Read::default();
    }

    fn snapshot_item(&mut self, _: &RawRecord<'_>, _: &Record<'_>) {
        self.items += 1;
    }

    fn record(&mut self, _: Place<'_>, raw: &RawRecord<'_>, _: &Record<'_>) {
        self.records.insert(raw.lsn, raw.bytes.to_vec());
    }
}

/// What was written and promised, as somebody outside of the machine knows it.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// The record last written at each lsn.
    pub records: BTreeMap<Lsn, Vec<u8>>,
    /// What a kill must not take: replies were given for it.
    pub kill: Lsn,
    /// What a power loss must not take.
    pub power: Lsn,
}

impl Truth {
    /// A start went on at `end`: what was beyond it is no longer part of the history.
    pub fn cut(&mut self, end: Lsn) {
        self.records.split_off(&end);
    }
}

/// When replies are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Always,
    Everysec,
    No,
}

/// Why a step did not happen.
#[derive(Debug)]
pub enum End {
    /// The machine stopped.
    Crash,
    /// A sync failed: the process ended.
    SyncFailed,
    /// The start refused.
    Refused(Box<Judgement>),
    /// The disk said something else.
    Disk(String),
}

fn end_of(error: WriteError) -> End {
    match error {
        WriteError::Retry(error) if is_crash(&error) => End::Crash,
        WriteError::Retry(error) => End::Disk(error.to_string()),
        WriteError::Fatal(fatal) if is_crash(&fatal.source) => End::Crash,
        WriteError::Fatal(_) => End::SyncFailed,
    }
}

pub struct Node {
    pub writer: LogWriter<SimStorage>,
    pub batch: Batch,
    pub control: ControlFile<SimStorage>,
    pub keeper: Housekeeper<SimStorage>,
    pub policy: Policy,
    pub judgement: Judgement,
    pub read: Read,
    pub time: u64,
    storage: SimStorage,
    snapshot: Option<(Lsn, SnapshotWriter<SimStorage>)>,
    finished: Option<idem_wal::snapshot::FinishedSnapshot>,
}

/// Different bytes at every call, the same for one seed.
pub fn entropy(seed: u64) -> Box<dyn FnMut() -> [u8; 16] + Send> {
    let mut chance = SplitMix(seed);
    Box::new(move || {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&chance.next_u64().to_le_bytes());
        bytes[8..].copy_from_slice(&chance.next_u64().to_le_bytes());
        bytes
    })
}

pub fn judge_disk(disk: &SimDisk, read: &mut Read) -> Judgement {
    let options = JudgeOptions {
        retain_tail: true,
        all_snapshots: true,
        live: false,
    };
    judge(&disk.storage(), &options, read)
}

impl Node {
    pub fn start(disk: &SimDisk, policy: Policy, seed: u64) -> Result<Node, End> {
        let storage = disk.storage();
        let mut read = Read::default();
        let options = JudgeOptions {
            retain_tail: true,
            ..JudgeOptions::default()
        };
        let judgement = judge(&storage, &options, &mut read);
        if disk.is_crashed() {
            return Err(End::Crash);
        }
        if !judgement.verdict.starts() {
            return Err(End::Refused(Box::new(judgement)));
        }
        let params = OpenParams {
            now: UnixMs::new(1_000),
            segment_bytes: SEGMENT_BYTES,
            entropy: entropy(seed),
        };
        let opened = open(&storage, judgement.clone(), params).map_err(|error| match error {
            OpenError::Io { source, .. } | OpenError::NoSpace { source, .. } if is_crash(&source) => {
                End::Crash
            }
            OpenError::Fatal(fatal) if is_crash(&fatal.source) => End::Crash,
            OpenError::Fatal(_) => End::SyncFailed,
            other => End::Disk(other.to_string()),
        })?;
        let Opened {
            writer,
            batch,
            control,
            log_time,
            ..
        } = opened;
        let params = HousekeepingParams {
            keep_bytes: 0,
            first_spare: 1,
        };
        let keeper = Housekeeper::new(storage.clone(), control.clone(), params);
        Ok(Node {
            writer,
            batch,
            control,
            keeper,
            policy,
            judgement,
            read,
            time: log_time.get(),
            storage,
            snapshot: None,
            finished: None,
        })
    }

    /// The records of the epoch's start, for a truth that begins here.
    pub fn note_start(&self, truth: &mut Truth, disk: &SimDisk) {
        let mut read = Read::default();
        judge_disk(disk, &mut read);
        truth.cut(self.judgement.end_lsn);
        truth.records.extend(read.records);
        truth.kill = self.batch.appended();
        truth.power = self.batch.appended();
    }

    fn fetch_spare(&mut self, bytes: u64) -> Result<(), End> {
        let events = RefCell::new(Vec::new());
        let result = self.keeper.handle(Chore::MakeSpare { bytes }, &|event| {
            events.borrow_mut().push(event)
        });
        let crashed = self.storage.is_crashed();
        if result.is_err() {
            return Err(if crashed { End::Crash } else { End::SyncFailed });
        }
        for event in events.into_inner() {
            match event {
                ChoreEvent::SpareReady(spare) => self.batch.spare_ready(spare),
                _ if crashed => return Err(End::Crash),
                other => return Err(End::Disk(format!("{other:?}"))),
            }
        }
        Ok(())
    }

    fn make_room(&mut self, bytes: u64) -> Result<(), End> {
        while let Err(refused) = self.batch.reserve(bytes) {
            match refused {
                NotReserved::NeedsSpare { bytes } => self.fetch_spare(bytes)?,
                NotReserved::GroupFull => unreachable!("groups are handed over at once"),
            }
        }
        Ok(())
    }

    /// One group of these records; replies are given as the policy says.
    pub fn group(&mut self, truth: &mut Truth, records: &[Record<'_>]) -> Result<(), End> {
        let bytes = records.iter().map(Record::encoded_len).sum();
        self.make_room(bytes)?;
        for record in records {
            let lsn = self.batch.appended();
            let mut encoded = Vec::new();
            record.encode(lsn, UnixMs::new(self.time), 0, &mut encoded);
            self.batch.append(UnixMs::new(self.time), 0, record);
            truth.records.insert(lsn, encoded);
        }
        let mut group = self.batch.take(Vec::new()).expect("records were appended");
        self.write(&mut group)?;
        if self.policy == Policy::Always {
            self.sync(truth)?;
        }
        truth.kill = self.writer.written();
        Ok(())
    }

    fn write(&mut self, group: &mut Group) -> Result<(), End> {
        self.writer.write(group).map_err(end_of)
    }

    pub fn sync(&mut self, truth: &mut Truth) -> Result<(), End> {
        let synced = self.writer.sync().map_err(|fatal| end_of(fatal.into()))?;
        truth.power = truth.power.max(synced);
        Ok(())
    }

    /// One ordinary spare ahead of use, when one is wanted.
    pub fn spare(&mut self) -> Result<(), End> {
        self.batch
            .wants_spare()
            .map_or(Ok(()), |bytes| self.fetch_spare(bytes))
    }

    /// A seal after the last record, as the policy has it.
    pub fn seal(&mut self, truth: &mut Truth) -> Result<(), End> {
        match self.policy {
            Policy::No => return Ok(()),
            Policy::Everysec => self.sync(truth)?,
            Policy::Always => {}
        }
        if self.batch.take_seal().is_some() {
            self.writer.seal().map_err(end_of)?;
            self.sync(truth)?;
        }
        Ok(())
    }

    pub fn shut_down(&mut self, truth: &mut Truth) -> Result<(), End> {
        self.writer.shut_down().map_err(end_of)?;
        truth.power = truth.power.max(self.writer.synced());
        Ok(())
    }

    /// One step of a snapshot: begun, written, published.
    pub fn snapshot_step(&mut self, truth: &mut Truth) -> Result<(), End> {
        if let Some(finished) = self.finished.take() {
            if self.writer.synced() < finished.end {
                self.finished = Some(finished);
                return Ok(());
            }
            let chore = Chore::PublishSnapshot {
                temporary: finished.temporary,
                start: finished.start,
                end: finished.end,
            };
            let failed = RefCell::new(false);
            let result = self.keeper.handle(chore, &|event| {
                *failed.borrow_mut() |= matches!(
                    event,
                    ChoreEvent::Failed { .. } | ChoreEvent::SnapshotFailed { .. }
                );
            });
            if self.storage.is_crashed() {
                return Err(End::Crash);
            }
            assert!(!failed.into_inner(), "publishing fails only when the disk does");
            return result.map_err(|_| End::SyncFailed);
        }
        let failed = |error: std::io::Error| {
            if is_crash(&error) {
                End::Crash
            } else {
                End::Disk(error.to_string())
            }
        };
        let Some((start, mut writer)) = self.snapshot.take() else {
            let start = self.batch.appended();
            let cluster = self.control.read().cluster;
            let writer = SnapshotWriter::begin(self.storage.clone(), cluster, start).map_err(failed)?;
            self.snapshot = Some((start, writer));
            return Ok(());
        };
        let now = UnixMs::new(self.time);
        let mut items = Vec::new();
        let put = Record::StringPut {
            key: b"key",
            deadline: Deadline::NONE,
            value: b"value",
        };
        put.encode(start, now, 0, &mut items);
        let fields: [(&[u8], &[u8]); 1] = [(b"field", b"value")];
        let hash = Record::HashPut {
            key: b"hash",
            deadline: Deadline::NONE,
            fields: Pairs::from(&fields[..]),
        };
        hash.encode(self.batch.appended(), now, 0, &mut items);
        writer.items(&items).map_err(end_of)?;
        let known = self.control.read();
        let trailer = SnapshotTrailer {
            end_lsn: self.batch.appended(),
            epoch: self.writer.epoch(),
            end_crc: self.batch.last_record_crc(),
            log_time: now,
            history: known.history,
            databases: vec![(0, 2)],
            ..SnapshotTrailer::default()
        };
        self.finished = Some(writer.finish(&trailer).map_err(end_of)?);
        let _ = truth;
        Ok(())
    }
}

/// A pending IDEM record under `key`, `filler` bytes of key beyond the number.
pub fn begin_key(number: u64, filler: usize) -> Vec<u8> {
    let mut key = format!("key-{number}-").into_bytes();
    key.resize(key.len() + filler, b'x');
    key
}

pub fn begin(key: &[u8]) -> Record<'_> {
    Record::IdempotencyPut {
        key,
        deadline: Deadline::at(99_000),
        record: IdemRecord {
            state: IdemState::Pending,
            fingerprint: b"f",
            owner: b"o",
            result: b"",
        },
    }
}

/// The same transition, completed.
pub fn complete<'a>(key: &'a [u8], result: &'a [u8]) -> Record<'a> {
    Record::IdempotencyPut {
        key,
        deadline: Deadline::at(99_000),
        record: IdemRecord {
            state: IdemState::Completed,
            fingerprint: b"f",
            owner: b"o",
            result,
        },
    }
}

/// The highest position that anything intact on the disk promises, found by looking at every byte: slow, and apart from
/// the code that it checks.
pub fn highest_promise(disk: &SimDisk) -> Lsn {
    let mut highest = Lsn::ZERO;
    for name in disk
        .names(Dir::Wal)
        .into_iter()
        .filter(|name| name.ends_with(".wal"))
    {
        let bytes = disk.bytes(Dir::Wal, &name).unwrap();
        let copy = |at: usize| SegmentHeader::decode(bytes.get(at..).unwrap_or_default());
        let Ok(header) = copy(0).or(copy(2048)) else {
            continue;
        };
        for at in (4096..bytes.len()).step_by(8) {
            let Some(frame) = FrameHeader::decode(&bytes[at..], header.salt) else {
                continue;
            };
            if at as u64 + 32 + u64::from(frame.payload_bytes) <= bytes.len() as u64 {
                highest = highest.max(frame.synced);
            }
        }
    }
    for name in disk
        .names(Dir::Snap)
        .into_iter()
        .filter(|name| name.ends_with(".snap"))
    {
        let bytes = disk.bytes(Dir::Snap, &name).unwrap();
        if bytes.len() < 60
            || crc32fast::hash(&bytes[..bytes.len() - 4]).to_le_bytes() != bytes[bytes.len() - 4..]
        {
            continue;
        }
        // The file is undamaged, so the mark can be searched from the front: no item has that length.
        let mark = (44..bytes.len() - 8).find(|at| {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            word(*at) == u32::MAX && *at + 8 + word(*at + 4) as usize == bytes.len()
        });
        let trailer = mark.and_then(|at| SnapshotTrailer::decode(&bytes[at + 8..bytes.len() - 4]).ok());
        highest = highest.max(trailer.map_or(Lsn::ZERO, |trailer| trailer.end_lsn));
    }
    if let Some(Ok(control)) = disk
        .bytes(Dir::Root, "control")
        .map(|bytes| idem_protocol::control::Control::decode(&bytes))
    {
        highest = highest.max(control.clean_end.unwrap_or_default());
        highest = control
            .history
            .iter()
            .map(|entry| entry.first_lsn)
            .fold(highest, Lsn::max);
    }
    highest
}
