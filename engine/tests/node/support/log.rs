//! A log in memory that keeps real record bytes, and grants, delays or refuses space as it is told.

use idem_engine::{Log, Reservation};
use idem_protocol::wal::{RawRecord, Record};
use idem_protocol::{Lsn, UnixMs};

/// What a reservation gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Granted,
    Wait,
    NoSpace,
}

#[derive(Clone, Debug)]
pub(crate) struct MemoryLog {
    pub(crate) mode: Mode,
    /// Whether `can_write` says so when there is no space.
    pub(crate) admits: bool,
    bytes: Vec<u8>,
    /// Ends of all records, in order.
    ends: Vec<usize>,
    reserved: u64,
    time: UnixMs,
    /// How often the open group was closed, and whether it can be.
    pub(crate) closed: usize,
    pub(crate) closes: bool,
}

impl MemoryLog {
    pub(crate) fn new() -> Self {
        MemoryLog {
            mode: Mode::Granted,
            admits: false,
            bytes: Vec::new(),
            ends: Vec::new(),
            reserved: 0,
            time: UnixMs::ZERO,
            closed: 0,
            closes: true,
        }
    }

    /// Appends what is not the node's, such as the EpochStart of an opening.
    pub(crate) fn append_unreserved(&mut self, time: UnixMs, record: &Record<'_>) -> Lsn {
        self.reserved = record.encoded_len();
        self.append(time, 0, record)
    }

    /// How many records there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The end of every record, in order.
    pub(crate) fn ends(&self) -> Vec<Lsn> {
        self.ends.iter().map(|end| Lsn::new(*end as u64)).collect()
    }

    /// The records from `first` on, parsed from their bytes.
    pub(crate) fn records(&self, first: usize) -> impl Iterator<Item = RawRecord<'_>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .take(self.ends.len())
            .skip(first)
            .map(|start| RawRecord::parse(&self.bytes[start..]).expect("the log holds what was encoded"))
    }

    /// The log as a crash leaves it that keeps everything below `end`.
    pub(crate) fn prefix(&self, end: Lsn) -> MemoryLog {
        let mut log = MemoryLog::new();
        for raw in self.records(0).take_while(|raw| raw.end() <= end) {
            let record = raw.decode().expect("the log holds what was encoded");
            log.reserved = record.encoded_len();
            log.append(raw.time, raw.db, &record);
        }
        assert_eq!(log.appended(), end, "a crash keeps whole records");
        log
    }
}

impl Log for MemoryLog {
    fn reserve(&mut self, record_bytes: u64) -> Reservation {
        assert!(record_bytes > 0, "nothing is reserved for nothing");
        match self.mode {
            Mode::Granted => {
                self.reserved = record_bytes;
                Reservation::Granted
            }
            Mode::Wait => Reservation::Wait,
            Mode::NoSpace => Reservation::NoSpace,
        }
    }

    fn close_group(&mut self) -> bool {
        self.closed += usize::from(self.closes);
        self.closes
    }

    fn append(&mut self, time: UnixMs, db: u8, record: &Record<'_>) -> Lsn {
        assert!(time >= self.time, "time went back");
        self.time = time;
        self.reserved = self
            .reserved
            .checked_sub(record.encoded_len())
            .expect("more appended than reserved");
        record.encode(self.appended(), time, db, &mut self.bytes);
        self.ends.push(self.bytes.len());
        self.appended()
    }

    fn appended(&self) -> Lsn {
        Lsn::new(self.bytes.len() as u64)
    }

    fn can_write(&self) -> bool {
        !(self.mode == Mode::NoSpace && self.admits)
    }
}
