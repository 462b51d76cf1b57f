//! Side by side through two logs, from the first position that both hold to the end of the shorter one. What one of them
//! does not hold on the way, or not undamaged, is left out, and comparing goes on with what both hold again.

use std::path::Path;

use idem_protocol::wal::{parse_segment_name, segment_name};
use idem_protocol::{ClusterId, Lsn};
use idem_wal::reader::HeaderPage;
use idem_wal::storage::{Dir, Storage};

use super::side::{At, Found, Side};
use crate::exit::Failure;
use crate::view::View;

/// How often reading begins anew because a server removed what was about to be read.
const ATTEMPTS: usize = 10;

/// What came out of it.
pub(super) struct Compared {
    /// The first position that both hold.
    pub(super) from: Lsn,
    /// Where comparing ended.
    pub(super) to: Lsn,
    /// What was compared and is the same, in order.
    pub(super) same: Vec<(Lsn, Lsn)>,
    /// What differs, if anything does.
    pub(super) difference: Option<Difference>,
    /// The sides where they stand: at their common end, or at the difference. None when nothing was read.
    pub(super) sides: Option<[Side; 2]>,
}

/// The first thing that is not the same.
pub(super) enum Difference {
    /// Other bytes in the record that begins here.
    Record {
        lsn: Lsn,
        found: Box<[Option<Found>; 2]>,
    },
    /// A record of one log begins before this position and reaches over it; in the other one it is a boundary.
    Boundary { lsn: Lsn },
    /// The records before this position were written in another epoch.
    Epoch { lsn: Lsn, epochs: [String; 2] },
    /// Not the same history at all.
    Cluster { lsn: Lsn, clusters: [String; 2] },
    /// One log is gone, or ends before the other begins.
    NoCommonRange { lsn: Lsn, words: String },
}

impl Difference {
    /// Where it is; nothing that follows can be relied on.
    pub(super) fn lsn(&self) -> Lsn {
        match self {
            Difference::Record { lsn, .. }
            | Difference::Boundary { lsn }
            | Difference::Epoch { lsn, .. }
            | Difference::Cluster { lsn, .. }
            | Difference::NoCommonRange { lsn, .. } => *lsn,
        }
    }

    /// The word that scripts know it by.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Difference::Record { .. } | Difference::Boundary { .. } => "record",
            Difference::Epoch { .. } => "epoch",
            Difference::Cluster { .. } => "cluster",
            Difference::NoCommonRange { .. } => "no_common_range",
        }
    }
}

/// Compares. Memory is that of the largest group of each side. The paths are for messages.
pub(super) fn compare(views: [&View; 2], paths: [&Path; 2]) -> Result<Compared, Failure> {
    for _ in 0..ATTEMPTS {
        if let Some(compared) = attempt(views, paths)? {
            return Ok(compared);
        }
    }
    Err(Failure::usage(
        "segments are removed faster than they are read; take a copy, or a larger wal-keep-bytes",
    ))
}

