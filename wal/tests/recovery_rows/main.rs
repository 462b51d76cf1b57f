//! Goal: every row of the recovery table is reached by the damage that it names, and a refused directory stays as it is.
//!
//! Method: a small real log (three segments, snapshots where asked for), one damage, one expected letter.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions"
)]

#[path = "../history/mod.rs"]
mod history;

mod beside;
mod logs;
mod refused;
mod started;
mod times;
