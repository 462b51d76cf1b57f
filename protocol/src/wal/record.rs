//! One record: identical bytes on every node.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | body length |
//! | 4 | 4 | CRC-32 over bytes 0–3 and 8–end |
//! | 8 | 8 | lsn of this record |
//! | 16 | 6 | time, Unix ms |
//! | 22 | 1 | opcode |
//! | 23 | 1 | database |
//! | 24 | … | body |
//!
//! A record is *physical*: it says the resulting state and not the request, so applying a range of records again always
//! converges. Opcode 53 holds value and deadline under one checksum; a completion without its deadline is no record at
//! all, which is why none can be recovered.

use crate::cursor::{Cursor, Short, put_epoch, put_string};
use crate::idem::{IdemError, IdemRecord};
use crate::wal::raw::record_crc;
use crate::wal::{DeleteReason, EpochReason, MemberList, Opcode, Pairs, Strings, SubRecords};
use crate::{Deadline, Epoch, Lsn, NodeId, UnixMs};

/// Bytes before the body.
pub const RECORD_HEADER_BYTES: usize = 24;
/// The largest record with its header, on every node: 512 MiB.
pub const RECORD_BYTES_MAX: u64 = 512 << 20;
/// Bytes before the body of a part of a transaction: opcode, database, length.
pub(crate) const SUB_HEADER_BYTES: u64 = 6;

/// The same type for what will be written and for what was read; it only borrows.
#[derive(Clone, Copy, Debug)]
pub enum Record<'a> {
    /// A string under a key.
    StringPut {
        /// The key.
        key: &'a [u8],
        /// When it ends.
        deadline: Deadline,
        /// The value.
        value: &'a [u8],
    },
    /// A key goes.
    Delete {
        /// Why.
        reason: DeleteReason,
        /// The key.
        key: &'a [u8],
    },
    /// A key's deadline.
    DeadlinePut {
        /// The key.
        key: &'a [u8],
        /// When it ends from now on.
        deadline: Deadline,
    },
    /// These fields are set.
    HashPut {
        /// The key.
        key: &'a [u8],
        /// When the key ends.
        deadline: Deadline,
        /// At least one field with its value.
        fields: Pairs<'a>,
    },
    /// These fields go, and the key with its last one.
    HashDelete {
        /// The key.
        key: &'a [u8],
        /// At least one field.
        fields: Strings<'a>,
    },
    /// The record's database is emptied.
    FlushDb,
    /// All databases are emptied.
    FlushAll,
    /// Several changes, all or nothing.
    Transaction {
        /// At least one part.
        records: SubRecords<'a>,
    },
    /// A primary begins its reign here.
    EpochStart {
        /// The epoch that begins.
        epoch: Epoch,
        /// Whose it is.
        node: NodeId,
        /// The epoch before, `(0, 0)` for the first.
        previous: Epoch,
        /// Why it begins.
        reason: EpochReason,
    },
    /// Who counts from here on.
    Members {
        /// How many members' disks a reply waits for (N).
        required: u8,
        /// At least one member.
        members: MemberList<'a>,
    },
    /// The time of the record, and nothing else.
    Clock,
    /// A transition of an IDEM record. Value and deadline are one record.
    IdempotencyPut {
        /// The key.
        key: &'a [u8],
        /// When the key ends; never none.
        deadline: Deadline,
        /// The state that results; aborted removes the key.
        record: IdemRecord<'a>,
    },
}

