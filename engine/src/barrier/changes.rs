//! Which keys changed above the settled position, and where.
//!
//! One table entry and one queue entry for each change, dropped when the position passes it. Keys are known by a 64-bit
//! hash of database and key: two keys of one hash make each other's readers wait, which is never wrong. Bounded: from
//! [`KEPT_CHANGES_MAX`] kept changes on, later ones are not kept one by one, and every read waits for the last of them
//! until the position has passed it.

use std::collections::VecDeque;

use hashbrown::HashTable;
use idem_protocol::Lsn;

/// How many changes are kept. About 40 bytes each.
pub const KEPT_CHANGES_MAX: usize = 1_000_000;

/// What one of them takes: its place in the queue and in a table, with the tables' free places and tags.
const CHANGE_BYTES: usize = 40;

/// The table is cut in so many pieces that growing one of them moves few entries: a full table of a million would
/// stand still for milliseconds when it grows.
const PIECES: usize = 64;

/// See the module's page.
pub struct RecentChanges {
    pieces: Box<[HashTable<Change>; PIECES]>,
    /// In lsn order. An entry whose key changed again later is stale, and its table entry is left alone.
    queue: VecDeque<Change>,
    /// Last change of a whole database. Grown to the highest database that was flushed.
    databases: Vec<Lsn>,
    /// Last change of all databases.
    all: Lsn,
    /// Last change that was not kept, for want of room.
    unkept: Lsn,
    /// At first the end of the epoch's EpochStart, then the settled position: everything of which nothing else is known
    /// changed last at or below it.
    floor: Lsn,
    kept_max: usize,
}

#[derive(Clone, Copy)]
struct Change {
    slot: u64,
    end: Lsn,
}

