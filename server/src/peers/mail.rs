//! Messages for connections: into their inboxes, and who is woken when.
//!
//! A connection that gets a message is put on a list, and the list is worked off a few at a time
//! ([`postman`](crate::postman)).

use std::rc::Rc;

use idem_protocol::lsn::Lsn;

use super::Peers;
use crate::inbox::Inbox;
use crate::peer::{DropReason, Peer};

/// How many who got messages are woken at a time: their system calls together are a fraction of a millisecond.
const HANDFUL: usize = 32;

impl Peers {
    /// Bytes of messages that one connection may give to others before these have a turn, when it has woken `woken` of them:
    /// as much as makes the system call of each worth its while. And a part of what is left of the limit, so that any number
    /// of publishers who run one behind the other stay within it; else they would fill the inboxes of clients that read as
    /// fast as they can, before these could have read at all.
    pub fn stretch_bytes_max(&self, woken: usize) -> usize {
        const AT_LEAST: usize = 256 << 10;
        const EACH: usize = 16 << 10;
        let left = self.buffers_limit.saturating_sub(self.buffers_total);
        woken.saturating_mul(EACH).max(AT_LEAST).min(left / 64)
    }

    /// Puts a message into a peer's inbox, to be woken by [`Peers::hand_out`]; what it counts as, 0 for a peer that is on its
    /// way out. One whose inbox is over `bytes_max` does not read as fast as others publish: it is marked to be dropped, and
    /// what waits for it is forgotten.
    pub fn deliver(&mut self, peer: &Rc<Peer>, frame: &Rc<[u8]>, lsn: Lsn, bytes_max: usize) -> usize {
        if peer.dropped().is_some() {
            return 0;
        }
        let cost = Inbox::cost(frame.len());
        peer.inbox.push(frame, lsn);
        if peer.inbox.bytes() > bytes_max {
            peer.inbox.clear();
            peer.drop_for(DropReason::OutputLimit);
            return cost;
        }
        let (input_bytes, output_bytes) = peer.grown_buffers(cost);
        self.set_buffers(peer, input_bytes, output_bytes);
        if !peer.called.replace(true) {
            self.mail.push_back(Rc::clone(peer));
            self.mail_called += 1;
        }
        cost
    }

    /// The place behind all who have got messages so far, for [`Peers::has_handed_out`].
    pub fn mail_end(&self) -> u64 {
        self.mail_called
    }

    /// Whether all before a place have been woken. Who waits for this waits for those that it called itself, and not for what
    /// others publish meanwhile.
    pub fn has_handed_out(&self, end: u64) -> bool {
        let waiting = u64::try_from(self.mail.len()).unwrap_or(u64::MAX);
        self.mail_called.saturating_sub(waiting) >= end
    }

    /// Wakes some of those who got messages; whether there are more.
    pub fn hand_out(&mut self) -> bool {
        for _ in 0..HANDFUL {
            let Some(peer) = self.mail.pop_front() else {
                return false;
            };
            peer.called.set(false);
            peer.wake();
        }
        !self.mail.is_empty()
    }
}
