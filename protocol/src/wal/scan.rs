//! Walking the records of one frame's payload.
//!
//! A frame is valid only whole: [`check_payload`] says so, or says what is wrong with which record. [`records`] then
//! walks a payload that was found good.

use crc32fast::Hasher;

use crate::Lsn;
use crate::cursor::{u32_at, u64_at};
use crate::wal::{FrameHeader, RECORD_BYTES_MAX, RECORD_HEADER_BYTES, RawRecord, RecordError};

/// Why a payload is not exactly the records that its header announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// A record is not whole.
    #[error("record {index} at payload offset {offset}: {error}")]
    Record {
        /// Which record, from 0.
        index: u32,
        /// Where it begins in the payload.
        offset: usize,
        /// What is wrong with it.
        error: RecordError,
    },
    /// A record has another lsn than its place.
    #[error("record {index} at payload offset {offset} has lsn {found} instead of {expected}")]
    Lsn {
        /// Which record, from 0.
        index: u32,
        /// Where it begins in the payload.
        offset: usize,
        /// The lsn of its place.
        expected: Lsn,
        /// The lsn in its header.
        found: Lsn,
    },
    /// The records end before the payload does.
    #[error("{0} bytes are left after the last record")]
    Left(usize),
}

/// Checks that `payload` is exactly the records of `header`: count, checksums, consecutive lsns, no byte left.
pub fn check_payload(header: &FrameHeader, payload: &[u8]) -> Result<(), PayloadError> {
    let mut check = PayloadCheck::new(header, payload.len());
    check.feed(payload)?;
    check.finish()
}

/// [`check_payload`] for a payload that comes in pieces, and of which nothing is held: a length that only a header claims
/// costs no memory.
#[derive(Clone, Debug)]
pub struct PayloadCheck {
    /// Records that the header announces.
    count: u32,
    /// Length of the payload.
    whole: usize,
    /// The record that is being looked at: which one, where it begins, and the lsn of its place.
    index: u32,
    offset: usize,
    expected: Lsn,
    /// Its header, as far as it has come.
    head: [u8; RECORD_HEADER_BYTES],
    taken: usize,
    /// What is still to come of it behind the header.
    left: usize,
    crc: Hasher,
}

impl PayloadCheck {
    /// Nothing was looked at yet of a payload of `whole` bytes.
    pub fn new(header: &FrameHeader, whole: usize) -> PayloadCheck {
        PayloadCheck {
            count: header.count,
            whole,
            index: 0,
            offset: 0,
            expected: header.lsn,
            head: [0; RECORD_HEADER_BYTES],
            taken: 0,
            left: 0,
            crc: Hasher::new(),
        }
    }

    /// Takes the next bytes. After an error the check is over.
    pub fn feed(&mut self, mut piece: &[u8]) -> Result<(), PayloadError> {
        while self.index < self.count {
            let there = self.whole - self.offset;
            if there < RECORD_HEADER_BYTES {
                return Err(self.record(RecordError::Short {
                    needed: RECORD_HEADER_BYTES as u64,
                    found: there,
                }));
            }
            if self.taken == 0 {
                // Most records come whole.
                match RawRecord::parse(piece) {
                    Ok(record) => {
                        self.pass(record.lsn, record.bytes.len())?;
                        piece = &piece[record.bytes.len()..];
                        continue;
                    }
                    Err(RecordError::Short { .. }) => {}
                    Err(error) => return Err(self.record(error)),
                }
            }
            if self.taken < RECORD_HEADER_BYTES {
                let count = piece.len().min(RECORD_HEADER_BYTES - self.taken);
                let (head, rest) = piece.split_at(count);
                self.head[self.taken..self.taken + count].copy_from_slice(head);
                self.taken += count;
                piece = rest;
                if self.taken < RECORD_HEADER_BYTES {
                    return Ok(());
                }
                self.begin()?;
            }
            let (body, rest) = piece.split_at(piece.len().min(self.left));
            self.crc.update(body);
            self.left -= body.len();
            piece = rest;
            if self.left > 0 {
                return Ok(());
            }
            self.end()?;
        }
        Ok(())
    }

    /// What is wrong with the payload when nothing more comes.
    pub fn finish(mut self) -> Result<(), PayloadError> {
        // A payload without room for the next record's header is short whether or not a piece comes.
        self.feed(&[])?;
        if self.index < self.count {
            // Fewer bytes came than were announced.
            let needed = self.needed().unwrap_or(RECORD_HEADER_BYTES);
            let found = self.needed().map_or(self.taken, |needed| needed - self.left);
            return Err(self.record(RecordError::Short {
                needed: needed as u64,
                found,
            }));
        }
        match self.whole - self.offset {
            0 => Ok(()),
            left => Err(PayloadError::Left(left)),
        }
    }

    /// The header is there.
    fn begin(&mut self) -> Result<(), PayloadError> {
        let there = self.whole - self.offset;
        let claimed = RECORD_HEADER_BYTES as u64 + u64::from(u32_at(&self.head, 0));
        if claimed > RECORD_BYTES_MAX {
            return Err(self.record(RecordError::TooLong(claimed)));
        }
        let left = usize::try_from(claimed).ok().filter(|needed| *needed <= there);
        let Some(needed) = left else {
            return Err(self.record(RecordError::Short {
                needed: claimed,
                found: there,
            }));
        };
        self.left = needed - RECORD_HEADER_BYTES;
        self.crc = Hasher::new();
        self.crc.update(&self.head[..4]);
        self.crc.update(&self.head[8..]);
        Ok(())
    }

    /// All of a record has come in parts.
    fn end(&mut self) -> Result<(), PayloadError> {
        let (expected, found) = (u32_at(&self.head, 4), self.crc.clone().finalize());
        if expected != found {
            return Err(self.record(RecordError::Crc { expected, found }));
        }
        let bytes = self.needed().expect("its header has come");
        self.pass(Lsn::new(u64_at(&self.head, 8)), bytes)
    }

    /// A record of so many bytes is good; is it in its place?
    fn pass(&mut self, lsn: Lsn, bytes: usize) -> Result<(), PayloadError> {
        if lsn != self.expected {
            return Err(PayloadError::Lsn {
                index: self.index,
                offset: self.offset,
                expected: self.expected,
                found: lsn,
            });
        }
        let there = self.whole - self.offset;
        let short = RecordError::Short {
            needed: bytes as u64,
            found: there,
        };
        // More than was announced has come, or it claims to lie at the end of all positions.
        let end = lsn.checked_plus(bytes as u64).filter(|_| bytes <= there);
        self.expected = end.ok_or_else(|| self.record(short))?;
        self.offset += bytes;
        self.index += 1;
        self.taken = 0;
        Ok(())
    }

    /// The record's length, once its header is there.
    fn needed(&self) -> Option<usize> {
        let claimed = RECORD_HEADER_BYTES as u64 + u64::from(u32_at(&self.head, 0));
        usize::try_from(claimed)
            .ok()
            .filter(|_| self.taken == RECORD_HEADER_BYTES)
    }

    fn record(&self, error: RecordError) -> PayloadError {
        PayloadError::Record {
            index: self.index,
            offset: self.offset,
            error,
        }
    }
}

/// The records of a payload that [`check_payload`] found good, with their offsets in it. Checksums are not computed a
/// second time.
pub fn records(payload: &[u8]) -> impl Iterator<Item = (usize, RawRecord<'_>)> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let record = RawRecord::split(&payload[offset..]).ok()?;
        let at = offset;
        offset += record.bytes.len();
        Some((at, record))
    })
}
