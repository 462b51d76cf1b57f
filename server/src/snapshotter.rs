//! Snapshots: when one starts, how it is written beside serving, when it counts.
//!
//! A local task walks the keyspace in small pieces, between which everybody else is served; a thread writes the pieces.
//! The snapshot is *fuzzy*: each partition as of the lsn at which it was visited; replaying the log from the snapshot's
//! start gives the exact state. It is published only when this node's synced lsn has reached its end, because it may
//! contain what the log has not on disk yet.
//!
//! A failed snapshot is logged and reported in INFO, and never hurts serving: the log simply stays longer.

use std::rc::Rc;
use std::time::{Duration, Instant};

use idem_engine::snapshot::SnapshotCursor;
use idem_protocol::control::Control;
use idem_protocol::lsn::Lsn;
use idem_protocol::snapshot::SnapshotTrailer;
use idem_wal::WriteError;
use idem_wal::control::ControlFile;
use idem_wal::housekeeping::Chore;
use idem_wal::snapshot::write::{FinishedSnapshot, SnapshotWriter};
use idem_wal::storage::DiskStorage;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock::wall_time;
use crate::core::Shard;
use crate::exit::end_at_once;
use crate::logging::ClientLine;
use crate::peer::{Peer, SaveResult};

/// Bytes encoded in one step: well below 200 µs.
const PIECE_BYTES: usize = 64 << 10;

/// While clients are served the walk takes at most one part in so many of the core's time. The kernel's timer makes it
/// less: about a piece in a millisecond, 60 MB/s.
const SHARE: u32 = 4;

/// Pieces that may wait for the writing thread.
const PIECES_WAITING: usize = 4;

/// Why a snapshot ends that is not finished when the server stops.
const STOPS: &str = "the server stops";

/// After a failure the next automatic snapshot waits so long; SAVE and BGSAVE do not.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// What is known about snapshots, and who waits for one.
pub struct Snapshots {
    /// A snapshot starts after so much log since the start of the last one.
    every_bytes: u64,
    running_since: Option<Instant>,
    /// A snapshot is to be started by the core loop.
    requested: bool,
    /// Another one is to follow the running one (`BGSAVE SCHEDULE`).
    again: bool,
    /// Clients whose SAVE waits for the running one.
    savers: Vec<Rc<Peer>>,
    /// The same for the one that follows.
    next_savers: Vec<Rc<Peer>>,
    /// The one that is being published, by its start, and where the publication reports.
    publishing: Option<(Lsn, oneshot::Sender<Result<(), String>>)>,
    /// Start lsn of the newest one.
    last_start: Option<Lsn>,
    /// The log up to here was covered by the last try, for the distance to the next.
    tried_at: Lsn,
    not_before: Option<Instant>,
    last_saved_seconds: u64,
    last_failed: bool,
    last_took: Option<Duration>,
    count: u64,
    records_at_start: u64,
    records_at_last: u64,
    /// Notified whenever written or synced moved.
    pub progress: Rc<Notify>,
}

impl Snapshots {
    /// Knows the newest snapshot's start, if there is one; the start of the server counts as the time of saving.
    pub fn new(every_bytes: u64, newest: Option<Lsn>) -> Snapshots {
        Snapshots {
            every_bytes,
            running_since: None,
            requested: false,
            again: false,
            savers: Vec::new(),
            next_savers: Vec::new(),
            publishing: None,
            last_start: newest,
            tried_at: newest.unwrap_or(Lsn::ZERO),
            not_before: None,
            last_saved_seconds: wall_time().get() / 1000,
            last_failed: false,
            last_took: None,
            count: 0,
            records_at_start: 0,
            records_at_last: 0,
            progress: Rc::new(Notify::new()),
        }
    }

    /// From now on one starts after so much log.
    pub fn set_every_bytes(&mut self, every_bytes: u64) {
        self.every_bytes = every_bytes;
    }

    /// Whether one is being written, or is about to be.
    pub fn is_running(&self) -> bool {
        self.running_since.is_some()
    }

    /// For how long the running one has been running.
    pub fn running_for(&self) -> Option<Duration> {
        self.running_since.map(|since| since.elapsed())
    }

    /// Unix seconds of the last success (of the server's start, before the first).
    pub fn last_saved_seconds(&self) -> u64 {
        self.last_saved_seconds
    }

    /// Whether the last one failed.
    pub fn last_failed(&self) -> bool {
        self.last_failed
    }

    /// How long the last one took.
    pub fn last_took(&self) -> Option<Duration> {
        self.last_took
    }

