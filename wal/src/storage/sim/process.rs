//! What one process sees of the simulated disk: the storage trait, with the faults in front of the platter.

use std::io;
use std::sync::MutexGuard;

use super::super::durable::widen;
use super::super::{Dir, Storage, StorageFile};
use super::platter::FileId;
use super::{Machine, SimDisk, broken, crash};

/// The disk as the process of one boot sees it.
#[derive(Clone, Debug)]
pub struct SimStorage {
    disk: SimDisk,
    boot: u64,
}

/// An open file of one boot.
#[derive(Debug)]
pub struct SimFile {
    storage: SimStorage,
    id: FileId,
    dir: Dir,
    writable: bool,
}

impl SimStorage {
    pub(super) fn new(disk: SimDisk, boot: u64) -> SimStorage {
        SimStorage { disk, boot }
    }

    /// The hardware below.
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// Whether this process has been stopped.
    pub fn is_crashed(&self) -> bool {
        let machine = self.disk.machine();
        machine.crashed || machine.boot != self.boot
    }

    /// The machine, as long as this process lives.
    fn alive(&self) -> io::Result<MutexGuard<'_, Machine>> {
        let machine = self.disk.machine();
        if machine.crashed || machine.boot != self.boot {
            return Err(crash());
        }
        Ok(machine)
    }

    fn handle(&self, id: FileId, dir: Dir, writable: bool) -> SimFile {
        SimFile {
            storage: self.clone(),
            id,
            dir,
            writable,
        }
    }
}

impl Machine {
    /// Gives back the space of a file that is about to lose this name.
    fn release(&mut self, dir: Dir, name: &str) {
        let Ok(id) = self.platter.find(dir, name) else {
            return;
        };
        let Ok(file) = self.platter.file(id) else { return };
        let bytes = widen(file.volatile.len());
        if let Some(space) = &mut self.faults.space {
            *space = space.saturating_add(bytes);
        }
    }
}

impl Storage for SimStorage {
    type File = SimFile;

    fn list(&self, dir: Dir) -> io::Result<Vec<String>> {
        let machine = self.alive()?;
        if machine.faults.unreadable.contains(&(dir, None)) {
            return Err(broken());
        }
        Ok(machine.platter.list(dir))
    }

    fn open(&self, dir: Dir, name: &str) -> io::Result<SimFile> {
        let id = self.alive()?.platter.find(dir, name)?;
        Ok(self.handle(id, dir, false))
    }

    fn open_write(&self, dir: Dir, name: &str) -> io::Result<SimFile> {
        let id = self.alive()?.platter.find(dir, name)?;
        Ok(self.handle(id, dir, true))
    }

    fn create(&self, dir: Dir, name: &str) -> io::Result<SimFile> {
        let mut machine = self.alive()?;
        machine.tick()?;
        machine.release(dir, name);
        let id = machine.platter.create(dir, name)?;
        machine.note(|| format!("create {}", dir.join(name)));
        Ok(self.handle(id, dir, true))
    }

    fn rename(&self, dir: Dir, from: &str, to: &str) -> io::Result<()> {
        let mut machine = self.alive()?;
        machine.tick()?;
        if let Some(kind) = machine.faults.fail_renames {
            return Err(kind.into());
        }
        machine.release(dir, to);
        machine.platter.rename(dir, from, to)?;
        machine.note(|| format!("rename {} {to}", dir.join(from)));
        Ok(())
    }

    fn remove(&self, dir: Dir, name: &str) -> io::Result<()> {
        let mut machine = self.alive()?;
        machine.tick()?;
        machine.release(dir, name);
        machine.platter.remove(dir, name)?;
        machine.note(|| format!("remove {}", dir.join(name)));
        Ok(())
    }

    fn sync_dir(&self, dir: Dir) -> io::Result<()> {
        let mut machine = self.alive()?;
        machine.tick()?;
        machine.note(|| format!("sync dir {}", dir.path()));
        if machine.sync_fails() {
            return Err(broken());
        }
        if !machine.platter.exists(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if !machine.faults.no_directory_sync {
            machine.platter.sync_dir(dir);
        }
        Ok(())
    }

    fn create_dir(&self, dir: Dir) -> io::Result<()> {
        let mut machine = self.alive()?;
        machine.tick()?;
        machine.platter.make_dir(dir);
        machine.note(|| format!("make dir {}", dir.path()));
        Ok(())
    }

    fn available_bytes(&self) -> io::Result<u64> {
        Ok(self.alive()?.faults.space.unwrap_or(1 << 50))
    }

    fn describe(&self, dir: Dir, name: &str) -> String {
        dir.join(name)
    }
}

impl SimFile {
    fn label(&self, machine: &Machine) -> String {
        machine
            .platter
            .file(self.id)
            .map(|file| file.label.clone())
            .unwrap_or_default()
    }

    fn sync(&self) -> io::Result<()> {
        let mut machine = self.storage.alive()?;
        machine.tick()?;
        let label = self.label(&machine);
        machine.note(|| format!("sync {label}"));
        if machine.sync_fails() {
            let seed = machine.faults.seed;
            machine.platter.sync_file_badly(self.id, seed)?;
            return Err(broken());
        }
        machine.platter.sync_file(self.id)
    }
}

impl StorageFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        let machine = self.storage.alive()?;
        Ok(widen(machine.platter.file(self.id)?.volatile.len()))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let machine = self.storage.alive()?;
        let file = machine.platter.file(self.id)?;
        let bad = |(dir, name): &(Dir, Option<String>)| {
            *dir == self.dir && name.as_ref().is_some_and(|name| dir.join(name) == file.label)
        };
        if machine.faults.unreadable.iter().any(bad) {
            return Err(broken());
        }
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(file.volatile.len());
        let count = buf.len().min(file.volatile.len() - from);
        buf[..count].copy_from_slice(&file.volatile[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        let mut machine = self.storage.alive()?;
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match &mut machine.faults.fail_writes {
            Some((0, kind)) => return Err((*kind).into()),
            Some((left, _)) => *left -= 1,
            None => {}
        }
        let start = usize::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let limit = machine.faults.short_writes.unwrap_or(usize::MAX).min(buf.len());
        let mut done = 0;
        while done < limit {
            let at = start + done;
            let mut count = (machine.platter.page_end(at) - at).min(limit - done);
            let length = machine.platter.file(self.id)?.volatile.len();
            let growth = widen((at + count).saturating_sub(length));
            if let Some(space) = &mut machine.faults.space {
                let missing = usize::try_from(growth.saturating_sub(*space)).unwrap_or(usize::MAX);
                count = count.saturating_sub(missing);
                if count == 0 {
                    break;
                }
                *space -= growth.min(*space);
            }
            machine.tick()?;
            machine
                .platter
                .write_page(self.id, at, &buf[done..done + count])?;
            done += count;
        }
        if done == 0 && !buf.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let label = self.label(&machine);
        machine.note(|| format!("write {label} {offset}+{done}"));
        Ok(done)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut machine = self.storage.alive()?;
        machine.tick()?;
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        machine.platter.set_len(self.id, bytes)?;
        let label = self.label(&machine);
        machine.note(|| format!("set length {label} {bytes}"));
        Ok(())
    }
}
