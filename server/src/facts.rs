//! The server's half of INFO: numbers about the process, its clients, its syncs.
//!
//! `used_memory_rss` is what the operating system gave the process: the question behind it is how much of the machine the
//! server takes. It is read when INFO asks, from `/proc`; a number that cannot be read is 0. (`used_memory` is the node's:
//! what counts against `maxmemory`.)
//!
//! Sync times and group sizes are over the life of the process.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use idem_engine::{Changes, ClientFacts, Deed, Facts, ServerFacts};
use idem_protocol::command::errors::Text;
use idem_protocol::lsn::Lsn;
use idem_protocol::{ClusterId, Epoch};
use idem_wal::storage::{Dir, Storage, StorageFile};

use crate::clock::Clock;
use crate::config::Configuration;
use crate::descriptors::clients_possible;
use crate::peer::DropReason;
use crate::peers::Peers;
use crate::procfs::{cpu_seconds, memory, operating_system, total_memory};
use crate::snapshotter::Snapshots;

/// Samples kept for the rates: at one a tick about 1.6 seconds, as in Redis.
const RATE_SAMPLES: usize = 16;

/// Longest sync that is told apart from longer ones, in microseconds: one minute.
const SYNC_USEC_MAX: u64 = 60_000_000;

/// What is known once, at the start.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// 40 hex digits, new for each process.
    pub run_id: String,
    /// Port that clients connect to.
    pub tcp_port: u16,
    /// The cluster that the log belongs to.
    pub cluster: ClusterId,
    /// The epoch that this start opened.
    pub epoch: Epoch,
}

/// Bytes from and to clients; counted where they move.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Received.
    pub input: Cell<u64>,
    /// Sent.
    pub output: Cell<u64>,
}

/// One look at the totals that rates are made of.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    commands: u64,
    input: u64,
    output: u64,
}

/// Facts about this process and its log.
pub struct Process {
    /// Known at the start.
    pub identity: Identity,
    /// Shared with the connections.
    pub traffic: Rc<Traffic>,
    started: Instant,
    accepted: u64,
    rejected: u64,
    query_limit_drops: u64,
    output_limit_drops: u64,
    syncs: u64,
    groups: u64,
    records: u64,
    /// Those of them that `groups` does not count.
    records_before: u64,
    sync_usec: Histogram<u64>,
    samples: VecDeque<Sample>,
    log_segments: u64,
    log_bytes: u64,
    /// Whether the wal thread cannot write, or no space can be made.
    pub log_stalled: bool,
}

impl Process {
    /// A process that has just started.
    pub fn new(identity: Identity) -> Process {
        Process {
            identity,
            traffic: Rc::new(Traffic::default()),
            started: Instant::now(),
            accepted: 0,
            rejected: 0,
            query_limit_drops: 0,
            output_limit_drops: 0,
            syncs: 0,
            groups: 0,
            records: 0,
            records_before: 0,
            sync_usec: Histogram::new_with_bounds(1, SYNC_USEC_MAX, 2)
                .expect("the bounds are in order and 2 is a precision"),
            samples: VecDeque::with_capacity(RATE_SAMPLES),
            log_segments: 0,
            log_bytes: 0,
            log_stalled: false,
        }
    }

    /// A connection was taken up.
    pub fn count_accepted(&mut self) {
        self.accepted += 1;
    }

    /// A connection was refused because of `maxclients`.
    pub fn count_rejected(&mut self) {
        self.rejected += 1;
    }

    /// A connection was closed for a command over its limit.
    pub fn count_query_limit(&mut self) {
        self.query_limit_drops += 1;
    }

    /// A connection was dropped.
    pub fn count_drop(&mut self, reason: DropReason) {
        if reason == DropReason::OutputLimit {
            self.output_limit_drops += 1;
        }
    }

    /// A sync took so long.
    pub fn count_sync(&mut self, usec: u64) {
        self.syncs += 1;
        self.sync_usec.saturating_record(usec.max(1));
    }

    /// A group of so many records was written.
    pub fn count_group(&mut self, records: u64) {
        self.groups += 1;
        self.records += records;
    }

