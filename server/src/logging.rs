//! Log lines go to stderr, as text or JSON; stdout belongs to the ready line.
//!
//! ERROR means that a person has to look; WARN that it may come to that; INFO is what an operator wants to see of a
//! healthy server. Keys, values and tokens of clients are never logged.
//!
//! A line that a client can cause goes through [`ClientLog`]: who connects and errs a thousand times a second must not fill
//! the disk on which the log is, nor make the server spend its time on stderr.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use crate::config::{LogFormat, LogLevel};
use crate::peer::{DropReason, Peer};

/// How much the installed logger lets through. The default has no logger to tell: in a program that embeds a shard and has
/// a logger of its own, `log-level` is that program's business.
#[derive(Clone, Debug, Default)]
pub struct Levels(Option<reload::Handle<LevelFilter, Registry>>);

impl Levels {
    /// Lets through so much from now on.
    pub fn set(&self, level: LogLevel) {
        if let Some(handle) = &self.0 {
            // The one error is a logger that is gone, and then nobody logs.
            let _ = handle.reload(filter(level));
        }
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Installs the process's logger. The library never calls this: a program that embeds a shard has its own.
pub fn install(level: LogLevel, format: LogFormat) -> Levels {
    let (filter, handle) = reload::Layer::new(filter(level));
    let registry = tracing_subscriber::registry().with(filter);
    // A closed or full stderr must not end the server: the writer drops what it cannot write.
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Text => registry.with(lines).init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).init(),
    }
    Levels(Some(handle))
}

/// Length of the windows in which lines are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Lets so many lines through in a second, and counts the others. Time comes from the caller.
#[derive(Debug)]
pub struct Throttle {
    lines_max: u32,
    /// When the current window began; the first line after its end begins the next.
    began: Option<Instant>,
    lines: u32,
    held_back: u64,
}

impl Throttle {
    /// `lines_max` lines a second, 1 or more.
    pub const fn new(lines_max: u32) -> Throttle {
        Throttle {
            lines_max,
            began: None,
            lines: 0,
            held_back: 0,
        }
    }

    /// Whether a line may be written now; when not, it is counted for [`Throttle::take_held_back`].
    pub fn admits(&mut self, now: Instant) -> bool {
        if self.is_over(now) {
            self.began = Some(now);
            self.lines = 0;
        }
        let admitted = self.lines < self.lines_max;
        if admitted {
            self.lines += 1;
        } else {
            self.held_back = self.held_back.saturating_add(1);
        }
        admitted
    }

    /// How many lines were held back and not told of yet, once the window in which that happened is over; none is `None`.
    pub fn take_held_back(&mut self, now: Instant) -> Option<u64> {
        if self.is_over(now) { self.take_all() } else { None }
    }

    /// The same, without waiting for the window's end.
    pub fn take_all(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.held_back)).filter(|held_back| *held_back > 0)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.began
            .is_none_or(|began| now.saturating_duration_since(began) >= WINDOW)
    }
}

/// What a client can make the server log. Each kind has a throttle of its own, so that a flood of one does not hide the
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientLine {
    /// There are `maxclients` already.
    Refused,
    /// Closed for bytes that are no protocol, or for a command over the limit.
    Mistake,
    /// Dropped for a limit or a time.
    Dropped,
    /// Dropped for an HTTP request.
    Http,
    /// A snapshot begins or is there; `SAVE` can be sent in a loop.
    Snapshot,
    /// A snapshot failed, or what it made unneeded could not be removed.
    SnapshotFailed,
    /// An option was changed.
    Configured,
}

impl ClientLine {
    const ALL: [ClientLine; 7] = [
        ClientLine::Refused,
        ClientLine::Mistake,
        ClientLine::Dropped,
        ClientLine::Http,
        ClientLine::Snapshot,
        ClientLine::SnapshotFailed,
        ClientLine::Configured,
    ];

    const fn lines_max(self) -> u32 {
        match self {
            // One address is enough to look for where they come from.
            ClientLine::Http => 1,
            _ => 10,
        }
    }

    /// The line in place of those that were held back, at their level.
    fn write_more(self, count: u64) {
        match self {
            ClientLine::Refused => tracing::info!("client refused: … {count} more"),
            ClientLine::Mistake => tracing::info!("closing client: … {count} more"),
            ClientLine::Dropped => tracing::info!("client dropped: … {count} more"),
            ClientLine::Http => tracing::warn!("client dropped for an HTTP request: … {count} more"),
            ClientLine::Snapshot => tracing::info!("snapshots: … {count} more lines"),
            ClientLine::SnapshotFailed => tracing::error!("snapshot failed: … {count} more lines"),
            ClientLine::Configured => tracing::info!("CONFIG SET: … {count} more lines"),
        }
    }
}

