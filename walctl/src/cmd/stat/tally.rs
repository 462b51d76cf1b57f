//! What is counted while the log is read. Memory does not depend on the log's length.

use std::collections::BTreeMap;

use idem_protocol::idem::IdemState;
use idem_protocol::wal::{FRAME_HEADER_BYTES, Opcode, RawRecord, Record, SEGMENT_HEADER_BYTES};
use idem_protocol::{Lsn, UnixMs};
use idem_wal::reader::{Frame, LogRecord};

use super::histogram::{Count, Sizes, Times};
use super::sketch::{KEYS_KEPT, Sketch};
use crate::exit::Failure;
use crate::line::{Scope, key, scope};
use crate::output::Printed;
use crate::scan::Visitor;

/// Records of IDEM by the state that they lead to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct States {
    pub(super) pending: u64,
    pub(super) completed: u64,
    pub(super) aborted: u64,
    /// Of the completed ones.
    pub(super) result_bytes: u64,
}

/// How the log is laid out in files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    pub(super) segments: u64,
    pub(super) groups: u64,
    pub(super) seals: u64,
    /// Headers of segments, groups and seals.
    pub(super) header_bytes: u64,
    /// Zeros after a group, up to where the next one may begin.
    pub(super) padding_bytes: u64,
}

/// All the numbers.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) first_lsn: Option<Lsn>,
    pub(super) times: Option<(UnixMs, UnixMs)>,
    pub(super) all: Count,
    pub(super) by_opcode: BTreeMap<Opcode, Count>,
    /// What stands in Transactions, by its own kind.
    pub(super) parts: BTreeMap<Opcode, Count>,
    pub(super) by_database: BTreeMap<u8, Count>,
    pub(super) states: States,
    pub(super) record_sizes: Sizes,
    /// Groups by the number of their records; bytes are those of the records.
    pub(super) group_records: Sizes,
    pub(super) by_time: Times,
    pub(super) keys: Sketch,
    pub(super) layout: Layout,
    segment: String,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally {
            first_lsn: None,
            times: None,
            all: Count::default(),
            by_opcode: BTreeMap::new(),
            parts: BTreeMap::new(),
            by_database: BTreeMap::new(),
            states: States::default(),
            record_sizes: Sizes::default(),
            group_records: Sizes::default(),
            by_time: Times::default(),
            keys: Sketch::new(KEYS_KEPT),
            layout: Layout::default(),
            segment: String::new(),
        }
    }

    fn count(&mut self, raw: &RawRecord<'_>, record: &Record<'_>) {
        let bytes = raw.bytes.len() as u64;
        let first = self.times.map_or(raw.time, |(first, _)| first);
        self.times = Some((first, raw.time));
        self.all.add(bytes);
        self.by_opcode.entry(record.opcode()).or_default().add(bytes);
        self.record_sizes.add(bytes, bytes);
        self.by_time.add(raw.time.get(), bytes);
        let Record::Transaction { records } = record else {
            self.change(raw.db, record, bytes);
            return;
        };
        for (db, part) in records.iter() {
            let bytes = part.body_len();
            self.parts.entry(part.opcode()).or_default().add(bytes);
            self.change(db, &part, bytes);
        }
    }

    /// What a record, or a part of one, does to keys.
    fn change(&mut self, db: u8, record: &Record<'_>, bytes: u64) {
        if let Scope::One(db) = scope(db, record) {
            self.by_database.entry(db).or_default().add(bytes);
        }
        if let Some(key) = key(record) {
            self.keys.add(db, key, bytes);
        }
        if let Record::IdempotencyPut { record, .. } = record {
            match record.state {
                IdemState::Pending => self.states.pending += 1,
                IdemState::Completed => {
                    self.states.completed += 1;
                    self.states.result_bytes += record.result.len() as u64;
                }
                IdemState::Aborted => self.states.aborted += 1,
            }
        }
    }
}

impl Visitor for Tally {
    fn begin(&mut self, first: Lsn) -> Result<(), Failure> {
        self.first_lsn = Some(first);
        Ok(())
    }

    fn frame(&mut self, file: &str, frame: &Frame<'_>) {
        if self.segment != file {
            file.clone_into(&mut self.segment);
            self.layout.segments += 1;
            self.layout.header_bytes += SEGMENT_HEADER_BYTES as u64;
        }
        let header = &frame.header;
        let payload = u64::from(header.payload_bytes);
        let whole = FRAME_HEADER_BYTES as u64 + payload;
        self.layout.header_bytes += FRAME_HEADER_BYTES as u64;
        self.layout.padding_bytes += header.frame_bytes() - whole;
        if header.seal {
            self.layout.seals += 1;
        } else {
            self.layout.groups += 1;
            self.group_records.add(u64::from(header.count), payload);
        }
    }

    fn record(&mut self, record: &LogRecord<'_>, decoded: &Record<'_>) -> Result<Printed, Failure> {
        self.count(&record.raw, decoded);
        Ok(Printed::All)
    }
}
