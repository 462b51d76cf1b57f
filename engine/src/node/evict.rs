//! Making room, when a command that would write finds the memory full.
//!
//! ```text
//! would write, DENYOOM, full ─▶ give back what has ended ─▶ still full ─┬─ noeviction ──────────▶ OOM
//!                                                                       ├─ nothing may go ──────▶ OOM
//!                                                                       └─ evict, one record each ─┬─ room ───▶ decide again
//!                                                                                                  └─ budget ─▶ wait
//! ```
//!
//! Each eviction is a deletion in the log, reserved, appended and applied before the command's own records; so the
//! command's reply depends on all of them, and whoever misses an evicted key depends on its deletion. The command is decided
//! again afterwards, on the state that the evictions left.
//!
//! One call evicts at most [`EVICTIONS_MAX`] keys. When a large value needs more, its command waits like one that waits
//! for log space, others go on, and the next event of the log (the evictions are in it) has it decided again: no pause,
//! and no error while something may go.
//!
//! The keys are samples. Where fewer than one key in a thousand may go, a search can end without having met one, and OOM
//! is answered although some are left; the next command looks elsewhere. After such a search the next ones are short,
//! until one finds something: a refusal costs little, however many there are of them.

use idem_protocol::UnixMs;
use idem_protocol::command::{self, CommandId, SubcommandId};
use idem_protocol::wal::{DeleteReason, Record};

use super::Node;
use crate::decide::Call;
use crate::eviction::{ACCESS_CLOCK_SHIFT, EvictionPolicy, MemoryLimit, used_bytes};
use crate::log::{Log, Reservation};
use crate::session::Session;

/// Keys evicted in one call: two to three microseconds each.
const EVICTIONS_MAX: usize = 128;
/// Entries that have ended and are freed in one call.
const RECLAIM_BUDGET: usize = 256;
/// Entries looked at in one call, some ten nanoseconds each, …
const LOOKS_MAX: usize = 4096;
/// … so many after a search that found nothing, …
const LOOKS_AFTER_NOTHING: usize = 64;
/// … and in one database for one eviction, before the next database is tried.
const LOOKS_PER_DATABASE: usize = 1024;
/// A command's own keys are spared, as long as they are so few.
const SPARED_KEYS_MAX: usize = 16;

/// Whether there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is now: the command is decided again.
    Made,
    /// Not yet: it is decided again after the next event of the log.
    Later,
    /// There is none, and nothing may go.
    None,
    /// Something may go, but the log has no space to say so.
    NoSpace,
}

impl Node {
    /// Sets the memory limit; none at first. A limit below what is used refuses or evicts from the next write on.
    pub fn limit_memory(&mut self, limit: MemoryLimit) {
        self.memory_limit = limit;
        self.found_nothing = false;
    }

    /// What counts against the limit, in bytes.
    pub fn used_bytes(&self) -> u64 {
        used_bytes(&self.keyspace)
    }

    /// Looks at how much is used. It is too much work for every command: ticks do it, and INFO.
    pub(super) fn note_peak(&mut self) {
        self.peak_bytes = self.peak_bytes.max(self.used_bytes());
    }

    /// Whether more is used than allowed, or as much as there can be.
    pub(super) fn is_full(&self) -> bool {
        let exceeded = self.memory_limit.bytes != 0 && self.memory_limit.is_exceeded_by(self.used_bytes());
        exceeded || self.keyspace.is_at_capacity()
    }

    /// Whether room can be made by evicting.
    pub(super) fn evicts(&self) -> bool {
        self.memory_limit.policy != EvictionPolicy::NoEviction
    }

    /// Frees and evicts until the memory is no longer full, within the bounds of one call.
    pub(super) fn make_room<L: Log>(&mut self, call: Call<'_>, now: UnixMs, log: &mut L) -> Room {
        let reclaimed = self.keyspace.reclaim(self.barrier.settled_time(), RECLAIM_BUDGET);
        self.counters.expired_keys += reclaimed.count as u64;
        let mut looks = if self.found_nothing {
            LOOKS_AFTER_NOTHING
        } else {
            LOOKS_MAX
        };
        let mut evicted = 0;
        while self.is_full() {
            if evicted == EVICTIONS_MAX {
                return Room::Later;
            }
            let chosen = self.choose(call, &mut looks);
            self.found_nothing = chosen.is_none();
            let Some((db, key)) = chosen else {
                // What went is in the log, and its event brings the command back to look elsewhere.
                return if evicted > 0 { Room::Later } else { Room::None };
            };
            let record = Record::Delete {
                reason: DeleteReason::Evicted,
                key: &key,
            };
            match log.reserve(record.encoded_len()) {
                Reservation::Granted => {}
                Reservation::Wait => return Room::Later,
                Reservation::NoSpace => return Room::NoSpace,
            }
            self.commit(log, now, db, &record);
            self.counters.evicted_keys += 1;
            evicted += 1;
        }
        Room::Made
    }

