//! The layer, from outside: as a tower service, behind axum's routers, over sockets, and on a real server.
//!
//! A test that needs a server starts one of its own. With `IDEM_TEST_ADDR=host:port` the suite in `server.rs` and
//! `payments.rs` runs against that one instead, in a namespace of its own, and removes what it made; tests that kill
//! servers always use their own.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

mod answers;
mod concurrent;
mod observed;
mod outcomes;
mod payments;
mod protocols;
mod readiness;
mod replays;
mod requests;
mod resets;
mod routers;
mod server;
mod shutdown;
mod sockets;
mod support;
