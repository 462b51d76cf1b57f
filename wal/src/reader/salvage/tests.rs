//! Every way to spoil a small frame: whatever is not spoilt is found, and the rest is named without a gap.

use idem_protocol::wal::{RECORD_HEADER_BYTES, Record};
use idem_protocol::{Deadline, UnixMs};

use super::*;

const FIRST: Lsn = Lsn::new(1000);

/// Four records of different lengths, and where each begins.
fn frame() -> (FrameHeader, Vec<u8>, Vec<usize>) {
    let mut payload = Vec::new();
    let mut begins = Vec::new();
    for value in [&b"one"[..], b"", b"three three three", b"4"] {
        begins.push(payload.len());
        let record = Record::StringPut {
            key: b"key",
            deadline: Deadline::NONE,
            value,
        };
        let lsn = FIRST.plus(payload.len() as u64);
        record.encode(lsn, UnixMs::new(7), 0, &mut payload);
    }
    let header = FrameHeader {
        payload_bytes: u32::try_from(payload.len()).unwrap(),
        lsn: FIRST,
        synced: FIRST,
        count: 4,
        seal: false,
    };
    (header, payload, begins)
}

/// The offsets of the good records, after checking that the pieces add up.
fn good(header: &FrameHeader, payload: &[u8]) -> (Vec<usize>, Vec<Bad>) {
    let (mut at, mut records, mut bad) = (0, Vec::new(), Vec::new());
    let mut lsn = header.lsn;
    for piece in salvage(header, payload) {
        match piece {
            Piece::Record(offset, raw) => {
                assert_eq!((offset, raw.lsn), (at, lsn));
                at += raw.bytes.len();
                lsn = raw.end();
                records.push(offset);
            }
            Piece::Bad(piece) => {
                assert_eq!((piece.offset, piece.from), (at, lsn));
                assert!(piece.to > piece.from && piece.end >= piece.offset, "{piece:?}");
                at = piece.end;
                lsn = piece.to;
                bad.push(piece);
            }
        }
    }
    assert_eq!(Some(lsn), header.end());
    assert_eq!(at, payload.len());
    (records, bad)
}

#[test]
fn one_wrong_byte_costs_one_record() {
    let (header, payload, begins) = frame();
    assert_eq!(good(&header, &payload), (begins.clone(), Vec::new()));
    for at in 0..payload.len() {
        for mask in [1, 0x80, 0xff] {
            let mut spoilt = payload.clone();
            spoilt[at] ^= mask;
            let hit = begins.iter().rposition(|begin| *begin <= at).unwrap();
            let (records, bad) = good(&header, &spoilt);
            let mut expected = begins.clone();
            expected.remove(hit);
            assert_eq!(records, expected, "byte {at} ^ {mask:02x}");
            assert_eq!(bad.len(), 1, "byte {at} ^ {mask:02x}: {bad:?}");
            assert!(bad[0].error.is_some());
        }
    }
}

#[test]
fn a_payload_that_ends_early_keeps_its_whole_records() {
    let (header, payload, begins) = frame();
    for length in 0..payload.len() {
        let (records, bad) = good(&header, &payload[..length]);
        let ends = begins.iter().copied().skip(1).chain([header_bytes(&header)]);
        let whole = ends.filter(|end| *end <= length).count();
        assert_eq!(records, begins[..whole], "{length} bytes");
        assert_eq!(bad.len(), 1, "{length} bytes: {bad:?}");
    }
}

fn header_bytes(header: &FrameHeader) -> usize {
    usize::try_from(header.payload_bytes).unwrap()
}

#[test]
fn an_undamaged_record_of_another_place_is_none() {
    let (header, mut payload, begins) = frame();
    let second = payload[begins[1]..begins[2]].to_vec();
    let mut moved = second.clone();
    moved.extend_from_slice(&payload[..begins[1]]);
    moved.extend_from_slice(&payload[begins[2]..]);
    std::mem::swap(&mut payload, &mut moved);
    let (records, bad) = good(&header, &payload);
    assert_eq!(records, begins[2..]);
    assert_eq!((bad.len(), bad[0].error), (1, None));
    assert_eq!((bad[0].offset, bad[0].end), (0, begins[2]));
}

#[test]
fn what_looks_like_records_everywhere_is_not_checked_for_ever() {
    // Each byte could begin a record by its lsn's low byte; none is good, and each claims all that follows.
    let bytes = 1 << 16;
    let header = FrameHeader {
        payload_bytes: bytes,
        count: 1,
        ..frame().0
    };
    let bytes = usize::try_from(bytes).unwrap();
    let mut payload = vec![0; bytes];
    for at in (0..bytes - RECORD_HEADER_BYTES).step_by(RECORD_HEADER_BYTES) {
        let claimed = u32::try_from(bytes - at - RECORD_HEADER_BYTES).unwrap();
        payload[at..at + 4].copy_from_slice(&claimed.to_le_bytes());
        let lsn = FIRST.plus(at as u64).get();
        payload[at + 8..at + 16].copy_from_slice(&lsn.to_le_bytes());
    }
    let (records, bad) = good(&header, &payload);
    assert_eq!((records.len(), bad.len()), (0, 1));
}
