//! The first 4096 bytes of a segment: the same header at 0 and again at 2048; one good copy is enough.
//!
//! `0 "IDEMWAL1"; 8 format u32; 12 zero u32; 16 node id; 32 cluster id; 48 first lsn; 56 salt; 64 epoch; 72 nonce (both
//! of the last EpochStart below the first lsn); 80 predecessor's first lsn; 88 its end lsn; 96 CRC-32 of all its record
//! bytes (80–99 zero when there is none); 100 CRC-32 of 0–99.`
//!
//! The predecessor is synced to its end before this header is written, under every policy: a segment that has a
//! successor is complete, and the successor vouches for its bytes.

use crate::cursor::{Cursor, u32_at};
use crate::wal::Salt;
use crate::{ClusterId, Epoch, Lsn, NodeId};

/// The version of all formats of this page that this code writes; it reads this one and the one before (there is none).
pub const FORMAT_VERSION: u32 = 1;
/// Bytes before the first frame.
pub const SEGMENT_HEADER_BYTES: usize = 4096;
/// Where the second copy stands.
pub const SECOND_COPY_OFFSET: usize = 2048;
/// The first eight bytes of a segment.
pub const MAGIC: [u8; 8] = *b"IDEMWAL1";
/// Bytes of one copy.
pub const HEADER_COPY_BYTES: usize = 104;

/// The segment before this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// Its first lsn, which is its name.
    pub first_lsn: Lsn,
    /// The position after its last record.
    pub end_lsn: Lsn,
    /// CRC-32 of all its record bytes, one after the other.
    pub crc: u32,
}

/// What a segment says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The node that wrote it.
    pub node: NodeId,
    /// The history that it belongs to.
    pub cluster: ClusterId,
    /// The position of its first record, which is its name.
    pub first_lsn: Lsn,
    /// Goes into the checksum of every frame header of the segment.
    pub salt: Salt,
    /// The epoch in force at its first record, `(0, 0)` when there is none.
    pub epoch: Epoch,
    /// The segment before, none for that of lsn 0.
    pub predecessor: Option<Predecessor>,
}

/// Why bytes are no header that this version can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Wrong magic, checksum or layout.
    #[error("damaged header")]
    Damaged,
    /// Undamaged, written by a newer version.
    #[error("format {0}, this version reads up to {FORMAT_VERSION}")]
    NewerFormat(u32),
}

impl SegmentHeader {
    /// One copy of the header.
    ///
    /// # Panics
    /// When the predecessor holds no record: such a segment has no successor.
    pub fn encode(&self) -> [u8; HEADER_COPY_BYTES] {
        let mut out = [0; HEADER_COPY_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&self.node.0);
        out[32..48].copy_from_slice(&self.cluster.0);
        out[48..56].copy_from_slice(&self.first_lsn.get().to_le_bytes());
        out[56..64].copy_from_slice(&self.salt.0);
        out[64..72].copy_from_slice(&self.epoch.number.to_le_bytes());
        out[72..80].copy_from_slice(&self.epoch.nonce.to_le_bytes());
        if let Some(predecessor) = self.predecessor {
            assert!(
                predecessor.first_lsn < predecessor.end_lsn,
                "a segment without a record has no successor"
            );
            out[80..88].copy_from_slice(&predecessor.first_lsn.get().to_le_bytes());
            out[88..96].copy_from_slice(&predecessor.end_lsn.get().to_le_bytes());
            out[96..100].copy_from_slice(&predecessor.crc.to_le_bytes());
        }
        let crc = crc32fast::hash(&out[..100]);
        out[100..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The whole page with both copies.
    pub fn encode_page(&self) -> Vec<u8> {
        let copy = self.encode();
        let mut page = vec![0; SEGMENT_HEADER_BYTES];
        page[..HEADER_COPY_BYTES].copy_from_slice(&copy);
        page[SECOND_COPY_OFFSET..SECOND_COPY_OFFSET + HEADER_COPY_BYTES].copy_from_slice(&copy);
        page
    }

    /// The checksum that a copy at the front of `bytes` has written, and that of its bytes: what to show of one that is
    /// damaged. Nothing when the bytes end before the copy does.
    pub fn crcs(bytes: &[u8]) -> Option<(u32, u32)> {
        let bytes = bytes.get(..HEADER_COPY_BYTES)?;
        Some((u32_at(bytes, 100), crc32fast::hash(&bytes[..100])))
    }

    /// Reads one copy, at the front of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let bytes = bytes.get(..HEADER_COPY_BYTES).ok_or(HeaderError::Damaged)?;
        if bytes[..8] != MAGIC || u32_at(bytes, 100) != crc32fast::hash(&bytes[..100]) {
            return Err(HeaderError::Damaged);
        }
        // A newer format keeps magic, version and checksum where they are, so that it can be named.
        match u32_at(bytes, 8) {
            FORMAT_VERSION => {}
            0 => return Err(HeaderError::Damaged),
            newer => return Err(HeaderError::NewerFormat(newer)),
        }
        let mut cursor = Cursor::new(&bytes[12..100]);
        let damaged = |_| HeaderError::Damaged;
        let zero = cursor.u32().map_err(damaged)?;
        let node = cursor.node().map_err(damaged)?;
        let cluster = ClusterId(cursor.array().map_err(damaged)?);
        let first_lsn = cursor.lsn().map_err(damaged)?;
        let salt = Salt(cursor.array().map_err(damaged)?);
        let epoch = cursor.epoch().map_err(damaged)?;
        let (first, end) = (cursor.lsn().map_err(damaged)?, cursor.lsn().map_err(damaged)?);
        let crc = cursor.u32().map_err(damaged)?;
        let predecessor = match (first, end, crc) {
            (Lsn::ZERO, Lsn::ZERO, 0) => None,
            _ if first < end => Some(Predecessor {
                first_lsn: first,
                end_lsn: end,
                crc,
            }),
            _ => return Err(HeaderError::Damaged),
        };
        if zero != 0 {
            return Err(HeaderError::Damaged);
        }
        Ok(SegmentHeader {
            node,
            cluster,
            first_lsn,
            salt,
            epoch,
            predecessor,
        })
    }
}

/// The file name of the segment that begins at `first`: twenty digits and `.wal`.
pub fn segment_name(first: Lsn) -> String {
    format!("{:020}.wal", first.get())
}

/// The first lsn of a segment's file name, `None` for any other name.
pub fn parse_segment_name(name: &str) -> Option<Lsn> {
    parse_name(name, ".wal")
}

/// The file name of the snapshot that starts at `start`: twenty digits and `.snap`.
pub fn snapshot_name(start: Lsn) -> String {
    format!("{:020}.snap", start.get())
}

/// The start lsn of a snapshot's file name, `None` for any other name.
pub fn parse_snapshot_name(name: &str) -> Option<Lsn> {
    parse_name(name, ".snap")
}

fn parse_name(name: &str, suffix: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(suffix)?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(Lsn::new)
}
