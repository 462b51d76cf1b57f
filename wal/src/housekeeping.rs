//! The housekeeping thread: spares, publication of snapshots, retention. Slow work on the disk that nobody's reply waits for.
//!
//! ```text
//! core loop ── Chore ──▶ housekeeping ── ChoreEvent ──▶ core loop
//! ```
//!
//! Invariants
//! * A spare is announced when its zeros are synced. A full disk costs nothing but the attempt: the partial file is removed,
//!   the failure reported, and the same chore may be asked for again.
//! * A snapshot gets its name only after it is synced (its writer's part) and the log is synced to its end (the caller's
//!   part: [`Chore::PublishSnapshot`] is sent then). Then, in this order: the directory is synced, the control file names
//!   it, and only then something older goes.
//! * Before the log behind the older of two snapshots goes, both have been read to their ends once in this process and found
//!   valid, or were written by it.
//! * A failed sync ends the process, here as everywhere: `fatal` is called, and no event comes after it.
//!
//! * A spare is made in steps with pauses, so that the log's syncs find the disk free; a hurry ([`Housekeeping::hurry`]) is
//!   somebody who waits for it.
//!
//! Deliberately absent: when to make a snapshot or a spare (the core loop decides), and their contents.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use idem_protocol::Lsn;
use idem_protocol::wal::snapshot_name;

use crate::batch::Spare;
use crate::control::ControlFile;
use crate::error::WriteError;
use crate::reader::snapshot;
use crate::retention;
use crate::segment::make_spare;
use crate::storage::durable::sync_directory;
use crate::storage::{Dir, Storage};

/// What the core loop asks for. Chores are done in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Make a spare of this length.
    MakeSpare {
        /// File bytes.
        bytes: u64,
    },
    /// Give a finished snapshot its name. The log is synced up to `end`.
    PublishSnapshot {
        /// Its name so far.
        temporary: String,
        /// Where replaying begins.
        start: Lsn,
        /// The lsn that its state reaches.
        end: Lsn,
    },
    /// Remove what is no longer needed.
    Retain {
        /// The log's end, from which wal-keep-bytes are counted.
        end: Lsn,
    },
    /// Another wal-keep-bytes from here on, in bytes.
    Keep {
        /// Log that is kept behind the end.
        bytes: u64,
    },
    /// The last chore.
    Stop,
}

/// What the thread reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChoreEvent {
    /// A spare is ready.
    SpareReady(Spare),
    /// It could not be made; nothing is left of it.
    SpareFailed {
        /// The length that was asked for.
        bytes: u64,
        /// What the disk said.
        reason: String,
    },
    /// A snapshot has its name, durably.
    SnapshotPublished {
        /// Where replaying begins.
        start: Lsn,
        /// Segments that went because of it.
        removed_segments: usize,
    },
    /// A snapshot could not be given its name; another one may be made. No [`ChoreEvent::SnapshotPublished`] follows.
    SnapshotFailed {
        /// Where replaying it would have begun.
        start: Lsn,
        /// What the disk said.
        reason: String,
    },
    /// Something that nobody waits for failed, and is tried again with the next chore of its kind: retention. It says
    /// nothing about any snapshot.
    Failed {
        /// Which, and why.
        what: String,
    },
}

/// What the thread has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HousekeepingParams {
    /// Log that is kept behind the end (wal-keep-bytes).
    pub keep_bytes: u64,
    /// The number of the first spare; a start removes all of them, so 0 will do, unless it has made some itself.
    pub first_spare: u32,
}

/// While a spare is made, the thread rests so many times as long as a step took …
const REST_FACTOR: u32 = 3;
/// … but no longer than this: a disk that was slow once may be fast the next time.
const REST_MAX: Duration = Duration::from_millis(100);

/// A running housekeeping thread.
#[derive(Debug)]
pub struct Housekeeping {
    chores: Sender<Chore>,
    hurry: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Housekeeping {
    /// Starts the thread. `events` is called on it for every report; `fatal` once, with the reason, when the process must
    /// end, and nothing is called after it.
    pub fn spawn<S: Storage>(
        storage: S,
        control: ControlFile<S>,
        params: HousekeepingParams,
        events: impl Fn(ChoreEvent) + Send + 'static,
        fatal: impl FnOnce(String) + Send + 'static,
    ) -> io::Result<Housekeeping> {
        let (chores, inbox) = channel();
        let hurry = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&hurry);
        let thread = std::thread::Builder::new()
            .name("housekeeping".into())
            .spawn(move || {
                let mut keeper = Housekeeper::new(storage, control, params);
                keeper.hurry = seen;
                if let Err(reason) = run(&mut keeper, &inbox, &events) {
                    fatal(reason);
                }
            })?;
        Ok(Housekeeping {
            chores,
            hurry,
            thread,
        })
    }

    /// Says whether somebody waits, or soon will, for the spare that is being made: it is made without pauses then.
    pub fn hurry(&self, hurry: bool) {
        // A flag of its own: nothing else is read because of it.
        if self.hurry.swap(hurry, Ordering::Relaxed) != hurry && hurry {
            self.thread.thread().unpark();
        }
    }

    /// Asks for a chore. Without effect once the thread has ended.
    pub fn send(&self, chore: Chore) {
        let _ = self.chores.send(chore);
    }

    /// Waits until the chores that were asked for are done and the thread has ended.
    pub fn join(self) {
        self.hurry(true);
        drop(self.chores);
        // A panic of the thread has been printed; there is nothing to add here.
        let _ = self.thread.join();
    }
}

fn run<S: Storage>(
    keeper: &mut Housekeeper<S>,
    inbox: &Receiver<Chore>,
    events: &dyn Fn(ChoreEvent),
) -> Result<(), String> {
    while let Ok(chore) = inbox.recv() {
        if chore == Chore::Stop {
            break;
        }
        keeper.handle(chore, events)?;
    }
    Ok(())
}

