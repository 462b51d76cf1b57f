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

/// Makes `wal/spare-<number>` of this length: zeros, synced. Without space the partial file is removed and the same call
/// may be made later. The name itself need not be durable: it changes before anything relies on it.
pub fn make_spare<S: Storage>(storage: &S, spare: Spare) -> Result<(), WriteError> {
    let name = spare_name(spare.number);
    let file = storage.create(Dir::Wal, &name).map_err(WriteError::Retry)?;
    if let Err(error) = zero_fill(&file, 0, spare.bytes) {
        drop(file);
        // Others wait for the space that a useless half would hold. If it cannot be removed, the next start does it.
        let _ = storage.remove(Dir::Wal, &name);
        return Err(WriteError::Retry(error));
    }
    sync_file(storage, &file, Dir::Wal, &name)?;
    Ok(())
}
