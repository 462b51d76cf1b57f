//! The state in memory: databases of entries, found by key, by deadline and by position in hash order.
//!
//! # Vocabulary
//!
//! * **entry**: a key with its value and its deadline, in one cell of its database's arena.
//! * **IDEM record**: a string entry whose bytes are a well-formed stored IDEM record. Nothing else tells it from a
//!   string: no field, no second map.
//! * **partition**: a small hash table that holds the entries whose hashes begin with the same bits.
//! * **wheel**: the index by deadline (one per database).
//! * **ended**: an entry whose deadline has come. It stays here until [`Keyspace::reclaim`] frees it; readers have to look
//!   at [`EntryRef::deadline`] themselves, because only they know what `now` is.
//! * **condemned**: what a flush or the removal of a large hash left to be freed piece by piece.
//!
//! # Invariants
//!
//! 1. [`Keyspace::apply`] is the only way in which content changes. `reclaim` takes away only what had ended.
//! 2. The content is a function of the records applied. The hash seed and the moments of reclaiming change the order of
//!    iteration and the memory in use, nothing else.
//! 3. No single call stops the world because the keyspace is large: a growth step moves one partition (about a thousand
//!    entries), a flush condemns, the wheel cascades within the caller's budget.
//! 4. Every entry with a deadline stands in its database's wheel exactly once, and knows where. No reference in a wheel
//!    is ever stale.
//! 5. Looking up allocates nothing and copies nothing.
//!
//! # Deliberately absent
//!
//! A clock (time enters with the record or the call), lsns (the node knows them), and eviction ([`Keyspace::sample`] and
//! [`Keyspace::touch`] are what it needs of this).

mod apply;
mod arena;
mod bag;
mod database;
mod entry;
mod garbage;
mod hash_value;
mod hasher;
mod memory;
mod ring;
mod scan;
mod slab;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod wheel;

use idem_protocol::UnixMs;

pub use self::entry::{EntryRef, ValueRef};
pub(crate) use self::hash_value::HashPart;
pub use self::hash_value::HashValue;
pub(crate) use self::scan::{cursor_of, position_of};

use self::database::Database;
use self::garbage::Garbage;
use self::hasher::KeyHasher;

/// What one call of [`Keyspace::reclaim`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Entries freed.
    pub count: usize,
    /// The budget ran out before everything that had ended was freed: call again.
    pub more: bool,
}

/// All databases of one shard.
#[derive(Debug)]
pub struct Keyspace {
    /// Up to the highest that was used. A record can name any of 256; the number configured only says which of them
    /// clients may select.
    databases: Vec<Option<Box<Database>>>,
    databases_configured: u16,
    hasher: KeyHasher,
    garbage: Garbage,
}

impl Keyspace {
    /// An empty keyspace. `databases` is what [`Keyspace::databases`] answers; records of any database are accepted all
    /// the same (recovery refuses such logs before it comes to that). `seed` keys the hash, so that clients cannot choose
    /// keys that collide; it changes nothing but the order of iteration.
    pub fn new(databases: u16, seed: [u64; 4]) -> Self {
        Self::with_hasher(databases, KeyHasher::seeded(seed))
    }

    fn with_hasher(databases: u16, hasher: KeyHasher) -> Self {
        Self {
            databases: Vec::new(),
            databases_configured: databases,
            hasher,
            garbage: Garbage::default(),
        }
    }

