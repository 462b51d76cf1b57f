//! One shard without its input and output: commands and events go in, bytes of replies and positions come out.
//!
//! ```text
//! recovery ── recover(record)… ── open(end) ─┐
//!                                            ▼
//! command ── execute(now, log, out) ──▶ resolve ─▶ decide(state, now) ─▶ memory full: evict and decide again, or OOM
//!                                                                      ─▶ reserve ─┬─▶ Wait: nothing happened
//!                                                                                 ├─▶ no space: decide at the log's time
//!                                                                                 └─▶ encode reply ─▶ append + apply
//! log thread ── progress(written, synced) ──▶ barrier(now): replies that depend on no more than this may go out
//! timer ── tick(now, log) ──▶ memory of what has ended comes back; now and then a Clock record
//! ```
//!
//! *In*: one call at a time, by the shard's only owner. Time enters with every call and is the server's clock, which
//! never runs backwards. *Out*: replies are appended to the caller's buffer at once, and each comes with the position
//! that it depends on. The caller keeps their order and holds each back until [`Node::barrier`] has reached the highest
//! position so far on that connection.

mod evict;
mod exec;
mod execute;
mod run;
#[cfg(feature = "sabotage")]
mod sabotage;
mod tick;
mod trial;

use std::time::Duration;

use idem_protocol::wal::Record;
use idem_protocol::{Epoch, Lsn, UnixMs};

pub use crate::barrier::Durability;
#[cfg(feature = "sabotage")]
pub use sabotage::Sabotage;
pub use tick::Tick;

use crate::barrier::{Barrier, RecentChanges};
use crate::counters::Counters;
use crate::deed::Deed;
use crate::eviction::MemoryLimit;
use crate::keyspace::Keyspace;
use crate::log::Log;
use crate::monitoring::Monitoring;
use crate::pause::Pause;
use crate::pubsub::PubSub;
use crate::random::Random;
use crate::session::Session;
use crate::transaction::watch::WatchTable;
#[cfg(feature = "sabotage")]
use sabotage::LateDeadlines;

/// Entries that one call of [`Node::reclaim_recovered`] frees or moves at most.
const RECOVERY_BUDGET: usize = 8192;

/// What [`Node::limit_transactions`] begins with.
const TRANSACTION_BYTES_DEFAULT: usize = 32 << 20;

/// A transaction of more parts is not noted key by key, but as a change of its databases.
const KEYS_NOTED_MAX: usize = 1000;

/// What a node is told once.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Databases that clients may select: 1 to 256.
    pub databases: u16,
    /// Random, new for each process: keeps clients from choosing keys that collide, and chooses where a sample begins.
    pub hash_seed: [u64; 4],
    /// `appendfsync`.
    pub policy: Durability,
    /// `proto-max-bulk-len`, in bytes.
    pub bulk_bytes_max: usize,
    /// How this build is broken on purpose.
    #[cfg(feature = "sabotage")]
    pub sabotage: Sabotage,
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reply was appended to the output.
    Reply {
        /// It may go out when the barrier is here.
        depends_on: Lsn,
    },
    /// The log or the memory has no room at this moment. Nothing was written to the output and nothing changed, except
    /// that other keys may have been evicted for it: call again with the same command after the next event of the log.
    Wait,
    /// A pause holds the command. Nothing has happened: call again with the same command when the pause ends
    /// ([`Node::paused_until`]) or is taken back.
    Held,
    /// As `Reply`; afterwards the connection is closed.
    Close {
        /// It may go out when the barrier is here.
        depends_on: Lsn,
    },
    /// A snapshot is asked for.
    Snapshot {
        /// True for `SAVE`: nothing was appended to the output, the caller answers when the snapshot is done. False for
        /// `BGSAVE`: the reply is there already; while a snapshot runs, another one follows it.
        wait: bool,
        /// The reply may go out when the barrier is here.
        depends_on: Lsn,
    },
    /// As `Reply`; before anything else is done, everybody waits.
    Sleep {
        /// For how long.
        duration: Duration,
        /// It may go out when the barrier is here.
        depends_on: Lsn,
    },
}

