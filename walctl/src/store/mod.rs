//! A store: a directory of archived histories, each of which reads like a data directory.
//!
//! ```text
//! STORE/<cluster>-<node>-<first lsn>-<epoch>-<nonce>/   one history
//!         manifest.json       what is in it, with the checksum of each file and of the manifest itself
//!         control.archived    what `control` would say of it
//!         wal/…wal            sealed segments, byte for byte, without a gap
//!         snap/…snap          snapshots that end within them
//! ```
//!
//! A *history* is what one node wrote from one position on without ever taking anything back. Epoch and nonce are those in
//! force at the end of what was archived first, so that another content of the same positions (after a repair, a failover,
//! a second restore) finds no directory of its name and gets one of its own. Segments belong to a node: two nodes of a
//! cluster have a history each.
//!
//! Every command of `walctl` reads a history as it reads a data directory ([`View`](crate::view::View) finds the control
//! file under its other name). A server refuses it: a log without `control` is no log to go on with, and an archive that
//! somebody starts a server in is one no more.
//!
//! Deliberately absent: removing anything. What is old enough to go is the operator's to say.

use std::io;
use std::path::{Path, PathBuf};

use idem_protocol::wal::SegmentHeader;
use idem_protocol::{ClusterId, Epoch, Lsn, NodeId};
use serde::{Deserialize, Serialize};

use crate::chain::Sealed;
use crate::exit::Failure;
use crate::text::Time;

/// The manifest's name.
pub(crate) const MANIFEST_NAME: &str = "manifest.json";
/// What `control` is called in an archived history.
pub(crate) const CONTROL_NAME: &str = "control.archived";
/// The version of the manifest that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// A manifest takes some hundred bytes a segment; a larger file is none.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 1 << 30;

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
    fn describe(&self) -> String {
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

/// The name of a history that begins with `sealed`, which is not empty.
pub(crate) fn history_name(sealed: &[Sealed]) -> Option<String> {
    let (first, last) = (sealed.first()?, sealed.last()?);
    let header = &first.link.header;
    let Epoch { number, nonce } = last.epoch;
    Some(format!(
        "{}-{}-{:020}-{number}-{nonce:016x}",
        header.cluster,
        header.node,
        header.first_lsn.get()
    ))
}

/// Reads the manifest of a history; nothing when `path` is none.
pub(crate) fn read_manifest(path: &Path) -> Result<Option<Manifest>, Failure> {
    let path = path.join(MANIFEST_NAME);
    let read = std::fs::metadata(&path).and_then(|metadata| {
        if !metadata.is_file() {
            // Nobody waits for a FIFO.
            return Err(io::Error::other("it is no regular file"));
        }
        if metadata.len() > MANIFEST_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        std::fs::read(&path)
    });
    match read {
        Ok(bytes) => {
            let manifest = Manifest::decode(&bytes);
            let manifest = manifest.map_err(|what| {
                Failure::usage(format!(
                    "{0}: {what}; the log beside it may be good: walctl verify {1}, walctl restore {1} --into NEW …, and \
                     walctl archive DIR --into ANOTHER-STORE --yes archives anew",
                    path.display(),
                    path.parent().unwrap_or(Path::new(".")).display()
                ))
            })?;
            Ok(Some(manifest))
        }
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(Failure::io(path.display())(error)),
    }
}

/// The histories of a store by name. A store that is not there yet has none.
pub(crate) fn histories(store: &Path) -> Result<Vec<(PathBuf, Manifest)>, Failure> {
    let entries = match std::fs::read_dir(store) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::io(store.display())(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(Failure::io(store.display()))?.path();
        if let Some(manifest) = read_manifest(&path)? {
            found.push((path, manifest));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// A stretch of a node's log that none of its histories has, between two that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The end of the history before it.
    pub(crate) from: Lsn,
    /// Where the next one begins.
    pub(crate) to: Lsn,
    /// The history before it.
    pub(crate) before: PathBuf,
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "lsn {0} to {1} is archived nowhere: {2} ends at {0}, and when it was to be gone on with, the log began at {1}. \
             There is no state in between, nor after it before the first snapshot that is archived; run walctl archive \
             before a server writes wal-keep-bytes of log",
            self.from,
            self.to,
            self.before.display()
        )
    }
}

/// What is missing before `begin`, where a history of this node begins. Nothing when another one reaches there.
pub(crate) fn gap(
    histories: &[(PathBuf, Manifest)],
    (cluster, node): (ClusterId, NodeId),
    begin: Lsn,
) -> Option<Gap> {
    let others = histories.iter().filter(|(_, other)| other.is_of(cluster, node));
    let others = others.filter_map(|(path, other)| Some((path, other.range()?)));
    let earlier = others.filter(|(_, (first, _))| *first < begin);
    let (before, (_, end)) = earlier.max_by_key(|(_, (_, end))| *end)?;
    (end < begin).then(|| Gap {
        from: end,
        to: begin,
        before: before.clone(),
    })
}

/// The one history that `path` means: itself, or the only one in the store that it is. Several are listed in the error, for
/// the caller to choose.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, Failure> {
    if read_manifest(path)?.is_some() {
        return Ok(path.to_owned());
    }
    std::fs::read_dir(path).map_err(Failure::io(path.display()))?;
    let found = histories(path)?;
    match &found[..] {
        [] => Err(Failure::usage(format!(
            "{}: nothing was archived here (no {MANIFEST_NAME} in it or in a directory of it)",
            path.display()
        ))),
        [(only, _)] => Ok(only.clone()),
        several => {
            let lines = several
                .iter()
                .map(|(path, manifest)| format!("\n  {}: {}", path.display(), manifest.describe()));
            Err(Failure::usage(format!(
                "{}: there are several histories in it, name one:{}",
                path.display(),
                lines.collect::<String>()
            )))
        }
    }
}

#[cfg(test)]
mod tests;
