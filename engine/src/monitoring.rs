//! What took too long: the slow log and the latency events, and from when on something counts as slow.
//!
//! The engine has no clock. Whoever calls it measures, and asks [`Node::slow_from_usec`](crate::Node::slow_from_usec)
//! first: with everything switched off nothing has to be measured, and a command below the least of the thresholds has to
//! be told of to nobody.

use idem_protocol::UnixMs;
use idem_protocol::command::{self, Flags};
use idem_protocol::resp::Args;

use crate::latency::{Latency, LatencyEvent};
use crate::node::Node;
use crate::slowlog::SlowLog;

/// From when on something is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// `slowlog-log-slower-than`: a command that took so many microseconds is in the slow log; `None` keeps none, 0 all.
    pub slowlog_usec: Option<u64>,
    /// `slowlog-max-len`: so many commands are kept.
    pub slowlog_entries: usize,
    /// `latency-monitor-threshold`: what took so many milliseconds is a latency event; 0 is never.
    pub latency_ms: u64,
}

impl Default for Thresholds {
    /// Redis's.
    fn default() -> Self {
        Thresholds {
            slowlog_usec: Some(10_000),
            slowlog_entries: 128,
            latency_ms: 0,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Monitoring {
    thresholds: Thresholds,
    /// The least of them that a command can reach, in microseconds.
    slow_from_usec: Option<u64>,
    slowlog: SlowLog,
    latency: Latency,
}

impl Default for Monitoring {
    fn default() -> Self {
        let thresholds = Thresholds::default();
        Monitoring {
            thresholds,
            slow_from_usec: thresholds.least_usec(),
            slowlog: SlowLog::default(),
            latency: Latency::default(),
        }
    }
}

impl Thresholds {
    fn least_usec(&self) -> Option<u64> {
        let latency_usec = Some(self.latency_ms.saturating_mul(1000)).filter(|usec| *usec > 0);
        self.slowlog_usec.into_iter().chain(latency_usec).min()
    }
}

impl Monitoring {
    /// As last set.
    pub fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// The slow commands.
    pub fn slowlog(&self) -> &SlowLog {
        &self.slowlog
    }

    /// The latency events.
    pub fn latency(&self) -> &Latency {
        &self.latency
    }

    fn note_latency(&mut self, event: LatencyEvent, usec: u64, now: UnixMs) {
        let ms = usec / 1000;
        if self.thresholds.latency_ms != 0 && ms >= self.thresholds.latency_ms {
            self.latency.note(event, now.get() / 1000, ms);
        }
    }
}

impl Node {
    /// Sets from when on something is slow. A shorter slow log drops its oldest commands at once.
    pub fn monitor(&mut self, thresholds: Thresholds) {
        self.monitoring.thresholds = thresholds;
        self.monitoring.slow_from_usec = thresholds.least_usec();
        self.monitoring.slowlog.limit(thresholds.slowlog_entries);
    }

    /// A command has to be told of, by [`Node::note_slow_command`], when it took so many microseconds. `None`: never, so
    /// that it need not be measured.
    pub fn slow_from_usec(&self) -> Option<u64> {
        self.monitoring.slow_from_usec
    }

    /// A command of the client at `address`, which calls itself `name`, took `usec` until its reply was made.
    pub fn note_slow_command(
        &mut self,
        args: Args<'_>,
        usec: u64,
        now: UnixMs,
        address: String,
        name: &[u8],
    ) {
        let is_fast = command::lookup(args.name()).is_some_and(|spec| spec.flags.contains(Flags::FAST));
        let event = if is_fast {
            LatencyEvent::FastCommand
        } else {
            LatencyEvent::Command
        };
        let Monitoring {
            thresholds, slowlog, ..
        } = &mut self.monitoring;
        if thresholds.slowlog_usec.is_some_and(|from| usec >= from) {
            let seconds = now.get() / 1000;
            slowlog.push(args, usec, seconds, address, name, thresholds.slowlog_entries);
        }
        self.monitoring.note_latency(event, usec, now);
    }

    /// A sync of the log took `usec`.
    pub fn note_sync(&mut self, usec: u64, now: UnixMs) {
        self.monitoring.note_latency(LatencyEvent::WalSync, usec, now);
    }

    /// `SLOWLOG RESET`.
    pub(crate) fn reset_slowlog(&mut self) {
        self.monitoring.slowlog.clear();
    }

    /// `LATENCY RESET`.
    pub(crate) fn reset_latency(&mut self, events: &[LatencyEvent]) {
        events
            .iter()
            .for_each(|event| self.monitoring.latency.reset(*event));
    }
}
