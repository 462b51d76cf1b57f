//! A snapshot file, read front to back, item by item.
//!
//! It is valid when everything about it is: header, each item (checksum, lsn between start and end, a kind that a
//! snapshot holds), trailer, the counts in the trailer, the checksum over the whole file, and nothing after that. Whether
//! it belongs to the log beside it is the verdict's question, not this file's.

use std::io;

use idem_protocol::snapshot::{
    SNAPSHOT_HEADER_BYTES, SnapshotHeader, SnapshotTrailer, TRAILER_MARK, TRAILER_PREFIX_BYTES,
};
use idem_protocol::wal::{
    HeaderError, RECORD_BYTES_MAX, RECORD_HEADER_BYTES, RawRecord, Record, RecordError, parse_snapshot_name,
};
use idem_protocol::{ClusterId, Lsn, UnixMs};

use super::window::Window;
use crate::storage::{Dir, Storage, StorageFile};

/// The most bytes that a trailer is read with; histories and member lists stay far below.
const TRAILER_BYTES_MAX: u32 = 64 << 20;

/// A snapshot that was read to its end and found valid.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its file name.
    pub name: String,
    /// What stands at its front.
    pub header: SnapshotHeader,
    /// What stands at its end.
    pub trailer: SnapshotTrailer,
    /// How many items it holds.
    pub items: u64,
    /// Its size.
    pub bytes: u64,
}

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotProblem {
    /// Damaged, cut short or impossible. The other snapshot is used.
    #[error("{what} at offset {offset}")]
    Damaged {
        /// What is wrong.
        what: String,
        /// Where.
        offset: u64,
        /// The checksum that is written there and that of the bytes, when they are what is wrong.
        crcs: Option<(u32, u32)>,
    },
    /// The system did not hand over its bytes. The other snapshot is used.
    #[error("cannot be read at offset {offset}: {error}")]
    Unreadable {
        /// What the system said.
        error: io::Error,
        /// How far the file was read.
        offset: u64,
    },
    /// Undamaged, and written by a newer version.
    #[error("format {0} is newer than this version reads")]
    NewerFormat(u32),
    /// Undamaged, and of another cluster.
    #[error("it belongs to cluster {0}")]
    OtherCluster(ClusterId),
}

fn damaged(what: impl Into<String>, offset: u64) -> SnapshotProblem {
    SnapshotProblem::Damaged {
        what: what.into(),
        offset,
        crcs: None,
    }
}

fn unreadable(offset: u64) -> impl FnOnce(io::Error) -> SnapshotProblem {
    move |error| SnapshotProblem::Unreadable { error, offset }
}

/// An item whose framing or checksum is wrong.
fn bad_item(error: RecordError, offset: u64) -> SnapshotProblem {
    SnapshotProblem::Damaged {
        what: error.to_string(),
        offset,
        crcs: match error {
            RecordError::Crc { expected, found } => Some((expected, found)),
            RecordError::Short { .. } | RecordError::TooLong(_) => None,
        },
    }
}

/// Only the header, for the question whether a file is foreign.
pub(crate) fn read_header<S: Storage>(storage: &S, name: &str) -> Result<SnapshotHeader, SnapshotProblem> {
    let mut bytes = [0; SNAPSHOT_HEADER_BYTES];
    let file = storage.open(Dir::Snap, name).map_err(unreadable(0))?;
    let read = crate::storage::durable::read_exact_or_end(&file, 0, &mut bytes).map_err(unreadable(0))?;
    let header = decode_header(&bytes[..read])?;
    check_name(&header, parse_snapshot_name(name))?;
    Ok(header)
}

fn decode_header(bytes: &[u8]) -> Result<SnapshotHeader, SnapshotProblem> {
    SnapshotHeader::decode(bytes).map_err(|error| match error {
        HeaderError::NewerFormat(format) => SnapshotProblem::NewerFormat(format),
        HeaderError::Damaged => damaged("damaged header", 0),
    })
}

fn check_name(header: &SnapshotHeader, named: Option<Lsn>) -> Result<(), SnapshotProblem> {
    if named == Some(header.start_lsn) {
        return Ok(());
    }
    Err(damaged(
        format!("name and start lsn {} differ", header.start_lsn),
        0,
    ))
}

/// Reads a whole snapshot and hands each item to `item` on the way. When it turns out to be damaged at its end, the items
/// have been handed over all the same: the caller starts anew.
pub fn read<S: Storage>(
    storage: &S,
    name: &str,
    cluster: Option<ClusterId>,
    item: &mut dyn FnMut(&RawRecord<'_>, &Record<'_>),
) -> Result<Snapshot, SnapshotProblem> {
    let file = storage.open(Dir::Snap, name).map_err(unreadable(0))?;
    let mut check = |header: &SnapshotHeader| {
        check_name(header, parse_snapshot_name(name))?;
        match cluster {
            Some(cluster) if cluster != header.cluster => Err(SnapshotProblem::OtherCluster(header.cluster)),
            _ => Ok(()),
        }
    };
    read_file(file, name, &mut check, item)
}

