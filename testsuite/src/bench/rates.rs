//! How fast, how late, for how much CPU and how many bytes: each phase of the job on both servers, in turns.
//!
//! ```text
//!   round ─▶ policy ─▶ fresh pair of servers ─▶ connections × depth ─▶ phase ─▶ one server, then the other
//! ```
//!
//! The speed of a shared machine changes by half within a minute. So the two servers take turns within seconds, who is
//! first changes with each round, and what counts is the median over the rounds of the *ratio within* a round.

use std::time::Duration;

use super::load::{Connections, Measured, Numbers, Plan, Stop};
use super::pin::Cpu;
use super::server::{Server, Site, System, info};
use super::wire::Phase;
use super::{Failure, Options, number, pin, selfcheck};
use crate::process::{Client, Policy};

/// How many clients, and how many requests each has on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Connections.
    pub connections: usize,
    /// Requests in one write.
    pub depth: u64,
}

impl Shape {
    /// Those of the comparison.
    pub const ALL: [Shape; 4] = [
        Shape::new(1, 1),
        Shape::new(1, 16),
        Shape::new(50, 1),
        Shape::new(50, 16),
    ];

    const fn new(connections: usize, depth: u64) -> Shape {
        Shape { connections, depth }
    }
}

/// One phase on one server in one round.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Round, from 0.
    pub round: usize,
    /// `appendfsync`.
    pub policy: Policy,
    /// Clients.
    pub shape: Shape,
    /// What was done.
    pub phase: Phase,
    /// By whom.
    pub system: System,
    /// Operations done.
    pub operations: u64,
    /// Operations a second.
    pub rate: f64,
    /// Latencies in nanoseconds: half, 99 %, 99.9 % of them at most so much, and the longest.
    pub latency_ns: [u64; 4],
    /// CPU time of the server.
    pub cpu: Cpu,
    /// Bytes that the log grew by.
    pub logged_bytes: f64,
    /// CPU time of the generator, as a part of the time that the phase took.
    pub generator_share: f64,
    /// CPU time of everybody else on all cores, as a part of what the cores had.
    pub others_share: f64,
}

/// One round of the chosen phases.
pub fn round(site: &Site, options: &Options, round: usize, runs: &mut Vec<Run>) -> Result<(), Failure> {
    for policy in [Policy::Always, Policy::Everysec] {
        if !options.only.policy(policy) {
            continue;
        }
        let mut pair = Vec::new();
        for system in System::in_turns(round) {
            let dir = site
                .root
                .join(format!("{}-{}-{round}", system.word(), policy.word()));
            pair.push(Keys::of(Server::start(site, system, policy, &dir)?));
        }
        for keys in &mut pair {
            if options.settle {
                keys.server.settle()?;
            }
            selfcheck::check(&keys.server)?;
            keys.warm_up(options)?;
        }
        for shape in Shape::ALL {
            if !options.only.shape(shape) {
                continue;
            }
            for keys in &mut pair {
                keys.renew();
            }
            for phase in Phase::JOB {
                if !options.only.phase(phase) {
                    continue;
                }
                for keys in &mut pair {
                    let run = keys.run(options, (round, policy), shape, phase)?;
                    options.progress(&format!(
                        "round {}: {} {:>2}×{:<2} {:<8} {:<5} {:>9.0}/s, others {:.0} %",
                        round + 1,
                        policy.word(),
                        shape.connections,
                        shape.depth,
                        phase.word(),
                        run.system.word(),
                        run.rate,
                        100.0 * run.others_share
                    ));
                    runs.push(run);
                }
            }
        }
        for keys in pair {
            keys.server.kill_and_remove()?;
        }
    }
    Ok(())
}

/// A server, and which operations it knows.
struct Keys {
    server: Server,
    /// The first of the current shape.
    first: u64,
    /// From there on: begun, and completed.
    begun: u64,
    completed: u64,
}

impl Keys {
    fn of(server: Server) -> Keys {
        Keys {
            server,
            first: 0,
            begun: 0,
            completed: 0,
        }
    }

