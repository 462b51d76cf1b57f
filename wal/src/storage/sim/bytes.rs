//! Direct access for tests: reading, making and damaging files without a process. Changes hit cache and medium alike.

use super::super::Dir;
use super::SimDisk;

impl SimDisk {
    /// A file's volatile bytes.
    pub fn bytes(&self, dir: Dir, name: &str) -> Option<Vec<u8>> {
        let machine = self.machine();
        let id = machine.platter.find(dir, name).ok()?;
        machine.platter.file(id).ok().map(|file| file.volatile.clone())
    }

    /// The names in a directory.
    pub fn names(&self, dir: Dir) -> Vec<String> {
        self.machine().platter.list(dir)
    }

    /// Makes or replaces a file, durably; its directory is made when it is missing. Everything else unsynced becomes
    /// durable too.
    pub fn put(&self, dir: Dir, name: &str, bytes: &[u8]) {
        let mut machine = self.machine();
        machine.platter.make_dir(dir);
        machine
            .platter
            .create(dir, name)
            .expect("its directory was made just now");
        machine
            .platter
            .rot(dir, name, |file| file.extend_from_slice(bytes));
        machine.platter.settle();
    }

    /// Makes all that is unsynced durable.
    pub fn settle(&self) {
        self.machine().platter.settle();
    }

    /// Flips the bits of `mask` in one byte. False when there is no such byte.
    pub fn flip(&self, dir: Dir, name: &str, offset: usize, mask: u8) -> bool {
        let mut hit = false;
        self.change(dir, name, |bytes| {
            if let Some(byte) = bytes.get_mut(offset) {
                *byte ^= mask;
                hit = true;
            }
        });
        hit
    }

    /// Writes over a file's bytes; it grows when they reach beyond its end.
    pub fn overwrite(&self, dir: Dir, name: &str, offset: usize, bytes: &[u8]) -> bool {
        self.change(dir, name, |file| {
            let end = offset + bytes.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            file[offset..end].copy_from_slice(bytes);
        })
    }

    /// Cuts a file to `length` bytes; nothing happens to a shorter one.
    pub fn truncate(&self, dir: Dir, name: &str, length: usize) -> bool {
        self.change(dir, name, |bytes| bytes.truncate(length))
    }

    /// Adds bytes at a file's end.
    pub fn append(&self, dir: Dir, name: &str, bytes: &[u8]) -> bool {
        self.change(dir, name, |file| file.extend_from_slice(bytes))
    }

    /// Changes a file's bytes in any way. False when there is no such file.
    pub fn change(&self, dir: Dir, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.machine().platter.rot(dir, name, change)
    }

    /// Removes a file, durably.
    pub fn remove(&self, dir: Dir, name: &str) -> bool {
        let mut machine = self.machine();
        let removed = machine.platter.remove(dir, name).is_ok();
        machine.platter.sync_dir(dir);
        removed
    }

    /// Gives a file another name, durably.
    pub fn rename(&self, dir: Dir, from: &str, to: &str) -> bool {
        let mut machine = self.machine();
        let renamed = machine.platter.rename(dir, from, to).is_ok();
        machine.platter.sync_dir(dir);
        renamed
    }

    /// Swaps the bytes of two files. False, and nothing happens, when one is missing.
    pub fn swap(&self, dir: Dir, left: &str, right: &str) -> bool {
        let (Some(left_bytes), Some(right_bytes)) = (self.bytes(dir, left), self.bytes(dir, right)) else {
            return false;
        };
        self.change(dir, left, |bytes| *bytes = right_bytes)
            && self.change(dir, right, |bytes| *bytes = left_bytes)
    }
}
