//! Through the log, frame by frame: what is read next, and where and why that ends.
//!
//! What is in a frame is apart ([`frames`]); so is waiting where the log ends ([`Follower`]).

mod frames;

use std::io;

use idem_protocol::Lsn;
use idem_wal::reader::{LogReader, LogStep, Past};

use super::Args;
use super::filter::Filter;
use super::follow::{Follower, Idle};
use super::printer::Printer;
use crate::exit::{Exit, Failure};
use crate::log_end::{self, Complaint, LogEnd};
use crate::output::Printed;
use crate::progress::Meter;
use crate::skipped::Skipped;
use crate::view::View;

/// Why walking ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nobody reads any more.
    Closed,
    /// Somebody who followed the log has seen enough.
    Stopped,
    /// Nothing that follows is wanted, or can be read.
    Limit,
    /// A record that has a good checksum and cannot be understood, which is never skipped; or another log.
    Unreadable(Complaint),
    /// There is no frame where the next one would be.
    End(LogEnd),
}

/// Prints what is wanted of a log, in order.
pub(super) struct Walk<'a> {
    pub(super) view: View,
    pub(super) filter: &'a Filter,
    pub(super) printer: &'a mut Printer,
    pub(super) meter: &'a Meter,
    /// What goes on behind damage; without it, damage is an end.
    skipped: Option<Skipped<'a>>,
    /// What waits at the end of the log; without it, that is the end.
    follower: Option<Follower>,
    was_live: bool,
    /// Whether the record before was within the limits of lsn and time; a seal has no time of its own and goes with it.
    in_range: bool,
    /// What begins before this was read already.
    resumed_at: Option<Lsn>,
    /// The first range that went before it could be read.
    removed: Option<String>,
}

