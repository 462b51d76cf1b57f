//! The values that the golden vectors hold, written down a second time: `testdata/vectors.py` has them on its own.

use super::owned::{Owned, OwnedIdem};
use super::records::{hash_put, string_put};
use super::snapshot::SnapshotFile;
use idem_protocol::control::{Control, Role};
use idem_protocol::idem::IdemState;
use idem_protocol::limit::{LimitRecord, Usage};
use idem_protocol::repl::{HelloEpoch, LinkKind, Message};
use idem_protocol::snapshot::{SnapshotHeader, SnapshotTrailer};
use idem_protocol::wal::{Predecessor, Salt, SegmentHeader};
use idem_protocol::{ClusterId, Epoch, HistoryEntry, Lsn, Member, NodeId, UnixMs};

pub const SALT: Salt = Salt([0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57]);
pub const EPOCH: Epoch = Epoch {
    number: 7,
    nonce: 0x1122_3344_5566_7788,
};
pub const BEFORE: Epoch = Epoch {
    number: 6,
    nonce: 0x99aa_bbcc_ddee_ff00,
};
pub const NO_EPOCH: Epoch = Epoch { number: 0, nonce: 0 };
pub const TIME: u64 = 1_700_000_000_123;
pub const DEADLINE: u64 = TIME + 86_400_000;
pub const FIRST_RECORD_LSN: u64 = (1 << 32) - 300;

fn counting<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|index| first + u8::try_from(index).unwrap())
}

pub fn node_a() -> NodeId {
    NodeId(counting(0x10))
}

pub fn node_b() -> NodeId {
    NodeId(counting(0x20))
}

pub fn cluster() -> ClusterId {
    ClusterId(counting(0xc0))
}

pub fn members() -> Vec<Member> {
    let member = |node, address: &str| Member {
        node,
        address: address.to_owned(),
    };
    vec![
        member(node_a(), "10.0.0.1:6379"),
        member(node_b(), "[fd00::2]:6379"),
    ]
}

pub fn history() -> Vec<HistoryEntry> {
    vec![
        HistoryEntry {
            epoch: BEFORE,
            node: node_b(),
            first_lsn: Lsn::ZERO,
        },
        HistoryEntry {
            epoch: EPOCH,
            node: node_a(),
            first_lsn: Lsn::new(4_000_000_000),
        },
    ]
}

pub fn idem(state: IdemState, result: &[u8]) -> OwnedIdem {
    let (fingerprint, owner) = (counting::<64>(0x40).to_vec(), counting::<32>(0xa0).to_vec());
    OwnedIdem {
        state,
        fingerprint,
        owner,
        result: result.to_vec(),
    }
}

pub fn idem_records() -> Vec<(&'static str, OwnedIdem)> {
    vec![
        ("pending", idem(IdemState::Pending, b"")),
        ("completed", idem(IdemState::Completed, b"paid\r\n\x00\xff")),
        ("completed-empty", idem(IdemState::Completed, b"")),
        ("aborted", idem(IdemState::Aborted, b"")),
    ]
}

pub fn limit_records() -> Vec<(&'static str, LimitRecord)> {
    let fixed = Usage::Fixed {
        count: 9,
        previous: 0,
    };
    let sliding = Usage::Sliding {
        count: 9,
        previous: 4,
    };
    let tokens = Usage::Tokens { level: 5 << 19 };
    vec![
        (
            "fixed",
            LimitRecord {
                max: 10,
                window_ms: 60_000,
                start_ms: TIME,
                usage: fixed,
            },
        ),
        (
            "sliding",
            LimitRecord {
                max: (1 << 31) - 1,
                window_ms: u32::MAX,
                start_ms: TIME,
                usage: sliding,
            },
        ),
        (
            "tokens",
            LimitRecord {
                max: 1_000_000,
                window_ms: 1_000,
                start_ms: TIME,
                usage: tokens,
            },
        ),
    ]
}

pub fn segment_headers() -> Vec<(&'static str, SegmentHeader)> {
    let header = |first, epoch, predecessor| SegmentHeader {
        node: node_a(),
        cluster: cluster(),
        first_lsn: Lsn::new(first),
        salt: SALT,
        epoch,
        predecessor,
    };
    let end_lsn = Lsn::new(67_108_000);
    let before = Predecessor {
        first_lsn: Lsn::ZERO,
        end_lsn,
        crc: 0xdead_beef,
    };
    vec![
        ("first", header(0, NO_EPOCH, None)),
        ("successor", header(67_108_000, EPOCH, Some(before))),
    ]
}

