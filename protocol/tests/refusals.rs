//! What a decoder refuses although every checksum is good, and with which words: half a completion above all.

mod support;

use idem_protocol::idem::{IdemError, IdemRecord, IdemState};
use idem_protocol::limit::LimitRecord;
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::{BodyError, HeaderError, Opcode, RawRecord, Record, RecordError};
use idem_protocol::{Lsn, UnixMs, repl};
use support::formats::{FORMATS, reseal_record};
use support::golden::bytes;
use support::owned::Owned;
use support::values;

/// The body of the only opcode that carries completions, with a checksum that is good.
fn transition(change: impl FnOnce(&mut Vec<u8>)) -> Result<Owned, BodyError> {
    let mut bytes = bytes("record", "idempotency-completed");
    change(&mut bytes);
    reseal_record(&mut bytes);
    RawRecord::parse(&bytes)
        .expect("the checksum is good")
        .decode()
        .map(Owned::of)
}

#[test]
fn half_a_completion_is_no_record() {
    // Key "order:1": its length at 24, the deadline at 35, the IDEM record at 43.
    let (deadline, record) = (35, 43);
    assert!(transition(|_| {}).is_ok());
    assert_eq!(
        transition(|bytes| bytes[deadline..record].fill(0)),
        Err(BodyError::NoDeadline)
    );
    assert!(transition(|bytes| bytes[deadline..record].copy_from_slice(&1u64.to_le_bytes())).is_ok());
    let cases: [(usize, u8, IdemError); 9] = [
        (record, b'X', IdemError::NotARecord),
        (record + 2, b'm', IdemError::NotARecord),
        (record + 3, 2, IdemError::Version(2)),
        (record + 4, 3, IdemError::State(3)),
        (
            record + 5,
            0,
            IdemError::Length {
                field: "fingerprint",
                length: 0,
            },
        ),
        (
            record + 5,
            129,
            IdemError::Length {
                field: "fingerprint",
                length: 129,
            },
        ),
        (
            record + 6,
            0,
            IdemError::Length {
                field: "owner",
                length: 0,
            },
        ),
        (
            record + 6,
            129,
            IdemError::Length {
                field: "owner",
                length: 129,
            },
        ),
        (
            record + 9,
            0x40,
            IdemError::Length {
                field: "result",
                length: 0x40_0008,
            },
        ),
    ];
    for (at, byte, error) in cases {
        assert_eq!(
            transition(|bytes| bytes[at] = byte),
            Err(BodyError::Idem(error)),
            "byte {at} = {byte}"
        );
    }
    // A result with a state that has none; one byte too many; one too few; no IDEM record at all.
    let result = IdemError::Length {
        field: "result",
        length: 8,
    };
    for state in [0, 2] {
        assert_eq!(
            transition(|bytes| bytes[record + 4] = state),
            Err(BodyError::Idem(result))
        );
    }
    let size = |found| Err(BodyError::Idem(IdemError::Size { expected: 115, found }));
    assert_eq!(transition(|bytes| bytes.push(0)), size(116));
    assert_eq!(transition(|bytes| bytes.truncate(bytes.len() - 1)), size(114));
    assert_eq!(
        transition(|bytes| bytes.truncate(record)),
        Err(BodyError::Idem(IdemError::NotARecord))
    );
}

#[test]
fn a_transition_inside_a_transaction_is_held_to_the_same() {
    let vector = bytes("record", "transaction");
    // The last part ends with: deadline 8, IDEM header 11, fingerprint 1, owner 1.
    let deadline = vector.len() - 21;
    let read = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = vector.clone();
        change(&mut bytes);
        reseal_record(&mut bytes);
        RawRecord::parse(&bytes).unwrap().decode().map(Owned::of)
    };
    assert!(read(&|_| {}).is_ok());
    assert_eq!(
        read(&|bytes| bytes[deadline..deadline + 8].fill(0)),
        Err(BodyError::NoDeadline)
    );
    let state = IdemError::State(9);
    assert_eq!(
        read(&|bytes| bytes[deadline + 12] = 9),
        Err(BodyError::Idem(state))
    );
    // Its first part becomes what must not stand there: a transaction in a transaction, an epoch, an unknown kind.
    for opcode in [
        Opcode::Transaction,
        Opcode::EpochStart,
        Opcode::Members,
        Opcode::Clock,
    ] {
        assert_eq!(
            read(&|bytes| bytes[28] = opcode.to_byte()),
            Err(BodyError::NotTransactional(opcode))
        );
    }
    assert_eq!(read(&|bytes| bytes[28] = 52), Err(BodyError::UnknownOpcode(52)));
    assert_eq!(read(&|bytes| bytes[24] = 6), Err(BodyError::TrailingBytes));
    assert_eq!(read(&|bytes| bytes[24] = 0), Err(BodyError::EmptyList));
}

