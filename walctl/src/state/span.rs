//! Which states a directory can give, for whoever asked for another one.
//!
//! Of a log that a server starts with it is one stretch, told from the headers of the segments and from the snapshots. Where
//! the verdict refuses, each place that reading can begin at is tried: damage between two snapshots leaves two stretches,
//! and what a command is told to ask for instead has been reached once.

use std::io;

use idem_protocol::wal::{RawRecord, Record, parse_segment_name, parse_snapshot_name, segment_name};
use idem_protocol::{Lsn, UnixMs};
use idem_wal::reader::{HeaderPage, LogReader, LogStep, frame_records, snapshot};
use idem_wal::recovery::{JudgeOptions, Judgement, Place, Sink, Until, judge_until};
use idem_wal::storage::{Dir, Storage};

use super::refusal;
use super::sound::sound_to;
use crate::exit::Failure;
use crate::view::View;
use crate::vouched;

/// The earliest and the latest state of a stretch: position and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: (Lsn, UnixMs),
    pub(super) to: (Lsn, UnixMs),
    /// Whether nothing of the time of `to` follows. Not so where the log went on: in an archive, and before damage.
    pub(super) is_closed: bool,
}

impl Span {
    /// The latest time whose state is known: all of its records are there. Before the time of `from` there is none.
    pub(super) fn last_time(&self) -> UnixMs {
        let last = self.to.1;
        if self.is_closed {
            last
        } else {
            UnixMs::new(last.get().saturating_sub(1))
        }
    }

    /// Whether the target lies in it.
    pub(super) fn holds(&self, until: Until) -> bool {
        match until {
            Until::End => true,
            Until::Lsn(lsn) => self.from.0 <= lsn && lsn <= self.to.0,
            Until::Time(time) => self.from.1 <= time && time <= self.last_time(),
        }
    }
}

/// Looks where the log and the snapshots begin; nothing when there is no state at all.
pub(super) fn span(view: &View, judgement: &Judgement) -> Result<Option<Span>, Failure> {
    let from = earliest(view).map_err(Failure::io("looking where the log begins"))?;
    let to = (sound_to(judgement), judgement.log_time);
    let is_closed = !refusal::is_archive(view);
    Ok(from
        .filter(|from| from.0 <= to.0)
        .map(|from| Span { from, to, is_closed }))
}

fn earliest(view: &View) -> io::Result<Option<(Lsn, UnixMs)>> {
    let Some(begin) = begin_of_chain(view)? else {
        return Ok(None);
    };
    if begin == Lsn::ZERO {
        let mut reader = LogReader::open(view, begin)?;
        if let LogStep::Frame { file, frame } = reader.next_step()?
            && let Some(first) = frame_records(file, frame).next()
        {
            return Ok(Some((begin, first.raw.time)));
        }
        return Ok(Some((begin, UnixMs::ZERO)));
    }
    // Reading can begin with any valid snapshot whose log is still there; it gives a state from its end on.
    let names = view.list(Dir::Snap)?;
    let mut starts: Vec<Lsn> = names
        .iter()
        .filter_map(|name| parse_snapshot_name(name))
        .collect();
    starts.sort_unstable();
    let usable = starts.into_iter().filter(|start| *start >= begin);
    Ok(usable
        .filter_map(|start| {
            let name = idem_protocol::wal::snapshot_name(start);
            snapshot::read(view, &name, None, &mut |_, _| {}).ok()
        })
        .map(|snapshot| (snapshot.trailer.end_lsn, snapshot.trailer.log_time))
        .next())
}

/// Whether the first segment of all is there.
pub(super) fn begins_at_zero(view: &View) -> bool {
    let page = view
        .open(Dir::Wal, &segment_name(Lsn::ZERO))
        .and_then(|file| HeaderPage::read(&file));
    page.is_ok_and(|page| page.header().is_ok_and(|header| header.first_lsn == Lsn::ZERO))
}

/// The first lsn of the oldest segment from which every successor is there.
fn begin_of_chain(view: &View) -> io::Result<Option<Lsn>> {
    let names = view.list(Dir::Wal)?;
    let mut firsts: Vec<Lsn> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    firsts.sort_unstable();
    let mut begin = None;
    for first in firsts.into_iter().rev() {
        let header = |first| -> io::Result<_> {
            let file = view.open(Dir::Wal, &segment_name(first))?;
            Ok(HeaderPage::read(&file)?.header().ok())
        };
        let follows = match begin {
            None => true,
            Some(next) => header(next)?
                .and_then(|header| header.predecessor)
                .is_some_and(|before| before.first_lsn == first),
        };
        if !follows {
            break;
        }
        begin = Some(first);
    }
    Ok(begin)
}

