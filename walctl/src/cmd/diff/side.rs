//! One of the two logs, as a stream of record bytes.
//!
//! A group of this side rarely is one of the other. So a side holds a run of records at a time, mostly those of one group,
//! and hands out what is left of them; the position in the log says which bytes of the other side they belong to.
//!
//! A side goes on behind what is damaged or missing, so that all that both logs hold is compared. The first such place is
//! kept, with what the verdict says of this directory: where nothing differs, that is the answer.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use idem_protocol::wal::{FRAME_HEADER_BYTES, RawRecord, Record, scan};
use idem_protocol::{Epoch, Lsn};
use idem_wal::reader::{Frame, LogReader, LogStep, Past, Piece, salvage};
use idem_wal::storage::Dir;
use serde_json::Value;

use super::verdict;
use crate::exit::{Exit, Failure};
use crate::line::{Line, human};
use crate::log_end::LogEnd;
use crate::output::Paint;
use crate::view::View;

/// A log that is read from a given position on.
pub(super) struct Side {
    view: View,
    path: PathBuf,
    reader: LogReader<View>,
    /// What is in hand.
    run: Run,
    /// How much of it was passed.
    passed: usize,
    /// Runs that follow it, of a group that is not whole.
    runs: VecDeque<Run>,
    /// Where the next group has to begin.
    expected: Lsn,
    /// What lies below was passed already: a damaged log can go back.
    reached: Lsn,
    /// The epoch in force at the begin of the run, when it is known, and those that begin in it.
    epoch: Option<Epoch>,
    epochs: Vec<(Lsn, Epoch)>,
    /// The segment that is read.
    file: String,
    end: Option<Lsn>,
    damage: Option<Damage>,
}

/// Records that follow one another.
#[derive(Default)]
struct Run {
    lsn: Lsn,
    /// Where they stand in the file.
    offset: u64,
    bytes: Vec<u8>,
}

/// The first place that cannot be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Damage {
    pub(super) lsn: Lsn,
    /// How a program ends that looks at this directory.
    pub(super) exit: Exit,
}