/// Nothing when segments went meanwhile.
fn attempt(views: [&View; 2], paths: [&Path; 2]) -> Result<Option<Compared>, Failure> {
    let kept = match [kept(views[0])?, kept(views[1])?] {
        [Some(a), Some(b)] => [a, b],
        [a, _] => {
            let name = if a.is_none() { "A" } else { "B" };
            return Ok(Some(nothing_read(Difference::NoCommonRange {
                lsn: Lsn::ZERO,
                words: format!("there is no log in {name}"),
            })));
        }
    };
    let start = match common_start(&kept) {
        Ok(start) => start,
        Err(difference) => return Ok(Some(nothing_read(difference))),
    };
    let open = |side: usize| Side::open(views[side], paths[side], kept[side].holding(start), start);
    let mut sides = [open(0)?, open(1)?];
    let mut stretches = Stretches::default();
    let mut to = start;
    let difference = loop {
        let [a, b] = &mut sides;
        let at = [a.skip_to(to)?, b.skip_to(to)?, a.load()?, b.load()?];
        if at.contains(&At::Gap) {
            return Ok(None);
        }
        let inside = at.iter().find_map(|at| match at {
            At::Inside(lsn) => Some(*lsn),
            At::There | At::End | At::Gap => None,
        });
        if let Some(lsn) = inside {
            break Some(Difference::Boundary { lsn });
        }
        if at.contains(&At::End) {
            break None;
        }
        if a.lsn() != b.lsn() {
            // One of them holds nothing here.
            to = a.lsn().max(b.lsn());
            continue;
        }
        if stretches.begin(a.lsn())
            && let [Some(left), Some(right)] = [a.epoch(), b.epoch()]
            && left != right
        {
            break Some(Difference::Epoch {
                lsn: a.lsn(),
                epochs: [left.to_string(), right.to_string()],
            });
        }
        let both = a.rest().len().min(b.rest().len());
        let (left, right) = (&a.rest()[..both], &b.rest()[..both]);
        if left == right {
            a.pass(both);
            b.pass(both);
            to = a.lsn();
            stretches.end = to;
            continue;
        }
        let same = left.iter().zip(right).take_while(|(x, y)| x == y).count();
        let found = Box::new([a.record_at(same), b.record_at(same)]);
        // What is before is the same, and so are the boundaries in it.
        let lsn = found[0].as_ref().map_or(a.lsn(), |found| found.lsn);
        break Some(Difference::Record { lsn, found });
    };
    let same = stretches.finish();
    let is_whole = sides.iter().all(|side| side.damage().is_none());
    // Two logs that begin at one position and hold nothing are the same; a position where one ends and the other begins is
    // none that both hold.
    let is_touch = kept[0].first != kept[1].first;
    let difference = match difference {
        None if same.is_empty() && is_whole && is_touch => Some(Difference::NoCommonRange {
            lsn: start,
            words: format!(
                "A holds lsn {} to {}, B lsn {} to {}",
                kept[0].first,
                sides[0].lsn(),
                kept[1].first,
                sides[1].lsn()
            ),
        }),
        other => other,
    };
    Ok(Some(Compared {
        from: start,
        to: sides[0].lsn().min(sides[1].lsn()),
        same,
        difference,
        sides: Some(sides),
    }))
}

fn nothing_read(difference: Difference) -> Compared {
    Compared {
        from: difference.lsn(),
        to: difference.lsn(),
        same: Vec::new(),
        difference: Some(difference),
        sides: None,
    }
}

/// The stretches that were compared.
#[derive(Default)]
struct Stretches {
    done: Vec<(Lsn, Lsn)>,
    begin: Option<Lsn>,
    end: Lsn,
}

impl Stretches {
    /// Something that both hold is at `lsn`. True where a stretch begins.
    fn begin(&mut self, lsn: Lsn) -> bool {
        if self.begin.is_some() && self.end == lsn {
            return false;
        }
        self.close();
        self.begin = Some(lsn);
        self.end = lsn;
        true
    }

    fn close(&mut self) {
        if let Some(begin) = self.begin.take().filter(|begin| *begin < self.end) {
            self.done.push((begin, self.end));
        }
    }

    fn finish(mut self) -> Vec<(Lsn, Lsn)> {
        self.close();
        self.done
    }
}

/// What is known of a log before it is read.
struct Kept {
    /// Its oldest position, by name.
    first: Lsn,
    /// Where its segments begin.
    firsts: Vec<Lsn>,
    /// Whose it is, when a header says it.
    cluster: Option<ClusterId>,
}

impl Kept {
    /// Where the segment begins that holds a position.
    fn holding(&self, lsn: Lsn) -> Lsn {
        let after = self.firsts.partition_point(|first| *first <= lsn);
        self.firsts.get(after.saturating_sub(1)).copied().unwrap_or(lsn)
    }
}

/// Looks at the names and at the newest good header; whatever cannot be read is met again where its records are wanted.
fn kept(view: &View) -> Result<Option<Kept>, Failure> {
    let names = view.list(Dir::Wal).map_err(Failure::io("listing the log"))?;
    let mut firsts: Vec<Lsn> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    firsts.sort_unstable();
    let cluster = firsts.iter().rev().find_map(|first| {
        let file = view.open(Dir::Wal, &segment_name(*first)).ok()?;
        let header = HeaderPage::read(&file).ok()?.header().ok()?;
        Some(header.cluster)
    });
    Ok(firsts.first().copied().map(|first| Kept {
        first,
        firsts,
        cluster,
    }))
}

/// Where the younger of the two kept logs begins, when they are of one history.
fn common_start([a, b]: &[Kept; 2]) -> Result<Lsn, Difference> {
    let from = a.first.max(b.first);
    match (a.cluster, b.cluster) {
        (Some(left), Some(right)) if left != right => Err(Difference::Cluster {
            lsn: from,
            clusters: [left, right].map(|cluster| cluster.to_string()),
        }),
        _ => Ok(from),
    }
}
