//! What a manifest says of a history: its segments and snapshots, and what follows from them.
//!
//! The file is JSON with a checksum over the compact form of its own fields, so that blanks may change and nothing else.
//! Segments stand in order, each beginning where the one before ends; what is added to a history has to be the same where
//! both have something, leave no gap, and name what is archived before it.
//!
//! Deliberately absent: files. The bytes of a manifest are read by the [store](super), and written by `walctl archive`.

use idem_protocol::wal::SegmentHeader;
use idem_protocol::{ClusterId, Lsn, NodeId};
use serde::{Deserialize, Serialize};

use crate::chain::Sealed;
use crate::text::Time;

/// The version of the manifest that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// An archived segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentEntry {
    /// Its name in `wal`.
    pub(crate) file: String,
    pub(crate) first_lsn: u64,
    pub(crate) end_lsn: u64,
    /// CRC-32 of its record bytes, which its successor's header vouches for.
    pub(crate) records_crc: u32,
    /// Times of its first and last record.
    pub(crate) first_time_ms: u64,
    pub(crate) last_time_ms: u64,
    pub(crate) bytes: u64,
    /// CRC-32 of the whole file.
    pub(crate) crc: u32,
}

/// An archived snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotEntry {
    /// Its name in `snap`.
    pub(crate) file: String,
    pub(crate) start_lsn: u64,
    pub(crate) end_lsn: u64,
    pub(crate) bytes: u64,
    /// CRC-32 of the whole file.
    pub(crate) crc: u32,
}

/// What is in a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: u32,
    pub(crate) cluster: String,
    pub(crate) node: String,
    /// In order, each beginning where the one before ends.
    pub(crate) segments: Vec<SegmentEntry>,
    /// In order.
    pub(crate) snapshots: Vec<SnapshotEntry>,
}

/// The file: the manifest and the checksum of its own JSON.
#[derive(Serialize, Deserialize)]
struct Sealing {
    manifest: Manifest,
    crc: u32,
}

impl Manifest {
    /// Of a history with nothing in it.
    pub(crate) fn new(cluster: ClusterId, node: NodeId) -> Manifest {
        Manifest {
            format: FORMAT,
            cluster: cluster.to_string(),
            node: node.to_string(),
            segments: Vec::new(),
            snapshots: Vec::new(),
        }
    }

    /// The file's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let sealing = Sealing {
            manifest: self.clone(),
            crc: self.checksum(),
        };
        let mut bytes = serde_json::to_vec_pretty(&sealing).expect("numbers and strings become JSON");
        bytes.push(b'\n');
        bytes
    }

    /// Reads a whole file; the error is in words.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest, String> {
        // The version first: another one may have other fields, and its checksum another meaning.
        let value: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|error| format!("no manifest: {error}"))?;
        match value["manifest"]["format"].as_u64() {
            Some(format) if format > u64::from(FORMAT) => {
                return Err(format!("format {format} is newer than this version reads"));
            }
            Some(1..) => {}
            _ => return Err("no manifest: it has no format".to_owned()),
        }
        let Sealing { manifest, crc } =
            serde_json::from_value(value).map_err(|error| format!("no manifest: {error}"))?;
        let found = manifest.checksum();
        if found != crc {
            return Err(format!("damaged: CRC {found:08x} instead of {crc:08x}"));
        }
        Ok(manifest)
    }

    /// Over the compact JSON of the fields in the order of this program, whatever blanks the file has.
    fn checksum(&self) -> u32 {
        crc32fast::hash(&serde_json::to_vec(self).expect("numbers and strings become JSON"))
    }

    /// Whether it is of this node.
    pub(crate) fn is_of(&self, cluster: ClusterId, node: NodeId) -> bool {
        (&self.cluster, &self.node) == (&cluster.to_string(), &node.to_string())
    }

    /// Where the archived log begins and ends; nothing while there is none.
    pub(crate) fn range(&self) -> Option<(Lsn, Lsn)> {
        let (first, last) = (self.segments.first()?, self.segments.last()?);
        Some((Lsn::new(first.first_lsn), Lsn::new(last.end_lsn)))
    }

    /// Whether a state can be made of it: by the log from its very beginning, or with a snapshot.
    pub(crate) fn is_restorable(&self) -> bool {
        let Some((first, end)) = self.range() else {
            return false;
        };
        let mut snapshots = self.snapshots.iter();
        first == Lsn::ZERO
            || snapshots.any(|snapshot| snapshot.start_lsn >= first.get() && snapshot.end_lsn <= end.get())
    }

    /// Whether `sealed`, in order, is this history: the same where both have something, and going on without a gap.
    pub(crate) fn is_continued_by(&self, sealed: &[Sealed]) -> bool {
        let (Some((_, end)), Some(first), Some(last)) = (self.range(), sealed.first(), sealed.last()) else {
            return false;
        };
        let same = |segment: &Sealed| {
            let first = segment.link.first().get();
            let known = self.segments.iter().find(|entry| entry.first_lsn == first);
            match known {
                Some(known) => (known.end_lsn, known.records_crc) == (segment.end.get(), segment.crc),
                None => segment.link.first() >= end || segment.end.get() <= self.segments[0].first_lsn,
            }
        };
        let meets = last.end <= end || sealed.iter().any(|segment| segment.link.first() == end);
        // A copy of the same directory that another server went on with has the same ids, and may have the same positions:
        // what stands where this history ends, or in the middle of it, has to name what is archived before it.
        let follows = sealed.iter().all(|segment| self.precedes(&segment.link.header));
        // Nothing says of older segments alone that they are older ones of this history.
        let touches = sealed
            .iter()
            .any(|segment| segment.end.get() > self.segments[0].first_lsn);
        first.link.first() <= end && meets && touches && follows && sealed.iter().all(same)
    }

    /// Whether the predecessor that a header names is the one that is archived. Behind the first segment there has to be one;
    /// before it there is nothing to compare.
    pub(crate) fn precedes(&self, header: &SegmentHeader) -> bool {
        let first = header.first_lsn.get();
        let before = self.segments.iter().find(|entry| entry.end_lsn == first);
        match (before, header.predecessor) {
            (Some(before), Some(named)) => {
                (before.first_lsn, before.end_lsn, before.records_crc)
                    == (named.first_lsn.get(), named.end_lsn.get(), named.crc)
            }
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    /// For a person who has to choose one of several.
    pub(super) fn describe(&self) -> String {
        let Some((first, end)) = self.range() else {
            return "empty".to_owned();
        };
        let time = |ms: Option<u64>| Time::from(idem_protocol::UnixMs::new(ms.unwrap_or(0)));
        format!(
            "lsn {first} to {end}, {} to {}",
            time(self.segments.first().map(|entry| entry.first_time_ms)),
            time(self.segments.last().map(|entry| entry.last_time_ms))
        )
    }
}
