//! Going on behind a place that is no frame, for somebody who wants to see what is left of a damaged log.
//!
//! Nothing here judges, and nothing that serves data reads this way: a server refuses such a log. Each range that is passed
//! over is named, so that what is read and what is not add up.

use std::io;

use idem_protocol::Lsn;
use idem_protocol::wal::{HeaderError, segment_name};

use super::LogReader;
use crate::reader::segment::is_possible;
use crate::reader::{Frame, HeaderPage, Step, Stop};
use crate::storage::{Storage, StorageFile};

/// What was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Name of the segment.
    pub file: String,
    /// Where the range begins in it.
    pub offset: u64,
    /// Where it ends; the same as its begin where a range of the log is in no file.
    pub end: u64,
    /// The lsn at its begin.
    pub from: Lsn,
    /// The lsn from which the log goes on; below `from` when the log goes back.
    pub to: Lsn,
    /// What is there instead of a frame; `None` for a header page that is no header, and for what cannot be read.
    pub stop: Option<Stop>,
    /// What the system said of the first bytes in it that it does not hand over.
    pub error: Option<String>,
}

/// A range that the system does not hand over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The range.
    pub gap: Gap,
    /// Whether something follows; else the log was read to its end, as far as it can be.
    pub follows: bool,
}

/// How reading goes on after an end.
#[derive(Debug)]
pub enum Past<'a> {
    /// At another place.
    Gap(Gap),
    /// With a frame whose header is good, and its records are not all.
    Broken {
        /// Name of the segment.
        file: &'a str,
        /// The frame; its payload may be cut short by the end of the file.
        frame: Frame<'a>,
        /// What was wrong with it.
        stop: Stop,
    },
    /// At the same place: a writer has finished there meanwhile.
    Again,
    /// Not at all: no frame follows.
    Over,
}

