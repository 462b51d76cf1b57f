//! One of the two logs, as a stream of record bytes.
//!
//! A group of this side rarely is one of the other. So a side holds the records of one group at a time and hands out what
//! is left of them; the position in the log says which bytes of the other side they belong to.

use idem_protocol::wal::{FRAME_HEADER_BYTES, RawRecord, Record, scan};
use idem_protocol::{Epoch, Lsn};
use idem_wal::reader::{LogReader, LogStep};
use idem_wal::storage::Dir;
use serde_json::Value;

use crate::chain::{Chain, Link};
use crate::exit::Failure;
use crate::line::{Line, human};
use crate::log_end::LogEnd;
use crate::output::Paint;
use crate::view::View;

/// A log that is read from a given segment on.
pub(super) struct Side {
    reader: LogReader<View>,
    /// The epoch in force at the position.
    epoch: Epoch,
    /// The records of the current group.
    group: Vec<u8>,
    /// How much of them was passed.
    passed: usize,
    /// Position of the first of them.
    group_lsn: Lsn,
    /// Where the group stands.
    file: String,
    offset: u64,
    end: Option<LogEnd>,
}

/// Where a side stands after it was told to go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum At {
    /// At the wanted position; or, for [`Side::load`], with bytes in hand.
    There,
    /// At its end.
    End,
    /// Segments went before they could be read.
    Gap,
    /// The wanted position is inside of a record, which begins here.
    Inside(Lsn),
}

/// A record as both kinds of output show it.
pub(super) struct Found {
    pub(super) lsn: Lsn,
    /// The fields of `walctl dump --frames --json`, and the checksum.
    pub(super) json: Value,
    /// The columns of `walctl dump --frames`.
    pub(super) text: String,
    pub(super) crc: u32,
}

impl Side {
    /// Stands at the beginning of the segment that holds `start`. `chain` is this directory's.
    pub(super) fn open(view: &View, chain: &Chain, start: Lsn) -> Result<Side, Failure> {
        let after = chain.links.partition_point(|link| link.first() <= start);
        let link = chain.links.get(after.saturating_sub(1));
        let first = link.map_or(start, Link::first);
        let reader = LogReader::open(view, first).map_err(Failure::io("listing the log"))?;
        Ok(Side {
            reader,
            epoch: link.map_or_else(Epoch::default, |link| link.header.epoch),
            group: Vec::new(),
            passed: 0,
            group_lsn: first,
            file: String::new(),
            offset: 0,
            end: None,
        })
    }

    /// The position in the log.
    pub(super) fn lsn(&self) -> Lsn {
        self.group_lsn.plus(length(self.passed))
    }

    /// The epoch in force there.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What is in hand of the current group.
    pub(super) fn rest(&self) -> &[u8] {
        &self.group[self.passed..]
    }

    /// Passes `count` bytes of [`Side::rest`]. The epoch is not looked at any more: equal bytes begin equal epochs.
    pub(super) fn pass(&mut self, count: usize) {
        assert!(count <= self.rest().len(), "only what is in hand is passed");
        self.passed += count;
    }

    /// The place where the log ends, once it was reached.
    pub(super) fn end(&self) -> Option<&LogEnd> {
        self.end.as_ref()
    }

    /// Sees that something is in hand, unless the log ends here.
    pub(super) fn load(&mut self) -> Result<At, Failure> {
        while self.rest().is_empty() {
            if self.end.is_some() {
                return Ok(At::End);
            }
            let expected = self.lsn();
            match self.reader.next_step().map_err(Failure::io("reading the log"))? {
                LogStep::Frame { file, frame } => {
                    if frame.header.lsn != expected {
                        return Ok(At::Gap);
                    }
                    self.group.clear();
                    self.group.extend_from_slice(frame.payload);
                    self.passed = 0;
                    self.group_lsn = expected;
                    self.offset = frame.offset;
                    if self.file != file {
                        file.clone_into(&mut self.file);
                    }
                }
                LogStep::Removed { .. } => return Ok(At::Gap),
                LogStep::End {
                    file,
                    offset,
                    lsn,
                    stop,
                    segments_left,
                } => {
                    self.end = Some(LogEnd {
                        file,
                        offset,
                        lsn,
                        stop,
                        segments_left,
                    });
                }
            }
        }
        Ok(At::There)
    }

    /// Goes on to `to`, which is not before the position, record by record.
    pub(super) fn skip_to(&mut self, to: Lsn) -> Result<At, Failure> {
        while self.lsn() < to {
            match self.load()? {
                At::There => {}
                other => return Ok(other),
            }
            let mut passed = self.passed;
            for (_, raw) in scan::records(&self.group[self.passed..]) {
                if raw.lsn >= to {
                    break;
                }
                if raw.end() > to {
                    return Ok(At::Inside(raw.lsn));
                }
                if let Ok(Record::EpochStart { epoch, .. }) = raw.decode() {
                    self.epoch = epoch;
                }
                passed += raw.bytes.len();
            }
            self.passed = passed;
        }
        Ok(At::There)
    }

    /// The record that holds the byte at `ahead` of what is in hand.
    pub(super) fn record_at(&self, ahead: usize) -> Option<Found> {
        let wanted = self.passed + ahead;
        let found = scan::records(&self.group).find(|(at, raw)| wanted < at + raw.bytes.len());
        found.map(|(at, raw)| self.describe(at, &raw))
    }

    fn describe(&self, at: usize, raw: &RawRecord<'_>) -> Found {
        let decoded = raw.decode();
        let mut line = match &decoded {
            Ok(record) => Line::new(raw, raw.db, record, false),
            Err(_) => Line {
                lsn: raw.lsn.get(),
                time_ms: raw.time.get(),
                ..Line::default()
            },
        };
        line.file = Some(Dir::Wal.join(&self.file));
        line.offset = Some(self.offset + length(FRAME_HEADER_BYTES + at));
        let mut text = Vec::new();
        human::record(&mut text, Paint::default(), &line).expect("memory takes every write");
        let mut json = serde_json::to_value(&line).unwrap_or_default();
        // Also of a record that this version cannot read.
        json["opcode"] = raw.opcode.into();
        json["crc"] = raw.crc.into();
        Found {
            lsn: raw.lsn,
            json,
            text: String::from_utf8_lossy(&text).into_owned(),
            crc: raw.crc,
        }
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("usize has at most 64 bits")
}
