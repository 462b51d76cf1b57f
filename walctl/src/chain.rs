//! The segments of a directory as their headers tell of one another, before any frame is read.
//!
//! Each header names the segment before it: its first lsn, its end and the checksum of its records. A segment that has a
//! successor is therefore complete, *sealed*, and what it has to hold is known.
//!
//! Deliberately absent: a verdict. Only what hangs together up to the newest segment is a chain; what lies before a gap is
//! left out of it, and whether the gap is one that matters is for `walctl verify`.

use std::io;

use idem_protocol::wal::{HeaderError, SegmentHeader, parse_segment_name};
use idem_protocol::{Epoch, Lsn};
use idem_wal::reader::HeaderPage;
use idem_wal::storage::{Dir, Storage};

use crate::view::View;

/// A segment with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Its file name.
    pub(crate) name: String,
    /// Its header, from whichever copy is good.
    pub(crate) header: SegmentHeader,
}

impl Link {
    /// Where it begins.
    pub(crate) fn first(&self) -> Lsn {
        self.header.first_lsn
    }
}

/// The newest segments that follow one another without a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Oldest first; empty for a directory without a log.
    pub(crate) links: Vec<Link>,
    /// Whether there are older segments, which a gap parts from these.
    pub(crate) is_cut: bool,
}

impl Chain {
    /// Where it begins.
    pub(crate) fn first(&self) -> Option<Lsn> {
        self.links.first().map(Link::first)
    }
}

/// Reads the headers, newest first, up to a file that cannot be read; whoever asks was told of that by other means.
///
/// A newest segment without a good header holds nothing that could be told apart from junk, and is left out. Names that
/// go while the directory is read (a server removes the oldest ones) are left out, too.
pub(crate) fn read_what_can_be(view: &View) -> io::Result<Chain> {
    let names = view.list(Dir::Wal)?;
    let mut named: Vec<(Lsn, String)> = names
        .into_iter()
        .filter_map(|name| Some((parse_segment_name(&name)?, name)))
        .collect();
    named.sort_unstable();
    let mut links: Vec<Link> = Vec::new();
    let mut is_cut = false;
    for (first, name) in named.into_iter().rev() {
        let page = match view
            .open(Dir::Wal, &name)
            .and_then(|file| HeaderPage::read(&file))
        {
            Ok(page) => page,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(_) => {
                is_cut = true;
                break;
            }
        };
        let header = match page.header() {
            Ok(header) => header,
            Err(HeaderError::Damaged) if links.is_empty() => continue,
            Err(HeaderError::Damaged) => {
                is_cut = true;
                break;
            }
            Err(error @ HeaderError::NewerFormat(_)) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{}: {error}", Dir::Wal.join(&name)),
                ));
            }
        };
        let follows = links.last().is_none_or(|after| {
            let named = after.header.predecessor.map(|before| before.first_lsn);
            named == Some(first) && (after.header.node, after.header.cluster) == (header.node, header.cluster)
        });
        if header.first_lsn != first || !follows {
            is_cut = true;
            break;
        }
        links.push(Link { name, header });
    }
    links.reverse();
    Ok(Chain { links, is_cut })
}

/// A segment that has a successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    /// The segment.
    pub(crate) link: Link,
    /// Where it ends.
    pub(crate) end: Lsn,
    /// CRC-32 of all its record bytes.
    pub(crate) crc: u32,
    /// The epoch in force at its end.
    pub(crate) epoch: Epoch,
}

/// Those of a chain that are sealed: all but the newest.
pub(crate) fn sealed(chain: &Chain) -> Vec<Sealed> {
    let pairs = chain.links.windows(2).filter_map(|pair| {
        let [link, after] = pair else { return None };
        let named = after.header.predecessor?;
        Some(Sealed {
            link: link.clone(),
            end: named.end_lsn,
            crc: named.crc,
            epoch: after.header.epoch,
        })
    });
    pairs.collect()
}
