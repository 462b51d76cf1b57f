//! What a command does to other connections or to the server itself.
//!
//! The keyspace changes through records only, a command's own connection through a
//! [`SessionChange`](crate::session::SessionChange). What is left is collected in the node, in the order of the commands
//! that asked for it, and carried out by the server right after the command, in the same turn:
//! [`Node::take_deeds`](crate::Node::take_deeds). By then the command has been decided, reserved, applied and answered (its
//! reply may still wait), so a deed cannot fail in a way that the reply would have to know; what can be refused is refused
//! when the command is decided.

use std::time::Duration;

use idem_protocol::UnixMs;

use crate::latency::LatencyEvent;
use crate::pause::PauseScope;
use crate::pubsub::Publication;

use crate::settings::Changes;

/// One thing to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A `BGSAVE` inside a transaction.
    Snapshot,
    /// A `DEBUG SLEEP` inside a transaction.
    Sleep(Duration),
    /// A `PUBLISH` that has receivers ([`PubSub::receivers`](crate::pubsub::PubSub::receivers)). A message may say that the
    /// publisher's earlier writes have happened: it is delivered behind all that its publisher has been promised so far.
    Publish(Publication),
    /// `CLIENT KILL`: these connections, in rising order, end without what they have not been sent.
    Kill {
        /// Their numbers; never the caller's own.
        ids: Vec<u64>,
    },
    /// `CLIENT PAUSE`.
    Pause {
        /// When it ends.
        until: UnixMs,
        /// What it holds.
        scope: PauseScope,
    },
    /// `CLIENT UNPAUSE`.
    Unpause,
    /// `SLOWLOG RESET`.
    ResetSlowlog,
    /// `LATENCY RESET` of these kinds.
    ResetLatency(Vec<LatencyEvent>),
    /// `CONFIG SET`, checked: these options are changed.
    Configure(Changes),
    /// `CONFIG RESETSTAT`: what INFO counts begins again.
    ResetStatistics,
}
