//! From a directory and a target to a state, or to the reason why there is none.

use std::path::Path;

use idem_protocol::Lsn;
use idem_protocol::wal::parse_segment_name;
use idem_wal::recovery::{
    Finding, FindingKind, Ignore, JudgeOptions, Judgement, Until, Verdict, judge, judge_until,
};
use idem_wal::storage::Dir;

use super::span::{Span, span};
use super::{Feed, Observer, State};
use crate::exit::{Exit, Failure};
use crate::text::Time;
use crate::view::View;

/// How often a directory is read again because a server changed it meanwhile.
const ATTEMPTS: usize = 5;

/// A state, and what was found on the way to it.
#[derive(Debug)]
pub(crate) struct Rebuilt {
    /// The state at the target.
    pub(crate) state: State,
    /// The verdict on everything that was read, from the snapshot to the end of the log. It may refuse what follows the
    /// target.
    pub(crate) judgement: Judgement,
}

/// What became of the wish.
pub(crate) enum Answer {
    /// The state.
    State(Box<Rebuilt>),
    /// The target is not wholly before what the verdict refuses.
    Refused(Box<Judgement>),
}

impl Rebuilt {
    /// What a person has to know beside the state, a line each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let judgement = &self.judgement;
        let (letter, word) = (judgement.letter(), judgement.verdict.word());
        let mut notes = Vec::new();
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

/// Says on stderr why there is no state, and answers the verdict's exit code.
pub(crate) fn complain(judgement: &Judgement, dir: &Path) -> Exit {
    let (letter, word) = (judgement.letter(), judgement.verdict.word());
    eprintln!(
        "walctl: {letter} {word}: the log is sound up to lsn {}",
        sound_to(judgement)
    );
    for finding in judgement.reasons() {
        eprintln!("walctl:   {}", finding.message);
    }
    eprintln!("walctl: for the whole verdict: walctl verify {}", dir.display());
    if judgement.row.refuses() {
        judgement.verdict.into()
    } else {
        // Nothing was done, whatever a start would make of the directory.
        Exit::Failed
    }
}

/// The state at `until`. `observer` sees each record on its way in; when reading begins anew it is told.
///
/// A target outside of the log is an error that names the range; so is a position within a record.
pub(crate) fn rebuild(view: &View, until: Until, observer: &mut dyn Observer) -> Result<Answer, Failure> {
    let mut limit = until;
    for _ in 0..ATTEMPTS {
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
        };
        let judgement = judge_until(view, &options, limit, &mut feed);
        let Feed {
            mut state, left_out, ..
        } = feed;
        // A server that started meanwhile writes what would look like damage.
        if !live && judgement.verdict != Verdict::Clean && view.is_live()? {
            continue;
        }
        if judgement.verdict == Verdict::New {
            return Err(Failure::usage("there is no log here"));
        }
        if let Some(snapshot) = &judgement.snapshot {
            state.ends_at_least(&snapshot.trailer);
        }
        let reading = Reading {
            sound_to: sound_to(&judgement),
            left_out,
            state,
            judgement,
        };
        match reading.settle(until)? {
            Settled::State(rebuilt) => return Ok(Answer::State(rebuilt)),
            // What is being written is no state yet: the same again, up to the mark.
            Settled::Again(mark) => limit = Until::Lsn(mark),
            Settled::Outside(read) => match outside(view, until, live, read)? {
                Some(answer) => return Ok(answer),
                None => limit = until,
            },
        }
    }
    Err(Failure::usage(
        "the directory changes faster than it can be read; try again, or read a copy",
    ))
}

/// One reading of the directory.
struct Reading {
    state: State,
    judgement: Judgement,
    sound_to: Lsn,
    /// The first record beyond the limit: where it begins and ends.
    left_out: Option<(Lsn, Lsn)>,
}

enum Settled {
    State(Box<Rebuilt>),
    Again(Lsn),
    Outside(Box<Judgement>),
}

impl Reading {
    fn settle(self, until: Until) -> Result<Settled, Failure> {
        let (lsn, sound_to) = (self.state.lsn(), self.sound_to);
        let refuses = self.judgement.row.refuses();
        let reached = match until {
            Until::End if !refuses && lsn > sound_to => return Ok(Settled::Again(sound_to)),
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
                lsn == target && lsn <= sound_to
            }
            Until::Time(target) if !refuses && lsn > sound_to => {
                return Err(Failure::usage(format!(
                    "what was written by {} is being synced; lsn {sound_to} is on disk. Try again in a moment",
                    Time::from(target)
                )));
            }
            // Only a later record says that no further one of the wanted time follows; or the sound end of the log.
            Until::Time(target) => {
                let closed = match self.left_out {
                    Some((begin, _)) => !refuses || begin < sound_to,
                    None => !refuses && target <= self.judgement.log_time,
                };
                closed && lsn > Lsn::ZERO && lsn <= sound_to
            }
        };
        let Reading { state, judgement, .. } = self;
        Ok(if reached {
            Settled::State(Box::new(Rebuilt { state, judgement }))
        } else {
            Settled::Outside(Box::new(judgement))
        })
    }
}

