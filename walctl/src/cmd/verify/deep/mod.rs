//! `--deep`: replays the kept log, and judges what a reader of bytes cannot see. Also reads what the verdict leaves out
//! ([`below`]).
//!
//! * Each transition of an IDEM key has to be one that a server writes in the state that the records before it made
//!   ([`order`]). Judged is what lies behind the base: lsn 0, or the end of the oldest good snapshot that the kept log
//!   reaches. Before the end of a snapshot the state is no state that ever was, and there is nothing to judge against.
//! * Each later good snapshot, replayed to its end, has to be the state that the log makes.
//!
//! Memory is that of one state at a time, as in a start, and of at most [`SHOWN_MAX`] findings.

pub(super) mod below;
mod order;

use idem_engine::digest::Digest;
use idem_protocol::wal::{parse_snapshot_name, snapshot_name};
use idem_protocol::{Lsn, UnixMs};
use idem_wal::reader::{LogReader, LogStep, frame_records, snapshot};
use idem_wal::storage::{Dir, Storage};

pub(super) use self::below::Below;
use crate::chain;
use crate::exit::Failure;
use crate::line;
use crate::state::State;
use crate::view::View;

/// So many findings are shown; the rest is counted.
pub(super) const SHOWN_MAX: usize = 100;

/// How often a live directory is read again because something went before it was read.
const ATTEMPTS: usize = 5;

/// One thing that should not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeepFinding {
    pub(super) kind: &'static str,
    pub(super) message: String,
    pub(super) lsn: Lsn,
    pub(super) time: Option<UnixMs>,
    pub(super) file: String,
    pub(super) offset: Option<u64>,
    /// Database and key.
    pub(super) key: Option<(u8, Vec<u8>)>,
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Deep {
    /// Everything from here on was judged.
    pub(super) from: Lsn,
    /// Up to here.
    pub(super) to: Lsn,
    /// Records in between.
    pub(super) records: u64,
    /// Snapshots that were compared with the log.
    pub(super) snapshots: u64,
    /// The first of the findings.
    pub(super) findings: Vec<DeepFinding>,
    /// All of them.
    pub(super) count: u64,
}

impl Deep {
    fn add(&mut self, finding: DeepFinding) {
        self.count += 1;
        if self.findings.len() < SHOWN_MAX {
            self.findings.push(finding);
        }
    }
}

/// What a snapshot and the log from its start on make of its end.
struct Expected {
    name: String,
    end: Lsn,
    crc: u32,
    digest: Digest,
}

/// Replays up to `end`, where the verdict ends.
///
/// `live`: a server removes segments meanwhile. Otherwise log that cannot be read is damaged, below what a start reads: what
/// follows the next snapshot is judged.
pub(super) fn run(view: &View, end: Lsn, live: bool) -> Result<Deep, Failure> {
    let mut floor = Floor::Log;
    for _ in 0..ATTEMPTS {
        match attempt(view, end, floor)? {
            Attempt::Done(deep) => {
                if floor != Floor::Log {
                    eprintln!(
                        "walctl: note: --deep begins at lsn {}: log before it is damaged; a start does not read it",
                        deep.from
                    );
                }
                return Ok(deep);
            }
            Attempt::Failed(base) if !live => floor = Floor::After(base),
            Attempt::Failed(_) | Attempt::NoBase => {}
        }
    }
    if !live {
        return Err(Failure::usage(
            "--deep: the log cannot be read from any snapshot on",
        ));
    }
    Err(Failure::usage(
        "--deep: segments are removed faster than they are read; take a copy, or a larger wal-keep-bytes",
    ))
}

/// Where replaying may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Floor {
    /// At lsn 0, or at the oldest snapshot.
    Log,
    /// At a snapshot that begins after this one, or at any, when it is none.
    After(Option<Lsn>),
}

enum Attempt {
    Done(Deep),
    /// The log could not be read from this snapshot on, or from lsn 0.
    Failed(Option<Lsn>),
    /// Without a snapshot a server would not have started: the directory changed since the verdict.
    NoBase,
}

