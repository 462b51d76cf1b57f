//! The idioms of writing durably, each written once.
//!
//! * A short write is continued; an interrupted call is made again; a write of 0 bytes is an error (it would loop).
//! * Space is reserved by writing zeros, not by `fallocate`: that leaves unwritten extents, whose conversion at the first
//!   sync costs a journal commit (measured: syncs 20–45 % faster on zero-filled files than on growing ones).
//! * A file is replaced by: temporary, sync, rename, sync of the directory. A reader sees the old or the new file, whole.

use std::io;

use super::{Dir, Storage, StorageFile};
use crate::error::{FatalError, WriteError};

/// How much [`zero_fill`] writes at a time.
const ZERO_CHUNK_BYTES: usize = 1 << 18;
static ZEROS: [u8; ZERO_CHUNK_BYTES] = [0; ZERO_CHUNK_BYTES];

/// Reads until `buf` is full or the file ends; returns how many bytes were read.
pub fn read_exact_or_end(file: &impl StorageFile, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(offset + widen(done), &mut buf[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The whole of a file that is small: memory grows only by what is really read, and one with more than `bytes_max` bytes is
/// refused (`FileTooLarge`) before any of it is. A sparse file can claim any length.
pub fn read_all(file: &impl StorageFile, bytes_max: u64) -> io::Result<Vec<u8>> {
    const STEP_BYTES: usize = 1 << 20;
    let claimed = file.len()?;
    let length = usize::try_from(claimed)
        .ok()
        .filter(|_| claimed <= bytes_max)
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it has {claimed} bytes, and such a file has {bytes_max} at most"),
            )
        })?;
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let at = bytes.len();
        let next = length.min(at + STEP_BYTES);
        bytes
            .try_reserve(next - at)
            .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        bytes.resize(next, 0);
        let count = read_exact_or_end(file, widen(at), &mut bytes[at..])?;
        if at + count < bytes.len() {
            bytes.truncate(at + count);
            break;
        }
    }
    Ok(bytes)
}

/// Writes all of `buf` at `offset`. After an error any part of it may be there; the same call may be made again.
pub fn write_all_at(file: &impl StorageFile, offset: u64, buf: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match file.write_at(offset + widen(done), &buf[done..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes zeros from `from` up to `to`, so that the space is really there. Does not sync.
pub fn zero_fill(file: &impl StorageFile, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let chunk = usize::try_from(to - at).map_or(ZERO_CHUNK_BYTES, |left| left.min(ZERO_CHUNK_BYTES));
        write_all_at(file, at, &ZEROS[..chunk])?;
        at += widen(chunk);
    }
    Ok(())
}

/// Syncs a file's bytes; the error names it.
pub fn sync_file<S: Storage>(storage: &S, file: &S::File, dir: Dir, name: &str) -> Result<(), FatalError> {
    file.sync_data()
        .map_err(|source| FatalError::new(format!("sync of {}", storage.describe(dir, name)), source))
}

/// As [`sync_file`], with the length of a file that was made shorter: fdatasync owes a reader only what it needs to find
/// the data, and a file that is too long again after a power loss would be a damaged one.
pub fn sync_file_and_length<S: Storage>(
    storage: &S,
    file: &S::File,
    dir: Dir,
    name: &str,
) -> Result<(), FatalError> {
    file.sync_all()
        .map_err(|source| FatalError::new(format!("sync of {}", storage.describe(dir, name)), source))
}

/// Syncs a directory; the error names it.
pub fn sync_directory<S: Storage>(storage: &S, dir: Dir) -> Result<(), FatalError> {
    storage.sync_dir(dir).map_err(|source| {
        FatalError::new(
            format!("sync of the directory {}", storage.describe(dir, "")),
            source,
        )
    })
}

/// Puts `bytes` under `name` by way of `temporary`; durable when it returns. After `Retry` the old file stands and the
/// temporary is gone, or is overwritten by the next attempt.
pub fn replace_file<S: Storage>(
    storage: &S,
    dir: Dir,
    name: &str,
    temporary: &str,
    bytes: &[u8],
) -> Result<(), WriteError> {
    let file = storage.create(dir, temporary).map_err(WriteError::Retry)?;
    if let Err(error) = write_all_at(&file, 0, bytes) {
        // Half a temporary on a full disk would hold on to space that others wait for.
        let _ = storage.remove(dir, temporary);
        return Err(WriteError::Retry(error));
    }
    sync_file(storage, &file, dir, temporary)?;
    storage.rename(dir, temporary, name).map_err(WriteError::Retry)?;
    sync_directory(storage, dir)?;
    Ok(())
}

/// A length as a file position; no platform has a `usize` above 64 bits.
pub(crate) fn widen(length: usize) -> u64 {
    u64::try_from(length).expect("usize has at most 64 bits")
}
