//! What is in a frame: which of its records are wanted, and the lines that they become.
//!
//! A record that cannot be understood although its checksum is good ends the walk, unless damage is passed and no newer
//! version wrote it. Of a frame that is not whole the good records are printed, and the rest is named.
//!
//! Deliberately absent: where the next frame is, and what becomes of a place that is none.

use idem_protocol::Lsn;
use idem_protocol::wal::BodyError;
use idem_wal::reader::{Frame, LogRecord, Piece, Stop, frame_records, salvage};
use idem_wal::storage::Dir;

use super::{Ended, Walk};
use crate::cmd::dump::lines::each_line;
use crate::exit::Failure;
use crate::line::FrameLine;
use crate::log_end::Complaint;
use crate::output::Printed;

/// A line for a group that is printed before its first record; a group without any is of no interest.
type Due = Option<FrameLine>;

impl Walk<'_> {
    /// One frame.
    pub(super) fn frame(&mut self, file: &str, frame: Frame<'_>) -> Result<Option<Ended>, Failure> {
        let header = frame.header;
        if let Some(follower) = &mut self.follower {
            follower.pass(&frame);
        }
        let mut begin = Lsn::ZERO;
        if let Some(at) = self.resumed_at {
            if header.end().is_some_and(|end| end <= at) {
                return Ok(None);
            }
            if header.lsn > at {
                self.note_removed(at, header.lsn);
            }
            begin = at;
            self.resumed_at = None;
        }
        if self.filter.is_past_lsn(header.lsn) {
            return Ok(Some(Ended::Limit));
        }
        let mut due = self.due(file, &frame);
        if header.count == 0 {
            return self.seal(due);
        }
        for record in frame_records(file, frame).filter(|record| record.raw.lsn >= begin) {
            if let Some(ended) = self.record(record, &mut due)? {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    fn due(&self, file: &str, frame: &Frame<'_>) -> Due {
        let place = || FrameLine::new(Dir::Wal.join(file), frame.offset, &frame.header);
        self.printer.frames().then(place)
    }

    /// A group of nothing.
    fn seal(&mut self, due: Due) -> Result<Option<Ended>, Failure> {
        let is_wanted = |line: &FrameLine| {
            self.in_range && !self.filter.picks_records() && !self.filter.is_before_lsn(Lsn::new(line.lsn))
        };
        if let Some(line) = due.filter(is_wanted)
            && self.printer.frame(&line)? == Printed::Closed
        {
            return Ok(Some(Ended::Closed));
        }
        Ok(None)
    }

    /// A frame that is not whole: its good records are printed, the rest is named.
    pub(super) fn broken(
        &mut self,
        file: &str,
        frame: Frame<'_>,
        stop: Stop,
    ) -> Result<Option<Ended>, Failure> {
        let mut due = self.due(file, &frame);
        let mut all_good = true;
        for piece in salvage(&frame.header, frame.payload) {
            match piece {
                Piece::Record(at, raw) => {
                    let offset = frame.records_at() + at as u64;
                    if let Some(ended) = self.record(LogRecord { file, offset, raw }, &mut due)? {
                        return Ok(Some(ended));
                    }
                }
                Piece::Bad(bad) => {
                    all_good = false;
                    if let Some(skipped) = &mut self.skipped {
                        skipped.bad(file, frame.records_at(), &bad);
                    }
                }
            }
        }
        if let Some(skipped) = self.skipped.as_mut().filter(|_| all_good) {
            skipped.header(file, &frame, stop);
        }
        Ok(None)
    }

    /// One record.
    fn record(&mut self, record: LogRecord<'_>, due: &mut Due) -> Result<Option<Ended>, Failure> {
        let LogRecord { file, offset, raw } = record;
        if self.filter.is_past(&raw) {
            return Ok(Some(Ended::Limit));
        }
        if let Some(follower) = &mut self.follower {
            follower.push(&raw);
        }
        self.in_range = !self.filter.is_before(&raw);
        if !self.in_range {
            return Ok(None);
        }
        let decoded = match raw.decode() {
            Ok(decoded) => decoded,
            Err(error) => {
                let is_newer = matches!(error, BodyError::UnknownOpcode(_));
                if let Some(skipped) = self.skipped.as_mut().filter(|_| !is_newer) {
                    skipped.body(&record, error);
                    return Ok(None);
                }
                let name = Dir::Wal.join(file);
                return Ok(Some(Ended::Unreadable(Complaint {
                    words: format!("{name} offset {offset}, lsn {}: {error}", raw.lsn),
                    file: Some(file.to_owned()),
                })));
            }
        };
        let printer = &mut *self.printer;
        let values = printer.values();
        let printed = each_line(&raw, &decoded, self.filter, values, &mut |mut line| {
            if let Some(due) = due.take()
                && printer.frame(&due)? == Printed::Closed
            {
                return Ok(Printed::Closed);
            }
            if printer.frames() {
                line.file = Some(Dir::Wal.join(file));
                line.offset = Some(offset);
            }
            printer.record(&line)
        })?;
        Ok((printed == Printed::Closed).then_some(Ended::Closed))
    }
}