/// Replays once.
fn attempt(view: &View, end: Lsn, floor: Floor) -> Result<Attempt, Failure> {
    // Of a segment that cannot be read, the verdict or what was read below it speaks.
    let chain = chain::read_what_can_be(view).map_err(Failure::io("reading the headers of the segments"))?;
    let Some(first) = chain.first() else {
        return Ok(Attempt::Done(Deep::default()));
    };
    let mut expected = Vec::new();
    let mut base = (first == Lsn::ZERO && floor == Floor::Log).then(State::new);
    let mut begins = None;
    let allowed = |start: &Lsn| match floor {
        Floor::Log | Floor::After(None) => *start >= first,
        Floor::After(Some(failed)) => *start > failed,
    };
    for start in snapshot_starts(view)?.into_iter().filter(allowed) {
        let Some((state, name)) = load(view, start, end)? else {
            continue;
        };
        if base.is_none() {
            base = Some(state);
            begins = Some(start);
        } else {
            expected.push(Expected {
                name,
                end: state.lsn(),
                crc: state.last_crc(),
                digest: state.digest(),
            });
        }
    }
    let Some(mut state) = base else {
        return Ok(Attempt::NoBase);
    };
    let mut deep = Deep {
        from: state.lsn(),
        ..Deep::default()
    };
    let read = replay(view, &mut state, end, &mut |state, record, decoded| {
        deep.records += 1;
        state.take_parts(&record.raw, decoded, &mut |keyspace, db, part| {
            if let Some(breach) = order::judge(keyspace, record.raw.time, db, part) {
                deep.add(DeepFinding {
                    kind: breach.kind,
                    message: breach.message,
                    lsn: record.raw.lsn,
                    time: Some(record.raw.time),
                    file: Dir::Wal.join(record.file),
                    offset: Some(record.offset),
                    key: line::key(part).map(|key| (db, key.to_vec())),
                });
            }
        });
        for snapshot in expected.iter().filter(|snapshot| snapshot.end == state.lsn()) {
            compare(&mut deep, snapshot, state);
        }
    })?;
    deep.to = state.lsn();
    Ok(if read {
        Attempt::Done(deep)
    } else {
        Attempt::Failed(begins)
    })
}

fn compare(deep: &mut Deep, snapshot: &Expected, state: &State) {
    if snapshot.crc != state.last_crc() {
        // Of another history; the verdict has found that already, and no start would use it.
        return;
    }
    deep.snapshots += 1;
    let digest = state.digest();
    if digest != snapshot.digest {
        deep.add(DeepFinding {
            kind: "snapshot_differs",
            message: format!(
                "the log makes another state of its end than the snapshot: digest {digest}, and {}",
                snapshot.digest
            ),
            lsn: snapshot.end,
            time: None,
            file: Dir::Snap.join(&snapshot.name),
            offset: None,
            key: None,
        });
    }
}

fn snapshot_starts(view: &View) -> Result<Vec<Lsn>, Failure> {
    let names = view
        .list(Dir::Snap)
        .map_err(Failure::io("listing the snapshots"))?;
    let mut starts: Vec<Lsn> = names
        .iter()
        .filter_map(|name| parse_snapshot_name(name))
        .collect();
    starts.sort_unstable();
    Ok(starts)
}

/// The state at the end of a good snapshot that ends at or below `end`. What is wrong with one that is no good is the
/// verdict's to say.
fn load(view: &View, start: Lsn, end: Lsn) -> Result<Option<(State, String)>, Failure> {
    let name = snapshot_name(start);
    let mut state = State::new();
    let read = snapshot::read(view, &name, None, &mut |raw, item| state.take_item(raw, item));
    let Ok(snapshot) = read else {
        return Ok(None);
    };
    let trailer = snapshot.trailer;
    if trailer.end_lsn > end {
        return Ok(None);
    }
    state.stand_at(start);
    let whole = replay(
        view,
        &mut state,
        trailer.end_lsn,
        &mut |state, record, decoded| {
            state.take_parts(&record.raw, decoded, &mut |_, _, _| {});
        },
    )?;
    if !whole {
        return Ok(None);
    }
    state.ends_at_least(&trailer);
    Ok(Some((state, name)))
}

type Step<'a> = dyn FnMut(&mut State, &idem_wal::reader::LogRecord<'_>, &idem_protocol::wal::Record<'_>) + 'a;

/// Hands out the records from where `state` stands to `end`; false when some of them are not there any more, or cannot be
/// read: where a start reads, that is the verdict's to say, and elsewhere a finding.
fn replay(view: &View, state: &mut State, end: Lsn, step: &mut Step<'_>) -> Result<bool, Failure> {
    let from = state.lsn();
    let mut reader = LogReader::open(view, from).map_err(Failure::io("listing the log"))?;
    while state.lsn() < end {
        let Ok(read) = reader.next_step() else {
            return Ok(false);
        };
        match read {
            LogStep::Frame { file, frame } => {
                for record in frame_records(file, frame) {
                    if record.raw.lsn < from || record.raw.end() > end {
                        continue;
                    }
                    if record.raw.lsn != state.lsn() {
                        return Ok(false);
                    }
                    // The verdict has decoded each of them.
                    let Ok(decoded) = record.raw.decode() else {
                        return Ok(false);
                    };
                    step(state, &record, &decoded);
                }
            }
            LogStep::Removed { .. } | LogStep::End { .. } => return Ok(false),
        }
    }
    Ok(true)
}
