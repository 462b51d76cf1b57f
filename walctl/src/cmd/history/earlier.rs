//! What the snapshots know of a key whose beginning is not in the kept log.
//!
//! The oldest valid snapshot that the log covers is asked: from its start on, the log says what became of everything in it.

use std::io;

use idem_protocol::wal::{RawRecord, Record, parse_snapshot_name, segment_name, snapshot_name};
use idem_protocol::{ClusterId, Lsn, UnixMs};
use idem_wal::reader::{HeaderPage, SnapshotProblem, snapshot};
use idem_wal::storage::{Dir, Storage};

use super::Args;
use crate::exit::Failure;
use crate::line::key;
use crate::view::View;

/// What one snapshot has of the key.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Its file.
    pub(super) file: String,
    /// The log's end when its last item was written. What it does not have by then was not there.
    pub(super) end: Lsn,
    /// The log's time then.
    pub(super) time: UnixMs,
    /// The key's items by database, in order.
    pub(super) holdings: Vec<Holding>,
    /// Why others were not used, in words.
    pub(super) notes: Vec<String>,
}

/// The items of the key in one database: one, or several of a large hash.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) db: u8,
    /// The log's end when the last of them was written.
    pub(super) lsn: Lsn,
    /// The items' bytes, checked.
    items: Vec<Vec<u8>>,
}

/// Asks the snapshots that start at or above `first`, where the kept log begins. No valid one is none at all.
pub(super) fn ask(view: &View, args: &Args, first: Lsn) -> Result<Option<Earlier>, Failure> {
    let names = view.list(Dir::Snap).map_err(Failure::io("the snapshots"))?;
    let mut starts: Vec<Lsn> = names
        .iter()
        .filter_map(|name| parse_snapshot_name(name))
        .collect();
    starts.retain(|start| *start >= first);
    starts.sort_unstable();
    let cluster = cluster_of(view, first);
    let mut notes = Vec::new();
    for start in starts {
        let name = snapshot_name(start);
        let mut holdings: Vec<Holding> = Vec::new();
        let read = snapshot::read(view, &name, cluster, &mut |raw, item| {
            if key(item) == Some(&args.key.0[..]) && args.db.is_none_or(|db| db == raw.db) {
                hold(&mut holdings, raw);
            }
        });
        match read {
            Ok(snapshot) => {
                return Ok(Some(Earlier {
                    file: Dir::Snap.join(&name),
                    end: snapshot.trailer.end_lsn,
                    time: snapshot.trailer.log_time,
                    holdings,
                    notes,
                }));
            }
            // A server that has a newer one needs it no more.
            Err(SnapshotProblem::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
            Err(problem) => notes.push(format!("{} cannot be used: {problem}", Dir::Snap.join(&name))),
        }
    }
    Ok((!notes.is_empty()).then(|| Earlier {
        notes,
        ..Earlier::default()
    }))
}

fn hold(holdings: &mut Vec<Holding>, raw: &RawRecord<'_>) {
    let bytes = raw.bytes.to_vec();
    match holdings.iter_mut().find(|holding| holding.db == raw.db) {
        Some(holding) => {
            holding.lsn = raw.lsn;
            holding.items.push(bytes);
        }
        None => holdings.push(Holding {
            db: raw.db,
            lsn: raw.lsn,
            items: vec![bytes],
        }),
    }
}

impl Holding {
    /// Whether it is a large hash, whose items were written at different moments.
    pub(super) fn is_in_parts(&self) -> bool {
        self.items.len() > 1
    }

    /// The items, in order.
    pub(super) fn items(&self) -> impl DoubleEndedIterator<Item = (RawRecord<'_>, Record<'_>)> {
        self.items.iter().map(|bytes| {
            let raw = RawRecord::parse(bytes).expect("the item was checked when it was read");
            let item = raw.decode().expect("the item was decoded when it was read");
            (raw, item)
        })
    }
}

/// Whose log it is, if the segment that begins at `first` says so.
fn cluster_of(view: &View, first: Lsn) -> Option<ClusterId> {
    let file = view.open(Dir::Wal, &segment_name(first)).ok()?;
    let header = HeaderPage::read(&file).ok()?.header().ok()?;
    Some(header.cluster)
}
