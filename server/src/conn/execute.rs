//! What a connection does while it has the core: the commands that are complete, one after the other, never waiting.

use std::rc::Rc;

use idem_engine::Outcome;
use idem_protocol::command;
use idem_protocol::resp::decode::Step;
use idem_protocol::resp::encode::Reply;

use super::{BACKPRESSURE_BYTES, Connection, Stopped, deeds};
use crate::clock::boot_time;
use crate::peer::{DropReason, SaveResult};
use crate::socket;
use crate::turn::Stretch;

impl Connection {
    /// Executes complete commands until one of the reasons in [`Stopped`].
    pub(super) fn execute(&mut self) {
        if self.stopped == Stopped::Ended {
            return;
        }
        if self.saving {
            match self.peer.take_saved() {
                Some(result) => self.save_ended(&result),
                None => return,
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
        let waited = self.stopped == Stopped::Waits;
        let owed = self.replies.unsent_bytes();
        let mut consumed_any = false;
        self.stopped = loop {
            if self.replies.unsent_bytes() > BACKPRESSURE_BYTES {
                break Stopped::Backpressure;
            }
            let made = self.replies.unsent_bytes() - owed;
            if self.turn.is_over(&stretch, made) {
                break Stopped::Turn;
            }
            let input = self.input.bytes();
            if input.len() < self.input_needed {
                break Stopped::NeedsInput;
            }
            let consumed = match self.decoder.step(input, &self.limits) {
                Step::Empty { consumed } => {
                    self.input.consume(consumed);
                    self.input_needed = 1;
                    consumed_any = true;
                    continue;
                }
                Step::NeedMore { at_least } => {
                    self.input_needed = input.len().saturating_add(at_least);
                    // All of the input belongs to this one command, and so will what is missing of it.
                    if self.input_needed > self.query_bytes_max {
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
                Outcome::Wait => {
                    core.peers.wait_for_log(&self.peer, waited && stretch.is_first());
                    self.shard.commit_wanted.notify_one();
                    break Stopped::Waits;
                }
            };
            if core.node.has_deeds() {
                deeds::carry_out(core, &self.shard);
            }
            self.input.consume(consumed);
            self.input_needed = 1;
            consumed_any = true;
            self.turn.note_command(&mut stretch);
            if let Some(stop) = stop {
                break stop;
            }
        };
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
        let protocol = self.peer.session.borrow().protocol;
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
