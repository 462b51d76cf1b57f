//! Values under small numbers that are used again, in chunks: adding one never moves the others.

use std::mem::size_of;

const CHUNK: usize = 256;

#[derive(Debug)]
enum Slot<T> {
    Taken(T),
    /// The next free number, if there is one.
    Free(Option<u32>),
}

#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Vec<Slot<T>>>,
    free: Option<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            free: None,
        }
    }
}

/// Why a number that a cell holds is always good.
const NUMBER_IS_TAKEN: &str = "a number is asked for while its value is there";

impl<T> Slab<T> {
    pub(super) fn add(&mut self, value: T) -> u32 {
        if let Some(number) = self.free {
            let slot = &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK];
            if let Slot::Free(next) = slot {
                self.free = *next;
            }
            *slot = Slot::Taken(value);
            return number;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::new());
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let last = self.chunks.last_mut().expect("one was added when there was none");
        last.push(Slot::Taken(value));
        u32::try_from(before + last.len() - 1).expect("2^32 hashes would take more than 400 GB")
    }

    pub(super) fn get(&self, number: u32) -> &T {
        match &self.chunks[number as usize / CHUNK][number as usize % CHUNK] {
            Slot::Taken(value) => value,
            Slot::Free(_) => panic!("{NUMBER_IS_TAKEN}"),
        }
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut T {
        match &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK] {
            Slot::Taken(value) => value,
            Slot::Free(_) => panic!("{NUMBER_IS_TAKEN}"),
        }
    }

    pub(super) fn remove(&mut self, number: u32) -> T {
        let slot = &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK];
        match std::mem::replace(slot, Slot::Free(self.free.replace(number))) {
            Slot::Taken(value) => value,
            Slot::Free(_) => panic!("{NUMBER_IS_TAKEN}"),
        }
    }

    /// Takes out one value after the other of a slab that is no longer used, whatever their numbers.
    pub(super) fn pop(&mut self) -> Option<T> {
        loop {
            match self.chunks.last_mut()?.pop() {
                Some(Slot::Taken(value)) => return Some(value),
                Some(Slot::Free(_)) => {}
                None => _ = self.chunks.pop(),
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Vec<Slot<T>>>()
            + self
                .chunks
                .iter()
                .map(|chunk| chunk.capacity() * size_of::<Slot<T>>())
                .sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut slab = Slab::default();
        let numbers: Vec<u32> = (0..1000).map(|value| slab.add(value)).collect();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
        for number in (0..1000).step_by(3) {
            assert_eq!(slab.remove(number), number);
        }
        let memory = slab.memory_bytes();
        for value in 0..334 {
            let number = slab.add(5000 + value);
            assert!(number.is_multiple_of(3) && number < 1000);
            assert_eq!(*slab.get(number), 5000 + value);
        }
        assert_eq!(slab.add(7), 1000);
        assert!(slab.memory_bytes() == memory);
        *slab.get_mut(1000) += 1;
        assert_eq!(*slab.get(1000), 8);
        let mut left = 0;
        while slab.pop().is_some() {
            left += 1;
        }
        assert_eq!(left, 1001);
        assert!(slab.memory_bytes() < memory);
    }
}
