//! What the verdict makes of a place where one of the two logs cannot be read on.

use std::io;
use std::path::Path;

use idem_protocol::Lsn;
use idem_wal::reader::Stop;
use idem_wal::recovery::{Ignore, JudgeOptions, Judgement, judge};
use idem_wal::storage::{Dir, Storage};

use crate::exit::{Exit, Failure};
use crate::log_end::{self, LogEnd};
use crate::view::View;
use crate::vouched;

/// Says on stderr what stands where reading stopped, when it is no plain end; answers the exit code when it is not cut off by
/// a start either.
pub(super) fn of_end(view: &View, path: &Path, end: &LogEnd) -> Result<Option<Exit>, Failure> {
    let Some(complaint) = log_end::what_is_there(view, end, &|| view.is_live())? else {
        return Ok(None);
    };
    let judgement = verdict(view)?;
    let (letter, word) = (judgement.letter(), judgement.verdict.word());
    let path = path.display();
    if judgement.verdict.starts() && is_end(&judgement, end.lsn) {
        eprintln!(
            "walctl: note: {path}: {complaint}; a start would cut it off ({letter} {word}), it is not compared"
        );
        return Ok(None);
    }
    if judgement.verdict.starts() {
        eprintln!(
            "walctl: {path}: {complaint}\nwalctl: {path}: it is below the snapshot that a start would read ({letter} {word}); \
             for all that is wrong there: walctl verify --deep {path}"
        );
        return Ok(Some(if is_missing(view, end) {
            Exit::Hole
        } else {
            Exit::Rot
        }));
    }
    eprintln!("walctl: {path}: {complaint}\nwalctl: the verdict is {letter} {word}: walctl verify {path}");
    Ok(Some(judgement.verdict.into()))
}

/// The same for something that the system does not hand over. The error names the file.
pub(super) fn of_unreadable(view: &View, path: &Path, error: &io::Error) -> Result<Exit, Failure> {
    let judgement = verdict(view)?;
    let (letter, word) = (judgement.letter(), judgement.verdict.word());
    let path = path.display();
    eprintln!("walctl: {path}: {error}\nwalctl: the verdict is {letter} {word}: walctl verify {path}");
    Ok(if judgement.verdict.starts() {
        Exit::ReadError
    } else {
        judgement.verdict.into()
    })
}

fn verdict(view: &View) -> Result<Judgement, Failure> {
    let options = JudgeOptions {
        live: view.is_live()?,
        ..JudgeOptions::default()
    };
    let mut judgement = judge(view, &options, &mut Ignore);
    vouched::amend(view, &mut judgement, false);
    Ok(judgement)
}

/// Whether the segment ends plainly, and the one that follows is missing.
fn is_missing(view: &View, end: &LogEnd) -> bool {
    let is_plain = matches!(end.stop, Some(Stop::EndOfFile | Stop::NoHeader));
    let rest_is_zero = || {
        let file = view.open(Dir::Wal, &end.file)?;
        log_end::is_zero_from(&file, end.offset)
    };
    is_plain && end.segments_left > 0 && rest_is_zero().unwrap_or(false)
}

/// Whether the verdict was about this place. The one of a live directory vouches for less than was read.
fn is_end(judgement: &Judgement, lsn: Lsn) -> bool {
    judgement.end_lsn == lsn || judgement.live && judgement.end_lsn <= lsn
}
