//! The core of a shard: the node, its log, and everything that belongs to one thread.
//!
//! ```text
//!            connections (local tasks)                      core loop (one local task)
//!   bytes ─▶ borrow core ─▶ node.execute ─▶ batch            select one Event ─▶ Core::handle
//!            release core, send what is released             group open, wal thread free ─▶ gather ─▶ hand over
//!                       ▲                                                 │                          │
//!                       └────────────── wake ◀── barrier moved ◀──────────┘          wal thread: write, sync
//! ```
//!
//! Invariants
//! * One thread owns all of this; [`Shard::core`] is borrowed for a moment and never across an await.
//! * Append order = apply order: only [`Node`] calls the log, and it applies in the same call.
//! * A reply leaves its connection only when [`Node::barrier`] has passed its lsn; the core never sends anything.
//!
//! Deliberately absent: locks, globals, the meaning of commands, bytes on disk. A second shard in the process is a second
//! [`Shard`] on a second thread.

pub mod commit;
mod configure;
pub mod core_loop;
pub mod events;
pub mod space;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use idem_engine::{Log, Node, Reservation};
use idem_protocol::lsn::Lsn;
use idem_protocol::time::UnixMs;
use idem_protocol::wal::Record;
use idem_wal::batch::{Batch, Group, NotReserved};
use idem_wal::control::ControlFile;
use idem_wal::housekeeping::Housekeeping;
use idem_wal::storage::DiskStorage;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use self::commit::Commit;
pub(crate) use self::configure::limit_memory;
pub use self::core_loop::CoreLoop;
use self::events::Event;
use self::space::Space;
use crate::clock::Clock;
use crate::config::{Configuration, SharedOptions};
use crate::facts::{FactsView, Process, Traffic};
use crate::logging::{ClientLog, Levels};
use crate::peers::Peers;
use crate::places::{Bounds, Places, descriptors_allowed};
use crate::snapshotter::Snapshots;
use crate::stopwatch::tick_length;

/// How often the node may reclaim memory.
const TICK_EVERY: Duration = Duration::from_millis(100);

/// The same, while there is more to reclaim than one step did: at once, when everybody else has had a turn.
const TICK_SOON: Duration = Duration::ZERO;

/// So many closed groups wait for the wal thread at most; with the open one they hold a bounded number of records that
/// no disk has.
const CLOSED_GROUPS_MAX: usize = 64;
/// The same in bytes: about one full group.
const CLOSED_BYTES_MAX: usize = 8 << 20;

/// How often the clients' time limits and the wall clock are looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The log as the node sees it: the batch, and what is known about space.
pub struct ShardLog {
    /// Places and gathers records.
    pub batch: Batch,
    /// What housekeeping makes or could not make.
    pub space: Space,
    /// Groups that were closed before their time and wait for the wal thread.
    pub closed: Vec<Group>,
}

impl ShardLog {
    /// Whether there is anything to hand over.
    pub fn has_group(&self) -> bool {
        !self.batch.is_empty() || !self.closed.is_empty()
    }
}

impl Log for ShardLog {
    fn reserve(&mut self, record_bytes: u64) -> Reservation {
        if self.space.is_stalled() {
            // Room inside the segment is of no use while the disk refuses to be written to.
            return Reservation::NoSpace;
        }
        match self.batch.reserve(record_bytes) {
            Ok(()) => Reservation::Granted,
            Err(NotReserved::GroupFull) => Reservation::Wait,
            Err(NotReserved::NeedsSpare { bytes }) => self.space.need(bytes),
        }
    }

    fn close_group(&mut self) -> bool {
        let closed: usize = self.closed.iter().map(|group| group.bytes.len()).sum();
        if self.closed.len() >= CLOSED_GROUPS_MAX || closed >= CLOSED_BYTES_MAX {
            return self.batch.is_empty();
        }
        self.closed.extend(self.batch.take(Vec::new()));
        true
    }

