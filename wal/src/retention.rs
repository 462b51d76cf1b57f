//! What may be removed, and removing it.
//!
//! Vocabulary: a segment lies *wholly below* an lsn when its successor begins at or below it. A *pin* is an lsn that somebody
//! still reads from.
//!
//! Invariants
//! * At most two valid snapshots are kept, the newest ones; older ones go first, before any segment. A snapshot that is not
//!   valid counts for nothing: it never takes the place of a valid one, and goes with what is older than both.
//! * A segment goes only when two valid snapshots exist and it lies wholly below the older one's start, below
//!   end − wal-keep-bytes and below every pin. The newest segment never goes.
//! * Oldest first, the directory synced after each: at every moment the log on disk has no gap.
//!
//! Deliberately absent: clocks. Retention is by lsn; a clock that steps must not delete a log.

use idem_protocol::Lsn;
use idem_protocol::wal::{parse_segment_name, parse_snapshot_name, segment_name, snapshot_name};

use crate::error::WriteError;
use crate::storage::durable::sync_directory;
use crate::storage::{Dir, Storage};

/// Valid snapshots that are kept.
pub const SNAPSHOTS_KEPT: usize = 2;

/// What is there, and what is still needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Start lsns of the snapshots, each with whether it is valid.
    pub snapshots: Vec<(Lsn, bool)>,
    /// First lsns of the segments.
    pub segments: Vec<Lsn>,
    /// The log's end.
    pub end: Lsn,
    /// Log that is kept behind the end (wal-keep-bytes).
    pub keep_bytes: u64,
    /// What somebody still reads from.
    pub pins: Vec<Lsn>,
}

/// What goes, each list oldest first: snapshots, then segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removals {
    /// Start lsns.
    pub snapshots: Vec<Lsn>,
    /// First lsns.
    pub segments: Vec<Lsn>,
}

/// Decides what may go.
pub fn plan(inventory: &Inventory) -> Removals {
    let mut snapshots = inventory.snapshots.clone();
    snapshots.sort_unstable();
    let valid: Vec<Lsn> = snapshots
        .iter()
        .filter(|(_, valid)| *valid)
        .map(|(start, _)| *start)
        .collect();
    let Some(older) = valid.len().checked_sub(SNAPSHOTS_KEPT).map(|index| valid[index]) else {
        return Removals::default();
    };
    let outdated = snapshots
        .iter()
        .map(|(start, _)| *start)
        .take_while(|start| *start < older)
        .collect();

    let behind_end = Lsn::new(inventory.end.get().saturating_sub(inventory.keep_bytes));
    let pinned = inventory.pins.iter().copied().min().unwrap_or(Lsn::MAX);
    let needed_from = older.min(behind_end).min(pinned);
    let mut segments = inventory.segments.clone();
    segments.sort_unstable();
    let unneeded = segments
        .windows(2)
        .take_while(|pair| pair[1] <= needed_from)
        .map(|pair| pair[0])
        .collect();
    Removals {
        snapshots: outdated,
        segments: unneeded,
    }
}

/// Reads the names of snapshots and segments; `valid` says whether the snapshot of that start is.
pub fn take_inventory<S: Storage>(
    storage: &S,
    valid: &mut dyn FnMut(Lsn) -> bool,
    end: Lsn,
    keep_bytes: u64,
) -> std::io::Result<Inventory> {
    let starts = storage.list(Dir::Snap)?;
    let snapshots = starts.iter().filter_map(|name| parse_snapshot_name(name));
    let snapshots = snapshots.map(|start| (start, valid(start))).collect();
    let segments = storage
        .list(Dir::Wal)?
        .iter()
        .filter_map(|name| parse_segment_name(name))
        .collect();
    Ok(Inventory {
        snapshots,
        segments,
        end,
        keep_bytes,
        pins: Vec::new(),
    })
}

/// Removes what was planned. After an error the rest is still there, and a later plan names it again.
pub fn execute<S: Storage>(storage: &S, removals: &Removals) -> Result<(), WriteError> {
    let snapshots = removals
        .snapshots
        .iter()
        .map(|start| (Dir::Snap, snapshot_name(*start)));
    let segments = removals
        .segments
        .iter()
        .map(|first| (Dir::Wal, segment_name(*first)));
    for (dir, name) in snapshots.chain(segments) {
        storage.remove(dir, &name).map_err(WriteError::Retry)?;
        sync_directory(storage, dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