#[test]
fn lists_hold_exactly_what_they_count() {
    for (name, count) in [
        ("hash-put", 24 + 4 + 4 + 8),
        ("hash-delete", 24 + 4 + 4),
        ("members", 24 + 1),
    ] {
        let vector = bytes("record", name);
        assert_eq!(
            vector[count..count + 4],
            2u32.to_le_bytes(),
            "{name}: the count is where this test thinks"
        );
        for (claim, error) in [(0, "empty"), (1, "left"), (3, "early"), (u32::MAX, "early")] {
            let mut bytes = vector.clone();
            bytes[count..count + 4].copy_from_slice(&claim.to_le_bytes());
            reseal_record(&mut bytes);
            let found = RawRecord::parse(&bytes)
                .unwrap()
                .decode()
                .map(Owned::of)
                .unwrap_err();
            assert!(
                found.to_string().contains(error),
                "{name} with count {claim}: {found}"
            );
        }
    }
}

#[test]
fn record_errors_say_what_is_there() {
    let vector = bytes("record", "string-put");
    let short = |needed, found| Err(RecordError::Short { needed, found });
    let parse = |bytes: &[u8]| RawRecord::parse(bytes).map(|raw| raw.lsn);
    assert_eq!(parse(&[]), short(24, 0));
    assert_eq!(parse(&vector[..23]), short(24, 23));
    assert_eq!(parse(&vector[..40]), short(vector.len() as u64, 40));
    let with_length = |length: u32| [&length.to_le_bytes()[..], &vector[4..]].concat();
    let limit = 512u32 << 20;
    assert_eq!(
        parse(&with_length(limit - 24)),
        short(u64::from(limit), vector.len())
    );
    assert_eq!(
        parse(&with_length(limit - 23)),
        Err(RecordError::TooLong(u64::from(limit) + 1))
    );
    assert_eq!(
        parse(&with_length(u32::MAX)),
        Err(RecordError::TooLong((1 << 32) + 23))
    );
    assert!(matches!(parse(&with_length(0)), Err(RecordError::Crc { .. })));
    // A record that claims the end of all positions is parsed, and its end is none.
    let last = Owned::Clock.encode(Lsn::MAX, UnixMs::ZERO, 0);
    assert_eq!(RawRecord::parse(&last).unwrap().checked_end(), None);
}

#[test]
fn a_newer_format_is_named_and_a_zero_one_is_damage() {
    for (file, name) in [
        ("segment-header", "successor"),
        ("snapshot", "full"),
        ("control", "follower"),
    ] {
        let format = FORMATS.iter().find(|format| format.file == file).unwrap();
        let read = |bytes: &[u8]| match file {
            "segment-header" => idem_protocol::wal::SegmentHeader::decode(bytes).map(|_| ()),
            "snapshot" => idem_protocol::snapshot::SnapshotHeader::decode(bytes).map(|_| ()),
            _ => idem_protocol::control::Control::decode(bytes).map(|_| ()),
        };
        for (version, expected) in [
            (0, HeaderError::Damaged),
            (2, HeaderError::NewerFormat(2)),
            (u32::MAX, HeaderError::NewerFormat(u32::MAX)),
        ] {
            let mut bytes = bytes(file, name);
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            assert_eq!(
                read(&bytes),
                Err(HeaderError::Damaged),
                "{file}: with a bad checksum nothing is believed"
            );
            (format.reseal)(&mut bytes);
            assert_eq!(read(&bytes), Err(expected), "{file} of version {version}");
        }
    }
}

#[test]
fn a_time_that_no_record_can_have_is_refused() {
    let heartbeat = bytes("link", "heartbeat");
    let with = |ms: u64| [&heartbeat[..21], &ms.to_le_bytes(), &heartbeat[29..]].concat();
    assert!(repl::decode(&with(UnixMs::MAX.get())).is_ok());
    assert_eq!(
        repl::decode(&with(UnixMs::MAX.get() + 1)),
        Err(repl::ReplError::Body(7))
    );
    let mut trailer = Vec::new();
    values::snapshots()[0].1.trailer.encode(&mut trailer);
    let with = |ms: u64| [&trailer[8..36], &ms.to_le_bytes(), &trailer[44..]].concat();
    assert!(SnapshotTrailer::decode(&with(UnixMs::MAX.get())).is_ok());
    assert_eq!(
        SnapshotTrailer::decode(&with(1 << 48)),
        Err(BodyError::Time(1 << 48))
    );
}

