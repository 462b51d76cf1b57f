//! The answer of [`judge`](super::judge): the row, where the log ends, and everything that a person or [`open`](super::open)
//! needs to know about it.

use idem_protocol::control::Control;
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::Salt;
use idem_protocol::{Epoch, HistoryEntry, Lsn, UnixMs};

use super::cases::Row;
use super::tail::TailImage;
use crate::storage::Dir;

/// What a log is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// There is none yet: the directory is empty, or was being made.
    New,
    /// Complete.
    Clean,
    /// Ends in something that was never promised; the server cuts it off.
    TornTail,
    /// Ends in junk that nothing vouches for or against; the server cuts it off and warns.
    UnprovenTail,
    /// Something that was promised is gone.
    Rot,
    /// A file is missing.
    Hole,
    /// Another node's, another cluster's or a newer version's.
    Foreign,
    /// Undamaged and impossible: a fault of the software that wrote it.
    Bug,
    /// Cannot be read.
    IoError,
}

impl Verdict {
    /// The word that tools print.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::New => "NEW",
            Verdict::Clean => "CLEAN",
            Verdict::TornTail => "TORN_TAIL",
            Verdict::UnprovenTail => "UNPROVEN_TAIL",
            Verdict::Rot => "ROT",
            Verdict::Hole => "HOLE",
            Verdict::Foreign => "FOREIGN",
            Verdict::Bug => "BUG",
            Verdict::IoError => "IO_ERROR",
        }
    }

    /// True when a server starts with it.
    pub const fn starts(self) -> bool {
        matches!(
            self,
            Verdict::New | Verdict::Clean | Verdict::TornTail | Verdict::UnprovenTail
        )
    }
}

impl From<Row> for Verdict {
    fn from(row: Row) -> Self {
        match row {
            Row::New => Verdict::New,
            Row::I => Verdict::IoError,
            Row::H => Verdict::Foreign,
            Row::G => Verdict::Hole,
            Row::J => Verdict::Bug,
            Row::F => Verdict::Rot,
            Row::D | Row::C => Verdict::TornTail,
            Row::A | Row::B => Verdict::Clean,
            Row::E => Verdict::UnprovenTail,
        }
    }
}

/// How a finding bears on the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// A reason for this row, whether or not it became the verdict.
    Row(Row),
    /// Worth knowing, beside any verdict: a damaged second snapshot, one bad header copy, leftovers.
    Beside,
}

/// What is found beside the verdict on a newest segment whose end is gone.
pub(super) const CUT_SHORT: &str = "the newest segment ends where it cannot: it was cut short after it was written, and the log may \
                                    have gone on";

/// A file and a place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The directory.
    pub dir: Dir,
    /// The file's name; empty for the directory itself.
    pub name: String,
    /// Offset in the file.
    pub offset: u64,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How it bears on the verdict.
    pub kind: FindingKind,
    /// In words.
    pub message: String,
    /// Where.
    pub place: Option<Found>,
    /// The position in the log.
    pub lsn: Option<Lsn>,
    /// A position that was promised.
    pub promised: Option<Lsn>,
    /// The checksum that should be there.
    pub expected_crc: Option<u32>,
    /// The checksum of what is there.
    pub found_crc: Option<u32>,
}

impl Finding {
    pub(crate) fn new(kind: FindingKind, message: impl Into<String>) -> Self {
        Finding {
            kind,
            message: message.into(),
            place: None,
            lsn: None,
            promised: None,
            expected_crc: None,
            found_crc: None,
        }
    }

    pub(crate) fn at(mut self, dir: Dir, name: &str, offset: u64) -> Self {
        self.place = Some(Found {
            dir,
            name: name.to_owned(),
            offset,
        });
        self
    }

    pub(crate) fn lsn(mut self, lsn: Lsn) -> Self {
        self.lsn = Some(lsn);
        self
    }

    pub(crate) fn crcs(mut self, expected: u32, found: u32) -> Self {
        self.expected_crc = Some(expected);
        self.found_crc = Some(found);
        self
    }
}

