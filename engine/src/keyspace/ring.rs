//! The slots of one level of the wheel: a ring of bags, with a bit for each that holds something.
//!
//! Ticks of a level are mapped to the ring by their low 9 bits. That is unambiguous because a level never holds more than
//! 512 consecutive ticks (see [`super::wheel`]).

use std::mem::size_of;

use super::bag::Bag;

const RING: usize = 512;
const RING_TICKS: u64 = 512;

/// One level's slots.
#[derive(Debug)]
pub(super) struct Ring {
    slots: Vec<Bag>,
    /// One bit for each slot that is not empty.
    occupied: [u64; RING / 64],
}

/// Where a tick stands in its level's ring.
pub(super) fn ring_index(tick: u64) -> usize {
    usize::try_from(tick % RING_TICKS).expect("below 512")
}

impl Ring {
    /// Bytes that a ring of empty slots takes on the heap.
    pub(super) const HEAP_BYTES: usize = RING * size_of::<Bag>();

    pub(super) fn new() -> Self {
        let mut slots = Vec::new();
        slots.resize_with(RING, Bag::default);
        Self {
            slots,
            occupied: [0; RING / 64],
        }
    }

    pub(super) fn bag(&self, ring: usize) -> &Bag {
        &self.slots[ring]
    }

    #[cfg(test)]
    pub(super) fn bags(&self) -> &[Bag] {
        &self.slots
    }

    /// Changes a slot and sets its bit.
    pub(super) fn change<R>(&mut self, ring: usize, change: impl FnOnce(&mut Bag) -> R) -> R {
        let bag = &mut self.slots[ring];
        let result = change(bag);
        let bit = 1 << (ring % 64);
        if bag.is_empty() {
            self.occupied[ring / 64] &= !bit;
        } else {
            self.occupied[ring / 64] |= bit;
        }
        result
    }

    /// Frees up to `budget` handles of a ring that is no longer used; true when nothing is left.
    pub(super) fn discard(&mut self, budget: &mut usize) -> bool {
        self.slots.iter_mut().all(|bag| bag.discard(budget))
    }

    /// The first slot at or after the tick `from` that is not empty, as a tick.
    pub(super) fn first_from(&self, from: u64) -> Option<u64> {
        let start = ring_index(from);
        let words = self.occupied.len();
        // The first word once from `start` on, and once more at the end for its bits before `start`: had it others, they
        // would have been found the first time.
        for step in 0..=words {
            let at = (start / 64 + step) % words;
            let mut word = self.occupied[at];
            if step == 0 {
                word &= u64::MAX << (start % 64);
            }
            if word != 0 {
                let ring = at * 64 + word.trailing_zeros() as usize;
                let distance = (ring + RING - start) % RING;
                return Some(from + u64::try_from(distance).expect("below 512"));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::arena::Handle;

    /// From every position, with one slot taken or two, the nearest one ahead is found.
    #[test]
    fn the_next_slot_is_found_from_everywhere() {
        for taken in [0, 1, 63, 64, 200, 511] {
            let mut ring = Ring::new();
            assert_eq!(ring.first_from(taken), None);
            ring.change(ring_index(taken), |bag| bag.push(Handle::from_bits(1)));
            for from in 5 * RING_TICKS..6 * RING_TICKS {
                let found = ring.first_from(from).unwrap();
                assert!(found >= from && found < from + RING_TICKS && found % RING_TICKS == taken);
            }
            let other = (taken + 100) % RING_TICKS;
            ring.change(ring_index(other), |bag| bag.push(Handle::from_bits(1)));
            for from in 0..RING_TICKS {
                let ahead = |tick: u64| from + (tick + RING_TICKS - from) % RING_TICKS;
                assert_eq!(ring.first_from(from), Some(ahead(taken).min(ahead(other))));
            }
            ring.change(ring_index(taken), |bag| bag.swap_remove(0));
            assert_eq!(ring.first_from(0), Some(other));
        }
    }
}