/// Why the target was not reached: the log's verdict, or a target that it does not reach; nothing when the directory has
/// changed since and is to be read again.
fn outside(view: &View, until: Until, live: bool, read: Box<Judgement>) -> Result<Option<Answer>, Failure> {
    // Reading from an older snapshot, or from 0, may have missed what the log need not have any more.
    let options = JudgeOptions {
        live,
        ..JudgeOptions::default()
    };
    let plain = judge(view, &options, &mut Ignore);
    if plain.row.refuses() {
        return Ok(Some(Answer::Refused(Box::new(plain))));
    }
    let Some(span) = span(view, &plain)? else {
        if read.row.refuses() {
            return Ok(Some(Answer::Refused(read)));
        }
        return Err(Failure::usage(format!(
            "{} is outside of the log, which ends at lsn {}",
            words(until),
            plain.end_lsn
        )));
    };
    if !span.holds(until) {
        return Err(Failure::usage(refusal(until, &span)));
    }
    // The log goes on to there, and the part before it that an earlier state needs is damaged.
    Ok((!live && read.row.refuses()).then(|| Answer::Refused(read)))
}

fn words(until: Until) -> String {
    match until {
        Until::End => "the end of the log".to_owned(),
        Until::Lsn(lsn) => format!("lsn {lsn}"),
        Until::Time(time) => Time::from(time).to_string(),
    }
}

fn refusal(until: Until, span: &Span) -> String {
    let target = words(until);
    let (from, to) = (span.from, span.to);
    format!(
        "{target} is outside of the log, which has lsn {} ({}) to lsn {} ({}); --to-lsn {} is its end",
        from.0,
        Time::from(from.1),
        to.0,
        Time::from(to.1),
        to.0
    )
}

/// Up to where nothing speaks against the log: its end, or the first place that a refusing row names.
pub(super) fn sound_to(judgement: &Judgement) -> Lsn {
    let damage = first_damage(judgement);
    damage.map_or(judgement.end_lsn, |lsn| lsn.min(judgement.end_lsn))
}

/// The first place in the log that a refusing row names.
fn first_damage(judgement: &Judgement) -> Option<Lsn> {
    judgement.findings.iter().filter_map(place).min()
}

/// Where a refusing finding begins to hold in the log; nothing for one about the files beside it.
fn place(finding: &Finding) -> Option<Lsn> {
    let refuses = matches!(finding.kind, FindingKind::Row(row) if row.refuses());
    let place = finding.place.as_ref();
    let in_wal = place.filter(|place| place.dir == Dir::Wal);
    // One without a place in the segment speaks of all of it.
    let segment = in_wal
        .filter(|place| place.offset == 0 || finding.lsn.is_none())
        .and_then(|place| parse_segment_name(&place.name));
    let lsn = finding
        .lsn
        .filter(|_| place.is_none_or(|place| place.dir != Dir::Snap));
    refuses.then(|| segment.into_iter().chain(lsn).min()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_wal::recovery::{Found, Row};

    fn check(kind: FindingKind, found: Option<(Dir, &str, u64)>, lsn: Option<u64>, expected: Option<u64>) {
        let finding = Finding {
            kind,
            message: String::new(),
            place: found.map(|(dir, name, offset)| Found {
                dir,
                name: name.to_owned(),
                offset,
            }),
            lsn: lsn.map(Lsn::new),
            promised: None,
            expected_crc: None,
            found_crc: None,
        };
        assert_eq!(
            place(&finding),
            expected.map(Lsn::new),
            "{kind:?} {found:?} {lsn:?}"
        );
    }

    #[test]
    fn damage_begins_where_a_refusing_finding_says_and_else_with_its_segment() {
        let segment = "00000000000000000700.wal";
        let (rot, hole) = (FindingKind::Row(Row::F), FindingKind::Row(Row::G));
        // A place within the segment has an lsn of its own; one at its front speaks of the whole segment.
        check(rot, Some((Dir::Wal, segment, 5000)), Some(900), Some(900));
        check(rot, Some((Dir::Wal, segment, 0)), Some(900), Some(700));
        check(rot, Some((Dir::Wal, segment, 80)), None, Some(700));
        check(hole, Some((Dir::Wal, segment, 0)), Some(0), Some(0));
        // A name that is none has no place in the log; nor has what lies beside the log.
        check(hole, Some((Dir::Wal, "x.wal", 0)), None, None);
        check(hole, Some((Dir::Root, "control", 0)), None, None);
        check(
            FindingKind::Row(Row::H),
            Some((Dir::Snap, "00000000000000000700.snap", 0)),
            Some(700),
            None,
        );
        check(
            FindingKind::Row(Row::J),
            Some((Dir::Root, "control", 0)),
            Some(900),
            Some(900),
        );
        // What only cuts, and what stands beside any verdict, is no damage of what comes before.
        check(
            FindingKind::Row(Row::E),
            Some((Dir::Wal, segment, 5000)),
            Some(900),
            None,
        );
        check(FindingKind::Beside, Some((Dir::Wal, segment, 0)), Some(900), None);
    }
}
