//! What can be done about a verdict: a list of changes, found by trying.
//!
//! The log is cut at the first place that the verdict complains about, in thought only ([`Overlay`]), and judged again. As
//! long as the verdict complains about an earlier place, the cut moves there. A plan is one only when the server's own
//! function, asked about the directory as it would be, says that a server starts (or, for a new control file, what is still
//! to be repaired).
//!
//! The order of the changes is part of the plan. A process or a machine may stop after any of them: what is then found must
//! still be refused, or be what the whole plan leads to. So the control file, which promises most, comes first; then the
//! snapshots and segments that reach too far, the newest first; last the bytes after the cut, which bear witness in the
//! segment itself. With a new control file it is the other way round: without one, nothing starts.
//!
//! Deliberately absent: going on *after* a damaged place. The format has no log with a hole, and a state without some of its
//! changes is one that never was.

use idem_protocol::control::Control;
use idem_protocol::wal::{SEGMENT_HEADER_BYTES, SegmentHeader};
use idem_protocol::{Lsn, UnixMs};
use idem_wal::recovery::{Judgement, Row, Verdict};
use idem_wal::storage::{Dir, Storage};

use super::cut::{self, Cuts};
use super::overlay::{Overlay, Patches};
use super::{judge_all, rebuild};
use crate::exit::Failure;
use crate::text::Time;

/// A plan's name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Only what was never promised goes.
    CutTail,
    /// What was promised goes, too.
    AcceptLoss,
    /// A new control file.
    Control,
}

impl Kind {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Kind::CutTail => "cut-tail",
            Kind::AcceptLoss => "accept-loss",
            Kind::Control => "control",
        }
    }
}

/// One change of the directory.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// The control file is replaced.
    Control {
        /// By this one.
        control: Box<Control>,
        /// How long the old one is; none when it is missing.
        old_bytes: Option<u64>,
    },
    /// Both copies of a segment's header are replaced.
    Header {
        /// The segment.
        name: String,
        /// What it says from then on.
        header: SegmentHeader,
    },
    /// A file goes to the backup.
    Move {
        /// Where it is.
        dir: Dir,
        /// Its name.
        name: String,
        /// Its length.
        bytes: u64,
    },
    /// A segment becomes zeros.
    Cut {
        /// The segment.
        name: String,
        /// From here on.
        offset: u64,
        /// Bytes up to the last one that is not zero.
        bytes: u64,
        /// Those in pages that are not zero already: so many have to be copied.
        data_bytes: u64,
    },
}

impl Change {
    /// How many bytes the backup copies for it; a file that is moved is not copied on the same file system.
    pub(super) fn copied_bytes(&self) -> u64 {
        match self {
            Change::Control { old_bytes, .. } => old_bytes.unwrap_or(0),
            Change::Header { .. } => SEGMENT_HEADER_BYTES as u64,
            Change::Move { .. } => 0,
            Change::Cut { data_bytes, .. } => *data_bytes,
        }
    }
}

/// What the directory would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct After {
    pub(super) row: Row,
    pub(super) end_lsn: Lsn,
    pub(super) log_time: UnixMs,
}

impl From<&Judgement> for After {
    fn from(judgement: &Judgement) -> After {
        After {
            row: judgement.row,
            end_lsn: judgement.end_lsn,
            log_time: judgement.log_time,
        }
    }
}

/// A plan that leads somewhere.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    /// In the order in which they are made.
    pub(super) changes: Vec<Change>,
    /// Where what is lost lies.
    pub(super) cuts: Cuts,
    pub(super) after: After,
    /// What else whoever decides should know.
    pub(super) notes: Vec<String>,
}

/// What can be done.
#[derive(Clone, Debug)]
pub(super) enum Proposal {
    /// A server starts as it is.
    Nothing,
    /// This.
    Plan(Box<Plan>),
    /// Nothing from here: why, and where else help may come from.
    Advice(String),
}

const ELSEWHERE: &str = "what is missing can only come from elsewhere: a replica, or a copy of the directory (walctl archive, \
                         walctl restore)";

/// The plan for what was judged. `judgement` is of `storage`, whose lock nobody else has. `was_begun` says that an earlier
/// repair stopped in the middle and cannot be gone on with: files of two nodes are then its doing.
pub(super) fn propose<S: Storage>(
    storage: &S,
    judgement: &Judgement,
    was_begun: bool,
    node: [u8; 16],
) -> Result<Proposal, Failure> {
    Ok(match judgement.row {
        Row::New | Row::A | Row::B => Proposal::Nothing,
        Row::C | Row::D | Row::E => by_cutting(storage, judgement, Kind::CutTail)?,
        Row::F | Row::J => by_cutting(storage, judgement, Kind::AcceptLoss)?,
        Row::G if judgement.control.is_none() => by_new_control(storage, judgement, node)?,
        Row::G => Proposal::Advice(format!(
            "there is no plan for a part of the log that is missing; {ELSEWHERE}. A file that is only misnamed can be \
             renamed, and one in wal/ that is no segment moved away, by hand"
        )),
        Row::H if judgement.control.is_none() && was_begun => by_new_control(storage, judgement, node)?,
        Row::H => Proposal::Advice(
            "these files are of a newer version, or do not belong together: use the program that wrote them, or find out \
             whose they are; nothing is damaged"
                .to_owned(),
        ),
        Row::I => Proposal::Advice(
            "the disk does not answer: look at the kernel's log, copy the directory with a tool that goes on after read \
             errors, and repair the copy"
                .to_owned(),
        ),
    })
}

