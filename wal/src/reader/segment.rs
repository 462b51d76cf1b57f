//! One segment, frame by frame: the only code that reads frames from a file.

use std::io;

use idem_protocol::Lsn;
use idem_protocol::wal::scan::{PayloadCheck, PayloadError, check_payload};
use idem_protocol::wal::{
    FRAME_HEADER_BYTES, FrameHeader, HeaderError, RECORD_BYTES_MAX, RECORD_HEADER_BYTES, RecordError,
    SECOND_COPY_OFFSET, SEGMENT_HEADER_BYTES, SegmentHeader,
};

use super::search::Search;
use super::window::Window;
use crate::storage::StorageFile;

/// What the header page of a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderPage {
    /// The first copy.
    pub first: Result<SegmentHeader, HeaderError>,
    /// The second copy.
    pub second: Result<SegmentHeader, HeaderError>,
    /// The checksum that the first copy has written and that of its bytes, when the file has as many.
    pub crcs: Option<(u32, u32)>,
}

impl HeaderPage {
    /// The header, from whichever copy is good; a newer format wins over damage, because it can be named.
    pub fn header(&self) -> Result<SegmentHeader, HeaderError> {
        match (self.first, self.second) {
            (Ok(header), _) | (_, Ok(header)) => Ok(header),
            (Err(error @ HeaderError::NewerFormat(_)), _) | (_, Err(error)) => Err(error),
        }
    }

    /// True when exactly one copy is good, or the two differ: worth a word to the operator, no reason to refuse.
    pub fn is_half(&self) -> bool {
        self.header().is_ok() && self.first != self.second
    }

    /// Reads the page of a file, of whatever length it is.
    pub fn read<F: StorageFile>(file: &F) -> io::Result<Self> {
        let mut page = vec![0; SEGMENT_HEADER_BYTES];
        let read = crate::storage::durable::read_exact_or_end(file, 0, &mut page)?;
        page.truncate(read);
        let copy = |from: usize| SegmentHeader::decode(page.get(from..).unwrap_or_default());
        Ok(HeaderPage {
            first: copy(0),
            second: copy(SECOND_COPY_OFFSET),
            crcs: SegmentHeader::crcs(&page),
        })
    }
}

/// A whole, valid frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its header.
    pub header: FrameHeader,
    /// Its records, checked.
    pub payload: &'a [u8],
    /// Header, records and what there is of the padding.
    pub bytes: &'a [u8],
}

impl Frame<'_> {
    /// Where its records begin in the file.
    pub fn records_at(&self) -> u64 {
        self.offset + FRAME_HEADER_BYTES as u64
    }
}

/// Why there is no valid frame at the place where the reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Fewer bytes than a frame header are left in the file.
    EndOfFile,
    /// No frame header: zeros, or anything else.
    NoHeader,
    /// A good header whose records are not in the file.
    PayloadOutsideFile(FrameHeader),
    /// A good header with another lsn than the place has.
    LsnGap(FrameHeader),
    /// A good header whose records are not.
    Payload(FrameHeader, PayloadError),
}

impl Stop {
    /// The checksum that a bad record has written and that of its bytes, when they are what is wrong.
    pub fn crcs(&self) -> Option<(u32, u32)> {
        match self {
            Stop::Payload(
                _,
                PayloadError::Record {
                    error: RecordError::Crc { expected, found },
                    ..
                },
            ) => Some((*expected, *found)),
            _ => None,
        }
    }
}

/// What [`SegmentReader::next_frame`] found.
#[derive(Debug)]
pub enum Step<'a> {
    /// A frame; the reader stands behind it.
    Frame(Frame<'a>),
    /// None; the reader stays.
    Stop(Stop),
}

/// Bytes that tell a frame from any other in its place: its header, and that of its first record, whose checksum covers
/// lsn, time and body.
const MARK_BYTES: usize = FRAME_HEADER_BYTES + RECORD_HEADER_BYTES;

/// A group is closed when it has so many bytes, or by one larger record.
const BEGIN_BYTES: usize = 8 << 20;

/// What is asked of the disk at once where a part of it cannot be read: a page, which is what cannot be read then.
const UNREADABLE_BYTES: usize = 4096;

/// At most so much is left out at once.
const UNREADABLE_BYTES_MAX: u64 = 1 << 20;

/// How much of a larger one is looked at at once, before all of it is read.
const AHEAD_BYTES: usize = 1 << 20;

/// What a payload is that was read through.
enum Ahead {
    Good,
    Bad(PayloadError),
    /// The file ends before it does.
    Outside,
}

/// Whether a writer can have made a frame of that length.
pub(crate) fn is_possible(header: &FrameHeader) -> bool {
    u64::from(header.payload_bytes) <= RECORD_BYTES_MAX + BEGIN_BYTES as u64 && header.end().is_some()
}

/// Reads the frames of one segment in order.
pub struct SegmentReader<F> {
    window: Window<F>,
    header: SegmentHeader,
    lsn: Lsn,
    /// The frame that was read last: where it begins, and its first bytes, as far as it has [`MARK_BYTES`].
    last: Option<(u64, usize, [u8; MARK_BYTES])>,
}

