//! A million pending records: what they weigh, what their making looks like to a client, how long a start takes that
//! reads them back, and what a snapshot of them costs those who are served meanwhile.
//!
//! ```text
//!   empty server ─▶ a million BEGINs, 50 connections, depth 1 ─▶ SIGKILL ─▶ walctl verify ─▶ start
//!                     memory, longest pause, logged bytes                    read rate        recovery
//!   that server  ─▶ BEGINs undisturbed ─▶ BEGINs while snapshots run back to back
//! ```
//!
//! A round does it with fresh servers, one after the other.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use serde_json::Value as Json;

use super::load::{Connections, Measured, Numbers, Plan, Stop};
use super::server::{Server, Site, System, info, info_text};
use super::wire::Phase;
use super::{Failure, Options, number, pin};
use crate::process::Policy;

const CONNECTIONS: usize = 50;

/// How long snapshots may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long the insertion may take.
const INSERT_PATIENCE: Duration = Duration::from_secs(3600);

/// The insertion of one round, and the start after it.
#[derive(Clone, Copy, Debug)]
pub struct Insert {
    /// Which server.
    pub system: System,
    /// Records inserted.
    pub records: u64,
    /// A second.
    pub rate: f64,
    /// Growth of resident memory for each.
    pub memory_bytes: f64,
    /// The longest that a client waited for a reply.
    pub pause: Duration,
    /// The longest sync of the log; only idemd tells.
    pub slowest_sync: Option<Duration>,
    /// Growth of the log with all that belongs to it: frames, padding and headers of idemd's, RESP of Redis's.
    pub logged_bytes: u64,
    /// From the start of the process to its first answer: it has read all of the log.
    pub recovery: Duration,
    /// `walctl verify` of the same log, which the page cache holds.
    pub verify: Option<Duration>,
}

/// Snapshots of one round.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Which server.
    pub system: System,
    /// BEGINs a second without and with a snapshot running.
    pub rates: [f64; 2],
    /// The longest that a client waited, without and with.
    pub pauses: [Duration; 2],
    /// The longest sync since the start; only idemd tells.
    pub slowest_sync: Option<Duration>,
    /// Snapshots made, and how long they took together.
    pub snapshots: u64,
    /// From the first to the last.
    pub took: Duration,
}

/// One round of one server.
pub fn round(
    site: &Site,
    options: &Options,
    round: usize,
    system: System,
) -> Result<(Option<Insert>, Option<Snapshot>), Failure> {
    let dir = site.root.join(format!("{}-million-{round}", system.word()));
    let server = Server::start(site, system, Policy::Always, &dir)?;
    if options.settle {
        server.settle()?;
    }
    let insert = options.only.part("insert");
    // Only the insertion that is measured has to be slow.
    let depth = if insert { 1 } else { 16 };
    let (empty, log) = (server.resident_bytes()?, log_bytes(site, system, &dir)?);
    let most = Stop::After(INSERT_PATIENCE, options.records);
    let inserted = load(&server, depth, 0, most)?;
    let memory = server.resident_bytes()?.saturating_sub(empty);
    let slowest_sync = slowest_sync(&server)?;
    server.kill();
    let read_again = Instant::now();
    let logged = log_bytes(site, system, &dir)?.saturating_sub(log);
    let verify = (system == System::Idemd).then(|| read_again.elapsed());
    let server = Server::start(site, system, Policy::Always, &dir)?;
    let insert = insert.then(|| Insert {
        system,
        records: inserted.operations,
        rate: rate(&inserted),
        memory_bytes: number(memory) / number(inserted.operations),
        pause: longest(&inserted),
        slowest_sync,
        logged_bytes: logged,
        recovery: server.started_in,
        verify,
    });
    if let Some(insert) = &insert {
        options.progress(&format!(
            "round {}: {} inserted {} records at {:.0}/s, longest pause {:.1?}, read back in {:.2?}",
            round + 1,
            system.word(),
            insert.records,
            insert.rate,
            insert.pause,
            insert.recovery
        ));
    }
    let snapshot = if options.only.part("snapshot") {
        Some(snapshots(&server, options, inserted.operations)?)
    } else {
        None
    };
    if let Some(snapshot) = &snapshot {
        options.progress(&format!(
            "round {}: {} took {} snapshots in {:.2?}; {:.0}/s without, {:.0}/s with",
            round + 1,
            system.word(),
            snapshot.snapshots,
            snapshot.took,
            snapshot.rates[0],
            snapshot.rates[1]
        ));
    }
    server.kill_and_remove()?;
    Ok((insert, snapshot))
}