    fn append(&mut self, time: UnixMs, db: u8, record: &Record<'_>) -> Lsn {
        self.batch.append(time, db, record)
    }

    fn appended(&self) -> Lsn {
        self.batch.appended()
    }

    fn can_write(&self) -> bool {
        !self.space.is_stalled()
    }
}

/// Everything of a shard that changes. See the module.
pub struct Core {
    /// Meaning: keyspace, decisions, barrier.
    pub node: Node,
    /// Where its records go.
    pub log: ShardLog,
    /// The server's time.
    pub clock: Clock,
    /// The way to the wal thread.
    pub commit: Commit,
    /// The other thread that may wait for the disk.
    pub housekeeping: Housekeeping,
    /// The log's control file.
    pub control: ControlFile<DiskStorage>,
    /// The disk, for snapshots and for counting files.
    pub storage: DiskStorage,
    /// Connections.
    pub peers: Peers,
    /// Snapshots: running, wanted, last.
    pub snapshots: Snapshots,
    /// What INFO says about the process and the log.
    pub process: Process,
    /// Log lines that clients cause.
    pub client_log: ClientLog,
    /// How threads report.
    pub events: UnboundedSender<Event>,
    /// The options, and what became of them since the start.
    pub config: Configuration,
    /// How much is logged.
    pub levels: Levels,
    /// No ticks, no new snapshots: the server stops.
    pub stopping: bool,
    tick_at: Instant,
    sweep_at: Instant,
    /// Of the kernel's clock.
    pub tick_length: Duration,
    /// When commands are held no longer.
    pause_ends: Option<Instant>,
    /// The time at which a stop loses its patience.
    patience_until: Option<Instant>,
    log_size_wanted: bool,
}

/// What [`Core::new`] is made of.
pub struct Parts {
    /// Opened.
    pub node: Node,
    /// Where the log goes on.
    pub batch: Batch,
    /// Started.
    pub clock: Clock,
    /// With the wal thread running.
    pub commit: Commit,
    /// Running.
    pub housekeeping: Housekeeping,
    /// Of the log.
    pub control: ControlFile<DiskStorage>,
    /// The disk.
    pub storage: DiskStorage,
    /// Facts about the process.
    pub process: Process,
    /// Knows the newest snapshot.
    pub snapshots: Snapshots,
    /// How threads report.
    pub events: UnboundedSender<Event>,
    /// The options that all of this was made with.
    pub config: Configuration,
    /// How much is logged.
    pub levels: Levels,
}

impl Core {
    /// A core that is ready to serve.
    pub fn new(parts: Parts) -> Core {
        let now = Instant::now();
        Core {
            node: parts.node,
            log: ShardLog {
                batch: parts.batch,
                space: Space::default(),
                closed: Vec::new(),
            },
            clock: parts.clock,
            commit: parts.commit,
            housekeeping: parts.housekeeping,
            control: parts.control,
            storage: parts.storage,
            peers: Peers::new(parts.config.options().client_buffers_total),
            snapshots: parts.snapshots,
            process: parts.process,
            client_log: ClientLog::default(),
            events: parts.events,
            config: parts.config,
            levels: parts.levels,
            stopping: false,
            tick_at: now + TICK_EVERY,
            sweep_at: now + SWEEP_EVERY,
            tick_length: tick_length(),
            pause_ends: None,
            patience_until: None,
            log_size_wanted: true,
        }
    }

    /// What INFO asks, and the node and the log beside it: they are borrowed together for one command.
    pub fn split(&mut self) -> (&mut Node, &mut ShardLog, FactsView<'_>) {
        let facts = FactsView {
            process: &self.process,
            peers: &self.peers,
            snapshots: &self.snapshots,
            clock: &self.clock,
            config: &self.config,
        };
        (&mut self.node, &mut self.log, facts)
    }

    /// Whether a group is open and the wal thread would take it.
    pub fn wants_hand_over(&self) -> bool {
        self.commit.is_free() && self.log.has_group()
    }

