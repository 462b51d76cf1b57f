//! From a directory and a target to a state, or to the reason why there is none.

use std::time::{Duration, Instant, SystemTime};

use idem_protocol::{Lsn, UnixMs};
use idem_wal::recovery::{Ignore, JudgeOptions, Judgement, Until, Verdict, judge, judge_until};

use super::refusal::{self, Refusal};
use super::sound::{first_damage, sound_to};
use super::span::{Salvage, begins_at_zero, salvage, span};
use super::{Feed, Observer, State};
use crate::exit::Failure;
use crate::text::Time;
use crate::view::View;
use crate::vouched;

/// How often a directory is read again because a server changed it meanwhile.
const ATTEMPTS: usize = 5;
/// How often, and after which time, because a server has not synced yet what it has written. A log that rests is sealed
/// within less than a second, unless its server syncs only when it stops, or nothing but a time was written.
const WAITS: usize = 10;
const WAIT: Duration = Duration::from_millis(200);
/// No seal follows a group with nothing but times in it, so nothing says that it is on disk until the next write, which may
/// be a long time. A client may have been shown what it says, that a key has ended. So it counts when it is all that follows
/// the newest mark and the end of the log has not moved for so long; and that, not more, is said of it.
const REST: Duration = Duration::from_secs(1);
/// A live log may still get records of a time that is no longer ago than this.
const SETTLED_MS: u64 = 1000;

/// A state, and what was found on the way to it.
#[derive(Debug)]
pub(crate) struct Rebuilt {
    /// The state at the target.
    pub(crate) state: State,
    /// The verdict on everything that was read, from the snapshot to the end of the log. It may refuse what follows the
    /// target.
    pub(crate) judgement: Judgement,
    /// The time that was asked for, when the log has no record of it or later.
    quiet_since: Option<UnixMs>,
    /// From here on the state has only the log's time from records that nothing says to be on disk ([`REST`]).
    only_times_from: Option<Lsn>,
}

/// What became of the wish.
pub(crate) enum Answer {
    /// The state.
    State(Box<Rebuilt>),
    /// There is no such state, or the verdict refuses what it would be made of.
    Refused(Box<Refusal>),
}

impl Rebuilt {
    /// What a person has to know beside the state, a line each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let judgement = &self.judgement;
        let (letter, word) = (judgement.letter(), judgement.verdict.word());
        let mut notes = Vec::new();
        if let Some(from) = self.only_times_from {
            notes.push(format!(
                "lsn {from} to {} tells only that time went on; the server has written nothing behind it for at least {} s, and \
                 its log does not say yet that this is on disk",
                self.state.lsn(),
                REST.as_secs()
            ));
        }
        if let Some(target) = self.quiet_since {
            // What a start cuts off may have been on its way to become a record.
            let nothing = if judgement.row.cuts() {
                "the log has no record"
            } else {
                "nothing was written"
            };
            notes.push(format!(
                "{nothing} after lsn {}, {}, so this is the state at {}, too",
                self.state.lsn(),
                Time::from(self.state.time()),
                Time::from(target)
            ));
        }
        if judgement.row.refuses() {
            let reason = judgement.reasons().next();
            let reason = reason.map_or("", |finding| &finding.message);
            let what = match first_damage(judgement) {
                Some(lsn) => format!("the log is damaged from lsn {lsn} on, behind this position"),
                None => "the records are good, and something beside them is not".to_owned(),
            };
            notes.push(format!("{what}: {letter} {word}: {reason}"));
        } else if judgement.row.cuts() {
            notes.push(format!(
                "{letter} {word}: what follows lsn {} is no part of the log",
                judgement.end_lsn
            ));
        }
        notes
    }
}

