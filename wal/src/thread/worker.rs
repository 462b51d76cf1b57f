//! The wal thread's decisions, with the clock as an input: what to do with a job, and what is due when nothing comes.

use std::time::Duration;

use super::{Job, Policy, WalEvent};
use crate::batch::Group;
use crate::error::WriteError;
use crate::storage::Storage;
use crate::writer::LogWriter;

/// `everysec` syncs so long after the first write that is not synced: contract §2 promises a sync at least every 500 ms.
pub const SYNC_INTERVAL: Duration = Duration::from_millis(500);
/// A failed write is repeated after this time.
pub const STALL_STEP: Duration = Duration::from_millis(50);
/// A disk that takes nothing for so long ends the process.
pub const STALL_MAX: Duration = Duration::from_secs(10);

/// The state of the wal thread. `clock` says the time since any fixed moment.
pub struct Worker<S: Storage, C> {
    writer: LogWriter<S>,
    policy: Policy,
    clock: C,
    /// The job whose write failed.
    stalled: Option<Stalled>,
    /// When the oldest write was made that is not synced; kept for `everysec`.
    unsynced_since: Option<Duration>,
    closed: bool,
}

struct Stalled {
    job: Job,
    since: Duration,
    again_at: Duration,
}

impl<S: Storage, C: Fn() -> Duration> Worker<S, C> {
    /// A worker with nothing to do.
    pub fn new(writer: LogWriter<S>, policy: Policy, clock: C) -> Self {
        Worker {
            writer,
            policy,
            clock,
            stalled: None,
            unsynced_since: None,
            closed: false,
        }
    }

    /// How long [`Worker::tick`] may be put off; none = until the next job.
    pub fn wait(&self) -> Option<Duration> {
        let now = (self.clock)();
        let retry = self.stalled.as_ref().map(|stalled| stalled.again_at);
        let sync = self.sync_due();
        let next = match (retry, sync) {
            (Some(retry), Some(sync)) => Some(retry.min(sync)),
            (retry, sync) => retry.or(sync),
        };
        next.map(|at| at.saturating_sub(now))
    }

    /// Whether a write is being repeated; no job may be given meanwhile.
    pub fn is_stalled(&self) -> bool {
        self.stalled.is_some()
    }

    /// Whether the last job has been answered.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The log that it writes.
    pub fn writer(&self) -> &LogWriter<S> {
        &self.writer
    }

    /// Does a job. An error is the reason why the process must end.
    pub fn handle(&mut self, job: Job, events: &dyn Fn(WalEvent)) -> Result<(), String> {
        assert!(
            self.stalled.is_none(),
            "jobs are done in order, the stalled one first"
        );
        assert!(!self.closed, "nothing follows the last job");
        self.attempt(job, None, events)
    }

    /// Does what is due by now: the sync of `everysec`, the repetition of a failed write.
    pub fn tick(&mut self, events: &dyn Fn(WalEvent)) -> Result<(), String> {
        let now = (self.clock)();
        if self.sync_due().is_some_and(|due| due <= now) {
            self.sync(events)?;
        }
        let due = self
            .stalled
            .as_ref()
            .is_some_and(|stalled| stalled.again_at <= now);
        match self.stalled.take_if(|_| due) {
            Some(stalled) => self.attempt(stalled.job, Some(stalled.since), events),
            None => Ok(()),
        }
    }

    fn sync_due(&self) -> Option<Duration> {
        self.unsynced_since.map(|since| since + SYNC_INTERVAL)
    }

