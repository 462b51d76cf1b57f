//! How far the log has come: three positions in one order.
//!
//! * `appended` bounds what memory shows. It moves within the command that writes.
//! * `written` bounds what the kernel has. A crash of the process loses nothing below it, a power loss may.
//! * `synced` bounds what the disk has. It says when the *last successful* sync was called, so it lags behind what happens
//!   to be on the disk; and what lies above it may be there in part, in any order.
//!
//! Intuition fails at one place: `appended` moves within a call, the others by events, so an event can report positions
//! that are below what was appended long ago; it can never report more.

use idem_protocol::Lsn;

/// `synced <= written <= appended`. Asserted here, in production too, and nowhere else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    appended: Lsn,
    written: Lsn,
    synced: Lsn,
}

impl Watermarks {
    /// A log of which everything up to `end` is durable.
    pub const fn durable(end: Lsn) -> Self {
        Watermarks {
            appended: end,
            written: end,
            synced: end,
        }
    }

    /// The end of the last record appended.
    pub const fn appended(self) -> Lsn {
        self.appended
    }

    /// Below this the kernel has everything.
    pub const fn written(self) -> Lsn {
        self.written
    }

    /// Below this the disk has everything.
    pub const fn synced(self) -> Lsn {
        self.synced
    }

    /// A record was appended that ends at `end`.
    pub fn append(&mut self, end: Lsn) {
        self.advance(Watermarks {
            appended: end,
            ..*self
        });
    }

    /// The log thread reports how far it has come.
    pub fn progress(&mut self, written: Lsn, synced: Lsn) {
        self.advance(Watermarks {
            written,
            synced,
            ..*self
        });
    }

    /// The one place that checks the chain. A violation means that replies would go out for what is not there: nothing
    /// sensible can be served after it.
    fn advance(&mut self, next: Watermarks) {
        let in_order = next.synced <= next.written && next.written <= next.appended;
        assert!(in_order, "positions of the log out of order: {next:?}");
        let forward =
            self.synced <= next.synced && self.written <= next.written && self.appended <= next.appended;
        assert!(forward, "positions of the log went back: {self:?} to {next:?}");
        *self = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(synced: u64, written: u64, appended: u64) -> Watermarks {
        Watermarks {
            appended: Lsn::new(appended),
            written: Lsn::new(written),
            synced: Lsn::new(synced),
        }
    }

    /// Every step between two states of a small range: allowed exactly when the chain holds and nothing goes back.
    #[test]
    fn the_chain_is_enforced() {
        let range = 0..4_u64;
        for (written, synced, appended) in range
            .clone()
            .flat_map(|w| (0..4).flat_map(move |s| (0..4).map(move |a| (w, s, a))))
        {
            if !(synced <= written && written <= appended) {
                continue;
            }
            for (next_written, next_synced) in range.clone().flat_map(|w| (0..4).map(move |s| (w, s))) {
                let allowed = next_synced <= next_written
                    && next_written <= appended
                    && next_synced >= synced
                    && next_written >= written;
                let step = std::panic::catch_unwind(|| {
                    let mut marks = marks(synced, written, appended);
                    marks.progress(Lsn::new(next_written), Lsn::new(next_synced));
                    marks
                });
                assert_eq!(
                    step.is_ok(),
                    allowed,
                    "{synced} {written} {appended} to {next_synced} {next_written}"
                );
            }
        }
    }
}