impl<F: StorageFile> SegmentReader<F> {
    /// Stands at the first frame of a file whose header page was read before.
    pub fn new(file: F, header: SegmentHeader) -> io::Result<Self> {
        let window = Window::new(file, SEGMENT_HEADER_BYTES as u64)?;
        Ok(SegmentReader {
            window,
            header,
            lsn: header.first_lsn,
            last: None,
        })
    }

    /// The segment's header.
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Offset in the file where the next frame would begin.
    pub fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// The lsn that it would have.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.window.file_bytes()
    }

    /// The frame at this place, if a valid one is there: good header, the expected lsn, exactly its records.
    pub fn next_frame(&mut self) -> io::Result<Step<'_>> {
        if self.window.left() < FRAME_HEADER_BYTES as u64 {
            return Ok(Step::Stop(Stop::EndOfFile));
        }
        let Some(header) = FrameHeader::decode(self.window.peek(FRAME_HEADER_BYTES)?, self.header.salt)
        else {
            return Ok(Step::Stop(Stop::NoHeader));
        };
        let whole = FRAME_HEADER_BYTES as u64 + u64::from(header.payload_bytes);
        if whole > self.window.left() {
            return Ok(Step::Stop(Stop::PayloadOutsideFile(header)));
        }
        if header.lsn != self.lsn {
            return Ok(Step::Stop(Stop::LsnGap(header)));
        }
        let outside = Stop::PayloadOutsideFile(header);
        let Ok(whole) = usize::try_from(whole) else {
            return Ok(Step::Stop(outside));
        };
        let Ok(padded) = usize::try_from(header.frame_bytes()) else {
            return Ok(Step::Stop(outside));
        };
        if whole > BEGIN_BYTES {
            match self.check_ahead(&header, whole)? {
                Ahead::Good => self.window.reserve(padded)?,
                Ahead::Bad(error) => return Ok(Step::Stop(Stop::Payload(header, error))),
                Ahead::Outside => return Ok(Step::Stop(outside)),
            }
        }
        let offset = self.window.offset();
        let bytes = self.window.peek(padded)?;
        if bytes.len() < whole {
            return Ok(Step::Stop(outside));
        }
        if let Err(error) = check_payload(&header, &bytes[FRAME_HEADER_BYTES..whole]) {
            return Ok(Step::Stop(Stop::Payload(header, error)));
        }
        let Some(end) = header.end() else {
            return Ok(Step::Stop(Stop::LsnGap(header)));
        };
        self.lsn = end;
        let passed = bytes.len();
        self.window.advance(passed);
        // Passed bytes stay in the buffer until the next peek, which needs `&mut self`.
        let bytes = self.window.passed(passed);
        let mut mark = [0; MARK_BYTES];
        let marked = whole.min(MARK_BYTES);
        mark[..marked].copy_from_slice(&bytes[..marked]);
        self.last = Some((offset, marked, mark));
        Ok(Step::Frame(Frame {
            offset,
            header,
            payload: &bytes[FRAME_HEADER_BYTES..whole],
            bytes,
        }))
    }

    /// Reads through a payload that is larger than groups are, and holds none of it. Only one that is good is then read into
    /// memory: a length that junk, or a sparse file, backs with bytes costs no more than any other, and whether a frame is
    /// good does not depend on how much memory is free.
    fn check_ahead(&self, header: &FrameHeader, whole: usize) -> io::Result<Ahead> {
        let mut left = whole - FRAME_HEADER_BYTES;
        let mut check = PayloadCheck::new(header, left);
        let mut at = self.window.offset() + FRAME_HEADER_BYTES as u64;
        let mut chunk = vec![0; AHEAD_BYTES.min(left)];
        while left > 0 {
            let wanted = left.min(chunk.len());
            let read = self.window.read_at(at, &mut chunk[..wanted])?;
            if read < wanted {
                return Ok(Ahead::Outside);
            }
            if let Err(error) = check.feed(&chunk[..read]) {
                return Ok(Ahead::Bad(error));
            }
            at += read as u64;
            left -= read;
        }
        Ok(check.finish().map_or_else(Ahead::Bad, |()| Ahead::Good))
    }

    /// Whether the frame that was read last stands in `file` in the same place. A log that was cut below it and written on
    /// has another one there, or none: what follows a cut begins with a random nonce.
    pub(crate) fn is_continued_by(&self, file: &F) -> io::Result<bool> {
        let Some((offset, marked, mark)) = &self.last else {
            return Ok(true);
        };
        let mut found = [0; MARK_BYTES];
        let read = crate::storage::durable::read_exact_or_end(file, *offset, &mut found[..*marked])?;
        Ok(found[..read] == mark[..*marked])
    }

    /// Reads on in `file`, at the same place.
    pub(crate) fn continue_in(&mut self, file: F) -> io::Result<()> {
        self.window = Window::new(file, self.window.offset())?;
        Ok(())
    }

    /// Forgets what was read ahead: a writer may have gone on meanwhile.
    pub(crate) fn renew(&mut self) -> io::Result<()> {
        self.go_to(self.window.offset(), self.lsn)
    }

    /// Goes to a place where a frame of `lsn` is expected, whatever is between.
    pub(crate) fn go_to(&mut self, offset: u64, lsn: Lsn) -> io::Result<()> {
        self.lsn = lsn;
        self.window.seek(offset)
    }

    /// The first frame header after this place that can be one of this log, and where it stands. The reader stays.
    pub(crate) fn search(&mut self) -> io::Result<Option<(u64, FrameHeader)>> {
        let (offset, lsn) = (self.offset(), self.lsn);
        let mut search = Search::new(self);
        let mut first = None;
        while first.is_none() {
            let chunk = self.take_raw(Search::CHUNK_BYTES)?;
            if chunk.is_empty() {
                break;
            }
            search.feed(chunk, &mut |at, header| {
                first.get_or_insert((at, header));
            });
        }
        self.go_to(offset, lsn)?;
        Ok(first)
    }

    /// As [`SegmentReader::search`], and bytes that the system does not hand over are left out; the first such failure is the
    /// second answer. A medium that is damaged over a long way takes seconds for each failure, so after each the next one is
    /// expected twice as far on, up to a limit.
    pub(crate) fn search_what_can_be_read(&mut self) -> (Option<(u64, FrameHeader)>, Option<io::Error>) {
        let mut search = Search::new(self);
        let (mut offset, end) = (self.offset(), self.file_bytes());
        let (mut chunk, mut step) = (vec![0; UNREADABLE_BYTES], UNREADABLE_BYTES as u64);
        let (mut first, mut failed) = (None, None);
        while first.is_none() && offset < end {
            match self.window.read_at(offset, &mut chunk) {
                Ok(0) => break,
                Ok(read) => {
                    search.feed(&chunk[..read], &mut |at, header| {
                        first.get_or_insert((at, header));
                    });
                    offset += read as u64;
                    step = UNREADABLE_BYTES as u64;
                }
                Err(error) => {
                    failed.get_or_insert(error);
                    offset = (offset + step) / UNREADABLE_BYTES as u64 * UNREADABLE_BYTES as u64;
                    search.skip_to(offset);
                    step = (step * 2).min(UNREADABLE_BYTES_MAX);
                }
            }
        }
        (first, failed)
    }

    /// The frame at this place by its header alone, when that is good and has the expected lsn; its records may be anything,
    /// and the file may end before they do. The reader stands behind it.
    pub(crate) fn take_unchecked(&mut self) -> io::Result<Option<Frame<'_>>> {
        let offset = self.window.offset();
        let Some(header) = FrameHeader::decode(self.window.peek(FRAME_HEADER_BYTES)?, self.header.salt)
        else {
            return Ok(None);
        };
        let (Some(end), Ok(whole), Ok(padded)) = (
            header
                .end()
                .filter(|_| header.lsn == self.lsn && is_possible(&header)),
            usize::try_from(FRAME_HEADER_BYTES as u64 + u64::from(header.payload_bytes)),
            usize::try_from(header.frame_bytes()),
        ) else {
            return Ok(None);
        };
        let passed = self.window.peek(padded)?.len();
        self.window.advance(passed);
        self.lsn = end;
        let bytes = self.window.passed(passed);
        Ok(Some(Frame {
            offset,
            header,
            payload: &bytes[FRAME_HEADER_BYTES..whole.min(passed)],
            bytes,
        }))
    }

    /// Goes on behind a place that is no valid frame, for somebody who wants to know what else is damaged: behind the frame
    /// whose header alone is good, else at the next header that can be one of this log. False, and the reader stays, when
    /// there is none.
    pub fn pass_damage(&mut self) -> io::Result<bool> {
        let header = FrameHeader::decode(self.window.peek(FRAME_HEADER_BYTES)?, self.header.salt);
        let here = header.filter(|header| header.lsn == self.lsn && is_possible(header));
        if let Some(header) = here
            && let Some(end) = header.end()
        {
            // Nothing of it is read.
            let behind = self.offset().saturating_add(header.frame_bytes());
            self.go_to(behind.min(self.file_bytes()), end)?;
            return Ok(true);
        }
        let Some((offset, header)) = self.search()? else {
            return Ok(false);
        };
        self.go_to(offset, header.lsn)?;
        Ok(true)
    }

    /// The next `count` raw bytes, fewer at the end of the file, consumed: for looking at what follows the last frame.
    pub(crate) fn take_raw(&mut self, count: usize) -> io::Result<&[u8]> {
        let passed = self.window.peek(count)?.len();
        self.window.advance(passed);
        Ok(self.window.passed(passed))
    }

    /// The `count` bytes that were passed last.
    pub(crate) fn passed(&self, count: usize) -> &[u8] {
        self.window.passed(count)
    }
}
