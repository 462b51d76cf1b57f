//! Log below what a start reads: whole segments that the verdict says nothing about.
//!
//! A start does not need them, so nothing that is wrong with them is a reason for its verdict. A restore to an earlier moment
//! does, and a server keeps them for that. Each one has a successor, which names its end and the checksum of its records;
//! here it is held against that, frame by frame, and behind damage reading goes on where a frame stands again.
//!
//! Deliberately absent: whether a segment between two others is gone. The verdict sees that from the headers.

use std::io;

use idem_protocol::Lsn;
use idem_protocol::wal::{FRAME_HEADER_BYTES, HeaderError, scan};
use idem_wal::reader::{Frame, HeaderPage, SegmentReader, Step, Stop};
use idem_wal::recovery::{Finding, FindingKind, Found, UnjudgedSegment};
use idem_wal::storage::{Dir, Storage};

use super::SHOWN_MAX;
use crate::log_end;
use crate::view::{View, ViewFile};

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cmd::verify) struct Below {
    /// Segments that were read; one that its server removed meanwhile was not.
    pub(in crate::cmd::verify) segments: u64,
    /// Good records in them.
    pub(in crate::cmd::verify) records: u64,
    /// The first of the findings.
    pub(in crate::cmd::verify) findings: Vec<Finding>,
    /// All of them.
    pub(in crate::cmd::verify) count: u64,
}

/// A place in a segment, and what is wrong there.
struct Damage {
    offset: u64,
    lsn: Lsn,
    message: String,
    crcs: Option<(u32, u32)>,
}

impl Below {
    fn add(&mut self, segment: &UnjudgedSegment, damage: Damage) {
        self.count += 1;
        if self.findings.len() == SHOWN_MAX {
            return;
        }
        self.findings.push(Finding {
            kind: FindingKind::Beside,
            message: damage.message,
            place: Some(Found {
                dir: Dir::Wal,
                name: segment.name.clone(),
                offset: damage.offset,
            }),
            lsn: Some(damage.lsn),
            promised: None,
            expected_crc: damage.crcs.map(|(expected, _)| expected),
            found_crc: damage.crcs.map(|(_, found)| found),
        });
    }
}

/// Reads them all. Memory is that of the largest group, and of at most [`SHOWN_MAX`] findings.
pub(in crate::cmd::verify) fn read(view: &View, segments: &[UnjudgedSegment]) -> Below {
    let mut below = Below::default();
    for segment in segments {
        let read = view
            .open(Dir::Wal, &segment.name)
            .and_then(|file| read_one(&mut below, segment, file));
        match read {
            Ok(()) => below.segments += 1,
            // It was listed a moment ago, and its server needs it no more.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                below.segments += 1;
                let damage = Damage {
                    offset: 0,
                    lsn: segment.first,
                    message: format!("the segment cannot be read: {error}"),
                    crcs: None,
                };
                below.add(segment, damage);
            }
        }
    }
    below
}

fn read_one(below: &mut Below, segment: &UnjudgedSegment, file: ViewFile) -> io::Result<()> {
    let at_front = |message: String| Damage {
        offset: 0,
        lsn: segment.first,
        message,
        crcs: None,
    };
    let header = match HeaderPage::read(&file)?.header() {
        Ok(header) if header.first_lsn == segment.first => header,
        Ok(header) => {
            let message = format!("the segment's header says that it begins at {}", header.first_lsn);
            below.add(segment, at_front(message));
            return Ok(());
        }
        Err(error @ (HeaderError::Damaged | HeaderError::NewerFormat(_))) => {
            below.add(
                segment,
                at_front(format!("the segment has no good header: {error}")),
            );
            return Ok(());
        }
    };
    let mut reader = SegmentReader::new(file, header)?;
    let mut crc = crc32fast::Hasher::new();
    let mut is_whole = true;
    loop {
        let (offset, lsn) = (reader.offset(), reader.lsn());
        let stop = match reader.next_frame()? {
            Step::Frame(frame) => {
                crc.update(frame.payload);
                take(below, segment, &frame);
                continue;
            }
            Step::Stop(stop) => stop,
        };
        let damage = |what: String| Damage {
            offset,
            lsn,
            message: what,
            crcs: stop.crcs(),
        };
        let is_plain = matches!(stop, Stop::EndOfFile | Stop::NoHeader);
        match segment.sealed {
            Some((end, expected)) if is_plain && lsn == end => {
                let found = crc.finalize();
                if is_whole && found != expected {
                    let message = "the records are not those that the next segment vouches for";
                    let damage = Damage {
                        crcs: Some((expected, found)),
                        ..at_front(message.to_owned())
                    };
                    below.add(segment, damage);
                }
                return Ok(());
            }
            // Where it ends is not known: whatever stands behind this place tells that it is not here.
            None if is_plain => {
                if !reader.pass_damage()? {
                    return Ok(());
                }
                below.add(segment, damage(log_end::describe(stop)));
            }
            Some((end, _)) if lsn > end => {
                below.add(
                    segment,
                    damage(format!("records go on to {lsn}, the next segment says {end}")),
                );
                return Ok(());
            }
            _ => {
                let what = log_end::describe(stop);
                let message = match segment.sealed {
                    Some((end, _)) => format!("{what}; the segment goes on to lsn {end}"),
                    None => what,
                };
                below.add(segment, damage(message));
                if !reader.pass_damage()? {
                    return Ok(());
                }
            }
        }
        is_whole = false;
    }
}

/// Counts the records of a good group, and looks whether each of them says something.
fn take(below: &mut Below, segment: &UnjudgedSegment, frame: &Frame<'_>) {
    for (at, raw) in scan::records(frame.payload) {
        below.records += 1;
        if let Err(error) = raw.decode() {
            let at = u64::try_from(FRAME_HEADER_BYTES + at).unwrap_or(u64::MAX);
            let damage = Damage {
                offset: frame.offset.saturating_add(at),
                lsn: raw.lsn,
                message: format!("an undamaged record that cannot be understood: {error}"),
                crcs: None,
            };
            below.add(segment, damage);
        }
    }
}
