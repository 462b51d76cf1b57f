//! Walks in hash order: SCAN, and the snapshot's.
//!
//! A position is the hash at which the next call goes on; everything below it has been visited. Splits, growth and
//! removals do not move an entry in hash order, so what stays during a whole scan is visited exactly once, and any number
//! that a client makes up is a valid position. Entries of one equal hash are visited together.
//!
//! Clients see the upper half of a position, which is all that positions differ in ([`cursor_of`]): JavaScript's clients
//! keep a cursor as a number of 53 bits, and one that is rounded skips entries silently.

use super::Keyspace;
use super::entry::EntryRef;
use super::table::Hashed;

/// Partitions looked at in one call even when `count` is small: enough to get past holes that a mass deletion left.
const PARTITIONS_LEAST: usize = 16;

/// The cursor that a client is told for a position: below 2^32.
pub(crate) fn cursor_of(position: u64) -> u64 {
    position >> 32
}

/// The position that a client's cursor means; none where nothing is left.
pub(crate) fn position_of(cursor: u64) -> Option<u64> {
    (cursor >> 32 == 0).then_some(cursor << 32)
}

impl Keyspace {
    /// Visits about `count` entries from `cursor` on (0 = the beginning) and returns the next cursor, 0 when done; cursors
    /// are below 2^32.
    ///
    /// Entries that have ended are visited like others; the caller looks at the deadline. Fewer than `count` (also none)
    /// do not mean that the scan is over, more than `count` only that hashes were equal. One call costs the sorting of a
    /// partition (tens of microseconds), even when `count` is small.
    pub fn scan<'k>(&'k self, db: u8, cursor: u64, count: usize, visit: &mut dyn FnMut(EntryRef<'k>)) -> u64 {
        let mut left = count.max(1);
        let Some(mut position) = position_of(cursor) else {
            return 0;
        };
        for _ in 0..left.max(PARTITIONS_LEAST) {
            let next = self.walk(db, position, &mut |entry| {
                visit(entry);
                left = left.saturating_sub(1);
                left > 0
            });
            match next {
                Some(next) => position = next,
                None => return 0,
            }
            if left == 0 {
                break;
            }
        }
        cursor_of(position)
    }

    /// Visits entries from a place that `at`, a random number, chooses, until `visit` answers false or every entry was seen
    /// once. Entries that have ended are visited like others. About as likely for each entry; costs a microsecond and what
    /// `visit` does.
    pub fn sample<'k>(&'k self, db: u8, at: u64, visit: &mut dyn FnMut(EntryRef<'k>) -> bool) {
        if let Some(database) = self.database(db) {
            database.sample(at, visit);
        }
    }

    /// Visits entries of the partition that `from` falls into, from there on in hash order, until its end or until `visit`
    /// says that it is enough; entries whose hash equals the last one's are visited all the same. Returns the position to
    /// go on from, `None` at the end of the database.
    pub(crate) fn walk<'k>(
        &'k self,
        db: u8,
        from: u64,
        visit: &mut dyn FnMut(EntryRef<'k>) -> bool,
    ) -> Option<u64> {
        let database = self.database(db)?;
        let ordered = database.ordered(from);
        let mut enough = false;
        for group in ordered.entries.chunk_by(|a, b| a.hash() == b.hash()) {
            if enough {
                return Some(group[0].hash());
            }
            group
                .iter()
                .for_each(|slot| enough |= !visit(database.entry(**slot)));
        }
        ordered.next
    }
}
