//! A directory for one test: removed when it passes, kept with all that is needed to repeat it when it fails.

use std::path::{Path, PathBuf};

use crate::rng::{SEED_VARIABLE, seed};

/// A temporary directory and the seed of the test that uses it.
#[derive(Debug)]
pub struct TestDir {
    directory: Option<tempfile::TempDir>,
    seed: u64,
}

impl TestDir {
    /// A new directory; `default_seed` counts unless `IDEM_SEED` is set.
    pub fn new(name: &str, default_seed: u64) -> TestDir {
        TestDir::under(&std::env::temp_dir(), name, default_seed)
    }

    /// The same on a file system in memory, when there is one with so much free space: for tests that measure something
    /// else than the disk.
    pub fn in_memory(name: &str, default_seed: u64, bytes: u64) -> TestDir {
        let memory = Path::new("/dev/shm");
        let has_room = rustix::fs::statvfs(memory)
            .is_ok_and(|space| space.f_bavail.saturating_mul(space.f_frsize) >= bytes);
        if has_room {
            TestDir::under(memory, name, default_seed)
        } else {
            TestDir::new(name, default_seed)
        }
    }

    fn under(parent: &Path, name: &str, default_seed: u64) -> TestDir {
        let directory = tempfile::Builder::new()
            .prefix(&format!("idem-{name}-"))
            .tempdir_in(parent)
            .expect("a test needs a temporary directory");
        TestDir {
            directory: Some(directory),
            seed: seed(default_seed),
        }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        self.directory
            .as_ref()
            .expect("the directory lives as long as this value")
            .path()
    }

    /// A data directory inside it; not created.
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Keeps the directory, whatever becomes of the test.
    pub fn keep(&mut self) -> PathBuf {
        let directory = self.directory.take().expect("a directory is kept once");
        directory.keep()
    }

    /// The seed of this run.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        if let Some(directory) = self.directory.take() {
            eprintln!("the data directory is kept: {}", directory.keep().display());
        }
        eprintln!(
            "the seed was {}; repeat with: {}",
            self.seed,
            repeat_command(self.seed)
        );
    }
}

/// The command that runs the current test again with the same seed.
fn repeat_command(seed: u64) -> String {
    let executable = std::env::current_exe().ok();
    let file = executable
        .as_deref()
        .and_then(Path::file_stem)
        .and_then(|stem| stem.to_str())
        .unwrap_or_default();
    // cargo names a test's executable `file-hash`.
    let (test_file, _) = file.rsplit_once('-').unwrap_or((file, ""));
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    format!("{SEED_VARIABLE}={seed} cargo test -p idem-testsuite --test {test_file} -- --exact {name}")
}