    /// Start lsn of the newest one.
    pub fn last_start(&self) -> Option<Lsn> {
        self.last_start
    }

    /// Records that this process had written when the last successful one began.
    pub fn records_at_last(&self) -> u64 {
        self.records_at_last
    }

    /// Snapshots written by this process.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A client asked for one, with SAVE it also waits for the result. While one is running another will follow it.
    pub fn request(&mut self, saver: Option<Rc<Peer>>) {
        self.again = self.is_running();
        match saver {
            Some(saver) if self.again => self.next_savers.push(saver),
            Some(saver) => self.savers.push(saver),
            None => {}
        }
        self.start();
    }

    /// Starts one when enough log has gathered since the last.
    pub fn start_if_due(&mut self, appended: Lsn, now: Instant) {
        let gathered = appended.get().saturating_sub(self.tried_at.get());
        if gathered >= self.every_bytes && !self.is_running() && self.not_before.is_none_or(|at| now >= at) {
            self.start();
        }
    }

    fn start(&mut self) {
        if !self.is_running() {
            self.running_since = Some(Instant::now());
            self.requested = true;
        }
    }

    /// Whether the core loop has to start the task; true once for each start.
    pub fn take_request(&mut self) -> bool {
        std::mem::take(&mut self.requested)
    }

    /// Housekeeping has published the snapshot of `start`, or could not.
    pub fn published(&mut self, start: Lsn, result: Result<(), String>) {
        // A report about another one says nothing about this one.
        if let Some((_, waiter)) = self.publishing.take_if(|(publishing, _)| *publishing == start) {
            // Nobody listens when the server stops meanwhile; the snapshot is good all the same.
            let _ = waiter.send(result);
        }
    }

    fn ended(&mut self, result: Result<Lsn, String>) {
        self.last_took = self.running_since.take().map(|since| since.elapsed());
        self.last_failed = result.is_err();
        let result: SaveResult = match result {
            Ok(start) => {
                self.count += 1;
                self.last_start = Some(start);
                self.records_at_last = self.records_at_start;
                self.tried_at = start;
                self.not_before = None;
                self.last_saved_seconds = wall_time().get() / 1000;
                Ok(())
            }
            Err(reason) => {
                self.not_before = Some(Instant::now() + RETRY_AFTER);
                Err(reason)
            }
        };
        for peer in self.savers.drain(..) {
            peer.set_saved(result.clone());
        }
        std::mem::swap(&mut self.savers, &mut self.next_savers);
        if std::mem::take(&mut self.again) {
            self.start();
        }
    }
}

/// What the task sends to the writing thread.
enum Piece {
    Items(Vec<u8>),
    End(Box<SnapshotTrailer>),
}

/// Takes one snapshot; [`Snapshots`] has noted that it runs.
pub async fn run(shard: Rc<Shard>) {
    let result = take(&shard).await;
    {
        let mut core = shard.core.borrow_mut();
        if let Err(reason) = &result {
            core.client_log
                .write(ClientLine::SnapshotFailed, Instant::now(), || {
                    tracing::error!("snapshot failed: {reason}; the log is kept instead");
                });
        }
        core.snapshots.ended(result);
    }
    // The loop looks whether another one is to follow.
    shard.commit_wanted.notify_one();
}

async fn take(shard: &Rc<Shard>) -> Result<Lsn, String> {
    let (start, storage, control, cluster) = {
        let mut core = shard.core.borrow_mut();
        core.snapshots.records_at_start = core.process.records();
        let start = core.node.appended();
        core.client_log.write(ClientLine::Snapshot, Instant::now(), || {
            tracing::info!(start = start.get(), "snapshot begins");
        });
        (
            start,
            core.storage.clone(),
            core.control.clone(),
            core.process.identity.cluster,
        )
    };
    let (pieces, received) = mpsc::channel(PIECES_WAITING);
    let (report, finished) = oneshot::channel();
    let body = move || {
        let result = SnapshotWriter::begin(storage, cluster, start).map_err(|error| error.to_string());
        let _ = report.send(result.and_then(|writer| write(writer, received, &control)));
    };
    let spawned = std::thread::Builder::new()
        .name("idem-snapshot".to_owned())
        .spawn(body);
    spawned.map_err(|error| format!("no thread to write it: {error}"))?;

    send_items(shard, pieces).await?;
    let finished = finished
        .await
        .map_err(|_| "the writing thread ended without a result".to_owned())??;
    wait_synced(shard, finished.end).await?;
    let (sender, published) = oneshot::channel();
    {
        let mut core = shard.core.borrow_mut();
        let FinishedSnapshot {
            temporary,
            start,
            end,
        } = finished;
        core.snapshots.publishing = Some((start, sender));
        core.housekeeping.send(Chore::PublishSnapshot {
            temporary,
            start,
            end,
        });
    }
    published.await.map_err(|_| "housekeeping ended".to_owned())??;
    Ok(start)
}

