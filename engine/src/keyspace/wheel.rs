//! The index by deadline: a hierarchical timing wheel of handles.
//!
//! Level 0 has slots of 256 ms, each level above slots 256 times as wide: 65.5 s, 4.7 h, 50 days, 35 years … Seven levels
//! span all of a u64, so that no deadline needs a special case; only what lies before the wheel's position when it is
//! inserted goes to a list of its own (the *past*).
//!
//! # Position
//!
//! `position` is a tick of level 0 (deadline / 256); slots before it are empty. On each level, the slot that contains the
//! position and the one after it are *open*: nothing is inserted into them, what comes goes to finer slots. So
//!
//! * an entry goes to the lowest level whose parent slot (one level up) is open;
//! * when the position enters a slot, the one after it opens, and what it holds can be moved to finer slots ahead of its
//!   time ([`Wheel::ahead`]); the position does not move past it before that is done ([`Wheel::step`]);
//! * a level holds at most the children of two open slots: 512 consecutive slots. A ring of 512 is enough, and a slot's
//!   ring index (its tick's low 9 bits) is unambiguous.
//!
//! # Exactness
//!
//! An entry knows its level and its index inside its slot ([`Place`]); the slot follows from its deadline. Removing takes
//! the last handle of the slot into the gap, and the caller tells the entry that moved ([`Moved`]). Nothing stale is ever
//! left behind, so nothing has to be checked, counted or swept later.
//!
//! The wheel knows handles only. Whoever owns the entries ([`super::database`]) carries out what it says.

use super::arena::Handle;
use super::bag::Bag;
use super::ring::{Ring, ring_index};

/// Levels of slots; the shift of the last one leaves 8 bits of a deadline.
const LEVELS: u8 = 7;
/// The level number of the list of what was past when it came.
const PAST: u8 = LEVELS;
const TICK_SHIFT: u32 = 8;
const LEVEL_BITS: u32 = 8;

/// Where an entry stands: level, and index inside the slot that its deadline gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) level: u8,
    pub(super) index: u32,
}

impl Place {
    /// Of an entry that is in no wheel.
    pub(super) const NOWHERE: Self = Self {
        level: 0,
        index: u32::MAX,
    };
}

/// One slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotId {
    level: u8,
    ring: usize,
}

/// The last handle of a slot has moved to index `to`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    pub(super) handle: Handle,
    pub(super) slot: SlotId,
    pub(super) to: u32,
}

/// What stands between the wheel's position and a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing; the position is the limit.
    Done,
    /// All entries of this slot have ended: take them out and free them.
    Free(SlotId),
    /// A coarse slot whose time has come: take its entries out and insert them again.
    Open(SlotId),
}

/// Handles of all entries of a database that have a deadline.
#[derive(Debug, Default)]
pub(super) struct Wheel {
    rings: [Option<Ring>; LEVELS as usize],
    past: Bag,
    /// No deadline in `past` is below this.
    past_earliest: u64,
    /// A pass over `past` goes from its end to its beginning, over several calls if need be: what is left of it is below
    /// this index. What comes meanwhile comes at the end, and what moves moves from the end: nothing is skipped.
    past_left: u32,
    /// The earliest deadline that the pass has kept, or that has come since it began.
    past_kept: u64,
    position: u64,
    len: u64,
    heap_bytes: usize,
}

/// The tick of a deadline on a level. Level 7 would shift everything out.
fn tick(deadline: u64, level: u8) -> u64 {
    deadline
        .checked_shr(TICK_SHIFT + LEVEL_BITS * u32::from(level))
        .unwrap_or(0)
}

/// The tick on `level` that contains `base`, a tick of level 0.
fn coarse(base: u64, level: u8) -> u64 {
    base >> (LEVEL_BITS * u32::from(level))
}

impl SlotId {
    /// The slot of an entry that stands on `level`.
    pub(super) fn of(deadline: u64, level: u8) -> Self {
        Self {
            level,
            ring: if level == PAST {
                0
            } else {
                ring_index(tick(deadline, level))
            },
        }
    }