/// The thread's work without the thread.
pub struct Housekeeper<S: Storage> {
    storage: S,
    control: ControlFile<S>,
    keep_bytes: u64,
    next_spare: u32,
    /// Nobody pauses while this is true.
    hurry: Arc<AtomicBool>,
    /// Start lsns of snapshots that are known to be valid.
    valid: BTreeSet<Lsn>,
}

impl<S: Storage> Housekeeper<S> {
    /// Knows of no snapshot yet.
    pub fn new(storage: S, control: ControlFile<S>, params: HousekeepingParams) -> Self {
        let HousekeepingParams {
            keep_bytes,
            first_spare,
        } = params;
        Housekeeper {
            storage,
            control,
            keep_bytes,
            next_spare: first_spare,
            hurry: Arc::default(),
            valid: BTreeSet::new(),
        }
    }

    /// Does a chore. An error is the reason why the process must end.
    pub fn handle(&mut self, chore: Chore, events: &dyn Fn(ChoreEvent)) -> Result<(), String> {
        match chore {
            Chore::MakeSpare { bytes } => match self.make_spare(bytes) {
                Ok(spare) => events(ChoreEvent::SpareReady(spare)),
                Err(error) => {
                    let reason = may_come_back(error)?.to_string();
                    events(ChoreEvent::SpareFailed { bytes, reason });
                }
            },
            Chore::PublishSnapshot {
                temporary,
                start,
                end,
            } => match self.publish(&temporary, start) {
                Ok(()) => {
                    let removed = self.retain(end);
                    let removed_segments = removed.as_ref().copied().unwrap_or(0);
                    let failed = removed.err().map(may_come_back).transpose()?;
                    events(ChoreEvent::SnapshotPublished {
                        start,
                        removed_segments,
                    });
                    if let Some(error) = failed {
                        events(ChoreEvent::Failed {
                            what: format!("removing what is no longer needed: {error}"),
                        });
                    }
                }
                Err(error) => {
                    let reason = may_come_back(error)?.to_string();
                    events(ChoreEvent::SnapshotFailed { start, reason });
                }
            },
            Chore::Retain { end } => {
                if let Err(error) = self.retain(end) {
                    let what = format!("removing what is no longer needed: {}", may_come_back(error)?);
                    events(ChoreEvent::Failed { what });
                }
            }
            Chore::Keep { bytes } => self.keep_bytes = bytes,
            Chore::Stop => {}
        }
        Ok(())
    }

    fn make_spare(&mut self, bytes: u64) -> Result<Spare, WriteError> {
        let spare = Spare {
            number: self.next_spare,
            bytes,
        };
        let mut step_began = Instant::now();
        let hurry = &self.hurry;
        make_spare(&self.storage, spare, &mut || {
            let rest = (step_began.elapsed() * REST_FACTOR).min(REST_MAX);
            if !hurry.load(Ordering::Relaxed) {
                // Woken early by a hurry, or for no reason at all: either way it only goes on sooner.
                thread::park_timeout(rest);
            }
            step_began = Instant::now();
        })?;
        self.next_spare += 1;
        Ok(spare)
    }

    fn publish(&mut self, temporary: &str, start: Lsn) -> Result<(), WriteError> {
        let name = snapshot_name(start);
        if let Err(error) = self.storage.rename(Dir::Snap, temporary, &name) {
            // A rename fails on a full disk, of which this file, a whole data set, may be the reason; and the next snapshot
            // has another name. What cannot be removed now is removed by the next start.
            let _ = self.storage.remove(Dir::Snap, temporary);
            return Err(WriteError::Retry(error));
        }
        sync_directory(&self.storage, Dir::Snap)?;
        if !is_in_place(&self.storage, start) {
            return Err(WriteError::Retry(io::Error::other(
                "snap/ was moved, removed or replaced while the server was using it",
            )));
        }
        self.valid.insert(start);
        self.control.try_update(|control| {
            control.newest_snapshot = control.newest_snapshot.max(Some(start));
        })
    }

    /// Returns how many segments went.
    fn retain(&mut self, end: Lsn) -> Result<usize, WriteError> {
        let cluster = self.control.read().cluster;
        let (storage, known) = (&self.storage, &mut self.valid);
        let mut valid = |start| {
            let read = || snapshot::read(storage, &snapshot_name(start), Some(cluster), &mut |_, _| {});
            let good = known.contains(&start) || read().is_ok();
            if good {
                known.insert(start);
            }
            // Log that a restart needs instead of a snapshot which it does not find must stay.
            good && is_in_place(storage, start)
        };
        let inventory = retention::take_inventory(storage, &mut valid, end, self.keep_bytes);
        let removals = retention::plan(&inventory.map_err(WriteError::Retry)?);
        retention::execute(storage, &removals)?;
        known.retain(|start| !removals.snapshots.contains(start));
        Ok(removals.segments.len())
    }
}

/// Whether a restart finds the snapshot that this process knows.
fn is_in_place<S: Storage>(storage: &S, start: Lsn) -> bool {
    let name = snapshot_name(start);
    let found = storage
        .open(Dir::Snap, &name)
        .and_then(|file| storage.is_in_place(Dir::Snap, &name, &file, 0));
    found.unwrap_or(false)
}

/// The error of a chore that may be asked for again; otherwise the reason why the process must end.
fn may_come_back(error: WriteError) -> Result<io::Error, String> {
    match error {
        WriteError::Retry(error) => Ok(error),
        WriteError::Fatal(fatal) => Err(fatal.to_string()),
    }
}

#[cfg(test)]
mod tests;
