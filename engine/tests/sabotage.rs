//! The deliberately broken builds are broken in the way that the crash harness looks for. Empty without the feature.

#![cfg(feature = "sabotage")]

use idem_engine::{Durability, Facts, Log, Node, NodeConfig, Reservation, Sabotage, ServerFacts, Session};
use idem_protocol::resp::Args;
use idem_protocol::wal::{Opcode, Record};
use idem_protocol::{Epoch, Lsn, UnixMs};

struct Kinds(Vec<Opcode>, u64);

impl Log for Kinds {
    fn reserve(&mut self, _record_bytes: u64) -> Reservation {
        Reservation::Granted
    }

    fn append(&mut self, _time: UnixMs, _db: u8, record: &Record<'_>) -> Lsn {
        self.0.push(record.opcode());
        self.1 += record.encoded_len();
        Lsn::new(self.1)
    }

    fn appended(&self) -> Lsn {
        Lsn::new(self.1)
    }
}

struct NoFacts;

impl Facts for NoFacts {
    fn info(&self) -> ServerFacts {
        ServerFacts::default()
    }

    fn last_save(&self) -> u64 {
        0
    }

    fn snapshot_running(&self) -> bool {
        false
    }
}

fn begun(sabotage: Sabotage) -> (Node, Kinds) {
    let mut node = Node::new(NodeConfig {
        databases: 16,
        hash_seed: [1, 2, 3, 4],
        policy: Durability::Always,
        bulk_bytes_max: 1 << 20,
        sabotage,
    });
    node.open(Lsn::ZERO, UnixMs::new(1000), Epoch::default());
    let mut log = Kinds(Vec::new(), 0);
    let arguments: [&[u8]; 6] = [b"IDEM", b"k", b"BEGIN", b"f", b"a", b"1000"];
    let args = Args::from(&arguments);
    node.execute(
        &mut Session::new(1),
        args,
        UnixMs::new(1000),
        &mut log,
        &NoFacts,
        &mut Vec::new(),
    );
    (node, log)
}

#[test]
fn whole() {
    let (node, log) = begun(Sabotage::None);
    assert_eq!(log.0, [Opcode::IdempotencyPut]);
    assert_eq!(node.barrier(UnixMs::new(1000)), Lsn::ZERO);
}

#[test]
fn reply_before_sync() {
    let (node, _) = begun(Sabotage::ReplyBeforeSync);
    assert_eq!(node.barrier(UnixMs::new(1000)), node.appended());
    assert!(node.synced() < node.appended());
}

#[test]
fn deadline_in_second_record() {
    let (mut node, mut log) = begun(Sabotage::DeadlineInSecondRecord);
    assert_eq!(log.0, [Opcode::StringPut]);
    assert!(node.keyspace().get(0, b"k").unwrap().deadline().is_none());
    node.tick(UnixMs::new(1001), &mut log);
    assert_eq!(log.0, [Opcode::StringPut, Opcode::DeadlinePut]);
    assert_eq!(node.keyspace().get(0, b"k").unwrap().deadline().get(), 2000);
}
