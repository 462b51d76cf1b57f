//! A data directory that can only be looked at.
//!
//! The reader and the verdict take any storage. This one opens files for reading and refuses everything else, so that a
//! mistake in a command cannot become a change of somebody's log. It also counts what is read, for the progress bar, and
//! puts the file's name into errors.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use idem_protocol::wal::{parse_segment_name, parse_snapshot_name};
use idem_wal::control::CONTROL_NAME;
use idem_wal::lock::{Liveness, probe_shared};
use idem_wal::storage::{Dir, DiskFile, DiskStorage, Storage, StorageFile};

use crate::exit::Failure;
use crate::progress::Meter;
use crate::read_only::{refuse_changes, refuse_writes};
use crate::store;
use crate::vouched::{Tally, Vouched};

/// The directory. Clones look at the same one.
#[derive(Clone, Debug)]
pub(crate) struct View {
    disk: DiskStorage,
    meter: Arc<Meter>,
    /// For an archived log, what was archived.
    vouched: Option<Arc<Vouched>>,
}

/// A file of it.
#[derive(Debug)]
pub(crate) struct ViewFile {
    file: DiskFile,
    name: String,
    meter: Arc<Meter>,
    tally: Option<Arc<Tally>>,
}

impl View {
    /// An existing directory; what is in it is not looked at.
    pub(crate) fn open(path: &Path, meter: Arc<Meter>) -> Result<View, Failure> {
        let disk = DiskStorage::open(path).map_err(Failure::io(path.display()))?;
        Ok(View::on(disk, meter))
    }

    /// The directory that somebody has open already, such as one whose lock is held.
    pub(crate) fn on(disk: DiskStorage, meter: Arc<Meter>) -> View {
        let vouched = Vouched::open(&disk).map(Arc::new);
        let view = View { disk, meter, vouched };
        if view.meter.has_bar() {
            view.meter.expect(view.bytes());
        }
        view
    }

    /// For an archived log, what was archived of it.
    pub(crate) fn vouched(&self) -> Option<&Vouched> {
        self.vouched.as_deref()
    }

    /// The directory, for whoever has to see it as it is.
    pub(crate) fn disk(&self) -> &DiskStorage {
        &self.disk
    }

    /// What is at the path now, which may be another directory.
    pub(crate) fn open_again(&self) -> Result<View, Failure> {
        View::open(self.disk.root(), Arc::clone(&self.meter))
    }

    /// Which directories the path and the log below it lead to now; nothing when one of them is missing.
    pub(crate) fn identity(&self) -> Option<[(u64, u64); 2]> {
        let root = self.disk.root();
        let id = |path: &Path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.dev(), metadata.ino()))
        };
        Some([id(root)?, id(&root.join(Dir::Wal.path()))?])
    }

    /// Whether a server has the directory now.
    pub(crate) fn is_live(&self) -> Result<bool, Failure> {
        let root = self.disk.root();
        let liveness =
            probe_shared(root).map_err(Failure::io(format_args!("the lock of {}", root.display())))?;
        Ok(liveness == Liveness::Live)
    }

    /// What there is to read, as far as it can be told; only for the bar.
    fn bytes(&self) -> u64 {
        let mut bytes: u64 = 0;
        for dir in [Dir::Wal, Dir::Snap] {
            for name in self.list(dir).unwrap_or_default() {
                if parse_segment_name(&name).is_some() || parse_snapshot_name(&name).is_some() {
                    let file = self.disk.open(dir, &name).and_then(|file| file.len());
                    bytes = bytes.saturating_add(file.unwrap_or(0));
                }
            }
        }
        bytes
    }
}

/// Says which file it was.
fn naming(name: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{name}: {error}"))
}

/// Why a call that writes fails.
const REFUSED: &str = "a tool that only looks does not write";

impl Storage for View {
    type File = ViewFile;

    fn list(&self, dir: Dir) -> io::Result<Vec<String>> {
        let names = self
            .disk
            .list(dir)
            .map_err(naming(&self.disk.describe(dir, "")))?;
        Ok(match &self.vouched {
            Some(vouched) => vouched.archived(&self.disk, dir, names),
            None => names,
        })
    }

    fn open(&self, dir: Dir, name: &str) -> io::Result<ViewFile> {
        let file = match self.disk.open(dir, name) {
            // An archived log has it under another name, so that no server goes on with the log.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && dir == Dir::Root && name == CONTROL_NAME =>
            {
                match self.disk.open(dir, store::CONTROL_NAME) {
                    Err(other) if other.kind() == io::ErrorKind::NotFound => Err(error),
                    other => other,
                }
            }
            other => other,
        };
        let file = file.map_err(naming(&dir.join(name)))?;
        let vouched = self.vouched.as_ref();
        let tally = vouched.map(|vouched| vouched.tally(&self.disk, dir, name));
        let tally = tally.transpose().map_err(naming(&dir.join(name)))?;
        Ok(ViewFile {
            file,
            name: dir.join(name),
            meter: Arc::clone(&self.meter),
            tally: tally.flatten(),
        })
    }

    fn obstacle(&self, dir: Dir, name: &str) -> io::Result<Option<String>> {
        self.disk.obstacle(dir, name)
    }

    refuse_changes!(REFUSED);

    fn available_bytes(&self) -> io::Result<u64> {
        self.disk.available_bytes()
    }

    fn describe(&self, dir: Dir, name: &str) -> String {
        self.disk.describe(dir, name)
    }
}

impl StorageFile for ViewFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len().map_err(naming(&self.name))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(offset, buf).map_err(naming(&self.name))?;
        self.meter.add(read);
        if let Some(tally) = &self.tally {
            tally.saw(offset, &buf[..read]);
        }
        Ok(read)
    }

    refuse_writes!(REFUSED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_only;

    #[test]
    fn everything_but_reading_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("wal")).unwrap();
        std::fs::write(directory.path().join("wal/a"), b"abc").unwrap();
        let view = View::open(directory.path(), Arc::new(Meter::new(false))).unwrap();
        let file = view.open(Dir::Wal, "a").unwrap();
        let mut bytes = [0; 8];
        assert_eq!(file.read_at(1, &mut bytes).unwrap(), 2);

        read_only::check(&view, &file);
        assert_eq!(std::fs::read(directory.path().join("wal/a")).unwrap(), b"abc");
        let missing = view.open(Dir::Snap, "x").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(missing.to_string().starts_with("snap/x: "), "{missing}");
    }
}
