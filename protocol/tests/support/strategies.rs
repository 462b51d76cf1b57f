//! Random values of every format, with the ends of each bound more often than chance would have them.

use super::owned::{Owned, OwnedIdem};
use idem_protocol::control::{Control, Role};
use idem_protocol::idem::{IdemState, TOKEN_BYTES_MAX};
use idem_protocol::repl::{HelloEpoch, LinkKind, Message};
use idem_protocol::snapshot::SnapshotTrailer;
use idem_protocol::wal::{DeleteReason, EpochReason};
use idem_protocol::{ClusterId, Epoch, HistoryEntry, Lsn, Member, NodeId, UnixMs};
use proptest::prelude::*;

/// Numbers with their edges: uniform ones alone would hardly ever be small or at a bound.
pub fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..300u64,
        any::<u64>(),
        Just(1 << 32),
        Just((1 << 48) - 1),
        Just(u64::MAX - 1),
        Just(u64::MAX)
    ]
}

/// Positions that leave room for the records of a test.
pub fn lsn() -> impl Strategy<Value = Lsn> {
    prop_oneof![0..300u64, 0..1u64 << 63, Just((1 << 32) - 1), Just(1 << 63)].prop_map(Lsn::new)
}

pub fn time() -> impl Strategy<Value = UnixMs> {
    prop_oneof![Just(0), 0..1u64 << 48, Just((1 << 48) - 1)].prop_map(UnixMs::new)
}

pub fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![3 => prop::collection::vec(any::<u8>(), 0..24), 1 => prop::collection::vec(any::<u8>(), 0..600)]
}

pub fn node() -> impl Strategy<Value = NodeId> {
    any::<[u8; 16]>().prop_map(NodeId)
}

pub fn cluster() -> impl Strategy<Value = ClusterId> {
    any::<[u8; 16]>().prop_map(ClusterId)
}

pub fn epoch() -> impl Strategy<Value = Epoch> {
    (number(), number()).prop_map(|(number, nonce)| Epoch { number, nonce })
}

pub fn members(least: usize) -> impl Strategy<Value = Vec<Member>> {
    let member = (node(), "\\PC{0,12}").prop_map(|(node, address)| Member { node, address });
    prop::collection::vec(member, least..5)
}

pub fn entry() -> impl Strategy<Value = HistoryEntry> {
    (epoch(), node(), lsn()).prop_map(|(epoch, node, first_lsn)| HistoryEntry {
        epoch,
        node,
        first_lsn,
    })
}

pub fn idem() -> impl Strategy<Value = OwnedIdem> {
    let token = || prop::collection::vec(any::<u8>(), 1..=TOKEN_BYTES_MAX);
    let state = prop_oneof![
        Just(IdemState::Pending),
        Just(IdemState::Completed),
        Just(IdemState::Aborted)
    ];
    (state, token(), token(), bytes()).prop_map(|(state, fingerprint, owner, result)| {
        let result = if state == IdemState::Completed {
            result
        } else {
            Vec::new()
        };
        OwnedIdem {
            state,
            fingerprint,
            owner,
            result,
        }
    })
}

/// What may stand inside a transaction.
pub fn change() -> impl Strategy<Value = Owned> {
    let reason = prop_oneof![Just(DeleteReason::Command), Just(DeleteReason::Evicted)];
    prop_oneof![
        (bytes(), number(), bytes()).prop_map(|(key, deadline, value)| Owned::StringPut {
            key,
            deadline,
            value
        }),
        (reason, bytes()).prop_map(|(reason, key)| Owned::Delete { reason, key }),
        (bytes(), number()).prop_map(|(key, deadline)| Owned::DeadlinePut { key, deadline }),
        (bytes(), number(), prop::collection::vec((bytes(), bytes()), 1..6)).prop_map(
            |(key, deadline, fields)| Owned::HashPut {
                key,
                deadline,
                fields
            }
        ),
        (bytes(), prop::collection::vec(bytes(), 1..6))
            .prop_map(|(key, fields)| Owned::HashDelete { key, fields }),
        Just(Owned::FlushDb),
        Just(Owned::FlushAll),
        (bytes(), 1..=u64::MAX, idem()).prop_map(|(key, deadline, record)| Owned::IdempotencyPut {
            key,
            deadline,
            record
        }),
    ]
}

