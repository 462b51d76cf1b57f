//! What clients were told, kept outside of the server, and compared with what is there after a crash.
//!
//! # Vocabulary
//!
//! * **writer** — a client with keys of its own. Because nobody else writes them, and one connection's commands are
//!   carried out in order, its keys have exactly one state after each of its operations.
//! * **acknowledged** — an operation whose reply came: its effect is there from now on.
//! * **in flight** — sent, and no reply came before the connection broke: *unknown*, never "absent". After a crash the
//!   state is that after some prefix of the operations in flight, one prefix for all keys of the writer.
//! * **told** — revealed by any reply, to a reader too. It shortens what may be missing: a prefix has to hold whatever
//!   any reader was told, although the writer itself never got an answer.
//!
//! # What is compared
//!
//! Values byte by byte; owners, fingerprints, results; and deadlines exactly: the first reply that tells the deadline of
//! a record fixes it for the rest of the test, over completions, snapshots and crashes.
//!
//! # Deliberately absent
//!
//! Deadlines that come during a run: what is gone because its time came cannot be told from what was lost. They have
//! cases of their own (`protocol/testdata/contract`).

mod deadlines;
mod model;
mod reader;
mod shared;
mod writer;

pub use deadlines::Deadlines;
pub use reader::Reader;
pub use shared::SharedKeys;
pub use writer::Writer;

use std::sync::atomic::{AtomicU64, Ordering};

/// What all clients of one run know together.
#[derive(Debug)]
pub struct Oracle {
    /// Deadlines that were told.
    pub deadlines: Deadlines,
    /// The keys that everybody begins.
    pub shared: SharedKeys,
    /// The disk goes away during the run: `MISCONF` ends a client's work as a broken connection does. Otherwise there is
    /// space, and it is a violation.
    pub disk_goes_away: bool,
    /// For each writer, the newest operation that any reader saw the effect of.
    told: Vec<AtomicU64>,
}

impl Oracle {
    /// For a run with so many writers.
    pub fn new(writers: usize) -> Oracle {
        Oracle {
            deadlines: Deadlines::default(),
            shared: SharedKeys::default(),
            disk_goes_away: false,
            told: (0..writers).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Somebody was told the effect of operation `seq` of a writer.
    pub fn tell(&self, writer: usize, seq: u64) {
        self.told[writer].fetch_max(seq, Ordering::SeqCst);
    }

    /// The newest operation of a writer that anybody was told of; 0 = none.
    pub fn told(&self, writer: usize) -> u64 {
        self.told[writer].load(Ordering::SeqCst)
    }
}
