//! From options to a shard that is ready, in the one order that changes nothing before it is known to be allowed.
//!
//! ```text
//!   directory there? ─▶ lock it ─▶ take the port ─▶ (create the directory, lock it) ─▶ judge ─▶ open ─▶ threads ─▶ listen
//!        2 a file         4 held      1 in use            1 not possible               3, 2      1
//! ```
//!
//! The numbers are the exit codes of the steps that fail. Judging reads only; opening is the first step that writes.
//! Recovered records go through the same `apply` as those of a running node.

mod directory;
mod recover;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use idem_protocol::Epoch;
use idem_protocol::lsn::Lsn;
use idem_protocol::time::UnixMs;
use idem_wal::housekeeping::{Housekeeping, HousekeepingParams};
use idem_wal::lock::DirLock;
use idem_wal::recovery::{self, OpenParams, Opened, Verdict};
use idem_wal::thread::WalThread;
use tokio::sync::mpsc::unbounded_channel;

use crate::clock::{AHEAD_MS_MAX, Clock, boot_time, wall_time};
use crate::config::{ConfigError, Configuration, Options};
use crate::core::commit::Commit;
use crate::core::events::Event;
use crate::core::{Core, CoreLoop, Parts, Shard, limit_memory};
use crate::descriptors::clients_allowed;
use crate::exit::{Exit, end_at_once};
use crate::facts::{Identity, Process, run_id};
use crate::listener::{self, Bound};
use crate::logging::Levels;
use crate::postman;
use crate::shutdown::Signals;
use crate::snapshotter::Snapshots;

/// Spares get numbers from here on. Recovery may have made one with a lower number for a log whose last segment is full.
const FIRST_SPARE: u32 = 100;

/// How this build is broken on purpose; all `false` is not broken.
#[cfg(feature = "sabotage")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Sabotage {
    /// For the node.
    pub node: idem_engine::Sabotage,
    /// Directory syncs do nothing.
    pub no_directory_sync: bool,
}

/// What a start needs beside the options.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The configuration file, which CONFIG REWRITE writes.
    pub config_file: Option<PathBuf>,
    /// The logger's, for CONFIG SET log-level.
    pub levels: Levels,
    /// DELIBERATELY BROKEN builds only.
    #[cfg(feature = "sabotage")]
    pub sabotage: Sabotage,
}

/// Why the server does not start: what to print, and how to exit.
#[derive(Debug)]
pub struct StartError {
    /// The exit code.
    pub exit: Exit,
    /// One line, or for a refused log several.
    pub message: String,
}

impl StartError {
    fn failure(message: String) -> StartError {
        StartError {
            exit: Exit::Failure,
            message,
        }
    }

    fn usage(message: String) -> StartError {
        StartError {
            exit: Exit::Usage,
            message,
        }
    }
}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> StartError {
        StartError::usage(error.to_string())
    }
}

/// A shard that is ready, before its port listens.
pub struct Started {
    /// The shard's loop.
    pub core_loop: CoreLoop,
    /// Where clients will connect.
    pub bound: Bound,
    /// What the ready line says.
    pub ready: Ready,
    /// Held until the process is gone.
    pub lock: DirLock,
}

/// What the ready line says.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Where clients connect.
    pub address: SocketAddr,
    /// The epoch that this start opened.
    pub epoch: Epoch,
    /// The log's end, behind EpochStart.
    pub lsn: Lsn,
    /// Records recovered.
    pub records: u64,
    /// How long it took.
    pub took: Duration,
    /// The data directory.
    pub dir: String,
}

impl std::fmt::Display for Ready {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ready {
            address,
            epoch,
            lsn,
            records,
            took,
            dir,
        } = self;
        // The directory comes last: it may hold blanks.
        write!(
            out,
            "ready addr={address} role=primary epoch={} lsn={lsn} records={records} seconds={:.2} dir={dir}",
            epoch.number,
            took.as_secs_f64(),
        )
    }
}

