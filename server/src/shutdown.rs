//! Stopping as asked: answer what is in flight, then sync, seal, sync, clean mark.
//!
//! Every step has a bound: clients that do not take their last replies are dropped after `GRACE`, at once on a second
//! signal; a disk that does not finish within `CLOSE_WITHIN` is a failure. Only when everything went well is there a
//! clean mark and exit code 0.
//!
//! Before there is anything to stop, while the log is read, a signal ends the process at once: [`ending_on_signal`].

use std::io;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use idem_wal::housekeeping::Chore;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::core::CoreLoop;
use crate::exit::Exit;
use crate::peer::DropReason;

/// For how long clients may take their last replies.
const GRACE: Duration = Duration::from_secs(5);

/// For how long dropped connections may take to be gone.
const DROP_WITHIN: Duration = Duration::from_secs(1);

/// For how long the disk may take. The wal thread itself gives up on a disk that refuses writes after ten seconds.
const CLOSE_WITHIN: Duration = Duration::from_secs(30);

/// SIGTERM and SIGINT.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes both signals over from their default, which would end the process at once.
    ///
    /// # Errors
    /// The system refuses to register them.
    pub fn register() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next of either.
    pub async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Runs `work`, which changes nothing on disk; SIGTERM or SIGINT meanwhile ends the process with [`Exit::Clean`].
///
/// The shard's runtime cannot take signals while its thread works, so another thread waits for them. It has ended when
/// this returns: from then on nothing ends the process, and a signal waits for the next [`Signals::register`].
///
/// # Errors
/// There is no such thread, or the signals cannot be registered; `work` has not run.
pub fn ending_on_signal<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    let (report, registered) = mpsc::channel();
    let (done, is_done) = oneshot::channel::<()>();
    let watch = std::thread::Builder::new()
        .name("idem-signals".to_owned())
        .spawn(move || watch(&report, is_done))?;
    let outcome = match registered.recv() {
        Ok(Ok(())) => Ok(work()),
        Ok(Err(error)) => Err(error),
        Err(mpsc::RecvError) => Err(io::Error::other("the thread that waits for signals is gone")),
    };
    drop(done);
    // A panic of the thread has been printed, and nothing here depends on it.
    let _ = watch.join();
    outcome
}

/// Waits for a signal, or for the other end of `is_done` to be dropped.
fn watch(report: &mpsc::Sender<io::Result<()>>, is_done: oneshot::Receiver<()>) {
    let runtime = match Builder::new_current_thread().enable_io().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(report.send(Err(error))),
    };
    let signalled = runtime.block_on(async {
        let mut signals = match Signals::register() {
            Ok(signals) => signals,
            Err(error) => {
                let _ = report.send(Err(error));
                return false;
            }
        };
        let _ = report.send(Ok(()));
        tokio::select! {
            // A signal that came in time counts, even when the work was done just then.
            biased;
            () = signals.recv() => true,
            _ = is_done => false,
        }
    });
    if signalled {
        tracing::info!("stopped while the log was being read; nothing was changed");
        std::process::exit(i32::from(Exit::Clean.code()));
    }
}

/// Stops the shard whose core loop this is.
pub async fn stop(core_loop: &mut CoreLoop) -> Exit {
    tracing::info!("stopping: answering what is in flight");
    core_loop.shard.begin_stop();
    let mut patience = Instant::now() + GRACE;
    while has_peers(core_loop) && Instant::now() < patience {
        core_loop.shard.core.borrow_mut().set_patience(patience);
        if core_loop.turn().await {
            tracing::warn!("second signal: not waiting for clients any more");
            patience = Instant::now();
        }
    }
    core_loop.shard.core.borrow().peers.drop_all(DropReason::Stopping);
    let patience = Instant::now() + DROP_WITHIN;
    core_loop.shard.core.borrow_mut().set_patience(patience);
    while has_peers(core_loop) && Instant::now() < patience {
        core_loop.turn().await;
    }

    core_loop.shard.core.borrow_mut().client_log.report_all();

    tracing::info!("stopping: syncing and sealing the log");
    let patience = Instant::now() + CLOSE_WITHIN;
    core_loop.shard.core.borrow_mut().set_patience(patience);
    while !is_handed_over(core_loop) {
        if Instant::now() >= patience {
            return gave_up();
        }
        core_loop.turn().await;
    }
    {
        let mut core = core_loop.shard.core.borrow_mut();
        core.housekeeping.send(Chore::Stop);
        core.commit.shut_down();
    }
    loop {
        if let Some(result) = core_loop.shard.core.borrow().commit.outcome() {
            return match result {
                Ok(()) => {
                    tracing::info!("stopped; the log is clean");
                    Exit::Clean
                }
                Err(reason) => {
                    tracing::error!("the log could not be closed: {reason}; there is no clean mark");
                    Exit::Failure
                }
            };
        }
        if Instant::now() >= patience {
            return gave_up();
        }
        core_loop.turn().await;
    }
}

fn gave_up() -> Exit {
    tracing::error!(
        "the disk did not finish within {} s; there is no clean mark",
        CLOSE_WITHIN.as_secs()
    );
    Exit::Failure
}

fn has_peers(core_loop: &CoreLoop) -> bool {
    !core_loop.shard.core.borrow().peers.is_empty()
}

fn is_handed_over(core_loop: &CoreLoop) -> bool {
    let core = core_loop.shard.core.borrow();
    core.commit.is_free() && !core.log.has_group()
}