impl<S: Storage> LogReader<S> {
    /// To be called after an end. With `live`, the end of the newest segment may be in the middle of being written: what is
    /// there is passed only when a later frame stands behind it.
    pub fn pass(&mut self, live: bool) -> io::Result<Past<'_>> {
        if self.current.is_none() {
            return Ok(self.pass_segment()?.map_or(Past::Over, Past::Gap));
        }
        let next = self.next.as_ref().map(|next| next.first);
        let current = self.current.as_mut().expect("looked at above");
        let (offset, lsn) = (current.reader.offset(), current.reader.lsn());
        let (later, error) = current.reader.search_what_can_be_read();
        let error = error.map(|error| error.to_string());
        current.reader.go_to(offset, lsn)?;
        // Frames are written one after another. When a later one stands, or a later segment, this place is finished; what was
        // seen of it may be from before.
        let stop = match current.reader.next_frame()? {
            Step::Stop(stop) => stop,
            Step::Frame(_) => {
                current.reader.go_to(offset, lsn)?;
                return Ok(Past::Again);
            }
        };
        if live && next.is_none() && later.is_none() {
            return Ok(Past::Over);
        }
        let gap = |end: u64, to: Lsn| Gap {
            file: current.name.clone(),
            offset,
            end,
            from: lsn,
            to,
            stop: Some(stop),
            error: error.clone(),
        };
        let here = match stop {
            Stop::Payload(header, _) | Stop::PayloadOutsideFile(header) | Stop::LsnGap(header) => {
                is_possible(&header).then_some(header.lsn)
            }
            Stop::EndOfFile | Stop::NoHeader => None,
        };
        if let Some(ahead) = here.filter(|here| *here > lsn) {
            let gap = Gap {
                error: None,
                ..gap(offset, ahead)
            };
            current.reader.go_to(offset, ahead)?;
            return Ok(Past::Gap(gap));
        }
        if here != Some(lsn) {
            if let Some((at, header)) = later {
                let gap = gap(at, header.lsn);
                current.reader.go_to(at, header.lsn)?;
                return Ok(Past::Gap(gap));
            }
            let Some(next) = next else {
                return Ok(Past::Over);
            };
            let gap = gap(current.reader.file_bytes().max(offset), next);
            self.from = next;
            self.current = None;
            return Ok(Past::Gap(gap));
        }
        let current = self.current.as_mut().expect("it is still being read");
        Ok(match current.reader.take_unchecked()? {
            Some(frame) => Past::Broken {
                file: &current.name,
                frame,
                stop,
            },
            // It was there a moment ago.
            None => Past::Again,
        })
    }

    /// Passes the segment that cannot be entered, when another one follows. One of a newer format is not damaged.
    fn pass_segment(&mut self) -> io::Result<Option<Gap>> {
        let Some(bad) = self.next.take() else {
            return Ok(None);
        };
        let page = HeaderPage::read(&bad.file)?.header();
        if page != Err(HeaderError::Damaged) || self.left.is_empty() {
            self.next = Some(bad);
            return Ok(None);
        }
        self.from = bad.first;
        self.look_ahead()?;
        let Some(next) = self.next.as_ref().map(|next| next.first) else {
            self.next = Some(bad);
            return Ok(None);
        };
        self.from = next;
        Ok(Some(Gap {
            file: segment_name(bad.first),
            offset: 0,
            end: bad.file.len()?,
            from: bad.first,
            to: next,
            stop: None,
            error: None,
        }))
    }

    /// To be called after a step or a look past damage failed with an error of the system: goes on behind what cannot be
    /// read, within the segment where a later frame can be, else with the next segment. Nothing when it is no part of the log
    /// that cannot be read (the list of segments), or when it can be now.
    pub fn pass_unreadable(&mut self, error: &io::Error) -> io::Result<Option<Unreadable>> {
        let error = Some(error.to_string());
        if let Some(current) = &mut self.current {
            let (offset, lsn) = (current.reader.offset(), current.reader.lsn());
            let here = current
                .reader
                .next_frame()
                .map(|step| matches!(step, Step::Frame(_)));
            current.reader.go_to(offset, lsn)?;
            if matches!(here, Ok(true)) {
                return Ok(None);
            }
            if here.is_ok() && self.look_ahead().is_err() {
                return Ok(self.leave_out(lsn, error));
            }
            let current = self.current.as_mut().expect("looked at above");
            let (name, end) = (current.name.clone(), current.reader.file_bytes().max(offset));
            let gap = |end: u64, to: Lsn| Gap {
                file: name,
                offset,
                end,
                from: lsn,
                to,
                stop: None,
                error,
            };
            if let (Some((at, header)), _) = current.reader.search_what_can_be_read() {
                current.reader.go_to(at, header.lsn)?;
                return Ok(Some(Unreadable {
                    gap: gap(at, header.lsn),
                    follows: true,
                }));
            }
            let next = self.next.as_ref().map(|next| next.first);
            let next = next.or(self.left.last().copied());
            if let Some(next) = next {
                self.from = next;
                self.current = None;
            }
            return Ok(Some(Unreadable {
                gap: gap(end, next.unwrap_or(lsn)),
                follows: next.is_some(),
            }));
        }
        let from = self.next.as_ref().map(|next| next.first);
        Ok(match from.or(self.left.last().copied()) {
            Some(from) => self.leave_out(from, error),
            None => None,
        })
    }

    /// Leaves out the segment that comes next, with what is missing of the log from `from` on.
    fn leave_out(&mut self, from: Lsn, error: Option<String>) -> Option<Unreadable> {
        let next = self.next.take();
        let first = match &next {
            Some(next) => next.first,
            None => self.left.pop()?,
        };
        let end = next.and_then(|next| next.file.len().ok()).unwrap_or(0);
        self.unreadable.push(first);
        let follows = self.left.last().copied();
        self.current = None;
        self.from = follows.unwrap_or(first);
        Some(Unreadable {
            gap: Gap {
                file: segment_name(first),
                offset: 0,
                end,
                from,
                to: follows.unwrap_or(from),
                stop: None,
                error,
            },
            follows: follows.is_some(),
        })
    }
}

#[cfg(test)]
mod tests;