    /// The entry under `key`, also when its deadline has ended and it only waits to be reclaimed.
    pub fn get(&self, db: u8, key: &[u8]) -> Option<EntryRef<'_>> {
        let hash = self.hasher.hash(key);
        self.database(db)?.find(hash, key)
    }

    /// Frees entries whose deadline is at or below `up_to`, the earlier before the later (to a quarter of a second).
    ///
    /// The wheel's finest slots span 256 ms and are freed whole, once `up_to` has passed their end: an entry goes at most
    /// 255 ms after its deadline, and never before it. `budget` is the number of entries to touch at most (freed, or
    /// moved to a finer slot), a few hundred nanoseconds each.
    pub fn reclaim(&mut self, up_to: UnixMs, budget: usize) -> Reclaimed {
        let mut total = Reclaimed::default();
        let mut left = budget;
        for database in self.databases.iter_mut().flatten() {
            let done = database.reclaim(up_to.get(), left, &self.hasher, &mut self.garbage);
            left -= done.touched;
            total.count += done.freed;
            total.more |= done.more;
        }
        total
    }

    /// May [`Keyspace::reclaim`] have something to free at `up_to = at`? A few bitmap words per database.
    ///
    /// No entry is missed for longer than its slot of 256 ms. The answer is exact as long as [`Keyspace::maintain`] is
    /// called now and then; without it a `true` may turn out to be no more than entries moved to finer slots.
    pub fn due(&self, at: UnixMs) -> bool {
        self.databases
            .iter()
            .flatten()
            .any(|database| database.due(at.get()))
    }

    /// Work ahead of time, `budget` entries at most: moves entries of coarse slots of the wheels to finer ones before
    /// their time comes, moves entries together where much memory stands empty between them, and frees what is condemned.
    /// True means that there is more to do.
    pub fn maintain(&mut self, now: UnixMs, budget: usize) -> bool {
        let mut left = budget;
        let mut more = false;
        for database in self.databases.iter_mut().flatten() {
            let done = database.maintain(now.get(), left);
            left -= done.touched;
            more |= done.more;
            let done = database.compact(left, &self.hasher);
            left -= done.touched;
            more |= done.more;
        }
        self.garbage.free(left);
        more || !self.garbage.is_empty()
    }

    /// Entries of a database, those included that have ended and are not reclaimed.
    pub fn len(&self, db: u8) -> u64 {
        self.database(db).map_or(0, Database::len)
    }

    /// Entries of a database that have a deadline.
    pub fn expires(&self, db: u8) -> u64 {
        self.database(db).map_or(0, Database::expires)
    }

    /// Entries of all databases that are well-formed stored IDEM records.
    pub fn idem_records(&self) -> u64 {
        self.databases
            .iter()
            .flatten()
            .map(|database| database.idem_records())
            .sum()
    }

    /// The number of databases that clients may select.
    pub fn databases(&self) -> u16 {
        self.databases_configured
    }

    /// Forgets everything at once, and gives the memory back before it returns (recovery starting over; a flush by
    /// record condemns instead).
    pub fn clear(&mut self) {
        self.databases.clear();
        self.garbage = Garbage::default();
    }

    /// Bytes in use for entries, tables and wheels, rounded up as they are allocated, and of what is condemned.
    ///
    /// It falls with each entry that goes. What then stands empty in pages that hold other entries, too, is used for later
    /// ones and is part of [`Keyspace::held_bytes`], which [`Keyspace::maintain`] keeps within a quarter and a mebibyte of
    /// this for each database; while a keyspace only grows the two are within a few percent.
    pub fn memory_bytes(&self) -> u64 {
        let databases = self.databases.iter().flatten();
        databases.map(|database| database.used_bytes()).sum::<u64>() + self.garbage.bytes()
    }

    /// What of [`Keyspace::memory_bytes`] is condemned: on its way back.
    pub fn condemned_bytes(&self) -> u64 {
        self.garbage.bytes()
    }

    /// Whether a database has as much as handles of 32 bits can name: about 250 GB of small entries, or a million values
    /// above 64 KiB. Nothing should be added then; what is there can be changed and removed.
    pub fn is_at_capacity(&self) -> bool {
        let mut databases = self.databases.iter().flatten();
        databases.any(|database| database.is_at_capacity())
    }

    /// Bytes that the allocator was asked for and has not got back.
    pub fn held_bytes(&self) -> u64 {
        let databases = self.databases.iter().flatten();
        databases.map(|database| database.held_bytes()).sum::<u64>() + self.garbage.bytes()
    }

    /// Notes that a key was used at `clock`, which [`EntryRef::touched`] then answers. It belongs to no record and to no
    /// state: it is lost with the process, and when the key is written again it starts at 0.
    pub fn touch(&mut self, db: u8, key: &[u8], clock: u32) {
        let hash = self.hasher.hash(key);
        if let Some(Some(database)) = self.databases.get_mut(usize::from(db)) {
            database.touch(hash, key, clock);
        }
    }

    /// The keyed 64-bit hash of a key, as the tables use it.
    pub fn key_hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key)
    }

    fn database(&self, db: u8) -> Option<&Database> {
        self.databases.get(usize::from(db))?.as_deref()
    }

    fn database_mut(&mut self, db: u8) -> &mut Database {
        let index = usize::from(db);
        if self.databases.len() <= index {
            self.databases.resize_with(index + 1, || None);
        }
        self.databases[index].get_or_insert_default()
    }

    /// The databases that exist, in order.
    fn existing(&self) -> impl Iterator<Item = (u8, &Database)> {
        (0..=u8::MAX)
            .zip(&self.databases)
            .filter_map(|(db, slot)| Some((db, slot.as_deref()?)))
    }

    /// All entries, in no particular order, ended ones included.
    pub fn iter(&self) -> impl Iterator<Item = (u8, EntryRef<'_>)> {
        self.existing()
            .flat_map(|(db, database)| database.iter().map(move |entry| (db, entry)))
    }
}
