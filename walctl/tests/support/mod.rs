//! Small logs made with the log's own writer, and the program run on them.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test file uses a part of this, and a wrong test may panic"
)]

pub mod follow;
pub mod golden;
pub mod histories;
pub mod memory;
pub mod rebuild;
pub mod repairs;
pub mod snapshots;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use idem_protocol::idem::{IdemRecord, IdemState};
use idem_protocol::wal::{DeleteReason, Pairs, Record, Strings, SubRecords};
use idem_protocol::{Deadline, Lsn, UnixMs};
use idem_wal::batch::{NotReserved, Spare};
use idem_wal::recovery::{Ignore, JudgeOptions, OpenParams, Opened, judge, open};
use idem_wal::segment::make_spare;
use idem_wal::storage::DiskStorage;
use tempfile::TempDir;

/// 2026-01-01T00:00:00Z.
pub const START_MS: u64 = 1_767_225_600_000;
/// Length of segments here: small, so that several fit into a test.
pub const SEGMENT_BYTES: u64 = 1 << 16;

/// A data directory that is being written.
pub struct TestLog {
    directory: TempDir,
    storage: DiskStorage,
    opened: Option<Opened<DiskStorage>>,
    seed: u8,
    spares: u32,
    segment_bytes: u64,
    /// When it is opened, in milliseconds after [`START_MS`]; or at the log's time, when that is later.
    now_ms: u64,
}

impl TestLog {
    /// A new log with an EpochStart of [`START_MS`]; another `seed` makes another node and cluster.
    pub fn new(seed: u8) -> TestLog {
        TestLog::with(seed, SEGMENT_BYTES, 0)
    }

    fn with(seed: u8, segment_bytes: u64, now_ms: u64) -> TestLog {
        let directory = tempfile::tempdir().unwrap();
        let storage = DiskStorage::create(directory.path()).unwrap();
        let mut log = TestLog {
            directory,
            storage,
            opened: None,
            seed,
            spares: 0,
            segment_bytes,
            now_ms,
        };
        log.reopen();
        log
    }

    /// Starts as a server does: judge, cut what is to be cut, open an epoch.
    pub fn reopen(&mut self) {
        self.opened = None;
        let options = JudgeOptions {
            retain_tail: true,
            all_snapshots: false,
            live: false,
        };
        let judgement = judge(&self.storage, &options, &mut Ignore);
        let mut next = self.seed;
        let params = OpenParams {
            now: UnixMs::new(START_MS + self.now_ms),
            segment_bytes: self.segment_bytes,
            entropy: Box::new(move || {
                next = next.wrapping_add(1);
                [next; 16]
            }),
        };
        self.seed += 16;
        self.opened = Some(open(&self.storage, judgement, params).unwrap());
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The end of what was written.
    pub fn end(&self) -> Lsn {
        self.opened.as_ref().unwrap().batch.appended()
    }

    /// Writes a group of records `(milliseconds after the start, database, record)` without a sync; returns its end.
    pub fn write(&mut self, records: &[(u64, u8, Record<'_>)]) -> Lsn {
        let opened = self.opened.as_mut().unwrap();
        let bytes = records.iter().map(|(_, _, record)| record.encoded_len()).sum();
        if let Err(NotReserved::NeedsSpare { bytes }) = opened.batch.reserve(bytes) {
            let spare = Spare {
                number: self.spares,
                bytes,
            };
            self.spares += 1;
            make_spare(&self.storage, spare, &mut || {}).unwrap();
            opened.batch.spare_ready(spare);
        }
        opened.batch.reserve(bytes).unwrap();
        for (ms, db, record) in records {
            opened.batch.append(UnixMs::new(START_MS + ms), *db, record);
        }
        let mut group = opened.batch.take(Vec::new()).unwrap();
        opened.writer.write(&mut group).unwrap();
        opened.batch.appended()
    }

    /// As [`TestLog::write`], and a sync: the next frame vouches for it.
    pub fn group(&mut self, records: &[(u64, u8, Record<'_>)]) -> Lsn {
        let end = self.write(records);
        self.opened.as_mut().unwrap().writer.sync().unwrap();
        end
    }

    /// A seal, synced.
    pub fn seal(&mut self) {
        let opened = self.opened.as_mut().unwrap();
        assert!(opened.batch.take_seal().is_some());
        opened.writer.seal().unwrap();
        opened.writer.sync().unwrap();
    }

    /// Closes the log as a server does that is asked to stop.
    pub fn shut_down(&mut self) {
        self.opened.as_mut().unwrap().writer.shut_down().unwrap();
        self.opened = None;
    }

    /// The segments, in order.
    pub fn segments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path().join("wal")).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "wal"));
        paths.sort();
        paths
    }

    /// Changes the bytes of the newest segment.
    pub fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.segments().pop().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes);
        std::fs::write(path, bytes).unwrap();
    }

    /// Offset of `needle` in the newest segment.
    pub fn find(&self, needle: &[u8]) -> usize {
        let bytes = std::fs::read(self.segments().pop().unwrap()).unwrap();
        let found = bytes.windows(needle.len()).position(|window| window == needle);
        found.expect("the bytes are in the newest segment")
    }
}

