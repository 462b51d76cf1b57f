//! Handing groups to the wal thread: one at a time, two buffers in turn.
//!
//! While the thread writes and syncs one group, the next one gathers in the batch; when the thread is free, the group is
//! handed over with the empty buffer swapped in. Nobody waits for a group to fill: its size is what arrived during
//! the last sync. A *seal* (a frame without records that vouches for the last group) follows 100 ms after the last
//! record; policy decides when, see [`Commit::seal_if_due`].

use std::time::{Duration, Instant};

use idem_protocol::lsn::Lsn;
use idem_wal::thread::{Job, WalThread};

use crate::config::FsyncPolicy;
use crate::core::ShardLog;

/// A group is closed at so many bytes, or by one larger record.
pub const GROUP_BYTES_MAX: u64 = 8 << 20;

/// A seal follows the last record after this.
const SEAL_AFTER: Duration = Duration::from_millis(100);

/// A buffer that comes back keeps at most this much memory: groups grow to what one sync gathers, not to the one huge
/// value that came by an hour ago.
const BUFFER_KEPT_MAX: usize = 9 << 20;

/// See the module.
pub struct Commit {
    wal: WalThread,
    policy: FsyncPolicy,
    /// Groups and seals that are with the wal thread.
    busy: usize,
    /// The empty one of the two buffers, while it is here.
    buffer: Vec<u8>,
    /// The groups that are with the wal thread want a seal behind them.
    seal_follows: bool,
    /// When a seal is due, unless more records come.
    seal_at: Option<Instant>,
    closing: bool,
    closed: Option<Result<(), String>>,
}

impl Commit {
    /// Hands groups to `wal`, which syncs under `policy`.
    pub fn new(wal: WalThread, policy: FsyncPolicy) -> Commit {
        Commit {
            wal,
            policy,
            busy: 0,
            buffer: Vec::new(),
            seal_follows: false,
            seal_at: None,
            closing: false,
            closed: None,
        }
    }

    /// Whether the wal thread would take a group now.
    pub fn is_free(&self) -> bool {
        self.busy == 0 && !self.closing
    }

    /// Hands over the closed groups and the open one, in order; under `always` one sync covers them. False when there is
    /// none or the thread is busy.
    pub fn hand_over(&mut self, log: &mut ShardLog, now: Instant) -> bool {
        if !self.is_free() || !log.has_group() {
            return false;
        }
        let open = log.batch.take(std::mem::take(&mut self.buffer));
        let mut groups = log.closed.drain(..).chain(open).peekable();
        self.seal_follows = false;
        while let Some(mut group) = groups.next() {
            group.followed = groups.peek().is_some();
            if !group.clock_only {
                self.seal_at = Some(now + SEAL_AFTER);
                self.seal_follows = true;
            }
            self.busy += 1;
            self.wal.send(Job::Group(group));
        }
        true
    }

    /// The wal thread is done with the group (its buffer comes back) or the seal (there is none).
    pub fn returned(&mut self, buffer: Option<Vec<u8>>, now: Instant) {
        assert!(self.busy > 0, "the wal thread returned what it was not given");
        self.busy -= 1;
        if let Some(mut buffer) = buffer {
            // Groups only; a seal is followed by none.
            buffer.clear();
            buffer.shrink_to(BUFFER_KEPT_MAX);
            self.buffer = buffer;
            // Counted from the end of the sync: on a slow disk the seal would be due at once, and the next command of a
            // lone client would wait for two syncs.
            if self.seal_follows {
                self.seal_at = Some(now + SEAL_AFTER);
            }
        }
    }

    /// Seals the log when 100 ms have passed since the last record: under `always` at once, under `everysec` after the
    /// sync that covers it, under `no` only when the server stops.
    pub fn seal_if_due(&mut self, log: &mut ShardLog, synced: Lsn, now: Instant) {
        if self.seal_at.is_none_or(|at| now < at) || !self.is_free() || log.has_group() {
            return;
        }
        let batch = &mut log.batch;
        let covered = match self.policy {
            FsyncPolicy::Always | FsyncPolicy::Everysec => synced >= batch.appended(),
            FsyncPolicy::No => {
                self.seal_at = None;
                return;
            }
        };
        if covered {
            self.seal_at = None;
            if let Some(seal) = batch.take_seal() {
                self.busy += 1;
                self.wal.send(Job::Seal(seal));
            }
        }
    }

    /// When [`Commit::seal_if_due`] has to be called, beside after each event of the wal thread.
    pub fn deadline(&self) -> Option<Instant> {
        self.seal_at
    }

    /// The wal thread syncs under another policy from what is handed over next on; what was handed over before is synced at
    /// once.
    pub fn set_policy(&mut self, policy: FsyncPolicy, now: Instant) {
        self.policy = policy;
        if !self.closing {
            self.wal.send(Job::Policy(policy.into()));
            // Under `no` nothing was sealed.
            self.seal_at.get_or_insert(now + SEAL_AFTER);
        }
    }

    /// Asks for a sync of what was handed over, under whatever policy. The answer is progress without a buffer.
    pub fn sync(&self) {
        if !self.closing {
            self.wal.send(Job::Sync);
        }
    }

    /// Ends the log: sync, seal, sync, clean mark. Everything has been handed over; nothing is afterwards.
    pub fn shut_down(&mut self) {
        assert!(self.is_free(), "a group is still with the wal thread");
        self.closing = true;
        self.wal.send(Job::ShutDown);
    }

    /// The wal thread has ended the log, or could not.
    pub fn closed(&mut self, result: Result<(), String>) {
        self.closed = Some(result);
    }

    /// How the log ended, once it has.
    pub fn outcome(&self) -> Option<&Result<(), String>> {
        self.closed.as_ref()
    }
}
