//! Kill the server at random moments, start it again, and compare with what clients were told.
//!
//! One cycle: writers and a reader work; after a random time the process gets SIGKILL (now and then SIGTERM); `walctl
//! verify` looks at what is left; the server starts again (now and then it is killed once more while it recovers); every
//! writer's keys and the shared keys are compared; the next cycle goes on from there. Small segments and snapshots make
//! kills fall into rotations, publications and retention, too.
//!
//! A SIGKILL loses nothing that the kernel has, so every policy of `appendfsync` has to keep all that was told. On a
//! [`LossyDisk`] the power goes first: then only `always` keeps it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::oracle::{Oracle, Reader, Writer};
use crate::process::loopfs::LossyDisk;
use crate::process::{Client, Idemd, IdemdOptions};
use crate::rng::Rng;
use crate::walctl;

/// Writers of a run; there is one reader more.
pub const WRITERS: usize = 3;
/// Verdicts that a kill may leave: clean, torn, unproven. Anything else would be damage that nobody did.
const VERDICTS: [i32; 3] = [0, 2, 3];

/// What a run did: a run that acknowledged nothing has proved nothing.
#[derive(Debug, Default)]
pub struct Summary {
    /// Cycles.
    pub cycles: u64,
    /// Operations acknowledged.
    pub acknowledged: u64,
    /// Operations that a crash left unknown.
    pub unknown: u64,
    /// Replies to the reader that told something.
    pub told: u64,
    /// Starts that were killed before they were ready, or shortly after.
    pub killed_starts: u64,
}

/// How many cycles: `IDEM_KILL_CYCLES` when it is set, otherwise `default`.
pub fn cycles(default: u64) -> u64 {
    match std::env::var("IDEM_KILL_CYCLES") {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("IDEM_KILL_CYCLES={text} is no number")),
        Err(_) => default,
    }
}

/// Where a loop runs.
#[derive(Debug)]
pub struct Site<'a> {
    /// The data directory, as the server sees it.
    pub dir: PathBuf,
    /// How the server is started.
    pub options: IdemdOptions,
    /// The disk whose power goes at each kill.
    pub power: Option<&'a LossyDisk>,
}

impl Site<'_> {
    /// An ordinary directory.
    pub fn new(dir: &Path, options: IdemdOptions) -> Site<'static> {
        Site {
            dir: dir.to_owned(),
            options,
            power: None,
        }
    }

    /// A data directory on a disk that loses power.
    pub fn lossy(disk: &LossyDisk, options: IdemdOptions) -> Site<'_> {
        Site {
            dir: disk.path().join("data"),
            options: options.through(disk.enter()),
            power: Some(disk),
        }
    }

    /// The data directory, as this process sees it.
    fn seen(&self) -> PathBuf {
        self.power
            .map_or_else(|| self.dir.clone(), |disk| disk.inside().join("data"))
    }

    /// Starts a server on it.
    pub fn start(&self) -> Idemd {
        Idemd::start(&self.dir, &self.options)
    }

    /// Kills it at once; where the disk loses power, that comes first.
    pub fn kill(&self, server: &Idemd) {
        if let Some(disk) = self.power {
            disk.cut();
        }
        server.sigkill();
        if let Some(disk) = self.power {
            disk.restore();
        }
    }

    /// A start that is killed so long after, ready or not.
    fn kill_in_start(&self, after: Duration) {
        let dying = Idemd::start_without_waiting(&self.dir, &self.options);
        dying.wait_exit(after);
        if let Some(disk) = self.power {
            disk.cut();
        }
        drop(dying);
        if let Some(disk) = self.power {
            disk.restore();
        }
    }

    /// What `walctl` says of what is left is something that a kill may leave.
    pub fn verify(&self) -> Result<(), String> {
        // A kill can come before there is anything.
        if !self.seen().exists() {
            return Ok(());
        }
        let verdict = walctl::verify(&self.seen());
        if VERDICTS.contains(&verdict.code) {
            return Ok(());
        }
        Err(format!(
            "walctl verify exits with {}: {:?} {}",
            verdict.code, verdict.lines, verdict.stderr
        ))
    }
}

