//! What of a directory can be archived: the oldest segments that hang together, up to the first damage.
//!
//! A segment is vouched for by the header of the one that follows it. So a header that cannot be read, and a segment that is
//! not there, end what can be archived at the segment before the last good one; what lies behind must not become a history
//! of its own, in which nobody would notice that something is missing.
//!
//! Deliberately absent: a verdict on the records. Each segment's own are checked when it is copied.

use std::io;

use idem_protocol::Lsn;
use idem_protocol::control::Control;
use idem_protocol::wal::{HeaderError, SEGMENT_HEADER_BYTES, parse_segment_name, segment_name};
use idem_wal::control::{CONTROL_BYTES_MAX, CONTROL_NAME};
use idem_wal::reader::HeaderPage;
use idem_wal::storage::durable::read_all;
use idem_wal::storage::{Dir, Storage};

use crate::chain::{self, Chain, Link, Sealed};
use crate::exit::{Exit, Failure};
use crate::log_end::{Complaint, is_zero_from};
use crate::view::View;

/// What the headers say.
pub(super) struct Found {
    /// The segments that can be copied, oldest first.
    pub(super) sealed: Vec<Sealed>,
    /// The newest segment before the damage, or of all.
    pub(super) last: Option<Link>,
    /// Why nothing behind them can.
    pub(super) damage: Option<Damage>,
}

/// A segment that should be there, and is not or says nothing.
#[derive(Debug)]
pub(super) struct Damage {
    pub(super) what: Complaint,
    /// The code of the verdict on it.
    pub(super) exit: Exit,
}

impl Damage {
    fn of(name: &str, exit: Exit, words: impl std::fmt::Display) -> Damage {
        Damage {
            what: Complaint {
                words: format!("{}: {words}", Dir::Wal.join(name)),
                file: Some(name.to_owned()),
            },
            exit,
        }
    }
}

/// A name of a segment, and its header or why there is none.
type Named = (Lsn, Result<Link, Damage>);

/// Reads the headers, oldest first. A file of a newer version is an error.
pub(super) fn find(view: &View) -> Result<Found, Failure> {
    // Before the names: a segment is there before the control file says so.
    let newest = newest_of_control(view);
    let mut named = named(view)?;
    if let (Some(newest), Some((last, _))) = (newest, named.last())
        && newest > *last
    {
        let name = segment_name(newest);
        let words = "it is missing: the control file says that it is the newest one";
        named.push((newest, Err(Damage::of(&name, Exit::Hole, words))));
    }
    // What was about to be made when a server went down holds nothing.
    if let Some((first, Err(_))) = named.last()
        && is_unmade(view, *first)
    {
        named.pop();
    }
    let mut links: Vec<Link> = Vec::new();
    let mut damage = None;
    for (_, header) in named {
        let found = header.and_then(|link| match links.last() {
            Some(before) => follows(before, link),
            None => Ok(link),
        });
        match found {
            Ok(link) => links.push(link),
            Err(mut found) => {
                if let Some(before) = links.last() {
                    let before = Dir::Wal.join(&before.name);
                    found.what.words += &format!(
                        "; {before} before it cannot be checked without it, and is not copied either"
                    );
                }
                damage = Some(found);
                break;
            }
        }
    }
    let last = links.last().cloned();
    let chain = Chain { links, is_cut: false };
    Ok(Found {
        sealed: chain::sealed(&chain),
        last,
        damage,
    })
}

fn named(view: &View) -> Result<Vec<Named>, Failure> {
    let failed = || Failure::io("reading the headers of the segments");
    let names = view.list(Dir::Wal).map_err(failed())?;
    let mut firsts: Vec<Lsn> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    firsts.sort_unstable();
    let mut named: Vec<Named> = Vec::new();
    for first in firsts {
        let name = segment_name(first);
        let page = view
            .open(Dir::Wal, &name)
            .and_then(|file| HeaderPage::read(&file));
        let header = match page.map(|page| page.header()) {
            // Its server needs it no more, and so nothing that is older.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                named.clear();
                continue;
            }
            Err(error) => Err(Damage::of(
                &name,
                Exit::ReadError,
                format_args!("its header cannot be read: {error}"),
            )),
            Ok(Err(HeaderError::Damaged)) => Err(Damage::of(
                &name,
                Exit::Rot,
                "its header is damaged, in both of its copies",
            )),
            Ok(Err(error @ HeaderError::NewerFormat(_))) => {
                return Err(Failure::usage(format!("{}: {error}", Dir::Wal.join(&name))));
            }
            Ok(Ok(header)) if header.first_lsn != first => Err(Damage::of(
                &name,
                Exit::Hole,
                format_args!("its header says that it begins at lsn {}", header.first_lsn),
            )),
            Ok(Ok(header)) => Ok(Link { name, header }),
        };
        named.push((first, header));
    }
    Ok(named)
}

/// Whether nothing was ever written to the newest segment. One that cannot be read is damaged, and said to be.
fn is_unmade(view: &View, first: Lsn) -> bool {
    let zero = view
        .open(Dir::Wal, &segment_name(first))
        .and_then(|file| is_zero_from(&file, SEGMENT_HEADER_BYTES as u64));
    zero.unwrap_or(false)
}

/// What a control file that can be read says; without one nothing is known of it.
fn newest_of_control(view: &View) -> Option<Lsn> {
    let bytes = view
        .open(Dir::Root, CONTROL_NAME)
        .and_then(|file| read_all(&file, CONTROL_BYTES_MAX));
    Control::decode(&bytes.ok()?).ok()?.newest_segment
}

/// `link`, when it is the one that comes after `before`.
fn follows(before: &Link, link: Link) -> Result<Link, Damage> {
    let ids = |link: &Link| (link.header.node, link.header.cluster);
    let named = link.header.predecessor.map(|predecessor| predecessor.first_lsn);
    match named {
        Some(named) if named > before.first() => Err(Damage::of(
            &segment_name(named),
            Exit::Hole,
            format_args!("it is missing: {} goes on from it", Dir::Wal.join(&link.name)),
        )),
        Some(named) if named == before.first() && ids(before) == ids(&link) => Ok(link),
        Some(named) if named == before.first() => Err(Damage::of(
            &link.name,
            Exit::Foreign,
            format_args!(
                "it is of another node or cluster than {}",
                Dir::Wal.join(&before.name)
            ),
        )),
        _ => Err(Damage::of(
            &link.name,
            Exit::Hole,
            format_args!("it does not go on from {}", Dir::Wal.join(&before.name)),
        )),
    }
}
