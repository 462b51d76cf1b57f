//! Tests of the node through its public seam: commands in, replies, records and positions out.
//!
//! `support` is the small vocabulary: a world with one node, a log in memory and a clock that the test moves; scripts of
//! commands with what they answer and write; and restarts from any prefix of the log. One property or table per file.

mod barrier;
mod cases;
mod clients;
mod commands;
mod contract;
mod eviction;
mod group;
mod hashes;
mod limits;
mod memory;
mod model;
mod pubsub;
mod questions;
mod recovery;
mod session;
mod space;
mod strings;
mod support;
mod time;
mod transactions;
mod watching;