/// One shard's state and what is known about its log.
#[derive(Debug)]
pub struct Node {
    config: NodeConfig,
    keyspace: Keyspace,
    barrier: Barrier,
    counters: Counters,
    epoch: Epoch,
    random: Random,
    memory_limit: MemoryLimit,
    /// The most that counted against the limit, of the looks that were taken.
    peak_bytes: u64,
    /// The last search for a key to evict found none.
    found_nothing: bool,
    /// When serving began: accesses are counted from here.
    opened_at: UnixMs,
    /// The newest position and time seen by recovery. Snapshot items and log records overlap, so they are maxima.
    recovered_end: Lsn,
    recovered_time: UnixMs,
    /// The last Clock record written for reclaiming.
    reclaim_clock: (Lsn, UnixMs),
    /// What commands asked for and the server has not taken yet.
    deeds: Vec<Deed>,
    pause: Pause,
    pub(crate) monitoring: Monitoring,
    pubsub: PubSub,
    watches: WatchTable,
    transaction_bytes_max: usize,
    #[cfg(feature = "sabotage")]
    late: LateDeadlines,
}

impl Node {
    /// An empty node that has not been opened.
    pub fn new(config: NodeConfig) -> Self {
        assert!(
            (1..=256).contains(&config.databases),
            "a record names its database in one byte"
        );
        Node {
            keyspace: Keyspace::new(config.databases, config.hash_seed),
            barrier: Barrier::new(config.policy, Lsn::ZERO, UnixMs::ZERO),
            counters: Counters::default(),
            epoch: Epoch::default(),
            random: Random::seeded(config.hash_seed),
            memory_limit: MemoryLimit::default(),
            peak_bytes: 0,
            found_nothing: false,
            opened_at: UnixMs::ZERO,
            recovered_end: Lsn::ZERO,
            recovered_time: UnixMs::ZERO,
            reclaim_clock: (Lsn::ZERO, UnixMs::ZERO),
            deeds: Vec::new(),
            pause: Pause::default(),
            monitoring: Monitoring::default(),
            pubsub: PubSub::default(),
            watches: WatchTable::default(),
            transaction_bytes_max: TRANSACTION_BYTES_DEFAULT,
            #[cfg(feature = "sabotage")]
            late: LateDeadlines::default(),
            config,
        }
    }

    /// Forgets everything recovered, for recovery that starts over.
    pub fn reset(&mut self) {
        self.keyspace.clear();
        self.barrier.reopen(Lsn::ZERO, UnixMs::ZERO);
        self.recovered_end = Lsn::ZERO;
        self.recovered_time = UnixMs::ZERO;
        self.reclaim_clock = (Lsn::ZERO, UnixMs::ZERO);
        self.watches = WatchTable::default();
    }

    /// Takes one record during recovery, from a snapshot or from the log, in their order. `end` is where the log has to
    /// reach for the record to be true: its own end, or the position at which a snapshot's item was taken.
    pub fn recover(&mut self, end: Lsn, time: UnixMs, db: u8, record: &Record<'_>) {
        self.keyspace.apply(time, db, record);
        self.recovered_end = self.recovered_end.max(end);
        self.recovered_time = self.recovered_time.max(time);
    }

    /// Frees what had ended when the log record just recovered was written, in a step of bounded length; to be called
    /// now and then between **log** records, so that a long log of short-lived keys does not fill the memory. Answers how
    /// many entries went.
    ///
    /// Never between the items of a snapshot: its partitions are written one after the other, and what had ended at a
    /// later item's time may have been prolonged before that, by a record of the log that comes after the items.
    pub fn reclaim_recovered(&mut self, time: UnixMs) -> usize {
        self.keyspace.maintain(time, RECOVERY_BUDGET);
        self.keyspace.reclaim(time, RECOVERY_BUDGET).count
    }

    /// Serving begins: everything up to `end`, the EpochStart of `epoch` included, is on disk, and the newest record is of
    /// `log_time`. No reply that looks at the state depends on less than `end`.
    ///
    /// # Panics
    /// When something was recovered from above `end`: the state would show what the log does not hold.
    pub fn open(&mut self, end: Lsn, log_time: UnixMs, epoch: Epoch) {
        assert!(
            self.recovered_end <= end,
            "recovered up to {}, opened at {end}",
            self.recovered_end
        );
        self.barrier.reopen(end, log_time.max(self.recovered_time));
        self.epoch = epoch;
        self.opened_at = self.barrier.log_time();
        self.reclaim_clock = (end, UnixMs::ZERO);
    }

    /// The log thread reports its positions. They never go back, and `synced <= written <= appended`.
    pub fn progress(&mut self, written: Lsn, synced: Lsn, _now: UnixMs) {
        self.barrier.progress(written, synced);
    }

    /// Replies that depend on this position, or on less, may go out now. In `everysec` it can fall back while the disk is
    /// slow, and it moves with the time alone: ask again after a tick.
    pub fn barrier(&self, now: UnixMs) -> Lsn {
        self.barrier_at(|| now)
    }