/// The log lines of a shard that clients cause: about ten a second of each kind, then one that says how many more.
#[derive(Debug)]
pub struct ClientLog([Throttle; ClientLine::ALL.len()]);

impl Default for ClientLog {
    fn default() -> ClientLog {
        ClientLog(ClientLine::ALL.map(|kind| Throttle::new(kind.lines_max())))
    }
}

impl ClientLog {
    /// Calls `line`, which logs one line, unless there were too many of its kind within the last second.
    pub fn write(&mut self, kind: ClientLine, now: Instant, line: impl FnOnce()) {
        let throttle = &mut self.0[kind as usize];
        // First what was held back before: lines stay in the order of what happened.
        if let Some(count) = throttle.take_held_back(now) {
            kind.write_more(count);
        }
        if throttle.admits(now) {
            line();
        }
    }

    /// A connection finds `maxclients` there already.
    pub fn refused(&mut self, address: SocketAddr, maxclients: usize) {
        self.write(ClientLine::Refused, Instant::now(), || {
            tracing::info!(%address, "client refused: maxclients ({maxclients}) are connected");
        });
    }

    /// A client is closed for what it sent.
    pub fn mistake(&mut self, peer: &Peer, text: &str) {
        self.write(ClientLine::Mistake, Instant::now(), || {
            tracing::info!(id = peer.id, address = %peer.address, "closing client: {text}");
        });
    }

    /// A client was dropped.
    pub fn dropped(&mut self, peer: &Peer, reason: DropReason) {
        let Peer { id, address, .. } = peer;
        let now = Instant::now();
        if reason == DropReason::Http {
            self.write(
                ClientLine::Http,
                now,
                || tracing::warn!(id, %address, "client dropped: {reason}"),
            );
        } else {
            self.write(
                ClientLine::Dropped,
                now,
                || tracing::info!(id, %address, "client dropped: {reason}"),
            );
        }
    }

    /// Tells of what was held back, when its second is over. To be called about once a second.
    pub fn report(&mut self, now: Instant) {
        for (throttle, kind) in self.0.iter_mut().zip(ClientLine::ALL) {
            if let Some(count) = throttle.take_held_back(now) {
                kind.write_more(count);
            }
        }
    }

    /// Tells of everything that was held back: there will be no more.
    pub fn report_all(&mut self) {
        for (throttle, kind) in self.0.iter_mut().zip(ClientLine::ALL) {
            if let Some(count) = throttle.take_all() {
                kind.write_more(count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientLine, ClientLog, Throttle};
    use std::time::{Duration, Instant};

    #[test]
    fn ten_lines_a_second_and_a_count_of_the_others() {
        let (mut throttle, start) = (Throttle::new(10), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        // A thousand lines a second for three and a half seconds.
        let mut written = Vec::new();
        let mut told = Vec::new();
        for ms in 0..3500 {
            told.extend(throttle.take_held_back(at(ms)).map(|count| (ms, count)));
            if throttle.admits(at(ms)) {
                written.push(ms);
            }
        }
        let expected: Vec<u64> = [0, 1000, 2000, 3000]
            .into_iter()
            .flat_map(|second| second..second + 10)
            .collect();
        assert_eq!(written, expected);
        assert_eq!(told, [(1000, 990), (2000, 990), (3000, 990)]);
        // The last ones are told of without another line, and once.
        assert_eq!(throttle.take_held_back(at(3999)), None);
        assert_eq!(throttle.take_held_back(at(4000)), Some(490));
        assert_eq!(throttle.take_held_back(at(9000)), None);
        assert_eq!(throttle.take_all(), None);
    }

    #[test]
    fn few_lines_are_all_written() {
        let (mut throttle, start) = (Throttle::new(1), Instant::now());
        for second in [0, 1, 2, 60] {
            assert!(throttle.admits(start + Duration::from_secs(second)));
            assert_eq!(throttle.take_held_back(start + Duration::from_secs(second)), None);
        }
        assert!(!throttle.admits(start + Duration::from_secs(60)));
        // A time from before the window is within it.
        assert!(!throttle.admits(start));
        assert_eq!(throttle.take_all(), Some(2));
    }

    #[test]
    fn a_flood_of_one_kind_hides_no_other() {
        let (mut log, now) = (ClientLog::default(), Instant::now());
        let mut written = [0; ClientLine::ALL.len()];
        for kind in ClientLine::ALL {
            for _ in 0..100 {
                log.write(kind, now, || written[kind as usize] += 1);
            }
        }
        assert_eq!(written, [10, 10, 10, 1, 10, 10, 10]);
    }
}
