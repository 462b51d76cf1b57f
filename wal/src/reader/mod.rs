//! The one reader of the log: the server's recovery, `walctl` and the tests read through it and through nothing else.
//!
//! * [`segment`] — a segment, frame by frame; a frame is valid only whole.
//! * [`snapshot`] — a snapshot file, item by item, and whether it is a valid one.
//! * [`log`] — the records of a directory in order, for tools that look at a log without judging it; also while a server
//!   writes it, and past damage when that is asked for.
//! * [`salvage`] — the good records of a frame that is not whole.
//!
//! Memory is bounded by the largest *good* frame: one that is larger than groups are is read through before it is read into
//! memory, so that no length is believed which only a header claims. A read that fails, and memory that cannot be had for a
//! good frame, are errors and never an end.

pub mod log;
pub mod salvage;
mod search;
pub mod segment;
pub mod snapshot;
mod window;

pub use log::{Again, Gap, LogReader, LogRecord, LogStep, Past, Unreadable, frame_records};
pub use salvage::{Bad, Piece, salvage};
pub(crate) use search::Search;
pub use segment::{Frame, HeaderPage, SegmentReader, Step, Stop};
pub use snapshot::{Snapshot, SnapshotProblem};
pub(crate) use window::out_of_memory;
