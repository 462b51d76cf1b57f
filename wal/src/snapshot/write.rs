//! Writing one snapshot file: header, items, trailer, checksum, sync.

use std::io;

use crc32fast::Hasher;
use idem_protocol::snapshot::{SnapshotHeader, SnapshotTrailer};
use idem_protocol::{ClusterId, Lsn};

use crate::error::WriteError;
use crate::storage::durable::{sync_file, widen, write_all_at};
use crate::storage::{Dir, Storage};

/// What the name of an unpublished snapshot ends with; such files are removed at a start.
pub const SNAPSHOT_TEMPORARY_SUFFIX: &str = ".tmp";

/// The file is synced each time that so much was added. Left to its end, one sync would have all of it to write, and the
/// log's syncs would wait behind it for as long.
const SYNC_EVERY_BYTES: u64 = 4 << 20;

/// A snapshot that is being written. Dropped before [`SnapshotWriter::finish`] it removes its file.
pub struct SnapshotWriter<S: Storage> {
    storage: S,
    file: S::File,
    temporary: String,
    start: Lsn,
    offset: u64,
    synced: u64,
    crc: Hasher,
    finished: bool,
}

/// A whole, synced snapshot that waits for its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedSnapshot {
    /// Its name in `snap` so far.
    pub temporary: String,
    /// Where replaying begins.
    pub start: Lsn,
    /// What the log must have synced before the snapshot is published.
    pub end: Lsn,
}

impl<S: Storage> SnapshotWriter<S> {
    /// Begins a file with its header. `start` is the log's end before the first item was read.
    pub fn begin(storage: S, cluster: ClusterId, start: Lsn) -> io::Result<Self> {
        let temporary = format!("{:020}{SNAPSHOT_TEMPORARY_SUFFIX}", start.get());
        let file = storage.create(Dir::Snap, &temporary)?;
        let mut writer = SnapshotWriter {
            storage,
            file,
            temporary,
            start,
            offset: 0,
            synced: 0,
            crc: Hasher::new(),
            finished: false,
        };
        let header = SnapshotHeader {
            cluster,
            start_lsn: start,
        };
        writer.put(&header.encode())?;
        Ok(writer)
    }

    /// Adds items: whole records, encoded as in the log. After `Retry` (no space, say) the snapshot is given up.
    pub fn items(&mut self, records: &[u8]) -> Result<(), WriteError> {
        self.put(records).map_err(WriteError::Retry)?;
        if self.offset - self.synced >= SYNC_EVERY_BYTES {
            sync_file(&self.storage, &self.file, Dir::Snap, &self.temporary)?;
            self.synced = self.offset;
        }
        Ok(())
    }

    /// Adds the trailer and the checksum, and syncs. The file keeps its temporary name. After `Retry` (no space, say) the
    /// snapshot is given up and its file is gone.
    pub fn finish(mut self, trailer: &SnapshotTrailer) -> Result<FinishedSnapshot, WriteError> {
        assert!(
            trailer.end_lsn >= self.start,
            "a snapshot ends at or after its start"
        );
        let mut bytes = Vec::new();
        trailer.encode(&mut bytes);
        self.crc.update(&bytes);
        let crc = self.crc.clone().finalize();
        bytes.extend_from_slice(&crc.to_le_bytes());
        write_all_at(&self.file, self.offset, &bytes).map_err(WriteError::Retry)?;
        sync_file(&self.storage, &self.file, Dir::Snap, &self.temporary)?;
        self.finished = true;
        let temporary = std::mem::take(&mut self.temporary);
        Ok(FinishedSnapshot {
            temporary,
            start: self.start,
            end: trailer.end_lsn,
        })
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all_at(&self.file, self.offset, bytes)?;
        self.crc.update(bytes);
        self.offset += widen(bytes.len());
        Ok(())
    }
}

impl<S: Storage> Drop for SnapshotWriter<S> {
    fn drop(&mut self) {
        if !self.finished {
            // What cannot be removed now is removed by the next start.
            let _ = self.storage.remove(Dir::Snap, &self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::sim::SimDisk;

    fn disk() -> SimDisk {
        let disk = SimDisk::new();
        disk.storage().create_dir(Dir::Snap).unwrap();
        disk.settle();
        disk
    }

    fn begin(disk: &SimDisk) -> SnapshotWriter<crate::storage::sim::SimStorage> {
        SnapshotWriter::begin(disk.storage(), ClusterId([9; 16]), Lsn::new(40)).unwrap()
    }

    fn trailer() -> SnapshotTrailer {
        SnapshotTrailer {
            end_lsn: Lsn::new(90),
            ..SnapshotTrailer::default()
        }
    }

    #[test]
    fn the_file_is_whole_and_synced_and_ends_with_its_checksum() {
        let disk = disk();
        let mut writer = begin(&disk);
        writer.items(b"first").unwrap();
        writer.items(b"second").unwrap();
        let finished = writer.finish(&trailer()).unwrap();
        assert_eq!((finished.start, finished.end), (Lsn::new(40), Lsn::new(90)));
        disk.storage().sync_dir(Dir::Snap).unwrap();
        disk.power_loss(&mut |_| 0);
        let bytes = disk.bytes(Dir::Snap, &finished.temporary).unwrap();
        let (body, crc) = bytes.split_at(bytes.len() - 4);
        assert_eq!(crc, crc32fast::hash(body).to_le_bytes());
        assert_eq!(SnapshotHeader::decode(body).unwrap().start_lsn, Lsn::new(40));
        assert_eq!(&body[44..55], b"firstsecond");
        assert_eq!(SnapshotTrailer::decode(&body[55 + 8..]).unwrap(), trailer());
        let length = u32::from_le_bytes(body[59..63].try_into().unwrap());
        assert_eq!(
            usize::try_from(length).unwrap(),
            bytes.len() - 63,
            "length of the rest, checksum included"
        );
    }

    #[test]
    fn a_snapshot_that_is_given_up_leaves_nothing() {
        let disk = disk();
        drop(begin(&disk));
        assert_eq!(disk.names(Dir::Snap), Vec::<String>::new());
        disk.set_space(Some(60));
        let mut writer = begin(&disk);
        assert!(writer.items(&[1; 100]).is_err());
        drop(writer);
        assert_eq!(disk.names(Dir::Snap), Vec::<String>::new());
        let writer = begin(&disk);
        assert!(matches!(writer.finish(&trailer()), Err(WriteError::Retry(_))));
        assert_eq!(disk.names(Dir::Snap), Vec::<String>::new());
    }

    #[test]
    fn a_failed_sync_is_fatal() {
        let disk = disk();
        let writer = begin(&disk);
        disk.fail_sync_at(1, 0);
        assert!(matches!(writer.finish(&trailer()), Err(WriteError::Fatal(_))));

        let disk = self::disk();
        let mut writer = begin(&disk);
        disk.fail_sync_at(1, 0);
        let piece = vec![1; 1 << 20];
        let failed = (0..4).map(|_| writer.items(&piece)).find(Result::is_err);
        assert!(matches!(failed, Some(Err(WriteError::Fatal(_)))));
        std::mem::forget(writer);
    }
}
