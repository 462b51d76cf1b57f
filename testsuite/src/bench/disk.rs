//! What the disk itself takes: the write and the sync of one small group, without a server around it.
//!
//! It is done as a log does it that has space ahead: into a file of zeros that was synced before. A file that grows with
//! each write takes longer, because its length has to reach the disk too; both are measured, and the first is the one that
//! idemd is compared with.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::load::latencies;
use super::{Failure, count};

/// Bytes of a group of one BEGIN: a frame with one record, whole 8 bytes.
const GROUP_BYTES: usize = 200;

/// The file that has its length already; long enough for any run of a few seconds.
const FILE_BYTES: u64 = 16 << 20;

/// Half of the syncs took at most so many nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Bare {
    /// Into a file of zeros.
    pub ahead_ns: u64,
    /// At the end of a file that grows.
    pub growing_ns: u64,
}

/// Writes and syncs for so long, or so many times, in `dir`.
pub fn measure(dir: &Path, time: Duration, most: u64) -> Result<Bare, Failure> {
    let path = dir.join("bare-sync");
    let measured = both(&path, time, most).map_err(Failure::io(path.display()));
    let removed = std::fs::remove_file(&path).map_err(Failure::io(path.display()));
    let bare = measured?;
    removed?;
    Ok(bare)
}

fn both(path: &Path, time: Duration, most: u64) -> io::Result<Bare> {
    let growing = writes(&File::create(path)?, time, most)?;
    let file = File::create(path)?;
    let zeros = vec![0; 1 << 20];
    for at in (0..FILE_BYTES).step_by(1 << 20) {
        file.write_all_at(&zeros, at)?;
    }
    file.sync_all()?;
    let ahead = writes(&file, time, most)?;
    Ok(Bare {
        ahead_ns: ahead.value_at_quantile(0.5),
        growing_ns: growing.value_at_quantile(0.5),
    })
}

fn writes(file: &File, time: Duration, most: u64) -> io::Result<Histogram<u64>> {
    let group = [b'x'; GROUP_BYTES];
    let mut taken = latencies();
    let begun = Instant::now();
    let mut at = 0;
    while begun.elapsed() < time && taken.len() < most && at + count(GROUP_BYTES) < FILE_BYTES {
        let before = Instant::now();
        file.write_all_at(&group, at)?;
        file.sync_data()?;
        taken.saturating_record(u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX));
        at += count(GROUP_BYTES);
    }
    Ok(taken)
}
