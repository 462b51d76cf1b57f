//! All connections of a shard: how many, how much memory, who waits for what.
//!
//! Times are looked at once a second for all peers together ([`Peers::sweep`]): no timer per connection.
//!
//! Sizes are kept in order, so that the largest is found without a look at the others: at the limit of all buffers
//! together every further read asks for it, and ten thousand clients that stay there would otherwise cost everybody a
//! look at ten thousand.

mod mail;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use idem_engine::ClientFacts;
use idem_protocol::lsn::Lsn;

use crate::peer::{DropReason, Endpoint, Peer};

/// All connections of a shard.
pub struct Peers {
    all: BTreeMap<u64, Rc<Peer>>,
    next_id: u64,
    buffers_total: usize,
    buffers_limit: usize,
    /// Buffers of those that stay, as `(not spared, bytes, id)`; who has none is not in it. The last is the first to go.
    by_size: BTreeSet<(bool, usize, u64)>,
    /// Sum of `by_size`.
    staying_bytes: usize,
    /// Peers whose oldest reply waits for the barrier; each at most once (`Peer::waits_for`).
    barrier_waiters: Vec<Rc<Peer>>,
    /// How many they were when the barrier last let somebody go.
    barrier_waiters_before: usize,
    /// Such peers with subscriptions: what waits there are messages, and a thousand of these are no sign that a thousand
    /// commands are still to come.
    barrier_listeners: Vec<Rc<Peer>>,
    /// Peers who got messages and are to be woken, in this order; each at most once (`Peer::called`).
    mail: VecDeque<Rc<Peer>>,
    /// How many were ever put on that list.
    mail_called: u64,
    /// Peers whose next command waits for the log: for space, or for the open group to leave.
    log_waiters: Vec<Rc<Peer>>,
    /// Peers whose next command is held by a pause, by their places.
    held: BTreeMap<u64, Rc<Peer>>,
    /// Places given out on both lists.
    tickets: u64,
}

