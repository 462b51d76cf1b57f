//! The meaning of commands: state, decisions, and when a reply may go out.
//!
//! # Vocabulary
//!
//! * **record**: the physical effect of a command, as the log holds it (`idem_protocol::wal`).
//! * **decide**: a read-only look at the state and a command at a given `now`; gives a [`decision::Decision`]: records,
//!   a reply, and the lsn of the newest thing that the reply reveals.
//! * **apply**: the one way in which state changes; the same for the primary, recovery, a replica and a replay.
//! * **lsn**: a position in the stream of record bytes.
//! * **barrier position**: everything below this lsn is as safe as `appendfsync` promises.
//! * **settled**: changed last at or below the barrier position. Reading what is settled waits for nothing.
//! * **log time**: the time of the newest record. `now` is what the server's clock says; it is never below the log time.
//! * **ended**: an entry whose deadline has come. It stays in memory until it is *reclaimed*; nobody sees it.
//! * **live**: there and not ended at the decision's `now`.
//!
//! # Invariants
//!
//! 1. Append order = apply order = lsn order. A record is applied in the same call that appends it.
//! 2. A decision changes nothing. When its bytes cannot be reserved in the log, nothing has happened.
//! 3. Every reply carries the lsn that it depends on: errors, misses and refusals too, because they also say something
//!    about the state that a restart could take back.
//! 4. Nothing is revealed as ended, and nothing is reclaimed, before the log holds a time at or after its deadline; a
//!    restart under an older wall clock can therefore not bring back what a client was told is gone.
//! 5. `synced <= written <= appended`, asserted in [`watermark`].
//! 6. The state is a function of the records. Hash seeds and the order of reclaiming change nothing that a caller sees,
//!    except the order of SCAN and HGETALL.
//! 7. A probe (BEGIN that finds a live record, GET) allocates nothing but what its reply takes in the output buffer.
//!
//! # Deliberately absent
//!
//! Clocks, files, sockets, threads and randomness (a crate-local `clippy.toml` forbids them: each would make the state
//! on two nodes differ); formats (they are `protocol`'s); knowledge of segments, groups and syncs (the [`log::Log`] trait
//! is all that a node needs); locks (one owner per shard); globals (a second shard in one process is another [`Node`]).

pub mod barrier;
pub mod counters;
pub mod decide;
pub mod decision;
pub mod deed;
pub mod digest;
pub mod eviction;
pub mod group;
pub mod info;
pub mod keyspace;
pub mod latency;
pub mod log;
pub mod monitoring;
pub mod node;
mod overlay;
pub mod pause;
pub mod pubsub;
mod random;
pub mod session;
pub mod settings;
pub mod slowlog;
pub mod snapshot;
pub mod transaction;
pub mod watermark;

pub use counters::Counters;
pub use deed::Deed;
pub use eviction::{EvictionPolicy, MemoryLimit};
pub use info::{ClientFacts, Facts, ServerFacts};
pub use keyspace::Keyspace;
pub use log::{Log, Reservation};
pub use monitoring::Thresholds;
#[cfg(feature = "sabotage")]
pub use node::Sabotage;
pub use node::{Durability, Node, NodeConfig, Outcome, Tick};
pub use session::{ReplyMode, Session};
pub use settings::Changes;
