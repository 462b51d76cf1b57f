//! The client against a server, and its double beside it.
//!
//! A test that needs a server starts one of its own. With `IDEM_TEST_ADDR=host:port` the suites run against that one
//! instead, with keys of their own, and remove what they made; tests that kill servers always use their own.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

mod commands;
mod contract;
mod cut_connections;
mod examples;
mod executor;
mod executor_faults;
mod failures;
mod observed;
mod recording;
mod support;
