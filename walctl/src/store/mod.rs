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

mod manifest;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use idem_protocol::{ClusterId, Epoch, Lsn, NodeId};

pub(crate) use self::manifest::{Manifest, SegmentEntry, SnapshotEntry};
use crate::chain::Sealed;
use crate::exit::Failure;

/// The manifest's name.
pub(crate) const MANIFEST_NAME: &str = "manifest.json";
/// What `control` is called in an archived history.
pub(crate) const CONTROL_NAME: &str = "control.archived";
/// A manifest takes some hundred bytes a segment; a larger file is none.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 1 << 30;

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
