//! The state into the new directory, each step on disk before the next.

use std::convert::Infallible;
use std::path::Path;

use idem_engine::snapshot::SnapshotCursor;
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::{Lsn, UnixMs};
use idem_wal::WriteError;
use idem_wal::recovery::OpenParams;
use idem_wal::recovery::restore::{Origin, Restoration};
use idem_wal::snapshot::{FinishedSnapshot, SnapshotWriter};
use idem_wal::storage::DiskStorage;

use super::origin::random;
use super::place::Place;
use crate::exit::Failure;
use crate::state::State;

/// Items are gathered up to so many bytes before they are written.
const PIECE_BYTES: usize = 1 << 20;
/// The first segment holds little more than the epoch; the server makes the next ones as long as it is told.
const SEGMENT_BYTES: u64 = 1 << 20;
const PAGE_BYTES: usize = 4096;
/// Epoch, nonce, node, first lsn.
const HISTORY_ENTRY_BYTES: usize = 40;

/// What the directory takes up at first.
pub(super) fn bytes(state: &State, origin: &Origin) -> u64 {
    let mut items = 0;
    each_piece(state, origin, &mut |piece| {
        items += piece.len();
        Ok::<(), Infallible>(())
    })
    .unwrap_or_else(|never| match never {});
    // Header and trailer of the snapshot, the control file and the space for its next change.
    let around = 4 * PAGE_BYTES + 2 * HISTORY_ENTRY_BYTES * origin.history.len();
    u64::try_from(items + around).map_or(u64::MAX, |bytes| bytes.saturating_add(SEGMENT_BYTES))
}

/// Writes the directory and closes its log as a server does that is asked to stop. Answers the end of the log. `bytes` is
/// what that takes, `command` what does it again.
pub(super) fn write(
    state: &State,
    origin: &Origin,
    path: &Path,
    bytes: u64,
    command: &str,
) -> Result<Lsn, Failure> {
    let place = Place::take(path, bytes, command)?;
    let storage = place.storage();
    let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
    // Drawn before, because the callback cannot fail.
    let mut entropy = [random()?, random()?].into_iter();
    let params = OpenParams {
        now: UnixMs::ZERO,
        segment_bytes: SEGMENT_BYTES,
        entropy: Box::new(move || {
            entropy
                .next()
                .expect("there is one salt and one nonce: a log with one record has one segment")
        }),
    };
    let (restoration, writer) =
        Restoration::begin(storage, origin.clone(), params).map_err(|error| failed(&error))?;
    let snapshot = fill(state, origin, writer).map_err(|error| match error {
        WriteError::Retry(error) => Failure::io(format_args!("{}: the snapshot", path.display()))(error),
        WriteError::Fatal(error) => failed(&error),
    })?;
    let opened = restoration.finish(&snapshot).map_err(|error| failed(&error))?;
    let mut writer = opened.writer;
    writer.shut_down().map_err(|error| failed(&error))?;
    place.keep()?;
    Ok(opened.end_lsn)
}

/// The snapshot of all that is live.
fn fill(
    state: &State,
    origin: &Origin,
    mut writer: SnapshotWriter<DiskStorage>,
) -> Result<FinishedSnapshot, WriteError> {
    let databases = each_piece(state, origin, &mut |piece| writer.items(piece))?;
    let trailer = SnapshotTrailer {
        end_lsn: origin.lsn,
        epoch: origin.epoch(),
        end_crc: origin.last_record_crc,
        log_time: origin.log_time,
        history: origin.history.clone(),
        databases,
        ..SnapshotTrailer::default()
    };
    writer.finish(&trailer)
}

/// Items of the snapshot, some at a time. Answers the number of keys in each database.
fn each_piece<E>(
    state: &State,
    origin: &Origin,
    take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<Vec<(u8, u64)>, E> {
    let mut cursor = SnapshotCursor::new();
    let mut items = Vec::new();
    loop {
        let done = cursor.step(
            state.keyspace(),
            origin.lsn,
            origin.log_time,
            PIECE_BYTES,
            &mut items,
        );
        take(&items)?;
        items.clear();
        if done {
            return Ok(cursor.counts().to_vec());
        }
    }
}
