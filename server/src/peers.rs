//! All connections of a shard: how many, how much memory, who waits for what.
//!
//! Times are looked at once a second for all peers together ([`Peers::sweep`]): no timer per connection.
//!
//! Sizes are kept in order, so that the largest is found without a look at the others: at the limit of all buffers
//! together every further read asks for it, and ten thousand clients that stay there would otherwise cost everybody a
//! look at ten thousand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use idem_engine::ClientFacts;
use idem_protocol::lsn::Lsn;

use crate::inbox::Inbox;
use crate::peer::{DropReason, Endpoint, Peer};

/// How many who got messages are woken at a time: their system calls together are a fraction of a millisecond.
const HANDFUL: usize = 32;

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
    /// The same, of those with subscriptions: what waits there are messages, and a thousand of these are no sign that a
    /// thousand commands are still to come.
    barrier_listeners: Vec<Rc<Peer>>,
    /// How many they were when the barrier last let somebody go.
    barrier_waiters_before: usize,
    /// Peers who got messages and are to be woken, in this order; each at most once (`Peer::called`).
    mail: VecDeque<Rc<Peer>>,
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
        }
        cost
    }

    /// Whether somebody who got a message has not been woken yet.
    pub fn has_mail(&self) -> bool {
        !self.mail.is_empty()
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
        self.has_mail()
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
mod tests {
    use super::{DropReason, Inbox, Peers, Rc};
    use crate::peer::{PARTIAL_AFTER, STUCK_AFTER};
    use idem_engine::pubsub::{PubSub, Topic};
    use idem_protocol::lsn::Lsn;
    use std::net::SocketAddr;
    use std::time::{Duration, Instant};

    fn address() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 9))
    }

    #[test]
    fn the_largest_goes_when_all_are_too_many() {
        let mut peers = Peers::new(1000);
        let (small, large) = (
            peers.add(address(), Instant::now()),
            peers.add(address(), Instant::now()),
        );
        peers.set_buffers(&large, 700, 200);
        assert_eq!(large.dropped(), None);
        peers.set_buffers(&small, 150, 0);
        assert_eq!(
            (large.dropped(), small.dropped()),
            (Some(DropReason::BuffersTotal), None)
        );
        assert!(peers.are_over_limit());
        // The marked one's memory counts as gone: nobody else has to go for it.
        peers.set_buffers(&small, 160, 0);
        assert_eq!(small.dropped(), None);
        peers.remove(&large);
        assert!(!peers.are_over_limit());
        assert_eq!(peers.buffers_bytes(), 160);
        peers.remove(&small);
        assert_eq!((peers.buffers_bytes(), peers.len()), (0, 0));
    }

    #[test]
    fn a_lower_limit_holds_at_once() {
        let mut peers = Peers::new(1000);
        let [first, second] = [(); 2].map(|()| peers.add(address(), Instant::now()));
        peers.set_buffers(&first, 400, 0);
        peers.set_buffers(&second, 500, 0);
        peers.set_buffers_limit(900);
        assert_eq!((first.dropped(), second.dropped()), (None, None));
        peers.set_buffers_limit(899);
        assert_eq!(
            (first.dropped(), second.dropped()),
            (None, Some(DropReason::BuffersTotal))
        );
        peers.set_buffers_limit(2000);
        peers.set_buffers(&first, 1500, 0);
        assert_eq!(first.dropped(), None);
    }

    /// Who is spared goes when nobody else is left, and the bound holds all the same.
    #[test]
    fn the_spared_go_last() {
        let mut peers = Peers::new(1000);
        let [spared, other, last] = [(); 3].map(|()| peers.add(address(), Instant::now()));
        peers.set_buffers(&spared, 700, 0);
        peers.spare(&spared, true);
        peers.spare(&last, true);
        peers.set_buffers(&other, 200, 0);
        peers.set_buffers(&last, 200, 0);
        let reasons = || [&spared, &other, &last].map(|peer| peer.dropped());
        assert_eq!(reasons(), [None, Some(DropReason::BuffersTotal), None]);
        peers.remove(&other);
        peers.set_buffers(&last, 301, 0);
        assert_eq!(spared.dropped(), Some(DropReason::BuffersTotal));
        peers.spare(&last, false);
        peers.spare(&spared, false);
        peers.remove(&spared);
        peers.remove(&last);
        assert_eq!((peers.staying_bytes, peers.by_size.len()), (0, 0));
    }

    #[test]
    fn a_pause_and_the_log_have_their_own_waiters() {
        let mut peers = Peers::new(1000);
        let [first, second, third] = [(); 3].map(|()| peers.add(address(), Instant::now()));
        peers.hold(&second, false);
        peers.wait_for_log(&third, false);
        peers.hold(&first, false);
        // Tried again, because more of it arrived.
        peers.hold(&second, true);
        peers.hold(&first, false);
        assert_eq!(peers.waiting_for_log(), 3);
        let order = |peers: &Peers| peers.held.values().map(|peer| peer.id).collect::<Vec<_>>();
        assert_eq!(order(&peers), [second.id, first.id]);
        peers.log_moved();
        assert_eq!(
            peers.waiting_for_log(),
            2,
            "the log says nothing to those who are held"
        );
        // The pause was over for it before the others were let go, and now it needs the log.
        peers.wait_for_log(&second, true);
        assert_eq!(order(&peers), [first.id]);
        peers.remove(&first);
        assert!(order(&peers).is_empty());
        peers.hold(&third, false);
        peers.resume();
        assert_eq!((peers.waiting_for_log(), third.held.get()), (1, false));
        peers.remove(&second);
        assert_eq!(peers.waiting_for_log(), 0);
    }

    #[test]
    fn who_is_marked_is_no_longer_listed() {
        let mut peers = Peers::new(1000);
        let [first, second] = [(); 2].map(|()| peers.add(address(), Instant::now()));
        let listed = |peers: &Peers, only| {
            let mut ids = Vec::new();
            peers.visit(only, &mut |client| {
                ids.push((client.id, client.session.is_some()))
            });
            ids
        };
        let executing = second.session.borrow_mut();
        assert_eq!(listed(&peers, None), [(first.id, true), (second.id, false)]);
        drop(executing);
        assert_eq!(listed(&peers, Some(second.id)), [(second.id, true)]);
        assert_eq!(listed(&peers, Some(99)), []);
        peers.kill(first.id);
        peers.kill(99);
        assert_eq!(first.dropped(), Some(DropReason::Killed));
        assert_eq!(listed(&peers, None), [(second.id, true)]);
        assert_eq!(listed(&peers, Some(first.id)), []);
    }

    /// Against the plain rule: whenever the sum of a growing peer's fellows is over the limit, the largest goes.
    #[test]
    fn the_largest_is_found_as_by_looking_at_all() {
        const LIMIT: usize = 5000;
        let mut peers = Peers::new(LIMIT);
        let mut all: Vec<_> = (0..40).map(|_| peers.add(address(), Instant::now())).collect();
        let mut seed = 0x1de_u64;
        let mut random = |bound: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).unwrap() % bound
        };
        let mut marked = 0;
        for _ in 0..4000 {
            let index = random(all.len());
            let (input, output) = (random(300), random(300));
            let before = all[index].buffers_bytes();
            peers.set_buffers(&all[index], input, output);
            let sum: usize = all.iter().map(|peer| peer.buffers_bytes()).sum();
            assert_eq!(peers.buffers_bytes(), sum);
            let staying = all.iter().filter(|peer| peer.dropped().is_none());
            let (staying, largest) = staying.fold((0, 0), |(sum, largest), peer| {
                (sum + peer.buffers_bytes(), largest.max(peer.buffers_bytes()))
            });
            assert!(staying <= LIMIT || input + output <= before);
            // Those that leave do so, and others come in their place; the smallest that was marked is no smaller than
            // the largest that stays.
            for peer in &mut all {
                if peer.dropped() == Some(DropReason::BuffersTotal) {
                    assert!(peer.buffers_bytes() >= largest);
                    peers.remove(peer);
                    *peer = peers.add(address(), Instant::now());
                    marked += 1;
                }
            }
        }
        assert!(marked > 50, "{marked} were marked");
        for peer in &all {
            peers.remove(peer);
        }
        assert_eq!(
            (peers.buffers_bytes(), peers.staying_bytes, peers.by_size.len()),
            (0, 0, 0)
        );
    }

    /// Who goes for another reason is counted as gone before anybody else has to go.
    #[test]
    fn who_leaves_anyway_makes_room() {
        let mut peers = Peers::new(1000);
        let [first, second] = [(); 2].map(|()| peers.add(address(), Instant::now()));
        peers.set_buffers(&first, 900, 0);
        first.drop_for(DropReason::Stuck);
        peers.set_buffers(&second, 800, 0);
        assert_eq!(
            (first.dropped(), second.dropped()),
            (Some(DropReason::Stuck), None)
        );
        // It may still move its buffers before its task has seen the mark.
        peers.set_buffers(&first, 2000, 0);
        assert_eq!((peers.buffers_bytes(), second.dropped()), (2800, None));
    }

    /// A message counts in full for everybody it is given to; who does not take it up goes, at its own limit or at that of all.
    #[test]
    fn messages_are_counted_and_limited() {
        let frame: Rc<[u8]> = Rc::from(vec![0; 100]);
        let cost = Inbox::cost(frame.len());
        let mut peers = Peers::new(5 * cost);
        let [first, second] = [(); 2].map(|()| peers.add(address(), Instant::now()));
        peers.set_buffers(&first, 1, 2);
        assert_eq!(peers.deliver(&first, &frame, Lsn::ZERO, 2 * cost), cost);
        assert_eq!(
            (first.buffers_bytes(), peers.buffers_bytes()),
            (3 + cost, 3 + cost)
        );
        peers.deliver(&first, &frame, Lsn::ZERO, 2 * cost);
        assert_eq!((first.dropped(), first.inbox.bytes()), (None, 2 * cost));
        // One more than its own limit.
        peers.deliver(&first, &frame, Lsn::ZERO, 2 * cost);
        assert_eq!(first.dropped(), Some(DropReason::OutputLimit));
        assert!(first.inbox.is_empty());
        assert_eq!(peers.deliver(&first, &frame, Lsn::ZERO, 2 * cost), 0);
        // Until it has gone, its share of the common limit is taken.
        for _ in 0..3 {
            assert_eq!(second.dropped(), None);
            peers.deliver(&second, &frame, Lsn::ZERO, 100 * cost);
        }
        assert_eq!(second.dropped(), Some(DropReason::BuffersTotal));
        assert!(second.inbox.is_empty());
        peers.remove(&first);
        peers.remove(&second);
        assert_eq!(peers.buffers_bytes(), 0);
        assert_eq!(Rc::strong_count(&frame), 1, "nobody holds it any more");
    }

    #[test]
    fn times_are_up_only_after_their_limit() {
        let mut peers = Peers::new(1000);
        let start = Instant::now();
        let [stuck, partial, idle, owed] = [(); 4].map(|()| peers.add(address(), start));
        stuck.note_stuck(true);
        partial.note_partial(true);
        owed.note_owed(true);
        let timeout = Duration::from_secs(3600);
        peers.sweep(start + STUCK_AFTER - Duration::from_secs(1), timeout);
        assert!(
            [&stuck, &partial, &idle, &owed]
                .iter()
                .all(|peer| peer.dropped().is_none())
        );
        peers.sweep(start + PARTIAL_AFTER + Duration::from_secs(5), timeout);
        assert_eq!(stuck.dropped(), Some(DropReason::Stuck));
        assert_eq!(partial.dropped(), Some(DropReason::Partial));
        peers.sweep(start + Duration::from_secs(9000), Duration::ZERO);
        assert_eq!(idle.dropped(), None);
        peers.sweep(start + Duration::from_secs(3601), timeout);
        assert_eq!((idle.dropped(), owed.dropped()), (Some(DropReason::Idle), None));
    }

    #[test]
    fn the_barrier_wakes_whom_it_passed() {
        let mut peers = Peers::new(1000);
        let [first, second] = [(); 2].map(|()| peers.add(address(), Instant::now()));
        peers.wait_for_barrier(&first, Lsn::new(10));
        peers.wait_for_barrier(&second, Lsn::new(20));
        peers.wait_for_barrier(&second, Lsn::new(21));
        assert_eq!(peers.waiting_for_barrier(), 2);
        assert!(peers.half_waits_for_barrier(), "nobody was ever let go");
        peers.barrier_moved(Lsn::new(20));
        assert_eq!(peers.waiting_for_barrier(), 1);
        peers.barrier_moved(Lsn::new(21));
        assert_eq!(peers.waiting_for_barrier(), 0);
        // One of two had waited; a listener that does so with it says nothing about the other's next command.
        peers.wait_for_barrier(&first, Lsn::new(30));
        peers.wait_for_barrier(&second, Lsn::new(30));
        peers.barrier_moved(Lsn::new(30));
        let listener = peers.add(address(), Instant::now());
        let mut pubsub = PubSub::default();
        pubsub.subscribe(&mut listener.session.borrow_mut(), Topic::Channel, b"a");
        peers.wait_for_barrier(&listener, Lsn::new(40));
        assert_eq!(peers.waiting_for_barrier(), 1);
        assert!(!peers.half_waits_for_barrier());
        peers.wait_for_barrier(&first, Lsn::new(40));
        assert!(peers.half_waits_for_barrier());
        peers.remove(&listener);
        assert_eq!(peers.waiting_for_barrier(), 1);
    }
}
