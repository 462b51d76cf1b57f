//! All connections of a shard: how many, how much memory, who waits for what.
//!
//! Times are looked at once a second for all peers together ([`Peers::sweep`]): no timer per connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use idem_protocol::lsn::Lsn;

use crate::peer::{DropReason, Peer};

/// All connections of a shard.
pub struct Peers {
    all: BTreeMap<u64, Rc<Peer>>,
    next_id: u64,
    buffers_total: usize,
    buffers_limit: usize,
    /// Peers whose oldest reply waits for the barrier; each at most once (`Peer::waits_for`).
    barrier_waiters: Vec<Rc<Peer>>,
    /// Peers whose next command waits for the log: for space, or for the open group to leave.
    log_waiters: Vec<Rc<Peer>>,
    /// Places given out among them.
    log_tickets: u64,
}

impl Peers {
    /// No peers; their buffers may take `buffers_limit` bytes together.
    pub fn new(buffers_limit: usize) -> Peers {
        Peers {
            all: BTreeMap::new(),
            next_id: 1,
            buffers_total: 0,
            buffers_limit,
            barrier_waiters: Vec::new(),
            log_waiters: Vec::new(),
            log_tickets: 0,
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

    /// Memory of all buffers, in bytes.
    pub fn buffers_bytes(&self) -> usize {
        self.buffers_total
    }

    /// Number of connections with replies that wait for the barrier.
    pub fn waiting_for_barrier(&self) -> usize {
        self.barrier_waiters.len()
    }

    /// Number of connections whose next command waits for log space (INFO's `blocked_clients`).
    pub fn waiting_for_log(&self) -> usize {
        self.log_waiters.len()
    }

    /// Takes up a connection.
    pub fn add(&mut self, address: SocketAddr, now: Instant) -> Rc<Peer> {
        let peer = Rc::new(Peer::new(self.next_id, address, now));
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
        }
        if peer.waits_for_log.take() {
            self.log_waiters.retain(|waiter| waiter.id != peer.id);
        }
    }

    /// Notes the memory of a peer's buffers. Over the total limit, the peer with the largest is marked to be dropped
    /// (it may be another one).
    pub fn set_buffers(&mut self, peer: &Peer, input_bytes: usize, output_bytes: usize) {
        let before = peer.set_buffers(input_bytes, output_bytes);
        self.buffers_total = self.buffers_total - before + input_bytes + output_bytes;
        if self.buffers_total > self.buffers_limit && input_bytes + output_bytes > before {
            // Those already marked are on their way out and their memory with them.
            let going: usize = self
                .all
                .values()
                .filter(|peer| peer.dropped().is_some())
                .map(|peer| peer.buffers_bytes())
                .sum();
            if self.buffers_total - going > self.buffers_limit
                && let Some(largest) = self
                    .all
                    .values()
                    .filter(|peer| peer.dropped().is_none())
                    .max_by_key(|peer| peer.buffers_bytes())
            {
                largest.drop_for(DropReason::BuffersTotal);
            }
        }
    }

    /// The peer's oldest reply waits until the barrier has passed `lsn`.
    pub fn wait_for_barrier(&mut self, peer: &Rc<Peer>, lsn: Lsn) {
        if peer.waits_for.replace(Some(lsn)).is_none() {
            self.barrier_waiters.push(Rc::clone(peer));
        }
    }

    /// Wakes those whose oldest reply the barrier has passed.
    pub fn barrier_moved(&mut self, barrier: Lsn) {
        self.barrier_waiters.retain(|peer| {
            let waits = peer.waits_for.get().is_some_and(|lsn| lsn > barrier);
            if !waits {
                peer.waits_for.set(None);
                peer.wake();
            }
            waits
        });
    }

    /// The peer's next command waits for the log; `again` when it waited before. A command that was decided in vain keeps
    /// its place, so that a client with many such commands cannot keep another one's only command waiting.
    pub fn wait_for_log(&mut self, peer: &Rc<Peer>, again: bool) {
        if !again {
            self.log_tickets += 1;
            peer.log_ticket.set(self.log_tickets);
        }
        if !peer.waits_for_log.replace(true) {
            self.log_waiters.push(Rc::clone(peer));
        }
    }

    /// The log changed: whoever waits for it decides again, in the order in which they began to wait.
    pub fn log_moved(&mut self) {
        self.log_waiters.sort_by_key(|peer| peer.log_ticket.get());
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
    use super::{DropReason, Peers};
    use crate::peer::{PARTIAL_AFTER, STUCK_AFTER};
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
        // The marked one's memory counts as gone: nobody else has to go for it.
        peers.set_buffers(&small, 160, 0);
        assert_eq!(small.dropped(), None);
        peers.remove(&large);
        assert_eq!(peers.buffers_bytes(), 160);
        peers.remove(&small);
        assert_eq!((peers.buffers_bytes(), peers.len()), (0, 0));
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
        peers.barrier_moved(Lsn::new(20));
        assert_eq!(peers.waiting_for_barrier(), 1);
        peers.barrier_moved(Lsn::new(21));
        assert_eq!(peers.waiting_for_barrier(), 0);
    }
}
