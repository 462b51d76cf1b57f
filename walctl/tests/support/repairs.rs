//! Damaged logs with a plan, and what a repair leaves.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{TestLog, objects, pending, string, walctl};

/// `walctl repair DIR …`
pub fn repair_dir(dir: &Path, options: &[&str]) -> Output {
    walctl(&[&["repair", dir.to_str().unwrap()], options].concat())
}

/// The letter of the verdict.
pub fn letter_of(dir: &Path) -> String {
    let output = walctl(&["verify", dir.to_str().unwrap(), "--json"]);
    let verdict = objects(&output).pop().unwrap();
    verdict["letter"].as_str().unwrap().to_owned()
}

/// `sh BACKUP/undo.sh`
pub fn undo(backup: &Path) -> Output {
    Command::new("sh").arg(backup.join("undo.sh")).output().unwrap()
}

/// Each name below a directory with all that it is but its times: kind, mode, owner, and bytes or where it leads.
pub fn tree(dir: &Path) -> BTreeMap<PathBuf, (u32, u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        let metadata = fs::symlink_metadata(&at).unwrap();
        let content = if metadata.is_symlink() {
            fs::read_link(&at).unwrap().into_os_string().into_encoded_bytes()
        } else if metadata.is_dir() {
            open.extend(fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else {
            fs::read(&at).unwrap()
        };
        let name = at.strip_prefix(dir).unwrap().to_owned();
        found.insert(name, (metadata.mode(), metadata.uid(), content));
    }
    found
}

/// The same directory in another place, links and modes included.
pub fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (source, target) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        let metadata = fs::symlink_metadata(&source).unwrap();
        if metadata.is_symlink() {
            symlink(fs::read_link(&source).unwrap(), target).unwrap();
        } else if metadata.is_dir() {
            copied(&source, &target);
        } else {
            fs::copy(&source, target).unwrap();
        }
    }
}

/// Groups of 20 kB in several segments, each synced before the next was written; not closed.
pub fn several_segments() -> TestLog {
    let mut log = TestLog::new(0);
    for number in 0..10 {
        let key = format!("pay:{number}");
        let value = vec![b'v'; 20_000];
        log.group(&[
            (number, 0, string(b"filler", &value)),
            (number, 3, pending(key.as_bytes(), 60_000, b"fp", b"worker")),
        ]);
    }
    assert!(log.segments().len() >= 3);
    log
}

pub fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// A bit in the second group of the first segment: later segments have to go.
pub fn rotten() -> TestLog {
    let log = several_segments();
    flip(&log.segments()[0], 4096 + 30_000);
    log
}

/// Three groups and junk behind them.
pub fn junk_at_the_end() -> TestLog {
    let mut log = TestLog::new(0);
    for (ms, key) in [(1, "first"), (2, "second"), (3, "third")] {
        log.group(&[(ms, 0, string(key.as_bytes(), b"value"))]);
    }
    log.damage(|bytes| {
        let end = bytes.len();
        bytes[end - 100..].fill(0x5a);
    });
    log
}

/// A log whose control file is gone.
pub fn without_control() -> TestLog {
    let log = several_segments();
    fs::remove_file(log.path().join("control")).unwrap();
    log
}
