//! `MULTI`: commands that are kept until `EXEC`, and what they watch meanwhile.
//!
//! ```text
//! MULTI ─▶ queueing ─┬─ command ─▶ checked (name, arguments' number, memory, space) ─▶ QUEUED, or an error: failed
//!                    ├─ EXEC ─┬─ failed ───────────────▶ EXECABORT
//!                    │        ├─ a watched key changed ▶ null
//!                    │        └─ node/exec.rs: every command decided, one record, all or nothing
//!                    └─ DISCARD, RESET, the end of the connection ─▶ forgotten
//! ```
//!
//! What is queued belongs to the session and has touched nothing. Its memory is bounded
//! ([`Node::limit_transactions`](crate::Node::limit_transactions)) and counts as the connection's.

pub(crate) mod watch;

use idem_protocol::command::{CommandId, Route};
use idem_protocol::resp::{Args, ArgsQueue};

pub use watch::Watched;

/// Commands that one transaction may have: as many as one command may have arguments.
const COMMANDS_MAX: usize = 1 << 20;

/// A transaction that has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    queue: ArgsQueue,
    failed: bool,
}

impl Transaction {
    /// The commands, in order; none once it has failed.
    pub fn queue(&self) -> &ArgsQueue {
        &self.queue
    }

    /// Whether a command could not be queued: EXEC will answer EXECABORT.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// EXEC will answer EXECABORT, whatever else is queued; what was queued is given back.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
        self.queue = ArgsQueue::default();
    }

    /// Keeps a command. False when the transaction would hold more than `bytes_max` bytes or too many commands.
    pub(crate) fn push(&mut self, args: Args<'_>, bytes_max: usize) -> bool {
        if self.failed {
            // Nothing of it will run, so nothing of it is kept.
            return true;
        }
        // What a growing buffer may reserve in vain is at most as much as it holds.
        let bytes: usize = args.iter().map(|argument| argument.len() + 8).sum();
        let held = self.queue.held_bytes();
        held.saturating_add(bytes) <= bytes_max
            && self.queue.len() < COMMANDS_MAX
            && self.queue.push(args).is_ok()
    }
}

/// Whether a command is carried out in the middle of a transaction instead of being queued.
pub(crate) fn runs_at_once(route: &Route) -> bool {
    matches!(
        route.spec.id,
        CommandId::Exec
            | CommandId::Discard
            | CommandId::Multi
            | CommandId::Watch
            | CommandId::Quit
            | CommandId::Reset
    )
}
