//! What `--past-damage` passes over: one line on stderr for each range, so that what is shown and what is not add up.

use std::fmt::Display;

use idem_protocol::Lsn;
use idem_protocol::wal::{BodyError, FRAME_HEADER_BYTES, RecordError};
use idem_wal::reader::{Bad, Frame, Gap, LogRecord, Stop};
use idem_wal::storage::Dir;

use crate::exit::Exit;
use crate::log_end::describe;
use crate::progress::Meter;
use crate::text::Crc;

/// Tells of ranges that are not shown.
pub(crate) struct Skipped<'a> {
    from: Option<Lsn>,
    to: Option<Lsn>,
    meter: &'a Meter,
    ranges: u64,
    /// How many of them the system did not hand over, or had such bytes in them.
    unreadable: u64,
    first_file: Option<String>,
}

impl<'a> Skipped<'a> {
    /// Tells of nothing that lies wholly below `from`, or begins at `to` or above.
    pub(crate) fn new(from: Option<Lsn>, to: Option<Lsn>, meter: &'a Meter) -> Skipped<'a> {
        Skipped {
            from,
            to,
            meter,
            ranges: 0,
            unreadable: 0,
            first_file: None,
        }
    }

    /// Whether a range of positions has a part in the limits; one of no length counts as its position.
    fn touches(&self, from: Lsn, to: Lsn) -> bool {
        self.to.is_none_or(|limit| from < limit) && self.from.is_none_or(|limit| to > limit || from >= limit)
    }

    /// The segment of the first range.
    pub(crate) fn first_file(&self) -> Option<&str> {
        self.first_file.as_deref()
    }

    /// How the program ends for them; nothing when there were none.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match (self.ranges, self.unreadable) {
            (0, _) => None,
            (_, 0) => Some(Exit::Rot),
            _ => Some(Exit::ReadError),
        }
    }

    /// A range in which no frame is, or which no file has, or which cannot be read.
    pub(crate) fn gap(&mut self, gap: &Gap) {
        let name = Dir::Wal.join(&gap.file);
        let error = gap.error.as_ref().map(|error| {
            // The file is named once.
            let words = error.strip_prefix(&format!("{name}: ")).unwrap_or(error);
            format!("cannot be read: {words}")
        });
        let what = match (gap.stop, error) {
            (Some(stop), Some(error)) => format!("{}; {error}", describe(stop)),
            (None, Some(error)) => error,
            (Some(stop), None) => describe(stop),
            (None, None) => "the segment has no good header".to_owned(),
        };
        self.unreadable += u64::from(gap.error.is_some() && self.touches(gap.from, gap.to));
        if gap.to < gap.from {
            let words = format!("the log goes back to lsn {}: {what}", gap.to);
            return self.range(&gap.file, gap.offset..gap.end, gap.from..gap.from, words);
        }
        self.range(&gap.file, gap.offset..gap.end, gap.from..gap.to, what);
    }

    /// A part of a frame; `base` is where the frame's records begin in the file.
    pub(crate) fn bad(&mut self, file: &str, base: u64, bad: &Bad) {
        let what = match bad.error {
            None => "an undamaged record of another lsn".to_owned(),
            Some(RecordError::Crc { expected, found }) => {
                format!(
                    "a bad record: CRC {} expected, {} found",
                    Crc(expected),
                    Crc(found)
                )
            }
            Some(error) => format!("a bad record: {error}"),
        };
        let bytes = base + bad.offset as u64..base + bad.end as u64;
        self.range(file, bytes, bad.from..bad.to, what);
    }

    /// A frame whose records are good, and not those that its header announces: nothing of it is left out, and something may
    /// be missing.
    pub(crate) fn header(&mut self, file: &str, frame: &Frame<'_>, stop: Stop) {
        let bytes = frame.offset..frame.offset + FRAME_HEADER_BYTES as u64;
        let lsn = frame.header.lsn;
        self.range(file, bytes, lsn..lsn, describe(stop));
    }

    /// A record with a good checksum and a body that its kind cannot have.
    pub(crate) fn body(&mut self, record: &LogRecord<'_>, error: BodyError) {
        let bytes = record.offset..record.offset + record.raw.bytes.len() as u64;
        let lsns = record.raw.lsn..record.raw.end();
        self.range(record.file, bytes, lsns, format!("an undamaged record: {error}"));
    }

    /// The rest of the log: nothing that could be read follows.
    pub(crate) fn rest(&mut self, file: &str, complaint: &str) {
        self.first_file.get_or_insert_with(|| file.to_owned());
        self.say(format_args!("{complaint}; to the end"));
    }

    fn range(
        &mut self,
        file: &str,
        bytes: std::ops::Range<u64>,
        lsns: std::ops::Range<Lsn>,
        what: impl Display,
    ) {
        if !self.touches(lsns.start, lsns.end) {
            return;
        }
        self.first_file.get_or_insert_with(|| file.to_owned());
        let name = Dir::Wal.join(file);
        self.say(format_args!(
            "{name} offset {} to {}, lsn {} to {}: {what}",
            bytes.start, bytes.end, lsns.start, lsns.end
        ));
    }

    fn say(&mut self, words: impl Display) {
        self.ranges += 1;
        self.meter.aside(|| eprintln!("walctl: skipped: {words}"));
    }
}