/// Does everything up to listening. Needs to run inside the runtime of the shard's thread.
///
/// # Errors
/// The first step that is not possible; nothing has been changed before the log was judged to be startable.
pub fn start(options: &Options, settings: &Settings) -> Result<Started, StartError> {
    let began = Instant::now();
    let options = &Options {
        maxclients: clients_allowed(options.maxclients),
        ..options.clone()
    };
    let address = SocketAddr::new(options.bind, options.port);
    let bind = || {
        listener::bind(address).map_err(|error| {
            let tip = match error.kind() {
                std::io::ErrorKind::AddrInUse => "; --port takes another one, 0 any free one",
                _ => "",
            };
            StartError::failure(format!("cannot listen on {address}: {error}{tip}"))
        })
    };
    let existing = directory::lock_existing(&options.dir)?;
    let existed = existing.is_some();
    let (lock, bound) = match existing {
        Some(lock) => (lock, bind()?),
        None => {
            let bound = bind()?;
            directory::create(&options.dir)?;
            (directory::lock(&options.dir)?, bound)
        }
    };
    let address = bound
        .address()
        .map_err(|error| StartError::failure(format!("the port is not known: {error}")))?;
    #[cfg_attr(not(feature = "sabotage"), allow(unused_mut))]
    let mut storage = lock
        .storage()
        .map_err(|error| directory::cannot("open", &options.dir, &error))?;
    #[cfg(feature = "sabotage")]
    if settings.sabotage.no_directory_sync {
        storage.set_sabotage_no_directory_sync();
    }
    let (mut node, judgement) = recover::recover(&storage, options, settings)?;
    if existed && judgement.verdict == Verdict::New {
        directory::doubt_new(&options.dir);
    }
    let records = judgement.records;
    let newest_snapshot = judgement.snapshot.as_ref().map(|snapshot| snapshot.start);
    let clock = start_clock(judgement.log_time);
    let Opened {
        writer,
        mut batch,
        control,
        epoch,
        end_lsn,
        log_time,
        notes,
    } = recovery::open(&storage, judgement, open_params(clock.now(), options)).map_err(|error| {
        StartError::failure(format!(
            "cannot open the log in {}: {error}",
            options.dir.display()
        ))
    })?;
    for note in notes {
        tracing::info!("{note}");
    }
    batch.set_segment_bytes(options.wal_segment_bytes);
    node.open(end_lsn, log_time, epoch);
    limit_memory(&mut node, options);
    node.limit_transactions(options.client_query_buffer_limit);
    node.monitor(options.thresholds());

    let (sender, receiver) = unbounded_channel();
    let events = sender.clone();
    // Without a receiver the shard is gone, and with it everybody who could want to know.
    let wal_event = move |event| drop(events.send(Event::Wal(event)));
    let wal = WalThread::spawn(writer, options.appendfsync.into(), wal_event, |reason| {
        end_at_once(&reason)
    })
    .map_err(|error| StartError::failure(format!("no thread for the log: {error}")))?;
    let events = sender.clone();
    let params = HousekeepingParams {
        keep_bytes: options.wal_keep_bytes,
        first_spare: FIRST_SPARE,
    };
    let chore_event = move |event| drop(events.send(Event::Chore(event)));
    let housekeeping = Housekeeping::spawn(storage.clone(), control.clone(), params, chore_event, |reason| {
        end_at_once(&reason)
    })
    .map_err(|error| StartError::failure(format!("no thread for housekeeping: {error}")))?;
    let mut random = [0; 20];
    fill_random(&mut random)?;
    let process = Process::new(Identity {
        run_id: run_id(&random),
        tcp_port: address.port(),
        cluster: control.read().cluster,
        epoch,
    });
    let core = Core::new(Parts {
        node,
        batch,
        clock,
        commit: Commit::new(wal, options.appendfsync),
        housekeeping,
        control,
        storage,
        process,
        snapshots: Snapshots::new(options.snapshot_wal_bytes, newest_snapshot),
        events: sender,
        config: Configuration::new(options.clone(), settings.config_file.clone()),
        levels: settings.levels.clone(),
    });
    let signals = Signals::register()
        .map_err(|error| StartError::failure(format!("cannot take over signals: {error}")))?;
    let ready = Ready {
        address,
        epoch,
        lsn: end_lsn,
        records,
        took: began.elapsed(),
        dir: options.dir.display().to_string(),
    };
    let shard = Shard::new(core);
    Ok(Started {
        core_loop: CoreLoop::new(shard, receiver, signals),
        bound,
        ready,
        lock,
    })
}

/// Serves until a signal, then stops. `on_ready` is called once clients can connect.
pub async fn serve(started: Started, on_ready: impl FnOnce(&Ready)) -> Exit {
    let Started {
        mut core_loop,
        bound,
        ready,
        lock,
    } = started;
    let listener = match bound.listen() {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!("cannot listen on {}: {error}", ready.address);
            return Exit::Failure;
        }
    };
    tokio::task::spawn_local(postman::run(Rc::clone(&core_loop.shard)));
    tokio::task::spawn_local(listener::accept(Rc::clone(&core_loop.shard), listener));
    on_ready(&ready);
    while !core_loop.turn().await {}
    let exit = crate::shutdown::stop(&mut core_loop).await;
    // Other threads may still be at work in the directory: it is free when the process is gone, and not before. And that
    // is soon: giving back millions of entries one by one would only keep the next server waiting.
    std::mem::forget((lock, core_loop));
    exit
}

fn start_clock(log_time: UnixMs) -> Clock {
    let (wall, boot) = (wall_time(), boot_time());
    let clock = Clock::start(wall, log_time, boot);
    if log_time.get() > wall.get().saturating_add(AHEAD_MS_MAX) {
        tracing::error!(
            "the log's time ({log_time}) is {} ms ahead of the wall clock ({wall}): one of the two was wrong; the server \
             goes on at the log's time, and deadlines count from there",
            clock.ahead_ms()
        );
    }
    clock
}

fn open_params(now: UnixMs, options: &Options) -> OpenParams {
    let entropy = || {
        let mut bytes = [0; 16];
        match getrandom::fill(&mut bytes) {
            Ok(()) => bytes,
            // Ids and salts that repeat would let an old file pass for a new one; random numbers were there at the start.
            Err(error) => end_at_once(&format!("no random numbers: {error}")),
        }
    };
    OpenParams {
        now,
        segment_bytes: options.wal_segment_bytes,
        entropy: Box::new(entropy),
    }
}

fn fill_random(bytes: &mut [u8]) -> Result<(), StartError> {
    getrandom::fill(bytes).map_err(|error| StartError::failure(format!("no random numbers: {error}")))
}
