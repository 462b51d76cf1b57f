//! Everything that can wake the core, and what it does then.
//!
//! Connections change the node themselves (they borrow the core between two awaits); all else comes through here, one
//! event at a time: [`Core::handle`] never waits, so waiting and changing never mix.

use std::time::Instant;

use idem_protocol::lsn::Lsn;
use idem_wal::housekeeping::{Chore, ChoreEvent};
use idem_wal::storage::Storage;
use idem_wal::thread::WalEvent;

use super::{Core, SWEEP_EVERY, TICK_EVERY, TICK_SOON};
use crate::clock::{boot_time, wall_time};
use crate::logging::ClientLine;

/// What can wake the core. A new source of work is a new line here.
#[derive(Debug)]
pub enum Event {
    /// The wal thread wrote, synced, sealed, stalled, resumed or closed.
    Wal(WalEvent),
    /// The housekeeping thread made a spare, published a snapshot, or failed to.
    Chore(ChoreEvent),
    /// What the log's directory holds, counted by a thread that may wait for the disk.
    LogSize {
        /// Segment files.
        segments: u64,
        /// Their lengths together.
        bytes: u64,
    },
    /// A session has opened a group, asked for a snapshot, or waits for the log.
    Work,
    /// The time that [`Core::next_deadline`] named has come.
    Timer,
    /// SIGTERM or SIGINT.
    Signal,
}

impl Core {
    /// Takes one event. [`Core::wants_hand_over`] and [`Snapshots::take_request`](crate::snapshotter::Snapshots::take_request) say what
    /// is to be done afterwards.
    pub fn handle(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Wal(event) => self.wal_event(event),
            Event::Chore(event) => self.chore_event(event, now),
            Event::LogSize { segments, bytes } => self.process.set_log_size(segments, bytes),
            // The loop looks after each event at what is to be done; the signal is its own business.
            Event::Work | Event::Signal => {}
            Event::Timer => self.timer(now),
        }
        self.after(now);
    }

    fn wal_event(&mut self, event: WalEvent) {
        match event {
            WalEvent::Progress {
                written,
                synced,
                buffer,
                sync_usec,
                records,
            } => {
                if let Some(usec) = sync_usec {
                    self.process.count_sync(usec);
                    self.node.note_sync(usec, self.clock.now());
                }
                if let Some(buffer) = buffer {
                    self.process.count_group(u64::from(records));
                    self.commit.returned(Some(buffer), Instant::now());
                }
                self.progress(written, synced);
            }
            WalEvent::Sealed { synced } => {
                self.commit.returned(None, Instant::now());
                let written = self.node.written();
                self.progress(written, synced.max(self.node.synced()));
            }
            WalEvent::Stalled { reason } => {
                tracing::error!(
                    "the log cannot be written: {reason}; writes are refused (MISCONF) and it is tried again"
                );
                self.log.space.set_stalled(true);
                self.peers.log_moved();
            }
            WalEvent::Resumed => {
                tracing::info!("the log can be written again");
                self.log.space.set_stalled(false);
                self.peers.log_moved();
            }
            WalEvent::Closed(result) => self.commit.closed(result),
        }
    }

    fn progress(&mut self, written: Lsn, synced: Lsn) {
        let now = self.clock.now();
        self.node.progress(written, synced, now);
        self.peers.barrier_moved(self.node.barrier(now));
        self.snapshots.progress.notify_waiters();
    }

    fn chore_event(&mut self, event: ChoreEvent, now: Instant) {
        match event {
            ChoreEvent::SpareReady(spare) => {
                let had_failed = self.log.space.has_failed();
                self.log.space.ready(spare.bytes);
                // A small spare says nothing about the large one that could not be made.
                if had_failed && !self.log.space.has_failed() {
                    tracing::info!(
                        "log space is there again: a spare of {} bytes is ready",
                        spare.bytes
                    );
                }
                self.log.batch.spare_ready(spare);
                self.log_size_wanted = true;
                self.peers.log_moved();
            }
            ChoreEvent::SpareFailed { bytes, reason } => {
                if self.log.space.failed(bytes, now) {
                    tracing::error!(
                        "no log space of {bytes} bytes could be made: {reason}; writes that need it are refused (MISCONF) \
                         until it can"
                    );
                }
                self.peers.log_moved();
            }
            ChoreEvent::SnapshotPublished {
                start,
                removed_segments,
            } => {
                self.client_log.write(ClientLine::Snapshot, now, || {
                    tracing::info!(start = start.get(), removed_segments, "snapshot published");
                });
                self.snapshots.published(start, Ok(()));
                self.log_size_wanted = true;
            }
            ChoreEvent::SnapshotFailed { start, reason } => self.snapshots.published(start, Err(reason)),
            ChoreEvent::Failed { what } => {
                self.client_log
                    .write(ClientLine::SnapshotFailed, now, || tracing::error!("{what}"));
            }
        }
    }

    fn timer(&mut self, now: Instant) {
        if now >= self.tick_at && !self.stopping {
            let server_now = self.clock.now();
            let tick = self.node.tick(server_now, &mut self.log);
            self.tick_at = now + if tick.more { TICK_SOON } else { TICK_EVERY };
            self.process.sample(now, self.node.counters().commands);
        }
        let is_over = |until| self.clock.now() >= until;
        if self.node.paused_until().is_some_and(is_over) {
            self.resume();
        }
        // Under everysec the barrier also moves with time alone.
        self.peers.barrier_moved(self.node.barrier(self.clock.now()));
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP_EVERY;
            self.peers.sweep(now, self.config.options().timeout);
            self.client_log.report(now);
            if let Some(step_ms) = self.clock.observe_wall(wall_time(), boot_time()) {
                tracing::warn!(
                    "the wall clock was stepped by {step_ms} ms; deadlines follow the server's own clock, which does not \
                     step ({} ms ahead now)",
                    self.clock.ahead_ms()
                );
            }
        }
    }

    /// What every event may have made necessary.
    fn after(&mut self, now: Instant) {
        if let Some(bytes) = self.log.space.next_chore(self.log.batch.wants_spare(), now) {
            // A disk that was full is asked first: each vain try would write zeros until it is full again.
            let full =
                self.log.space.has_failed() && self.storage.available_bytes().is_ok_and(|left| left < bytes);
            if full {
                self.log.space.failed(bytes, now);
                self.peers.log_moved();
            } else {
                self.housekeeping.send(Chore::MakeSpare { bytes });
            }
        }
        self.housekeeping
            .hurry(self.log.space.is_waited_for() || self.log.batch.lacks_spare());
        self.process.log_stalled = self.log.space.is_stalled() || self.log.space.has_failed();
        self.commit.seal_if_due(&mut self.log, self.node.synced(), now);
        if !self.stopping {
            self.snapshots.start_if_due(self.node.appended(), now);
        }
    }
}
