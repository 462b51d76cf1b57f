//! Through the log, frame by frame.

use std::io::{self, Write};

use idem_protocol::Lsn;
use idem_protocol::wal::{Opcode, RawRecord, Record};
use idem_wal::reader::{Frame, LogReader, LogStep, frame_records};
use idem_wal::storage::Dir;

use super::Args;
use super::filter::Filter;
use crate::exit::Failure;
use crate::line::{FrameLine, Line, human};
use crate::log_end::LogEnd;
use crate::output::{self, Out, Printed};
use crate::view::View;

/// Why walking ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nobody reads any more.
    Closed,
    /// Nothing that follows is wanted.
    Limit,
    /// A record that has a good checksum and cannot be understood: file, offset, lsn and why. It is never skipped.
    Unreadable(String),
    /// There is no frame where the next one would be.
    End(LogEnd),
}

/// Writes lines of either kind.
pub(super) struct Printer {
    out: Out,
    json: bool,
    values: bool,
    frames: bool,
    lines: u64,
}

impl Printer {
    pub(super) fn new(out: Out, args: &Args) -> Printer {
        Printer {
            out,
            json: args.json,
            values: args.values,
            frames: args.frames,
            lines: 0,
        }
    }

    /// How many records were printed.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Writes what is still held.
    pub(super) fn finish(&mut self) -> Result<Printed, Failure> {
        output::printed(self.out.flush())
    }

    fn record(&mut self, line: &Line<'_>) -> Result<Printed, Failure> {
        self.lines += 1;
        let written = if self.json {
            serde_json::to_writer(&mut self.out, line).map_err(io::Error::from)
        } else {
            let paint = self.out.paint();
            human::record(&mut self.out, paint, line)
        };
        output::printed(written.and_then(|()| self.out.end_line()))
    }

    fn frame(&mut self, line: &FrameLine) -> Result<Printed, Failure> {
        let written = if self.json {
            serde_json::to_writer(&mut self.out, line).map_err(io::Error::from)
        } else {
            let paint = self.out.paint();
            human::frame(&mut self.out, paint, line)
        };
        output::printed(written.and_then(|()| self.out.end_line()))
    }
}

/// Prints what `filter` wants, in order. `removed` is told of ranges that went before they could be read.
pub(super) fn walk(
    reader: &mut LogReader<View>,
    filter: &Filter,
    printer: &mut Printer,
    removed: &mut dyn FnMut(Lsn, Lsn),
) -> Result<Ended, Failure> {
    let mut in_range = filter.starts_in_range();
    loop {
        match reader.next_step().map_err(Failure::io("reading the log"))? {
            LogStep::Frame { file, frame } => {
                if let Some(ended) = walk_frame(file, frame, filter, printer, &mut in_range)? {
                    return Ok(ended);
                }
            }
            LogStep::Removed { from, to } => {
                if filter.is_past_lsn(from) {
                    return Ok(Ended::Limit);
                }
                removed(from, to);
            }
            LogStep::End {
                file,
                offset,
                lsn,
                stop,
                segments_left,
            } => {
                return Ok(Ended::End(LogEnd {
                    file,
                    offset,
                    lsn,
                    stop,
                    segments_left,
                }));
            }
        }
    }
}

/// One frame. `in_range` says whether the record before it was within the limits of lsn and time; a seal has no time of
/// its own and goes with it.
fn walk_frame(
    file: &str,
    frame: Frame<'_>,
    filter: &Filter,
    printer: &mut Printer,
    in_range: &mut bool,
) -> Result<Option<Ended>, Failure> {
    let header = frame.header;
    if filter.is_past_lsn(header.lsn) {
        return Ok(Some(Ended::Limit));
    }
    // Printed before the first record of the group that is; a group without any is of no interest.
    let mut due = printer
        .frames
        .then(|| FrameLine::new(Dir::Wal.join(file), frame.offset, &header));
    if header.count == 0 && *in_range && !filter.picks_records() && !filter.is_before_lsn(header.lsn) {
        if let Some(line) = due.take()
            && printer.frame(&line)? == Printed::Closed
        {
            return Ok(Some(Ended::Closed));
        }
        return Ok(None);
    }
    for record in frame_records(file, frame) {
        let raw = record.raw;
        if filter.is_past(&raw) {
            return Ok(Some(Ended::Limit));
        }
        *in_range = !filter.is_before(&raw);
        if !*in_range {
            continue;
        }
        let decoded = match raw.decode() {
            Ok(decoded) => decoded,
            Err(error) => {
                return Ok(Some(Ended::Unreadable(format!(
                    "{} offset {}, lsn {}: {error}",
                    Dir::Wal.join(file),
                    record.offset,
                    raw.lsn
                ))));
            }
        };
        let values = printer.values;
        let printed = each_line(&raw, &decoded, filter, values, &mut |mut line| {
            if let Some(due) = due.take()
                && printer.frame(&due)? == Printed::Closed
            {
                return Ok(Printed::Closed);
            }
            if printer.frames {
                line.file = Some(Dir::Wal.join(file));
                line.offset = Some(record.offset);
            }
            printer.record(&line)
        })?;
        if printed == Printed::Closed {
            return Ok(Some(Ended::Closed));
        }
    }
    Ok(None)
}

/// The lines of one record that are wanted: one, or one for each part of a Transaction.
fn each_line<'a>(
    raw: &RawRecord<'_>,
    record: &Record<'a>,
    filter: &Filter,
    values: bool,
    print: &mut dyn FnMut(Line<'a>) -> Result<Printed, Failure>,
) -> Result<Printed, Failure> {
    let Record::Transaction { records } = record else {
        return if filter.picks(record.opcode(), raw.db, record) {
            print(Line::new(raw, raw.db, record, values))
        } else {
            Ok(Printed::All)
        };
    };
    for (index, (db, part)) in records.iter().enumerate() {
        if !filter.picks(Opcode::Transaction, db, &part) {
            continue;
        }
        let mut line = Line::new(raw, db, &part, values);
        line.tx_index = Some(index);
        line.tx_count = Some(records.len());
        if print(line)? == Printed::Closed {
            return Ok(Printed::Closed);
        }
    }
    Ok(Printed::All)
}
