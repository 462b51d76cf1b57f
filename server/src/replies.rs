//! The replies of one session: encoded, in order, each with the lsn that it reveals.
//!
//! ```text
//!   sent │ released │ waiting for the barrier │ being written by the node
//!        └ front    └ released                └ marked
//! ```
//!
//! A reply leaves only when the barrier has passed its lsn **and** everything before it has left: replies on one
//! connection keep their order. So what counts for a reply is the largest lsn so far on its connection; marks are kept
//! with that maximum and are therefore sorted. Errors, misses and protocol errors are replies like any other and take
//! the same way.

use std::collections::VecDeque;

use idem_protocol::lsn::Lsn;

/// An emptied buffer keeps at most this much memory for the next replies.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Sent bytes stay at the front until they are so many, or everything was sent: moving the rest is not free.
const DEAD_BYTES_MAX: usize = 64 << 10;

/// End of the replies that depend on `lsn` and nothing later.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Index into the buffer.
    end: usize,
    lsn: Lsn,
}

/// See the module. All indices are into `buffer`; `front ≤ released ≤ marked ≤ buffer.len()`.
#[derive(Debug, Default)]
pub struct Replies {
    buffer: Vec<u8>,
    front: usize,
    released: usize,
    marked: usize,
    /// Sorted by `end` and by `lsn`; all ends lie above `released`.
    marks: VecDeque<Mark>,
    /// Largest lsn that any reply so far depends on.
    highest: Lsn,
}

impl Replies {
    /// Where the next reply is to be appended; what is there already must not be touched. [`Replies::mark`] follows.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// What was appended since the last mark depends on `lsn`.
    pub fn mark(&mut self, lsn: Lsn) {
        assert!(
            self.marked <= self.buffer.len(),
            "replies already marked were removed"
        );
        // Also of a reply that is not sent (CLIENT REPLY OFF): what it would have revealed, a later one may.
        self.highest = self.highest.max(lsn);
        if self.marked == self.buffer.len() {
            return;
        }
        self.marked = self.buffer.len();
        match self.marks.back_mut() {
            Some(last) if last.lsn == self.highest => last.end = self.marked,
            _ => self.marks.push_back(Mark {
                end: self.marked,
                lsn: self.highest,
            }),
        }
    }

    /// The largest position that any reply so far depends on: what this client has been promised.
    pub fn highest(&self) -> Lsn {
        self.highest
    }

    /// Releases what the barrier has passed. A barrier that was lower before takes nothing back: what was released may
    /// be under way.
    pub fn release(&mut self, barrier: Lsn) {
        while let Some(first) = self.marks.front()
            && first.lsn <= barrier
        {
            assert!(first.end > self.released, "marks are sorted");
            self.released = first.end;
            self.marks.pop_front();
        }
    }

    /// The bytes that may go to the peer now.
    pub fn sendable(&self) -> &[u8] {
        &self.buffer[self.front..self.released]
    }

    /// The first `bytes` of [`Replies::sendable`] are on their way.
    pub fn sent(&mut self, bytes: usize) {
        self.front += bytes;
        assert!(self.front <= self.released, "only released bytes can be sent");
        if self.front == self.buffer.len() {
            self.buffer.clear();
            self.buffer.shrink_to(KEPT_BYTES_MAX);
            (self.front, self.released, self.marked) = (0, 0, 0);
        } else if self.front >= DEAD_BYTES_MAX && self.front >= self.buffer.len() / 2 {
            let dead = self.front;
            self.buffer.drain(..dead);
            (self.front, self.released, self.marked) = (0, self.released - dead, self.marked - dead);
            for mark in &mut self.marks {
                mark.end -= dead;
            }
        }
    }

    /// The lsn that the first reply waits for, when one waits for the barrier.
    pub fn waits_for(&self) -> Option<Lsn> {
        self.marks.front().map(|mark| mark.lsn)
    }

    /// Bytes not sent yet, released or not.
    pub fn unsent_bytes(&self) -> usize {
        self.buffer.len() - self.front
    }

    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity() + self.marks.capacity() * size_of::<Mark>()
    }

    /// Nothing waits, nothing is to be sent.
    pub fn is_empty(&self) -> bool {
        self.unsent_bytes() == 0
    }
}