pub fn record() -> impl Strategy<Value = Owned> {
    let reason = prop_oneof![
        Just(EpochReason::Start),
        Just(EpochReason::Promotion),
        Just(EpochReason::Restore)
    ];
    prop_oneof![
        8 => change(),
        2 => prop::collection::vec((any::<u8>(), change()), 1..6).prop_map(Owned::Transaction),
        1 => (epoch(), node(), epoch(), reason)
            .prop_map(|(epoch, node, previous, reason)| Owned::EpochStart { epoch, node, previous, reason }),
        1 => (any::<u8>(), members(1)).prop_map(|(required, members)| Owned::Members { required, members }),
        1 => Just(Owned::Clock),
    ]
}

pub fn trailer() -> impl Strategy<Value = SnapshotTrailer> {
    let databases = prop::collection::vec((any::<u8>(), number()), 0..4);
    let history = prop::collection::vec(entry(), 0..4);
    (
        lsn(),
        epoch(),
        any::<u32>(),
        time(),
        history,
        any::<u8>(),
        members(0),
        databases,
    )
        .prop_map(
            |(end_lsn, epoch, end_crc, log_time, history, required, members, databases)| SnapshotTrailer {
                end_lsn,
                epoch,
                end_crc,
                log_time,
                history,
                required,
                members,
                databases,
            },
        )
}

pub fn control() -> impl Strategy<Value = Control> {
    let names = (
        node(),
        cluster(),
        prop_oneof![Just(Role::Primary), Just(Role::Follower)],
        "\\PC{0,20}",
    );
    let promise = (
        number(),
        node(),
        prop::collection::vec(entry(), 0..4),
        any::<u8>(),
        members(0),
    );
    // 2^64 − 1 stands for none and is no position.
    let position = || prop::option::of((0..u64::MAX).prop_map(Lsn::new));
    (
        names,
        promise,
        (position(), position(), position()),
        (any::<u8>(), "\\PC{0,20}"),
    )
        .prop_map(|(names, promise, positions, pending)| Control {
            node: names.0,
            cluster: names.1,
            role: names.2,
            primary_address: names.3,
            promised_epoch: promise.0,
            promised_node: promise.1,
            history: promise.2,
            required: promise.3,
            members: promise.4,
            newest_snapshot: positions.0,
            newest_segment: positions.1,
            clean_end: positions.2,
            pending_change: pending.0,
            pending_detail: pending.1,
        })
}

/// All types, over bytes that the caller holds for the piece.
pub fn messages(
    (node, cluster, epoch): (NodeId, ClusterId, Epoch),
    (address, history, kind): (String, Vec<HelloEpoch>, LinkKind),
    [a, b, c]: [u64; 3],
    (small, crc, time): (u8, u32, UnixMs),
    piece: &[u8],
) -> [Message<'_>; 11] {
    let [a, b, c] = [a, b, c].map(Lsn::new);
    let hello = Message::Hello {
        node,
        cluster,
        address: address.clone(),
        kind,
        format: crc,
        history: history.clone(),
        durable: a,
        durable_crc: crc,
    };
    [
        hello,
        Message::Continue { lsn: a },
        Message::Cut { lsn: a },
        Message::Snapshot {
            size: a.get(),
            start: b,
        },
        Message::Refuse {
            code: small,
            text: address,
        },
        Message::Piece {
            epoch,
            first: a,
            bytes: piece,
        },
        Message::Heartbeat { epoch, time, sent: a },
        Message::Ack {
            epoch,
            received: a,
            durable: b,
            applied: c,
        },
        Message::AskPromise {
            epoch: a.get(),
            node,
            reason: small,
        },
        Message::Promised {
            history,
            durable: a,
            durable_crc: crc,
        },
        Message::Refused { epoch: a.get(), node },
    ]
}
