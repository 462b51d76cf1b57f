//! One database: the table of its entries and the wheel of their deadlines, kept in step.

use super::entry::Entry;
use super::garbage::Garbage;
use super::hash_value::HashValue;
use super::table::{Hashed, Ordered, Table};
use super::wheel::{Moved, SlotId, Step, Wheel};

/// Why an entry that the wheel names is always found.
const INDEX_IS_EXACT: &str = "each hash in a wheel belongs to one entry that knows where it stands";

#[derive(Debug, Default)]
pub(super) struct Database {
    table: Table<Entry>,
    wheel: Wheel,
    /// Bytes of the entries, without their table slots.
    entry_bytes: u64,
    idem_records: u64,
}

/// What a budgeted call did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// Entries looked at, at most the budget.
    pub(super) touched: usize,
    /// Entries freed.
    pub(super) freed: usize,
    /// The budget ran out first.
    pub(super) more: bool,
}

impl Database {
    pub(super) fn len(&self) -> u64 {
        count(self.table.len())
    }

    pub(super) fn expires(&self) -> u64 {
        self.wheel.len()
    }

    pub(super) fn idem_records(&self) -> u64 {
        self.idem_records
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.entry_bytes + count(self.table.memory_bytes()) + count(self.wheel.memory_bytes())
    }

    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<&Entry> {
        self.table.find(hash, |entry| entry.key() == key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.table.iter()
    }

    pub(super) fn sample<'d>(&'d self, at: u64, visit: &mut dyn FnMut(&'d Entry) -> bool) {
        self.table.sample(at, visit);
    }

    pub(super) fn ordered(&self, from: u64) -> Ordered<'_, Entry> {
        self.table.ordered(from)
    }

    pub(super) fn into_parts(self) -> (Table<Entry>, Wheel) {
        (self.table, self.wheel)
    }

    /// Stores an entry and returns the one that it replaces. `time` is the record's.
    pub(super) fn put(&mut self, mut entry: Entry, time: u64) -> Option<Entry> {
        let (hash, deadline) = (entry.hash(), entry.deadline());
        self.entry_bytes += entry.memory_bytes();
        self.idem_records += u64::from(entry.is_idem());
        let Some(old) = self.table.find_mut(hash, |other| other.key() == entry.key()) else {
            self.link(&mut entry, time);
            self.table.insert(entry);
            return None;
        };
        // The usual case, a completion: same deadline, so the same place.
        if old.deadline() == deadline {
            entry.set_place(old.place());
        } else {
            let (old_deadline, old_place) = (old.deadline(), old.place());
            if old_deadline != 0 {
                let moved = self.wheel.remove(old_deadline, old_place);
                self.follow(moved);
            }
            self.link(&mut entry, time);
        }
        let old = self
            .table
            .find_mut(hash, |other| other.key() == entry.key())
            .expect("it was found above");
        let old = std::mem::replace(old, entry);
        self.forget(&old);
        Some(old)
    }

    pub(super) fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Entry> {
        let entry = self.table.remove(hash, |entry| entry.key() == key)?;
        self.forget(&entry);
        if entry.deadline() != 0 {
            let moved = self.wheel.remove(entry.deadline(), entry.place());
            self.follow(moved);
        }
        Some(entry)
    }

    /// Gives an entry that exists another deadline (0 = none).
    pub(super) fn set_deadline(&mut self, hash: u64, key: &[u8], deadline: u64, time: u64) {
        let Some(entry) = self.table.find_mut(hash, |entry| entry.key() == key) else {
            return;
        };
        let (old_deadline, old_place) = (entry.deadline(), entry.place());
        if old_deadline == deadline {
            return;
        }
        entry.set_deadline(0);
        if old_deadline != 0 {
            let moved = self.wheel.remove(old_deadline, old_place);
            self.follow(moved);
        }
        if deadline != 0 {
            let place = self.wheel.insert(hash, deadline, time);
            let entry = self
                .table
                .find_mut(hash, |entry| entry.key() == key)
                .expect("it was found above");
            entry.set_deadline(deadline);
            entry.set_place(place);
        }
    }

    /// Changes the fields of a hash that exists, and keeps count of its memory.
    pub(super) fn change_hash<R>(
        &mut self,
        hash: u64,
        key: &[u8],
        change: impl FnOnce(&mut HashValue) -> R,
    ) -> Option<R> {
        let entry = self.table.find_mut(hash, |entry| entry.key() == key)?;
        let before = entry.memory_bytes();
        let result = change(entry.hash_value_mut()?);
        self.entry_bytes = self.entry_bytes + entry.memory_bytes() - before;
        Some(result)
    }

    pub(super) fn due(&self, at: u64) -> bool {
        self.wheel.due(at)
    }

