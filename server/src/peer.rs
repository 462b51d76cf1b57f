//! One connection as the core knows it, shared between the connection's task and the core.
//!
//! The core wakes a peer when something it waits for has happened, and marks it to be dropped when it broke a limit; only the
//! connection's own task ever touches the socket.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use idem_engine::{ClientFacts, Session};
use idem_protocol::lsn::Lsn;

use crate::inbox::Inbox;

/// A peer that takes nothing of a waiting output for so long is dropped.
pub const STUCK_AFTER: Duration = Duration::from_secs(60);

/// A command that is not complete after so long closes its client.
pub const PARTIAL_AFTER: Duration = Duration::from_secs(60);

/// Why the server ends a connection that the client did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// More unsent replies than `client-output-buffer-limit`.
    OutputLimit,
    /// All buffers together were over `client-buffers-total`, and this client had the largest.
    BuffersTotal,
    /// It took nothing for [`STUCK_AFTER`].
    Stuck,
    /// A command stayed unfinished for [`PARTIAL_AFTER`].
    Partial,
    /// Idle for longer than `timeout`.
    Idle,
    /// It sent a line of an HTTP request as a command.
    Http,
    /// `CLIENT KILL`.
    Killed,
    /// The server stops and the client did not take its last replies in time.
    Stopping,
}

impl fmt::Display for DropReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            DropReason::OutputLimit => "its unsent replies exceed client-output-buffer-limit",
            DropReason::BuffersTotal => {
                "all clients' buffers exceed client-buffers-total and its are the largest"
            }
            DropReason::Stuck => "it took none of its replies for 60 seconds",
            DropReason::Partial => "a command stayed unfinished for 60 seconds",
            DropReason::Idle => "it was idle for longer than timeout",
            DropReason::Http => {
                "it sent an HTTP request (POST or Host:), which may be an attack through somebody's browser; nothing that \
                 follows is carried out"
            }
            DropReason::Killed => "it was named by CLIENT KILL",
            DropReason::Stopping => "the server stops and it does not take its last replies",
        })
    }
}

/// How a SAVE ended for the client that waits for it.
pub type SaveResult = Result<(), String>;

/// A connection's socket, as listings show it.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Where the client is.
    pub address: SocketAddr,
    /// Where it connected to; `None` when the system does not say.
    pub local: Option<SocketAddr>,
    /// Number of the socket in this process; -1 when there is none.
    pub descriptor: i32,
}

impl From<SocketAddr> for Endpoint {
    /// A client without a socket.
    fn from(address: SocketAddr) -> Self {
        Endpoint {
            address,
            local: None,
            descriptor: -1,
        }
    }
}

/// The shared part of one connection.
pub struct Peer {
    /// Number of the connection; never used twice in one process.
    pub id: u64,
    /// Where it comes from.
    pub address: SocketAddr,
    local: Option<SocketAddr>,
    descriptor: i32,
    accepted: Instant,
    /// What commands see of it. The connection's own task borrows it while it executes, everybody else only for a look.
    pub session: RefCell<Session>,
    /// What others have published for it.
    pub inbox: Inbox,
    /// It is on the list of those who are woken for it.
    pub(crate) called: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    woken: Cell<bool>,
    dropped: Cell<Option<DropReason>>,
    saved: RefCell<Option<SaveResult>>,
    /// Lsn that its oldest reply waits for, while it is on the barrier's list.
    pub(crate) waits_for: Cell<Option<Lsn>>,
    /// It is on the log's list.
    pub(crate) waits_for_log: Cell<bool>,
    /// It is on the list of those whom a pause holds.
    pub(crate) held: Cell<bool>,
    /// Its place on either; kept until the command that waits is executed.
    pub(crate) ticket: Cell<u64>,
    /// It is marked, and its buffers no longer count among those that stay.
    pub(crate) leaves: Cell<bool>,
    /// Memory of its input and output buffers, in bytes.
    input_bytes: Cell<usize>,
    output_bytes: Cell<usize>,
    /// Of them, what waits to be executed and what waits to be sent, as of its last turn.
    query_bytes: Cell<usize>,
    unsent_bytes: Cell<usize>,
    /// It goes only when there is no other whose buffers could go.
    pub(crate) spared: Cell<bool>,
    /// Something arrived since the last look at the time limits.
    heard: Cell<bool>,
    /// When something had arrived, as of that look.
    last_input: Cell<Instant>,
    partial_since: Cell<Option<Instant>>,
    stuck_since: Cell<Option<Instant>>,
    /// Replies wait (for the barrier or the peer): not idle.
    owed: Cell<bool>,
}

impl Peer {
    /// A connection that has just been accepted.
    pub fn new(id: u64, endpoint: Endpoint, now: Instant) -> Peer {
        let Endpoint {
            address,
            local,
            descriptor,
        } = endpoint;
        Peer {
            id,
            address,
            local,
            descriptor,
            accepted: now,
            session: RefCell::new(Session::new(id)),
            inbox: Inbox::default(),
            called: Cell::new(false),
            waker: RefCell::new(None),
            woken: Cell::new(false),
            dropped: Cell::new(None),
            saved: RefCell::new(None),
            waits_for: Cell::new(None),
            waits_for_log: Cell::new(false),
            held: Cell::new(false),
            ticket: Cell::new(0),
            leaves: Cell::new(false),
            input_bytes: Cell::new(0),
            output_bytes: Cell::new(0),
            query_bytes: Cell::new(0),
            unsent_bytes: Cell::new(0),
            spared: Cell::new(false),
            heard: Cell::new(false),
            last_input: Cell::new(now),
            partial_since: Cell::new(None),
            stuck_since: Cell::new(None),
            owed: Cell::new(false),
        }
    }

