//! A simulated disk. This page is the fault model: what the log has to survive, and what it may rely on.
//!
//! Vocabulary: a file has *volatile* bytes (the kernel's cache, what reads return) and *durable* bytes (the medium), both
//! in pages (4096 bytes unless told otherwise). A write makes its pages *dirty*, one after the other: each is one
//! operation. A directory has volatile and durable names, and the operations between them. A *boot* is one life of a
//! process: [`SimDisk`] is the hardware that a test holds, [`SimStorage`] is what one process sees of it.
//!
//! What can happen
//! * **Kill** ([`SimDisk::kill`]): the volatile state stays. Together with [`SimDisk::crash_after`] a kill falls between
//!   any two operations, and so between any two pages of one write.
//! * **Power loss** ([`SimDisk::power_loss`]): every dirty page independently becomes its durable content or any content
//!   that it had since the last successful sync; any subset of the unsynced directory operations survives, in order (a
//!   rename is one operation, a new file and the directory made for it are two).
//! * **A failed sync** ([`SimDisk::fail_sync_at`]): the pages are marked clean although some never reached the medium. A
//!   later sync does not write them and succeeds. A clean page may be dropped from the cache ([`SimDisk::evict`]) and then
//!   reads as what the medium has. A failed sync of a directory leaves its operations unsynced.
//! * **A failed read** of a chosen file or directory ([`SimDisk::fail_reads`], [`SimDisk::fail_list`]).
//! * **No space** ([`SimDisk::set_space`]): writes that make files longer are short, then fail; removing files gives space
//!   back. Writing inside a file's length needs none. **Failing and short writes** ([`SimDisk::fail_writes`],
//!   [`SimDisk::short_writes`]), **failing renames** ([`SimDisk::fail_renames`]): a directory may need a block too.
//! * **Rot**: a test changes bytes and names directly ([`SimDisk::flip`] and its siblings), volatile and durable alike.
//!
//! What cannot happen: a page is torn inside (choose a smaller page to see that), a successful sync that lies, writes that
//! reach another file, a name that points to no file.
//!
//! A crash is an error of its own kind ([`is_crash`]) that every later call of the same boot answers too, so that the
//! process under test stops like one that was killed. Everything is deterministic: chance enters by seeds only.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Dir;

mod bytes;
mod loss;
mod platter;
mod process;

pub use loss::Unsynced;
use platter::Platter;
pub use process::{SimFile, SimStorage};

/// The page size unless told otherwise.
pub const PAGE_BYTES: usize = 4096;

/// The hardware: a disk that outlives the processes using it. Clones are handles to the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk(Arc<Mutex<Machine>>);

/// A disk's whole state at one moment. Cheap to clone: files are shared until they are changed.
#[derive(Clone, Debug)]
pub struct Image(Platter);

/// The disk and what is going to go wrong with it.
#[derive(Debug)]
struct Machine {
    platter: Platter,
    faults: Faults,
    /// Which life of a process may use the disk; handles of an earlier one answer as crashed.
    boot: u64,
    crashed: bool,
    /// Changing operations since the disk was made or restored.
    operations: u64,
    trace: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default)]
struct Faults {
    /// The operations that still succeed before the crash.
    crash_after: Option<u64>,
    /// The syncs left up to the failing one.
    fail_sync_in: Option<u64>,
    /// The writes that still succeed, and the error of all later ones.
    fail_writes: Option<(u64, io::ErrorKind)>,
    short_writes: Option<usize>,
    /// The error of every rename.
    fail_renames: Option<io::ErrorKind>,
    unreadable: Vec<(Dir, Option<String>)>,
    space: Option<u64>,
    no_directory_sync: bool,
    seed: u64,
}

/// What a crashed disk answers; see [`is_crash`].
#[derive(Debug, thiserror::Error)]
#[error("the simulated machine has stopped")]
struct Crashed;

/// Whether an error is the simulated end of the process.
pub fn is_crash(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Crashed>())
}

