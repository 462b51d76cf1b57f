//! The wal thread: one blocking thread that writes and syncs, so that the thread that decides never waits for a disk.
//!
//! ```text
//! core loop ── Job ──▶ wal thread ── WalEvent ──▶ core loop
//!   (two group buffers are swapped: one is being filled while the other is being written)
//! ```
//!
//! The policy says when to sync: `always` before a group's [`WalEvent::Progress`], `everysec` 500 ms after the first write that
//! is not synced, `no` only when told. A seal is synced at once in all of them.
//!
//! When a write fails, nothing is lost: the same group is written again every 50 ms while later jobs wait in the channel
//! ([`WalEvent::Stalled`], then [`WalEvent::Resumed`]); after 10 s the process has to end. When a sync fails it has to end at
//! once: `fatal` is called, and no event comes after it.
//!
//! Deliberately absent: what the policy means for replies (the barrier's), and retries of syncs (nobody may).

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use idem_protocol::Lsn;

use crate::batch::{Group, Seal};
use crate::storage::Storage;
use crate::writer::LogWriter;

mod worker;

pub use worker::{STALL_MAX, STALL_STEP, SYNC_INTERVAL, Worker};

/// When the log is synced (appendfsync).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Before every progress report.
    Always,
    /// At most 500 ms after a write.
    Everysec,
    /// When the kernel likes; at rotations, seals and the end all the same.
    No,
}

/// What the core loop asks for. Jobs are done in order.
#[derive(Debug)]
pub enum Job {
    /// Write this group, and sync it as the policy says.
    Group(Group),
    /// Write a seal after what was written, and sync it.
    Seal(Seal),
    /// Sync now.
    Sync,
    /// Sync as this policy says from here on; what is written and not synced is synced at once.
    Policy(Policy),
    /// Sync, seal, sync, clean mark; the last job.
    ShutDown,
}

/// What the wal thread reports.
#[derive(Debug)]
pub enum WalEvent {
    /// The log got further.
    Progress {
        /// The lsn that the kernel has.
        written: Lsn,
        /// The lsn that the disk has.
        synced: Lsn,
        /// The group's buffer, to be filled again; none when a sync alone is reported.
        buffer: Option<Vec<u8>>,
        /// How long the sync took, in microseconds, when there was one.
        sync_usec: Option<u64>,
        /// Records of the group, 0 for a sync alone.
        records: u32,
    },
    /// A seal is on disk.
    Sealed {
        /// The lsn that the disk has.
        synced: Lsn,
    },
    /// A write failed and is being repeated.
    Stalled {
        /// What the disk said.
        reason: String,
    },
    /// The write that had failed has succeeded.
    Resumed,
    /// The answer to [`Job::ShutDown`]: the clean mark is set, or why not. The last event.
    Closed(Result<(), String>),
}

/// A running wal thread.
#[derive(Debug)]
pub struct WalThread {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
}

impl WalThread {
    /// Starts the thread. `events` is called on it for every report; `fatal` once, with the reason, when the process must
    /// end, and nothing is called after it.
    pub fn spawn<S: Storage>(
        writer: LogWriter<S>,
        policy: Policy,
        events: impl Fn(WalEvent) + Send + 'static,
        fatal: impl FnOnce(String) + Send + 'static,
    ) -> io::Result<WalThread> {
        let (jobs, inbox) = channel();
        let thread = std::thread::Builder::new().name("wal".into()).spawn(move || {
            let start = Instant::now();
            let worker = Worker::new(writer, policy, move || start.elapsed());
            if let Err(reason) = run(worker, &inbox, &events) {
                fatal(reason);
            }
        })?;
        Ok(WalThread { jobs, thread })
    }

    /// Hands over a job. Without effect once the thread has ended, which it has reported.
    pub fn send(&self, job: Job) {
        let _ = self.jobs.send(job);
    }

    /// Waits until the jobs that were sent are done and the thread has ended.
    pub fn join(self) {
        drop(self.jobs);
        // A panic of the thread has been printed; there is nothing to add here.
        let _ = self.thread.join();
    }
}

fn run<S: Storage, C: Fn() -> Duration>(
    mut worker: Worker<S, C>,
    inbox: &Receiver<Job>,
    events: &dyn Fn(WalEvent),
) -> Result<(), String> {
    loop {
        let wait = worker.wait();
        if worker.is_stalled() {
            // Later jobs keep their order by staying in the channel.
            std::thread::sleep(wait.unwrap_or(STALL_STEP));
        } else {
            let job = match wait {
                Some(wait) => inbox.recv_timeout(wait),
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match job {
                Ok(job) => worker.handle(job, events)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
        worker.tick(events)?;
        if worker.is_closed() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