/// What was read of one judged segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Its name.
    pub name: String,
    /// Its first lsn.
    pub first: Lsn,
    /// The lsn that valid frames reach in it.
    pub end: Lsn,
    /// Valid frames with records.
    pub frames: u64,
    /// Seals.
    pub seals: u64,
    /// Records.
    pub records: u64,
    /// Its length.
    pub file_bytes: u64,
    /// The offset that valid frames reach in it.
    pub used_bytes: u64,
}

/// A segment that was not read: it lies wholly below the snapshot that reading began with, or behind a place where reading
/// stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnjudgedSegment {
    /// Its name.
    pub name: String,
    /// Its first lsn, by its name.
    pub first: Lsn,
    /// Where it ends and the CRC-32 of its record bytes, when the next segment's header says so.
    pub sealed: Option<(Lsn, u32)>,
    /// Its length; nothing when it cannot be read.
    pub file_bytes: Option<u64>,
}

/// The snapshot that reading began with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Its name.
    pub name: String,
    /// Where replaying begins.
    pub start: Lsn,
    /// The position that it vouches for.
    pub end: Lsn,
    /// Its items.
    pub items: u64,
    /// What it says of the log at its end.
    pub trailer: SnapshotTrailer,
}

/// The place L and what a writer needs to go on there.
#[derive(Clone, Debug)]
pub struct LogEnd {
    /// The segment.
    pub segment: String,
    /// Its first lsn.
    pub segment_first: Lsn,
    /// Its salt.
    pub salt: Salt,
    /// Its length.
    pub segment_bytes: u64,
    /// The offset of L.
    pub offset: u64,
    /// CRC of the record bytes in it up to L.
    pub segment_crc: u32,
    /// True when the last valid frame before L is a seal.
    pub last_seal: bool,
    /// CRC of the record that ends at L, 0 at lsn 0.
    pub last_record_crc: u32,
    /// The epoch of the last EpochStart below L.
    pub epoch: Epoch,
    /// The highest promise of any witness, the marks of valid frames included.
    pub witnessed: Lsn,
    /// Of a live directory: records that no promise covers yet.
    pub(crate) unvouched_records: u64,
    /// Of a live directory: the time of the newest record that one covers.
    pub(crate) vouched_time: UnixMs,
    /// What is written again before the first new mark, when it was asked for.
    pub(crate) tail: Option<TailImage>,
}

/// The verdict with all that belongs to it.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// In a word.
    pub verdict: Verdict,
    /// The row.
    pub row: Row,
    /// True when another process holds the directory: the verdict vouches for `end_lsn` and says nothing of what follows.
    pub live: bool,
    /// lsn(L); of a live directory the newest synced mark.
    pub end_lsn: Lsn,
    /// The time of the newest record below `end_lsn`, or of the snapshot when it ends there; 0 when it is not known.
    pub log_time: UnixMs,
    /// Records in valid frames of judged segments.
    pub records: u64,
    /// Segments that lie wholly below the snapshot, oldest first.
    pub unjudged_segments: Vec<UnjudgedSegment>,
    /// Segments that a start would have to read and that the reading did not reach, oldest first: those behind L, and the
    /// one that L is in when it cannot be read at all.
    pub unread_segments: Vec<UnjudgedSegment>,
    /// Everything that was found, reasons of the row first.
    pub findings: Vec<Finding>,
    /// The judged segments.
    pub segments: Vec<SegmentSummary>,
    /// The control file, when it could be read.
    pub control: Option<Control>,
    /// The snapshot that reading began with.
    pub snapshot: Option<SnapshotSummary>,
    /// EpochStart records that were read, in order.
    pub epochs: Vec<HistoryEntry>,
    /// L; none for a new directory and when reading did not get that far.
    pub end: Option<LogEnd>,
    /// A newest segment that is judged as absent and will be moved aside.
    pub(crate) aside: Option<String>,
}

impl Judgement {
    /// Whether the newest segment lost its end: how far the log went, nobody knows then.
    pub fn is_cut_short(&self) -> bool {
        self.findings.iter().any(|finding| finding.message == CUT_SHORT)
    }

    /// The letter of the row.
    pub fn letter(&self) -> char {
        self.row.letter()
    }

    /// The findings that are reasons of the row that decided.
    pub fn reasons(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.kind == FindingKind::Row(self.row))
    }
}
