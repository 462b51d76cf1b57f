//! One phase against a server that runs already, for whoever looks at it with a profiler meanwhile.

use std::net::SocketAddr;
use std::time::Duration;

use super::load::{Connections, Measured, Numbers, Plan, Stop};
use super::scripts::Scripts;
use super::server::info_text;
use super::wire::{Dialect, Phase};
use super::{Failure, number};
use crate::process::Client;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Drive {
    /// Where the server listens.
    pub address: SocketAddr,
    /// The phase that is measured; what it needs is done before.
    pub phase: Phase,
    /// Clients.
    pub connections: usize,
    /// Requests of one write.
    pub depth: u64,
    /// The measured phase ends after so long.
    pub time: Duration,
    /// Keys that are begun (and completed) before; a COMPLETE ends when there are no more.
    pub keys: u64,
    /// The first operation. Another one each time, or the keys of the time before are found.
    pub first: u64,
}

impl Drive {
    /// Prepares and measures.
    pub fn run(&self) -> Result<Measured, Failure> {
        let mut client = Client::connect(self.address).map_err(Failure::io(self.address))?;
        let dialect = match info_text(&mut client, "server_name") {
            Ok(name) if name == "idemd" => Dialect::Idem,
            _ => Dialect::Scripts(Scripts::load(&mut client)?),
        };
        let before: &[Phase] = match self.phase {
            Phase::Begin | Phase::Ping => &[],
            Phase::Probe | Phase::Complete => &[Phase::Begin],
            Phase::Replay => &[Phase::Begin, Phase::Complete],
        };
        for phase in before {
            self.phase(&dialect, *phase, Stop::After(PREPARATION, self.keys), 16)?;
        }
        let most = match self.phase {
            Phase::Complete => self.keys,
            Phase::Begin | Phase::Probe | Phase::Replay | Phase::Ping => u64::MAX,
        };
        self.phase(&dialect, self.phase, Stop::After(self.time, most), self.depth)
    }

    fn phase(
        &self,
        dialect: &Dialect,
        phase: Phase,
        stop: Stop<'_>,
        depth: u64,
    ) -> Result<Measured, Failure> {
        let mut connections = Connections::open(self.address, dialect, self.connections)?;
        let numbers = match phase {
            Phase::Begin | Phase::Complete | Phase::Ping => Numbers::From(self.first),
            Phase::Probe | Phase::Replay => Numbers::Around {
                first: self.first,
                count: self.keys.max(1),
            },
        };
        connections.run(&Plan {
            phase,
            depth,
            numbers,
            stop,
        })
    }
}

/// How long the phases before the measured one may take.
const PREPARATION: Duration = Duration::from_secs(600);

/// One line about what was measured.
pub fn line(measured: &Measured) -> String {
    let seconds = measured.elapsed.as_secs_f64();
    let at = |quantile| number(measured.latency.value_at_quantile(quantile)) / 1e3;
    format!(
        "{} operations in {seconds:.2} s: {:.0}/s; p50 {:.0} µs, p99 {:.0}, p99.9 {:.0}, max {:.0}; generator {:.0} % busy",
        measured.operations,
        number(measured.operations) / seconds,
        at(0.5),
        at(0.99),
        at(0.999),
        number(measured.latency.max()) / 1e3,
        100.0 * measured.generator.as_secs_f64() / seconds
    )
}
