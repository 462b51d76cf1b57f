//! A node in this process as a target: engine and codecs, without sockets, files or threads.
//!
//! Its log is a vector of record bytes that is "synced" at once; its clock stands still except when a case waits. A
//! restart builds a new node from the bytes alone, through the same `recover` that the server uses, and proves on the
//! way that what it recovers is the state that was there.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use idem_engine::digest::digest;
use idem_engine::pubsub::Publication;
use idem_engine::snapshot::SnapshotCursor;
use idem_engine::{
    Changes, Deed, Durability, Facts, Log, Node, NodeConfig, Outcome, Reservation, ServerFacts, Session,
};
use idem_protocol::command::errors::Text;
use idem_protocol::command::{self, CommandSpec};
use idem_protocol::resp::Args;
use idem_protocol::resp::value::{ReplyDecoder, Value};
use idem_protocol::wal::{EpochReason, RawRecord, Record};
use idem_protocol::{Epoch, Lsn, NodeId, UnixMs};
use idem_server::config::{Configuration, Options};

use super::run::{Connection, Target};

/// When the clock of a new target starts.
const START_MS: u64 = 1_750_000_000_000;
/// Pieces of a snapshot, small so that it takes several steps.
const SNAPSHOT_STEP_BYTES: usize = 256;

/// A node and its log.
#[derive(Debug)]
pub struct NodeTarget(Rc<RefCell<Shard>>);

#[derive(Debug)]
struct Shard {
    node: Node,
    log: Stream,
    facts: NodeFacts,
    snapshot: Option<Snapshot>,
    now: UnixMs,
    epoch: Epoch,
    sessions: u64,
    /// Messages that a connection has not looked at, as it will read them.
    inboxes: BTreeMap<u64, Vec<u8>>,
}

#[derive(Debug)]
struct Snapshot {
    start: Lsn,
    items: Vec<u8>,
}

/// All records since the log began; an lsn is an index into it.
#[derive(Debug, Default)]
struct Stream(Vec<u8>);

impl Log for Stream {
    fn reserve(&mut self, _record_bytes: u64) -> Reservation {
        Reservation::Granted
    }

    fn append(&mut self, time: UnixMs, db: u8, record: &Record<'_>) -> Lsn {
        record.encode(self.appended(), time, db, &mut self.0);
        self.appended()
    }

    fn appended(&self) -> Lsn {
        Lsn::new(u64::try_from(self.0.len()).expect("a vector's length fits 64 bits"))
    }
}

/// What a server around the node would know: its options, and they are the server's own.
#[derive(Debug)]
struct NodeFacts {
    config: Configuration,
}

impl Facts for NodeFacts {
    fn info(&self) -> ServerFacts {
        ServerFacts::default()
    }

    fn last_save(&self) -> u64 {
        0
    }

    fn snapshot_running(&self) -> bool {
        false
    }

    fn settings(&self) -> &[(&'static str, String)] {
        self.config.shown()
    }

    fn check_settings(&self, earlier: &[Deed], pairs: &[(&[u8], &[u8])]) -> Result<Changes, Text> {
        self.config.check(earlier, pairs, &|_| None)
    }

    fn rewrite_config(&self, earlier: &[Deed]) -> Result<(), Text> {
        self.config.rewrite(earlier)
    }
}

impl NodeTarget {
    /// An empty node.
    pub fn new() -> NodeTarget {
        let mut shard = Shard {
            node: new_node(0),
            log: Stream::default(),
            facts: NodeFacts {
                config: Configuration::new(Options::default(), None),
            },
            snapshot: None,
            now: UnixMs::new(START_MS),
            epoch: Epoch::default(),
            sessions: 0,
            inboxes: BTreeMap::new(),
        };
        shard.open();
        NodeTarget(Rc::new(RefCell::new(shard)))
    }
}

impl Default for NodeTarget {
    fn default() -> Self {
        NodeTarget::new()
    }
}

fn new_node(start: u64) -> Node {
    Node::new(NodeConfig {
        databases: 16,
        // Another seed after each start: nothing that a caller sees may depend on it.
        hash_seed: [start, 1, 2, 3],
        policy: Durability::Always,
        bulk_bytes_max: 16 << 20,
        #[cfg(feature = "sabotage")]
        sabotage: idem_engine::Sabotage::None,
    })
}

impl Shard {
    fn open(&mut self) {
        let previous = self.epoch;
        self.epoch = Epoch {
            number: previous.number + 1,
            nonce: previous.number + 1,
        };
        self.now = self.now.max(self.node.log_time());
        let start = Record::EpochStart {
            epoch: self.epoch,
            node: NodeId([1; 16]),
            previous,
            reason: EpochReason::Start,
        };
        let end = self.log.append(self.now, 0, &start);
        self.node.open(end, self.now, self.epoch);
    }

    fn restart(&mut self) {
        let before = digest(self.node.keyspace(), self.node.log_time());
        self.node = new_node(self.epoch.number);
        self.node.reset();
        let mut from = 0;
        if let Some(snapshot) = &self.snapshot {
            // An item has the position at which it was taken; it is no part of the log, so that it does not end there.
            recover(&mut self.node, &snapshot.items, |item| item.lsn);
            from = usize::try_from(snapshot.start.get()).expect("it is an index into a vector");
        }
        recover(&mut self.node, &self.log.0[from..], |record| record.end());
        assert_eq!(
            digest(self.node.keyspace(), self.node.log_time()),
            before,
            "state equals replay"
        );
        self.open();
    }