/// As [`read`], a file from anywhere. `check` is shown its header before the first item, and may refuse it; `name` is
/// taken over into the answer and not looked at.
pub fn read_file<F: StorageFile>(
    file: F,
    name: &str,
    check: &mut dyn FnMut(&SnapshotHeader) -> Result<(), SnapshotProblem>,
    item: &mut dyn FnMut(&RawRecord<'_>, &Record<'_>),
) -> Result<Snapshot, SnapshotProblem> {
    let mut window = Window::new(file, 0).map_err(unreadable(0))?;
    let mut crc = crc32fast::Hasher::new();

    let header = decode_header(window.peek(SNAPSHOT_HEADER_BYTES).map_err(unreadable(0))?)?;
    check(&header)?;
    window.advance(SNAPSHOT_HEADER_BYTES);
    crc.update(window.passed(SNAPSHOT_HEADER_BYTES));

    let mut keys = Keys::default();
    let mut items = 0;
    let mut newest = (header.start_lsn, UnixMs::ZERO);
    loop {
        let offset = window.offset();
        let prefix = window.peek(TRAILER_PREFIX_BYTES).map_err(unreadable(offset))?;
        if prefix.len() < TRAILER_PREFIX_BYTES {
            return Err(damaged("ends without a trailer", offset));
        }
        let word =
            |at: usize| u32::from_le_bytes(prefix[at..at + 4].try_into().expect("four bytes were sliced"));
        let (length, trailer_length) = (word(0), word(4));
        if length == TRAILER_MARK {
            let trailer = read_trailer(&mut window, trailer_length, &mut crc)?;
            keys.check(&trailer, offset)?;
            if trailer.end_lsn < newest.0 || trailer.log_time < newest.1 {
                return Err(damaged("an item is newer than the snapshot's end", offset));
            }
            return Ok(Snapshot {
                name: name.to_owned(),
                header,
                trailer,
                items,
                bytes: window.file_bytes(),
            });
        }
        let size = RECORD_HEADER_BYTES as u64 + u64::from(length);
        if size > RECORD_BYTES_MAX || size > window.left() {
            return Err(damaged(format!("item of {size} bytes"), offset));
        }
        let size = usize::try_from(size).expect("512 MiB fit usize");
        let bytes = window.peek(size).map_err(unreadable(offset))?;
        let raw = RawRecord::parse(bytes).map_err(|error| bad_item(error, offset))?;
        let record = raw.decode().map_err(|error| damaged(error.to_string(), offset))?;
        if raw.lsn < newest.0 || raw.time < newest.1 {
            return Err(damaged("items go back in lsn or time", offset));
        }
        newest = (raw.lsn, raw.time);
        keys.count(raw.db, &record, offset)?;
        item(&raw, &record);
        items += 1;
        window.advance(size);
        crc.update(window.passed(size));
    }
}

fn read_trailer<F: StorageFile>(
    window: &mut Window<F>,
    length: u32,
    crc: &mut crc32fast::Hasher,
) -> Result<SnapshotTrailer, SnapshotProblem> {
    let offset = window.offset();
    let whole = TRAILER_PREFIX_BYTES as u64 + u64::from(length);
    if !(4..=TRAILER_BYTES_MAX).contains(&length) || whole != window.left() {
        return Err(damaged(
            "the trailer's length is not what is left of the file",
            offset,
        ));
    }
    let size = usize::try_from(whole).expect("64 MiB fit usize");
    let bytes = window.peek(size).map_err(unreadable(offset))?;
    if bytes.len() < size {
        return Err(damaged("ends within the trailer", offset));
    }
    let (fields, stored) = bytes.split_at(size - 4);
    crc.update(fields);
    let found = std::mem::take(crc).finalize();
    let expected = u32::from_le_bytes(stored.try_into().expect("four bytes were split off"));
    if expected != found {
        return Err(SnapshotProblem::Damaged {
            what: format!("CRC {found:08x} of the whole file instead of {expected:08x}"),
            offset,
            crcs: Some((expected, found)),
        });
    }
    SnapshotTrailer::decode(&fields[TRAILER_PREFIX_BYTES..])
        .map_err(|error| damaged(error.to_string(), offset))
}

/// Keys per database, as the trailer counts them: a hash in several items is one key.
#[derive(Default)]
struct Keys {
    counts: std::collections::BTreeMap<u8, u64>,
    /// The hash whose items follow one another.
    hash: Option<(u8, Vec<u8>)>,
}

impl Keys {
    fn count(&mut self, db: u8, record: &Record<'_>, offset: u64) -> Result<(), SnapshotProblem> {
        match record {
            Record::StringPut { .. } => self.hash = None,
            Record::HashPut { key, .. } => {
                if self
                    .hash
                    .as_ref()
                    .is_some_and(|(last, name)| *last == db && name == key)
                {
                    return Ok(());
                }
                self.hash = Some((db, key.to_vec()));
            }
            other => {
                return Err(damaged(
                    format!("a {} among the items", other.opcode().name()),
                    offset,
                ));
            }
        }
        *self.counts.entry(db).or_default() += 1;
        Ok(())
    }

    fn check(&self, trailer: &SnapshotTrailer, offset: u64) -> Result<(), SnapshotProblem> {
        let counted = self.counts.iter().map(|(db, keys)| (*db, *keys));
        if counted.eq(trailer.databases.iter().copied().filter(|(_, keys)| *keys > 0)) {
            Ok(())
        } else {
            Err(damaged("the trailer counts other keys than there are", offset))
        }
    }
}

/// The snapshot files of a directory by start lsn, and the names that look like one and are none.
pub(crate) fn list<S: Storage>(storage: &S) -> io::Result<(Vec<Lsn>, Vec<String>)> {
    let mut starts = Vec::new();
    let mut strange = Vec::new();
    for name in storage.list(Dir::Snap)? {
        match parse_snapshot_name(&name) {
            Some(start) => starts.push(start),
            None if name.ends_with(".snap") => strange.push(name),
            None => {}
        }
    }
    starts.sort_unstable();
    Ok((starts, strange))
}