    pub(super) fn place(self, index: u32) -> Place {
        Place {
            level: self.level,
            index,
        }
    }

    /// Does an entry with this deadline and place stand in this slot at `index`?
    #[cfg(test)]
    pub(super) fn holds(self, index: u32, deadline: u64, place: Place) -> bool {
        deadline != 0 && place == self.place(index) && Self::of(deadline, place.level) == self
    }
}

impl Wheel {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// Adds the handle of an entry with this deadline (not 0). `time` is any recent time: an empty wheel begins there.
    pub(super) fn insert(&mut self, handle: Handle, deadline: u64, time: u64) -> Place {
        if self.len == 0 {
            self.position = tick(time.min(deadline), 0);
        }
        let level = self.level_of(deadline);
        if level == PAST {
            self.past_earliest = if self.past.is_empty() {
                deadline
            } else {
                self.past_earliest.min(deadline)
            };
            self.past_kept = self.past_kept.min(deadline);
        }
        let slot = SlotId::of(deadline, level);
        let index = self.change(slot, |bag| bag.push(handle));
        self.len += 1;
        slot.place(index)
    }

    /// Takes out the entry with this deadline at this place.
    pub(super) fn remove(&mut self, deadline: u64, place: Place) -> Option<Moved> {
        let slot = SlotId::of(deadline, place.level);
        let moved = self.change(slot, |bag| bag.swap_remove(place.index));
        self.len -= 1;
        moved.map(|(handle, _)| Moved {
            handle,
            slot,
            to: place.index,
        })
    }

    /// An entry with this deadline at this place has another handle from now on.
    pub(super) fn replace(&mut self, deadline: u64, place: Place, handle: Handle) {
        self.change(SlotId::of(deadline, place.level), |bag| {
            bag.set(place.index, handle)
        });
    }

    /// The last handle of a slot.
    pub(super) fn last(&self, slot: SlotId) -> Option<Handle> {
        self.bag(slot)?.last().map(|(_, handle)| handle)
    }

    /// Is something in the past list whose deadline may be at or below `at`?
    pub(super) fn past_due(&self, at: u64) -> bool {
        !self.past.is_empty() && self.past_earliest <= at
    }

    /// The next of the past list to be looked at in this pass or a new one.
    pub(super) fn past_next(&mut self) -> Option<Handle> {
        let end = self.past.last().map_or(0, |(index, _)| index + 1);
        if self.past_left == 0 {
            self.past_kept = u64::MAX;
            self.past_left = end;
        }
        self.past_left = self.past_left.min(end).checked_sub(1)?;
        Some(self.past.get(self.past_left))
    }

    /// What [`Wheel::past_next`] named is freed, or else kept with this deadline. True while the pass goes on.
    pub(super) fn past_seen(&mut self, kept: Option<u64>) -> bool {
        self.past_kept = self.past_kept.min(kept.unwrap_or(u64::MAX));
        if self.past_left == 0 {
            self.past_earliest = self.past_kept;
        }
        self.past_left > 0
    }

    /// Moves the position towards the tick `limit`, up to the first thing that has to be done on the way. Never backwards.
    pub(super) fn step(&mut self, limit: u64) -> Step {
        let near = self.first(0);
        let mut far: Option<(u64, u8, u64)> = None;
        for level in 1..LEVELS {
            let Some(slot) = self.first(level) else { continue };
            let start = slot << (LEVEL_BITS * u32::from(level));
            if far.is_none_or(|(earliest, ..)| start < earliest) {
                far = Some((start, level, slot));
            }
        }
        if let Some((start, level, slot)) = far
            && start <= limit.max(self.position)
            && near.is_none_or(|near| start <= near)
        {
            self.move_to(start.max(self.position));
            return Step::Open(SlotId {
                level,
                ring: ring_index(slot),
            });
        }
        match near {
            Some(near) if near < limit => {
                self.move_to(near);
                Step::Free(SlotId {
                    level: 0,
                    ring: ring_index(near),
                })
            }
            _ => {
                self.move_to(limit.max(self.position));
                Step::Done
            }
        }
    }