    fn take_snapshot(&mut self) {
        let (start, time) = (self.log.appended(), self.node.log_time());
        let (mut cursor, mut items) = (SnapshotCursor::new(), Vec::new());
        while !cursor.step(self.node.keyspace(), start, time, SNAPSHOT_STEP_BYTES, &mut items) {}
        self.snapshot = Some(Snapshot { start, items });
    }

    /// Everything is "synced" at once, so that a message need not wait.
    fn deliver(&mut self, publisher: &Session, publication: &Publication) {
        for (pattern, receivers) in self.node.pubsub().receivers(publication) {
            for id in receivers {
                let inbox = self
                    .inboxes
                    .get_mut(id)
                    .expect("a connection that ends is forgotten");
                // Each case runs in one protocol, that of all its connections.
                inbox.extend(publication.encode(pattern, publisher.protocol));
            }
        }
    }

    fn execute(&mut self, session: &mut Session, args: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        self.node.tick(self.now, &mut self.log);
        let outcome = self.node.execute(
            session,
            Args::from(args),
            self.now,
            &mut self.log,
            &self.facts,
            &mut out,
        );
        let end = self.log.appended();
        self.node.progress(end, end, self.now);
        let depends_on = match outcome {
            Outcome::Reply { depends_on }
            | Outcome::Close { depends_on }
            | Outcome::Sleep { depends_on, .. } => depends_on,
            Outcome::Snapshot { wait, depends_on } => {
                self.take_snapshot();
                if wait {
                    out.extend_from_slice(b"+OK\r\n");
                }
                depends_on
            }
            Outcome::Wait => panic!("this log always has room"),
            Outcome::Held => panic!("no case lets another connection pause it"),
        };
        assert!(
            depends_on <= self.node.barrier(self.now),
            "a reply depends on no more than was appended"
        );
        for deed in self.node.take_deeds() {
            match deed {
                Deed::Publish(publication) => self.deliver(session, &publication),
                Deed::Configure(changes) => {
                    self.facts.config.apply(&changes);
                    self.node.limit_memory(self.facts.config.options().memory_limit());
                }
                deed => self.node.carry_out(&deed, self.now),
            }
        }
        out
    }
}

fn recover(node: &mut Node, mut bytes: &[u8], reaches: impl Fn(&RawRecord<'_>) -> Lsn) {
    while !bytes.is_empty() {
        let raw = RawRecord::parse(bytes).expect("the log holds what was encoded");
        let record = raw.decode().expect("the log holds what was encoded");
        node.recover(reaches(&raw), raw.time, raw.db, &record);
        bytes = &bytes[raw.bytes.len()..];
    }
}

/// A session on the node.
#[derive(Debug)]
pub struct NodeConnection {
    shard: Rc<RefCell<Shard>>,
    session: Session,
    replies: VecDeque<Value>,
    decoder: ReplyDecoder,
}

impl NodeConnection {
    /// Decodes what came: nothing but whole values.
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.decoder.push(bytes);
        while let Some(value) = self.decoder.next().map_err(|error| error.to_string())? {
            self.replies.push_back(value);
        }
        if self.decoder.in_reply() {
            Err("the node wrote a part of a value".to_owned())
        } else {
            Ok(())
        }
    }
}

impl Drop for NodeConnection {
    fn drop(&mut self) {
        let mut shard = self.shard.borrow_mut();
        shard.node.forget(&mut self.session);
        shard.inboxes.remove(&self.session.id);
    }
}

impl Connection for NodeConnection {
    fn send(&mut self, args: &[&[u8]]) -> Result<(), String> {
        let waiting = self
            .shard
            .borrow_mut()
            .inboxes
            .get_mut(&self.session.id)
            .map(std::mem::take);
        self.take(&waiting.unwrap_or_default())?;
        let bytes = self.shard.borrow_mut().execute(&mut self.session, args);
        let before = self.replies.len();
        self.take(&bytes)?;
        let count = self.replies.len() - before;
        let several = command::lookup(args[0]).is_some_and(CommandSpec::has_many_replies);
        if count == 1 || (count > 1 && several) {
            Ok(())
        } else {
            Err(format!("the node wrote {count} replies"))
        }
    }

    fn receive(&mut self) -> Result<Value, String> {
        let bytes = self
            .shard
            .borrow_mut()
            .inboxes
            .get_mut(&self.session.id)
            .map(std::mem::take);
        self.take(&bytes.unwrap_or_default())?;
        self.replies
            .pop_front()
            .ok_or_else(|| "nothing was asked".to_owned())
    }
}

impl Target for NodeTarget {
    type Connection = NodeConnection;

    fn connect(&mut self) -> NodeConnection {
        let mut shard = self.0.borrow_mut();
        shard.sessions += 1;
        let id = shard.sessions;
        shard.inboxes.insert(id, Vec::new());
        NodeConnection {
            shard: Rc::clone(&self.0),
            session: Session::new(shard.sessions),
            replies: VecDeque::new(),
            decoder: ReplyDecoder::new(),
        }
    }

    fn idle(&mut self, time: Duration) {
        let mut shard = self.0.borrow_mut();
        let ms = u64::try_from(time.as_millis()).expect("cases wait for seconds at most");
        shard.now = UnixMs::new(shard.now.get() + ms);
    }

    fn restart(&mut self) {
        self.0.borrow_mut().restart();
    }
}