/// What became of a place that is no frame.
enum Passed {
    /// Nothing follows, or nobody wants it.
    Not,
    /// Reading goes on behind it.
    On,
    /// Walking ends on the way.
    Ended(Ended),
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        args: &Args,
        view: &View,
        filter: &'a Filter,
        printer: &'a mut Printer,
        meter: &'a Meter,
    ) -> Result<Walk<'a>, Failure> {
        Ok(Walk {
            view: view.clone(),
            filter,
            printer,
            meter,
            skipped: args
                .past_damage
                .then(|| Skipped::new(args.from_lsn, args.to_lsn, meter)),
            follower: args
                .follow
                .then(|| Follower::new(view, args.past_damage))
                .transpose()?,
            was_live: view.is_live()?,
            in_range: filter.starts_in_range(),
            resumed_at: None,
            removed: None,
        })
    }

    /// Whether a server has the directory, or had it when this began.
    pub(super) fn is_live(&self) -> Result<bool, Failure> {
        Ok(self.was_live || self.view.is_live()?)
    }

    /// How to end for what was skipped; nothing when nothing was.
    pub(super) fn skipped(&self) -> Option<Exit> {
        self.skipped.as_ref().and_then(Skipped::exit)
    }

    /// The segment of the first range that was skipped.
    pub(super) fn first_skipped(&self) -> Option<&str> {
        self.skipped.as_ref().and_then(Skipped::first_file)
    }

    /// Counts what nothing follows as skipped, when that is wanted and it is damage.
    pub(super) fn skip_rest(&mut self, end: &LogEnd, complaint: &str) -> bool {
        let is_damage = !end.file.is_empty() && end.stop.is_some();
        match self.skipped.as_mut().filter(|_| is_damage) {
            Some(skipped) => {
                skipped.rest(&end.file, complaint);
                true
            }
            None => false,
        }
    }

    /// What went before it was read.
    pub(super) fn removed(&self) -> Option<&str> {
        self.removed.as_deref()
    }

    /// Reads on until there is nothing more to do.
    pub(super) fn run(&mut self, mut reader: LogReader<View>) -> Result<Ended, Failure> {
        loop {
            if self.follower.as_ref().is_some_and(Follower::is_stopped) {
                return Ok(Ended::Stopped);
            }
            let step = match reader.next_step() {
                Ok(step) => step,
                Err(error) => {
                    let lsn = reader.lsn();
                    match self.unreadable(&mut reader, &error)? {
                        Passed::On => continue,
                        Passed::Ended(ended) => return Ok(ended),
                        Passed::Not => return Ok(Ended::Unreadable(log_end::unreadable(lsn, &error))),
                    }
                }
            };
            let end = match step {
                LogStep::Frame { file, frame } => {
                    if let Some(ended) = self.frame(file, frame)? {
                        return Ok(ended);
                    }
                    continue;
                }
                LogStep::Removed { from, to } => {
                    if self.filter.is_past_lsn(from) {
                        return Ok(Ended::Limit);
                    }
                    self.note_removed(from, to);
                    continue;
                }
                LogStep::End {
                    file,
                    offset,
                    lsn,
                    stop,
                    segments_left,
                } => LogEnd {
                    file,
                    offset,
                    lsn,
                    stop,
                    segments_left,
                },
            };
            if let Some(ended) = self.end(&mut reader, end)? {
                return Ok(ended);
            }
        }
    }

    /// At a place that is no frame. Answers nothing when reading goes on.
    fn end(&mut self, reader: &mut LogReader<View>, end: LogEnd) -> Result<Option<Ended>, Failure> {
        if self.filter.is_past_lsn(end.lsn) && !end.file.is_empty() {
            return Ok(Some(Ended::Limit));
        }
        let Some(follower) = &mut self.follower else {
            let live = self.skipped.is_some() && self.is_live()?;
            return Ok(match self.pass(reader, live)? {
                Passed::Not => Some(Ended::End(end)),
                Passed::On => None,
                Passed::Ended(ended) => Some(ended),
            });
        };
        // A place that stays as it is for a while is not in the middle of being written.
        let is_settled = follower.is_settled(&end);
        if is_settled {
            match self.pass(reader, true)? {
                Passed::Not => {}
                Passed::On => return Ok(None),
                Passed::Ended(ended) => return Ok(Some(ended)),
            }
        }
        let follower = self.follower.as_mut().expect("it was there above");
        if let Some(limit) = self.filter.to_time()
            && follower.is_over(&self.view, &end, limit)?
        {
            return Ok(Some(Ended::End(end)));
        }
        let was_empty = end.file.is_empty() && !follower.has_read();
        if was_empty || is_settled && end.segments_left > 0 {
            return Ok(Some(Ended::End(end)));
        }
        if is_settled && let Some(what) = follower.what_is_wrong(&self.view, &end)? {
            let words = format!("{what}; waiting for the log to go on");
            self.meter.aside(|| eprintln!("walctl: note: {words}"));
        }
        if self.printer.finish()? == Printed::Closed {
            return Ok(Some(Ended::Closed));
        }
        match follower.wait()? {
            Idle::Passed => {}
            Idle::Stopped => return Ok(Some(Ended::Stopped)),
            Idle::Closed => return Ok(Some(Ended::Closed)),
        }
        let found = follower.look_at_path(&mut self.view, reader)?;
        if let Some(words) = found.words {
            self.meter.aside(|| eprintln!("walctl: note: {words}"));
        }
        if found.at.is_some() {
            self.resumed_at = found.at;
        }
        if found.is_elsewhere {
            return Ok(None);
        }
        match follower.look_again(&self.view, reader)? {
            Ok(None) => Ok(None),
            Ok(Some(back)) => {
                if let Some(words) = back.words {
                    self.meter.aside(|| eprintln!("walctl: note: {words}"));
                }
                self.resumed_at = Some(back.at);
                Ok(None)
            }
            Err(words) => Ok(Some(Ended::Unreadable(Complaint { words, file: None }))),
        }
    }

    /// Goes on behind damage, when that is wanted.
    fn pass(&mut self, reader: &mut LogReader<View>, live: bool) -> Result<Passed, Failure> {
        if self.skipped.is_none() {
            return Ok(Passed::Not);
        }
        let error = match reader.pass(live) {
            Ok(Past::Over) => return Ok(Passed::Not),
            Ok(Past::Again) => return Ok(Passed::On),
            Ok(Past::Gap(gap)) => {
                if let Some(skipped) = &mut self.skipped {
                    skipped.gap(&gap);
                }
                return Ok(Passed::On);
            }
            Ok(Past::Broken { file, frame, stop }) => {
                return Ok(match self.broken(file, frame, stop)? {
                    Some(ended) => Passed::Ended(ended),
                    None => Passed::On,
                });
            }
            Err(error) => error,
        };
        match self.unreadable(reader, &error)? {
            Passed::Not => Err(Failure::io("reading the log")(error)),
            passed => Ok(passed),
        }
    }

    /// Goes on behind what the system does not hand over, when damage is passed.
    fn unreadable(&mut self, reader: &mut LogReader<View>, error: &io::Error) -> Result<Passed, Failure> {
        let Some(skipped) = &mut self.skipped else {
            return Ok(Passed::Not);
        };
        let passed = reader.pass_unreadable(error);
        let Some(passed) = passed.map_err(Failure::io("reading the log"))? else {
            return Ok(Passed::Not);
        };
        if self.filter.is_past_lsn(passed.gap.from) {
            return Ok(Passed::Ended(Ended::Limit));
        }
        skipped.gap(&passed.gap);
        Ok(if passed.follows {
            Passed::On
        } else {
            Passed::Ended(Ended::Limit)
        })
    }

    fn note_removed(&mut self, from: Lsn, to: Lsn) {
        let words = format!("lsn {from} to {to}: these segments were removed while the log was read");
        self.meter.aside(|| eprintln!("walctl: note: {words}"));
        self.removed.get_or_insert(words);
    }
}