    /// Totals begin again, and with them averages, times and rates (`CONFIG RESETSTAT`). What is no total stays: how long the
    /// server runs, and what was written since the last snapshot.
    pub fn reset_totals(&mut self) {
        (self.accepted, self.rejected) = (0, 0);
        (self.query_limit_drops, self.output_limit_drops) = (0, 0);
        (self.syncs, self.groups) = (0, 0);
        self.records_before = self.records;
        self.sync_usec.reset();
        self.samples.clear();
        self.traffic.input.set(0);
        self.traffic.output.set(0);
    }

    /// Records written by this process.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// What the log's directory holds.
    pub fn set_log_size(&mut self, segments: u64, bytes: u64) {
        (self.log_segments, self.log_bytes) = (segments, bytes);
    }

    /// One look at the totals; called about ten times a second.
    pub fn sample(&mut self, at: Instant, commands: u64) {
        if self.samples.len() == RATE_SAMPLES {
            self.samples.pop_front();
        }
        let (input, output) = (self.traffic.input.get(), self.traffic.output.get());
        self.samples.push_back(Sample {
            at,
            commands,
            input,
            output,
        });
    }

    /// Per second over the samples kept: commands, bytes in, bytes out.
    fn rates(&self) -> (f64, f64, f64) {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return (0.0, 0.0, 0.0);
        };
        let seconds = last.at.saturating_duration_since(first.at).as_secs_f64();
        if seconds <= 0.0 {
            return (0.0, 0.0, 0.0);
        }
        let rate = |now: u64, then: u64| approximate(now.saturating_sub(then)) / seconds;
        (
            rate(last.commands, first.commands),
            rate(last.input, first.input),
            rate(last.output, first.output),
        )
    }
}

/// Everything that INFO looks at, borrowed for one command.
pub struct FactsView<'a> {
    /// The process and its log.
    pub process: &'a Process,
    /// The clients.
    pub peers: &'a Peers,
    /// The snapshots.
    pub snapshots: &'a Snapshots,
    /// The clock.
    pub clock: &'a Clock,
    /// The options.
    pub config: &'a Configuration,
}

