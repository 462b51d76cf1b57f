//! The records of a directory in order, for tools that look without judging.
//!
//! It begins at the segment that holds the wanted lsn, passes from segment to segment, and stops at the first place that
//! is no valid frame, saying which and why. It opens files for reading only and never takes a lock.
//!
//! The directory may be a running server's, which appends, makes segments and removes the oldest ones meanwhile:
//! * The segment after the one that is read is open already, and an open file stays readable when its name goes.
//! * A listed segment that is gone is looked for in a new list. Before the first frame, reading begins at the first one that
//!   is left; later, what is missing is a step of its own ([`LogStep::Removed`]).
//! * At the end of the last segment, and wherever no listed segment goes on, the directory is listed once more. Has the
//!   segment a successor now, it is complete, and what was added to it meanwhile is read before it is left. Without one, that
//!   place is the end: whatever is appended there later is not waited for.
//!
//! After an end, a tool that follows the log looks again ([`LogReader::look_again`]), and one that wants whatever is left of
//! a damaged log passes the place ([`LogReader::pass`]).

mod again;
mod past;

use std::io;
use std::sync::Arc;

use idem_protocol::Lsn;
use idem_protocol::wal::{
    FRAME_HEADER_BYTES, RawRecord, SegmentHeader, parse_segment_name, scan, segment_name,
};

use super::segment::{Frame, HeaderPage, SegmentReader, Step, Stop};
use crate::storage::{Dir, Storage, StorageFile};

pub use again::Again;
pub use past::{Gap, Past, Unreadable};

/// Walks the frames of all segments from a given one on.
pub struct LogReader<S: Storage> {
    storage: S,
    /// Where reading begins; when no segment is being read, in the segment that holds this lsn.
    from: Lsn,
    current: Option<Current<S::File>>,
    /// The segment after the current one.
    next: Option<Next<S::File>>,
    /// First lsns of the segments after that, the nearest one last.
    left: Vec<Lsn>,
    /// Whether segments between the current one and the next have gone.
    removed: bool,
    /// First lsns of segments that were passed because they cannot be read.
    unreadable: Vec<Lsn>,
}

/// The segment that is read.
struct Current<F> {
    first: Lsn,
    name: String,
    file: Shared<F>,
    reader: SegmentReader<Shared<F>>,
}

/// A segment that is open and not read yet.
struct Next<F> {
    first: Lsn,
    file: Shared<F>,
}

/// One step of the walk.
#[derive(Debug)]
pub enum LogStep<'a> {
    /// A valid frame of the file `file`.
    Frame {
        /// Name of the segment.
        file: &'a str,
        /// The frame.
        frame: Frame<'a>,
    },
    /// Segments went away before they could be read. The next step is of the segment that begins at `to`.
    Removed {
        /// The lsn up to which the log was read.
        from: Lsn,
        /// The lsn from which it goes on.
        to: Lsn,
    },
    /// The last segment was read as far as valid frames go, or a segment in between ends too early.
    End {
        /// Name of the segment; empty when the directory has none.
        file: String,
        /// Where in it.
        offset: u64,
        /// The lsn there.
        lsn: Lsn,
        /// What is there instead of a frame; `None` for a header page that is no header.
        stop: Option<Stop>,
        /// Segments that follow and were not read.
        segments_left: usize,
    },
}

/// A record with its place.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    /// Name of the segment.
    pub file: &'a str,
    /// Offset of the record in it.
    pub offset: u64,
    /// The record.
    pub raw: RawRecord<'a>,
}

/// The records of a frame with their places.
pub fn frame_records<'a>(file: &'a str, frame: Frame<'a>) -> impl Iterator<Item = LogRecord<'a>> {
    scan::records(frame.payload).map(move |(at, raw)| LogRecord {
        file,
        offset: frame.offset + (FRAME_HEADER_BYTES + at) as u64,
        raw,
    })
}

impl<S: Storage> LogReader<S> {
    /// Begins at the segment that holds `from`: the last one whose first lsn is not above it, else the first one.
    pub fn open(storage: &S, from: Lsn) -> io::Result<Self> {
        let mut reader = LogReader {
            storage: storage.clone(),
            from,
            current: None,
            next: None,
            left: Vec::new(),
            removed: false,
            unreadable: Vec::new(),
        };
        reader.list()?;
        Ok(reader)
    }

    /// The header of the segment that is being read.
    pub fn header(&self) -> Option<&SegmentHeader> {
        self.current.as_ref().map(|current| current.reader.header())
    }

    /// The lsn up to which the log was read.
    pub fn lsn(&self) -> Lsn {
        self.current
            .as_ref()
            .map_or(self.from, |current| current.reader.lsn())
    }

