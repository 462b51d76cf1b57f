//! What a connection has said about itself.
//!
//! A decision never changes a session: it names a [`SessionChange`], and the node carries it out together with the
//! reply. A command that has to wait for log space has therefore not half changed its connection.

use idem_protocol::command::resolve;
use idem_protocol::resp::{Args, Protocol};

use crate::pause;
use crate::pubsub::{Subscriptions, Topic};

use crate::transaction::watch::{Watch, WatchedKey};
use crate::transaction::{Transaction, Watched};

/// The state of one connection, as far as commands see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Unique within the process; `CLIENT ID` answers it.
    pub id: u64,
    /// The selected database.
    pub db: u8,
    /// What replies are encoded in.
    pub protocol: Protocol,
    /// `CLIENT SETNAME`; empty = none.
    pub name: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`.
    pub library_name: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`.
    pub library_version: Vec<u8>,
    /// Whether this connection may use DEBUG. The server decides it, from its configuration and where the client is.
    pub may_debug: bool,
    /// Commands answered on this connection.
    pub commands: u64,
    /// The command that was answered last, as listings spell it; `None` for none, and for a name that is no command.
    pub last_command: Option<&'static str>,
    /// `CLIENT REPLY`.
    pub replies: ReplyMode,
    /// The reply to the last command is not sent.
    pub muted: bool,
    /// `CLIENT NO-EVICT`: among clients with too large buffers it is the last to go.
    pub no_evict: bool,
    /// `CLIENT NO-TOUCH`: its commands do not count as uses of their keys.
    pub no_touch: bool,
    /// How much it is subscribed to; to what, the registry knows.
    pub subscriptions: Subscriptions,
    /// What was queued since MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// What EXEC depends on.
    pub watched: Watched,
}

/// Which replies a connection is sent. Messages of channels that it is subscribed to, and what SUBSCRIBE and the like
/// answer, are sent in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// Not the one to the command that asks for it, and not the next.
    SkipNext,
    /// Not the next one.
    Skip,
}

impl ReplyMode {
    /// What holds for the next command, once one was answered, or not.
    pub(crate) fn after_a_command(self) -> ReplyMode {
        match self {
            ReplyMode::SkipNext => ReplyMode::Skip,
            ReplyMode::Skip => ReplyMode::On,
            ReplyMode::On | ReplyMode::Off => self,
        }
    }
}

impl Session {
    /// A new connection: database 0, RESP2, no name.
    pub fn new(id: u64) -> Self {
        Session {
            id,
            ..Session::default()
        }
    }

    /// Commands queued since MULTI; `None` outside of a transaction.
    pub fn queued(&self) -> Option<usize> {
        Some(self.transaction.as_ref()?.queue().len())
    }

    /// Bytes that a client made this session keep, to be counted with its connection's buffers.
    pub fn memory_bytes(&self) -> usize {
        let queued = self
            .transaction
            .as_ref()
            .map_or(0, |begun| begun.queue().held_bytes());
        queued + self.watched.memory_bytes() + self.subscriptions.memory_bytes()
    }

    /// Whether a command that may write is queued.
    pub fn queued_may_write(&self) -> bool {
        let queued = self.transaction.iter().flat_map(|begun| begun.queue().iter());
        queued.filter_map(|args| resolve(args).ok()).any(pause::may_write)
    }

    /// A copy to try a transaction's commands on: without what the transaction itself consists of.
    pub(crate) fn for_trial(&mut self) -> Session {
        let (transaction, watched) = (self.transaction.take(), std::mem::take(&mut self.watched));
        let copy = self.clone();
        (self.transaction, self.watched) = (transaction, watched);
        copy
    }

    pub(crate) fn change(&mut self, change: SessionChange<'_>) {
        match change {
            SessionChange::None => {}
            SessionChange::Select(db) => self.db = db,
            SessionChange::Hello { protocol, name } => {
                self.protocol = protocol;
                if let Some(name) = name {
                    replace(&mut self.name, name);
                }
            }
            SessionChange::Reset => {
                self.db = 0;
                self.protocol = Protocol::default();
                self.name.clear();
                self.replies = ReplyMode::On;
                (self.no_evict, self.no_touch) = (false, false);
            }
            SessionChange::Name(name) => replace(&mut self.name, name),
            SessionChange::LibraryName(name) => replace(&mut self.library_name, name),
            SessionChange::LibraryVersion(version) => replace(&mut self.library_version, version),
            SessionChange::Replies(mode) => self.replies = mode,
            SessionChange::NoEvict(on) => self.no_evict = on,
            SessionChange::NoTouch(on) => self.no_touch = on,
            // The registry's business, which changes the session's numbers with its own.
            SessionChange::Subscribe { .. } | SessionChange::Unsubscribe { .. } => {}
            SessionChange::Begin => self.transaction = Some(Box::default()),
            // What the node knows about the session changes with it: `Node::change_session`.
            SessionChange::Discard | SessionChange::Watch(_) | SessionChange::Unwatch => {}
        }
    }
}

fn replace(field: &mut Vec<u8>, value: &[u8]) {
    field.clear();
    field.extend_from_slice(value);
}

/// What a command does to its own connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionChange<'c> {
    /// Nothing.
    #[default]
    None,
    /// `SELECT`, checked against the number of databases.
    Select(u8),
    /// `HELLO`: its own reply is the first in the new protocol.
    Hello {
        /// The version from here on.
        protocol: Protocol,
        /// `SETNAME`, when given.
        name: Option<&'c [u8]>,
    },
    /// `RESET`: database 0, RESP2, no name. The library stays: it is still the same one.
    Reset,
    /// `CLIENT SETNAME`; empty takes the name away.
    Name(&'c [u8]),
    /// `CLIENT SETINFO LIB-NAME`.
    LibraryName(&'c [u8]),
    /// `CLIENT SETINFO LIB-VER`.
    LibraryVersion(&'c [u8]),
    /// `CLIENT REPLY`.
    Replies(ReplyMode),
    /// `CLIENT NO-EVICT`.
    NoEvict(bool),
    /// `CLIENT NO-TOUCH`.
    NoTouch(bool),
    /// `SUBSCRIBE`, `PSUBSCRIBE`.
    Subscribe {
        /// To channels or to patterns.
        topic: Topic,
        /// Which.
        names: Args<'c>,
    },
    /// `UNSUBSCRIBE`, `PUNSUBSCRIBE`.
    Unsubscribe {
        /// From channels or from patterns.
        topic: Topic,
        /// Which; without any, all of the connection.
        names: Args<'c>,
    },
    /// `MULTI`.
    Begin,
    /// `DISCARD`: nothing is queued or watched any more.
    Discard,
    /// `WATCH`: keys and how they are now.
    Watch(Vec<(WatchedKey, Watch)>),
    /// `UNWATCH`.
    Unwatch,
}
