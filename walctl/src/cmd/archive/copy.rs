//! Copying one file: under a temporary name, checked as it was written, synced, renamed, its directory synced.
//!
//! What is checked is the copy, read back, and not what it was made of: a segment against its successor's checksum of its
//! records, any file against the bytes that were read. Killed at any step, a run leaves whole files and perhaps a temporary
//! one, which the next run writes over.

use std::io;

use idem_protocol::HistoryEntry;
use idem_protocol::wal::{Record, scan};
use idem_wal::error::WriteError;
use idem_wal::reader::{HeaderPage, SegmentReader, Step};
use idem_wal::storage::durable::{read_exact_or_end, sync_directory, sync_file, write_all_at};
use idem_wal::storage::{Dir, DiskStorage, Storage, StorageFile};

use super::plan::{SegmentCopy, SnapshotCopy};
use crate::chain::Sealed;
use crate::exit::Failure;
use crate::log_end::Complaint;
use crate::store::{SegmentEntry, SnapshotEntry};
use crate::text::Crc;
use crate::view::View;

/// How much is copied at once.
const CHUNK_BYTES: usize = 1 << 20;
/// What the name of an unfinished copy ends with. No reader looks at such a name.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// What became of a file.
pub(super) enum Copied<T> {
    /// It is in the archive, durably.
    Done(T),
    /// The source has it no more.
    Gone,
    /// The source is damaged.
    Damaged(Complaint),
}

/// An archived segment, and the epochs that begin in it.
pub(super) struct SegmentDone {
    pub(super) entry: SegmentEntry,
    pub(super) epochs: Vec<HistoryEntry>,
}

/// Copies a segment.
pub(super) fn segment(
    view: &View,
    target: &DiskStorage,
    copy: &SegmentCopy,
) -> Result<Copied<SegmentDone>, Failure> {
    let sealed = &copy.sealed;
    let name = &sealed.link.name;
    let Some((bytes, crc)) = temporary(view, target, Dir::Wal, name)? else {
        return Ok(Copied::Gone);
    };
    let mut done = SegmentDone {
        entry: SegmentEntry {
            file: name.clone(),
            first_lsn: sealed.link.first().get(),
            end_lsn: sealed.end.get(),
            records_crc: sealed.crc,
            first_time_ms: 0,
            last_time_ms: 0,
            bytes,
            crc,
        },
        epochs: Vec::new(),
    };
    let temporary = temporary_name(name);
    let checked = target
        .open(Dir::Wal, &temporary)
        .and_then(|file| check(file, sealed, &mut done));
    if let Some(damage) = checked.map_err(Failure::io(target.describe(Dir::Wal, &temporary)))? {
        let _ = target.remove(Dir::Wal, &temporary);
        return Ok(Copied::Damaged(Complaint {
            words: format!("{}: {damage}", Dir::Wal.join(name)),
            file: Some(name.clone()),
        }));
    }
    publish(target, Dir::Wal, name)?;
    Ok(Copied::Done(done))
}

/// Copies a snapshot, which was read and found good a moment ago.
pub(super) fn snapshot(
    view: &View,
    target: &DiskStorage,
    copy: &SnapshotCopy,
) -> Result<Copied<SnapshotEntry>, Failure> {
    let snapshot = &copy.snapshot;
    let Some((bytes, crc)) = temporary(view, target, Dir::Snap, &snapshot.name)? else {
        return Ok(Copied::Gone);
    };
    publish(target, Dir::Snap, &snapshot.name)?;
    Ok(Copied::Done(SnapshotEntry {
        file: snapshot.name.clone(),
        start_lsn: snapshot.header.start_lsn.get(),
        end_lsn: snapshot.trailer.end_lsn.get(),
        bytes,
        crc,
    }))
}

fn temporary_name(name: &str) -> String {
    format!("{name}{TEMPORARY_SUFFIX}")
}

