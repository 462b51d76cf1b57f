//! The records of a directory in order, for tools that look without judging.
//!
//! It begins at the segment that holds the wanted lsn, passes from segment to segment, and stops at the first place that
//! is no valid frame, saying which and why. It opens files for reading only and never takes a lock.

use std::io;

use idem_protocol::Lsn;
use idem_protocol::wal::{FRAME_HEADER_BYTES, RawRecord, parse_segment_name, scan, segment_name};

use super::segment::{Frame, HeaderPage, SegmentReader, Step, Stop};
use crate::storage::{Dir, Storage};

/// Walks the frames of all segments from a given one on.
pub struct LogReader<S: Storage> {
    storage: S,
    /// First lsns of the segments that are left, the next one last.
    left: Vec<Lsn>,
    current: Option<(String, SegmentReader<S::File>)>,
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
        let mut firsts: Vec<Lsn> = storage
            .list(Dir::Wal)?
            .iter()
            .filter_map(|name| parse_segment_name(name))
            .collect();
        firsts.sort_unstable();
        let begin = firsts.partition_point(|first| *first <= from).saturating_sub(1);
        let mut left = firsts.split_off(begin.min(firsts.len()));
        left.reverse();
        Ok(LogReader {
            storage: storage.clone(),
            left,
            current: None,
        })
    }

    /// The next frame, or why there is none. Calling again after the end answers the end again.
    pub fn next_step(&mut self) -> io::Result<LogStep<'_>> {
        loop {
            if self.current.is_none() {
                let Some(first) = self.left.pop() else {
                    return Ok(LogStep::End {
                        file: String::new(),
                        offset: 0,
                        lsn: Lsn::ZERO,
                        stop: None,
                        segments_left: 0,
                    });
                };
                let name = segment_name(first);
                let file = self.storage.open(Dir::Wal, &name)?;
                let Ok(header) = HeaderPage::read(&file)?.header() else {
                    let segments_left = self.left.len();
                    return Ok(LogStep::End {
                        file: name,
                        offset: 0,
                        lsn: first,
                        stop: None,
                        segments_left,
                    });
                };
                self.current = Some((name, SegmentReader::new(file, header)?));
            }
            let (_, reader) = self.current.as_mut().expect("a segment was opened above");
            let lsn = reader.lsn();
            let offset = reader.offset();
            let stop = match reader.next_frame()? {
                Step::Stop(stop) => stop,
                Step::Frame(frame) => {
                    // Ends the borrow of the failing path; the frame is fetched again from the buffer.
                    let size = frame.bytes.len();
                    let (payload, header) = (frame.payload.len(), frame.header);
                    let (name, reader) = self.current.as_ref().expect("a segment was opened above");
                    let bytes = reader.passed(size);
                    let payload = &bytes[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + payload];
                    return Ok(LogStep::Frame {
                        file: name,
                        frame: Frame {
                            offset,
                            header,
                            payload,
                            bytes,
                        },
                    });
                }
            };
            // The successor begins where this one ends: go on there. Anything else is a hole or damage.
            if self.left.last() == Some(&lsn) && lsn > reader.header().first_lsn {
                self.current = None;
                continue;
            }
            let (name, _) = self.current.as_ref().expect("a segment was opened above");
            let segments_left = self.left.len();
            return Ok(LogStep::End {
                file: name.clone(),
                offset,
                lsn,
                stop: Some(stop),
                segments_left,
            });
        }
    }
}