    /// The next frame, or why there is none. Calling again after the end looks whether the log has grown, and answers the
    /// end again when it has not.
    pub fn next_step(&mut self) -> io::Result<LogStep<'_>> {
        let mut looked = false;
        loop {
            if self.current.is_none() {
                if let Some(end) = self.enter()? {
                    return Ok(end);
                }
                looked = false;
            }
            let current = self.current.as_mut().expect("a segment was entered above");
            let offset = current.reader.offset();
            let stop = match current.reader.next_frame()? {
                Step::Stop(stop) => stop,
                Step::Frame(frame) => {
                    // Ends the borrow of the failing path; the frame is fetched again from the buffer.
                    let size = frame.bytes.len();
                    let (payload, header) = (frame.payload.len(), frame.header);
                    let current = self.current.as_ref().expect("a segment was entered above");
                    let bytes = current.reader.passed(size);
                    let payload = &bytes[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + payload];
                    return Ok(LogStep::Frame {
                        file: &current.name,
                        frame: Frame {
                            offset,
                            header,
                            payload,
                            bytes,
                        },
                    });
                }
            };
            if let Some(step) = self.leave(stop, &mut looked)? {
                return Ok(step);
            }
        }
    }

    /// Goes to the next segment, or answers why there is none to read.
    fn enter(&mut self) -> io::Result<Option<LogStep<'static>>> {
        if self.next.is_none() && self.left.is_empty() {
            self.list()?;
        }
        self.look_ahead()?;
        let Some(next) = &self.next else {
            return Ok(Some(LogStep::End {
                file: String::new(),
                offset: 0,
                lsn: Lsn::ZERO,
                stop: None,
                segments_left: 0,
            }));
        };
        let name = segment_name(next.first);
        let Ok(header) = HeaderPage::read(&next.file)?.header() else {
            return Ok(Some(LogStep::End {
                file: name,
                offset: 0,
                lsn: next.first,
                stop: None,
                segments_left: self.left.len(),
            }));
        };
        self.current = Some(Current {
            first: next.first,
            name,
            file: next.file.clone(),
            reader: SegmentReader::new(next.file.clone(), header)?,
        });
        self.next = None;
        self.removed = false;
        // Where this fails for another reason than that the file is gone, it does so again when the segment is needed; until
        // then there is something to read.
        self.look_ahead().ok();
        Ok(None)
    }

    /// What comes where the current segment has no further frame: nothing, when another segment or another look at this one
    /// may have some. `looked` says whether this place was looked at already with a new list.
    fn leave(&mut self, stop: Stop, looked: &mut bool) -> io::Result<Option<LogStep<'static>>> {
        self.look_ahead()?;
        let current = self.current.as_ref().expect("the segment that stopped");
        let (begin, lsn) = (current.reader.header().first_lsn, current.reader.lsn());
        let next = self.next.as_ref().map(|next| next.first);
        // The successor begins where this one ends.
        if next == Some(lsn) && lsn > begin {
            self.from = lsn;
            self.current = None;
            return Ok(None);
        }
        let removed_to = next.filter(|next| self.removed && *next > lsn);
        if removed_to.is_none() && !*looked {
            *looked = true;
            self.next = None;
            self.list()?;
            self.look_ahead()?;
            if self.next.is_some() {
                // What was held of this one, its length too, may be from before it was complete.
                let current = self.current.as_mut().expect("the segment that stopped");
                current.reader.renew()?;
            }
            return Ok(None);
        }
        match removed_to {
            // Damage is no end, whatever has gone after it.
            Some(to) if matches!(stop, Stop::EndOfFile | Stop::NoHeader) => {
                self.from = to;
                self.current = None;
                self.removed = false;
                Ok(Some(LogStep::Removed { from: lsn, to }))
            }
            // The end of the log, a hole, or damage.
            _ => Ok(Some(LogStep::End {
                file: current.name.clone(),
                offset: current.reader.offset(),
                lsn,
                stop: Some(stop),
                segments_left: self.left.len() + usize::from(next.is_some()),
            })),
        }
    }

    /// Lists the segments that are still to be opened.
    fn list(&mut self) -> io::Result<()> {
        assert!(self.next.is_none(), "what is open is not listed again");
        let names = self.storage.list(Dir::Wal)?;
        let mut firsts: Vec<Lsn> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
        firsts.sort_unstable();
        let begin = match &self.current {
            Some(current) => {
                // The oldest ones go first: without this one, some that follow it may have gone, too.
                self.removed |= !firsts.contains(&current.first);
                firsts.partition_point(|first| *first <= current.first)
            }
            None => firsts
                .partition_point(|first| *first <= self.from)
                .saturating_sub(1),
        };
        self.left = firsts.split_off(begin.min(firsts.len()));
        self.left.retain(|first| !self.unreadable.contains(first));
        self.left.reverse();
        Ok(())
    }

    /// Opens the first segment after the current one that is still there, unless that is done already.
    fn look_ahead(&mut self) -> io::Result<()> {
        while self.next.is_none()
            && let Some(first) = self.left.last().copied()
        {
            match self.storage.open(Dir::Wal, &segment_name(first)) {
                Ok(file) => {
                    let file = Shared(Arc::new(file));
                    self.next = Some(Next { first, file });
                    self.left.pop();
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.list()?;
                    if self.left.contains(&first) {
                        // A name that leads nowhere.
                        return Err(error);
                    }
                    self.removed |= self.current.is_some();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// An open file that the reader of a segment shares with what compares it.
struct Shared<F>(Arc<F>);

impl<F> Clone for Shared<F> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<F: StorageFile> StorageFile for Shared<F> {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        self.0.write_at(offset, buf)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }
}

#[cfg(test)]
mod tests;