fn crash() -> io::Error {
    io::Error::other(Crashed)
}

/// The input/output error of a broken medium, as the kernel reports it.
fn broken() -> io::Error {
    rustix::io::Errno::IO.into()
}

impl Default for SimDisk {
    fn default() -> Self {
        SimDisk::new()
    }
}

impl SimDisk {
    /// An empty disk: an existing, empty data directory.
    pub fn new() -> SimDisk {
        SimDisk::with_page_bytes(PAGE_BYTES)
    }

    /// As [`SimDisk::new`], with pages of another size (at least 1): 512 shows torn sectors.
    pub fn with_page_bytes(page_bytes: usize) -> SimDisk {
        SimDisk::from_image(&Image(Platter::new(page_bytes)))
    }

    /// A disk of its own with the state of `image`, without faults.
    pub fn from_image(image: &Image) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(Machine {
            platter: image.0.clone(),
            faults: Faults::default(),
            boot: 0,
            crashed: false,
            operations: 0,
            trace: None,
        })))
    }

    /// What the process of the present boot sees.
    pub fn storage(&self) -> SimStorage {
        SimStorage::new(self.clone(), self.machine().boot)
    }

    /// The whole state, unsynced pages and names included.
    pub fn image(&self) -> Image {
        Image(self.machine().platter.clone())
    }

    /// Takes the state of `image` and begins a new boot without faults, with the count of operations at 0.
    pub fn restore(&self, image: &Image) {
        let mut machine = self.machine();
        machine.platter = image.0.clone();
        machine.faults = Faults::default();
        machine.operations = 0;
        machine.next_boot();
    }

    /// All files with their volatile bytes: two disks with equal contents look the same to a process.
    pub fn contents(&self) -> BTreeMap<(Dir, String), Vec<u8>> {
        self.machine().platter.contents()
    }

    /// Changing operations so far: creations, pages written, syncs, renames, removals, lengths set.
    pub fn operations(&self) -> u64 {
        self.machine().operations
    }

    /// Lets `operations` more operations succeed; the next one, and every call after it, answers a crash.
    pub fn crash_after(&self, operations: u64) {
        self.machine().faults.crash_after = Some(operations);
    }

    /// Whether the present boot has crashed.
    pub fn is_crashed(&self) -> bool {
        self.machine().crashed
    }

    /// Makes the `nth` sync from now (1 is the next, of files and directories alike) fail. `seed` decides which of the
    /// pages reach the medium all the same.
    pub fn fail_sync_at(&self, nth: u64, seed: u64) {
        let mut machine = self.machine();
        machine.faults.fail_sync_in = Some(nth.max(1));
        machine.faults.seed = seed;
    }

    /// After `after` more calls every write fails with an error of this kind, until [`SimDisk::heal_writes`].
    pub fn fail_writes(&self, after: u64, kind: io::ErrorKind) {
        self.machine().faults.fail_writes = Some((after, kind));
    }

    /// From now on every rename fails with an error of this kind and changes nothing, until [`SimDisk::heal_writes`].
    pub fn fail_renames(&self, kind: io::ErrorKind) {
        self.machine().faults.fail_renames = Some(kind);
    }

    /// Ends [`SimDisk::fail_writes`], [`SimDisk::fail_renames`] and [`SimDisk::short_writes`].
    pub fn heal_writes(&self) {
        let mut machine = self.machine();
        machine.faults.fail_writes = None;
        machine.faults.fail_renames = None;
        machine.faults.short_writes = None;
    }

    /// From now on one call writes at most `bytes` (at least 1).
    pub fn short_writes(&self, bytes: usize) {
        self.machine().faults.short_writes = Some(bytes.max(1));
    }

    /// Reads of this file fail, in this boot and later ones; opening it works.
    pub fn fail_reads(&self, dir: Dir, name: &str) {
        self.machine()
            .faults
            .unreadable
            .push((dir, Some(name.to_owned())));
    }

    /// Listing this directory fails.
    pub fn fail_list(&self, dir: Dir) {
        self.machine().faults.unreadable.push((dir, None));
    }

    /// The bytes by which files may still grow; none = no limit.
    pub fn set_space(&self, bytes: Option<u64>) {
        self.machine().faults.space = bytes;
    }

    /// Syncs of directories succeed and do nothing: a deliberately broken disk.
    pub fn ignore_directory_syncs(&self) {
        self.machine().faults.no_directory_sync = true;
    }

    /// Begins (or begins again) to note the operations, as words: `write wal/new.tmp 0+4096`, `sync wal/…`, `sync dir wal`,
    /// `rename wal/a b`, `create …`, `remove …`.
    pub fn start_trace(&self) {
        self.machine().trace = Some(Vec::new());
    }

    /// What was noted since [`SimDisk::start_trace`].
    pub fn trace(&self) -> Vec<String> {
        self.machine().trace.clone().unwrap_or_default()
    }

    /// The process ends and the kernel lives on: a new boot that sees the volatile state.
    pub fn kill(&self) {
        self.machine().next_boot();
    }

    /// What a power loss would have to decide about, in the order in which it asks.
    pub fn unsynced(&self) -> Vec<Unsynced> {
        self.machine().platter.unsynced()
    }

    /// The power goes off and comes back. `keep` is asked once for each of [`SimDisk::unsynced`]: 0 = lost; otherwise the
    /// content number 1 (oldest) to [`Unsynced::versions`] (newest; anything above means the newest too).
    pub fn power_loss(&self, keep: &mut dyn FnMut(&Unsynced) -> usize) {
        let mut machine = self.machine();
        machine.platter.power_loss(keep);
        machine.next_boot();
    }

    /// A power loss with chance from `seed`: nothing, everything or some of it is kept.
    pub fn power_loss_seeded(&self, seed: u64) {
        let mut chance = SplitMix(seed);
        let mut percent = [0, 20, 50, 80, 100][chance.below(5)];
        let names = [0, 50, 100][chance.below(3)];
        self.power_loss(&mut |what| {
            if let Unsynced::Name { .. } = what {
                percent = names;
            }
            if chance.below(100) >= percent {
                0
            } else if chance.below(100) < 70 {
                usize::MAX
            } else {
                1 + chance.below(what.versions())
            }
        });
    }

    /// Drops clean pages from the cache, each with a chance of `percent`; only those differ afterwards that a failed sync
    /// marked clean without writing them. Returns how many changed.
    pub fn evict(&self, percent: usize, seed: u64) -> usize {
        let mut chance = SplitMix(seed);
        self.machine().platter.evict(&mut |_| chance.below(100) < percent)
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        // A panicking test thread must not hide its message behind a poisoned lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Machine {
    fn next_boot(&mut self) {
        self.boot += 1;
        self.crashed = false;
        self.faults.crash_after = None;
        self.faults.fail_sync_in = None;
        self.platter.forget_unreachable();
    }

    /// Counts one changing operation, or crashes before it.
    fn tick(&mut self) -> io::Result<()> {
        if let Some(left) = &mut self.faults.crash_after {
            if *left == 0 {
                self.crashed = true;
                return Err(crash());
            }
            *left -= 1;
        }
        self.operations += 1;
        Ok(())
    }

    fn note(&mut self, words: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(words());
        }
    }

    /// Whether the sync that is being made is the one that fails.
    fn sync_fails(&mut self) -> bool {
        match &mut self.faults.fail_sync_in {
            Some(1) => {
                self.faults.fail_sync_in = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}

/// Small seeded chance (SplitMix64, Steele et al. 2014): the same seed gives the same disk everywhere.
#[derive(Clone, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = super::durable::widen(bound).max(1);
        usize::try_from(self.next_u64() % bound).expect("the remainder is below a usize")
    }
}

#[cfg(test)]
mod tests;
