//! The files of a data directory: what is there, and small damages to them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Every file below a directory with its bytes: two equal trees are an unchanged directory.
pub fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in read_dir(&directory) {
            if entry.is_dir() {
                open.push(entry);
            } else {
                let bytes = fs::read(&entry).expect("a file of the test is readable");
                files.insert(entry, bytes);
            }
        }
    }
    files
}

/// The log's segments, oldest first.
pub fn segments(dir: &Path) -> Vec<PathBuf> {
    with_extension(&dir.join("wal"), "wal")
}

/// The snapshots, oldest first.
pub fn snapshots(dir: &Path) -> Vec<PathBuf> {
    with_extension(&dir.join("snap"), "snap")
}

/// Writes bytes over a place in a file.
pub fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("a file of the test is there");
    file.write_all_at(bytes, offset)
        .expect("a file of the test is writable");
}

/// Flips one bit.
pub fn flip(path: &Path, offset: u64) {
    let mut byte = [0];
    fs::File::open(path)
        .and_then(|file| file.read_exact_at(&mut byte, offset))
        .expect("the place is in the file");
    overwrite(path, offset, &[byte[0] ^ 1]);
}

fn with_extension(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut paths = read_dir(directory);
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    paths
}

fn read_dir(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory of the test is readable");
    entries
        .map(|entry| entry.expect("a directory of the test is readable").path())
        .collect()
}
