//! `walctl dump FILE`: what a start of the server has cut off the end of a log.
//!
//! The file holds the bytes from the place where the log ended on. Groups are told from other bytes by the salt of the
//! segment that they stood in, so that segment has to be there: the last one that begins at or below the lsn in the file's
//! name. With its header before the bytes the file is a segment like any other, and is read as one with `--past-damage`.
//!
//! Nothing in it is a part of the log, so what cannot be read is no damage: the exit code is that of having read it.

mod segment;

use std::sync::Arc;

use idem_protocol::Lsn;
use idem_protocol::wal::{FRAME_HEADER_BYTES, RawRecord, SegmentHeader, parse_segment_name, segment_name};
use idem_wal::reader::{
    Frame, Gap, HeaderPage, LogReader, LogRecord, LogStep, Past, Piece, frame_records, salvage,
};
use idem_wal::storage::{Dir, Storage, StorageFile};

use super::Args;
use super::filter::Filter;
use super::lines::each_line;
use super::printer::Printer;
use crate::exit::{Exit, Failure};
use crate::line::FrameLine;
use crate::log_end::describe;
use crate::lone_file::{self, LoneFile};
use crate::output::{self, Out, Printed};
use crate::progress::Meter;
use crate::skipped::Skipped;
use crate::view::View;
use segment::{BEGIN, Cut};

/// Prints what is whole in the file, and says what is not.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    if args.follow {
        return Err(Failure::usage(
            "--follow is for a log, and nothing is added to a file",
        ));
    }
    let meter = Arc::new(Meter::new(output::leaves_room_for_a_bar()));
    let LoneFile {
        view,
        name,
        file,
        kind,
    } = lone_file::open(&args.dir, &meter)?;
    let Some(lsn) = cut_lsn(&name) else {
        let what = kind.words().unwrap_or("a file");
        return Err(Failure::usage(format!(
            "{}: {what}; walctl dump reads a data directory, or what a start cut off (wal/cut-LSN-TIME.bin)",
            args.dir.display()
        )));
    };
    let Some((origin, segment_bytes)) = origin(&view, lsn)? else {
        return Err(Failure::usage(format!(
            "{}: the segment that this was cut off, which held lsn {lsn}, is not beside it, or its header is damaged; without its salt a \
             group cannot be told from other bytes",
            args.dir.display()
        )));
    };
    let cut = Cut::new(file, lsn, origin, segment_bytes).map_err(Failure::io(args.dir.display()))?;
    let out = Out::stdout(!args.json).beside(Arc::clone(&meter));
    let filter = Filter::new(args);
    let mut walk = CutWalk {
        name: &name,
        bytes: cut.file_bytes,
        filter: &filter,
        printer: Printer::new(out, args),
        skipped: Skipped::new(args.from_lsn, args.to_lsn, &meter),
        records: 0,
        taken_bytes: 0,
    };
    let read = walk.run(&cut);
    meter.finish();
    let printed = walk.printer.finish();
    if read? == Printed::Closed || printed? == Printed::Closed {
        return Ok(Exit::Clean);
    }
    if walk.printer.lines() == 0 && filter.is_narrow() {
        super::explain_nothing(args);
    }
    let left = cut.file_bytes.saturating_sub(walk.taken_bytes);
    eprintln!(
        "walctl: {}: {} bytes that were cut off at lsn {lsn}; whole records in them: {}; bytes that no record or group \
         header covers: {left}",
        args.dir.display(),
        cut.file_bytes,
        walk.records,
    );
    Ok(Exit::Clean)
}

/// The lsn in `cut-<lsn>-<time>.bin`; nothing for any other name.
fn cut_lsn(name: &str) -> Option<Lsn> {
    let (lsn, time) = name.strip_prefix("cut-")?.strip_suffix(".bin")?.split_once('-')?;
    time.parse::<u64>().ok()?;
    lsn.parse().ok().map(Lsn::new)
}

/// The header of the segment that held `lsn`, and its length: in the same directory, or in the `wal` of that.
fn origin(view: &View, lsn: Lsn) -> Result<Option<(SegmentHeader, u64)>, Failure> {
    for dir in [Dir::Root, Dir::Wal] {
        let names = view.list(dir).map_err(Failure::io("looking for the segment"))?;
        let firsts = names.iter().filter_map(|name| parse_segment_name(name));
        let Some(first) = firsts.filter(|first| *first <= lsn).max() else {
            continue;
        };
        let name = dir.join(&segment_name(first));
        let read = view
            .open(dir, &segment_name(first))
            .and_then(|file| Ok((HeaderPage::read(&file)?.header(), file.len()?)));
        let (header, bytes) = read.map_err(Failure::io(name))?;
        return Ok(header.ok().map(|header| (header, bytes)));
    }
    Ok(None)
}

/// Through the bytes, group by group.
struct CutWalk<'a> {
    /// Of the file.
    name: &'a str,
    /// Length of the file.
    bytes: u64,
    filter: &'a Filter,
    printer: Printer,
    skipped: Skipped<'a>,
    /// Whole ones.
    records: u64,
    /// What these and the headers of their groups take up in the file.
    taken_bytes: u64,
}

