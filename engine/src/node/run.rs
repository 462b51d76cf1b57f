//! What surrounds a command, whatever it means: whether it has to wait for the end of a pause, and whether its reply is
//! sent.

use idem_protocol::UnixMs;
use idem_protocol::command;
use idem_protocol::resp::Args;

use super::{Node, Outcome};
use crate::deed::Deed;
use crate::info::Facts;
use crate::log::Log;
use crate::session::{ReplyMode, Session};

impl Node {
    /// Runs one command at `now` and appends its reply to `out`.
    ///
    /// Either everything happens in this call (records appended and applied, reply encoded, session changed, counted) or,
    /// for [`Outcome::Wait`] and [`Outcome::Held`], nothing at all, except that other keys may have been evicted to make room
    /// for it.
    pub fn execute<L: Log>(
        &mut self,
        session: &mut Session,
        args: Args<'_>,
        now: UnixMs,
        log: &mut L,
        facts: &dyn Facts,
        out: &mut Vec<u8>,
    ) -> Outcome {
        if self.paused_until().is_some() && self.is_held(session, args, now) {
            return Outcome::Held;
        }
        let (start, last_command) = (out.len(), session.last_command);
        let outcome = self.answer(session, args, now, log, facts, out);
        if outcome == Outcome::Wait {
            session.last_command = last_command;
            return outcome;
        }
        session.muted = session.replies != ReplyMode::On;
        if session.muted {
            session.replies = session.replies.after_a_command();
            if !is_push(args, out.get(start..)) {
                out.truncate(start);
            }
        }
        outcome
    }

    /// When commands are held no longer, if they are; may have passed.
    pub fn paused_until(&self) -> Option<UnixMs> {
        self.pause.until()
    }

    /// Whether the command that was sent has to wait. An error about its arguments is told at once.
    fn is_held(&self, session: &Session, args: Args<'_>, now: UnixMs) -> bool {
        command::resolve(args).is_ok_and(|route| self.pause.holds(route, session, now))
    }

    /// Nothing is held any more; whoever waits is to be tried again.
    pub fn unpause(&mut self) {
        self.pause.end();
    }

    /// Does what a deed asks of the node itself. The server does the rest, when there is any.
    pub fn carry_out(&mut self, deed: &Deed, now: UnixMs) {
        match deed {
            Deed::Pause { until, scope } => self.pause.begin(*until, *scope, now),
            Deed::Unpause => self.unpause(),
            Deed::ResetSlowlog => self.reset_slowlog(),
            Deed::ResetLatency(events) => self.reset_latency(events),
            _ => {}
        }
    }
}

/// Whether this is what is sent even where replies are not: what SUBSCRIBE and the like answer, which is a message in
/// RESP3. Their errors are replies.
fn is_push(args: Args<'_>, reply: Option<&[u8]>) -> bool {
    let is_error = reply.is_some_and(|reply| reply.starts_with(b"-"));
    !is_error && command::lookup(args.name()).is_some_and(command::CommandSpec::has_many_replies)
}
