//! How much of what was read can be relied on, whatever the verdict says of the rest.

use idem_protocol::Lsn;
use idem_protocol::wal::parse_segment_name;
use idem_wal::recovery::{Finding, FindingKind, Judgement, SnapshotSummary};
use idem_wal::storage::Dir;

/// Whether a snapshot is the exact state at its end all by itself: nothing was written between its start and its end. Any
/// other one was written while the log went on, and is a state only together with the log from its start to its end.
pub(super) fn is_exact(snapshot: &SnapshotSummary) -> bool {
    snapshot.start == snapshot.end
}

/// Up to where nothing speaks against what was read: the log's end, or the first place that a refusing row names; and at
/// least the end of an exact snapshot, which needs no log.
pub(super) fn sound_to(judgement: &Judgement) -> Lsn {
    let damage = first_damage(judgement);
    let log = damage.map_or(judgement.end_lsn, |lsn| lsn.min(judgement.end_lsn));
    let exact = judgement.snapshot.as_ref().filter(|snapshot| is_exact(snapshot));
    exact.map_or(log, |snapshot| snapshot.end.max(log))
}

/// The first place in the log that a refusing row names.
pub(super) fn first_damage(judgement: &Judgement) -> Option<Lsn> {
    judgement.findings.iter().filter_map(place).min()
}

/// Where a refusing finding begins to hold in the log; nothing for one about the files beside it.
fn place(finding: &Finding) -> Option<Lsn> {
    let refuses = matches!(finding.kind, FindingKind::Row(row) if row.refuses());
    let place = finding.place.as_ref();
    let in_wal = place.filter(|place| place.dir == Dir::Wal);
    // One without a place in the segment speaks of all of it.
    let segment = in_wal
        .filter(|place| place.offset == 0 || finding.lsn.is_none())
        .and_then(|place| parse_segment_name(&place.name));
    let lsn = finding
        .lsn
        .filter(|_| place.is_none_or(|place| place.dir != Dir::Snap));
    refuses.then(|| segment.into_iter().chain(lsn).min()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_wal::recovery::{Found, Row};

    fn check(kind: FindingKind, found: Option<(Dir, &str, u64)>, lsn: Option<u64>, expected: Option<u64>) {
        let finding = Finding {
            kind,
            message: String::new(),
            place: found.map(|(dir, name, offset)| Found {
                dir,
                name: name.to_owned(),
                offset,
            }),
            lsn: lsn.map(Lsn::new),
            promised: None,
            expected_crc: None,
            found_crc: None,
        };
        assert_eq!(
            place(&finding),
            expected.map(Lsn::new),
            "{kind:?} {found:?} {lsn:?}"
        );
    }

    #[test]
    fn damage_begins_where_a_refusing_finding_says_and_else_with_its_segment() {
        let segment = "00000000000000000700.wal";
        let (rot, hole) = (FindingKind::Row(Row::F), FindingKind::Row(Row::G));
        // A place within the segment has an lsn of its own; one at its front speaks of the whole segment.
        check(rot, Some((Dir::Wal, segment, 5000)), Some(900), Some(900));
        check(rot, Some((Dir::Wal, segment, 0)), Some(900), Some(700));
        check(rot, Some((Dir::Wal, segment, 80)), None, Some(700));
        check(hole, Some((Dir::Wal, segment, 0)), Some(0), Some(0));
        // A name that is none has no place in the log; nor has what lies beside the log.
        check(hole, Some((Dir::Wal, "x.wal", 0)), None, None);
        check(hole, Some((Dir::Root, "control", 0)), None, None);
        check(
            FindingKind::Row(Row::H),
            Some((Dir::Snap, "00000000000000000700.snap", 0)),
            Some(700),
            None,
        );
        check(
            FindingKind::Row(Row::J),
            Some((Dir::Root, "control", 0)),
            Some(900),
            Some(900),
        );
        // What only cuts, and what stands beside any verdict, is no damage of what comes before.
        check(
            FindingKind::Row(Row::E),
            Some((Dir::Wal, segment, 5000)),
            Some(900),
            None,
        );
        check(FindingKind::Beside, Some((Dir::Wal, segment, 0)), Some(900), None);
    }
}