    /// See [`super::Keyspace::reclaim`].
    pub(super) fn reclaim(&mut self, up_to: u64, budget: usize, garbage: &mut Garbage) -> Work {
        let mut work = Work::default();
        if self.wheel.past_due(up_to) {
            self.reclaim_past(up_to, budget, garbage, &mut work);
        }
        let limit = Wheel::limit(up_to);
        while work.touched < budget {
            match self.wheel.step(limit) {
                Step::Done => break,
                Step::Open(slot) => self.open(slot, budget, &mut work),
                Step::Free(slot) => {
                    while work.touched < budget
                        && let Some((index, hash)) = self.wheel.last(slot)
                    {
                        self.free(slot, index, hash, garbage);
                        work.touched += 1;
                        work.freed += 1;
                    }
                }
            }
        }
        work.more = self.wheel.due(up_to);
        work
    }

    /// See [`super::Keyspace::maintain`]. The position follows `now` over empty slots, and what is opened ahead lies
    /// beyond the position, not beyond `now`: while nothing can be reclaimed, nothing is prepared in vain either.
    pub(super) fn maintain(&mut self, now: u64, budget: usize) -> Work {
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

    /// What was past when it came is looked at one by one: it is in no order, and rarely more than a handful.
    fn reclaim_past(&mut self, up_to: u64, budget: usize, garbage: &mut Garbage, work: &mut Work) {
        while work.touched < budget
            && let Some((slot, index, hash)) = self.wheel.past_next()
        {
            work.touched += 1;
            let entry = self
                .table
                .find(hash, |entry| slot.holds(index, entry.deadline(), entry.place()));
            let deadline = entry.expect(INDEX_IS_EXACT).deadline();
            if deadline <= up_to {
                self.free(slot, index, hash, garbage);
                work.freed += 1;
            }
            if !self.wheel.past_seen((deadline > up_to).then_some(deadline)) {
                return;
            }
        }
    }

    fn free(&mut self, slot: SlotId, index: u32, hash: u64, garbage: &mut Garbage) {
        let entry = self
            .table
            .remove(hash, |entry| slot.holds(index, entry.deadline(), entry.place()));
        let entry = entry.expect(INDEX_IS_EXACT);
        self.forget(&entry);
        let moved = self.wheel.remove(entry.deadline(), entry.place());
        self.follow(moved);
        garbage.discard(entry);
    }

    /// Moves entries of an opened slot to finer ones.
    fn open(&mut self, slot: SlotId, budget: usize, work: &mut Work) {
        while work.touched < budget
            && let Some((index, hash)) = self.wheel.last(slot)
        {
            work.touched += 1;
            let entry = self
                .table
                .find_mut(hash, |entry| slot.holds(index, entry.deadline(), entry.place()));
            let entry = entry.expect(INDEX_IS_EXACT);
            let deadline = entry.deadline();
            let moved = self.wheel.remove(deadline, entry.place());
            debug_assert!(moved.is_none(), "the last one leaves no gap");
            entry.set_place(self.wheel.insert(hash, deadline, deadline));
        }
    }

    fn link(&mut self, entry: &mut Entry, time: u64) {
        if entry.deadline() != 0 {
            entry.set_place(self.wheel.insert(entry.hash(), entry.deadline(), time));
        }
    }

    /// Tells an entry that it has moved inside its slot.
    fn follow(&mut self, moved: Option<Moved>) {
        let Some(Moved { hash, slot, from, to }) = moved else {
            return;
        };
        let entry = self
            .table
            .find_mut(hash, |entry| slot.holds(from, entry.deadline(), entry.place()));
        entry.expect(INDEX_IS_EXACT).set_place(slot.place(to));
    }

    /// Takes an entry that has left out of the counts.
    fn forget(&mut self, entry: &Entry) {
        self.entry_bytes -= entry.memory_bytes();
        self.idem_records -= u64::from(entry.is_idem());
    }

    /// Walks everything: each wheel place has its entry and each entry with a deadline its place.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.table.check();
        let places = self.wheel.walk();
        for (slot, index, hash) in &places {
            let held = |entry: &&Entry| slot.holds(*index, entry.deadline(), entry.place());
            let entry = self.table.find(*hash, |entry| held(&entry));
            assert!(
                entry.is_some_and(|entry| entry.hash() == *hash),
                "{slot:?} {index} is stale"
            );
        }
        let with_deadline = self.iter().filter(|entry| entry.deadline() != 0).count();
        assert_eq!(places.len(), with_deadline);
        assert_eq!(self.wheel.len(), count(with_deadline));
        assert_eq!(
            self.entry_bytes,
            self.iter().map(Entry::memory_bytes).sum::<u64>()
        );
        assert_eq!(
            self.idem_records,
            count(self.iter().filter(|entry| entry.is_idem()).count())
        );
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &Table<Entry> {
        &self.table
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).expect("what is in memory can be counted in 64 bits")
}
