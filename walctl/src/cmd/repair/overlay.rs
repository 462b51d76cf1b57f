//! A directory as it would be after some changes, for the judge: nothing is written.
//!
//! A plan is tried here before it is shown. What is promised of it ("a server starts, the log ends at lsn …") is then the
//! verdict of the server's own function on the very bytes that carrying it out would leave.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use idem_wal::storage::{Dir, Storage, StorageFile};

use crate::read_only::{refuse_changes, refuse_writes};

/// What is different.
#[derive(Clone, Debug, Default)]
pub(super) struct Patches {
    /// Files that are gone.
    pub(super) hidden: BTreeSet<(Dir, String)>,
    /// Files that begin with other bytes.
    pub(super) heads: BTreeMap<(Dir, String), Vec<u8>>,
    /// Files that are zero from an offset on.
    pub(super) zero_from: BTreeMap<(Dir, String), u64>,
    /// Files with other contents, whether there were any before or not.
    pub(super) whole: BTreeMap<(Dir, String), Vec<u8>>,
}

/// The directory with the differences.
#[derive(Clone, Debug)]
pub(super) struct Overlay<S> {
    inner: S,
    patches: Arc<Patches>,
}

/// A file of it.
#[derive(Debug)]
pub(super) enum OverlayFile<F> {
    /// One that is on the disk.
    Changed { file: F, head: Vec<u8>, zero_from: u64 },
    /// One that is not.
    Whole(Vec<u8>),
}

impl<S: Storage> Overlay<S> {
    pub(super) fn new(inner: S, patches: Patches) -> Overlay<S> {
        Overlay {
            inner,
            patches: Arc::new(patches),
        }
    }
}

/// Why a call that writes fails.
const REFUSED: &str = "what only would be is not written";

impl<S: Storage> Storage for Overlay<S> {
    type File = OverlayFile<S::File>;

    fn list(&self, dir: Dir) -> io::Result<Vec<String>> {
        let mut names: BTreeSet<String> = self.inner.list(dir)?.into_iter().collect();
        names.retain(|name| !self.patches.hidden.contains(&(dir, name.clone())));
        let added = self.patches.whole.keys().filter(|(place, _)| *place == dir);
        names.extend(added.map(|(_, name)| name.clone()));
        Ok(names.into_iter().collect())
    }

    fn open(&self, dir: Dir, name: &str) -> io::Result<Self::File> {
        let key = (dir, name.to_owned());
        if let Some(bytes) = self.patches.whole.get(&key) {
            return Ok(OverlayFile::Whole(bytes.clone()));
        }
        if self.patches.hidden.contains(&key) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(OverlayFile::Changed {
            file: self.inner.open(dir, name)?,
            head: self.patches.heads.get(&key).cloned().unwrap_or_default(),
            zero_from: self.patches.zero_from.get(&key).copied().unwrap_or(u64::MAX),
        })
    }

    fn obstacle(&self, dir: Dir, name: &str) -> io::Result<Option<String>> {
        let key = (dir, name.to_owned());
        if self.patches.hidden.contains(&key) || self.patches.whole.contains_key(&key) {
            return Ok(None);
        }
        self.inner.obstacle(dir, name)
    }

    refuse_changes!(REFUSED);

    fn available_bytes(&self) -> io::Result<u64> {
        self.inner.available_bytes()
    }

    fn describe(&self, dir: Dir, name: &str) -> String {
        self.inner.describe(dir, name)
    }
}

impl<F: StorageFile> StorageFile for OverlayFile<F> {
    fn len(&self) -> io::Result<u64> {
        match self {
            OverlayFile::Changed { file, .. } => file.len(),
            OverlayFile::Whole(bytes) => Ok(bytes.len() as u64),
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            OverlayFile::Changed {
                file,
                head,
                zero_from,
            } => {
                let read = file.read_at(offset, buf)?;
                let found = &mut buf[..read];
                let replaced = usize::try_from(offset).ok().and_then(|at| head.get(at..));
                for (byte, other) in found.iter_mut().zip(replaced.unwrap_or_default()) {
                    *byte = *other;
                }
                let kept = usize::try_from(zero_from.saturating_sub(offset)).unwrap_or(usize::MAX);
                found[kept.min(read)..].fill(0);
                Ok(read)
            }
            OverlayFile::Whole(bytes) => {
                let left = usize::try_from(offset).ok().and_then(|at| bytes.get(at..));
                let left = left.unwrap_or_default();
                let read = left.len().min(buf.len());
                buf[..read].copy_from_slice(&left[..read]);
                Ok(read)
            }
        }
    }

    refuse_writes!(REFUSED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_only;
    use idem_wal::storage::durable::read_all;
    use idem_wal::storage::sim::SimDisk;

    #[test]
    fn each_change_is_seen_and_none_is_made() {
        let disk = SimDisk::new();
        for (dir, name, bytes) in [
            (Dir::Wal, "a", &b"abcdefgh"[..]),
            (Dir::Wal, "b", b"gone"),
            (Dir::Root, "control", b"old"),
        ] {
            disk.put(dir, name, bytes);
        }
        let before = disk.contents();
        let key = |dir, name: &str| (dir, name.to_owned());
        let overlay = Overlay::new(
            disk.storage(),
            Patches {
                hidden: [key(Dir::Wal, "b")].into(),
                heads: [(key(Dir::Wal, "a"), b"AB".to_vec())].into(),
                zero_from: [(key(Dir::Wal, "a"), 5)].into(),
                whole: [
                    (key(Dir::Root, "control"), b"newer".to_vec()),
                    (key(Dir::Wal, "c"), Vec::new()),
                ]
                .into(),
            },
        );
        assert_eq!(overlay.list(Dir::Wal).unwrap(), ["a", "c"]);
        assert_eq!(
            overlay.open(Dir::Wal, "b").unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        let read = |dir, name: &str| read_all(&overlay.open(dir, name).unwrap(), 1 << 20).unwrap();
        assert_eq!(read(Dir::Wal, "a"), b"ABcde\0\0\0");
        assert_eq!(read(Dir::Root, "control"), b"newer");
        let file = overlay.open(Dir::Wal, "a").unwrap();
        for from in 0..9 {
            let mut piece = [7; 3];
            let read = file.read_at(from, &mut piece).unwrap();
            let at = usize::try_from(from).unwrap();
            assert_eq!(piece[..read], b"ABcde\0\0\0"[at..8.min(at + 3)], "from {from}");
        }
        read_only::check(&overlay, &file);
        assert_eq!(disk.contents(), before);
    }
}