/// Where a side stands after it was told to go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum At {
    /// At the wanted position or, where that cannot be read, behind it; for [`Side::load`], with bytes in hand.
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
    /// Stands at the beginning of the segment that holds `start`; it begins at `first`. `path` is for messages.
    pub(super) fn open(view: &View, path: &Path, first: Lsn, start: Lsn) -> Result<Side, Failure> {
        let reader = LogReader::open(view, start).map_err(Failure::io("listing the log"))?;
        Ok(Side {
            view: view.clone(),
            path: path.to_owned(),
            reader,
            run: Run {
                lsn: first,
                ..Run::default()
            },
            passed: 0,
            runs: VecDeque::new(),
            expected: first,
            reached: Lsn::ZERO,
            epoch: None,
            epochs: Vec::new(),
            file: String::new(),
            end: None,
            damage: None,
        })
    }

    /// The position in the log.
    pub(super) fn lsn(&self) -> Lsn {
        self.run.lsn.plus(length(self.passed))
    }

    /// The epoch in force there; nothing behind damage, until a segment or a record says it.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        let at = self.epochs.partition_point(|(begin, _)| *begin < self.lsn());
        at.checked_sub(1).map(|last| self.epochs[last].1).or(self.epoch)
    }

    /// What is in hand.
    pub(super) fn rest(&self) -> &[u8] {
        &self.run.bytes[self.passed..]
    }

    /// Passes `count` bytes of [`Side::rest`].
    pub(super) fn pass(&mut self, count: usize) {
        assert!(count <= self.rest().len(), "only what is in hand is passed");
        self.passed += count;
    }

    /// Whether it was read to its end.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// The first place that cannot be read.
    pub(super) fn damage(&self) -> Option<Damage> {
        self.damage
    }

    /// Sees that something is in hand, unless the log ends here.
    pub(super) fn load(&mut self) -> Result<At, Failure> {
        let failed = || Failure::io("reading the log");
        while self.rest().is_empty() {
            if let Some(run) = self.runs.pop_front() {
                self.take(run);
                continue;
            }
            if self.end.is_some() {
                return Ok(At::End);
            }
            let end = match self.reader.next_step() {
                Ok(LogStep::Frame { file, frame }) => {
                    if frame.header.lsn != self.expected {
                        return Ok(At::Gap);
                    }
                    let is_entered = self.file != file;
                    if is_entered {
                        file.clone_into(&mut self.file);
                    }
                    let run = Run {
                        lsn: frame.header.lsn,
                        offset: frame.records_at(),
                        bytes: frame.payload.to_vec(),
                    };
                    self.expected = run.lsn.plus(length(run.bytes.len()));
                    if is_entered {
                        self.enter();
                    }
                    self.take(run);
                    continue;
                }
                Ok(LogStep::Removed { .. }) => return Ok(At::Gap),
                Ok(LogStep::End {
                    file,
                    offset,
                    lsn,
                    stop,
                    segments_left,
                }) => LogEnd {
                    file,
                    offset,
                    lsn,
                    stop,
                    segments_left,
                },
                Err(error) => {
                    let lsn = self.reader.lsn();
                    let passed = self.reader.pass_unreadable(&error).map_err(failed())?;
                    let Some(passed) = passed else {
                        return Err(failed()(error));
                    };
                    if self.damage.is_none() {
                        let exit = verdict::of_unreadable(&self.view, &self.path, &error)?;
                        self.damage = Some(Damage { lsn, exit });
                    }
                    self.leap(passed.gap.to);
                    if !passed.follows {
                        self.end = Some(lsn);
                    }
                    continue;
                }
            };
            self.stop(&end)?;
        }
        Ok(At::There)
    }

    /// At a place that is no frame: the end of the log, or damage, which is passed.
    fn stop(&mut self, end: &LogEnd) -> Result<(), Failure> {
        if self.damage.is_none() {
            let Some(exit) = verdict::of_end(&self.view, &self.path, end)? else {
                self.end = Some(end.lsn);
                return Ok(());
            };
            self.damage = Some(Damage { lsn: end.lsn, exit });
        }
        let live = self.view.is_live()?;
        let broken = match self.reader.pass(live).map_err(Failure::io("reading the log"))? {
            Past::Again => return Ok(()),
            Past::Over => {
                self.end = Some(end.lsn);
                return Ok(());
            }
            Past::Gap(gap) => {
                let to = gap.to;
                self.leap(to);
                return Ok(());
            }
            Past::Broken { frame, .. } => pieces(&frame),
        };
        let (runs, after) = broken;
        self.runs.extend(runs);
        self.epoch = None;
        self.epochs.clear();
        self.expected = after;
        Ok(())
    }

    /// Goes on at another position.
    fn leap(&mut self, to: Lsn) {
        self.reached = self.reached.max(self.lsn());
        self.expected = to;
        self.take(Run {
            lsn: to,
            ..Run::default()
        });
        self.epoch = None;
    }

    /// What the header of a segment says of its begin.
    fn enter(&mut self) {
        if let Some(header) = self
            .reader
            .header()
            .filter(|header| header.first_lsn >= self.lsn())
        {
            let (first, epoch) = (header.first_lsn, header.epoch);
            if self.run.lsn.plus(length(self.run.bytes.len())) <= first {
                self.epoch = Some(epoch);
                self.epochs.clear();
            }
        }
    }

    /// Takes a run in hand, without what was passed before.
    fn take(&mut self, run: Run) {
        self.reached = self.reached.max(self.lsn());
        self.epoch = match self.epochs.last() {
            Some((_, last)) => Some(*last),
            None => self.epoch,
        };
        self.epochs.clear();
        self.passed = 0;
        for (at, raw) in scan::records(&run.bytes) {
            if raw.lsn < self.reached {
                self.passed = at + raw.bytes.len();
            }
            if let Ok(Record::EpochStart { epoch, .. }) = raw.decode() {
                self.epochs.push((raw.lsn, epoch));
            }
        }
        self.run = run;
    }

    /// Goes on to `to`, which is not before the position, record by record.
    pub(super) fn skip_to(&mut self, to: Lsn) -> Result<At, Failure> {
        while self.lsn() < to {
            match self.load()? {
                At::There => {}
                other => return Ok(other),
            }
            let mut passed = self.passed;
            for (_, raw) in scan::records(&self.run.bytes[self.passed..]) {
                if raw.lsn >= to {
                    break;
                }
                if raw.end() > to {
                    return Ok(At::Inside(raw.lsn));
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
        let found = scan::records(&self.run.bytes).find(|(at, raw)| wanted < at + raw.bytes.len());
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
        line.offset = Some(self.run.offset + length(at));
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

/// The good records of a group that is not whole, as runs, and where the next group has to begin.
fn pieces(frame: &Frame<'_>) -> (Vec<Run>, Lsn) {
    let mut runs: Vec<Run> = Vec::new();
    for piece in salvage(&frame.header, frame.payload) {
        let Piece::Record(at, raw) = piece else { continue };
        let ends = |run: &Run| run.lsn.plus(length(run.bytes.len()));
        match runs.last_mut().filter(|run| ends(run) == raw.lsn) {
            Some(run) => run.bytes.extend_from_slice(raw.bytes),
            None => runs.push(Run {
                lsn: raw.lsn,
                offset: frame.offset + length(FRAME_HEADER_BYTES + at),
                bytes: raw.bytes.to_vec(),
            }),
        }
    }
    (runs, frame.header.end().unwrap_or(Lsn::MAX))
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("usize has at most 64 bits")
}
