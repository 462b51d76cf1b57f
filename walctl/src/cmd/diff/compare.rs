//! Side by side through two logs, from the first position that both hold to the end of the shorter one.

use idem_protocol::Lsn;

use super::side::{At, Found, Side};
use crate::chain::{self, Chain};
use crate::exit::Failure;
use crate::view::View;

/// How often reading begins anew because a server removed what was about to be read.
const ATTEMPTS: usize = 10;

/// What came out of it.
pub(super) struct Compared {
    /// The first position that both hold.
    pub(super) from: Lsn,
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

/// Compares. Memory is that of the largest group of each side.
pub(super) fn compare(views: [&View; 2]) -> Result<Compared, Failure> {
    for _ in 0..ATTEMPTS {
        if let Some(compared) = attempt(views)? {
            return Ok(compared);
        }
    }
    Err(Failure::usage(
        "segments are removed faster than they are read; take a copy, or a larger wal-keep-bytes",
    ))
}

/// Nothing when segments went meanwhile.
fn attempt([a, b]: [&View; 2]) -> Result<Option<Compared>, Failure> {
    let read = |view: &View| chain::read(view).map_err(Failure::io("reading the headers of the segments"));
    let chains = [read(a)?, read(b)?];
    let from = match common_start(&chains) {
        Ok(from) => from,
        Err(difference) => return Ok(Some(nothing_read(difference))),
    };
    for (chain, name) in chains.iter().zip(["A", "B"]) {
        if let Some(first) = chain.first().filter(|_| chain.is_cut) {
            eprintln!(
                "walctl: note: {name} has a gap below lsn {first}; what lies before it is not compared"
            );
        }
    }
    let [chain_a, chain_b] = &chains;
    let mut sides = [Side::open(a, chain_a, from)?, Side::open(b, chain_b, from)?];
    for (index, name) in ["A", "B"].into_iter().enumerate() {
        let end_words = |side: &Side| {
            let other = if index == 0 { "B" } else { "A" };
            format!("{name} ends at lsn {}, {other} begins at lsn {from}", side.lsn())
        };
        let difference = match sides[index].skip_to(from)? {
            At::There => continue,
            At::Gap => return Ok(None),
            At::End => Difference::NoCommonRange {
                lsn: from,
                words: end_words(&sides[index]),
            },
            At::Inside(lsn) => Difference::Boundary { lsn },
        };
        return Ok(Some(Compared {
            from,
            difference: Some(difference),
            sides: Some(sides),
        }));
    }
    let epochs = [sides[0].epoch(), sides[1].epoch()];
    if epochs[0] != epochs[1] {
        return Ok(Some(Compared {
            from,
            difference: Some(Difference::Epoch {
                lsn: from,
                epochs: epochs.map(|epoch| epoch.to_string()),
            }),
            sides: Some(sides),
        }));
    }
    let mut difference = None;
    loop {
        let [a, b] = &mut sides;
        let at = [a.load()?, b.load()?];
        if at.contains(&At::Gap) {
            return Ok(None);
        }
        if at.contains(&At::End) {
            break;
        }
        let both = a.rest().len().min(b.rest().len());
        let (left, right) = (&a.rest()[..both], &b.rest()[..both]);
        if left == right {
            a.pass(both);
            b.pass(both);
            continue;
        }
        let same = left.iter().zip(right).take_while(|(x, y)| x == y).count();
        let found = Box::new([a.record_at(same), b.record_at(same)]);
        // What is before is the same, and so are the boundaries in it.
        let lsn = found[0].as_ref().map_or(a.lsn(), |found| found.lsn);
        difference = Some(Difference::Record { lsn, found });
        break;
    }
    // The position of a touch that holds nothing: one log begins where the other ends.
    let firsts = [chains[0].first(), chains[1].first()];
    if difference.is_none() && sides.iter().any(|side| side.lsn() == from) && firsts[0] != firsts[1] {
        difference = Some(Difference::NoCommonRange {
            lsn: from,
            words: format!("one log ends at lsn {from}, where the other begins"),
        });
    }
    Ok(Some(Compared {
        from,
        difference,
        sides: Some(sides),
    }))
}

fn nothing_read(difference: Difference) -> Compared {
    Compared {
        from: difference.lsn(),
        difference: Some(difference),
        sides: None,
    }
}

/// Where the younger of the two kept logs begins, when they are of one history.
fn common_start([a, b]: &[Chain; 2]) -> Result<Lsn, Difference> {
    let missing = |name: &str| Difference::NoCommonRange {
        lsn: Lsn::ZERO,
        words: format!("there is no log in {name}"),
    };
    let first_a = a.links.first().ok_or_else(|| missing("A"))?;
    let first_b = b.links.first().ok_or_else(|| missing("B"))?;
    let from = first_a.first().max(first_b.first());
    let clusters = [first_a.header.cluster, first_b.header.cluster];
    if clusters[0] == clusters[1] {
        Ok(from)
    } else {
        Err(Difference::Cluster {
            lsn: from,
            clusters: clusters.map(|cluster| cluster.to_string()),
        })
    }
}