    /// From now on other operations than those before.
    fn renew(&mut self) {
        self.first += self.begun;
        (self.begun, self.completed) = (0, 0);
    }

    /// Memory is touched for the first time, and tables grow, before the clock runs.
    fn warm_up(&mut self, options: &Options) -> Result<(), Failure> {
        let measured = self.measure(
            Shape::new(50, 4),
            Phase::Begin,
            Stop::After(options.phase_time / 4, options.phase_operations),
        )?;
        self.begun += measured.operations;
        Ok(())
    }

    fn run(
        &mut self,
        options: &Options,
        (round, policy): (usize, Policy),
        shape: Shape,
        phase: Phase,
    ) -> Result<Run, Failure> {
        let most = match phase {
            Phase::Complete => self.begun.min(options.phase_operations),
            Phase::Begin | Phase::Probe | Phase::Replay | Phase::Ping => options.phase_operations,
        };
        let mut client = self.server.client()?;
        let system = self.server.system();
        let logged = logged_bytes(&mut client, system)?;
        let machine = pin::Machine::now()?;
        let cpu = self.server.cpu()?;
        let measured = self.measure(shape, phase, Stop::After(options.phase_time, most))?;
        let cpu = self.server.cpu()?.since(cpu);
        let ours = cpu.user + cpu.system + measured.generator;
        let others_share = pin::Machine::now()?.busy_share_since(machine, ours);
        let logged_bytes = logged_bytes(&mut client, system)? - logged;
        match phase {
            Phase::Begin => self.begun += measured.operations,
            Phase::Complete => self.completed += measured.operations,
            Phase::Probe | Phase::Replay | Phase::Ping => {}
        }
        let seconds = measured.elapsed.max(Duration::from_nanos(1)).as_secs_f64();
        // A quantile is the upper end of its bucket, which can lie a little above the longest of all.
        let max = measured.latency.max();
        let at = |quantile| measured.latency.value_at_quantile(quantile).min(max);
        Ok(Run {
            round,
            policy,
            shape,
            phase,
            system,
            operations: measured.operations,
            rate: number(measured.operations) / seconds,
            latency_ns: [at(0.5), at(0.99), at(0.999), max],
            cpu,
            logged_bytes,
            generator_share: measured.generator.as_secs_f64() / seconds,
            others_share,
        })
    }

    fn measure(&self, shape: Shape, phase: Phase, stop: Stop<'_>) -> Result<Measured, Failure> {
        let around = |count: u64| {
            let first = self.first;
            match count {
                0 => Err(Failure::new(format!(
                    "{} has no operations to work on",
                    phase.word()
                ))),
                count => Ok(Numbers::Around { first, count }),
            }
        };
        let numbers = match phase {
            Phase::Begin => Numbers::From(self.first + self.begun),
            Phase::Probe => around(self.begun)?,
            Phase::Complete => Numbers::From(self.first),
            Phase::Replay => around(self.completed)?,
            Phase::Ping => Numbers::From(0),
        };
        let (address, dialect) = (self.server.address(), self.server.dialect());
        let mut connections = Connections::open(address, dialect, shape.connections)?;
        connections.run(&Plan {
            phase,
            depth: shape.depth,
            numbers,
            stop,
        })
    }
}

/// Bytes that a server has logged since its start.
///
/// idemd writes into files of zeros, so their length says nothing: the log's position counts the records, and each group
/// has a header of 32 bytes and on average 4 of padding. The number of groups comes from INFO's average, good to a few in a
/// thousand; the exact bytes of a whole log are in the part `insert`.
pub fn logged_bytes(client: &mut Client, system: System) -> Result<f64, Failure> {
    if system == System::Redis {
        return info(client, "aof_current_size");
    }
    let records = info(client, "rdb_changes_since_last_save")?;
    let groups = records / info(client, "wal_group_size_avg")?.max(1.0);
    Ok(info(client, "wal_lsn")? + groups * 36.0)
}