/// One number for a key of a database. The multiplier is odd, so databases of one key hash never meet.
fn slot_of(db: u8, hash: u64) -> u64 {
    hash.wrapping_add(u64::from(db).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// The piece of a slot: from bits that hashbrown does not use for its buckets or tags in tables of this size.
fn piece_of(slot: u64) -> usize {
    usize::try_from((slot >> 48) % 64).expect("below 64")
}

impl RecentChanges {
    /// Nothing changed above `floor`.
    pub fn new(floor: Lsn) -> Self {
        RecentChanges::with_limit(floor, KEPT_CHANGES_MAX)
    }

    fn with_limit(floor: Lsn, kept_max: usize) -> Self {
        RecentChanges {
            pieces: Box::new(std::array::from_fn(|_| HashTable::new())),
            queue: VecDeque::new(),
            databases: Vec::new(),
            all: Lsn::ZERO,
            unkept: Lsn::ZERO,
            floor,
            kept_max,
        }
    }

    /// A record that ends at `end` changed a key.
    pub fn note_key(&mut self, db: u8, hash: u64, end: Lsn) {
        assert!(end >= self.floor, "a change below the settled position");
        if self.queue.len() >= self.kept_max {
            self.unkept = end;
            return;
        }
        let change = Change {
            slot: slot_of(db, hash),
            end,
        };
        self.queue.push_back(change);
        let piece = &mut self.pieces[piece_of(change.slot)];
        match piece.find_mut(change.slot, |kept| kept.slot == change.slot) {
            Some(kept) => kept.end = end,
            None => {
                piece.insert_unique(change.slot, change, |kept| kept.slot);
            }
        }
    }

    /// A record that ends at `end` changed a whole database.
    pub fn note_database(&mut self, db: u8, end: Lsn) {
        let index = usize::from(db);
        if self.databases.len() <= index {
            self.databases.resize(index + 1, Lsn::ZERO);
        }
        self.databases[index] = end;
    }

    /// A record that ends at `end` changed every database.
    pub fn note_all(&mut self, end: Lsn) {
        self.all = end;
    }

    /// What a look at the key depends on.
    pub fn of_key(&self, db: u8, hash: u64) -> Lsn {
        let whole = self.databases.get(usize::from(db)).copied().unwrap_or(Lsn::ZERO);
        let others = self.floor.max(self.all).max(whole).max(self.unkept);
        if self.queue.is_empty() {
            return others;
        }
        let slot = slot_of(db, hash);
        let own = self.pieces[piece_of(slot)].find(slot, |kept| kept.slot == slot);
        own.map_or(others, |kept| kept.end.max(others))
    }

    /// The position has come to `position`: what changed at or below it is settled.
    pub fn settle(&mut self, position: Lsn) {
        assert!(position >= self.floor, "the settled position went back");
        self.floor = position;
        while let Some(oldest) = self
            .queue
            .front()
            .copied()
            .filter(|oldest| oldest.end <= position)
        {
            self.queue.pop_front();
            let piece = &mut self.pieces[piece_of(oldest.slot)];
            // A later change of the same key has its own entry further back.
            if let Ok(kept) = piece.find_entry(oldest.slot, |kept| {
                kept.slot == oldest.slot && kept.end == oldest.end
            }) {
                kept.remove();
            }
        }
        if self.queue.is_empty() && self.queue.capacity() > 4096 {
            // After a stall of the disk: the memory of up to a million changes goes back.
            self.queue.shrink_to(1024);
            self.pieces
                .iter_mut()
                .for_each(|piece| piece.shrink_to(0, |kept| kept.slot));
        }
    }

    /// How many changes are kept.
    pub fn kept(&self) -> usize {
        self.queue.len()
    }

    /// About how much memory they take. By their number, so that it falls with each that is settled; the tables give it
    /// back when all are.
    pub fn memory_bytes(&self) -> usize {
        self.kept() * CHANGE_BYTES
    }
}

impl std::fmt::Debug for RecentChanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecentChanges")
            .field("kept", &self.kept())
            .field("floor", &self.floor)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Key(u8, u64),
        Database(u8),
        All,
        Settle(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            12 => (0..3_u8, 0..6_u64).prop_map(|(db, key)| Step::Key(db, key << 45)),
            1 => (0..3_u8).prop_map(Step::Database),
            1 => Just(Step::All),
            4 => (0..1000_u64).prop_map(Step::Settle),
        ];
        proptest::collection::vec(step, 0..120)
    }

    proptest! {
        /// Against the plain list of all changes: never below the truth, exact while there is room, and never above what
        /// has been appended.
        #[test]
        fn never_forgets_what_is_not_settled(steps in steps(), limit in prop_oneof![Just(5_usize), Just(1000)]) {
            let mut changes = RecentChanges::with_limit(Lsn::ZERO, limit);
            let mut truth: Vec<(Step, Lsn)> = Vec::new();
            let (mut appended, mut settled) = (0_u64, 0_u64);
            for step in steps {
                if let Step::Settle(share) = step {
                    settled += (appended - settled) * share / 1000;
                    changes.settle(Lsn::new(settled));
                } else {
                    appended += 10;
                    let end = Lsn::new(appended);
                    match step {
                        Step::Key(db, key) => changes.note_key(db, key, end),
                        Step::Database(db) => changes.note_database(db, end),
                        _ => changes.note_all(end),
                    }
                    truth.push((step, end));
                }
                for (db, key) in (0..3_u8).flat_map(|db| (0..6_u64).map(move |key| (db, key << 45))) {
                    let last = truth.iter().rev().find(|(step, _)| match step {
                        Step::Key(of_db, of_key) => (*of_db, *of_key) == (db, key),
                        Step::Database(of_db) => *of_db == db,
                        _ => true,
                    });
                    let exact = last.map_or(Lsn::ZERO, |(_, end)| *end).max(Lsn::new(settled));
                    let told = changes.of_key(db, key);
                    prop_assert!(told >= exact && told <= Lsn::new(appended));
                    if limit == 1000 {
                        prop_assert_eq!(told, exact);
                    }
                }
                prop_assert!(changes.kept() <= limit);
            }
            changes.settle(Lsn::new(appended));
            prop_assert_eq!(changes.kept(), 0);
            prop_assert!(changes.pieces.iter().all(HashTable::is_empty));
        }
    }

    #[test]
    fn above_the_limit_every_read_waits_for_the_last_change() {
        let mut changes = RecentChanges::with_limit(Lsn::new(7), 2);
        changes.note_key(0, 1, Lsn::new(10));
        changes.note_key(0, 2, Lsn::new(20));
        assert_eq!(changes.of_key(0, 9), Lsn::new(7));
        changes.note_key(0, 3, Lsn::new(30));
        assert_eq!(changes.of_key(0, 9), Lsn::new(30));
        assert_eq!(changes.of_key(5, 1), Lsn::new(30));
        changes.settle(Lsn::new(20));
        assert_eq!(
            changes.of_key(0, 1),
            Lsn::new(30),
            "what was not kept may have been this key"
        );
        changes.settle(Lsn::new(30));
        assert_eq!(changes.of_key(0, 1), Lsn::new(30));
        changes.note_key(0, 1, Lsn::new(40));
        assert_eq!(changes.of_key(0, 2), Lsn::new(30), "room again: known key by key");
    }
}
