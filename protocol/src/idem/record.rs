//! The packed record: an 11-byte header, then fingerprint, owner and result.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 3 | magic `IDM` |
//! | 3 | 1 | format version 1 |
//! | 4 | 1 | state: 0 pending, 1 completed, 2 aborted (inside opcode 53 only) |
//! | 5 | 1 | fingerprint length 1–128 |
//! | 6 | 1 | owner length 1–128 |
//! | 7 | 4 | result length 0–4194304; 0 unless completed |
//! | 11 | … | fingerprint, owner, result |
//!
//! It is an ordinary string under an ordinary key: no second map and no extra field goes with it.

use crate::cursor::u32_at;

/// The first three bytes of every record.
pub const MAGIC: [u8; 3] = *b"IDM";
/// The version that this code writes and reads.
pub const FORMAT_VERSION: u8 = 1;
/// Bytes before the fingerprint.
pub const HEADER_BYTES: usize = 11;
/// Longest fingerprint and longest owner, in bytes; the shortest is one byte.
pub const TOKEN_BYTES_MAX: usize = 128;
/// Longest result, in bytes; the shortest is empty.
pub const RESULT_BYTES_MAX: usize = 4_194_304;
/// Longest time to live, in milliseconds: seven days; the shortest is 1.
pub const TTL_MS_MAX: u64 = 604_800_000;

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdemState {
    /// Somebody has begun it.
    Pending,
    /// It is done, and the result is here.
    Completed,
    /// Its owner gave it up: only a log record says so, the key is gone.
    Aborted,
}

impl IdemState {
    /// The byte on disk.
    pub const fn to_byte(self) -> u8 {
        match self {
            IdemState::Pending => 0,
            IdemState::Completed => 1,
            IdemState::Aborted => 2,
        }
    }

    /// The word that tools print.
    pub const fn word(self) -> &'static str {
        match self {
            IdemState::Pending => "pending",
            IdemState::Completed => "completed",
            IdemState::Aborted => "aborted",
        }
    }
}

/// Why bytes are no IDEM record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdemError {
    /// Shorter than a header, or without the magic.
    #[error("not an IDEM record")]
    NotARecord,
    /// A version that this code does not know.
    #[error("IDEM record of unknown version {0}")]
    Version(u8),
    /// A state that does not exist, or that may not stand here.
    #[error("IDEM record with impossible state {0}")]
    State(u8),
    /// A length outside its bounds.
    #[error("IDEM record whose {field} has {length} bytes")]
    Length {
        /// `fingerprint`, `owner` or `result`.
        field: &'static str,
        /// The length in the header.
        length: u32,
    },
    /// The lengths do not add up to the string's own.
    #[error("IDEM record of {found} bytes whose lengths add up to {expected}")]
    Size {
        /// Header plus lengths.
        expected: usize,
        /// What there is.
        found: usize,
    },
}

/// An IDEM record, borrowed: from the bytes it was decoded from, or from the arguments it will be encoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdemRecord<'a> {
    /// Where the operation stands.
    pub state: IdemState,
    /// What identifies the request: 1–128 bytes, compared and never interpreted.
    pub fingerprint: &'a [u8],
    /// What identifies the attempt: 1–128 bytes, compared and never interpreted.
    pub owner: &'a [u8],
    /// The result, 0–4194304 bytes; empty unless completed.
    pub result: &'a [u8],
}

impl<'a> IdemRecord<'a> {
    /// The size of the packed record in bytes.
    pub const fn encoded_len(&self) -> usize {
        HEADER_BYTES + self.fingerprint.len() + self.owner.len() + self.result.len()
    }

    fn header(&self) -> [u8; HEADER_BYTES] {
        let token = |bytes: &[u8]| {
            assert!(
                (1..=TOKEN_BYTES_MAX).contains(&bytes.len()),
                "tokens are checked before a record is made"
            );
            u8::try_from(bytes.len()).expect("a token has at most 128 bytes")
        };
        assert!(
            self.result.len() <= RESULT_BYTES_MAX,
            "a result is checked before a record is made"
        );
        assert!(
            self.result.is_empty() || self.state == IdemState::Completed,
            "only a completed record has a result"
        );
        let result = u32::try_from(self.result.len())
            .expect("a result has at most 4 MiB")
            .to_le_bytes();
        let [m0, m1, m2] = MAGIC;
        let (fingerprint, owner) = (token(self.fingerprint), token(self.owner));
        let state = self.state.to_byte();
        [
            m0,
            m1,
            m2,
            FORMAT_VERSION,
            state,
            fingerprint,
            owner,
            result[0],
            result[1],
            result[2],
            result[3],
        ]
    }

    /// Appends the packed record.
    ///
    /// # Panics
    /// When a field is outside its bounds: arguments are checked before a record is made.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.encoded_len());
        out.extend_from_slice(&self.header());
        out.extend_from_slice(self.fingerprint);
        out.extend_from_slice(self.owner);
        out.extend_from_slice(self.result);
    }

    /// Writes the packed record over `out`, which has exactly [`IdemRecord::encoded_len`] bytes.
    ///
    /// # Panics
    /// When `out` has another length, or a field is outside its bounds.
    pub fn encode_into(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.encoded_len(), "the caller measured the record");
        let (header, rest) = out.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&self.header());
        let (fingerprint, rest) = rest.split_at_mut(self.fingerprint.len());
        fingerprint.copy_from_slice(self.fingerprint);
        let (owner, result) = rest.split_at_mut(self.owner.len());
        owner.copy_from_slice(self.owner);
        result.copy_from_slice(self.result);
    }

    /// Unpacks a record of any of the three states, as opcode 53 carries it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, IdemError> {
        if bytes.len() < HEADER_BYTES || bytes[..3] != MAGIC {
            return Err(IdemError::NotARecord);
        }
        if bytes[3] != FORMAT_VERSION {
            return Err(IdemError::Version(bytes[3]));
        }
        let state = match bytes[4] {
            0 => IdemState::Pending,
            1 => IdemState::Completed,
            2 => IdemState::Aborted,
            other => return Err(IdemError::State(other)),
        };
        let token = |field, length: u8| {
            if (1..=TOKEN_BYTES_MAX).contains(&usize::from(length)) {
                Ok(usize::from(length))
            } else {
                Err(IdemError::Length {
                    field,
                    length: u32::from(length),
                })
            }
        };
        let fingerprint_len = token("fingerprint", bytes[5])?;
        let owner_len = token("owner", bytes[6])?;
        let length = u32_at(bytes, 7);
        let too_long = IdemError::Length {
            field: "result",
            length,
        };
        let result_len = usize::try_from(length).map_err(|_| too_long)?;
        if result_len > RESULT_BYTES_MAX || (result_len > 0 && state != IdemState::Completed) {
            return Err(too_long);
        }
        let expected = HEADER_BYTES + fingerprint_len + owner_len + result_len;
        if expected != bytes.len() {
            return Err(IdemError::Size {
                expected,
                found: bytes.len(),
            });
        }
        let (fingerprint, rest) = bytes[HEADER_BYTES..].split_at(fingerprint_len);
        let (owner, result) = rest.split_at(owner_len);
        Ok(IdemRecord {
            state,
            fingerprint,
            owner,
            result,
        })
    }

    /// Unpacks a record as a key holds it: an aborted one is malformed there.
    pub fn decode_stored(bytes: &'a [u8]) -> Result<Self, IdemError> {
        let record = Self::decode(bytes)?;
        match record.state {
            IdemState::Pending | IdemState::Completed => Ok(record),
            IdemState::Aborted => Err(IdemError::State(record.state.to_byte())),
        }
    }
}
