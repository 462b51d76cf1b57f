//! Every open socket of a client has a place, and there are only so many places.
//!
//! A socket is a file descriptor, and descriptors are what the log needs too: for its next segment, a snapshot, the control
//! file, directory syncs. Clients that could use them all up would stop the log, and with it the server. So each socket is
//! counted in one of three uses, each with a bound, from the moment it is accepted until it is closed:
//!
//! ```text
//!   accepted ─▶ served ──(closed for what it sent)──▶ lingering ─▶ closed
//!         └──▶ refused ─▶ closed
//! ```
//!
//! Invariants
//! * served + lingering + refused stays within [`Bounds`] (once those who were there when they became less have gone), and those leave [`RESERVED`] descriptors to everything else.
//! * A socket without a place is closed at once. It is the listener's between two statements, and nobody's after that.
//! * A [`Socket`] closes before its place is free again.

use std::cell::Cell;
use std::rc::Rc;

use rustix::process::{Resource, getrlimit};
use tokio::net::TcpStream;

/// Descriptors that are not clients': standard streams, the listener, the runtime's own, and above all the log's
/// (segment, spare, control file, snapshot, directories). About twenty are in use at the same time; the rest is for what
/// the process was started with.
pub const RESERVED: usize = 64;

/// Sockets that linger, and sockets that are refused, at one time: each lasts half a second at most, and a courtesy to
/// clients that made a mistake is not worth more.
const CLOSING_MAX: usize = 32;

/// How many sockets may be open at the same time, by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Clients; at least 1.
    pub served: usize,
    /// Connections that were closed for what they sent and are given time to read why.
    pub lingering: usize,
    /// Connections that are being told that there are too many.
    pub refused: usize,
}

impl Bounds {
    /// The bounds for `maxclients`, or for as many clients as fit when the process may open only `descriptors` files.
    pub fn within(descriptors: usize, maxclients: usize) -> Bounds {
        let room = descriptors.saturating_sub(RESERVED);
        // Where there is little room, most of it is for those who are served.
        let closing = (room / 4).min(CLOSING_MAX);
        Bounds {
            served: maxclients.min(room - 2 * closing).max(1),
            lingering: closing,
            refused: closing,
        }
    }

    /// Descriptors that `maxclients` clients need in all.
    pub fn descriptors_for(maxclients: usize) -> usize {
        maxclients.saturating_add(2 * CLOSING_MAX + RESERVED)
    }
}

/// How many files this process may open now; `usize::MAX` when there is no limit.
pub fn descriptors_allowed() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// One use: how many sockets have it, how many may.
struct Use {
    taken: Rc<Cell<usize>>,
    bound: Cell<usize>,
}

impl Use {
    fn new(bound: usize) -> Use {
        Use {
            taken: Rc::default(),
            bound: Cell::new(bound),
        }
    }

    fn take(&self) -> Option<Place> {
        let taken = self.taken.get();
        (taken < self.bound.get()).then(|| {
            self.taken.set(taken + 1);
            Place(Rc::clone(&self.taken))
        })
    }
}

/// One socket's part of the count, until it is dropped.
struct Place(Rc<Cell<usize>>);

impl Drop for Place {
    fn drop(&mut self) {
        let taken = self.0.get();
        assert!(taken > 0, "a place that was never taken is given back");
        self.0.set(taken - 1);
    }
}

/// An open socket with its place.
pub struct Socket {
    /// Declared first and so closed first: its place must not be free while the descriptor is still in use.
    pub stream: TcpStream,
    _place: Place,
}

/// All places of a shard. See the module.
pub struct Places {
    served: Use,
    lingering: Use,
    refused: Use,
}

impl Places {
    /// All free.
    pub fn new(bounds: Bounds) -> Places {
        Places {
            served: Use::new(bounds.served),
            lingering: Use::new(bounds.lingering),
            refused: Use::new(bounds.refused),
        }
    }

    /// Other bounds from now on. Those who have a place keep it, also where it is one too many.
    pub fn set_bounds(&self, bounds: Bounds) {
        self.served.bound.set(bounds.served);
        self.lingering.bound.set(bounds.lingering);
        self.refused.bound.set(bounds.refused);
    }

    /// A place for a client; the socket comes back when all are taken.
    ///
    /// # Errors
    /// `maxclients` are connected.
    pub fn serve(&self, stream: TcpStream) -> Result<Socket, TcpStream> {
        match self.served.take() {
            Some(place) => Ok(Socket {
                stream,
                _place: place,
            }),
            None => Err(stream),
        }
    }

    /// A place for one that is to be told that there are too many; closed at once when there are too many of these, too.
    pub fn refuse(&self, stream: TcpStream) -> Option<Socket> {
        self.refused.take().map(|place| Socket {
            stream,
            _place: place,
        })
    }

    /// From a client's place, which is free then, to one of those that linger; closed at once when all of them are taken.
    pub fn linger(&self, socket: Socket) -> Option<Socket> {
        self.lingering.take().map(|place| Socket {
            stream: socket.stream,
            _place: place,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, CLOSING_MAX, RESERVED, Use};

    #[test]
    fn sockets_never_reach_into_what_is_reserved() {
        for descriptors in 0..3000 {
            for maxclients in [1, 2, 50, 900, 10_000] {
                let bounds = Bounds::within(descriptors, maxclients);
                let all = bounds.served + bounds.lingering + bounds.refused;
                assert!(bounds.served >= 1 && bounds.served <= maxclients, "{bounds:?}");
                assert!(
                    all <= descriptors.saturating_sub(RESERVED).max(1),
                    "{bounds:?} within {descriptors}"
                );
                // What was lowered once stays as it is: it is computed at the start and again when serving begins.
                assert_eq!(Bounds::within(descriptors, bounds.served), bounds);
            }
        }
    }

    #[test]
    fn what_is_asked_for_is_what_is_needed() {
        for maxclients in [1, 100, 10_000] {
            let enough = Bounds::descriptors_for(maxclients);
            let bounds = Bounds::within(enough, maxclients);
            assert_eq!(
                (bounds.served, bounds.lingering, bounds.refused),
                (
                    maxclients,
                    CLOSING_MAX.min((maxclients + 2 * CLOSING_MAX) / 4),
                    bounds.lingering
                )
            );
            assert_eq!(Bounds::within(usize::MAX, maxclients).served, maxclients);
        }
        assert_eq!(Bounds::within(1024, 10_000).served, 896);
    }

    #[test]
    fn a_place_is_free_again_when_it_is_dropped() {
        let uses = Use::new(2);
        let first = uses.take().unwrap();
        let second = uses.take().unwrap();
        assert!(uses.take().is_none());
        drop(first);
        let third = uses.take().unwrap();
        assert!(uses.take().is_none());
        drop((second, third));
        assert_eq!(uses.taken.get(), 0);
        assert!(Use::new(0).take().is_none());
        // With a lower bound those who are there stay, and nobody comes until enough have gone.
        let [first, second] = [(); 2].map(|()| uses.take().unwrap());
        uses.bound.set(1);
        assert!(uses.take().is_none());
        drop(first);
        assert!(uses.take().is_none());
        drop(second);
        assert!(uses.take().is_some());
    }
}
