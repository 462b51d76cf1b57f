//! The control file, held in memory and replaced on disk as a whole.
//!
//! One [`ControlFile`] per open log, shared by everything that changes it: the writer (newest segment, clean mark), the
//! publication of snapshots, later replication (promises, role, history). A change is visible in memory only once it is
//! durable, so that nobody acts on a promise that a power loss takes back.
//!
//! Deliberately absent: what the fields mean, and reading a file that may be damaged (recovery judges that).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idem_protocol::control::Control;

use crate::error::{FatalError, WriteError};
use crate::storage::durable::replace_file;
use crate::storage::{Dir, Storage};

/// The file's name, in the data directory.
pub const CONTROL_NAME: &str = "control";
/// What it is written as before it gets its name; removed at a start.
pub const CONTROL_TEMPORARY: &str = "control.tmp";

/// The control file of an open log. Clones are handles to the same one.
#[derive(Debug)]
pub struct ControlFile<S>(Arc<Shared<S>>);

#[derive(Debug)]
struct Shared<S> {
    storage: S,
    current: Mutex<Control>,
}

impl<S> Clone for ControlFile<S> {
    fn clone(&self) -> Self {
        ControlFile(Arc::clone(&self.0))
    }
}

impl<S: Storage> ControlFile<S> {
    /// Holds what is on disk already; writes nothing.
    pub fn adopt(storage: S, current: Control) -> ControlFile<S> {
        ControlFile(Arc::new(Shared {
            storage,
            current: Mutex::new(current),
        }))
    }

    /// Writes the first control file of a directory, or one that replaces whatever is there.
    pub fn create(storage: S, first: Control) -> Result<ControlFile<S>, WriteError> {
        let file = ControlFile::adopt(storage, Control::default());
        file.try_update(|control| *control = first)?;
        Ok(file)
    }

    /// What the file says.
    pub fn read(&self) -> Control {
        self.lock().clone()
    }

    /// Changes the file; durable when it returns. Every failure ends the process.
    pub fn update(&self, change: impl FnOnce(&mut Control)) -> Result<(), FatalError> {
        let what = || format!("writing {}", self.0.storage.describe(Dir::Root, CONTROL_NAME));
        self.try_update(change).map_err(|error| error.into_fatal(what()))
    }

    /// As [`ControlFile::update`], for callers that can come back: after `Retry` (no space, say) the old contents stand, on
    /// disk and in memory.
    pub fn try_update(&self, change: impl FnOnce(&mut Control)) -> Result<(), WriteError> {
        // The lock is held while the file is written: two updates must not race for the temporary name.
        let mut current = self.lock();
        let mut next = current.clone();
        change(&mut next);
        replace_file(
            &self.0.storage,
            Dir::Root,
            CONTROL_NAME,
            CONTROL_TEMPORARY,
            &next.encode(),
        )?;
        *current = next;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Control> {
        // The value is replaced as a whole, after the write: a panic elsewhere cannot leave half of one.
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::sim::SimDisk;
    use idem_protocol::Lsn;

    fn on_disk(disk: &SimDisk) -> Control {
        Control::decode(&disk.bytes(Dir::Root, CONTROL_NAME).unwrap()).unwrap()
    }

    #[test]
    fn a_change_is_on_disk_when_it_is_visible() {
        let disk = SimDisk::new();
        let control = ControlFile::create(disk.storage(), Control::default()).unwrap();
        let other = control.clone();
        control
            .update(|control| control.clean_end = Some(Lsn::new(7)))
            .unwrap();
        assert_eq!(other.read().clean_end, Some(Lsn::new(7)));
        disk.power_loss(&mut |_| 0);
        assert_eq!(on_disk(&disk), other.read());
    }

    #[test]
    fn without_space_the_old_file_stands_and_a_later_change_works() {
        let disk = SimDisk::new();
        let control = ControlFile::create(disk.storage(), Control::default()).unwrap();
        disk.set_space(Some(10));
        let failed = control.try_update(|control| control.promised_epoch = 3);
        assert!(matches!(failed, Err(WriteError::Retry(_))), "{failed:?}");
        assert_eq!(control.read(), on_disk(&disk));
        assert_eq!(control.read().promised_epoch, 0);
        assert_eq!(disk.names(Dir::Root), [CONTROL_NAME]);
        disk.set_space(None);
        control.try_update(|control| control.promised_epoch = 3).unwrap();
        assert_eq!(on_disk(&disk).promised_epoch, 3);
    }

    #[test]
    fn a_failed_sync_of_file_or_directory_is_fatal() {
        for nth in [1, 2] {
            let disk = SimDisk::new();
            let control = ControlFile::create(disk.storage(), Control::default()).unwrap();
            disk.fail_sync_at(nth, 0);
            let failed = control.try_update(|control| control.promised_epoch = 3);
            assert!(
                matches!(failed, Err(WriteError::Fatal(_))),
                "sync {nth}: {failed:?}"
            );
            assert_eq!(control.read().promised_epoch, 0);
        }
    }
}