impl Facts for FactsView<'_> {
    fn info(&self) -> ServerFacts {
        let FactsView {
            process,
            peers,
            snapshots,
            clock,
            config,
        } = self;
        let memory = memory();
        let (cpu_user, cpu_sys) = cpu_seconds();
        let (commands_rate, input_rate, output_rate) = process.rates();
        let seconds = |duration: Duration| duration.as_secs();
        ServerFacts {
            run_id: process.identity.run_id.clone(),
            process_id: std::process::id(),
            tcp_port: process.identity.tcp_port,
            uptime_in_seconds: process.started.elapsed().as_secs(),
            os: operating_system(),
            executable: std::env::current_exe()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            config_file: config.file_name(),
            connected_clients: count(peers.len()),
            blocked_clients: count(peers.waiting_for_log()),
            maxclients: count(config.options().maxclients),
            client_buffers_bytes: count(peers.buffers_bytes()),
            used_memory_rss: memory.resident,
            used_memory_rss_peak: memory.peak,
            total_system_memory: total_memory(),
            loading: false,
            clock_ahead_ms: clock.ahead_ms(),
            changes_since_last_snapshot: process.records.saturating_sub(snapshots.records_at_last()),
            last_snapshot_failed: snapshots.last_failed(),
            last_snapshot_seconds: snapshots.last_took().map(seconds),
            current_snapshot_seconds: snapshots.running_for().map(seconds),
            snapshots: snapshots.count(),
            log_stalled: process.log_stalled,
            total_connections_received: process.accepted,
            rejected_connections: process.rejected,
            instantaneous_ops_per_sec: whole(commands_rate),
            total_net_input_bytes: process.traffic.input.get(),
            total_net_output_bytes: process.traffic.output.get(),
            instantaneous_input_kbps: input_rate / 1024.0,
            instantaneous_output_kbps: output_rate / 1024.0,
            query_buffer_limit_disconnections: process.query_limit_drops,
            output_buffer_limit_disconnections: process.output_limit_drops,
            cluster: process.identity.cluster,
            used_cpu_sys: cpu_sys,
            used_cpu_user: cpu_user,
            wal_segments: process.log_segments,
            wal_bytes: process.log_bytes,
            wal_syncs: process.syncs,
            wal_group_size_avg: if process.groups == 0 {
                0.0
            } else {
                approximate(process.records - process.records_before) / approximate(process.groups)
            },
            wal_sync_usec_p50: process.sync_usec.value_at_quantile(0.5),
            wal_sync_usec_p99: process.sync_usec.value_at_quantile(0.99),
            wal_sync_usec_max: process.sync_usec.max(),
            wal_last_snapshot_lsn: snapshots.last_start().unwrap_or(Lsn::ZERO),
        }
    }

    fn last_save(&self) -> u64 {
        self.snapshots.last_saved_seconds()
    }

    fn snapshot_running(&self) -> bool {
        self.snapshots.is_running()
    }

    fn settings(&self) -> &[(&'static str, String)] {
        self.config.shown()
    }

    fn clients(&self, only: Option<u64>, visit: &mut dyn FnMut(&ClientFacts<'_>)) {
        self.peers.visit(only, visit);
    }

    fn check_settings(&self, earlier: &[Deed], pairs: &[(&[u8], &[u8])]) -> Result<Changes, Text> {
        self.config.check(earlier, pairs, &|options| {
            let possible = clients_possible(options.maxclients);
            (possible < options.maxclients).then(|| {
                format!("maxclients: this process may open files for {possible} clients at most (ulimit -n)")
            })
        })
    }

    fn rewrite_config(&self, earlier: &[Deed]) -> Result<(), Text> {
        self.config.rewrite(earlier)
    }
}

/// Segments of the log and the length of all its files; waits for the disk.
///
/// # Errors
/// The directory cannot be read. A file that is removed meanwhile counts as gone.
pub fn log_size<S: Storage>(storage: &S) -> io::Result<(u64, u64)> {
    let (mut segments, mut bytes) = (0, 0);
    for name in storage.list(Dir::Wal)? {
        if let Ok(file) = storage.open(Dir::Wal, &name) {
            bytes += file.len()?;
            segments += u64::from(idem_protocol::wal::parse_segment_name(&name).is_some());
        }
    }
    Ok((segments, bytes))
}

/// 40 hex digits from random bytes: Redis's run id.
pub fn run_id(random: &[u8; 20]) -> String {
    use std::fmt::Write;
    random.iter().fold(String::with_capacity(40), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes every write");
        text
    })
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// For averages and rates: exact up to 2^53, close enough beyond.
#[allow(clippy::cast_precision_loss)]
fn approximate(number: u64) -> f64 {
    number as f64
}

/// A rate as a whole number; `as` saturates, and rates are not negative.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}

#[cfg(test)]
mod tests {
    use super::{Identity, Process, approximate, run_id, whole};
    use std::time::{Duration, Instant};

    #[test]
    fn rates_are_over_the_samples_kept() {
        let mut process = Process::new(Identity::default());
        let start = Instant::now();
        for tick in 0..100_u32 {
            process.traffic.input.set(u64::from(tick) * 100);
            process.sample(start + Duration::from_millis(100) * tick, u64::from(tick) * 50);
        }
        let (commands, input, output) = process.rates();
        assert_eq!((whole(commands), whole(input), whole(output)), (500, 1000, 0));
        assert_eq!(approximate(3), 3.0);
    }

    #[test]
    fn what_is_no_total_outlives_a_reset() {
        let mut process = Process::new(Identity::default());
        process.count_accepted();
        process.count_sync(70);
        process.count_group(10);
        process.traffic.input.set(5);
        process.reset_totals();
        assert_eq!(
            (process.accepted, process.syncs, process.traffic.input.get()),
            (0, 0, 0)
        );
        assert_eq!(process.sync_usec.max(), 0);
        assert_eq!(process.records(), 10, "the next snapshot still has them to cover");
        process.count_group(3);
        assert_eq!((process.records - process.records_before, process.groups), (3, 1));
    }

    #[test]
    fn a_run_id_is_forty_hex_digits() {
        assert_eq!(run_id(&[0xab; 20]), "ab".repeat(20));
    }
}
