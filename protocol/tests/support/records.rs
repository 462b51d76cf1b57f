//! The log records that the golden vectors hold.

use super::owned::{Owned, OwnedIdem};
use super::values::{BEFORE, DEADLINE, EPOCH, NO_EPOCH, idem, members, node_a, node_b};
use idem_protocol::Epoch;
use idem_protocol::idem::IdemState;
use idem_protocol::wal::{DeleteReason, EpochReason};

pub fn string_put(key: &[u8], deadline: u64, value: &[u8]) -> Owned {
    Owned::StringPut {
        key: key.to_vec(),
        deadline,
        value: value.to_vec(),
    }
}

fn delete(reason: DeleteReason, key: &[u8]) -> Owned {
    Owned::Delete {
        reason,
        key: key.to_vec(),
    }
}

pub fn hash_put(key: &[u8], deadline: u64, fields: &[(&[u8], &[u8])]) -> Owned {
    let fields = fields
        .iter()
        .map(|(field, value)| (field.to_vec(), value.to_vec()))
        .collect();
    Owned::HashPut {
        key: key.to_vec(),
        deadline,
        fields,
    }
}

fn hash_delete(key: &[u8], fields: &[&[u8]]) -> Owned {
    Owned::HashDelete {
        key: key.to_vec(),
        fields: fields.iter().map(|field| field.to_vec()).collect(),
    }
}

fn transition(key: &[u8], record: OwnedIdem) -> Owned {
    Owned::IdempotencyPut {
        key: key.to_vec(),
        deadline: DEADLINE,
        record,
    }
}

fn transaction() -> Owned {
    let short = OwnedIdem {
        state: IdemState::Pending,
        fingerprint: b"f".to_vec(),
        owner: b"o".to_vec(),
        result: Vec::new(),
    };
    Owned::Transaction(vec![
        (0, string_put(b"a", 0, b"1")),
        (0, delete(DeleteReason::Command, b"b")),
        (
            1,
            Owned::DeadlinePut {
                key: b"c".to_vec(),
                deadline: DEADLINE,
            },
        ),
        (1, hash_put(b"d", 0, &[(b"f", b"v")])),
        (1, hash_delete(b"d", &[b"f"])),
        (2, Owned::FlushDb),
        (0, transition(b"order:1", short)),
    ])
}

/// Name, database and record; lsns follow on from `FIRST_RECORD_LSN`, times from `TIME` by a millisecond each.
pub fn records() -> Vec<(&'static str, u8, Owned)> {
    let epoch_start = |epoch, node, previous, reason| Owned::EpochStart {
        epoch,
        node,
        previous,
        reason,
    };
    let pending = idem(IdemState::Pending, b"");
    let completed = idem(IdemState::Completed, b"paid\r\n\x00\xff");
    let first = Epoch {
        number: 1,
        nonce: 0xab_cdef,
    };
    let greeting = b"greeting".to_vec();
    vec![
        ("string-put", 0, string_put(b"greeting", DEADLINE, b"hello\r\n")),
        ("string-put-forever", 255, string_put(b"", 0, b"")),
        ("delete-command", 0, delete(DeleteReason::Command, b"greeting")),
        ("delete-evicted", 3, delete(DeleteReason::Evicted, b"\x00\xff")),
        (
            "deadline-put",
            0,
            Owned::DeadlinePut {
                key: greeting.clone(),
                deadline: DEADLINE,
            },
        ),
        (
            "deadline-put-none",
            0,
            Owned::DeadlinePut {
                key: greeting,
                deadline: 0,
            },
        ),
        (
            "hash-put",
            1,
            hash_put(b"cart", DEADLINE, &[(b"apple", b"3"), (b"", b"")]),
        ),
        ("hash-delete", 1, hash_delete(b"cart", &[b"apple", b"pear"])),
        ("flush-db", 9, Owned::FlushDb),
        ("flush-all", 0, Owned::FlushAll),
        ("transaction", 0, transaction()),
        (
            "epoch-start",
            0,
            epoch_start(EPOCH, node_a(), BEFORE, EpochReason::Start),
        ),
        (
            "epoch-promotion",
            0,
            epoch_start(EPOCH, node_b(), BEFORE, EpochReason::Promotion),
        ),
        (
            "epoch-restore",
            0,
            epoch_start(first, node_b(), NO_EPOCH, EpochReason::Restore),
        ),
        (
            "members",
            0,
            Owned::Members {
                required: 1,
                members: members(),
            },
        ),
        ("clock", 0, Owned::Clock),
        ("idempotency-pending", 0, transition(b"order:1", pending)),
        ("idempotency-completed", 0, transition(b"order:1", completed)),
        (
            "idempotency-completed-empty",
            0,
            transition(b"order:2", idem(IdemState::Completed, b"")),
        ),
        (
            "idempotency-aborted",
            0,
            transition(b"order:1", idem(IdemState::Aborted, b"")),
        ),
    ]
}