/// The state at `until`. `observer` sees each record on its way in; when reading begins anew it is told.
///
/// A position within a record is an error that names the positions around it.
pub(crate) fn rebuild(view: &View, until: Until, observer: &mut dyn Observer) -> Result<Answer, Failure> {
    let mut limit = until;
    let (mut attempts, mut waits) = (ATTEMPTS, WAITS);
    let mut rest: Option<(Lsn, Instant)> = None;
    loop {
        // Before reading: what is written later is later.
        let now = now();
        let live = view.is_live()?;
        let options = JudgeOptions {
            live,
            ..JudgeOptions::default()
        };
        observer.reset();
        let mut feed = Feed {
            state: State::new(),
            until: limit,
            observer: &mut *observer,
            left_out: None,
            changed_to: Lsn::ZERO,
        };
        let mut judgement = judge_until(view, &options, limit, &mut feed);
        vouched::amend(view, &mut judgement, false);
        let Feed {
            mut state,
            left_out,
            changed_to,
            ..
        } = feed;
        // A server that started meanwhile writes what would look like damage.
        let settled = if !live && judgement.verdict != Verdict::Clean && view.is_live()? {
            Settled::Anew
        } else if judgement.verdict == Verdict::New {
            return Ok(Answer::Refused(Box::new(Refusal::nothing())));
        } else {
            if let Some(snapshot) = &judgement.snapshot {
                state.ends_at_least(&snapshot.trailer);
            }
            let reading = Reading {
                sound_to: sound_to(&judgement),
                left_out,
                changed_to,
                state,
                is_from_the_beginning: judgement.snapshot.is_some() || begins_at_zero(view),
                judgement,
                live,
                rests_at: rest
                    .filter(|(_, since)| since.elapsed() >= REST)
                    .map(|(end, _)| end),
                now: (!refusal::is_archive(view)).then_some(now),
            };
            reading.settle(until)?
        };
        match settled {
            Settled::State(rebuilt) => return Ok(Answer::State(rebuilt)),
            Settled::Anew => limit = until,
            // What is being written is no state yet: the same again, up to the mark.
            Settled::Again(mark) => limit = Until::Lsn(mark),
            Settled::Wait(_) | Settled::Rest { .. } if waits > 0 => {
                if let Settled::Rest { end, .. } = settled
                    && rest.is_none_or(|(known, _)| known != end)
                {
                    rest = Some((end, Instant::now()));
                }
                waits -= 1;
                std::thread::sleep(WAIT);
                limit = until;
                continue;
            }
            // It goes on and on: what lies below the mark is the state of a moment, too.
            Settled::Rest { mark, .. } if !matches!(until, Until::Lsn(_)) => limit = Until::Lsn(mark),
            Settled::Wait(mark) | Settled::Rest { mark, .. } => {
                return Err(Failure::usage(still_unsynced(until, mark)));
            }
            Settled::Outside(read) => match outside(view, until, live, &read)? {
                Some(refusal) => return Ok(Answer::Refused(Box::new(refusal))),
                None => limit = until,
            },
        }
        attempts -= 1;
        if attempts == 0 {
            return Err(Failure::usage(
                "the directory changes faster than it can be read; try again, or read a copy",
            ));
        }
    }
}

/// The wall clock: only whether a time has come is asked of it.
fn now() -> UnixMs {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let ms = since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    UnixMs::new(ms.min(UnixMs::MAX.get()))
}

fn still_unsynced(until: Until, mark: Lsn) -> String {
    format!(
        "the log does not say yet that {} is on disk; --to-lsn {mark} is. Try again in a moment (with appendfsync no: after the \
         server has stopped)",
        refusal::words(until)
    )
}

/// One reading of the directory.
struct Reading {
    state: State,
    judgement: Judgement,
    sound_to: Lsn,
    /// The first record beyond the limit: where it begins and ends.
    left_out: Option<(Lsn, Lsn)>,
    /// End of the last record that is more than a time.
    changed_to: Lsn,
    /// A server was writing.
    live: bool,
    /// The log has ended here for [`REST`].
    rests_at: Option<Lsn>,
    /// The log goes back to lsn 0, or a snapshot does.
    is_from_the_beginning: bool,
    /// When reading began; nothing for an archive, whose log went on elsewhere.
    now: Option<UnixMs>,
}

enum Settled {
    State(Box<Rebuilt>),
    /// Read it again.
    Anew,
    /// Read it again, as far as a sync has covered it.
    Again(Lsn),
    /// Read it again later: so far, a sync has covered this.
    Wait(Lsn),
    /// The same, until the log has rested at this end: only times lie between the two.
    Rest {
        mark: Lsn,
        end: Lsn,
    },
    Outside(Box<Judgement>),
}

