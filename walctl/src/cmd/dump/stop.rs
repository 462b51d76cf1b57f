//! Ctrl-C and a plain `kill` are how following a log ends: with success, and with whole lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Exit, Failure};

/// How long the line that is being written may take; where nobody reads, it would take for ever.
const GRACE: Duration = Duration::from_secs(1);

/// Whether to stop.
#[derive(Clone, Debug)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on SIGINT and SIGTERM are requests.
    pub(super) fn on_signals() -> Result<Stop, Failure> {
        let failed = || Failure::io("listening for signals");
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed())?;
        let (interrupt, terminate) = {
            // The handlers are in place before the first line is printed.
            let _inside = runtime.enter();
            (
                signal(SignalKind::interrupt()).map_err(failed())?,
                signal(SignalKind::terminate()).map_err(failed())?,
            )
        };
        let stop = Stop(Arc::new(AtomicBool::new(false)));
        let requested = Arc::clone(&stop.0);
        let wait = move || {
            runtime.block_on(async move {
                let (mut interrupt, mut terminate) = (interrupt, terminate);
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                requested.store(true, Ordering::Release);
                tokio::time::sleep(GRACE).await;
                std::process::exit(Exit::Clean.code().into());
            });
        };
        let thread = std::thread::Builder::new().name("signals".to_owned());
        thread.spawn(wait).map_err(failed())?;
        Ok(stop)
    }

    /// Whether one came.
    pub(super) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
