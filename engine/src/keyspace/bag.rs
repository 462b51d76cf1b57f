//! A growing array of handles in chunks: one slot of a wheel.
//!
//! A plain vector of a million handles copies four megabytes when it doubles. Here only the list of chunks is copied, one
//! pointer for 128 handles.

use std::mem::size_of;

use super::arena::Handle;
use super::memory::held;

const CHUNK: usize = 128;

/// Handles in no order, each known by its index.
#[derive(Debug, Default)]
pub(super) struct Bag {
    #[expect(clippy::vec_box, reason = "a doubling of the list must not copy the chunks")]
    chunks: Vec<Box<[u32; CHUNK]>>,
    len: usize,
}

impl Bag {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a handle and says its index.
    pub(super) fn push(&mut self, handle: Handle) -> u32 {
        let index = self.len;
        if index.is_multiple_of(CHUNK) {
            self.chunks.push(Box::new([0; CHUNK]));
        }
        self.chunks[index / CHUNK][index % CHUNK] = handle.to_bits();
        self.len += 1;
        u32::try_from(index).expect("2^32 entries in one slot of a wheel would take more than 400 GB")
    }

    pub(super) fn get(&self, index: u32) -> Handle {
        let index = index as usize;
        assert!(index < self.len, "index {index} of a bag of {}", self.len);
        Handle::from_bits(self.chunks[index / CHUNK][index % CHUNK])
    }

    /// Puts another handle in the place of one.
    pub(super) fn set(&mut self, index: u32, handle: Handle) {
        let index = index as usize;
        assert!(index < self.len, "index {index} of a bag of {}", self.len);
        self.chunks[index / CHUNK][index % CHUNK] = handle.to_bits();
    }

    /// Index and handle of the last one.
    pub(super) fn last(&self) -> Option<(u32, Handle)> {
        let index = u32::try_from(self.len.checked_sub(1)?).expect("push counted it in 32 bits");
        Some((index, self.get(index)))
    }

    /// Takes one out; the last one moves into its place. Returns the handle that moved and the index that it had.
    pub(super) fn swap_remove(&mut self, index: u32) -> Option<(Handle, u32)> {
        let (last_index, last) = self.last().expect("one is taken from a bag that holds it");
        assert!(index <= last_index, "index {index} of a bag of {}", self.len);
        self.len -= 1;
        if index != last_index {
            self.chunks[index as usize / CHUNK][index as usize % CHUNK] = last.to_bits();
        }
        self.chunks.truncate(self.len.div_ceil(CHUNK));
        if self.chunks.is_empty() {
            self.chunks = Vec::new();
        }
        (index != last_index).then_some((last, last_index))
    }

    /// Frees up to `budget` handles without looking at them; true when nothing is left.
    pub(super) fn discard(&mut self, budget: &mut usize) -> bool {
        while *budget > 0 && self.chunks.pop().is_some() {
            *budget = budget.saturating_sub(CHUNK);
        }
        self.len = self.len.min(self.chunks.len() * CHUNK);
        self.is_empty()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.len() * size_of::<[u32; CHUNK]>() + held(self.chunks.capacity() * size_of::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_stays_exact() {
        for len in [1_u32, 2, 127, 128, 129, 257, 1000] {
            for removed in [0, len / 2, len - 1] {
                let mut bag = Bag::default();
                for n in 0..len {
                    assert_eq!(bag.push(Handle::from_bits(n * 10)), n);
                }
                let moved = bag.swap_remove(removed);
                assert_eq!(
                    moved,
                    (removed != len - 1).then_some((Handle::from_bits((len - 1) * 10), len - 1))
                );
                assert_eq!(bag.last().map_or(0, |(index, _)| index + 1), len - 1);
                for n in (0..len - 1).filter(|n| *n != removed) {
                    assert_eq!(bag.get(n), Handle::from_bits(n * 10));
                }
            }
        }
    }

    #[test]
    fn memory_comes_back() {
        let mut bag = Bag::default();
        (0..10_000).for_each(|n| _ = bag.push(Handle::from_bits(n)));
        while let Some((index, _)) = bag.last() {
            bag.swap_remove(index);
        }
        assert_eq!(bag.memory_bytes(), 0);
    }
}
