//! An extendible hash: a directory of partitions, indexed by the top bits of the hash.
//!
//! Each partition is a small open-addressing table. A full one splits in two by its next bit, so that the work of one
//! insertion is bounded by one partition, whatever the size of the whole. The directory doubles when the partition that
//! splits is as deep as the directory; that copies four bytes per directory entry and no values.
//!
//! Partitions in directory order are intervals of the hash in increasing order: a position in hash order ("everything
//! below this hash has been seen") stays meaningful while partitions split. SCAN and snapshots stand on that.
//!
//! # Limits
//!
//! A directory far larger than its partitions means that hashes agree in many leading bits, which a keyed hash does not
//! do by chance. Then partitions grow past their size instead of doubling the directory again; entries of one equal hash
//! always stay together. Emptied partitions give back their memory but are not merged; a table that becomes empty starts
//! over with one.

use std::mem::size_of;

use hashbrown::HashTable;
use hashbrown::hash_table;

use super::memory::held;

/// What a table holds knows its hash. The lower half is zero: nothing more than the upper one is used of a hash.
pub(super) trait Hashed {
    fn hash(&self) -> u64;
}

/// Entries at which a partition splits: what 1024 buckets hold at hashbrown's load factor of 7/8.
pub(super) const PARTITION_ENTRIES_MAX: usize = 896;
/// Hash bits that tell partitions apart at most.
const DEPTH_MAX: u32 = 32;
/// Directory entries per partition from which on the directory is not doubled any more.
const DIRECTORY_SPREAD_MAX: usize = 16;
/// Partitions stand in chunks of this many, so that adding one does not copy the others.
const CHUNK: usize = 256;

#[derive(Debug)]
struct Partition<T> {
    /// Leading hash bits that all entries here have in common.
    depth: u32,
    table: HashTable<T>,
}

#[derive(Debug)]
pub(super) struct Table<T> {
    /// 2^depth partition numbers.
    directory: Vec<u32>,
    depth: u32,
    chunks: Vec<Vec<Partition<T>>>,
    partitions: usize,
    len: usize,
    /// Bytes that are held for all partitions' slots.
    slot_bytes: usize,
    /// Entries that growth has moved so far.
    #[cfg(test)]
    pub(super) moved: usize,
}

/// One partition's entries from a position on, in hash order.
#[derive(Debug)]
pub(super) struct Ordered<'a, T> {
    pub(super) entries: Vec<&'a T>,
    /// Where the next partition begins; `None` when this was the last.
    pub(super) next: Option<u64>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            directory: vec![0],
            depth: 0,
            chunks: vec![vec![Partition {
                depth: 0,
                table: HashTable::new(),
            }]],
            partitions: 1,
            len: 0,
            slot_bytes: 0,
            #[cfg(test)]
            moved: 0,
        }
    }
}

/// The hash that a partition's table sees. hashbrown picks buckets by the low bits and tags slots with the top 7. Of the
/// upper 32 bits of a hash the topmost choose the partition, the lowest ten the
/// bucket, the next seven the tag. They begin to overlap beyond 32 768 partitions, where tags get weaker bit by bit.
fn inner(hash: u64) -> u64 {
    let upper = hash >> 32;
    upper | (upper >> 10) << 57
}

/// The `depth` leading bits of a hash.
fn leading(hash: u64, depth: u32) -> u64 {
    hash.checked_shr(u64::BITS - depth).unwrap_or(0)
}

fn index(bits: u64) -> usize {
    usize::try_from(bits).expect("a directory index is smaller than the directory in memory")
}