/// Walks the keyspace, a piece between two turns of everybody else. When the thread takes no more, it has failed and will
/// say why: that is no error here.
async fn send_items(shard: &Rc<Shard>, pieces: mpsc::Sender<Piece>) -> Result<(), String> {
    let mut cursor = SnapshotCursor::new();
    loop {
        if shard.is_stopping() {
            return Err(STOPS.to_owned());
        }
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let began = Instant::now();
        let (end, commands) = {
            let core = shard.core.borrow();
            let (at, time) = (core.node.appended(), core.node.log_time());
            let done = cursor.step(core.node.keyspace(), at, time, PIECE_BYTES, &mut piece);
            let trailer = done.then(|| SnapshotTrailer {
                end_lsn: at,
                epoch: core.process.identity.epoch,
                end_crc: core.log.batch.last_record_crc(),
                log_time: time,
                // The control file's part; its lock can be held through a sync, so the writing thread asks for it.
                history: Vec::new(),
                required: 0,
                members: Vec::new(),
                databases: cursor.counts().to_vec(),
            });
            (trailer, core.node.counters().commands)
        };
        let took = began.elapsed();
        if !piece.is_empty() && pieces.send(Piece::Items(piece)).await.is_err() {
            return Ok(());
        }
        if let Some(trailer) = end {
            let _ = pieces.send(Piece::End(Box::new(trailer))).await;
            return Ok(());
        }
        tokio::task::yield_now().await;
        // On an idle server nobody is kept waiting.
        if shard.core.borrow().node.counters().commands != commands {
            tokio::time::sleep(took * (SHARE - 1)).await;
        }
    }
}

/// The body of the writing thread.
fn write(
    mut writer: SnapshotWriter<DiskStorage>,
    mut pieces: mpsc::Receiver<Piece>,
    control: &ControlFile<DiskStorage>,
) -> Result<FinishedSnapshot, String> {
    while let Some(piece) = pieces.blocking_recv() {
        match piece {
            Piece::Items(bytes) => writer.items(&bytes).map_err(given_up)?,
            Piece::End(mut trailer) => {
                let Control {
                    history,
                    required,
                    members,
                    ..
                } = control.read();
                (trailer.history, trailer.required, trailer.members) = (history, required, members);
                return writer.finish(&trailer).map_err(given_up);
            }
        }
    }
    Err(STOPS.to_owned())
}

/// The reason for which a snapshot is given up; a failed sync is the end of the process.
fn given_up(error: WriteError) -> String {
    match error {
        WriteError::Retry(error) => error.to_string(),
        WriteError::Fatal(error) => end_at_once(&error.to_string()),
    }
}

/// Until everything that the snapshot may contain is on disk here.
async fn wait_synced(shard: &Rc<Shard>, end: Lsn) -> Result<(), String> {
    let progress = Rc::clone(&shard.core.borrow().snapshots.progress);
    loop {
        // Registered before looking, so that no progress falls in between.
        let moved = progress.notified();
        {
            let core = shard.core.borrow();
            if core.node.synced() >= end {
                return Ok(());
            }
            // Under `no` nobody else would ever sync it.
            if core.node.written() >= end {
                core.commit.sync();
            }
        }
        if shard.is_stopping() {
            return Err(STOPS.to_owned());
        }
        moved.await;
    }
}

#[cfg(test)]
mod tests {
    use super::Snapshots;
    use idem_protocol::lsn::Lsn;
    use tokio::sync::oneshot;

    #[test]
    fn only_its_own_report_ends_a_publication() {
        for result in [Ok(()), Err("no space".to_owned())] {
            let mut snapshots = Snapshots::new(1000, None);
            let (sender, mut published) = oneshot::channel();
            snapshots.publishing = Some((Lsn::new(70), sender));
            for other in [0, 69, 71] {
                snapshots.published(Lsn::new(other), Err("another".to_owned()));
                snapshots.published(Lsn::new(other), Ok(()));
                assert!(
                    published.try_recv().is_err(),
                    "lsn {other} ended the snapshot of lsn 70"
                );
            }
            snapshots.published(Lsn::new(70), result.clone());
            assert_eq!(published.try_recv(), Ok(result));
            // It ends once: what is reported later meets nobody.
            snapshots.published(Lsn::new(70), Err("late".to_owned()));
        }
    }
}