    /// Tries a job; `since` says when it failed first.
    fn attempt(
        &mut self,
        mut job: Job,
        since: Option<Duration>,
        events: &dyn Fn(WalEvent),
    ) -> Result<(), String> {
        let done = match &mut job {
            Job::Group(group) => self.writer.write(group),
            Job::Seal(_) => self.seal(),
            Job::Sync | Job::Policy(_) => Ok(()),
            Job::ShutDown => {
                self.closed = true;
                match self.writer.shut_down() {
                    // The server is leaving: it says what went wrong instead of waiting for the disk.
                    Err(WriteError::Retry(error)) => {
                        events(WalEvent::Closed(Err(error.to_string())));
                        return Ok(());
                    }
                    other => other,
                }
            }
        };
        match done {
            Ok(()) => {}
            Err(WriteError::Fatal(fatal)) => return Err(fatal.to_string()),
            Err(WriteError::Retry(error)) => return self.stall(job, since, &error.to_string(), events),
        }
        if since.is_some() {
            events(WalEvent::Resumed);
        }
        match job {
            Job::Group(group) => self.written(group, events),
            Job::Sync => self.sync(events),
            Job::Policy(policy) => {
                self.policy = policy;
                // How old it is nobody knows: under `no` it is not noted. Under `always` there is none.
                if self.writer.synced() < self.writer.written() {
                    self.sync(events)?;
                }
                Ok(())
            }
            Job::Seal(_) => {
                events(WalEvent::Sealed {
                    synced: self.writer.synced(),
                });
                Ok(())
            }
            Job::ShutDown => {
                events(WalEvent::Closed(Ok(())));
                Ok(())
            }
        }
    }

    /// A seal stands after what it witnesses: that is synced first, then the seal.
    fn seal(&mut self) -> Result<(), WriteError> {
        self.writer.sync()?;
        self.writer.seal()?;
        self.writer.sync()?;
        self.unsynced_since = None;
        Ok(())
    }

    fn written(&mut self, group: Group, events: &dyn Fn(WalEvent)) -> Result<(), String> {
        let sync_usec = match self.policy {
            // What follows is with this thread already, and nothing is told before its sync.
            Policy::Always if group.followed => None,
            Policy::Always => Some(self.timed_sync()?),
            Policy::Everysec | Policy::No => {
                self.writer.check_in_place().map_err(|fatal| fatal.to_string())?;
                if self.policy == Policy::Everysec {
                    let now = (self.clock)();
                    self.unsynced_since.get_or_insert(now);
                }
                None
            }
        };
        events(WalEvent::Progress {
            written: self.writer.written(),
            synced: self.writer.synced(),
            records: group.count,
            buffer: Some(group.bytes),
            sync_usec,
        });
        Ok(())
    }

    fn sync(&mut self, events: &dyn Fn(WalEvent)) -> Result<(), String> {
        let sync_usec = Some(self.timed_sync()?);
        let (written, synced) = (self.writer.written(), self.writer.synced());
        events(WalEvent::Progress {
            written,
            synced,
            buffer: None,
            sync_usec,
            records: 0,
        });
        Ok(())
    }

    fn timed_sync(&mut self) -> Result<u64, String> {
        let began = (self.clock)();
        self.writer.sync().map_err(|fatal| fatal.to_string())?;
        self.unsynced_since = None;
        let took = (self.clock)().saturating_sub(began);
        Ok(u64::try_from(took.as_micros()).unwrap_or(u64::MAX))
    }

    fn stall(
        &mut self,
        job: Job,
        since: Option<Duration>,
        reason: &str,
        events: &dyn Fn(WalEvent),
    ) -> Result<(), String> {
        let now = (self.clock)();
        let first = since.unwrap_or(now);
        if now.saturating_sub(first) >= STALL_MAX {
            let seconds = STALL_MAX.as_secs();
            return Err(format!(
                "the log could not be written for {seconds} seconds: {reason}"
            ));
        }
        if since.is_none() {
            // Groups before this one may be written and wait for the sync that this one would have brought.
            if self.policy == Policy::Always && self.writer.synced() < self.writer.written() {
                self.sync(events)?;
            }
            events(WalEvent::Stalled {
                reason: reason.to_owned(),
            });
        }
        self.stalled = Some(Stalled {
            job,
            since: first,
            again_at: now + STALL_STEP,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
