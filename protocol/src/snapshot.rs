//! A snapshot file: header, items, trailer.
//!
//! Header: `0 "IDEMSNP1"; 8 format u32; 12 zero u32; 16 cluster id; 32 start lsn u64; 40 CRC-32 of 0–39`. Items have the
//! framing of log records (StringPut and HashPut), with the lsn and time at which their partition was written. The
//! trailer begins with an item length that no record can have.
//!
//! The file is *fuzzy*: partitions are written one by one between commands, and replaying the log from the start lsn
//! gives the exact state. The trailer names the end lsn, which must be on disk in the log before the file gets its name.

use crate::cursor::{Cursor, put_epoch, u32_at};
use crate::wal::{BodyError, FORMAT_VERSION, HeaderError, MemberList};
use crate::{ClusterId, Epoch, HistoryEntry, Lsn, Member, UnixMs};

/// The first eight bytes.
pub const MAGIC: [u8; 8] = *b"IDEMSNP1";
/// Bytes before the first item.
pub const SNAPSHOT_HEADER_BYTES: usize = 44;
/// Stands where an item has its length.
pub const TRAILER_MARK: u32 = u32::MAX;
/// Bytes of the mark and the length before the trailer's rest.
pub const TRAILER_PREFIX_BYTES: usize = 8;

/// What a snapshot says about itself at its front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The history that it belongs to.
    pub cluster: ClusterId,
    /// Where replaying begins; also the file's name.
    pub start_lsn: Lsn,
}

impl SnapshotHeader {
    /// The bytes.
    pub fn encode(&self) -> [u8; SNAPSHOT_HEADER_BYTES] {
        let mut out = [0; SNAPSHOT_HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&self.cluster.0);
        out[32..40].copy_from_slice(&self.start_lsn.get().to_le_bytes());
        let crc = crc32fast::hash(&out[..40]);
        out[40..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the header at the front of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let bytes = bytes.get(..SNAPSHOT_HEADER_BYTES).ok_or(HeaderError::Damaged)?;
        if bytes[..8] != MAGIC || u32_at(bytes, 40) != crc32fast::hash(&bytes[..40]) {
            return Err(HeaderError::Damaged);
        }
        match u32_at(bytes, 8) {
            FORMAT_VERSION => {}
            0 => return Err(HeaderError::Damaged),
            newer => return Err(HeaderError::NewerFormat(newer)),
        }
        let mut cursor = Cursor::new(&bytes[12..40]);
        let damaged = |_| HeaderError::Damaged;
        if cursor.u32().map_err(damaged)? != 0 {
            return Err(HeaderError::Damaged);
        }
        let cluster = ClusterId(cursor.array().map_err(damaged)?);
        Ok(SnapshotHeader {
            cluster,
            start_lsn: cursor.lsn().map_err(damaged)?,
        })
    }
}

/// What a snapshot says at its end: which history it was taken from, and what a reader must find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotTrailer {
    /// The log's end when the last item was written.
    pub end_lsn: Lsn,
    /// The epoch then.
    pub epoch: Epoch,
    /// CRC of the record that ends at `end_lsn`, 0 at lsn 0.
    pub end_crc: u32,
    /// The log's time then.
    pub log_time: UnixMs,
    /// The history of epochs then.
    pub history: Vec<HistoryEntry>,
    /// How many members' disks a reply waits for (N).
    pub required: u8,
    /// The members then.
    pub members: Vec<Member>,
    /// Items' keys per database, for the databases that have any.
    pub databases: Vec<(u8, u64)>,
}

impl SnapshotTrailer {
    /// Appends mark, length and fields. The checksum of the whole file, which is the last four bytes, is the caller's:
    /// it has seen all bytes before.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut rest = Vec::new();
        rest.extend_from_slice(&self.end_lsn.get().to_le_bytes());
        put_epoch(&mut rest, self.epoch);
        rest.extend_from_slice(&self.end_crc.to_le_bytes());
        rest.extend_from_slice(&self.log_time.get().to_le_bytes());
        put_history(&mut rest, &self.history);
        rest.push(self.required);
        MemberList::Slice(&self.members).put(&mut rest);
        let count = u32::try_from(self.databases.len()).expect("there are at most 256 databases");
        rest.extend_from_slice(&count.to_le_bytes());
        for (db, keys) in &self.databases {
            rest.push(*db);
            rest.extend_from_slice(&keys.to_le_bytes());
        }
        // "Length of the rest" counts everything after the length, the checksum included.
        let length = u32::try_from(rest.len() + 4).expect("history and members are bounded far below 4 GiB");
        out.extend_from_slice(&TRAILER_MARK.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&rest);
    }

    /// Reads the fields: `bytes` are what follows mark and length, without the checksum.
    pub fn decode(bytes: &[u8]) -> Result<Self, BodyError> {
        let mut cursor = Cursor::new(bytes);
        let end_lsn = cursor.lsn()?;
        let epoch = cursor.epoch()?;
        let end_crc = cursor.u32()?;
        let log_time = cursor.time()?.map_err(BodyError::Time)?;
        let history = read_history(&mut cursor)?;
        let required = cursor.u8()?;
        let members = MemberList::read_members(&mut cursor)?;
        let mut databases = Vec::new();
        for _ in 0..cursor.u32()? {
            databases.push((cursor.u8()?, cursor.u64()?));
        }
        if !cursor.is_at_end() {
            return Err(BodyError::TrailingBytes);
        }
        Ok(SnapshotTrailer {
            end_lsn,
            epoch,
            end_crc,
            log_time,
            history,
            required,
            members,
            databases,
        })
    }
}

/// Appends a history: count, then epoch, nonce, node id and first lsn of each.
pub(crate) fn put_history(out: &mut Vec<u8>, history: &[HistoryEntry]) {
    let count = u32::try_from(history.len()).expect("a history has fewer than 2^32 epochs");
    out.extend_from_slice(&count.to_le_bytes());
    for entry in history {
        put_epoch(out, entry.epoch);
        out.extend_from_slice(&entry.node.0);
        out.extend_from_slice(&entry.first_lsn.get().to_le_bytes());
    }
}

/// Reads a history; grows with what is there, not with the count.
pub(crate) fn read_history(cursor: &mut Cursor<'_>) -> Result<Vec<HistoryEntry>, BodyError> {
    let count = cursor.u32()?;
    let mut history = Vec::new();
    for _ in 0..count {
        history.push(HistoryEntry {
            epoch: cursor.epoch()?,
            node: cursor.node()?,
            first_lsn: cursor.lsn()?,
        });
    }
    Ok(history)
}
