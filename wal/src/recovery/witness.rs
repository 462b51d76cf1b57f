//! What stands after L in its segment: zeros, junk, and frame headers that bear witness.
//!
//! A later frame header says: when I was written, everything up to my synced mark was on disk. It counts whatever became
//! of its own records, so it is searched for at every multiple of 8, with the segment's salt and an lsn that is possible
//! at its distance from L.

use std::io;

use idem_protocol::Lsn;
use idem_protocol::wal::{FRAME_ALIGN, FRAME_HEADER_BYTES, FrameHeader, frame};

use super::tail::TailImage;
use crate::reader::SegmentReader;
use crate::storage::StorageFile;

/// How much of the rest is looked at at once; a multiple of 8.
const CHUNK_BYTES: usize = 1 << 20;
/// Frames start at multiples of this.
const ALIGN: usize = 8;
const _: () = assert!(FRAME_ALIGN == 8, "the two say the same");

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
    let (start, lsn, salt) = (reader.offset(), reader.lsn(), reader.header().salt);
    let file_bytes = reader.file_bytes();
    let mut after = After::default();
    // The last bytes of the chunk before, so that a header across the boundary is found.
    let mut carried: Vec<u8> = Vec::new();
    let mut offset = start;
    loop {
        let chunk = reader.take_raw(CHUNK_BYTES)?;
        if chunk.is_empty() {
            return Ok(after);
        }
        let chunk_bytes = chunk.len() as u64;
        if let Some(tail) = tail.as_deref_mut() {
            tail.push_after(offset, chunk);
        }
        if chunk.iter().any(|byte| *byte != 0) {
            after.junk = true;
        }
        let base = offset - carried.len() as u64;
        carried.extend_from_slice(chunk);
        let mut found = memchr_magic(&carried, base, start);
        found.retain(|at| *at > start);
        for at in found {
            let index = usize::try_from(at - base).expect("an offset within a chunk");
            let Some(header) = FrameHeader::decode(&carried[index..], salt) else {
                continue;
            };
            let inside = at + FRAME_HEADER_BYTES as u64 + u64::from(header.payload_bytes) <= file_bytes;
            if inside && is_plausible(lsn, at - start, header.lsn) {
                after.add(Witness { offset: at, header }, lsn);
            }
        }
        // A header that begins in the last 31 bytes is looked at with the next chunk; one that began earlier was seen.
        let keep = carried.len().min(FRAME_HEADER_BYTES - ALIGN) / ALIGN * ALIGN;
        carried.drain(..carried.len() - keep);
        offset += chunk_bytes;
    }
}

/// A frame `distance` bytes after L cannot be further on in the stream than that, nor before L.
fn is_plausible(end: Lsn, distance: u64, lsn: Lsn) -> bool {
    lsn >= end && end.checked_plus(distance).is_none_or(|most| lsn <= most)
}

/// Offsets in the file, multiples of 8 from `start`, where the magic stands and a whole header may.
fn memchr_magic(bytes: &[u8], base: u64, start: u64) -> Vec<u64> {
    let mut found = Vec::new();
    let first = usize::try_from((start % FRAME_ALIGN + FRAME_ALIGN - base % FRAME_ALIGN) % FRAME_ALIGN)
        .expect("below the alignment");
    let mut index = first;
    while index + FRAME_HEADER_BYTES <= bytes.len() {
        if bytes[index..index + 4] == frame::MAGIC {
            found.push(base + index as u64);
        }
        index += ALIGN;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::is_plausible;
    use idem_protocol::Lsn;

    #[test]
    fn an_lsn_is_plausible_from_l_to_the_distance_in_bytes() {
        for (end, distance, lsn, expected) in [
            (100, 8, 99, false),
            (100, 8, 100, true),
            (100, 8, 108, true),
            (100, 8, 109, false),
            (u64::MAX - 4, 8, u64::MAX, true),
        ] {
            assert_eq!(
                is_plausible(Lsn::new(end), distance, Lsn::new(lsn)),
                expected,
                "{end} {distance} {lsn}"
            );
        }
    }
}
