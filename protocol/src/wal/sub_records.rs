//! The parts of a Transaction record.

use crate::cursor::Cursor;
use crate::wal::Opcode;
use crate::wal::fields::{CHECKED, count_u32, nonzero_count};
use crate::wal::record::{BodyError, Record, SUB_HEADER_BYTES};

/// The parts of a Transaction.
#[derive(Clone, Copy, Debug)]
pub enum SubRecords<'a> {
    /// From commands: database and record.
    Slice(&'a [(u8, Record<'a>)]),
    /// From a body: `count` parts, checked.
    Encoded {
        /// How many parts.
        count: u32,
        /// The bytes after the count.
        bytes: &'a [u8],
    },
}

impl<'a> SubRecords<'a> {
    /// How many parts.
    pub const fn len(&self) -> usize {
        match self {
            SubRecords::Slice(records) => records.len(),
            SubRecords::Encoded { count, .. } => *count as usize,
        }
    }

    /// True for none, which no valid record has.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Database and record, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, Record<'a>)> + use<'a> {
        let (slice, count, bytes): (&'a [(u8, Record<'a>)], u32, &'a [u8]) = match *self {
            SubRecords::Slice(records) => (records, 0, &[]),
            SubRecords::Encoded { count, bytes } => (&[], count, bytes),
        };
        let mut cursor = Cursor::new(bytes);
        let encoded = (0..count).map(move |_| read_sub(&mut cursor).expect(CHECKED));
        slice.iter().copied().chain(encoded)
    }

    pub(crate) fn body_len(&self) -> u64 {
        4 + match *self {
            SubRecords::Slice(records) => records
                .iter()
                .map(|(_, record)| SUB_HEADER_BYTES + record.body_len())
                .sum(),
            SubRecords::Encoded { bytes, .. } => bytes.len() as u64,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&count_u32(self.len()).to_le_bytes());
        match self {
            SubRecords::Slice(records) => records.iter().for_each(|(db, record)| put_sub(*db, record, out)),
            SubRecords::Encoded { bytes, .. } => out.extend_from_slice(bytes),
        }
    }

    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self, BodyError> {
        let count = nonzero_count(cursor)?;
        let bytes = cursor.rest();
        let mut parts = Cursor::new(bytes);
        for _ in 0..count {
            read_sub(&mut parts)?;
        }
        if parts.is_at_end() {
            Ok(SubRecords::Encoded { count, bytes })
        } else {
            Err(BodyError::TrailingBytes)
        }
    }
}

/// The parts of a transaction as they come to be: encoded one by one, because what they were made of goes away.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SubRecordsBuf {
    count: u32,
    bytes: Vec<u8>,
}

impl SubRecordsBuf {
    /// Adds a part; those of a transaction one by one, because transactions do not nest.
    ///
    /// # Panics
    /// When the record is none that may stand inside a transaction, or the parts are more than 32 bits count: the caller
    /// keeps the whole below the limit of one record, which is less.
    pub fn push(&mut self, db: u8, record: &Record<'_>) {
        if let Record::Transaction { records } = record {
            records.iter().for_each(|(db, record)| self.push(db, &record));
            return;
        }
        put_sub(db, record, &mut self.bytes);
        self.count = self
            .count
            .checked_add(1)
            .expect("a record limit below 4 GiB holds fewer");
    }

    /// Whether there is no part.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of all parts.
    pub const fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The parts, for a record.
    pub fn records(&self) -> SubRecords<'_> {
        SubRecords::Encoded {
            count: self.count,
            bytes: &self.bytes,
        }
    }
}

fn put_sub(db: u8, record: &Record<'_>, out: &mut Vec<u8>) {
    assert!(
        record.opcode().is_transactional(),
        "only changes of keys stand inside a transaction"
    );
    out.push(record.opcode().to_byte());
    out.push(db);
    let length = u32::try_from(record.body_len()).expect("bodies are bounded by the record limit");
    out.extend_from_slice(&length.to_le_bytes());
    record.put_body(out);
}

fn read_sub<'a>(cursor: &mut Cursor<'a>) -> Result<(u8, Record<'a>), BodyError> {
    let opcode = cursor.u8()?;
    let db = cursor.u8()?;
    let length = cursor.u32()?;
    let body = cursor.take(u64::from(length))?;
    let opcode = Opcode::from_byte(opcode).ok_or(BodyError::UnknownOpcode(opcode))?;
    // Also what keeps this from recursing: a transaction is not transactional.
    if !opcode.is_transactional() {
        return Err(BodyError::NotTransactional(opcode));
    }
    Ok((db, Record::decode_body(opcode, body)?))
}