pub fn pending<'a>(key: &'a [u8], deadline_ms: u64, fingerprint: &'a [u8], owner: &'a [u8]) -> Record<'a> {
    idem(key, deadline_ms, IdemState::Pending, fingerprint, owner, b"")
}

pub fn idem<'a>(
    key: &'a [u8],
    deadline_ms: u64,
    state: IdemState,
    fingerprint: &'a [u8],
    owner: &'a [u8],
    result: &'a [u8],
) -> Record<'a> {
    Record::IdempotencyPut {
        key,
        deadline: Deadline::at(START_MS + deadline_ms),
        record: IdemRecord {
            state,
            fingerprint,
            owner,
            result,
        },
    }
}

pub fn string<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
    Record::StringPut {
        key,
        deadline: Deadline::NONE,
        value,
    }
}

/// A key that every kind of output has to escape.
pub const BINARY_KEY: &[u8] = b"\x00bin \\ \xff\xc3\xa9\x7f";
/// Its text.
pub const BINARY_KEY_TEXT: &str = "\\x00bin \\\\ \\xffé\\x7f";

/// A log with each kind of record that a node without members writes, cleanly closed.
pub fn sample() -> TestLog {
    let mut log = TestLog::new(0);
    log.group(&[(10, 0, pending(b"pay:1", 60_010, b"fp-1", b"worker-1"))]);
    log.group(&[
        (
            20,
            0,
            idem(
                b"pay:1",
                60_010,
                IdemState::Completed,
                b"fp-1",
                b"worker-1",
                b"{\"ok\":true}\n",
            ),
        ),
        (20, 3, pending(b"pay:2", 86_400_020, b"fp-2", b"worker-2")),
    ]);
    log.seal();
    let fields = [(&b"name"[..], &b"Ada"[..]), (b"born", b"1815")];
    log.group(&[
        (
            1000,
            3,
            idem(
                b"pay:2",
                86_400_020,
                IdemState::Aborted,
                b"fp-2",
                b"worker-2",
                b"",
            ),
        ),
        (1000, 0, string(b"greeting", b"hello\r\n\\")),
        (
            1001,
            0,
            Record::DeadlinePut {
                key: b"greeting",
                deadline: Deadline::at(START_MS + 5000),
            },
        ),
        (
            1002,
            0,
            Record::HashPut {
                key: b"user:1",
                deadline: Deadline::NONE,
                fields: Pairs::from(&fields[..]),
            },
        ),
        (
            1003,
            0,
            Record::HashDelete {
                key: b"user:1",
                fields: Strings::from(&[&b"born"[..]][..]),
            },
        ),
        (
            1004,
            0,
            Record::Delete {
                reason: DeleteReason::Evicted,
                key: b"greeting",
            },
        ),
        (1005, 0, Record::Clock),
        (1006, 3, Record::FlushDb),
        (1007, 0, Record::FlushAll),
    ]);
    let parts = [
        (0, string(b"a", b"1")),
        (
            1,
            idem(b"pay:3", 60_000, IdemState::Completed, b"fp-3", b"worker-3", b""),
        ),
        (
            0,
            Record::Delete {
                reason: DeleteReason::Command,
                key: b"a",
            },
        ),
    ];
    log.group(&[
        (
            2000,
            0,
            Record::Transaction {
                records: SubRecords::Slice(&parts),
            },
        ),
        (2001, 2, string(BINARY_KEY, b"\x01")),
    ]);
    log.shut_down();
    log
}

/// The program with these arguments, and no colours.
pub fn walctl(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_walctl"));
    command.args(arguments).env_remove("NO_COLOR");
    command
}

pub fn code(output: &Output) -> i32 {
    output.status.code().expect("walctl is not killed by a signal")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is text")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are text")
}

/// Each line as a JSON object.
pub fn objects(output: &Output) -> Vec<serde_json::Value> {
    let text = stdout(output);
    assert!(text.is_empty() || text.ends_with('\n'), "lines end");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Compares with a file in `tests/golden`; with `IDEM_BLESS=1` writes it, to be read by a person before it is kept.
pub fn check_golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("IDEM_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{} differs", path.display());
}

/// Every name below a directory with its bytes and its time of change.
pub fn image(path: &Path) -> BTreeMap<PathBuf, (SystemTime, Option<Vec<u8>>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![path.to_owned()];
    while let Some(at) = open.pop() {
        let metadata = std::fs::metadata(&at).unwrap();
        let bytes = if metadata.is_dir() {
            open.extend(std::fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()));
            None
        } else {
            Some(std::fs::read(&at).unwrap())
        };
        found.insert(at, (metadata.modified().unwrap(), bytes));
    }
    found
}

/// Where a test needs something that the machine may not have: says so and passes, or fails when everything is required.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("IDEM_REQUIRE_ALL").is_none_or(|value| value != "1"),
        "cannot be tested here: {why}"
    );
    eprintln!("skipped: {why}");
}
