//! One node, its log, its clock and one connection.

use idem_engine::{
    Changes, ClientFacts, Deed, Durability, Facts, Log, Node, NodeConfig, Outcome, ServerFacts, Session,
};
use idem_protocol::command::errors::Text;
use idem_protocol::resp::decode::{Decoder, Limits, Step};
use idem_protocol::resp::value::{ReplyDecoder, Value};
use idem_protocol::resp::{Args, Protocol};
use idem_protocol::wal::{EpochReason, Record};
use idem_protocol::{Epoch, Lsn, NodeId, UnixMs};

use super::MemoryLog;

/// A server that knows three things.
#[derive(Clone, Debug, Default)]
pub(crate) struct FixedFacts {
    pub(crate) snapshot_running: bool,
    pub(crate) last_save: u64,
    pub(crate) settings: Vec<(&'static str, String)>,
    /// Connections beside the world's own.
    pub(crate) clients: Vec<Session>,
}

impl Facts for FixedFacts {
    fn info(&self) -> ServerFacts {
        ServerFacts {
            tcp_port: 6379,
            run_id: "ab".repeat(20),
            ..ServerFacts::default()
        }
    }

    fn last_save(&self) -> u64 {
        self.last_save
    }

    fn snapshot_running(&self) -> bool {
        self.snapshot_running
    }

    fn clients(&self, only: Option<u64>, visit: &mut dyn FnMut(&ClientFacts<'_>)) {
        crate::clients::visit(&self.clients, only, visit);
    }

    fn settings(&self) -> &[(&'static str, String)] {
        &self.settings
    }

    /// Takes numbers for the options that there are, as long as all of them together, `earlier` included, are below 100.
    fn check_settings(&self, earlier: &[Deed], pairs: &[(&[u8], &[u8])]) -> Result<Changes, Text> {
        let known = |name: &[u8]| self.settings.iter().find(|(known, _)| known.as_bytes() == name);
        let given = pairs.iter().map(|(name, value)| {
            let (name, _) = known(name).ok_or("ERR Unknown option")?;
            Ok((*name, String::from_utf8_lossy(value).into_owned()))
        });
        let changes = Changes::new(given.collect::<Result<_, Text>>()?);
        let before = earlier.iter().filter_map(|deed| match deed {
            Deed::Configure(changes) => Some(changes),
            _ => None,
        });
        let all = before.chain([&changes]).flat_map(Changes::iter);
        let mut sum = 0;
        for (_, value) in all {
            sum += value.parse::<u32>().map_err(|_| "ERR CONFIG SET failed")?;
        }
        if sum < 100 {
            Ok(changes)
        } else {
            Err("ERR too much together".into())
        }
    }
}

/// What one command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) depends_on: Lsn,
    /// None when nothing was written to the output.
    pub(crate) reply: Option<Value>,
    /// What was appended, as text.
    pub(crate) written: Vec<String>,
}

impl Ran {
    /// The reply as [`text`] shows it.
    pub(crate) fn text(&self) -> String {
        self.reply.as_ref().map_or_else(|| "(none)".to_owned(), text)
    }
}

pub(crate) struct World {
    pub(crate) node: Node,
    pub(crate) log: MemoryLog,
    pub(crate) session: Session,
    pub(crate) facts: FixedFacts,
    pub(crate) now: u64,
    pub(crate) policy: Durability,
}

const EPOCH: Epoch = Epoch { number: 1, nonce: 7 };

impl World {
    /// A new log, opened at time 0; everything durable, and made durable by nothing but `settle`.
    pub(crate) fn new(policy: Durability) -> Self {
        Self::open(policy, MemoryLog::new(), 0)
    }

    /// What a start under the wall clock `wall` makes of a log: replay, clock at or after the log's time, EpochStart.
    pub(crate) fn open(policy: Durability, mut log: MemoryLog, wall: u64) -> Self {
        let config = NodeConfig {
            databases: 16,
            hash_seed: [1, 2, 3, 4],
            policy,
            bulk_bytes_max: 16 << 20,
            #[cfg(feature = "sabotage")]
            sabotage: idem_engine::Sabotage::None,
        };
        let mut node = Node::new(config);
        for raw in log.records(0) {
            let record = raw.decode().expect("the log holds what was encoded");
            node.recover(raw.end(), raw.time, raw.db, &record);
        }
        let now = wall.max(node.log_time().get());
        let record = Record::EpochStart {
            epoch: EPOCH,
            node: NodeId::default(),
            previous: Epoch::default(),
            reason: EpochReason::Start,
        };
        let end = log.append_unreserved(UnixMs::new(now), &record);
        node.open(end, UnixMs::new(now), EPOCH);
        World {
            node,
            log,
            session: Session::new(1),
            facts: FixedFacts::default(),
            now,
            policy,
        }
    }

    /// Replays the log up to `end` without an EpochStart: the state of a server that has just read so much, under the
    /// oldest clock that is possible.
    pub(crate) fn state_at(&self, end: Lsn) -> World {
        let log = self.log.prefix(end);
        let mut world = World::new(self.policy);
        world.node.reset();
        for raw in log.records(0) {
            world.node.recover(
                raw.end(),
                raw.time,
                raw.db,
                &raw.decode().expect("the log holds what was encoded"),
            );
        }
        world.now = world.node.log_time().get();
        world.node.open(end, UnixMs::new(world.now), EPOCH);
        world.log = log;
        world
    }

