//! The bytes of every format against vectors that another program made (`testdata/vectors.py`), in both directions:
//! value → exactly these bytes, these bytes → exactly this value. A change of a format shows here first.

mod support;

use idem_protocol::control::Control;
use idem_protocol::idem::{HEADER_BYTES, IdemRecord};
use idem_protocol::limit::{LimitRecord, ONCE_MARKER};
use idem_protocol::repl;
use idem_protocol::wal::scan::{check_payload, records};
use idem_protocol::wal::{
    FRAME_HEADER_BYTES, FrameHeader, Opcode, RawRecord, SECOND_COPY_OFFSET, SEGMENT_HEADER_BYTES,
    SegmentHeader,
};
use idem_protocol::{Lsn, UnixMs};
use std::collections::BTreeSet;
use support::formats::FORMATS;
use support::golden::{bytes, load};
use support::owned::{Owned, OwnedIdem};
use support::snapshot::SnapshotFile;
use support::values::{self, SALT, TIME};

/// Compares the vectors of a file with the values of the same names, both ways; no vector may be left over.
fn check<T: PartialEq + std::fmt::Debug>(
    file: &str,
    values: Vec<(&str, T)>,
    encode: impl Fn(&T) -> Vec<u8>,
    decode: impl Fn(&[u8]) -> Option<T>,
) {
    let vectors = load(file);
    let names: Vec<&str> = vectors.iter().map(|vector| vector.name.as_str()).collect();
    assert_eq!(
        names,
        values.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "{file}.hex: other vectors"
    );
    for (vector, (name, value)) in vectors.iter().zip(&values) {
        assert_eq!(encode(value), vector.bytes, "{file}.hex [{name}]: other bytes");
        assert_eq!(
            decode(&vector.bytes).as_ref(),
            Some(value),
            "{file}.hex [{name}]: another value"
        );
    }
}

#[test]
fn idem_record() {
    let encode = |value: &OwnedIdem| {
        let bytes = value.encode();
        let mut over = vec![0xee; value.borrow().encoded_len()];
        value.borrow().encode_into(&mut over);
        assert_eq!(bytes, over, "the two encoders agree");
        bytes
    };
    check("idem-record", values::idem_records(), encode, |bytes| {
        IdemRecord::decode(bytes).ok().map(OwnedIdem::of)
    });

    let pending = bytes("idem-record", "pending");
    assert_eq!(pending.len(), HEADER_BYTES + 64 + 32);
    assert_eq!(pending.len(), 107);
    for (name, stored) in [
        ("pending", true),
        ("completed", true),
        ("completed-empty", true),
        ("aborted", false),
    ] {
        let bytes = bytes("idem-record", name);
        assert_eq!(
            IdemRecord::decode_stored(&bytes).is_ok(),
            stored,
            "a key never holds an aborted record"
        );
    }
}

#[test]
fn once_and_limit_records() {
    let vectors = load("limit-record");
    assert_eq!(vectors[0].name, "once");
    assert_eq!(vectors[0].bytes, ONCE_MARKER);
    let limits = values::limit_records();
    assert_eq!(vectors.len(), 1 + limits.len());
    for (vector, (name, value)) in vectors[1..].iter().zip(limits) {
        assert_eq!(vector.name, name);
        assert_eq!(value.encode()[..], vector.bytes, "[{name}]");
        assert_eq!(LimitRecord::decode(&vector.bytes), Some(value), "[{name}]");
    }
}

#[test]
fn log_records() {
    let (mut lsn, mut time) = (Lsn::new(values::FIRST_RECORD_LSN), TIME);
    let mut rows = Vec::new();
    for (name, db, record) in support::records::records() {
        let size = record.encode(lsn, UnixMs::new(time), db).len();
        rows.push((name, (lsn, UnixMs::new(time), db, record)));
        (lsn, time) = (lsn.plus(size as u64), time + 1);
    }
    assert!(lsn.get() > 1 << 32, "the vectors pass 2^32");
    let decode = |bytes: &[u8]| {
        let raw = RawRecord::parse(bytes).ok()?;
        assert_eq!(raw.end(), raw.lsn.plus(bytes.len() as u64));
        assert_eq!(raw.bytes, bytes);
        Some((raw.lsn, raw.time, raw.db, Owned::of(raw.decode().ok()?)))
    };
    check(
        "record",
        rows,
        |(lsn, time, db, record)| record.encode(*lsn, *time, *db),
        decode,
    );
}