impl Reading {
    fn settle(self, until: Until) -> Result<Settled, Failure> {
        let (lsn, mark) = (self.state.lsn(), self.sound_to);
        let refuses = self.judgement.row.refuses();
        let only_times = self.only_times_follow();
        let only_times_from = (only_times && self.rests_at == Some(lsn)).then_some(mark);
        let sound_to = only_times_from.map_or(mark, |_| lsn);
        let rest = Settled::Rest { mark, end: lsn };
        let mut quiet_since = None;
        let reached = match until {
            Until::End if !refuses && lsn > sound_to => {
                return Ok(if only_times {
                    rest
                } else {
                    Settled::Again(sound_to)
                });
            }
            Until::End => !refuses,
            Until::Lsn(target) => {
                if let Some((begin, end)) = self.left_out
                    && begin < target
                    && target < end
                    && end <= sound_to
                {
                    return Err(Failure::usage(format!(
                        "lsn {target} is within the record from {begin} to {end}: either of these is a position"
                    )));
                }
                if self.live && !refuses && lsn == target && lsn > sound_to {
                    return Ok(if only_times { rest } else { Settled::Wait(sound_to) });
                }
                // Reading nothing is no proof that there was nothing.
                lsn == target && lsn <= sound_to && (lsn > Lsn::ZERO || self.is_from_the_beginning)
            }
            Until::Time(target) if !refuses && lsn > sound_to && !self.is_to_come(target) => {
                let is_due = target <= self.judgement.log_time || self.is_past(target);
                return Ok(if only_times && is_due {
                    rest
                } else {
                    Settled::Wait(sound_to)
                });
            }
            // Only a later record says that no further one of the wanted time follows; or the sound end of the log, when
            // the time has come and gone without one.
            Until::Time(target) => {
                let closed = match self.left_out {
                    Some((begin, _)) => !refuses || begin < sound_to,
                    None if refuses => false,
                    // An archived log went on, and may have done so within the millisecond of its last record.
                    None if target < self.judgement.log_time => true,
                    None if target == self.judgement.log_time && self.now.is_some() => true,
                    None if self.is_past(target) => {
                        quiet_since = Some(target);
                        true
                    }
                    None if self.live && self.now.is_some_and(|now| target <= now) => {
                        return Ok(Settled::Wait(sound_to));
                    }
                    None => false,
                };
                closed && lsn > Lsn::ZERO && lsn <= sound_to
            }
        };
        let Reading { state, judgement, .. } = self;
        Ok(if reached {
            Settled::State(Box::new(Rebuilt {
                state,
                judgement,
                quiet_since,
                only_times_from,
            }))
        } else {
            Settled::Outside(Box::new(judgement))
        })
    }

    /// Whether all that was read above the newest mark of a live log, up to its end, is times.
    fn only_times_follow(&self) -> bool {
        let (lsn, mark) = (self.state.lsn(), self.sound_to);
        let is_end = self.live && !self.judgement.row.refuses() && self.left_out.is_none();
        is_end && lsn > mark && self.changed_to <= mark && mark > Lsn::ZERO
    }

    /// Whether the time is later than all that is known of the log, and has not come yet.
    fn is_to_come(&self, target: UnixMs) -> bool {
        self.left_out.is_none() && target > self.judgement.log_time && self.now.is_none_or(|now| target > now)
    }

    /// Whether no record of `target` or earlier can come any more.
    fn is_past(&self, target: UnixMs) -> bool {
        let margin = if self.live { SETTLED_MS } else { 0 };
        self.now
            .is_some_and(|now| target.get().saturating_add(margin) <= now.get())
    }
}

/// Why the target was not reached: the log's verdict, or a target that it does not reach; nothing when the directory has
/// changed since and is to be read again.
fn outside(view: &View, until: Until, live: bool, read: &Judgement) -> Result<Option<Refusal>, Failure> {
    // Reading from an older snapshot, or from 0, may have missed what the log need not have any more.
    let options = JudgeOptions {
        live,
        ..JudgeOptions::default()
    };
    let mut plain = judge(view, &options, &mut Ignore);
    vouched::amend(view, &mut plain, false);
    let damaged =
        |judgement, is_whole, salvage: Salvage| Refusal::damaged(view, judgement, is_whole, salvage);
    if plain.row.refuses() {
        return Ok(Some(damaged(&plain, true, salvage(view, live))));
    }
    let Some(span) = span(view, &plain)? else {
        return Ok(Some(if read.row.refuses() {
            damaged(read, false, salvage(view, live))
        } else {
            Refusal::outside(view, until, plain.end_lsn, None)
        }));
    };
    if !span.holds(until) {
        return Ok(Some(Refusal::outside(view, until, plain.end_lsn, Some(span))));
    }
    // The log goes on to there, and the part before it that an earlier state needs is damaged.
    Ok((!live && read.row.refuses()).then(|| damaged(read, false, salvage(view, live))))
}
