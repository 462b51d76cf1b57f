//! The harness that kills, tears and starves everything to prove the promise.
//!
//! # Vocabulary
//!
//! * **target** — something that answers the contract: a node in this process, the real binary, later a pair that fails
//!   over ([`contract::Target`]).
//! * **case** — a few commands with the replies that the contract demands, as text in `protocol/testdata/contract`.
//! * **oracle** — what clients were told, kept outside of the server. What a crash left unanswered is *unknown*: it may
//!   be there or not, and either is right ([`oracle`]).
//! * **told** — whatever a reply revealed, a read's too. Nothing told may be taken back.
//! * **trace** — the system calls of a run with their files, as strace saw them ([`trace`]).
//! * **client** — a library or program that others use to talk to Redis, as it comes ([`clients`]).
//! * **bench** — the same job beside Redis, in one run ([`bench`]).
//! * **invariant** — a property of traces or logs that an honest build always has, one file each ([`invariants`]).
//!
//! # Invariants of the harness
//!
//! * It can fail: `tests/sabotage.rs` runs deliberately broken builds through the same checks.
//! * Every wait is bounded, and ends at an event where there is one.
//! * Choices come from a seed. A failing test keeps its directory and prints its path, the seed and the command that
//!   repeats it ([`testdir`]).
//! * Nothing is skipped silently: what a machine lacks is one line on stderr, and a failure under `IDEM_REQUIRE_ALL=1`
//!   when installing a tool would help ([`require`]).
//!
//! # Deliberately absent
//!
//! Stand-ins for the product's own code, and knowledge of formats: bytes are read by `idem-protocol` and by `walctl`.
//!
//! The functions here panic when the harness itself cannot go on: a test that cannot start a server has failed. What a
//! test is *about* (a refused start, a lost connection) is a value.

#![forbid(unsafe_code)]

pub mod bench;
pub mod clients;
pub mod contract;
pub mod faults;
pub mod files;
pub mod fuzz;
pub mod hostile;
pub mod invariants;
pub mod kill_loop;
pub mod ledger;
pub mod oracle;
pub mod process;
pub mod require;
pub mod rng;
pub mod testdir;
pub mod trace;
pub mod transactions;
pub mod walctl;
