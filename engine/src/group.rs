//! What may join the open commit group.
//!
//! Records of many sessions share a group, and one sync. A command that joins neither makes the others wait for more than
//! it was sent, nor changes more than the one key that it names. Everything else begins a group of its own: the open one
//! is closed first, so that a command over all keys never stands in the middle of other sessions' writes. Every path that
//! appends for a session asks this one function.

use idem_protocol::command::CommandSpec;

use crate::session::Session;

/// Whether the records of this command, called by this session, may join the open group. Allocates nothing; the answer
/// is a reviewed column of the command table, never derived from the write flag. A session with subscriptions answers no
/// for every command.
pub fn eligible(session: &Session, command: &CommandSpec) -> bool {
    command.joins_group && session.subscriptions.is_empty()
}
