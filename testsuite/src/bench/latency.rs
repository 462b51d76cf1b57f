//! One client that waits for each reply: how far its BEGIN is from what the disk and the network take in any case.

use std::time::Duration;

use super::disk::{self, Bare};
use super::load::{Connections, Numbers, Plan, Stop};
use super::server::{Server, Site, System};
use super::wire::Phase;
use super::{Failure, Options, pin};
use crate::process::Policy;

/// Medians of one round, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// A write of the size of a group and its sync, before the servers' turn and after it.
    pub bare: [Bare; 2],
    /// A PING of idemd.
    pub ping_ns: u64,
    /// BEGIN of a fresh key under `always`.
    pub idemd_begin_ns: u64,
    /// The same, by the script.
    pub redis_begin_ns: u64,
}

impl Latency {
    /// Median of a bare write and sync into a file of zeros: the mean of before and after.
    pub fn bare_ns(&self) -> u64 {
        self.bare[0].ahead_ns.midpoint(self.bare[1].ahead_ns)
    }
}

/// One round.
pub fn round(site: &Site, options: &Options, round: usize) -> Result<Latency, Failure> {
    let bare = || {
        pin::as_server(site.cores, || {
            disk::measure(&site.root, options.phase_time / 2, options.phase_operations)
        })
    };
    let mut servers = Vec::new();
    for system in System::BOTH {
        let dir = site.root.join(format!("{}-latency-{round}", system.word()));
        let server = Server::start(site, system, Policy::Always, &dir)?;
        if options.settle {
            server.settle()?;
        }
        servers.push(server);
    }
    let before = bare()?;
    let ping_ns = median_ns(&servers[0], Phase::Ping, options.phase_time / 2, options)?;
    let idemd_begin_ns = median_ns(&servers[0], Phase::Begin, options.phase_time, options)?;
    let redis_begin_ns = median_ns(&servers[1], Phase::Begin, options.phase_time, options)?;
    let after = bare()?;
    options.progress(&format!(
        "round {}: one client: BEGIN {} µs, bare write and sync {} µs, PING {} µs",
        round + 1,
        idemd_begin_ns / 1000,
        before.ahead_ns.midpoint(after.ahead_ns) / 1000,
        ping_ns / 1000
    ));
    for server in servers {
        server.kill_and_remove()?;
    }
    Ok(Latency {
        bare: [before, after],
        ping_ns,
        idemd_begin_ns,
        redis_begin_ns,
    })
}

fn median_ns(server: &Server, phase: Phase, time: Duration, options: &Options) -> Result<u64, Failure> {
    let mut one = Connections::open(server.address(), server.dialect(), 1)?;
    let measured = one.run(&Plan {
        phase,
        depth: 1,
        numbers: Numbers::From(0),
        stop: Stop::After(time, options.phase_operations),
    })?;
    Ok(measured.latency.value_at_quantile(0.5))
}