    pub(crate) fn now(&self) -> UnixMs {
        UnixMs::new(self.now)
    }

    /// Runs one command on the world's connection.
    pub(crate) fn run(&mut self, arguments: &[&[u8]]) -> Ran {
        let before = self.log.len();
        let mut out = Vec::new();
        let now = self.now();
        let outcome = self.node.execute(
            &mut self.session,
            Args::from(arguments),
            now,
            &mut self.log,
            &self.facts,
            &mut out,
        );
        let mut decoder = ReplyDecoder::new();
        decoder.push(&out);
        let reply = decoder.next().expect("replies are well-formed");
        assert_eq!(
            decoder.next().expect("replies are well-formed"),
            None,
            "one reply for a command"
        );
        assert!(!decoder.in_reply(), "a whole reply");
        let depends_on = match outcome {
            Outcome::Reply { depends_on }
            | Outcome::Close { depends_on }
            | Outcome::Sleep { depends_on, .. }
            | Outcome::Snapshot { depends_on, .. } => depends_on,
            Outcome::Wait | Outcome::Held => Lsn::ZERO,
        };
        assert!(
            depends_on <= self.log.appended(),
            "nothing depends on what is not there"
        );
        assert_eq!(self.log.appended(), self.node.appended());
        Ran {
            outcome,
            depends_on,
            reply,
            written: self.written(before),
        }
    }

    /// Runs a line as a person would type it.
    pub(crate) fn line(&mut self, line: &str) -> Ran {
        let arguments = parse(line);
        self.run(&args(&arguments))
    }

    pub(crate) fn tick(&mut self) -> (usize, Vec<String>) {
        let before = self.log.len();
        let now = self.now();
        let tick = self.node.tick(now, &mut self.log);
        (tick.reclaimed, self.written(before))
    }

    /// Everything appended reaches the disk.
    pub(crate) fn settle(&mut self) {
        let end = self.log.appended();
        let now = self.now();
        self.node.progress(end, end, now);
    }

    fn written(&self, first: usize) -> Vec<String> {
        self.log
            .records(first)
            .map(|raw| show(&raw.decode().expect("the log holds what was encoded")))
            .collect()
    }
}

/// The words of a line, with Redis's quoting.
pub(crate) fn parse(line: &str) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::default();
    let input = format!("{line}\r\n").into_bytes();
    let limits = Limits::with_bulk_bytes(16 << 20);
    assert_eq!(
        decoder.step(&input, &limits),
        Step::Command {
            consumed: input.len()
        },
        "{line}"
    );
    decoder.args(&input).iter().map(<[u8]>::to_vec).collect()
}

pub(crate) fn args(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}

fn ascii(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// A record in one line: kind, key and what matters.
fn show(record: &Record<'_>) -> String {
    match record {
        Record::StringPut { key, deadline, value } => {
            format!("put {} {deadline} {}", ascii(key), ascii(value))
        }
        Record::Delete { key, .. } => format!("delete {}", ascii(key)),
        Record::DeadlinePut { key, deadline } => format!("deadline {} {deadline}", ascii(key)),
        Record::HashPut {
            key,
            deadline,
            fields,
        } => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(f, v)| format!("{}={}", ascii(f), ascii(v)))
                .collect();
            format!("hash {} {deadline} {}", ascii(key), fields.join(","))
        }
        Record::HashDelete { key, fields } => {
            let fields: Vec<String> = fields.iter().map(ascii).collect();
            format!("hashdelete {} {}", ascii(key), fields.join(","))
        }
        Record::IdempotencyPut {
            key,
            deadline,
            record,
        } => {
            format!("idem {} {deadline} {}", ascii(key), record.state.word())
        }
        Record::FlushDb => "flushdb".to_owned(),
        Record::FlushAll => "flushall".to_owned(),
        Record::Clock => "clock".to_owned(),
        Record::Transaction { records } => {
            let parts: Vec<String> = records.iter().map(|(_, part)| show(&part)).collect();
            format!("all of ({})", parts.join(", "))
        }
        other => format!("{:?}", other.opcode()),
    }
}

/// A reply in one line: `OK`, `5`, `"text"`, `nil`, `[…]`, `{…}`, `-ERR …`, `=txt …`.
fn text(value: &Value) -> String {
    let all = |items: &[Value]| items.iter().map(text).collect::<Vec<_>>().join(" ");
    match value {
        Value::Simple(text) => String::from_utf8_lossy(text.as_ref()).into_owned(),
        Value::Error(text) => format!("-{text}"),
        Value::Int(value) => value.to_string(),
        Value::Bulk(bytes) => format!("\"{}\"", ascii(bytes)),
        Value::Null => "nil".to_owned(),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => format!("[{}]", all(items)),
        Value::Map(pairs) => {
            let pairs: Vec<String> = pairs
                .iter()
                .map(|(key, value)| format!("{} {}", text(key), text(value)))
                .collect();
            format!("{{{}}}", pairs.join(" "))
        }
        other => format!("{other:?}"),
    }
}

/// Speaks RESP3 from here on, without a HELLO.
impl World {
    pub(crate) fn resp3(mut self) -> Self {
        self.session.protocol = Protocol::Resp3;
        self
    }
}
