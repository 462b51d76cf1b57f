//! The real binaries, from outside: built, started, traced, killed.

pub mod binaries;
pub mod client;
pub mod kill;
pub mod loopfs;
pub mod namespace;
pub mod ports;
pub mod ready;
pub mod spawn;
pub mod strace;

pub use client::{Client, ClientError};
pub use ready::Ready;
pub use spawn::{Idemd, IdemdOptions, Policy};
pub use strace::Strace;
