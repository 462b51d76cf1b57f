//! The progress bar: on stderr, on a terminal, for what takes more than a second.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What takes less time shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts the bytes that are read of a directory.
#[derive(Debug)]
pub(crate) struct Meter {
    read: AtomicU64,
    bar: Option<Bar>,
}

#[derive(Debug)]
struct Bar {
    bar: ProgressBar,
    started: Instant,
    shown: AtomicBool,
}

impl Meter {
    /// Counts; shows a bar later when `wanted` and stderr is a terminal.
    pub(crate) fn new(wanted: bool) -> Meter {
        let bar = (wanted && std::io::stderr().is_terminal()).then(|| Bar {
            bar: ProgressBar::hidden(),
            started: Instant::now(),
            shown: AtomicBool::new(false),
        });
        Meter {
            read: AtomicU64::new(0),
            bar,
        }
    }

    /// Whether it is worth knowing how much there is to read.
    pub(crate) fn has_bar(&self) -> bool {
        self.bar.is_some()
    }

    /// So many bytes are to be read, beside what was expected before.
    pub(crate) fn expect(&self, bytes: u64) {
        let Some(Bar { bar, .. }) = &self.bar else { return };
        let style =
            ProgressStyle::with_template("{bar:40} {binary_bytes} of {binary_total_bytes}, {eta} left");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        // Several directories may be read, one beside the other.
        bar.set_length(bar.length().unwrap_or(0).saturating_add(bytes));
    }

    /// So many bytes were read.
    pub(crate) fn add(&self, bytes: usize) {
        let before = self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        let Some(bar) = &self.bar else { return };
        if bar.started.elapsed() < PATIENCE {
            return;
        }
        if !bar.shown.swap(true, Ordering::Relaxed) {
            bar.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.bar.set_position(before + bytes as u64);
    }

    /// Does something to the terminal while the bar is off the screen.
    pub(crate) fn aside<R>(&self, action: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) if bar.shown.load(Ordering::Relaxed) => bar.bar.suspend(action),
            _ => action(),
        }
    }

    /// Takes the bar off the screen for good.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.bar.finish_and_clear();
        }
    }
}