/// Why a body with a good checksum is none that its opcode's layout allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A kind of record that this version does not know: a newer format.
    #[error("unknown opcode {0}")]
    UnknownOpcode(u8),
    /// A length points past the end of the body.
    #[error("body ends early: {0}")]
    Short(#[from] Short),
    /// Bytes are left after the last field.
    #[error("bytes are left after the last field")]
    TrailingBytes,
    /// A list that must not be empty is.
    #[error("a list of the body is empty")]
    EmptyList,
    /// A reason byte that does not exist.
    #[error("unknown reason {0}")]
    Reason(u8),
    /// Opcode 53 without a deadline: half a completion.
    #[error("IDEM transition without a deadline")]
    NoDeadline,
    /// Opcode 53 whose IDEM record is malformed.
    #[error(transparent)]
    Idem(#[from] IdemError),
    /// A kind that must not stand inside a transaction.
    #[error("{} inside a transaction", .0.name())]
    NotTransactional(Opcode),
    /// An address that is no UTF-8.
    #[error("a member's address is no UTF-8")]
    AddressNotUtf8,
    /// A time that the six bytes of a record could not carry.
    #[error("time {0} lies after the last one that a record can have")]
    Time(u64),
}

impl<'a> Record<'a> {
    /// The kind.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Record::StringPut { .. } => Opcode::StringPut,
            Record::Delete { .. } => Opcode::Delete,
            Record::DeadlinePut { .. } => Opcode::DeadlinePut,
            Record::HashPut { .. } => Opcode::HashPut,
            Record::HashDelete { .. } => Opcode::HashDelete,
            Record::FlushDb => Opcode::FlushDb,
            Record::FlushAll => Opcode::FlushAll,
            Record::Transaction { .. } => Opcode::Transaction,
            Record::EpochStart { .. } => Opcode::EpochStart,
            Record::Members { .. } => Opcode::Members,
            Record::Clock => Opcode::Clock,
            Record::IdempotencyPut { .. } => Opcode::IdempotencyPut,
        }
    }

    /// The size of the body in bytes, also for a record that is too large to be written.
    pub fn body_len(&self) -> u64 {
        let string = |bytes: &[u8]| 4 + bytes.len() as u64;
        match self {
            Record::StringPut { key, value, .. } => string(key) + 8 + string(value),
            Record::Delete { key, .. } => 1 + string(key),
            Record::DeadlinePut { key, .. } => string(key) + 8,
            Record::HashPut { key, fields, .. } => string(key) + 8 + fields.body_len(),
            Record::HashDelete { key, fields } => string(key) + fields.body_len(),
            Record::FlushDb | Record::FlushAll | Record::Clock => 0,
            Record::Transaction { records } => records.body_len(),
            Record::EpochStart { .. } => 16 + 16 + 16 + 1,
            Record::Members { members, .. } => 1 + members.body_len(),
            Record::IdempotencyPut { key, record, .. } => string(key) + 8 + record.encoded_len() as u64,
        }
    }

    /// The size of the whole record in bytes. Above [`RECORD_BYTES_MAX`] it must not be written.
    pub fn encoded_len(&self) -> u64 {
        RECORD_HEADER_BYTES as u64 + self.body_len()
    }

    /// Appends the record and returns its checksum.
    ///
    /// # Panics
    /// When it is larger than [`RECORD_BYTES_MAX`], or an IDEM transition has no deadline: both are checked where
    /// commands are decided.
    pub fn encode(&self, lsn: Lsn, time: UnixMs, db: u8, out: &mut Vec<u8>) -> u32 {
        let body_len = self.body_len();
        assert!(
            self.encoded_len() <= RECORD_BYTES_MAX,
            "a record over the limit is refused before it is made"
        );
        let length = u32::try_from(body_len)
            .expect("512 MiB fit 32 bits")
            .to_le_bytes();
        let start = out.len();
        let time = time.get().to_le_bytes();
        out.extend_from_slice(&length);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&lsn.get().to_le_bytes());
        out.extend_from_slice(&time[..6]);
        out.extend_from_slice(&[self.opcode().to_byte(), db]);
        self.put_body(out);
        assert_eq!(
            (out.len() - start) as u64,
            RECORD_HEADER_BYTES as u64 + body_len,
            "the body was measured before it was written"
        );
        let crc = record_crc(&length, &out[start + 8..]);
        out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    pub(crate) fn put_body(&self, out: &mut Vec<u8>) {
        match self {
            Record::StringPut { key, deadline, value } => {
                put_string(out, key);
                out.extend_from_slice(&deadline.get().to_le_bytes());
                put_string(out, value);
            }
            Record::Delete { reason, key } => {
                out.push(reason.to_byte());
                put_string(out, key);
            }
            Record::DeadlinePut { key, deadline } => {
                put_string(out, key);
                out.extend_from_slice(&deadline.get().to_le_bytes());
            }
            Record::HashPut {
                key,
                deadline,
                fields,
            } => {
                put_string(out, key);
                out.extend_from_slice(&deadline.get().to_le_bytes());
                fields.put(out);
            }
            Record::HashDelete { key, fields } => {
                put_string(out, key);
                fields.put(out);
            }
            Record::FlushDb | Record::FlushAll | Record::Clock => {}
            Record::Transaction { records } => records.put(out),
            Record::EpochStart {
                epoch,
                node,
                previous,
                reason,
            } => {
                put_epoch(out, *epoch);
                out.extend_from_slice(&node.0);
                put_epoch(out, *previous);
                out.push(reason.to_byte());
            }
            Record::Members { required, members } => {
                out.push(*required);
                members.put(out);
            }
            Record::IdempotencyPut {
                key,
                deadline,
                record,
            } => {
                assert!(deadline.is_some(), "an IDEM record always has a deadline");
                put_string(out, key);
                out.extend_from_slice(&deadline.get().to_le_bytes());
                record.encode(out);
            }
        }
    }

    pub(crate) fn decode_body(opcode: Opcode, body: &'a [u8]) -> Result<Self, BodyError> {
        let mut cursor = Cursor::new(body);
        let record = match opcode {
            Opcode::StringPut => Record::StringPut {
                key: cursor.string()?,
                deadline: Deadline::at(cursor.u64()?),
                value: cursor.string()?,
            },
            Opcode::Delete => {
                let reason = cursor.u8()?;
                let reason = DeleteReason::from_byte(reason).ok_or(BodyError::Reason(reason))?;
                Record::Delete {
                    reason,
                    key: cursor.string()?,
                }
            }
            Opcode::DeadlinePut => Record::DeadlinePut {
                key: cursor.string()?,
                deadline: Deadline::at(cursor.u64()?),
            },
            Opcode::HashPut => Record::HashPut {
                key: cursor.string()?,
                deadline: Deadline::at(cursor.u64()?),
                fields: Pairs::read(&mut cursor)?,
            },
            Opcode::HashDelete => Record::HashDelete {
                key: cursor.string()?,
                fields: Strings::read(&mut cursor)?,
            },
            Opcode::FlushDb => Record::FlushDb,
            Opcode::FlushAll => Record::FlushAll,
            Opcode::Clock => Record::Clock,
            Opcode::Transaction => Record::Transaction {
                records: SubRecords::read(&mut cursor)?,
            },
            Opcode::EpochStart => {
                let (epoch, node, previous) = (cursor.epoch()?, cursor.node()?, cursor.epoch()?);
                let reason = cursor.u8()?;
                let reason = EpochReason::from_byte(reason).ok_or(BodyError::Reason(reason))?;
                Record::EpochStart {
                    epoch,
                    node,
                    previous,
                    reason,
                }
            }
            Opcode::Members => Record::Members {
                required: cursor.u8()?,
                members: MemberList::read(&mut cursor)?,
            },
            Opcode::IdempotencyPut => {
                let key = cursor.string()?;
                let deadline = Deadline::at(cursor.u64()?);
                if deadline.is_none() {
                    return Err(BodyError::NoDeadline);
                }
                Record::IdempotencyPut {
                    key,
                    deadline,
                    record: IdemRecord::decode(cursor.rest())?,
                }
            }
        };
        if cursor.is_at_end() {
            Ok(record)
        } else {
            Err(BodyError::TrailingBytes)
        }
    }
}
