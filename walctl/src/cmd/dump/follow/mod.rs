//! `--follow`: waiting at the end of a log, and noticing when it is no longer the log that was printed.
//!
//! The end is looked at ten times a second; nothing tells of a log on another machine's file system, and a watch would have
//! to be set anew at each rotation. What was printed may be taken back: a start of the server cuts what a loss of power
//! left half done, going back to another history or a repair writes segments anew. So the newest records are remembered by
//! position and checksum, and compared with what the log holds when its end is not the one that was seen.
//!
//! A limit of time ends it also where nothing is written: a record is given its time before it is written, so one of an
//! earlier time can still come when that time has passed, but not for long. A log that is *covered* (everything in it but
//! records of nothing but the time stands before a seal or the begin of an epoch) owes nothing; one that is not may be waiting for a slow disk.

mod trail;

use std::io;
use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use idem_protocol::wal::{Opcode, RawRecord, parse_segment_name};
use idem_protocol::{Lsn, UnixMs};
use idem_wal::reader::{Again, Frame, LogReader, Stop as NoFrame, frame_records};
use idem_wal::storage::{Dir, Storage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::trail::Trail;
use super::stop::Stop;
use crate::exit::Failure;
use crate::log_end::{self, LogEnd};
use crate::view::View;

/// How long to wait before the log is looked at again.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// After so many looks (a second) a place that did not change is not in the middle of being written.
const SETTLED: u32 = 10;

/// How long after a time a record of that time may still come, at most, to a log that is covered or that no server has; and
/// to any other one, when nothing was written in the meantime.
const LATE_MS: u64 = 1_000;
const LATE_UNCOVERED_MS: u64 = 10_000;

/// So many looks take as long as that.
const LOOKS_UNCOVERED: u32 = 100;

/// What waiting came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// Time passed.
    Passed,
    /// A signal came.
    Stopped,
    /// Nobody reads any more.
    Closed,
}

/// The log goes on elsewhere than it was read to.
#[derive(Debug)]
pub(super) struct Back {
    /// From here on it is another one.
    pub(super) at: Lsn,
    /// What to say about it; nothing when what was read still stands.
    pub(super) words: Option<String>,
}

/// Waits for more.
pub(super) struct Follower {
    stop: Stop,
    past_damage: bool,
    trail: Trail,
    /// Where the log ends.
    place: Place,
    /// Whether the log is covered, as far as it was read.
    is_covered: bool,
    /// Whether the limit of time had passed at the last look.
    was_over: bool,
    /// Which directory is read.
    identity: Identity,
    /// Whether it was said that nothing is at the path.
    is_gone: bool,
}

/// Device and inode of the directory and of the log in it.
type Identity = Option<[(u64, u64); 2]>;

/// What is at the path that was given.
#[derive(Debug, Default)]
pub(super) struct AtPath {
    /// What to say about it.
    pub(super) words: Option<String>,
    /// Where the log of another directory is read on.
    pub(super) at: Option<Lsn>,
    /// Whether it is not the directory that was read up to now.
    pub(super) is_elsewhere: bool,
}

/// The place where the log ends, and how long it has.
#[derive(Debug, Default)]
struct Place {
    file: String,
    offset: u64,
    /// How often it was seen in a row before.
    seen: u32,
    /// Whether it was said that this is no plain end.
    is_told: bool,
}

impl Follower {
    /// Waits; `past_damage` says whether damage is passed.
    pub(super) fn new(view: &View, past_damage: bool) -> Result<Follower, Failure> {
        Ok(Follower {
            stop: Stop::on_signals()?,
            past_damage,
            trail: Trail::default(),
            place: Place::default(),
            is_covered: false,
            was_over: false,
            identity: view.identity(),
            is_gone: false,
        })
    }