impl Peers {
    /// No peers; their buffers may take `buffers_limit` bytes together.
    pub fn new(buffers_limit: usize) -> Peers {
        Peers {
            all: BTreeMap::new(),
            next_id: 1,
            buffers_total: 0,
            buffers_limit,
            by_size: BTreeSet::new(),
            staying_bytes: 0,
            barrier_waiters: Vec::new(),
            barrier_listeners: Vec::new(),
            barrier_waiters_before: 0,
            mail: VecDeque::new(),
            mail_called: 0,
            log_waiters: Vec::new(),
            held: BTreeMap::new(),
            tickets: 0,
        }
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The connection of that number.
    pub fn get(&self, id: u64) -> Option<&Rc<Peer>> {
        self.all.get(&id)
    }

    /// Memory of all buffers, in bytes.
    pub fn buffers_bytes(&self) -> usize {
        self.buffers_total
    }

    /// Whether the buffers are over their limit all the same, because those that were marked have not gone yet. Until they
    /// have, which is as soon as their tasks have run, nobody should make more: marks alone hold no memory back, and ten
    /// thousand connections can be ready at the same time.
    pub fn are_over_limit(&self) -> bool {
        self.buffers_total > self.buffers_limit
    }

    /// Number of connections with replies that wait for the barrier.
    pub fn waiting_for_barrier(&self) -> usize {
        self.barrier_waiters.len() + self.barrier_listeners.len()
    }

    /// Number of connections whose next command waits for the log or for the end of a pause (INFO's `blocked_clients`).
    pub fn waiting_for_log(&self) -> usize {
        self.log_waiters.len() + self.held.len()
    }

    /// Takes up a connection.
    pub fn add(&mut self, endpoint: impl Into<Endpoint>, now: Instant) -> Rc<Peer> {
        let peer = Rc::new(Peer::new(self.next_id, endpoint.into(), now));
        self.next_id += 1;
        self.all.insert(peer.id, Rc::clone(&peer));
        peer
    }

    /// Forgets a connection.
    pub fn remove(&mut self, peer: &Rc<Peer>) {
        self.set_buffers(peer, 0, 0);
        self.all.remove(&peer.id);
        if peer.waits_for.take().is_some() {
            self.barrier_waiters.retain(|waiter| waiter.id != peer.id);
            self.barrier_listeners.retain(|waiter| waiter.id != peer.id);
        }
        if peer.held.take() {
            self.held.remove(&peer.ticket.get());
        }
        if peer.waits_for_log.take() {
            self.log_waiters.retain(|waiter| waiter.id != peer.id);
        }
    }

    /// Notes the memory of a peer's buffers. When it grew and all together are over the limit, those with the largest
    /// are marked to be dropped until the others are within it (the peer itself may be one of them, or none).
    pub fn set_buffers(&mut self, peer: &Peer, input_bytes: usize, output_bytes: usize) {
        let (before, after) = (
            peer.set_buffers(input_bytes, output_bytes),
            input_bytes + output_bytes,
        );
        self.buffers_total = self.buffers_total - before + after;
        if peer.leaves.get() {
            return;
        }
        let goes_first = !peer.spared.get();
        if before > 0 {
            self.by_size.remove(&(goes_first, before, peer.id));
        }
        if after > 0 {
            self.by_size.insert((goes_first, after, peer.id));
        }
        self.staying_bytes = self.staying_bytes - before + after;
        if after > before {
            self.drop_largest();
        }
    }

    /// Whether the peer is to go only when nobody else is left to go (`CLIENT NO-EVICT`). The bound on all buffers together
    /// holds in any case.
    pub fn spare(&mut self, peer: &Peer, spared: bool) {
        if peer.spared.get() == spared {
            return;
        }
        peer.spared.set(spared);
        let bytes = peer.buffers_bytes();
        if self.by_size.remove(&(spared, bytes, peer.id)) {
            self.by_size.insert((!spared, bytes, peer.id));
        }
    }

    /// Marks the connection of that number, when there is one.
    pub fn kill(&self, id: u64) {
        if let Some(peer) = self.all.get(&id) {
            peer.drop_for(DropReason::Killed);
        }
    }

    /// Calls `each` with what there is to know of each connection, or of the one of the id `only`, in rising order. Those
    /// that are marked to be dropped are left out: they only have not noticed yet.
    pub fn visit(&self, only: Option<u64>, each: &mut dyn FnMut(&ClientFacts<'_>)) {
        let now = Instant::now();
        let mut visit = |peer: &Peer| {
            if peer.dropped().is_none() {
                let session = peer.session.try_borrow().ok();
                each(&peer.facts(session.as_deref(), now));
            }
        };
        match only {
            Some(id) => self.all.get(&id).into_iter().for_each(|peer| visit(peer)),
            None => self.all.values().for_each(|peer| visit(peer)),
        }
    }

    /// Another limit for all buffers together, in bytes. When they are over it, those with the largest are marked.
    pub fn set_buffers_limit(&mut self, bytes: usize) {
        self.buffers_limit = bytes;
        self.drop_largest();
    }

    /// Marks the largest until those that stay are within the limit. Each peer is marked once, so that all these calls
    /// together cost no more than there are connections.
    fn drop_largest(&mut self) {
        while self.staying_bytes > self.buffers_limit {
            let (_, bytes, id) = self
                .by_size
                .pop_last()
                .expect("a sum above a limit has a part above 0");
            self.staying_bytes -= bytes;
            let largest = self
                .all
                .get(&id)
                .expect("who is removed has given up its buffers before");
            // One that is on its way out for another reason keeps that reason; its memory goes with it all the same.
            largest.leaves.set(true);
            largest.inbox.clear();
            largest.drop_for(DropReason::BuffersTotal);
        }
    }

    /// The peer's oldest reply waits until the barrier has passed `lsn`.
    pub fn wait_for_barrier(&mut self, peer: &Rc<Peer>, lsn: Lsn) {
        if peer.waits_for.replace(Some(lsn)).is_none() {
            let list = if peer.is_subscribed() {
                &mut self.barrier_listeners
            } else {
                &mut self.barrier_waiters
            };
            list.push(Rc::clone(peer));
        }
    }

    /// Wakes those whose oldest reply the barrier has passed.
    pub fn barrier_moved(&mut self, barrier: Lsn) {
        let before = self.barrier_waiters.len();
        let waits = |peer: &Rc<Peer>| {
            let waits = peer.waits_for.get().is_some_and(|lsn| lsn > barrier);
            if !waits {
                peer.waits_for.set(None);
                peer.wake();
            }
            waits
        };
        self.barrier_waiters.retain(waits);
        self.barrier_listeners.retain(waits);
        if self.barrier_waiters.len() < before {
            self.barrier_waiters_before = before;
        }
    }

    /// Whether at least half as many wait for the barrier as did before it last let somebody go. With clients that send
    /// when they are answered, the other half is still to come.
    pub fn half_waits_for_barrier(&self) -> bool {
        self.barrier_waiters.len() * 2 >= self.barrier_waiters_before
    }

    /// The peer's next command waits for the log; `again` when it waited before. A command that was decided in vain keeps
    /// its place, so that a client with many such commands cannot keep another one's only command waiting.
    pub fn wait_for_log(&mut self, peer: &Rc<Peer>, again: bool) {
        if peer.held.take() {
            self.held.remove(&peer.ticket.get());
        }
        self.give_ticket(peer, again);
        if !peer.waits_for_log.replace(true) {
            self.log_waiters.push(Rc::clone(peer));
        }
    }

    fn give_ticket(&mut self, peer: &Peer, again: bool) {
        if !again {
            self.tickets += 1;
            peer.ticket.set(self.tickets);
        }
    }

    /// The peer's next command is held by a pause; `again` as for the log. Once is enough, however often it is tried.
    pub fn hold(&mut self, peer: &Rc<Peer>, again: bool) {
        if !peer.held.replace(true) {
            self.give_ticket(peer, again);
            self.held.insert(peer.ticket.get(), Rc::clone(peer));
        }
    }

    /// The pause is over: whoever was held decides again, in the order in which they began to wait.
    pub fn resume(&mut self) {
        for peer in std::mem::take(&mut self.held).into_values() {
            peer.held.set(false);
            peer.wake();
        }
    }

    /// The log changed: whoever waits for it decides again, in the order in which they began to wait.
    pub fn log_moved(&mut self) {
        self.log_waiters.sort_by_key(|peer| peer.ticket.get());
        for peer in self.log_waiters.drain(..) {
            peer.waits_for_log.set(false);
            peer.wake();
        }
    }

    /// Marks those to be dropped whose time is up.
    pub fn sweep(&self, now: Instant, idle_after: Duration) {
        for peer in self.all.values() {
            if let Some(reason) = peer.overdue(now, idle_after) {
                peer.drop_for(reason);
            }
        }
    }

    /// Lets every connection look again.
    pub fn wake_all(&self) {
        for peer in self.all.values() {
            peer.wake();
        }
    }

    /// Ends every connection.
    pub fn drop_all(&self, reason: DropReason) {
        for peer in self.all.values() {
            peer.drop_for(reason);
        }
    }
}

#[cfg(test)]
mod tests;
