//! Spares: files that are zeroed and synced ahead of use, so that becoming a segment needs no space and no waiting.

use crate::batch::Spare;
use crate::error::WriteError;
use crate::storage::durable::{sync_file, zero_fill};
use crate::storage::{Dir, Storage};

/// What a spare's name begins with; a number follows. What a start finds under such a name is removed, never used: nobody
/// knows whether its zeros reached the disk.
pub const SPARE_PREFIX: &str = "spare-";

/// `spare-<number>`.
pub fn spare_name(number: u32) -> String {
    format!("{SPARE_PREFIX}{number}")
}

/// A spare is written and synced in steps of so many bytes.
const STEP_BYTES: u64 = 1 << 20;

/// Makes `wal/spare-<number>` of this length: zeros, synced. Without space the partial file is removed and the same call
/// may be made later. The name itself need not be durable: it changes before anything relies on it.
///
/// Each step is synced, and `pause` is called between two of them: one sync of 64 MB keeps the log's own syncs, and with
/// them every client, waiting for half a second.
pub fn make_spare<S: Storage>(storage: &S, spare: Spare, pause: &mut dyn FnMut()) -> Result<(), WriteError> {
    let name = spare_name(spare.number);
    let file = storage.create(Dir::Wal, &name).map_err(WriteError::Retry)?;
    let mut at = 0;
    loop {
        let end = spare.bytes.min(at + STEP_BYTES);
        if let Err(error) = zero_fill(&file, at, end) {
            drop(file);
            // Others wait for the space that a useless half would hold. If it cannot be removed, the next start does it.
            let _ = storage.remove(Dir::Wal, &name);
            return Err(WriteError::Retry(error));
        }
        sync_file(storage, &file, Dir::Wal, &name)?;
        if end == spare.bytes {
            return Ok(());
        }
        at = end;
        pause();
    }
}
