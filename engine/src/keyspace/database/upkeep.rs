//! What a database does beside commands, in small steps: freeing what has ended, keeping its wheel in shape, moving entries
//! together.

use super::Database;
use crate::keyspace::arena::Handle;
use crate::keyspace::entry::Moving;
use crate::keyspace::garbage::Garbage;
use crate::keyspace::hasher::KeyHasher;
use crate::keyspace::wheel::{SlotId, Step, Wheel};

/// Why an entry that the wheel names is always found.
const INDEX_IS_EXACT: &str = "each handle in a wheel belongs to one entry, which is in the table";

/// Free memory up to this is not worth moving anything.
const SPARSE_BYTES_MIN: usize = 1 << 20;

/// What a budgeted call did.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::keyspace) struct Work {
    /// Entries looked at, at most the budget.
    pub(in crate::keyspace) touched: usize,
    /// Entries freed.
    pub(in crate::keyspace) freed: usize,
    /// The budget ran out first.
    pub(in crate::keyspace) more: bool,
}

impl Database {
    pub(in crate::keyspace) fn due(&self, at: u64) -> bool {
        self.wheel.due(at)
    }

    /// See [`crate::keyspace::Keyspace::reclaim`].
    pub(in crate::keyspace) fn reclaim(
        &mut self,
        up_to: u64,
        budget: usize,
        hasher: &KeyHasher,
        garbage: &mut Garbage,
    ) -> Work {
        let mut work = Work::default();
        if self.wheel.past_due(up_to) {
            self.reclaim_past(up_to, budget, hasher, garbage, &mut work);
        }
        let limit = Wheel::limit(up_to);
        while work.touched < budget {
            match self.wheel.step(limit) {
                Step::Done => break,
                Step::Open(slot) => self.open(slot, budget, &mut work),
                Step::Free(slot) => {
                    while work.touched < budget
                        && let Some(handle) = self.wheel.last(slot)
                    {
                        self.free(handle, hasher, garbage);
                        work.touched += 1;
                        work.freed += 1;
                    }
                }
            }
        }
        work.more = self.wheel.due(up_to);
        work
    }

    /// See [`crate::keyspace::Keyspace::maintain`]. The position follows `now` over empty slots, and what is opened ahead lies
    /// beyond the position, not beyond `now`: while nothing can be reclaimed, nothing is prepared in vain either.
    pub(in crate::keyspace) fn maintain(&mut self, now: u64, budget: usize) -> Work {
        let mut work = Work::default();
        while work.touched < budget {
            match self.wheel.step(Wheel::limit(now)) {
                Step::Open(slot) => self.open(slot, budget, &mut work),
                Step::Done | Step::Free(_) => break,
            }
        }
        while work.touched < budget {
            let Some(slot) = self.wheel.ahead() else {
                return work;
            };
            self.open(slot, budget, &mut work);
        }
        work.more = true;
        work
    }

    /// Moves entries together while more than a fifth of what is held is free, so that pages go back.
    pub(in crate::keyspace) fn compact(&mut self, budget: usize, hasher: &KeyHasher) -> Work {
        let mut work = Work::default();
        while self.is_sparse() {
            if work.touched >= budget {
                work.more = true;
                break;
            }
            work.touched += 1;
            match self.entries.move_one() {
                None => break,
                Some(Moving::Nothing) => {}
                Some(Moving::Entry { from, to }) => self.has_moved(from, to, hasher),
            }
        }
        work
    }

    fn is_sparse(&self) -> bool {
        let (held, used) = (self.entries.held_bytes(), self.entries.used_bytes());
        held - used > used / 4 + SPARSE_BYTES_MIN
    }

    /// Puts the new handle where the old one was.
    fn has_moved(&mut self, from: Handle, to: Handle, hasher: &KeyHasher) {
        let entry = self.entries.get(to);
        let (deadline, place) = (entry.deadline_ms(), entry.place());
        let hash = hasher.hash(entry.key());
        let slot = self.table.find_mut(hash, |slot| slot.handle == from);
        slot.expect(INDEX_IS_EXACT).handle = to;
        if deadline != 0 {
            self.wheel.replace(deadline, place, to);
        }
    }

    /// What was past when it came is looked at one by one: it is in no order, and rarely more than a handful.
    fn reclaim_past(
        &mut self,
        up_to: u64,
        budget: usize,
        hasher: &KeyHasher,
        garbage: &mut Garbage,
        work: &mut Work,
    ) {
        while work.touched < budget
            && let Some(handle) = self.wheel.past_next()
        {
            work.touched += 1;
            let deadline = self.entries.get(handle).deadline_ms();
            if deadline <= up_to {
                self.free(handle, hasher, garbage);
                work.freed += 1;
            }
            if !self.wheel.past_seen((deadline > up_to).then_some(deadline)) {
                return;
            }
        }
    }

    fn free(&mut self, handle: Handle, hasher: &KeyHasher, garbage: &mut Garbage) {
        let hash = hasher.hash(self.entries.get(handle).key());
        self.table
            .remove(hash, |slot| slot.handle == handle)
            .expect(INDEX_IS_EXACT);
        garbage.discard(self.take_out(handle));
    }

    /// Moves entries of an opened slot to finer ones.
    fn open(&mut self, slot: SlotId, budget: usize, work: &mut Work) {
        while work.touched < budget
            && let Some(handle) = self.wheel.last(slot)
        {
            work.touched += 1;
            let entry = self.entries.get(handle);
            let (deadline, place) = (entry.deadline_ms(), entry.place());
            // An entry that is alone in its wheel leaves it empty for a moment; the wheel goes on where it stood.
            let time = self.wheel.position_ms();
            let moved = self.wheel.remove(deadline, place);
            debug_assert!(moved.is_none(), "the last one leaves no gap");
            self.link(handle, deadline, time);
        }
    }
}
