//! What goes on with a history and what does not, gaps, names, and manifests that were changed.

use idem_protocol::wal::{Predecessor, Salt, SegmentHeader};

use super::*;
use crate::chain::Link;

/// Segments `(first, end, crc)` of one node.
fn sealed(segments: &[(u64, u64, u32)]) -> Vec<Sealed> {
    let one = |&(first, end, crc): &(u64, u64, u32)| Sealed {
        link: Link {
            name: format!("{first:020}.wal"),
            header: SegmentHeader {
                node: NodeId([1; 16]),
                cluster: ClusterId([2; 16]),
                first_lsn: Lsn::new(first),
                salt: Salt([0; 8]),
                epoch: Epoch::default(),
                predecessor: None,
            },
        },
        end: Lsn::new(end),
        crc,
        epoch: Epoch {
            number: 3,
            nonce: 0xab,
        },
    };
    let mut sealed: Vec<Sealed> = segments.iter().map(one).collect();
    // What the first one follows is what the tests archive there: a hundred lsns, with the hundreds of their beginning.
    let mut before = sealed
        .first()
        .filter(|first| first.link.first() > Lsn::ZERO)
        .map(|first| {
            let end = first.link.first();
            let crc = u32::try_from(end.get() / 100 - 1).unwrap();
            (Lsn::new(end.get().saturating_sub(100)), end, crc)
        });
    for segment in &mut sealed {
        segment.link.header.predecessor = before.map(|(first_lsn, end_lsn, crc)| Predecessor {
            first_lsn,
            end_lsn,
            crc,
        });
        before = Some((segment.link.first(), segment.end, segment.crc));
    }
    sealed
}

fn manifest(segments: &[(u64, u64, u32)]) -> Manifest {
    let mut manifest = Manifest::new(ClusterId([2; 16]), NodeId([1; 16]));
    let entry = |&(first_lsn, end_lsn, records_crc): &(u64, u64, u32)| SegmentEntry {
        file: format!("{first_lsn:020}.wal"),
        first_lsn,
        end_lsn,
        records_crc,
        first_time_ms: 1,
        last_time_ms: 2,
        bytes: 5000,
        crc: 7,
    };
    manifest.segments = segments.iter().map(entry).collect();
    manifest
}

#[test]
fn a_history_goes_on_with_what_is_the_same_and_leaves_no_gap() {
    let known = [(100, 200, 1), (200, 300, 2)];
    for (segments, expected) in [
        (&[(100, 200, 1), (200, 300, 2), (300, 400, 3)][..], true),
        (&[(200, 300, 2), (300, 400, 3)], true),
        (&[(300, 400, 3)], true),
        (&[(200, 300, 2)], true),
        // Retention had not gone so far when somebody else archived.
        (&[(0, 100, 9), (100, 200, 1)], true),
        // Another content, another end, another cut.
        (&[(200, 300, 5), (300, 400, 3)], false),
        (&[(200, 280, 2), (280, 400, 3)], false),
        (&[(250, 400, 3)], false),
        // A gap.
        (&[(400, 500, 4)], false),
        // Nothing in common, and nothing that says what comes after it.
        (&[(0, 100, 9)], false),
        (&[], false),
    ] {
        let answer = manifest(&known).is_continued_by(&sealed(segments));
        assert_eq!(answer, expected, "{segments:?}");
    }
    assert!(!manifest(&[]).is_continued_by(&sealed(&known)));
}

#[test]
fn what_goes_on_has_to_name_what_is_archived_before_it() {
    let known = manifest(&[(100, 200, 1), (200, 300, 2)]);
    for (named, expected) in [
        (Some((200, 300, 2)), true),
        // Another server went on with a copy: the same positions, another content.
        (Some((200, 300, 5)), false),
        (Some((150, 300, 2)), false),
        (None, false),
    ] {
        let mut other = sealed(&[(300, 400, 3)]);
        other[0].link.header.predecessor = named.map(|(first, end, crc)| Predecessor {
            first_lsn: Lsn::new(first),
            end_lsn: Lsn::new(end),
            crc,
        });
        assert_eq!(known.is_continued_by(&other), expected, "{named:?}");
    }
}

#[test]
fn a_gap_is_what_no_history_of_the_node_has() {
    let ids = (ClusterId([2; 16]), NodeId([1; 16]));
    for (known, begin, expected) in [
        (&[(0, 100)][..], 100, None),
        (&[(0, 100)], 150, Some((100, 150))),
        (&[(0, 100), (150, 300)], 150, Some((100, 150))),
        (&[(0, 100), (20, 120)], 150, Some((120, 150))),
        // Another content of the same positions reaches further.
        (&[(0, 100), (0, 200)], 150, None),
        (&[(0, 100)], 0, None),
        (&[], 150, None),
    ] {
        let history = |&(first, end): &(u64, u64)| {
            let path = PathBuf::from(format!("{first}-{end}"));
            (path, manifest(&[(first, end, 1)]))
        };
        let mut histories: Vec<_> = known.iter().map(history).collect();
        // A node that is not meant, and one with nothing in it.
        let mut other = manifest(&[(0, 150, 1)]);
        other.node = NodeId([3; 16]).to_string();
        histories.push((PathBuf::from("other"), other));
        histories.push((PathBuf::from("empty"), manifest(&[])));
        let found = gap(&histories, ids, Lsn::new(begin));
        let found = found.map(|gap| (gap.from.get(), gap.to.get()));
        assert_eq!(found, expected, "{known:?} {begin}");
    }
}

#[test]
fn the_name_tells_nodes_positions_and_epochs_apart() {
    let name = history_name(&sealed(&[(100, 200, 1)])).unwrap();
    let (ids, rest) = name.split_at(66);
    assert_eq!(ids, format!("{}-{}-", "02".repeat(16), "01".repeat(16)));
    assert_eq!(rest, "00000000000000000100-3-00000000000000ab");
}

#[test]
fn a_changed_manifest_is_refused_at_every_byte() {
    let whole = manifest(&[(0, 10, 1)]).encode();
    assert_eq!(Manifest::decode(&whole).unwrap(), manifest(&[(0, 10, 1)]));
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        // Blanks may change into nothing that matters, but never the content.
        if let Ok(manifest) = Manifest::decode(&bytes) {
            assert_eq!(manifest, self::manifest(&[(0, 10, 1)]), "byte {at}");
        }
        assert!(Manifest::decode(&whole[..at]).is_err() || whole[at..] == *b"\n");
    }
    let newer = String::from_utf8(whole)
        .unwrap()
        .replace("\"format\": 1", "\"format\": 2");
    assert!(Manifest::decode(newer.as_bytes()).unwrap_err().contains("newer"));
}