/// Length and checksum of an open file.
pub(super) fn checksum(file: &impl StorageFile) -> io::Result<(u64, u32)> {
    let mut hasher = crc32fast::Hasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        match read_exact_or_end(file, offset, &mut chunk)? {
            0 => return Ok((offset, hasher.finalize())),
            read => {
                hasher.update(&chunk[..read]);
                offset += read as u64;
            }
        }
    }
}

/// Writes the temporary copy and reads it back; nothing when the source is gone. A copy that cannot be finished is removed:
/// on a full disk it would hold on to the space that others need.
fn temporary(view: &View, target: &DiskStorage, dir: Dir, name: &str) -> Result<Option<(u64, u32)>, Failure> {
    let source = match view.open(dir, name) {
        Ok(source) => source,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::io("reading the source")(error)),
    };
    let temporary = temporary_name(name);
    let copied = target
        .create(dir, &temporary)
        .and_then(|file| copy_bytes(&source, &file));
    let copied = copied.inspect_err(|_| {
        let _ = target.remove(dir, &temporary);
    });
    let length = source.len().unwrap_or(0);
    let what = format!(
        "copying {} of {length} bytes to {}",
        dir.join(name),
        target.describe(dir, "")
    );
    Ok(Some(copied.map_err(Failure::io(what))?))
}

fn copy_bytes(source: &impl StorageFile, target: &impl StorageFile) -> io::Result<(u64, u32)> {
    let mut hasher = crc32fast::Hasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let read = read_exact_or_end(source, offset, &mut chunk)?;
        if read == 0 {
            break;
        }
        hasher.update(&chunk[..read]);
        write_all_at(target, offset, &chunk[..read])?;
        offset += read as u64;
    }
    let copied = (offset, hasher.finalize());
    if checksum(target)? == copied {
        Ok(copied)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the copy reads other bytes than were written to it",
        ))
    }
}

/// Syncs the copy and gives it its name.
fn publish(target: &DiskStorage, dir: Dir, name: &str) -> Result<(), Failure> {
    let temporary = temporary_name(name);
    let published = || -> Result<(), WriteError> {
        let file = target.open_write(dir, &temporary).map_err(WriteError::Retry)?;
        sync_file(target, &file, dir, &temporary)?;
        target.rename(dir, &temporary, name).map_err(WriteError::Retry)?;
        sync_directory(target, dir)?;
        Ok(())
    };
    published().map_err(|error| Failure::io(target.describe(dir, name))(error.into_io()))
}

/// Whether a file holds the records that its successor vouches for, all of them and no others; what is wrong, if anything
/// is. Fills in what the records tell.
fn check<F: StorageFile>(file: F, sealed: &Sealed, done: &mut SegmentDone) -> io::Result<Option<String>> {
    if HeaderPage::read(&file)?.header() != Ok(sealed.link.header) {
        return Ok(Some("the header has changed".to_owned()));
    }
    let mut reader = SegmentReader::new(file, sealed.link.header)?;
    let mut hasher = crc32fast::Hasher::new();
    let mut first_time = None;
    while let Step::Frame(frame) = reader.next_frame()? {
        hasher.update(frame.payload);
        for (_, raw) in scan::records(frame.payload) {
            first_time.get_or_insert(raw.time.get());
            done.entry.last_time_ms = raw.time.get();
            if let Ok(Record::EpochStart { epoch, node, .. }) = raw.decode() {
                done.epochs.push(HistoryEntry {
                    epoch,
                    node,
                    first_lsn: raw.lsn,
                });
            }
        }
    }
    done.entry.first_time_ms = first_time.unwrap_or(0);
    let found = hasher.finalize();
    let (lsn, offset) = (reader.lsn(), reader.offset());
    Ok(if lsn != sealed.end {
        Some(format!(
            "its records can be read to lsn {lsn}, offset {offset}; its successor says {}",
            sealed.end
        ))
    } else if found != sealed.crc {
        Some(format!(
            "its records are not those that its successor vouches for: expected CRC {}, found CRC {}",
            Crc(sealed.crc),
            Crc(found)
        ))
    } else {
        None
    })
}
