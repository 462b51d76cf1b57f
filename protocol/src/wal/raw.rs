//! Records in bytes: where one begins and ends, and whether it is whole. What a body says is [`Record`]'s.

use crate::cursor::{u32_at, u64_at};
use crate::wal::Opcode;
use crate::wal::record::{BodyError, RECORD_BYTES_MAX, RECORD_HEADER_BYTES, Record};
use crate::{Lsn, UnixMs};

/// Why the bytes at a place are no whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Fewer bytes than the header, or than the length in it.
    #[error("{needed} bytes needed, {found} there")]
    Short {
        /// What a whole record would take.
        needed: u64,
        /// What is there.
        found: usize,
    },
    /// A length over the limit: no writer makes one.
    #[error("record of {0} bytes, the limit is 536870912")]
    TooLong(u64),
    /// The checksum does not match.
    #[error("CRC {found:08x} instead of {expected:08x}")]
    Crc {
        /// The checksum in the header.
        expected: u32,
        /// That of the bytes.
        found: u32,
    },
}

pub(super) fn record_crc(length: &[u8], after_crc: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(length);
    hasher.update(after_crc);
    hasher.finalize()
}

/// A record whose checksum was found good; its body is not looked at yet.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    /// Its position.
    pub lsn: Lsn,
    /// Its time.
    pub time: UnixMs,
    /// Its kind, known to this version or not.
    pub opcode: u8,
    /// Its database.
    pub db: u8,
    /// Its checksum.
    pub crc: u32,
    /// Its body.
    pub body: &'a [u8],
    /// All of its bytes.
    pub bytes: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// How long the record is whose first bytes are here: `None` while the length is not there.
    pub fn claimed_len(bytes: &[u8]) -> Option<u64> {
        (bytes.len() >= 4).then(|| RECORD_HEADER_BYTES as u64 + u64::from(u32_at(bytes, 0)))
    }

    /// The lsn of the record whose first bytes are here, whether or not it is a good one: `None` without a whole header.
    pub fn claimed_lsn(bytes: &[u8]) -> Option<Lsn> {
        (bytes.len() >= RECORD_HEADER_BYTES).then(|| Lsn::new(u64_at(bytes, 8)))
    }

    /// Takes the first record of `bytes`, checking length and checksum.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let record = Self::split(bytes)?;
        let found = record_crc(&record.bytes[..4], &record.bytes[8..]);
        if record.crc == found {
            Ok(record)
        } else {
            Err(RecordError::Crc {
                expected: record.crc,
                found,
            })
        }
    }

    /// As [`RawRecord::parse`] for bytes whose checksum was found good a moment ago.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<Self, RecordError> {
        if bytes.len() < RECORD_HEADER_BYTES {
            return Err(RecordError::Short {
                needed: RECORD_HEADER_BYTES as u64,
                found: bytes.len(),
            });
        }
        let needed = RECORD_HEADER_BYTES as u64 + u64::from(u32_at(bytes, 0));
        if needed > RECORD_BYTES_MAX {
            return Err(RecordError::TooLong(needed));
        }
        let short = RecordError::Short {
            needed,
            found: bytes.len(),
        };
        let size = usize::try_from(needed).map_err(|_| short)?;
        let bytes = bytes.get(..size).ok_or(short)?;
        let mut time = [0; 8];
        time[..6].copy_from_slice(&bytes[16..22]);
        Ok(RawRecord {
            lsn: Lsn::new(u64_at(bytes, 8)),
            time: UnixMs::new(u64::from_le_bytes(time)),
            opcode: bytes[22],
            db: bytes[23],
            crc: u32_at(bytes, 4),
            body: &bytes[RECORD_HEADER_BYTES..],
            bytes,
        })
    }

    /// The position after this record; `None` for one that claims to lie at the end of all positions.
    pub fn checked_end(&self) -> Option<Lsn> {
        self.lsn.checked_plus(self.bytes.len() as u64)
    }

    /// The position after this record.
    ///
    /// # Panics
    /// Past 2^64: a reader compares the lsn with the expected one first.
    pub fn end(&self) -> Lsn {
        self.lsn.plus(self.bytes.len() as u64)
    }

    /// What the record says.
    pub fn decode(&self) -> Result<Record<'a>, BodyError> {
        let opcode = Opcode::from_byte(self.opcode).ok_or(BodyError::UnknownOpcode(self.opcode))?;
        Record::decode_body(opcode, self.body)
    }
}