    /// Whether a signal came.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_requested()
    }

    /// Remembers a record that was read.
    pub(super) fn push(&mut self, raw: &RawRecord<'_>) {
        self.trail.push(raw);
    }

    /// Looks at a frame that was read, whether it is printed or not.
    pub(super) fn pass(&mut self, frame: &Frame<'_>) {
        let header = &frame.header;
        if header.seal {
            self.is_covered = header.synced >= header.lsn;
        }
        for record in frame_records("", *frame) {
            match Opcode::from_byte(record.raw.opcode) {
                // Behind a group of nothing else no seal is written.
                Some(Opcode::Clock) => {}
                // Everything before it is on the disk, and no client is served before it is.
                Some(Opcode::EpochStart) => self.is_covered = true,
                _ => self.is_covered = false,
            }
        }
    }

    /// Whether no record of time `limit` or earlier will come to a log that ends at `end`. To be asked after
    /// [`Follower::is_settled`]; the answer is never yes at the first look.
    pub(super) fn is_over(&mut self, view: &View, end: &LogEnd, limit: UnixMs) -> Result<bool, Failure> {
        let late_ms = now_ms().saturating_sub(limit.get());
        if late_ms <= LATE_MS {
            return Ok(false);
        }
        // What was written until the time had passed is seen at the next look.
        let was_over = std::mem::replace(&mut self.was_over, true);
        let looks = if self.past_damage { SETTLED } else { 1 };
        if !was_over || self.place.seen < looks {
            return Ok(false);
        }
        if !view.is_live()? {
            return Ok(true);
        }
        let is_plain = matches!(end.stop, Some(NoFrame::EndOfFile | NoFrame::NoHeader));
        let is_quiet = self.is_covered || (late_ms > LATE_UNCOVERED_MS && self.place.seen >= LOOKS_UNCOVERED);
        Ok(is_plain && is_quiet)
    }

    /// Whether anything was read.
    pub(super) fn has_read(&self) -> bool {
        self.trail.end.is_some()
    }

    /// Counts an end. Says whether to look into it: it has been the same for a while, and is not in the middle of being
    /// written. A plain end is looked into ever more rarely, since all that is behind it has to be read for that.
    pub(super) fn is_settled(&mut self, end: &LogEnd) -> bool {
        let place = &mut self.place;
        if place.file != end.file || place.offset != end.offset {
            *place = Place {
                file: end.file.clone(),
                offset: end.offset,
                seen: 0,
                is_told: false,
            };
            return false;
        }
        place.seen = place.seen.saturating_add(1);
        let times = place.seen / SETTLED;
        place.seen.is_multiple_of(SETTLED) && (place.is_told || times.is_power_of_two())
    }

    /// What is in that place, when it is no plain end and nobody was told.
    pub(super) fn what_is_wrong(&mut self, view: &View, end: &LogEnd) -> Result<Option<String>, Failure> {
        if self.place.is_told {
            return Ok(None);
        }
        let what = match log_end::what_is_wrong(view, end, &|| Ok(false)) {
            // The next look will say what became of it.
            Err(Failure::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            other => other?,
        };
        self.place.is_told = what.is_some();
        Ok(what)
    }

    /// Waits a moment; less when a signal comes or the reader of stdout goes.
    pub(super) fn wait(&self) -> Result<Idle, Failure> {
        if self.is_stopped() {
            return Ok(Idle::Stopped);
        }
        let stdout = io::stdout();
        // Nothing is asked for but what is always told: that the other end has gone.
        let mut fds = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty())];
        match poll(&mut fds, Some(&WAIT)) {
            Ok(0) => {}
            Ok(_) if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => return Ok(Idle::Closed),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::io("waiting for the log")(error.into())),
        }
        Ok(if self.is_stopped() {
            Idle::Stopped
        } else {
            Idle::Passed
        })
    }

    /// Looks whether the path still leads to the directory that is read. One that took its place is read from where the two
    /// logs part, or from its beginning when it has nothing to do with the other one; `view` and `reader` become its own.
    /// Where nothing is, it is waited for.
    pub(super) fn look_at_path(
        &mut self,
        view: &mut View,
        reader: &mut LogReader<View>,
    ) -> Result<AtPath, Failure> {
        let now = view.identity();
        if now.is_some() && now == self.identity {
            self.is_gone = false;
            return Ok(AtPath::default());
        }
        let waiting = |is_gone: &mut bool| {
            let is_told = std::mem::replace(is_gone, true);
            AtPath {
                words: (!is_told).then(|| "there is no log at the path any more; waiting for one".to_owned()),
                at: None,
                is_elsewhere: true,
            }
        };
        if now.is_none() {
            return Ok(waiting(&mut self.is_gone));
        }
        // It may be in the middle of being put there.
        let Ok(fresh) = view.open_again() else {
            return Ok(waiting(&mut self.is_gone));
        };
        let names = fresh.list(Dir::Wal).unwrap_or_default();
        let Some(first) = names.iter().filter_map(|name| parse_segment_name(name)).min() else {
            return Ok(waiting(&mut self.is_gone));
        };
        let failed = || Failure::io("reading the log");
        let was = reader.header().map(|header| (header.cluster, header.node));
        let mut other = LogReader::open(&fresh, self.trail.begin()).map_err(failed())?;
        let mut at = self.trail.compare(&mut other, self.past_damage)?;
        let is = other.header().map(|header| (header.cluster, header.node));
        let mut words = "another directory is at the path now".to_owned();
        if let Some((cluster, node)) = is
            && is != was
        {
            words += &format!(", with a log of node {node} of cluster {cluster}");
        }
        if was.map(|(cluster, _)| cluster) == is.map(|(cluster, _)| cluster) {
            words += &format!("; its log is read from lsn {at} on");
            if let Some(gone) = self.trail.cut(at) {
                words += &format!("; {gone}");
            }
        } else {
            at = first;
            self.trail = Trail::default();
            words += &format!("; it has nothing to do with what was printed, and is read from lsn {at} on");
        }
        *reader = LogReader::open(&fresh, at).map_err(failed())?;
        *view = fresh;
        self.place = Place::default();
        self.is_covered = false;
        self.is_gone = false;
        self.identity = now;
        Ok(AtPath {
            words: Some(words),
            at: Some(at),
            is_elsewhere: true,
        })
    }

    /// Looks at the end of the log again. When it is another log than the one that was read, `reader` becomes one that
    /// begins where the two part; the inner error is a log that has nothing to do with it.
    pub(super) fn look_again(
        &mut self,
        view: &View,
        reader: &mut LogReader<View>,
    ) -> Result<Result<Option<Back>, String>, Failure> {
        let failed = || Failure::io("reading the log");
        let cluster = reader.header().map(|header| header.cluster);
        if reader.look_again().map_err(failed())? == Again::Same {
            return Ok(Ok(None));
        }
        let begin = self.trail.begin();
        let mut fresh = LogReader::open(view, begin).map_err(failed())?;
        let at = self.trail.compare(&mut fresh, self.past_damage)?;
        let other = fresh.header().map(|header| header.cluster);
        if let (Some(was), Some(is)) = (cluster, other)
            && was != is
        {
            return Ok(Err(format!(
                "the log of cluster {was} was followed, and one of cluster {is} is in its place"
            )));
        }
        let words = self.trail.cut(at);
        *reader = LogReader::open(view, at).map_err(failed())?;
        self.place = Place::default();
        self.is_covered = false;
        Ok(Ok(Some(Back { at, words })))
    }
}

/// The clock of this machine, in Unix milliseconds.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
