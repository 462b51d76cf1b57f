//! The end of the newest segment, held in memory as it was judged.
//!
//! After a failed sync the kernel may hold clean pages that never reached the disk, and may drop them: reading the same
//! bytes again can give other ones. What the verdict saw and accepted is therefore kept here and written back from here;
//! it is never read a second time. Only what lies above the highest witness is kept: anything below was promised by a
//! sync that had succeeded.

use std::collections::VecDeque;
use std::io;

use idem_protocol::Lsn;

use crate::reader::out_of_memory;

/// Zeros are kept as lengths in blocks of this size.
const BLOCK_BYTES: usize = 1 << 16;

/// A valid frame.
#[derive(Clone, Debug)]
struct HeldFrame {
    lsn: Lsn,
    offset: u64,
    bytes: Vec<u8>,
}

/// A copy of bytes that may be many.
fn held(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| out_of_memory())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// The valid frames above the highest witness, and what follows L.
#[derive(Clone, Debug, Default)]
pub(crate) struct TailImage {
    frames: VecDeque<HeldFrame>,
    /// Blocks after L that are not all zero, by offset.
    after: Vec<(u64, Vec<u8>)>,
    /// End of the file.
    file_bytes: u64,
}

impl TailImage {
    /// Takes a valid frame; `witnessed` is the highest promise known so far. An error when there is no memory for it.
    pub(crate) fn push_frame(
        &mut self,
        lsn: Lsn,
        offset: u64,
        bytes: &[u8],
        witnessed: Lsn,
    ) -> io::Result<()> {
        self.drop_below(witnessed);
        self.frames.push_back(HeldFrame {
            lsn,
            offset,
            bytes: held(bytes)?,
        });
        Ok(())
    }

    /// A frame whose begin is witnessed stays, with everything after it; what begins below the highest witness goes.
    pub(crate) fn drop_below(&mut self, witnessed: Lsn) {
        while self.frames.front().is_some_and(|frame| frame.lsn < witnessed) {
            self.frames.pop_front();
        }
    }

    /// Takes bytes after L. An error when there is no memory for them.
    pub(crate) fn push_after(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        for (index, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            if block.iter().any(|byte| *byte != 0) {
                self.after
                    .push((offset + (index * BLOCK_BYTES) as u64, held(block)?));
            }
        }
        self.file_bytes = self.file_bytes.max(offset + bytes.len() as u64);
        Ok(())
    }

    /// The offset from which the file is written again, when L is at `end`.
    pub(crate) fn rewrite_from(&self, end: u64) -> u64 {
        self.frames.front().map_or(end, |frame| frame.offset)
    }

    /// The frames to write again, in order.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.frames
            .iter()
            .map(|frame| (frame.offset, frame.bytes.as_slice()))
    }

    /// The bytes after L up to the last one that is not zero, as runs.
    pub(crate) fn junk(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.after
            .iter()
            .map(|(offset, bytes)| (*offset, bytes.as_slice()))
    }

    /// What a copy of the runs takes up.
    pub(crate) fn junk_bytes(&self) -> u64 {
        self.after.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Offset behind the last byte after L that is not zero; `end` when there is none.
    pub(crate) fn junk_end(&self, end: u64) -> u64 {
        self.after.last().map_or(end, |(offset, bytes)| {
            let last = bytes
                .iter()
                .rposition(|byte| *byte != 0)
                .expect("blocks of zeros are not kept");
            offset + last as u64 + 1
        })
    }

    /// The length of the file when it was judged.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }
}