#[test]
fn every_opcode_has_a_vector() {
    let seen: BTreeSet<u8> = load("record").iter().map(|vector| vector.bytes[22]).collect();
    assert_eq!(seen, Opcode::ALL.into_iter().map(Opcode::to_byte).collect());
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7, 32, 48, 49, 50, 53]
    );
    for opcode in 0..=255 {
        assert_eq!(
            Opcode::from_byte(opcode).map(Opcode::to_byte),
            Some(opcode).filter(|code| known(*code))
        );
    }
}

fn known(opcode: u8) -> bool {
    matches!(opcode, 1..=7 | 32 | 48..=50 | 53)
}

#[test]
fn frames() {
    let (lsn, synced) = (Lsn::new(1000), Lsn::new(900));
    let parts = [
        Owned::Clock,
        Owned::StringPut {
            key: b"k".to_vec(),
            deadline: 0,
            value: b"v".to_vec(),
        },
    ];
    let first = parts[0].encode(lsn, UnixMs::new(TIME), 0);
    let second = parts[1].encode(Lsn::new(1024), UnixMs::new(TIME), 0);
    let payload = [first, second].concat();
    let payload_bytes = u32::try_from(payload.len()).unwrap();
    let group = FrameHeader {
        payload_bytes,
        lsn,
        synced,
        count: 2,
        seal: false,
    };

    let golden = bytes("frame", "group");
    assert_eq!(golden.len() as u64, group.frame_bytes());
    assert_eq!(golden[..FRAME_HEADER_BYTES], group.encode(SALT));
    assert_eq!(
        golden[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + payload.len()],
        payload
    );
    assert!(
        golden[FRAME_HEADER_BYTES + payload.len()..]
            .iter()
            .all(|byte| *byte == 0),
        "padding is zero"
    );
    assert_eq!(FrameHeader::decode(&golden, SALT), Some(group));
    assert_eq!(check_payload(&group, &payload), Ok(()));
    let read: Vec<_> = records(&payload)
        .map(|(at, raw)| (at, Owned::of(raw.decode().unwrap())))
        .collect();
    assert_eq!(read, [(0, parts[0].clone()), (24, parts[1].clone())]);

    let end = Lsn::new(1066);
    let seal = bytes("frame", "seal");
    assert_eq!(group.end(), Some(end));
    assert_eq!(seal, FrameHeader::seal(end, end).encode(SALT));
    assert_eq!(
        FrameHeader::decode(&seal, SALT),
        Some(FrameHeader::seal(end, end))
    );
    assert_eq!(load("frame").len(), 2);
}

#[test]
fn segment_headers() {
    let decode = |page: &[u8]| {
        assert_eq!(page.len(), SEGMENT_HEADER_BYTES);
        let copies = [
            SegmentHeader::decode(page),
            SegmentHeader::decode(&page[SECOND_COPY_OFFSET..]),
        ];
        assert_eq!(copies[0], copies[1], "both copies are alike");
        copies[0].ok()
    };
    check(
        "segment-header",
        values::segment_headers(),
        SegmentHeader::encode_page,
        decode,
    );
}

#[test]
fn snapshot_files() {
    check(
        "snapshot",
        values::snapshots(),
        SnapshotFile::encode,
        SnapshotFile::decode,
    );
}

#[test]
fn control_files() {
    check("control", values::controls(), Control::encode, |bytes| {
        Control::decode(bytes).ok()
    });
}

#[test]
fn link_messages() {
    let piece = values::piece();
    let vectors = load("link");
    let messages = values::messages(&piece);
    assert_eq!(vectors.len(), messages.len());
    let mut stream = Vec::new();
    for (vector, (name, message)) in vectors.iter().zip(&messages) {
        assert_eq!(vector.name, *name);
        let mut out = Vec::new();
        repl::encode(message, &mut out);
        assert_eq!(out, vector.bytes, "[{name}]");
        assert_eq!(
            repl::decode(&vector.bytes),
            Ok(Some((message.clone(), out.len()))),
            "[{name}]"
        );
        stream.extend(out);
    }
    // One after the other on one connection: each says where the next begins.
    let mut rest = &stream[..];
    for (name, message) in &messages {
        let (read, size) = repl::decode(rest).unwrap().unwrap();
        assert_eq!(read, *message, "[{name}]");
        rest = &rest[size..];
    }
    assert_eq!(repl::decode(rest), Ok(None));
}

/// `try_read` of every format takes its own vectors: what the other tests mutate is good to begin with.
#[test]
fn every_vector_is_taken() {
    for format in FORMATS {
        for vector in format.vectors() {
            let marker = format.file == "limit-record" && vector.name == "once";
            assert_eq!(
                format.try_read(&vector.bytes),
                !marker,
                "{} [{}]",
                format.file,
                vector.name
            );
        }
    }
}