impl CutWalk<'_> {
    fn run(&mut self, cut: &Cut) -> Result<Printed, Failure> {
        let mut reader = LogReader::open(cut, Lsn::ZERO).map_err(Failure::io(self.name))?;
        loop {
            let printed = match reader.next_step().map_err(Failure::io(self.name))? {
                LogStep::Frame { frame, .. } => self.frame(frame)?,
                // There is one segment, and it stays.
                LogStep::Removed { .. } => Printed::All,
                LogStep::End { .. } => match reader.pass(false).map_err(Failure::io(self.name))? {
                    Past::Over => break,
                    Past::Again => Printed::All,
                    Past::Gap(gap) => {
                        self.skipped.gap(&Gap {
                            file: self.name.to_owned(),
                            offset: in_file(gap.offset),
                            end: in_file(gap.end),
                            ..gap
                        });
                        Printed::All
                    }
                    Past::Broken { frame, .. } => self.broken(frame)?,
                },
            };
            if printed == Printed::Closed {
                return Ok(Printed::Closed);
            }
        }
        if let LogStep::End {
            offset,
            lsn,
            stop: Some(stop),
            ..
        } = reader.next_step().map_err(Failure::io(self.name))?
            && in_file(offset) < self.bytes
        {
            let place = format!("{} offset {}", Dir::Wal.join(self.name), in_file(offset));
            let words = format!("{place}, lsn {lsn}: {}", describe(stop));
            self.skipped.rest(self.name, &words);
        }
        Ok(Printed::All)
    }

    fn frame(&mut self, frame: Frame<'_>) -> Result<Printed, Failure> {
        self.take(frame.offset, frame.bytes.len());
        let mut due = self.due(&frame);
        for record in frame_records(self.name, frame) {
            if self.record(record.offset, &record.raw, &mut due)? == Printed::Closed {
                return Ok(Printed::Closed);
            }
        }
        Ok(Printed::All)
    }

    /// A group that is not whole.
    fn broken(&mut self, frame: Frame<'_>) -> Result<Printed, Failure> {
        self.take(frame.offset, FRAME_HEADER_BYTES);
        let mut due = self.due(&frame);
        for piece in salvage(&frame.header, frame.payload) {
            match piece {
                Piece::Record(at, raw) => {
                    let offset = frame.records_at() + at as u64;
                    self.take(offset, raw.bytes.len());
                    if self.record(offset, &raw, &mut due)? == Printed::Closed {
                        return Ok(Printed::Closed);
                    }
                }
                Piece::Bad(bad) => self.skipped.bad(self.name, in_file(frame.records_at()), &bad),
            }
        }
        Ok(Printed::All)
    }

    /// The line for a group, before its first record.
    fn due(&self, frame: &Frame<'_>) -> Option<FrameLine> {
        let line = || FrameLine::new(Dir::Wal.join(self.name), in_file(frame.offset), &frame.header);
        self.printer.frames().then(line)
    }

    fn record(
        &mut self,
        offset: u64,
        raw: &RawRecord<'_>,
        due: &mut Option<FrameLine>,
    ) -> Result<Printed, Failure> {
        self.records += 1;
        if self.filter.is_past(raw) || self.filter.is_before(raw) {
            return Ok(Printed::All);
        }
        let offset = in_file(offset);
        let decoded = match raw.decode() {
            Ok(decoded) => decoded,
            Err(error) => {
                let file = self.name;
                self.skipped.body(
                    &LogRecord {
                        file,
                        offset,
                        raw: *raw,
                    },
                    error,
                );
                return Ok(Printed::All);
            }
        };
        let printer = &mut self.printer;
        let (values, frames) = (printer.values(), printer.frames());
        each_line(raw, &decoded, self.filter, values, &mut |mut line| {
            if let Some(due) = due.take()
                && printer.frame(&due)? == Printed::Closed
            {
                return Ok(Printed::Closed);
            }
            if frames {
                (line.file, line.offset) = (Some(Dir::Wal.join(self.name)), Some(offset));
            }
            printer.record(&line)
        })
    }

    /// Counts bytes that are a part of something whole, as far as the file has them.
    fn take(&mut self, offset: u64, count: usize) {
        let left = self.bytes.saturating_sub(in_file(offset));
        self.taken_bytes += left.min(count as u64);
    }
}

/// An offset in the file.
fn in_file(offset: u64) -> u64 {
    offset.saturating_sub(BEGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_where_it_was_cut() {
        for (name, expected) in [
            ("cut-00000000000000004180-1767225600000.bin", Some(4180)),
            ("cut-0-0.bin", Some(0)),
            ("cut-00000000000000004180.bin", None),
            ("cut-x-1.bin", None),
            ("cut-1-x.bin", None),
            ("00000000000000004180.wal", None),
            ("monday.bin", None),
        ] {
            assert_eq!(cut_lsn(name).map(Lsn::get), expected, "{name}");
        }
    }
}
