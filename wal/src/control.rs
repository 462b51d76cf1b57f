//! The control file, held in memory and replaced on disk as a whole.
//!
//! One [`ControlFile`] per open log, shared by everything that changes it: the writer (newest segment, clean mark), the
//! publication of snapshots, later replication (promises, role, history). A change is visible in memory only once it is
//! durable, so that nobody acts on a promise that a power loss takes back.
//!
//! Space first, here too: a rotation on a full disk must be able to name its segment, and a shutdown to leave its mark. So
//! after each change a file of zeros is left behind ([`CONTROL_SPARE`]), and the next change is written into it.
//!
//! Deliberately absent: what the fields mean, and reading a file that may be damaged (recovery judges that).

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idem_protocol::control::Control;

use crate::error::{FatalError, WriteError};
use crate::storage::durable::{sync_directory, sync_file_and_length, widen, write_all_at, zero_fill};
use crate::storage::{Dir, Storage, StorageFile};

/// The file's name, in the data directory.
pub const CONTROL_NAME: &str = "control";
/// What it is written as before it gets its name; removed at a start.
pub const CONTROL_TEMPORARY: &str = "control.tmp";
/// The space that the next change is written into; its contents mean nothing, and it may be missing.
pub const CONTROL_SPARE: &str = "control.spare";

/// A control file is some hundred bytes; one of more than so many is damaged, whatever it holds, and is not read.
pub const CONTROL_BYTES_MAX: u64 = 64 << 20;

/// What one change may add: a history entry, a member, an address.
const ROOM_BYTES: usize = 512;
const PAGE_BYTES: u64 = 4096;

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
        self.replace(&next.encode())?;
        *current = next;
        Ok(())
    }

    /// Temporary, sync, rename, sync of the directory.
    fn replace(&self, bytes: &[u8]) -> Result<(), WriteError> {
        let storage = &self.0.storage;
        // A link, or a file with a second name, is somebody else's space; what is no file is none at all.
        let reserved = storage.is_own(Dir::Root, CONTROL_SPARE).unwrap_or(false)
            && storage
                .rename(Dir::Root, CONTROL_SPARE, CONTROL_TEMPORARY)
                .is_ok();
        let written = self.write_temporary(reserved, bytes).map_err(|error| {
            // The space goes back to where it was; what cannot be tidied up now is overwritten by the next attempt.
            let _ = if reserved {
                storage.rename(Dir::Root, CONTROL_TEMPORARY, CONTROL_SPARE)
            } else {
                storage.remove(Dir::Root, CONTROL_TEMPORARY)
            };
            WriteError::Retry(error)
        });
        // The space that was kept for it is longer than the contents.
        sync_file_and_length(storage, &written?, Dir::Root, CONTROL_TEMPORARY)?;
        storage
            .rename(Dir::Root, CONTROL_TEMPORARY, CONTROL_NAME)
            .map_err(WriteError::Retry)?;
        sync_directory(storage, Dir::Root)?;
        self.reserve(bytes.len());
        Ok(())
    }

    fn write_temporary(&self, reserved: bool, bytes: &[u8]) -> io::Result<S::File> {
        let storage = &self.0.storage;
        let file = if reserved {
            storage.open_write(Dir::Root, CONTROL_TEMPORARY)?
        } else {
            storage.create(Dir::Root, CONTROL_TEMPORARY)?
        };
        write_all_at(&file, 0, bytes)?;
        if file.len()? > widen(bytes.len()) {
            file.set_len(widen(bytes.len()))?;
        }
        Ok(file)
    }

    /// Leaves space for the next change, with room for what a change adds. When there is none, the next change needs space
    /// like any other write, and says so when it finds none.
    fn reserve(&self, bytes: usize) {
        let storage = &self.0.storage;
        let room = widen(bytes + ROOM_BYTES).next_multiple_of(PAGE_BYTES);
        let made = storage
            .create(Dir::Root, CONTROL_SPARE)
            .and_then(|file| zero_fill(&file, 0, room));
        if made.is_err() {
            let _ = storage.remove(Dir::Root, CONTROL_SPARE);
        }
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
    fn a_full_disk_does_not_hinder_the_next_change() {
        let disk = SimDisk::new();
        let control = ControlFile::create(disk.storage(), Control::default()).unwrap();
        for clean in 1..5 {
            disk.set_space(Some(0));
            control
                .try_update(|control| control.clean_end = Some(Lsn::new(clean)))
                .unwrap();
            assert_eq!(on_disk(&disk).clean_end, Some(Lsn::new(clean)));
            // The old file's bytes are free again, but too few for the next spare: somebody else took the rest.
            assert_eq!(disk.names(Dir::Root), [CONTROL_NAME]);
            disk.set_space(None);
            control.try_update(|_| ()).unwrap();
            assert_eq!(disk.names(Dir::Root), [CONTROL_NAME, CONTROL_SPARE]);
        }
    }

    #[test]
    fn without_any_space_the_old_file_stands_and_a_later_change_works() {
        let disk = SimDisk::new();
        let control = ControlFile::create(disk.storage(), Control::default()).unwrap();
        disk.remove(Dir::Root, CONTROL_SPARE);
        disk.set_space(Some(10));
        let failed = control.try_update(|control| control.promised_epoch = 3);
        assert!(matches!(failed, Err(WriteError::Retry(_))), "{failed:?}");
        assert_eq!(control.read(), on_disk(&disk));
        assert_eq!(control.read().promised_epoch, 0);
        assert_eq!(disk.names(Dir::Root), [CONTROL_NAME]);
        disk.set_space(None);
        disk.fail_writes(0, io::ErrorKind::StorageFull);
        assert!(control.try_update(|control| control.promised_epoch = 3).is_err());
        disk.heal_writes();
        control.try_update(|control| control.promised_epoch = 3).unwrap();
        assert_eq!(on_disk(&disk).promised_epoch, 3);
    }

    #[test]
    fn at_every_crash_the_file_is_the_old_or_the_new_one() {
        let history = vec![idem_protocol::HistoryEntry::default(); 200];
        for crash_after in 0.. {
            let disk = SimDisk::new();
            let control = ControlFile::create(disk.storage(), Control::default()).unwrap();
            disk.crash_after(crash_after);
            let done = control
                .try_update(|control| control.history = history.clone())
                .is_ok();
            let crashed = disk.is_crashed();
            for seed in 0..20 {
                let after = SimDisk::from_image(&disk.image());
                after.power_loss_seeded(seed);
                let found = on_disk(&after);
                assert!(
                    found.history == history || !done && found == Control::default(),
                    "{crash_after} {seed}"
                );
            }
            if !crashed {
                return;
            }
        }
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
