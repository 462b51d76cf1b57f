//! What a command does to other connections or to the server itself.
//!
//! The keyspace changes through records only, a command's own connection through a
//! [`SessionChange`](crate::session::SessionChange). What is left is collected in the node, in the order of the commands
//! that asked for it, and carried out by the server right after the command, in the same turn:
//! [`Node::take_deeds`](crate::Node::take_deeds). By then the command has been decided, reserved, applied and answered (its
//! reply may still wait), so a deed cannot fail in a way that the reply would have to know; what can be refused is refused
//! when the command is decided.

use std::time::Duration;

/// One thing to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A `BGSAVE` inside a transaction.
    Snapshot,
    /// A `DEBUG SLEEP` inside a transaction.
    Sleep(Duration),
}