    /// The key that goes next: the best of a few samples. The first database is chosen by how much it holds, and what has
    /// nothing to give leads on to the next.
    fn choose(&mut self, call: Call<'_>, looks: &mut usize) -> Option<(u8, Vec<u8>)> {
        let limit = self.memory_limit;
        if !self.evicts() || self.only_idem_is_left() {
            return None;
        }
        let first = self.weighted_database()?;
        let count = self.keyspace.databases();
        for step in 0..count {
            let db = u8::try_from((u16::from(first) + step) % count).ok()?;
            if self.weight(db) == 0 {
                continue;
            }
            let at = self.random.next();
            let mut left = LOOKS_PER_DATABASE.min(*looks);
            let mut candidates = limit.candidates();
            let mut best: Option<(u64, &[u8])> = None;
            *looks -= left;
            self.keyspace.sample(db, at, &mut |entry| {
                left = left.saturating_sub(1);
                if limit.may_go(&entry) && !is_named(call, db, entry.key()) {
                    candidates -= 1;
                    let rank = limit.rank(&entry);
                    if best.is_none_or(|(lowest, _)| rank < lowest) {
                        best = Some((rank, entry.key()));
                    }
                }
                left > 0 && candidates > 0
            });
            *looks += left;
            if let Some((_, key)) = best {
                return Some((db, key.to_vec()));
            }
            if *looks == 0 {
                break;
            }
        }
        None
    }

    /// Whether every key is a record of IDEM and may not go.
    fn only_idem_is_left(&self) -> bool {
        let keys = || (0..self.keyspace.databases()).filter_map(|db| u8::try_from(db).ok());
        !self.memory_limit.idem_evictable
            && self.keyspace.idem_records() == keys().map(|db| self.keyspace.len(db)).sum::<u64>()
    }

    /// A database at random, each as likely as it is large.
    fn weighted_database(&mut self) -> Option<u8> {
        let databases = u8::try_from(self.keyspace.databases() - 1).unwrap_or(u8::MAX);
        let total: u64 = (0..=databases).map(|db| self.weight(db)).sum();
        let mut place = self.random.next().checked_rem(total)?;
        (0..=databases).find(|db| {
            let weight = self.weight(*db);
            let found = place < weight;
            place = place.saturating_sub(weight);
            found
        })
    }

    /// How many of a database's keys the policy looks at.
    fn weight(&self, db: u8) -> u64 {
        if self.memory_limit.policy.is_volatile() {
            self.keyspace.expires(db)
        } else {
            self.keyspace.len(db)
        }
    }

    /// What the clock of accesses says; never 0, which says that a key was not used since the start.
    pub(super) fn access_clock(&self, now: UnixMs) -> u32 {
        let clock = (now.get().saturating_sub(self.opened_at.get()) >> ACCESS_CLOCK_SHIFT) + 1;
        u32::try_from(clock).unwrap_or(u32::MAX)
    }

    /// Notes that the command used its keys, when a policy asks for it.
    pub(super) fn touch(&mut self, session: &Session, call: Call<'_>, now: UnixMs) {
        let keeps_quiet = session.no_touch && call.route.spec.id != CommandId::Touch;
        if !self.memory_limit.wants_access_times() || only_asks(call) || keeps_quiet {
            return;
        }
        let clock = self.access_clock(now);
        for key in command::keys(call.route.spec, call.args) {
            self.keyspace.touch(call.db, key, clock);
        }
    }
}

/// Whether the command itself names the key: it is about to be written or read.
fn is_named(call: Call<'_>, db: u8, key: &[u8]) -> bool {
    call.db == db
        && command::keys(call.route.spec, call.args)
            .take(SPARED_KEYS_MAX)
            .any(|named| named == key)
}

/// Questions about a key are no use of it, as in Redis.
fn only_asks(call: Call<'_>) -> bool {
    let asks = matches!(
        call.route.spec.id,
        CommandId::Exists
            | CommandId::Object
            | CommandId::Ttl
            | CommandId::Pttl
            | CommandId::Expiretime
            | CommandId::Pexpiretime
            | CommandId::Type
    );
    asks || call.subcommand() == Some(SubcommandId::IdemInspect)
}