fn by_new_control<S: Storage>(
    storage: &S,
    judgement: &Judgement,
    node: [u8; 16],
) -> Result<Proposal, Failure> {
    let Some(changes) = rebuild::changes(storage, judgement, node)? else {
        return Ok(Proposal::Advice(format!(
            "there is no segment to make a control file of; {ELSEWHERE}"
        )));
    };
    let after = judge_all(&Overlay::new(storage.clone(), patches(&changes)));
    if matches!(after.row, Row::G | Row::H | Row::I) {
        return Ok(Proposal::Advice(format!(
            "a new control file would not be enough, the verdict would still be {} ({}); {ELSEWHERE}",
            after.verdict.word(),
            first_reason(&after)
        )));
    }
    let mut notes = vec![
        "the old file would say whether the log went on: if newer segments were lost along with it, nothing shows that"
            .to_owned(),
    ];
    if !after.verdict.starts() {
        notes.push(format!(
            "the verdict is then {}: repair again afterwards",
            after.verdict.word()
        ));
    }
    Ok(Proposal::Plan(Box::new(Plan {
        kind: Kind::Control,
        changes,
        cuts: Cuts::default(),
        after: After::from(&after),
        notes,
    })))
}

fn by_cutting<S: Storage>(storage: &S, judgement: &Judgement, kind: Kind) -> Result<Proposal, Failure> {
    let mut cuts = Cuts::default();
    let mut found = judgement.clone();
    let mut changes = Vec::new();
    while !found.verdict.starts() || found.row.cuts() {
        let now = Overlay::new(storage.clone(), patches(&changes));
        let steps = match found.row {
            Row::C | Row::D | Row::E | Row::F | Row::J => cuts.take(&now, &found)?,
            _ => false,
        };
        if !steps {
            return Ok(Proposal::Advice(without_an_end(&found)));
        }
        changes = cut::changes(storage, judgement, &cuts)?;
        found = judge_all(&Overlay::new(storage.clone(), patches(&changes)));
    }
    let mut notes = Vec::new();
    if kind == Kind::AcceptLoss && cuts.end.is_some_and(|end| end.lsn < promised(judgement)) {
        let since = match found.log_time {
            UnixMs::ZERO => "all that clients were told is forgotten".to_owned(),
            time => format!("what clients were told after {} is forgotten", Time::from(time)),
        };
        notes.push(format!(
            "{since}: keys that were begun or completed since can be acquired again"
        ));
    }
    if !cuts.surplus.is_empty() {
        notes.push(
            "a segment goes on after the end that the next one names: what is too much goes, and the log goes on with the \
             next segment"
                .to_owned(),
        );
    }
    if !cuts.revouched.is_empty() {
        notes.push(
            "a segment's records read whole, each with a good checksum, and are not all those that were written; they are \
             kept, and vouched for from now on"
                .to_owned(),
        );
    }
    Ok(Proposal::Plan(Box::new(Plan {
        kind,
        changes,
        cuts,
        after: After::from(&found),
        notes,
    })))
}

/// The highest position that something was promised up to, or that the log reads up to.
pub(super) fn promised(judgement: &Judgement) -> Lsn {
    // Also a reason for another row than the one that decides: what it speaks of is lost all the same.
    let promises = judgement.findings.iter().filter_map(|finding| finding.promised);
    promises.fold(judgement.end_lsn, Lsn::max)
}

fn without_an_end(found: &Judgement) -> String {
    let why = match found.verdict {
        Verdict::Hole => "no state is left that the rest of the log could begin with",
        _ => "nothing of the log can be read before the damage",
    };
    format!(
        "there is no plan: {why} ({} {}: {}); {ELSEWHERE}",
        found.letter(),
        found.verdict.word(),
        first_reason(found)
    )
}

fn first_reason(judgement: &Judgement) -> &str {
    judgement
        .reasons()
        .next()
        .map_or("no reason", |finding| &finding.message)
}

/// The changes as differences.
fn patches(changes: &[Change]) -> Patches {
    let mut patches = Patches::default();
    for change in changes {
        match change {
            Change::Control { control, .. } => {
                let place = (Dir::Root, idem_wal::control::CONTROL_NAME.to_owned());
                patches.whole.insert(place, control.encode());
            }
            Change::Header { name, header } => {
                patches
                    .heads
                    .insert((Dir::Wal, name.clone()), header.encode_page());
            }
            Change::Move { dir, name, .. } => {
                patches.hidden.insert((*dir, name.clone()));
            }
            Change::Cut { name, offset, .. } => {
                patches.zero_from.insert((Dir::Wal, name.clone()), *offset);
            }
        }
    }
    patches
}
