//! Snapshot files made with the log's own writer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use idem_protocol::control::Control;
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::{Record, snapshot_name};
use idem_protocol::{ClusterId, Lsn, UnixMs};
use idem_wal::snapshot::SnapshotWriter;
use idem_wal::storage::{Dir, DiskStorage, Storage};

use super::START_MS;

/// An item: lsn, milliseconds after the start, database, record.
pub type Item<'a> = (Lsn, u64, u8, Record<'a>);

/// The cluster of a data directory, from its control file.
pub fn cluster_of(dir: &Path) -> ClusterId {
    let bytes = std::fs::read(dir.join("control")).unwrap();
    Control::decode(&bytes).unwrap().cluster
}

/// Writes `snap/<start>.snap` below a directory. The keys of the databases are counted here: one for each item, as long as
/// no hash has several.
pub fn write_snapshot(
    dir: &Path,
    cluster: ClusterId,
    start: Lsn,
    items: &[Item<'_>],
    trailer: SnapshotTrailer,
) -> PathBuf {
    let storage = DiskStorage::open(dir).unwrap();
    storage.create_dir(Dir::Snap).unwrap();
    let mut writer = SnapshotWriter::begin(storage.clone(), cluster, start).unwrap();
    let mut keys: BTreeMap<u8, u64> = BTreeMap::new();
    for (lsn, ms, db, record) in items {
        let mut bytes = Vec::new();
        record.encode(*lsn, UnixMs::new(START_MS + ms), *db, &mut bytes);
        writer.items(&bytes).unwrap();
        *keys.entry(*db).or_default() += 1;
    }
    let trailer = SnapshotTrailer {
        databases: keys.into_iter().collect(),
        ..trailer
    };
    let finished = writer.finish(&trailer).unwrap();
    let name = snapshot_name(start);
    storage.rename(Dir::Snap, &finished.temporary, &name).unwrap();
    dir.join("snap").join(name)
}