/// Runs the loop on a new data directory. The error is a violation, with the cycle in which it was found.
pub fn run(site: &Site<'_>, seed: u64, cycles: u64) -> Result<Summary, String> {
    let rng = Rng::new(seed);
    let mut clients = Clients {
        oracle: Oracle::new(WRITERS),
        writers: (0..WRITERS)
            .map(|index| Writer::new(index, rng.part(u64::try_from(index).expect("a few"))))
            .collect(),
        reader: Reader::new(WRITERS, rng.part(100)),
    };
    clients.oracle.disk_goes_away = site.power.is_some();
    let mut plan = rng.part(200);
    let mut summary = Summary::default();
    for cycle in 0..cycles {
        one_cycle(site, &mut plan, &mut clients, &mut summary)
            .map_err(|error| format!("cycle {cycle}: {error}"))?;
        summary.cycles += 1;
    }
    // The last start is stopped in order: what it leaves is a clean log with everything in it.
    let server = site.start();
    clients.resume(&server)?;
    server.stop();
    let verdict = walctl::verify(&site.seen());
    if (verdict.code, verdict.letter()) != (0, "A") {
        return Err(format!("after a clean stop: {}", verdict.last()));
    }
    summary.acknowledged = clients.writers.iter().map(|writer| writer.acknowledged).sum();
    summary.unknown = clients.writers.iter().map(|writer| writer.unknown).sum();
    summary.told = clients.reader.told;
    Ok(summary)
}

struct Clients {
    oracle: Oracle,
    writers: Vec<Writer>,
    reader: Reader,
}

fn one_cycle(
    site: &Site<'_>,
    plan: &mut Rng,
    clients: &mut Clients,
    summary: &mut Summary,
) -> Result<(), String> {
    if plan.below(4) == 0 {
        site.kill_in_start(Duration::from_micros(plan.below(40_000)));
        summary.killed_starts += 1;
        site.verify()?;
    }
    let server = site.start();
    clients.resume(&server)?;
    let work = Duration::from_micros(plan.between(5_000, 250_000));
    let by_order = plan.below(8) == 0;
    clients.work_until_killed(site, &server, work, by_order)?;
    drop(server);
    site.verify()
}

impl Clients {
    fn resume(&mut self, server: &Idemd) -> Result<(), String> {
        let mut client = server.client();
        for writer in &mut self.writers {
            writer.resume(&mut client, &self.oracle)?;
        }
        self.oracle.shared.check(&mut client)
    }

    fn work_until_killed(
        &mut self,
        site: &Site<'_>,
        server: &Idemd,
        work: Duration,
        by_order: bool,
    ) -> Result<(), String> {
        let oracle = &self.oracle;
        let connect = || Client::connect(server.address()).map_err(|error| format!("no connection: {error}"));
        std::thread::scope(|scope| {
            let mut workers = Vec::new();
            for writer in &mut self.writers {
                let mut client = connect()?;
                workers.push(scope.spawn(move || writer.work(&mut client, oracle)));
            }
            let mut client = connect()?;
            let reader = &mut self.reader;
            workers.push(scope.spawn(move || reader.work(&mut client, oracle)));
            let end = Instant::now() + work;
            // A violation ends its worker early: no need to wait for the kill.
            while Instant::now() < end && !workers.iter().any(|worker| worker.is_finished()) {
                std::thread::sleep(Duration::from_micros(200));
            }
            let died = server.has_ended();
            if by_order {
                server.sigterm();
                let status = server.wait_exit(Duration::from_secs(20));
                if status.code() != Some(0) {
                    return Err(format!(
                        "a stop by SIGTERM ended with {status}: {}",
                        server.stderr()
                    ));
                }
            } else {
                site.kill(server);
            }
            for worker in workers {
                worker.join().map_err(|_| "a client panicked".to_owned())??;
            }
            if died {
                Err(format!("the server ended by itself: {}", server.stderr()))
            } else {
                Ok(())
            }
        })
    }
}
