//! What stands after L in its segment: zeros, junk, and frame headers that bear witness.
//!
//! A later frame header says: when I was written, everything up to my synced mark was on disk. It counts whatever became
//! of its own records, so it is searched for at every place where one could stand.

use std::io;

use idem_protocol::Lsn;
use idem_protocol::wal::FrameHeader;

use super::tail::TailImage;
use crate::reader::{Search, SegmentReader};
use crate::storage::StorageFile;

/// A frame header that stands after L.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Witness {
    /// Where it stands.
    pub(crate) offset: u64,
    /// What it says.
    pub(crate) header: FrameHeader,
}

/// What follows L: no more than the rows ask for, however many headers there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct After {
    /// Anything but zeros.
    pub(crate) junk: bool,
    /// The first header, without one at L itself.
    pub(crate) first: Option<Witness>,
    /// The one that promises most.
    pub(crate) highest: Option<Witness>,
    /// Whether one of them begins at lsn(L).
    pub(crate) begins_at_end: bool,
}

impl After {
    fn add(&mut self, witness: Witness, end: Lsn) {
        self.first.get_or_insert(witness);
        self.begins_at_end |= witness.header.lsn == end;
        let known = self.highest.map(|highest| highest.header.synced);
        if known.is_none_or(|known| witness.header.synced > known) {
            self.highest = Some(witness);
        }
    }
}

/// Reads from L to the end of the file. `tail` takes the bytes when they are to be kept.
pub(crate) fn search<F: StorageFile>(
    reader: &mut SegmentReader<F>,
    mut tail: Option<&mut TailImage>,
) -> io::Result<After> {
    let mut search = Search::new(reader);
    let (mut offset, lsn) = (reader.offset(), reader.lsn());
    let mut after = After::default();
    loop {
        let chunk = reader.take_raw(Search::CHUNK_BYTES)?;
        if chunk.is_empty() {
            return Ok(after);
        }
        if let Some(tail) = tail.as_deref_mut() {
            tail.push_after(offset, chunk)?;
        }
        if chunk.iter().any(|byte| *byte != 0) {
            after.junk = true;
        }
        offset += chunk.len() as u64;
        search.feed(chunk, &mut |offset, header| {
            after.add(Witness { offset, header }, lsn)
        });
    }
}