    /// As [`Node::barrier`]; the clock is only looked at where time matters, because each reply asks.
    pub fn barrier_at(&self, now: impl FnOnce() -> UnixMs) -> Lsn {
        #[cfg(feature = "sabotage")]
        if self.config.sabotage == Sabotage::ReplyBeforeSync {
            return self.barrier.marks().appended();
        }
        self.barrier.position_at(now)
    }

    /// The time of the newest record.
    pub fn log_time(&self) -> UnixMs {
        self.barrier.log_time().max(self.recovered_time)
    }

    /// The state, for snapshots, digests and numbers.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Totals since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts from zero again.
    pub fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    /// Another `appendfsync` from now on; see [`Barrier::set_policy`].
    pub fn set_policy(&mut self, policy: Durability) {
        self.config.policy = policy;
        self.barrier.set_policy(policy);
    }

    /// Another `proto-max-bulk-len` from now on, in bytes. What is longer already stays as it is.
    pub fn set_bulk_bytes_max(&mut self, bytes: usize) {
        self.config.bulk_bytes_max = bytes;
    }

    /// Whether [`Node::take_deeds`] would answer anything.
    pub fn has_deeds(&self) -> bool {
        !self.deeds.is_empty()
    }

    /// What the last command asks of the server apart from answering, in order; to be carried out before anything else is
    /// executed.
    pub fn take_deeds(&mut self) -> Vec<Deed> {
        std::mem::take(&mut self.deeds)
    }

    /// A connection has ended: nothing is kept for it any more.
    pub fn forget(&mut self, session: &mut Session) {
        self.leave_transaction(session);
        self.pubsub.forget(session);
    }

    /// Who listens to what.
    pub fn pubsub(&self) -> &PubSub {
        &self.pubsub
    }

    /// Nothing is queued or watched any more.
    fn leave_transaction(&mut self, session: &mut Session) {
        session.transaction = None;
        self.watches.remove(&mut session.watched);
    }

    /// Bytes that the commands of one transaction may take while they are queued; 32 MiB at first.
    pub fn limit_transactions(&mut self, bytes: usize) {
        self.transaction_bytes_max = bytes;
    }

    /// The end of the last record appended.
    pub fn appended(&self) -> Lsn {
        self.barrier.marks().appended()
    }

    /// Below this the kernel has every record.
    pub fn written(&self) -> Lsn {
        self.barrier.marks().written()
    }

    /// Below this the disk has every record.
    pub fn synced(&self) -> Lsn {
        self.barrier.marks().synced()
    }

    /// Appends and applies one record: the one place where append order, apply order and lsn order are made the same.
    fn commit<L: Log>(&mut self, log: &mut L, time: UnixMs, db: u8, record: &Record<'_>) -> Lsn {
        let end = log.append(time, db, record);
        assert_eq!(end, log.appended(), "the log answers the end of what it appended");
        self.barrier.append(end, time);
        note(self.barrier.changes_mut(), &self.keyspace, db, record, end);
        if !self.watches.is_empty() {
            self.watches.note(&self.keyspace, db, record, end);
        }
        self.keyspace.apply(time, db, record);
        end
    }
}

/// Notes what a record changes. Every kind is named: a new one has to say here what its readers wait for.
fn note(changes: &mut RecentChanges, keyspace: &Keyspace, db: u8, record: &Record<'_>, end: Lsn) {
    match record {
        Record::StringPut { key, .. }
        | Record::Delete { key, .. }
        | Record::DeadlinePut { key, .. }
        | Record::HashPut { key, .. }
        | Record::HashDelete { key, .. }
        | Record::IdempotencyPut { key, .. } => changes.note_key(db, keyspace.key_hash(key), end),
        Record::FlushDb => changes.note_database(db, end),
        Record::FlushAll => changes.note_all(end),
        // Half a million entries in the table of changes would make everybody wait, when they come and when they go. Taken
        // as one change of the database they make readers of it wait for this record, once.
        Record::Transaction { records } if records.len() > KEYS_NOTED_MAX => {
            records.iter().for_each(|(db, record)| match record {
                Record::FlushAll => changes.note_all(end),
                _ => changes.note_database(db, end),
            });
        }
        Record::Transaction { records } => {
            records
                .iter()
                .for_each(|(db, record)| note(changes, keyspace, db, &record, end));
        }
        Record::EpochStart { .. } | Record::Members { .. } | Record::Clock => {}
    }
}
