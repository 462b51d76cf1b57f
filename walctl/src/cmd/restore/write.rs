//! The state into the new directory, each step on disk before the next.

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

/// Writes the directory and closes its log as a server does that is asked to stop. Answers the end of the log.
pub(super) fn write(state: &State, origin: &Origin, path: &Path) -> Result<Lsn, Failure> {
    let place = Place::take(path)?;
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

/// All that is live, piece by piece.
fn fill(
    state: &State,
    origin: &Origin,
    mut writer: SnapshotWriter<DiskStorage>,
) -> Result<FinishedSnapshot, WriteError> {
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
        writer.items(&items)?;
        items.clear();
        if done {
            break;
        }
    }
    let trailer = SnapshotTrailer {
        end_lsn: origin.lsn,
        epoch: origin.epoch(),
        end_crc: origin.last_record_crc,
        log_time: origin.log_time,
        history: origin.history.clone(),
        databases: cursor.counts().to_vec(),
        ..SnapshotTrailer::default()
    };
    writer.finish(&trailer)
}
