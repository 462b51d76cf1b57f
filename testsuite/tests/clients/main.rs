//! Clients as their users have them, against the real server, both in their default configuration: libraries of Python and
//! Node as scripts (`testsuite/clients`), redis-rs, `redis-cli` and `redis-benchmark`, and what libraries of other
//! platforms send when they connect, byte for byte.
//!
//! Each of them is played against a real `redis-server`, too, with all that is not ours: what fails there is a fault of
//! the script.
//!
//! Deliberately absent: what commands mean. That is in the cases (`protocol/testdata`); here it matters that a client
//! which somebody else wrote comes through with it.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

mod handshakes;
mod libraries;
mod program;
mod redis_benchmark;
mod redis_cli;
mod redis_rs;

use std::net::SocketAddr;

use idem_testsuite::contract::RedisTarget;
use idem_testsuite::process::{Idemd, IdemdOptions};
use idem_testsuite::testdir::TestDir;

/// A server that comes back at the same address when it is killed.
struct Server {
    // Dropped first: nobody may still write into a directory that is being removed.
    running: Option<Idemd>,
    dir: TestDir,
}

impl Server {
    /// The port is below those that the system hands out: while the server is away, no outgoing connection can take it,
    /// and no client that tries again can be connected to itself.
    fn start(name: &str) -> Server {
        let dir = TestDir::new(name, 1);
        let spread = name.bytes().fold(std::process::id(), |spread, byte| {
            spread.wrapping_mul(31).wrapping_add(u32::from(byte))
        });
        for attempt in 0..50 {
            let port = 20_000 + (spread % 12_000 + 257 * attempt) % 12_000;
            let options = IdemdOptions::default().port(u16::try_from(port).expect("it is below 32000"));
            match Idemd::try_start(&dir.data(), &options) {
                Ok(idemd) => {
                    let running = Some(idemd);
                    return Server { running, dir };
                }
                Err(failure) if failure.stderr.contains("in use") => {}
                Err(failure) => panic!("idemd did not start: {failure:?}"),
            }
        }
        panic!("none of fifty ports is free");
    }

    fn idemd(&self) -> &Idemd {
        self.running
            .as_ref()
            .expect("it runs but for the moment of a restart")
    }

    fn address(&self) -> SocketAddr {
        self.idemd().address()
    }

    /// SIGKILL, and a start on the same port.
    fn restart(&mut self) {
        let port = self.address().port();
        self.idemd().sigkill();
        self.running = None;
        self.running = Some(Idemd::start(
            &self.dir.data(),
            &IdemdOptions::default().port(port),
        ));
    }
}

/// The directory of a `redis-server`, and the server, which is dropped first; the error says why there is none.
fn redis(name: &str) -> Result<(TestDir, RedisTarget), String> {
    let dir = TestDir::new(name, 1);
    let redis = RedisTarget::start(&dir.data())?;
    Ok((dir, redis))
}
