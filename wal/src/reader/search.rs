//! Frame headers behind a place that is none.
//!
//! A header is looked for at every multiple of 8, with the segment's salt, with its records inside the file, and with an
//! lsn that is possible at its distance from the place: not before the lsn there, and not further on than the bytes
//! between. The salt keeps out what a client stored in a value and what an older use of the file left behind.

use idem_protocol::Lsn;
use idem_protocol::wal::{FRAME_ALIGN, FRAME_HEADER_BYTES, FrameHeader, Salt, frame};

use super::SegmentReader;
use crate::storage::StorageFile;

/// Frames start at multiples of this.
const ALIGN: usize = 8;
const _: () = assert!(FRAME_ALIGN == 8, "the two say the same");

/// Takes the bytes from a place to the end of the file, in order.
pub(crate) struct Search {
    start: u64,
    lsn: Lsn,
    salt: Salt,
    file_bytes: u64,
    /// Where the next bytes stand.
    offset: u64,
    /// The last bytes of those before, so that a header across the boundary is found.
    carried: Vec<u8>,
}

impl Search {
    /// How many bytes to take at once; a multiple of 8.
    pub(crate) const CHUNK_BYTES: usize = 1 << 20;

    /// From the place of `reader` on. A header at the place itself is none of those that are looked for.
    pub(crate) fn new<F: StorageFile>(reader: &SegmentReader<F>) -> Search {
        Search {
            start: reader.offset(),
            lsn: reader.lsn(),
            salt: reader.header().salt,
            file_bytes: reader.file_bytes(),
            offset: reader.offset(),
            carried: Vec::new(),
        }
    }

    /// Leaves out the bytes up to `offset`.
    pub(crate) fn skip_to(&mut self, offset: u64) {
        self.carried.clear();
        self.offset = offset;
    }

    /// Takes the next bytes; hands over each header in them with its offset in the file.
    pub(crate) fn feed(&mut self, chunk: &[u8], found: &mut dyn FnMut(u64, FrameHeader)) {
        let base = self.offset - self.carried.len() as u64;
        self.offset += chunk.len() as u64;
        self.carried.extend_from_slice(chunk);
        for at in magics(&self.carried, base, self.start) {
            let index = usize::try_from(at - base).expect("an offset within a chunk");
            let Some(header) = FrameHeader::decode(&self.carried[index..], self.salt) else {
                continue;
            };
            let inside = at + FRAME_HEADER_BYTES as u64 + u64::from(header.payload_bytes) <= self.file_bytes;
            if at > self.start && inside && is_plausible(self.lsn, at - self.start, header.lsn) {
                found(at, header);
            }
        }
        // A header that begins in the last 31 bytes is looked at with the next chunk; one that began earlier was seen.
        let keep = self.carried.len().min(FRAME_HEADER_BYTES - ALIGN) / ALIGN * ALIGN;
        self.carried.drain(..self.carried.len() - keep);
    }
}

/// A frame `distance` bytes after the place cannot be further on in the stream than that, nor before it.
fn is_plausible(end: Lsn, distance: u64, lsn: Lsn) -> bool {
    lsn >= end && end.checked_plus(distance).is_none_or(|most| lsn <= most)
}

/// Offsets in the file, multiples of 8 from `start`, where the magic stands and a whole header may.
fn magics(bytes: &[u8], base: u64, start: u64) -> impl Iterator<Item = u64> {
    let first = usize::try_from((start % FRAME_ALIGN + FRAME_ALIGN - base % FRAME_ALIGN) % FRAME_ALIGN)
        .expect("below the alignment");
    let last = (bytes.len() + 1).saturating_sub(FRAME_HEADER_BYTES);
    (first..last)
        .step_by(ALIGN)
        .filter(|index| bytes[*index..index + 4] == frame::MAGIC)
        .map(move |index| base + index as u64)
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
