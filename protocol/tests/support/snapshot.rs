//! A whole snapshot file, as docs/wal-format.md describes it: what a reader of the format has to do.

use super::owned::Owned;
use idem_protocol::snapshot::{SNAPSHOT_HEADER_BYTES, SnapshotHeader, SnapshotTrailer, TRAILER_MARK};
use idem_protocol::wal::RawRecord;
use idem_protocol::{Lsn, UnixMs};

/// Everything in a snapshot file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    pub header: SnapshotHeader,
    pub items: Vec<(Lsn, UnixMs, u8, Owned)>,
    pub trailer: SnapshotTrailer,
}

impl SnapshotFile {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.header.encode().to_vec();
        for (lsn, time, db, item) in &self.items {
            out.extend(item.encode(*lsn, *time, *db));
        }
        self.trailer.encode(&mut out);
        out.extend(crc32fast::hash(&out).to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let header = SnapshotHeader::decode(bytes).ok()?;
        let mut items = Vec::new();
        let mut rest = &bytes[SNAPSHOT_HEADER_BYTES..];
        while rest.get(..4)? != TRAILER_MARK.to_le_bytes() {
            let raw = RawRecord::parse(rest).ok()?;
            items.push((raw.lsn, raw.time, raw.db, Owned::of(raw.decode().ok()?)));
            rest = &rest[raw.bytes.len()..];
        }
        // The length counts everything after itself, the last checksum included; nothing follows.
        let length = u32::from_le_bytes(rest.get(4..8)?.try_into().unwrap());
        let rest = &rest[8..];
        if u64::from(length) != rest.len() as u64 {
            return None;
        }
        let (trailer, crc) = rest.split_at_checked(rest.len().checked_sub(4)?)?;
        let before = &bytes[..bytes.len() - 4];
        if crc != crc32fast::hash(before).to_le_bytes() {
            return None;
        }
        Some(SnapshotFile {
            header,
            items,
            trailer: SnapshotTrailer::decode(trailer).ok()?,
        })
    }
}
