//! What others have published for one connection, and its own task has not taken up yet.
//!
//! A publisher puts a message here and wakes the task; it never waits and never touches the socket. The task pours the
//! messages behind its own replies, between two commands, so that a connection's bytes have one order: whatever was
//! published before a command was executed leaves before its reply, and is encoded as the connection spoke at that time.
//!
//! Invariants
//! * A message waits for what its publisher had been promised when it was published: it is marked with that position, as
//!   if it were a reply ([`Replies`]).
//! * The bytes of one message are kept once for all who get it, until they take it up. They are counted in full for each
//!   of them all the same: the moment at which all take it up is not the server's to choose.
//!
//! Deliberately absent: limits. Who delivers, and who takes up, compares [`Inbox::bytes`] with them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use idem_protocol::lsn::Lsn;

use crate::replies::Replies;

/// What a message takes beside its bytes: its place in a queue that grows by doubling.
const PLACE_BYTES: usize = 2 * size_of::<Delivery>();

/// Places that an emptied queue keeps.
const PLACES_KEPT: usize = 32;

/// Bytes taken up at a time, give or take one message; then the others have a turn.
const POURED_BYTES_MAX: usize = 256 << 10;

#[derive(Debug)]
struct Delivery {
    /// As the connection reads it.
    frame: Rc<[u8]>,
    /// What it depends on.
    lsn: Lsn,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Inbox {
    waiting: RefCell<VecDeque<Delivery>>,
    bytes: Cell<usize>,
}

/// How far [`Inbox::pour`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poured {
    /// Nothing is left.
    All,
    /// The replies have to be sent first.
    Full,
    /// It was enough for one turn.
    Turn,
}

impl Inbox {
    /// What a message of so many bytes is counted as.
    pub fn cost(frame_bytes: usize) -> usize {
        frame_bytes + PLACE_BYTES
    }

    /// Puts a message behind those that wait.
    pub fn push(&self, frame: &Rc<[u8]>, lsn: Lsn) {
        self.bytes.set(self.bytes.get() + Inbox::cost(frame.len()));
        self.waiting.borrow_mut().push_back(Delivery {
            frame: Rc::clone(frame),
            lsn,
        });
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes.get() == 0
    }

    /// What waits, in bytes; 0 only when nothing does.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Forgets what waits: the connection is on its way out.
    pub fn clear(&self) {
        self.bytes.set(0);
        *self.waiting.borrow_mut() = VecDeque::new();
    }

    /// Moves messages behind the replies, in order, while less than `unsent_bytes_max` of these are unsent.
    pub fn pour(&self, replies: &mut Replies, unsent_bytes_max: usize) -> Poured {
        let mut waiting = self.waiting.borrow_mut();
        let mut poured = 0;
        loop {
            if waiting.is_empty() {
                waiting.shrink_to(PLACES_KEPT);
                return Poured::All;
            }
            if replies.unsent_bytes() > unsent_bytes_max {
                return Poured::Full;
            }
            if poured > POURED_BYTES_MAX {
                return Poured::Turn;
            }
            let Some(Delivery { frame, lsn }) = waiting.pop_front() else {
                return Poured::All;
            };
            replies.buffer().extend_from_slice(&frame);
            replies.mark(lsn);
            poured += frame.len();
            self.bytes.set(self.bytes.get() - Inbox::cost(frame.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Inbox, POURED_BYTES_MAX, Poured};
    use crate::replies::Replies;
    use idem_protocol::lsn::Lsn;
    use std::rc::Rc;

    fn frame(bytes: &[u8]) -> Rc<[u8]> {
        Rc::from(bytes)
    }

    #[test]
    fn a_message_leaves_in_its_place_and_behind_what_it_depends_on() {
        let (inbox, mut replies) = (Inbox::default(), Replies::default());
        inbox.push(&frame(b"first"), Lsn::new(10));
        inbox.push(&frame(b"second"), Lsn::ZERO);
        assert_eq!(inbox.bytes(), Inbox::cost(5) + Inbox::cost(6));
        assert_eq!(inbox.pour(&mut replies, 1000), Poured::All);
        assert!(inbox.is_empty());
        replies.buffer().extend_from_slice(b"reply");
        replies.mark(Lsn::ZERO);
        replies.release(Lsn::new(9));
        assert_eq!(replies.sendable(), b"");
        assert_eq!(replies.waits_for(), Some(Lsn::new(10)));
        replies.release(Lsn::new(10));
        assert_eq!(replies.sendable(), b"firstsecondreply");
    }

    /// A client that reads nothing holds no more than the bound and one message in its replies; the rest waits here.
    #[test]
    fn pouring_stops_when_nothing_is_sent() {
        let (inbox, mut replies) = (Inbox::default(), Replies::default());
        for _ in 0..10 {
            inbox.push(&frame(&[7; 100]), Lsn::ZERO);
        }
        assert_eq!(inbox.pour(&mut replies, 250), Poured::Full);
        assert_eq!(replies.unsent_bytes(), 300);
        assert_eq!(inbox.bytes(), 7 * Inbox::cost(100));
        assert_eq!(inbox.pour(&mut replies, 250), Poured::Full);
        replies.release(Lsn::ZERO);
        replies.sent(300);
        assert_eq!(inbox.pour(&mut replies, 10_000), Poured::All);
        assert_eq!((replies.unsent_bytes(), inbox.bytes()), (700, 0));
    }

    #[test]
    fn pouring_ends_a_turn() {
        let (inbox, mut replies) = (Inbox::default(), Replies::default());
        let large = frame(&vec![0; POURED_BYTES_MAX]);
        for _ in 0..3 {
            inbox.push(&large, Lsn::ZERO);
        }
        assert_eq!(inbox.pour(&mut replies, usize::MAX), Poured::Turn);
        assert_eq!(inbox.bytes(), Inbox::cost(large.len()));
        inbox.clear();
        assert!(inbox.is_empty());
        assert_eq!(inbox.pour(&mut replies, usize::MAX), Poured::All);
        assert_eq!(replies.unsent_bytes(), 2 * large.len());
    }
}
