//! Any value, written and read again, is the same value. One property per format; sizes cover both ends of each bound.

mod support;

use idem_protocol::Lsn;
use idem_protocol::control::Control;
use idem_protocol::idem::{IdemRecord, IdemState, RESULT_BYTES_MAX, TOKEN_BYTES_MAX};
use idem_protocol::limit::{BUCKET_MAX, LimitRecord, MAX_MAX, TOKEN_PARTS, Usage};
use idem_protocol::repl::{self, HelloEpoch, LinkKind, Message, PIECE_BYTES_MAX};
use idem_protocol::snapshot::SnapshotHeader;
use idem_protocol::wal::scan::{PayloadCheck, check_payload, records};
use idem_protocol::wal::{
    FRAME_ALIGN, FrameHeader, Predecessor, RawRecord, SECOND_COPY_OFFSET, Salt, SegmentHeader, padded,
    parse_segment_name, parse_snapshot_name, segment_name, snapshot_name,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use support::owned::{Owned, OwnedIdem};
use support::snapshot::SnapshotFile;
use support::strategies::*;

/// The same cases on every run.
fn config(cases: u32) -> ProptestConfig {
    let (rng_seed, failure_persistence) = (RngSeed::Fixed(0x1de_0001), None);
    ProptestConfig {
        cases,
        rng_seed,
        failure_persistence,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn idem_records(record in idem()) {
        let bytes = record.encode();
        prop_assert_eq!(bytes.len(), record.borrow().encoded_len());
        prop_assert_eq!(IdemRecord::decode(&bytes), Ok(record.borrow()));
        prop_assert_eq!(IdemRecord::decode_stored(&bytes).is_ok(), record.state != IdemState::Aborted);
    }

    #[test]
    fn limit_records(
        (max, previous) in (1..=MAX_MAX, 0..=MAX_MAX), window_ms in 1..=u32::MAX, start_ms in 0..1u64 << 48, mode in 0..3,
        share in any::<u64>()
    ) {
        let count = 1 + u32::try_from(share % u64::from(max)).unwrap();
        let bucket = max.min(BUCKET_MAX);
        let (max, usage) = match mode {
            0 => (max, Usage::Fixed { count, previous: 0 }),
            1 => (max, Usage::Sliding { count, previous }),
            _ => (bucket, Usage::Tokens { level: share % (u64::from(bucket - 1) * TOKEN_PARTS + 1) }),
        };
        let record = LimitRecord { max, window_ms, start_ms, usage };
        prop_assert_eq!(LimitRecord::decode(&record.encode()), Some(record));
    }

    #[test]
    fn log_records(record in record(), lsn in lsn(), time in time(), db in any::<u8>(), after in bytes()) {
        let bytes = record.encode(lsn, time, db);
        let stream = [&bytes[..], &after].concat();
        let raw = RawRecord::parse(&stream).unwrap();
        prop_assert_eq!((raw.lsn, raw.time, raw.db, raw.bytes), (lsn, time, db, &bytes[..]));
        prop_assert_eq!(raw.checked_end(), Some(lsn.plus(bytes.len() as u64)));
        prop_assert_eq!(Owned::of(raw.decode().unwrap()), record);
    }

    /// What was read is written again to the same bytes: a record passes from node to node unchanged.
    #[test]
    fn records_that_were_read_are_written_alike(record in record(), lsn in lsn(), time in time(), db in any::<u8>()) {
        let bytes = record.encode(lsn, time, db);
        let raw = RawRecord::parse(&bytes).unwrap();
        let mut again = Vec::new();
        let crc = raw.decode().unwrap().encode(raw.lsn, raw.time, raw.db, &mut again);
        prop_assert_eq!((again, crc), (bytes.clone(), raw.crc));
    }

    #[test]
    fn frames(parts in prop::collection::vec(record(), 0..8), first in lsn(), time in time(), salt in any::<[u8; 8]>()) {
        let (mut payload, mut at) = (Vec::new(), first);
        for part in &parts {
            let bytes = part.encode(at, time, 0);
            at = at.plus(bytes.len() as u64);
            payload.extend(bytes);
        }
        let header = FrameHeader {
            payload_bytes: u32::try_from(payload.len()).unwrap(),
            lsn: first,
            synced: first,
            count: u32::try_from(parts.len()).unwrap(),
            seal: false,
        };
        prop_assert_eq!(FrameHeader::decode(&header.encode(Salt(salt)), Salt(salt)), Some(header));
        prop_assert_eq!(header.end(), Some(at));
        prop_assert_eq!(check_payload(&header, &payload), Ok(()));
        let read: Vec<Owned> = records(&payload).map(|(_, raw)| Owned::of(raw.decode().unwrap())).collect();
        prop_assert_eq!(&read, &parts);
        // One record more or fewer, another place, a byte too many: not this frame.
        let more = FrameHeader { count: header.count + 1, ..header };
        prop_assert!(check_payload(&more, &payload).is_err());
        if let Some(count) = header.count.checked_sub(1) {
            let (fewer, elsewhere) = (FrameHeader { count, ..header }, FrameHeader { lsn: first.plus(1), ..header });
            prop_assert!(check_payload(&fewer, &payload).is_err());
            prop_assert!(check_payload(&elsewhere, &payload).is_err());
        }
        payload.push(0);
        prop_assert!(check_payload(&header, &payload).is_err());
    }

    /// A payload that comes in pieces is judged as one that comes whole, to the word, whatever is wrong with it.
    #[test]
    fn payloads_in_pieces(
        parts in prop::collection::vec(record(), 0..6), first in lsn(), time in time(),
        damage in prop::option::of((any::<prop::sample::Index>(), 1..=255u8)), cut in prop::option::of(any::<prop::sample::Index>()),
        count in 0..7u32, ends in prop::collection::vec(any::<prop::sample::Index>(), 0..8)
    ) {
        let (mut payload, mut at) = (Vec::new(), first);
        for part in &parts {
            let bytes = part.encode(at, time, 0);
            at = at.plus(bytes.len() as u64);
            payload.extend(bytes);
        }
        if let Some((place, flip)) = damage && !payload.is_empty() {
            let place = place.index(payload.len());
            payload[place] ^= flip;
        }
        if let Some(cut) = cut {
            payload.truncate(cut.index(payload.len() + 1));
        }
        let header = FrameHeader {
            payload_bytes: u32::try_from(payload.len()).unwrap(),
            lsn: first,
            synced: first,
            count,
            seal: false,
        };
        let mut ends: Vec<usize> = ends.iter().map(|end| end.index(payload.len() + 1)).collect();
        ends.push(payload.len());
        ends.sort_unstable();
        let mut check = PayloadCheck::new(&header, payload.len());
        let mut begin = 0;
        let fed = ends.into_iter().try_for_each(|end| {
            let piece = &payload[std::mem::replace(&mut begin, end)..end];
            check.feed(piece)
        });
        prop_assert_eq!(fed.and_then(|()| check.finish()), check_payload(&header, &payload));
    }

    #[test]
    fn frame_headers(
        numbers in (any::<u32>(), number(), number(), 0..1u32 << 31), seal in any::<bool>(), salts in any::<[[u8; 8]; 2]>()
    ) {
        let (payload_bytes, at, synced, count) = numbers;
        let header = FrameHeader { payload_bytes, lsn: Lsn::new(at), synced: Lsn::new(synced), count, seal };
        let bytes = header.encode(Salt(salts[0]));
        prop_assert_eq!(FrameHeader::decode(&bytes, Salt(salts[0])), Some(header));
        // Bytes of another segment are no frame here.
        if salts[0] != salts[1] {
            prop_assert_eq!(FrameHeader::decode(&bytes, Salt(salts[1])), None);
        }
        prop_assert_eq!(header.end().map(Lsn::get), at.checked_add(u64::from(payload_bytes)));
        prop_assert_eq!(header.frame_bytes() % FRAME_ALIGN, 0);
    }

    #[test]
    fn padding(bytes in 0..u64::MAX - 8) {
        let up = padded(bytes);
        prop_assert!(up >= bytes && up - bytes < FRAME_ALIGN && up.is_multiple_of(FRAME_ALIGN));
    }

    #[test]
    fn segment_headers(
        names in (node(), cluster(), epoch()), first in lsn(), salt in any::<[u8; 8]>(),
        before in prop::option::of((0..1u64 << 63, 1..1u64 << 63, any::<u32>()))
    ) {
        let predecessor = before.map(|(start, size, crc)| {
            Predecessor { first_lsn: Lsn::new(start), end_lsn: Lsn::new(start + size), crc }
        });
        let (node, cluster, epoch) = names;
        let header = SegmentHeader { node, cluster, first_lsn: first, salt: Salt(salt), epoch, predecessor };
        let page = header.encode_page();
        prop_assert_eq!(SegmentHeader::decode(&page), Ok(header));
        prop_assert_eq!(SegmentHeader::decode(&page[SECOND_COPY_OFFSET..]), Ok(header));
    }

    #[test]
    fn file_names(at in number()) {
        let at = Lsn::new(at);
        prop_assert_eq!(parse_segment_name(&segment_name(at)), Some(at));
        prop_assert_eq!(parse_snapshot_name(&snapshot_name(at)), Some(at));
        prop_assert_eq!(parse_segment_name(&snapshot_name(at)), None);
        prop_assert_eq!(parse_snapshot_name(&segment_name(at)), None);
    }

    #[test]
    fn snapshot_files(
        cluster in cluster(), start in lsn(), trailer in trailer(),
        items in prop::collection::vec((lsn(), time(), any::<u8>(), change()), 0..5)
    ) {
        let file = SnapshotFile { header: SnapshotHeader { cluster, start_lsn: start }, items, trailer };
        prop_assert_eq!(SnapshotFile::decode(&file.encode()), Some(file));
    }

    #[test]
    fn control_files(control in control()) {
        prop_assert_eq!(Control::decode(&control.encode()), Ok(control));
    }

    #[test]
    fn link_messages(
        names in (node(), cluster(), epoch()), address in "\\PC{0,40}",
        history in prop::collection::vec((entry(), any::<u32>()), 0..5), observer in any::<bool>(),
        positions in [number(), number(), number()], small in (any::<u8>(), any::<u32>(), time()), piece in bytes()
    ) {
        let history = history.into_iter().map(|(entry, end_crc)| HelloEpoch { entry, end_crc }).collect();
        let kind = if observer { LinkKind::Observer } else { LinkKind::Follower };
        for message in messages(names, (address, history, kind), positions, small, &piece) {
            let mut bytes = b"earlier".to_vec();
            repl::encode(&message, &mut bytes);
            let whole = bytes[7..].to_vec();
            prop_assert_eq!(repl::decode(&whole), Ok(Some((message, whole.len()))));
            // Not whole: never an error, never a message.
            for cut in 0..whole.len() {
                prop_assert_eq!(repl::decode(&whole[..cut]), Ok(None));
            }
        }
    }
}

/// The bounds themselves, which random sizes hardly meet.
#[test]
fn largest_and_smallest_idem_records() {
    for (token, result) in [
        (1, 0),
        (1, 1),
        (TOKEN_BYTES_MAX, 0),
        (TOKEN_BYTES_MAX, RESULT_BYTES_MAX),
    ] {
        let (token, result) = (vec![0xff; token], vec![0; result]);
        let record = OwnedIdem {
            state: IdemState::Completed,
            fingerprint: token.clone(),
            owner: token,
            result,
        };
        let mut bytes = record.encode();
        assert_eq!(IdemRecord::decode(&bytes), Ok(record.borrow()));
        bytes.push(0);
        assert!(
            IdemRecord::decode(&bytes).is_err(),
            "one byte more than the lengths say"
        );
        bytes.truncate(bytes.len() - 2);
        assert!(IdemRecord::decode(&bytes).is_err(), "one byte less");
    }
}

#[test]
fn the_largest_piece() {
    let bytes = vec![7; PIECE_BYTES_MAX];
    let message = Message::Piece {
        epoch: support::values::EPOCH,
        first: Lsn::ZERO,
        bytes: &bytes,
    };
    let mut out = Vec::new();
    repl::encode(&message, &mut out);
    assert_eq!(repl::decode(&out), Ok(Some((message, out.len()))));
}

#[test]
fn names_that_are_no_segments() {
    let bad = [
        "",
        ".wal",
        "0.wal",
        "0000000000000000000.wal",
        "000000000000000000000.wal",
        "0000000000000000000a.wal",
        "+0000000000000000001.wal",
        "00000000000000000000.WAL",
        "00000000000000000000.wal.tmp",
        "spare-1",
        "new.tmp",
        "99999999999999999999.wal",
        "18446744073709551616.wal",
        "0000000000000000000\u{661}.wal",
    ];
    for name in bad {
        assert_eq!(parse_segment_name(name), None, "{name}");
        assert_eq!(
            parse_snapshot_name(&name.replace(".wal", ".snap")),
            None,
            "{name}"
        );
    }
}
