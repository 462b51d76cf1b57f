//! What a connection does while it has the core: the commands that are complete, one after the other, never waiting.

use std::rc::Rc;
use std::time::Duration;

use idem_engine::Outcome;
use idem_protocol::command;
use idem_protocol::resp::decode::Step;
use idem_protocol::resp::encode::Reply;

use super::deeds::{Caller, Published};
use super::{BACKPRESSURE_BYTES, Connection, MESSAGES_UNSENT_BYTES_MAX, Stopped, deeds};
use crate::clock::boot_time;
use crate::inbox::{Inbox, Poured};
use crate::peer::{DropReason, SaveResult};
use crate::replies::Replies;
use crate::socket;
use crate::stopwatch::{Lap, Stopwatch};
use crate::turn::Stretch;

/// Puts messages from others behind the replies; why it had to stop before all of them were there.
fn pour(inbox: &Inbox, replies: &mut Replies) -> Option<Stopped> {
    if inbox.is_empty() {
        return None;
    }
    match inbox.pour(replies, MESSAGES_UNSENT_BYTES_MAX) {
        Poured::All => None,
        Poured::Full => Some(Stopped::Backpressure),
        Poured::Turn => Some(Stopped::Turn),
    }
}

/// Whole microseconds.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Connection {
    /// Executes complete commands until one of the reasons in [`Stopped`].
    pub(super) fn execute(&mut self) {
        if self.stopped == Stopped::Ended {
            return;
        }
        if let Some(stopped) = pour(&self.peer.inbox, &mut self.replies) {
            self.stopped = stopped;
            return;
        }
        if let Some(end) = self.published {
            if !self.shard.core.borrow().peers.has_handed_out(end) {
                self.stopped = Stopped::Turn;
                return;
            }
            self.published = None;
        }
        if self.saving {
            match self.peer.take_saved() {
                Some(result) => self.save_ended(&result),
                None => {
                    self.stopped = Stopped::Waits;
                    return;
                }
            }
        }
        if self.input.bytes().len() < self.input_needed {
            self.stopped = Stopped::NeedsInput;
            return;
        }
        let peer = Rc::clone(&self.peer);
        let mut session = peer.session.borrow_mut();
        let mut core = self.shard.core.borrow_mut();
        let core = &mut *core;
        // One look at the clock for all that is executed now.
        let boot = boot_time();
        let now = core.clock.at(boot);
        let mut stretch = Stretch::begin(boot);
        let mut watch = Stopwatch::begin(boot, core.tick_length);
        let waited = self.stopped == Stopped::Waits;
        let owed = self.replies.unsent_bytes();
        let mut published = Published::default();
        let mut consumed_any = false;
        self.held = false;
        self.stopped = loop {
            // What this client published to itself comes behind the reply of its PUBLISH.
            if let Some(stopped) = pour(&peer.inbox, &mut self.replies) {
                break stopped;
            }
            // The command before this one may have been a CONFIG SET.
            self.limits.follow(&self.shard.options, self.input_needed <= 1);
            if self.replies.unsent_bytes() > BACKPRESSURE_BYTES {
                break Stopped::Backpressure;
            }
            let made = self.replies.unsent_bytes() - owed;
            if self.turn.is_over(&stretch, made)
                || published.bytes > core.peers.stretch_bytes_max(published.woken)
            {
                break Stopped::Turn;
            }
            let input = self.input.bytes();
            if input.len() < self.input_needed {
                break Stopped::NeedsInput;
            }
            let consumed = match self.decoder.step(input, &self.limits.decoder) {
                Step::Empty { consumed } => {
                    self.input.consume(consumed);
                    self.input_needed = 1;
                    consumed_any = true;
                    continue;
                }
                Step::NeedMore { at_least } => {
                    self.input_needed = input.len().saturating_add(at_least);
                    // All of the input belongs to this one command, and so will what is missing of it.
                    if self.input_needed > self.limits.query_bytes {
                        let text = "Protocol error: the command exceeds client-query-buffer-limit";
                        core.process.count_query_limit();
                        core.client_log.mistake(&self.peer, text);
                        self.lingers = true;
                        socket::append_error(&mut self.replies, session.protocol, text);
                        break Stopped::Ended;
                    }
                    break Stopped::NeedsInput;
                }
                Step::Error(error) => {
                    let text = error.to_string();
                    core.client_log.mistake(&self.peer, &text);
                    self.lingers = true;
                    socket::append_error(&mut self.replies, session.protocol, &text);
                    break Stopped::Ended;
                }
                Step::Command { consumed } => consumed,
            };
            let args = self.decoder.args(input);
            if command::is_http(args.name()) {
                // What follows is the body of a request that somebody made a browser or a proxy send here.
                self.peer.drop_for(DropReason::Http);
                break Stopped::Ended;
            }
            let out = self.replies.buffer();
            let (node, log, facts) = core.split();
            let outcome = node.execute(&mut session, args, now, log, &facts, out);
            let stop = match outcome {
                Outcome::Reply { depends_on } => {
                    self.replies.mark(depends_on);
                    None
                }
                Outcome::Close { depends_on } => {
                    self.replies.mark(depends_on);
                    // There may be more in the socket, and the client has to be able to read the last reply.
                    self.lingers = true;
                    Some(Stopped::Ended)
                }
                Outcome::Snapshot { wait, depends_on } => {
                    self.replies.mark(depends_on);
                    core.snapshots.request(wait.then(|| Rc::clone(&self.peer)));
                    self.shard.commit_wanted.notify_one();
                    self.saving = wait;
                    wait.then_some(Stopped::Waits)
                }
                Outcome::Sleep { duration, depends_on } => {
                    self.replies.mark(depends_on);
                    tracing::warn!(id = self.peer.id, ?duration, "DEBUG SLEEP: nobody is served");
                    // On the thread that serves everybody: that is what the command is for.
                    std::thread::sleep(duration);
                    Some(Stopped::Turn)
                }
                Outcome::Held => {
                    core.peers.hold(&self.peer, waited && stretch.is_first());
                    self.held = true;
                    break Stopped::Waits;
                }
                Outcome::Wait => {
                    core.peers.wait_for_log(&self.peer, waited && stretch.is_first());
                    self.shard.commit_wanted.notify_one();
                    break Stopped::Waits;
                }
            };
            if core.node.has_deeds() {
                let caller = Caller {
                    protocol: session.protocol,
                    promised: self.replies.highest(),
                };
                let woken = published.woken;
                deeds::carry_out(core, &self.shard, caller, &mut published);
                stretch.note_woken(published.woken - woken);
                if published.bytes > 0 {
                    self.published = Some(core.peers.mail_end());
                }
            }
            let lap = match core.node.slow_from_usec() {
                None => Lap::default(),
                Some(usec) => watch.lap(Duration::from_micros(usec)),
            };
            if let Some(took) = lap.took {
                let (at, address) = (core.clock.now(), self.peer.address.to_string());
                core.node
                    .note_slow_command(args, micros(took), at, address, &session.name);
            }
            self.input.consume(consumed);
            self.input_needed = 1;
            consumed_any = true;
            self.turn.note_command(&mut stretch, lap.ended);
            if let Some(stop) = stop {
                break stop;
            }
        };
        core.peers.spare(&peer, session.no_evict);
        if core.wants_hand_over() {
            self.shard.commit_wanted.notify_one();
        }
        if consumed_any {
            // Whatever is incomplete now has only just begun.
            self.peer.note_partial(false);
        }
        self.peer
            .note_partial(self.stopped == Stopped::NeedsInput && !self.input.bytes().is_empty());
    }

    fn save_ended(&mut self, result: &SaveResult) {
        self.saving = false;
        let session = self.peer.session.borrow();
        if session.muted {
            return;
        }
        let protocol = session.protocol;
        drop(session);
        match result {
            Ok(()) => socket::append(&mut self.replies, protocol, &Reply::Ok),
            Err(reason) => {
                socket::append_error(
                    &mut self.replies,
                    protocol,
                    &format!("the snapshot failed: {reason}"),
                );
            }
        }
    }
}