    /// Lets the connection's task look again.
    pub fn wake(&self) {
        if !self.woken.replace(true)
            && let Some(waker) = self.waker.borrow_mut().take()
        {
            waker.wake();
        }
    }

    /// Ready once for each time that it was woken (several wakes before a look are one).
    pub fn poll_woken(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.woken.replace(false) {
            return Poll::Ready(());
        }
        let mut waker = self.waker.borrow_mut();
        match waker.as_mut() {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// The connection is to end now; the first reason stays.
    pub fn drop_for(&self, reason: DropReason) {
        if self.dropped.get().is_none() {
            self.dropped.set(Some(reason));
        }
        self.wake();
    }

    /// Why the connection is to end, when it is.
    pub fn dropped(&self) -> Option<DropReason> {
        self.dropped.get()
    }

    /// The snapshot that this client's SAVE waits for has ended.
    pub fn set_saved(&self, result: SaveResult) {
        *self.saved.borrow_mut() = Some(result);
        self.wake();
    }

    /// Takes what [`Peer::set_saved`] left.
    pub fn take_saved(&self) -> Option<SaveResult> {
        self.saved.borrow_mut().take()
    }

    /// Whether this is what the core knows of the buffers' memory.
    pub fn has_buffers(&self, input_bytes: usize, output_bytes: usize) -> bool {
        self.input_bytes.get() == input_bytes && self.output_bytes.get() == output_bytes
    }

    /// Notes the buffers' memory; what it was before, together.
    pub fn set_buffers(&self, input_bytes: usize, output_bytes: usize) -> usize {
        self.input_bytes.replace(input_bytes) + self.output_bytes.replace(output_bytes)
    }

    /// The memory of both buffers when so many bytes more wait to be sent.
    pub fn grown_buffers(&self, bytes: usize) -> (usize, usize) {
        (self.input_bytes.get(), self.output_bytes.get() + bytes)
    }

    /// Notes how much waits to be executed and to be sent.
    pub fn note_sizes(&self, query_bytes: usize, unsent_bytes: usize) {
        self.query_bytes.set(query_bytes);
        self.unsent_bytes.set(unsent_bytes);
    }

    /// What a listing shows of it. `session` is `None` while its own task has it.
    pub fn facts<'a>(&self, session: Option<&'a Session>, now: Instant) -> ClientFacts<'a> {
        let since = |then: Instant| now.saturating_duration_since(then).as_secs();
        ClientFacts {
            id: self.id,
            session,
            address: Some(self.address),
            local: self.local,
            descriptor: self.descriptor,
            age_seconds: since(self.accepted),
            idle_seconds: if self.heard.get() {
                0
            } else {
                since(self.last_input.get())
            },
            query_bytes: self.query_bytes.get(),
            input_bytes: self.input_bytes.get(),
            unsent_bytes: self.unsent_bytes.get(),
            output_bytes: self.output_bytes.get(),
            waits: self.waits_for_log.get() || self.held.get(),
            writes: self.stuck_since.get().is_some(),
        }
    }

    /// Memory of both buffers, in bytes.
    pub fn buffers_bytes(&self) -> usize {
        self.input_bytes.get() + self.output_bytes.get()
    }

    /// Which of its time limits has passed.
    pub fn overdue(&self, now: Instant, idle_after: Duration) -> Option<DropReason> {
        if self.heard.replace(false) {
            self.last_input.set(now);
        }
        let over = |since: Instant, limit: Duration| now.saturating_duration_since(since) > limit;
        if self
            .stuck_since
            .get()
            .is_some_and(|since| over(since, STUCK_AFTER))
        {
            Some(DropReason::Stuck)
        } else if self
            .partial_since
            .get()
            .is_some_and(|since| over(since, PARTIAL_AFTER))
        {
            Some(DropReason::Partial)
        } else if !idle_after.is_zero()
            && !self.owed.get()
            && !self.waits_for_log.get()
            && !self.held.get()
            && over(self.last_input.get(), idle_after)
            && !self.is_subscribed()
        {
            Some(DropReason::Idle)
        } else {
            None
        }
    }

    /// Whether it waits for messages: as in Redis, `timeout` is not for those. (While its own task has the session, it is
    /// not idle either.)
    pub(crate) fn is_subscribed(&self) -> bool {
        let session = self.session.try_borrow();
        session.map_or(true, |session| !session.subscriptions.is_empty())
    }

    /// Something arrived. When, is noted by the next look at the time limits: reading the clock for each command costs more
    /// than the second that it would be exact to.
    pub fn note_input(&self) {
        self.heard.set(true);
    }

    /// Whether a command has begun and is not complete.
    pub fn note_partial(&self, partial: bool) {
        note_since(&self.partial_since, partial);
    }

    /// Whether the socket refuses released replies. Progress of one byte ends the state.
    pub fn note_stuck(&self, stuck: bool) {
        note_since(&self.stuck_since, stuck);
    }

    /// Whether replies wait to leave.
    pub fn note_owed(&self, owed: bool) {
        self.owed.set(owed);
    }
}

/// Keeps the first instant of a state that lasts.
fn note_since(cell: &Cell<Option<Instant>>, holds: bool) {
    match (holds, cell.get()) {
        (true, None) => cell.set(Some(Instant::now())),
        (false, Some(_)) => cell.set(None),
        (true, Some(_)) | (false, None) => {}
    }
}
