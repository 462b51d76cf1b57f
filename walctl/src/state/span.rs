//! Which states a log can give, for whoever asked for another one.

use std::io;

use idem_protocol::wal::{parse_segment_name, parse_snapshot_name, segment_name};
use idem_protocol::{Lsn, UnixMs};
use idem_wal::reader::{HeaderPage, LogReader, LogStep, frame_records, snapshot};
use idem_wal::recovery::{Judgement, Until};
use idem_wal::storage::{Dir, Storage};

use super::rebuild::sound_to;
use crate::exit::Failure;
use crate::view::View;

/// The earliest and the latest state: position and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: (Lsn, UnixMs),
    pub(super) to: (Lsn, UnixMs),
}

impl Span {
    /// Whether the target lies in it.
    pub(super) fn holds(&self, until: Until) -> bool {
        match until {
            Until::End => true,
            Until::Lsn(lsn) => self.from.0 <= lsn && lsn <= self.to.0,
            Until::Time(time) => self.from.1 <= time && time <= self.to.1,
        }
    }
}

/// Looks where the log and the snapshots begin; nothing when there is no state at all.
pub(super) fn span(view: &View, judgement: &Judgement) -> Result<Option<Span>, Failure> {
    let from = earliest(view).map_err(Failure::io("looking where the log begins"))?;
    let to = (sound_to(judgement), judgement.log_time);
    Ok(from.filter(|from| from.0 <= to.0).map(|from| Span { from, to }))
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