impl<T: Hashed> Table<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let partitions: usize = self
            .chunks
            .iter()
            .map(|chunk| held(chunk.capacity() * size_of::<Partition<T>>()))
            .sum();
        self.slot_bytes + partitions + held(self.directory.capacity() * size_of::<u32>())
    }

    pub(super) fn find(&self, hash: u64, equal: impl FnMut(&T) -> bool) -> Option<&T> {
        self.partition(self.number(hash)).table.find(inner(hash), equal)
    }

    pub(super) fn find_mut(&mut self, hash: u64, equal: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let number = self.number(hash);
        self.partition_mut(number).table.find_mut(inner(hash), equal)
    }

    /// Adds what is not in the table yet.
    pub(super) fn insert(&mut self, value: T) {
        let hash = value.hash();
        let mut number = self.number(hash);
        // One split at most: it may leave all entries on one side, and a bound per insertion matters more.
        if self.partition(number).table.len() >= PARTITION_ENTRIES_MAX && self.can_split(number) {
            self.split(number, hash);
            number = self.number(hash);
        }
        self.resized(number, |table| {
            _ = table.insert_unique(inner(hash), value, |other| inner(other.hash()))
        });
        self.len += 1;
    }

    pub(super) fn remove(&mut self, hash: u64, equal: impl FnMut(&T) -> bool) -> Option<T> {
        let number = self.number(hash);
        let (value, _) = self
            .partition_mut(number)
            .table
            .find_entry(inner(hash), equal)
            .ok()?
            .remove();
        self.len -= 1;
        if self.len == 0 && self.partitions > DIRECTORY_SPREAD_MAX {
            *self = Self::default();
            return Some(value);
        }
        let table = &self.partition(number).table;
        // A quarter full: half of the memory goes back, and as many removals as are left pay for the move.
        if table.is_empty() || (table.len() < table.capacity() / 4 && table.capacity() > 16) {
            self.resized(number, |table| {
                let room = table.len() * 2;
                table.shrink_to(room, |other| inner(other.hash()));
            });
        }
        Some(value)
    }

    /// Everything, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks
            .iter()
            .flatten()
            .flat_map(|partition| partition.table.iter())
    }

    /// Entries with a hash of at least `from` in the partition that `from` falls into.
    pub(super) fn ordered(&self, from: u64) -> Ordered<'_, T> {
        let partition = self.partition(self.number(from));
        let mut entries: Vec<&T> = partition
            .table
            .iter()
            .filter(|entry| entry.hash() >= from)
            .collect();
        entries.sort_unstable_by_key(|entry| entry.hash());
        // The last hash of the partition: its leading bits, then ones. One more is the next partition's first.
        let last = from | u64::MAX.checked_shr(partition.depth).unwrap_or(0);
        Ordered {
            entries,
            next: last.checked_add(1),
        }
    }

    /// Entries from a place chosen by `at` on, in table order, until `visit` says that it is enough or each was seen once.
    /// The top bits of `at` choose the partition, the others the place inside it. Not uniform where partitions differ in
    /// size, which is within a factor of two.
    pub(super) fn sample<'t>(&'t self, at: u64, visit: &mut dyn FnMut(&'t T) -> bool) {
        let first = self.number(at);
        for step in 0..self.partitions {
            let table = &self.partition((first + step) % self.partitions).table;
            let skipped = match table.len() {
                0 => continue,
                // The first partition's entries before the place come last, in the second half of the chain below.
                len if step == 0 => index(at % u64::try_from(len).expect("a partition is small")),
                _ => 0,
            };
            let mut all = table.iter().skip(skipped).chain(table.iter().take(skipped));
            if !all.all(&mut *visit) {
                return;
            }
        }
    }

    /// Takes a partition's entries out of a table that is being torn down.
    pub(super) fn pop_partition(&mut self) -> Option<hash_table::IntoIter<T>> {
        let chunk = self.chunks.last_mut()?;
        let partition = chunk.pop();
        if chunk.is_empty() {
            self.chunks.pop();
        }
        partition.map(|partition| partition.table.into_iter())
    }

    fn number(&self, hash: u64) -> usize {
        self.directory[index(leading(hash, self.depth))] as usize
    }

    fn partition(&self, number: usize) -> &Partition<T> {
        &self.chunks[number / CHUNK][number % CHUNK]
    }

    fn partition_mut(&mut self, number: usize) -> &mut Partition<T> {
        &mut self.chunks[number / CHUNK][number % CHUNK]
    }

    /// Changes a partition's table and counts what that did to its memory.
    fn resized(&mut self, number: usize, change: impl FnOnce(&mut HashTable<T>)) {
        let table = &mut self.partition_mut(number).table;
        let before = held(table.allocation_size());
        change(table);
        let after = held(table.allocation_size());
        #[cfg(test)]
        {
            let len = table.len();
            self.moved += if before == after { 0 } else { len };
        }
        self.slot_bytes = self.slot_bytes + after - before;
    }

    fn can_split(&self, number: usize) -> bool {
        let depth = self.partition(number).depth;
        let spread = self.directory.len() / self.partitions;
        depth < self.depth || (depth < DEPTH_MAX && spread < DIRECTORY_SPREAD_MAX)
    }

    /// Splits the partition that `hash` belongs to by its next bit.
    fn split(&mut self, number: usize, hash: u64) {
        let depth = self.partition(number).depth;
        if depth == self.depth {
            self.directory = self.directory.iter().flat_map(|number| [*number; 2]).collect();
            self.depth += 1;
        }
        let upper = |entry: &T| leading(entry.hash(), depth + 1) & 1 == 1;

        // Both halves get tables of their size at once, instead of growing there step by step.
        let old = std::mem::take(&mut self.partition_mut(number).table);
        let upper_len = old.iter().filter(|entry| upper(entry)).count();
        let mut halves = [
            HashTable::with_capacity(old.len() - upper_len),
            HashTable::with_capacity(upper_len),
        ];
        self.slot_bytes -= held(old.allocation_size());
        #[cfg(test)]
        {
            self.moved += old.len();
        }
        for entry in old {
            let half = &mut halves[usize::from(upper(&entry))];
            half.insert_unique(inner(entry.hash()), entry, |other| inner(other.hash()));
        }
        self.slot_bytes += halves
            .iter()
            .map(|half| held(half.allocation_size()))
            .sum::<usize>();

        let [lower, upper] = halves;
        *self.partition_mut(number) = Partition {
            depth: depth + 1,
            table: lower,
        };
        let added = self.add(Partition {
            depth: depth + 1,
            table: upper,
        });

        // The directory entries of the old partition stand side by side; the upper half of them is the new one's.
        let entries = 1_usize << (self.depth - depth);
        let first = index(leading(hash, depth)) * entries;
        self.directory[first + entries / 2..first + entries].fill(added);
    }

    fn add(&mut self, partition: Partition<T>) -> u32 {
        let number = self.partitions;
        if number.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::new());
        }
        self.chunks
            .last_mut()
            .expect("a table has at least one chunk")
            .push(partition);
        self.partitions += 1;
        u32::try_from(number).expect("2^32 partitions would take more than 200 GB for themselves")
    }

    #[cfg(test)]
    pub(super) fn partitions(&self) -> usize {
        self.partitions
    }

    /// Every partition holds what its directory entries say, and counts and memory agree.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.directory.len(), 1 << self.depth);
        let mut entries = 0;
        for (at, number) in self.directory.iter().enumerate() {
            let partition = self.partition(*number as usize);
            let span = 1 << (self.depth - partition.depth);
            for entry in partition.table.iter() {
                assert_eq!(
                    leading(entry.hash(), partition.depth),
                    u64::try_from(at / span).unwrap()
                );
            }
            entries += if at % span == 0 { partition.table.len() } else { 0 };
        }
        assert_eq!(entries, self.len);
        let slot_bytes: usize = self
            .chunks
            .iter()
            .flatten()
            .map(|p| held(p.table.allocation_size()))
            .sum();
        assert_eq!(slot_bytes, self.slot_bytes);
    }
}
