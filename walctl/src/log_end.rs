//! The place where a log was read to, and what to say about it: the plain end of a log, or something else.
//!
//! This is no verdict. It tells the end from what is none, so that a command which reads a log to its end does not pass over
//! the rest in silence; what a server would make of it is for `walctl verify`.

use std::io;
use std::path::Path;

use idem_protocol::Lsn;
use idem_protocol::wal::{
    HeaderError, SEGMENT_HEADER_BYTES, parse_segment_name, parse_snapshot_name, snapshot_name,
};
use idem_wal::reader::{HeaderPage, Stop, snapshot};
use idem_wal::storage::{Dir, Storage, StorageFile};

use crate::exit::Failure;
use crate::view::View;
use crate::vouched;

/// The place where reading stopped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// Name of the segment; empty when there is none.
    pub(crate) file: String,
    /// Where in it.
    pub(crate) offset: u64,
    /// The lsn there.
    pub(crate) lsn: Lsn,
    /// What is there instead of a frame; `None` for a header page that is no header.
    pub(crate) stop: Option<Stop>,
    /// Segments that follow and were not read.
    pub(crate) segments_left: usize,
}

/// Why a log was not read to its end, or not all of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// In words.
    pub(crate) words: String,
    /// The segment with the damage, when that is what is wrong.
    pub(crate) file: Option<String>,
}

/// Of a log that the system did not hand over any further than up to `lsn`. The error names the file.
pub(crate) fn unreadable(lsn: Lsn, error: &io::Error) -> Complaint {
    Complaint {
        words: format!("the log was read up to lsn {lsn}, and cannot be read there: {error}"),
        file: None,
    }
}

/// The command that says more about damage in segment `file`, as a line for stderr. No start reads a segment that lies wholly
/// below the snapshots, and so the verdict says nothing about it.
pub(crate) fn advice(view: &View, dir: &Path, file: Option<&str>) -> String {
    let dir = dir.display();
    match file {
        Some(file) if is_below_the_snapshots(view, file).unwrap_or(false) => format!(
            "{} lies below the snapshots, where no start reads; for all that is wrong: walctl verify --deep {dir}",
            Dir::Wal.join(file)
        ),
        _ => format!("for the verdict: walctl verify {dir}"),
    }
}

/// Whether a valid snapshot starts at or above the end of a segment.
fn is_below_the_snapshots(view: &View, file: &str) -> io::Result<bool> {
    let Some(first) = parse_segment_name(file) else {
        return Ok(false);
    };
    let segments = view.list(Dir::Wal)?;
    let later = segments.iter().filter_map(|name| parse_segment_name(name));
    let Some(end) = later.filter(|later| *later > first).min() else {
        return Ok(false);
    };
    let snapshots = view.list(Dir::Snap)?;
    let starts = snapshots.iter().filter_map(|name| parse_snapshot_name(name));
    let mut above = starts.filter(|start| *start >= end);
    Ok(above.any(|start| snapshot::read(view, &snapshot_name(start), None, &mut |_, _| {}).is_ok()))
}

/// What to say about the place where reading stopped and ended; nothing when it is the end of the log. `is_live` is asked
/// only when it matters: on a live directory the place may be in the middle of being written.
pub(crate) fn what_is_wrong(
    view: &View,
    end: &LogEnd,
    is_live: &dyn Fn() -> Result<bool, Failure>,
) -> Result<Option<String>, Failure> {
    let more = match end.segments_left {
        0 => String::new(),
        1 => "; one later segment was not read".to_owned(),
        left => format!("; {left} later segments were not read"),
    };
    Ok(what_is_there(view, end, is_live)?.map(|what| what + &more))
}

/// As [`what_is_wrong`], for somebody who reads on behind it.
pub(crate) fn what_is_there(
    view: &View,
    end: &LogEnd,
    is_live: &dyn Fn() -> Result<bool, Failure>,
) -> Result<Option<String>, Failure> {
    if end.file.is_empty() {
        return Ok(Some("there is no segment of a log here".to_owned()));
    }
    let is_newest = end.segments_left == 0;
    let what = match look_again(view, end) {
        // An archive knows better where its log ends, and whether this is it.
        Ok(None) => {
            return Ok(vouched::complaint(view, Some(end.lsn)).map(|complaint| complaint.words));
        }
        Ok(Some(_)) if is_newest && end.stop.is_some() && is_live()? => return Ok(None),
        // It was the newest one when it was read to its end; the server needs it no more.
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_live()? => return Ok(None),
        Ok(Some(what)) => what,
        Err(error) => return Err(Failure::io("reading the log")(error)),
    };
    let name = Dir::Wal.join(&end.file);
    Ok(Some(format!(
        "{name} offset {}, lsn {}: {what}",
        end.offset, end.lsn
    )))
}

/// What is in the place where reading stopped; nothing for the plain end of a log.
fn look_again(view: &View, end: &LogEnd) -> io::Result<Option<String>> {
    let is_newest = end.segments_left == 0;
    let Some(stop) = end.stop else {
        let file = view.open(Dir::Wal, &end.file)?;
        return Ok(match HeaderPage::read(&file)?.header() {
            Err(HeaderError::NewerFormat(format)) => {
                Some(format!("format {format} is newer than this version reads"))
            }
            // It was being made when a server went down, and holds nothing.
            Err(HeaderError::Damaged) if is_newest && is_zero_from(&file, SEGMENT_HEADER_BYTES as u64)? => {
                None
            }
            Err(HeaderError::Damaged) => Some("the segment has no good header".to_owned()),
            // Written between the two looks at it.
            Ok(_) => None,
        });
    };
    if is_newest
        && matches!(stop, Stop::EndOfFile | Stop::NoHeader)
        && is_zero_from(&view.open(Dir::Wal, &end.file)?, end.offset)?
    {
        return Ok(None);
    }
    Ok(Some(describe(stop)))
}

/// What is there instead of a frame.
pub(crate) fn describe(stop: Stop) -> String {
    match stop {
        Stop::EndOfFile => "the file ends".to_owned(),
        Stop::NoHeader => "neither a group nor the end of the log".to_owned(),
        Stop::PayloadOutsideFile(header) => {
            format!("a group of {} bytes reaches past the file", header.payload_bytes)
        }
        Stop::LsnGap(header) => format!("a group of lsn {} is in this place", header.lsn),
        Stop::Payload(_, error) => format!("a group with a bad record: {error}"),
    }
}

/// How much is looked at at once.
const CHUNK_BYTES: usize = 1 << 18;

/// Whether nothing but zeros follows an offset.
pub(crate) fn is_zero_from(file: &impl StorageFile, from: u64) -> io::Result<bool> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let zeros = vec![0; CHUNK_BYTES];
    let mut offset = from;
    loop {
        match file.read_at(offset, &mut chunk)? {
            0 => return Ok(true),
            read if chunk[..read] != zeros[..read] => return Ok(false),
            read => offset += read as u64,
        }
    }
}