/// What a directory whose log is refused can give all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Salvage {
    /// The stretches, oldest first; they do not touch.
    pub(super) spans: Vec<Span>,
    /// Good snapshots that are no state, because the log that they were written beside is not there: name, start and end.
    pub(super) inexact: Vec<(String, Lsn, Lsn)>,
}

/// Reads from each snapshot, newest first, and at last from lsn 0.
pub(super) fn salvage(view: &View, live: bool) -> Salvage {
    let options = JudgeOptions {
        live,
        ..JudgeOptions::default()
    };
    let mut found = Salvage::default();
    let mut until = Until::End;
    loop {
        let mut probe = Probe::default();
        let mut judgement = judge_until(view, &options, until, &mut probe);
        vouched::amend(view, &mut judgement, false);
        let sound = sound_to(&judgement);
        if probe.last.is_some_and(|(end, _)| end > sound) {
            probe = Probe {
                limit: Some(sound),
                ..Probe::default()
            };
            judge_until(view, &options, until, &mut probe);
        }
        let from = match &judgement.snapshot {
            Some(snapshot) => (snapshot.end, snapshot.trailer.log_time),
            None => (Lsn::ZERO, probe.first.unwrap_or_default()),
        };
        let to = probe.last.filter(|last| last.0 >= from.0).unwrap_or(from);
        if from.0 <= sound && to.0 > Lsn::ZERO {
            let is_closed = !judgement.row.refuses() && !refusal::is_archive(view);
            found.add(Span { from, to, is_closed });
        } else if let Some(snapshot) = &judgement.snapshot {
            let inexact = (snapshot.name.clone(), snapshot.start, snapshot.end);
            found.inexact.insert(0, inexact);
        }
        // An older one ends before this one does.
        let older = judgement
            .snapshot
            .and_then(|snapshot| snapshot.end.get().checked_sub(1));
        match older {
            Some(limit) => until = Until::Lsn(Lsn::new(limit)),
            None => return found,
        }
    }
}

/// The newest state that a directory can give whose log is refused, and which nobody is writing.
pub(crate) fn newest(view: &View) -> Option<(Lsn, UnixMs)> {
    let newest = salvage(view, false).spans.last().map(|span| span.to);
    newest.filter(|(lsn, _)| *lsn > Lsn::ZERO)
}

impl Salvage {
    /// Puts one before those that are there, or makes it one with the first of them.
    fn add(&mut self, span: Span) {
        match self.spans.first_mut() {
            // From its own beginning on, a position is read from the newer snapshot, as far as that goes.
            Some(next) if next.from.0 <= span.to.0 => next.from = span.from,
            _ => self.spans.insert(0, span),
        }
    }
}

/// Looks how far records go.
#[derive(Default)]
struct Probe {
    /// Records that end behind it are none.
    limit: Option<Lsn>,
    /// Time of the first record.
    first: Option<UnixMs>,
    /// End and time of the last one.
    last: Option<(Lsn, UnixMs)>,
}

impl Sink for Probe {
    fn reset(&mut self) {
        *self = Probe {
            limit: self.limit,
            ..Probe::default()
        };
    }

    fn snapshot_item(&mut self, _: &RawRecord<'_>, _: &Record<'_>) {}

    fn record(&mut self, _: Place<'_>, raw: &RawRecord<'_>, _: &Record<'_>) {
        if self.limit.is_none_or(|limit| raw.end() <= limit) {
            self.first.get_or_insert(raw.time);
            self.last = Some((raw.end(), raw.time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: u64, to: u64) -> Span {
        let at = |n| (Lsn::new(n), UnixMs::new(n));
        Span {
            from: at(from),
            to: at(to),
            is_closed: true,
        }
    }

    #[test]
    fn stretches_that_touch_are_one() {
        for (newest_first, expected) in [
            (&[(10, 20)][..], &[(10, 20)][..]),
            (&[(10, 20), (0, 10)], &[(0, 20)]),
            (&[(10, 20), (0, 20)], &[(0, 20)]),
            // Damage between them.
            (&[(10, 20), (0, 9)], &[(0, 9), (10, 20)]),
            (&[(30, 40), (10, 35), (0, 5)], &[(0, 5), (10, 40)]),
            (&[(10, 20), (0, 30)], &[(0, 20)]),
        ] {
            let mut salvage = Salvage::default();
            for (from, to) in newest_first {
                salvage.add(span(*from, *to));
            }
            let expected: Vec<Span> = expected.iter().map(|(from, to)| span(*from, *to)).collect();
            assert_eq!(salvage.spans, expected, "{newest_first:?}");
        }
    }
}