pub fn snapshots() -> Vec<(&'static str, SnapshotFile)> {
    let record = idem(IdemState::Completed, b"paid\r\n\x00\xff").encode();
    let at = |lsn, time, db, item| (Lsn::new(lsn), UnixMs::new(time), db, item);
    let full = SnapshotFile {
        header: SnapshotHeader {
            cluster: cluster(),
            start_lsn: Lsn::new(5000),
        },
        items: vec![
            at(5000, TIME, 0, string_put(b"greeting", 0, b"hello")),
            at(5000, TIME, 0, string_put(b"order:1", DEADLINE, &record)),
            at(
                6000,
                TIME + 5,
                3,
                hash_put(b"cart", DEADLINE, &[(b"apple", b"3")]),
            ),
        ],
        trailer: SnapshotTrailer {
            end_lsn: Lsn::new(7000),
            epoch: EPOCH,
            end_crc: 0xcafe_f00d,
            log_time: UnixMs::new(TIME + 9),
            history: history(),
            required: 1,
            members: members(),
            databases: vec![(0, 2), (3, 1)],
        },
    };
    let empty = SnapshotFile {
        header: SnapshotHeader {
            cluster: cluster(),
            start_lsn: Lsn::ZERO,
        },
        items: Vec::new(),
        trailer: SnapshotTrailer::default(),
    };
    vec![("full", full), ("empty", empty)]
}

pub fn controls() -> Vec<(&'static str, Control)> {
    let new = Control {
        node: node_a(),
        cluster: cluster(),
        newest_segment: Some(Lsn::ZERO),
        ..Control::default()
    };
    let follower = Control {
        node: node_a(),
        cluster: cluster(),
        role: Role::Follower,
        primary_address: "10.0.0.1:6379".to_owned(),
        promised_epoch: 8,
        promised_node: node_b(),
        history: history(),
        required: 1,
        members: members(),
        newest_snapshot: Some(Lsn::new(5000)),
        newest_segment: Some(Lsn::new(4096)),
        clean_end: Some(Lsn::new(7000)),
        pending_change: 2,
        pending_detail: "zurück".to_owned(),
    };
    vec![("new-primary", new), ("follower", follower)]
}

/// Bytes of the stream that the piece carries: a Clock record at 7000.
pub fn piece() -> Vec<u8> {
    Owned::Clock.encode(Lsn::new(7000), UnixMs::new(TIME), 0)
}

pub fn messages(piece: &[u8]) -> Vec<(&'static str, Message<'_>)> {
    let epochs: Vec<HelloEpoch> = history()
        .into_iter()
        .zip([0x0102_0304, 0xcafe_f00d])
        .map(|(entry, end_crc)| HelloEpoch { entry, end_crc })
        .collect();
    let hello = |kind, history| Message::Hello {
        node: node_b(),
        cluster: cluster(),
        address: "10.0.0.2:6379".to_owned(),
        kind,
        format: 1,
        history,
        durable: Lsn::new(7000),
        durable_crc: 0xcafe_f00d,
    };
    let (epoch, at, time) = (EPOCH, Lsn::new(7000), UnixMs::new(TIME));
    vec![
        ("hello", hello(LinkKind::Follower, epochs.clone())),
        ("continue", Message::Continue { lsn: at }),
        ("cut", Message::Cut { lsn: Lsn::new(6500) }),
        (
            "snapshot",
            Message::Snapshot {
                size: 1 << 33,
                start: Lsn::new(5000),
            },
        ),
        (
            "refuse",
            Message::Refuse {
                code: 3,
                text: "another cluster – refused".to_owned(),
            },
        ),
        (
            "piece",
            Message::Piece {
                epoch,
                first: at,
                bytes: piece,
            },
        ),
        (
            "heartbeat",
            Message::Heartbeat {
                epoch,
                time,
                sent: at,
            },
        ),
        (
            "ack",
            Message::Ack {
                epoch,
                received: Lsn::new(7024),
                durable: at,
                applied: Lsn::new(6999),
            },
        ),
        (
            "promise?",
            Message::AskPromise {
                epoch: 8,
                node: node_b(),
                reason: 1,
            },
        ),
        (
            "promised",
            Message::Promised {
                history: epochs,
                durable: at,
                durable_crc: 0xcafe_f00d,
            },
        ),
        (
            "refused",
            Message::Refused {
                epoch: 9,
                node: node_a(),
            },
        ),
        ("hello-observer", hello(LinkKind::Observer, Vec::new())),
    ]
}