/// BEGINs of fresh keys from 50 connections.
fn load(server: &Server, depth: u64, first: u64, stop: Stop<'_>) -> Result<Measured, Failure> {
    let mut connections = Connections::open(server.address(), server.dialect(), CONNECTIONS)?;
    connections.run(&Plan {
        phase: Phase::Begin,
        depth,
        numbers: Numbers::From(first),
        stop,
    })
}

/// The same load without and with snapshots. One snapshot follows the other, because a single one can be over before the
/// rate means anything.
fn snapshots(server: &Server, options: &Options, first: u64) -> Result<Snapshot, Failure> {
    if options.settle {
        server.settle()?;
    }
    let without = load(
        server,
        1,
        first,
        Stop::After(options.snapshot_time, options.phase_operations),
    )?;
    let over = AtomicBool::new(false);
    let (with, taken) = std::thread::scope(|scope| {
        let taker = scope.spawn(|| {
            // Whatever happens here, the load has to end.
            let taken = take_snapshots(server, options.snapshot_time);
            over.store(true, Ordering::Relaxed);
            taken
        });
        let with = load(server, 1, first + without.operations, Stop::When(&over));
        (with, taker.join())
    });
    let with = with?;
    let (snapshots, took) =
        taken.map_err(|_| Failure::new("the thread that asks for snapshots panicked"))??;
    Ok(Snapshot {
        system: server.system(),
        rates: [rate(&without), rate(&with)],
        pauses: [longest(&without), longest(&with)],
        slowest_sync: slowest_sync(server)?,
        snapshots,
        took,
    })
}

/// Asks for snapshots, each after the one before it, until `time` is over; for one at least. Returns how many, and how long
/// they took.
fn take_snapshots(server: &Server, time: Duration) -> Result<(u64, Duration), Failure> {
    let mut client = server.client()?;
    let begun = Instant::now();
    let mut taken = 0;
    while taken == 0 || begun.elapsed() < time {
        match client.call(&[b"BGSAVE"]) {
            Ok(Value::Simple(_)) => {}
            other => return Err(Failure::new(format!("BGSAVE was answered with {other:?}"))),
        }
        while info(&mut client, "rdb_bgsave_in_progress")? > 0.0 {
            if begun.elapsed() > PATIENCE {
                return Err(Failure::new("a snapshot does not end"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let status = info_text(&mut client, "rdb_last_bgsave_status")?;
        if status != "ok" {
            return Err(Failure::new(format!("a snapshot ended with `{status}`")));
        }
        taken += 1;
    }
    Ok((taken, begun.elapsed()))
}

fn slowest_sync(server: &Server) -> Result<Option<Duration>, Failure> {
    match server.system() {
        System::Idemd => {
            let usec = info(&mut server.client()?, "wal_sync_usec_max")?;
            Ok(Some(Duration::from_secs_f64(usec / 1e6)))
        }
        System::Redis => Ok(None),
    }
}

/// Bytes that the log holds. idemd writes into files of zeros, so `walctl verify` has to say how much of them is used:
/// records with their frames, padding and segment headers.
fn log_bytes(site: &Site, system: System, dir: &Path) -> Result<u64, Failure> {
    match system {
        System::Idemd => verify(site, dir),
        System::Redis => {
            let log = dir.join("appendonlydir");
            let sizes = std::fs::read_dir(&log).and_then(|files| {
                files
                    .map(|file| Ok(file?.metadata()?.len()))
                    .sum::<io::Result<u64>>()
            });
            sizes.map_err(Failure::io(log.display()))
        }
    }
}

/// Runs `walctl verify` on the server's core. Returns the bytes used in all segments.
fn verify(site: &Site, dir: &Path) -> Result<u64, Failure> {
    let output = pin::as_server(site.cores, || {
        Command::new(&site.walctl)
            .arg("verify")
            .arg(dir)
            .arg("--json")
            .stdin(Stdio::null())
            .output()
            .map_err(Failure::io(format_args!("starting {}", site.walctl.display())))
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let verdict: Option<Json> = text
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok());
    let segments = verdict
        .as_ref()
        .and_then(|verdict| verdict["segments"].as_array());
    let used = segments.and_then(|segments| {
        segments
            .iter()
            .map(|segment| segment["used_bytes"].as_u64())
            .sum::<Option<u64>>()
    });
    used.ok_or_else(|| Failure::new(format!("walctl verify says `{text}`")))
}

fn longest(measured: &Measured) -> Duration {
    Duration::from_nanos(measured.latency.max())
}

fn rate(measured: &Measured) -> f64 {
    number(measured.operations) / measured.elapsed.as_secs_f64()
}
