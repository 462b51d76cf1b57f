//! Walking the records of one frame's payload.
//!
//! A frame is valid only whole: [`check_payload`] says so, or says what is wrong with which record. [`records`] then
//! walks a payload that was found good.

use crate::Lsn;
use crate::wal::{FrameHeader, RawRecord, RecordError};

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
    let mut offset = 0;
    let mut expected = header.lsn;
    for index in 0..header.count {
        let record = RawRecord::parse(&payload[offset..]).map_err(|error| PayloadError::Record {
            index,
            offset,
            error,
        })?;
        if record.lsn != expected {
            return Err(PayloadError::Lsn {
                index,
                offset,
                expected,
                found: record.lsn,
            });
        }
        let short = RecordError::Short {
            needed: record.bytes.len() as u64,
            found: payload.len() - offset,
        };
        expected = record.checked_end().ok_or(PayloadError::Record {
            index,
            offset,
            error: short,
        })?;
        offset += record.bytes.len();
    }
    match payload.len() - offset {
        0 => Ok(()),
        left => Err(PayloadError::Left(left)),
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