    /// Hands the open group over; whoever waited for the group to leave decides again.
    pub fn hand_over(&mut self) {
        if self.commit.hand_over(&mut self.log, Instant::now()) {
            self.peers.log_moved();
        }
    }

    /// When [`Event::Timer`] is due at the latest.
    pub fn next_deadline(&self, now: Instant) -> Instant {
        let tick = (!self.stopping).then_some(self.tick_at);
        // What is overdue waits for an event, not for time; as a deadline it would spin.
        let later = [
            self.commit.deadline(),
            self.log.space.retry_at(),
            self.patience_until,
            self.pause_ends,
        ];
        let later = later.into_iter().flatten().filter(|at| *at > now);
        tick.into_iter().chain(later).fold(self.sweep_at, Instant::min)
    }

    /// Whether the last tick left work for the next one, which is due now.
    fn ticks_at_once(&self) -> bool {
        !self.stopping && self.tick_at <= Instant::now()
    }

    /// A pause has begun or become longer: its end is a deadline.
    pub fn note_pause(&mut self) {
        let left = self.node.paused_until().map(|until| {
            let ms = until.get().saturating_sub(self.clock.now().get());
            // One more, because the clock's milliseconds are rounded down.
            Duration::from_millis(ms.saturating_add(1))
        });
        self.pause_ends = left.and_then(|left| Instant::now().checked_add(left));
    }

    /// No command is held any more; those that were are executed in the order in which they began to wait.
    pub fn resume(&mut self) {
        self.node.unpause();
        self.pause_ends = None;
        self.peers.resume();
    }

    /// Lets [`Core::next_deadline`] name this moment too.
    pub fn set_patience(&mut self, until: Instant) {
        self.patience_until = Some(until);
    }

    /// Counts the log's files on a thread that may wait for the disk.
    fn count_log(&mut self) {
        if !std::mem::take(&mut self.log_size_wanted) {
            return;
        }
        let (storage, events) = (self.storage.clone(), self.events.clone());
        // An error leaves the numbers of INFO as they were; the log itself is read by nobody here.
        tokio::task::spawn_blocking(move || {
            if let Ok((segments, bytes)) = crate::facts::log_size(&storage) {
                let _ = events.send(Event::LogSize { segments, bytes });
            }
        });
    }
}

/// A shard: its core, and what its tasks use to find each other.
pub struct Shard {
    /// Borrowed for a moment, never across an await.
    pub core: RefCell<Core>,
    /// As they are now; those of [`Core::config`].
    pub options: SharedOptions,
    /// Of its clients' sockets.
    pub places: Places,
    /// Counted where bytes move.
    pub traffic: Rc<Traffic>,
    /// [`Event::Work`] for the core loop.
    pub commit_wanted: Notify,
    /// Somebody got a message: for the task that wakes them.
    pub mail: Notify,
    /// The listener is to stop.
    pub stop: Notify,
    stopping: Cell<bool>,
}

impl Shard {
    /// A shard around `core`.
    pub fn new(core: Core) -> Rc<Shard> {
        let options = core.config.shared();
        Rc::new(Shard {
            traffic: Rc::clone(&core.process.traffic),
            core: RefCell::new(core),
            places: Places::new(Bounds::within(descriptors_allowed(), options.get().maxclients)),
            options,
            commit_wanted: Notify::new(),
            mail: Notify::new(),
            stop: Notify::new(),
            stopping: Cell::new(false),
        })
    }

    /// Whether the server takes no new commands any more.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// From now on nothing is accepted; connections answer what has arrived and end.
    pub fn begin_stop(&self) {
        self.stopping.set(true);
        self.stop.notify_one();
        let mut core = self.core.borrow_mut();
        core.stopping = true;
        // What was held has arrived, and is answered.
        core.resume();
        core.peers.wake_all();
        // A snapshot that waits for the disk ends as well.
        core.snapshots.progress.notify_waiters();
    }
}