#[test]
fn a_link_message_is_judged_by_its_first_bytes() {
    let decode =
        |length: u32, kind: u8| repl::decode(&[&length.to_le_bytes()[..], &[kind]].concat()).map(|_| ());
    assert_eq!(repl::decode(&[0; 4]), Err(repl::ReplError::Length(0)));
    assert_eq!(
        repl::decode(&u32::MAX.to_le_bytes()),
        Err(repl::ReplError::Length(u32::MAX))
    );
    for kind in [0, 12, 255] {
        assert_eq!(decode(9, kind), Err(repl::ReplError::Type(kind)));
    }
    for vector in support::golden::load("link") {
        let (length, kind) = (u32::try_from(vector.bytes.len() - 4).unwrap(), vector.bytes[4]);
        assert_eq!(decode(length, kind), Ok(()), "[{}]", vector.name);
        // An acknowledgement of a megabyte is no acknowledgement.
        let variable = matches!(kind, 1 | 5 | 6 | 10);
        assert_eq!(decode(1 << 20, kind).is_ok(), variable, "[{}]", vector.name);
        assert!(decode(1, kind).is_err(), "[{}]", vector.name);
    }
}

/// What is there can be looked at through the borrowed types as well, without copying.
#[test]
fn a_decoded_record_borrows_its_bytes() {
    let bytes = bytes("record", "idempotency-completed");
    let raw = RawRecord::parse(&bytes).unwrap();
    let Ok(Record::IdempotencyPut { key, record, .. }) = raw.decode() else {
        panic!("opcode 53")
    };
    let inside = |part: &[u8]| bytes.as_ptr_range().contains(&part.as_ptr());
    assert!(inside(key) && inside(record.result));
    assert_eq!(record.state, IdemState::Completed);
    assert_eq!(IdemRecord::decode(&bytes[43..]), Ok(record));
}

/// What no call of LIMIT could have stored is no counter record: a client that writes it with SET gets WRONGTYPE.
#[test]
fn counters_that_no_call_writes() {
    // Max at 5, window at 9, start at 13, count at 21, previous at 25; a bucket's level at 21.
    let cases: [(&str, usize, &[u8], bool); 25] = [
        ("fixed", 0, b"LMT", true),
        ("fixed", 2, b"t", false),
        ("fixed", 3, &[2], false),
        ("fixed", 4, &[1], true),
        ("fixed", 4, &[3], false),
        ("fixed", 5, &[0, 0, 0, 0], false),
        ("fixed", 5, &[9, 0, 0, 0], true),
        ("fixed", 5, &[8, 0, 0, 0], false),
        ("fixed", 5, &[0xff, 0xff, 0xff, 0x7f], true),
        ("fixed", 5, &[0, 0, 0, 0x80], false),
        ("fixed", 9, &[0, 0, 0, 0], false),
        ("fixed", 9, &[0xff; 4], true),
        ("fixed", 13, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0], true),
        ("fixed", 13, &[0, 0, 0, 0, 0, 0, 1, 0], false),
        ("fixed", 21, &[0, 0, 0, 0], false),
        ("fixed", 21, &[11, 0, 0, 0], false),
        ("fixed", 25, &[1, 0, 0, 0], false),
        ("sliding", 21, &[0, 0, 0, 0], false),
        ("sliding", 25, &[0xff, 0xff, 0xff, 0x7f], true),
        ("sliding", 25, &[0, 0, 0, 0x80], false),
        ("tokens", 5, &[0x41, 0x42, 0x0f, 0], false),
        ("tokens", 5, &[3, 0, 0, 0], false),
        ("tokens", 5, &[4, 0, 0, 0], true),
        ("tokens", 21, &[0, 0, 0xf0, 0x23, 0xf4, 0, 0, 0], true),
        ("tokens", 21, &[1, 0, 0xf0, 0x23, 0xf4, 0, 0, 0], false),
    ];
    for (name, at, change, taken) in cases {
        let mut record = bytes("limit-record", name);
        record[at..at + change.len()].copy_from_slice(change);
        assert_eq!(
            LimitRecord::decode(&record).is_some(),
            taken,
            "{name} with {change:?} at {at}"
        );
        for cut in 0..record.len() {
            assert_eq!(LimitRecord::decode(&record[..cut]), None, "{name}: {cut} bytes");
        }
        record.push(0);
        assert_eq!(LimitRecord::decode(&record), None, "{name}: a byte more");
    }
}