    /// The limit for [`Wheel::step`] that frees everything whose slot has passed whole at `up_to`.
    pub(super) fn limit(up_to: u64) -> u64 {
        tick(up_to.saturating_add(1), 0)
    }

    /// The time at which the position's slot begins.
    pub(super) fn position_ms(&self) -> u64 {
        self.position << TICK_SHIFT
    }

    /// A slot that is open and still holds entries, fine levels first.
    pub(super) fn ahead(&self) -> Option<SlotId> {
        (1..LEVELS).find_map(|level| {
            let slot = SlotId {
                level,
                ring: ring_index(coarse(self.position, level) + 1),
            };
            self.bag(slot).is_some_and(|bag| !bag.is_empty()).then_some(slot)
        })
    }

    /// Is there something to free or to open at `at`?
    pub(super) fn due(&self, at: u64) -> bool {
        self.past_due(at)
            || self.first(0).is_some_and(|near| near < Self::limit(at))
            || (1..LEVELS).any(|level| self.first(level).is_some_and(|slot| slot <= tick(at, level)))
    }

    /// Frees up to `budget` handles of a wheel that is no longer used; true when nothing is left.
    pub(super) fn discard(&mut self, budget: &mut usize) -> bool {
        if !self.past.discard(budget) {
            return false;
        }
        for ring in &mut self.rings {
            if let Some(slots) = ring
                && !slots.discard(budget)
            {
                return false;
            }
            *ring = None;
        }
        true
    }

    fn level_of(&self, deadline: u64) -> u8 {
        if tick(deadline, 0) < self.position {
            return PAST;
        }
        let parent_is_open = |level: &u8| tick(deadline, level + 1) <= coarse(self.position, level + 1) + 1;
        (0..LEVELS - 1).find(parent_is_open).unwrap_or(LEVELS - 1)
    }

    fn move_to(&mut self, position: u64) {
        assert!(position >= self.position, "the wheel turns one way");
        self.position = position;
    }

    /// The first tick of a level, from the position on, whose slot is not empty.
    fn first(&self, level: u8) -> Option<u64> {
        self.rings[usize::from(level)]
            .as_ref()?
            .first_from(coarse(self.position, level))
    }

    fn bag(&self, slot: SlotId) -> Option<&Bag> {
        if slot.level == PAST {
            return Some(&self.past);
        }
        Some(self.rings[usize::from(slot.level)].as_ref()?.bag(slot.ring))
    }

    /// Changes a slot and keeps count of its memory.
    fn change<R>(&mut self, slot: SlotId, change: impl FnOnce(&mut Bag) -> R) -> R {
        let heap_bytes = &mut self.heap_bytes;
        let counted = |bag: &mut Bag| {
            let before = bag.memory_bytes();
            let result = change(bag);
            *heap_bytes = *heap_bytes + bag.memory_bytes() - before;
            result
        };
        let Some(ring) = self.rings.get_mut(usize::from(slot.level)) else {
            return counted(&mut self.past);
        };
        if let Some(ring) = ring {
            return ring.change(slot.ring, counted);
        }
        let result = ring.insert(Ring::new()).change(slot.ring, counted);
        self.heap_bytes += Ring::HEAP_BYTES;
        result
    }

    /// All places, with the handle at each: for the walk that checks the index.
    #[cfg(test)]
    pub(super) fn walk(&self) -> Vec<(SlotId, u32, Handle)> {
        let mut all = Vec::new();
        let rings = (0..LEVELS)
            .zip(&self.rings)
            .filter_map(|(level, ring)| Some((level, ring.as_ref()?)));
        let slots = rings.flat_map(|(level, ring)| {
            ring.bags()
                .iter()
                .enumerate()
                .map(move |(ring, bag)| (SlotId { level, ring }, bag))
        });
        for (slot, bag) in slots.chain([(SlotId { level: PAST, ring: 0 }, &self.past)]) {
            (0..bag.last().map_or(0, |(index, _)| index + 1))
                .for_each(|index| all.push((slot, index, bag.get(index))));
        }
        all
    }
}
