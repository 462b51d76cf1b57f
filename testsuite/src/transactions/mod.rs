//! Kill the server in the middle of transactions, and see that each is there as a whole or not at all.
//!
//! # Vocabulary
//!
//! * **job** — what one transaction does, and how it is recognised ([`Job`]). A writer's transactions have numbers from 1,
//!   and it sends them in order, so that its keys have exactly one state after each.
//! * **acknowledged, told** — as in [`crate::oracle`]: answered by EXEC; seen by a reader. Neither may be missing after a
//!   restart. What was sent and not answered may be there or not, up to some transaction and nothing after it.
//!
//! One cycle: writers and a reader work; after a random time the server is killed (on a disk that loses power, the power
//! goes first); it starts again, and what is there is compared. The next cycle goes on from there.

mod jobs;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_protocol::resp::value::Value;

pub use jobs::{Completion, Job, ThreeKeys};

use crate::kill_loop::Site;
use crate::process::client::encode_command;
use crate::process::{Client, ClientError, Idemd};
use crate::rng::Rng;

/// Writers of a run; there is one reader more.
const WRITERS: usize = 3;
/// Transactions that are sent before the first one's reply is read, at most.
const DEPTH: u64 = 4;

/// One command's arguments.
pub type Command = Vec<Vec<u8>>;

fn words(words: &[&[u8]]) -> Command {
    words.iter().map(|word| word.to_vec()).collect()
}

/// What a run did: a run that acknowledged nothing has proved nothing.
#[derive(Debug, Default)]
pub struct Summary {
    /// Kills.
    pub kills: u64,
    /// Transactions acknowledged.
    pub acknowledged: u64,
    /// Transactions that a kill left unknown.
    pub unknown: u64,
}

/// Runs the loop on a new data directory. The error is a violation, with the cycle in which it was found.
pub fn run(site: &Site<'_>, seed: u64, kills: u64, job: &impl Job) -> Result<Summary, String> {
    let rng = Rng::new(seed);
    let mut plan = rng.part(200);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|index| Writer::new(index, rng.part(u64::try_from(index).expect("a few"))))
        .collect();
    let mut summary = Summary::default();
    for cycle in 0..kills {
        let at = |violation: String| format!("cycle {cycle}: {violation}");
        let server = site.start();
        resume(&server, &mut writers, job, &mut summary).map_err(at)?;
        let time = Duration::from_micros(plan.between(5_000, 250_000));
        work_until_killed(site, &server, &mut writers, job, time).map_err(at)?;
        drop(server);
        site.verify().map_err(at)?;
        summary.kills += 1;
    }
    let server = site.start();
    resume(&server, &mut writers, job, &mut summary)?;
    server.stop();
    summary.acknowledged = writers.iter().map(|writer| writer.acknowledged).sum();
    Ok(summary)
}

fn resume(
    server: &Idemd,
    writers: &mut [Writer],
    job: &impl Job,
    summary: &mut Summary,
) -> Result<(), String> {
    let mut client = server.client();
    for writer in writers {
        summary.unknown += *writer.sent.get_mut() - writer.acknowledged;
        writer
            .resume(&mut client, job)
            .map_err(|violation| format!("writer {}: {violation}", writer.index))?;
    }
    Ok(())
}

/// One client with keys of its own, and what is known of its transactions.
struct Writer {
    index: usize,
    rng: Rng,
    /// The newest that was sent.
    sent: AtomicU64,
    /// The newest that EXEC answered.
    acknowledged: u64,
    /// The newest that the reader saw the effect of.
    told: AtomicU64,
}

impl Writer {
    fn new(index: usize, rng: Rng) -> Writer {
        Writer {
            index,
            rng,
            sent: AtomicU64::new(0),
            acknowledged: 0,
            told: AtomicU64::new(0),
        }
    }

    /// What is there is of one transaction, and nothing that anybody was told is missing.
    fn resume(&mut self, client: &mut Client, job: &impl Job) -> Result<(), String> {
        let (sent, told) = (*self.sent.get_mut(), *self.told.get_mut());
        let least = self.acknowledged.max(told);
        let last = job.last(client, self.index, least, sent)?;
        if last < least || last > sent {
            return Err(format!(
                "{last} is the last that is there; {} was acknowledged, {told} told, {sent} sent",
                self.acknowledged
            ));
        }
        // The next one gets the next number, or the keys would have states that no transaction made.
        *self.sent.get_mut() = last;
        self.acknowledged = last;
        Ok(())
    }
}

/// Sends transactions until the connection breaks, up to [`DEPTH`] before it reads the first one's reply. Returns the newest
/// that was acknowledged.
fn write(
    peer: &mut Peer,
    job: &impl Job,
    writer: usize,
    mut rng: Rng,
    sent: &AtomicU64,
) -> Result<u64, String> {
    let mut acknowledged = sent.load(Ordering::SeqCst);
    loop {
        let first = acknowledged + 1;
        let last = acknowledged + rng.between(1, DEPTH);
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for n in first..=last {
            let before = job.before(writer, n);
            let (commands, replies): (Vec<Command>, Vec<Value>) = job.inside(writer, n).into_iter().unzip();
            // Before EXEC's reply there are those of `before`, that of MULTI, and one QUEUED each.
            expected.push((n, before.len() + 1 + commands.len(), Value::Array(replies)));
            let multi = std::iter::once(words(&[b"MULTI"]));
            let exec = std::iter::once(words(&[b"EXEC"]));
            let all = before.into_iter().chain(multi).chain(commands).chain(exec);
            all.for_each(|command| bytes.extend(encode(&command)));
        }
        sent.store(last, Ordering::SeqCst);
        if peer.client.send_raw(&bytes).is_err() {
            return Ok(acknowledged);
        }
        for (n, passed, replies) in expected {
            for _ in 0..passed {
                match peer.receive()? {
                    Some(Value::Error(text)) => return Err(format!("transaction {n}: {text}")),
                    Some(_) => {}
                    None => return Ok(acknowledged),
                }
            }
            match peer.receive()? {
                Some(found) if found == replies => acknowledged = n,
                Some(found) => {
                    return Err(format!(
                        "EXEC of transaction {n} answered {found:?}, not {replies:?}"
                    ));
                }
                None => return Ok(acknowledged),
            }
        }
    }
}

/// Looks at all writers' keys in turns until the connection breaks. A part of a transaction is an error; what it saw is
/// told.
fn read(peer: &mut Peer, job: &impl Job, writers: &[(&AtomicU64, &AtomicU64)]) -> Result<(), String> {
    loop {
        for (writer, (sent, told)) in writers.iter().enumerate() {
            let newest = sent.load(Ordering::SeqCst).max(1);
            match job
                .seen(peer, writer, newest)
                .map_err(|error| format!("a reader: {error}"))?
            {
                Some(seen) => told.fetch_max(seen, Ordering::SeqCst),
                None => return Ok(()),
            };
        }
    }
}

fn work_until_killed(
    site: &Site<'_>,
    server: &Idemd,
    writers: &mut [Writer],
    job: &impl Job,
    time: Duration,
) -> Result<(), String> {
    let connect = || Peer {
        client: server.client(),
        disk_goes_away: site.power.is_some(),
    };
    std::thread::scope(|scope| {
        let mut seen = Vec::new();
        let mut workers = Vec::new();
        for writer in writers {
            let mut peer = connect();
            let (index, rng) = (writer.index, writer.rng.part(writer.acknowledged));
            let (sent, acknowledged) = (&writer.sent, &mut writer.acknowledged);
            seen.push((sent, &writer.told));
            workers.push(scope.spawn(move || {
                *acknowledged = write(&mut peer, job, index, rng, sent)?;
                Ok(())
            }));
        }
        let mut peer = connect();
        workers.push(scope.spawn(move || read(&mut peer, job, &seen)));
        std::thread::sleep(time);
        let died = server.has_ended();
        site.kill(server);
        for worker in workers {
            worker.join().map_err(|_| "a client panicked".to_owned())??;
        }
        if died {
            return Err(format!("the server ended by itself: {}", server.stderr()));
        }
        Ok(())
    })
}

/// A connection that is going to be lost.
#[derive(Debug)]
pub struct Peer {
    client: Client,
    /// The disk goes away before the server does: what it then refuses to write is lost, too.
    disk_goes_away: bool,
}

impl Peer {
    /// The next reply; `None` when the connection is lost, which is what this loop does to it.
    fn receive(&mut self) -> Result<Option<Value>, String> {
        match self.client.receive() {
            Ok(Value::Error(text))
                if self.disk_goes_away && (text.starts_with("MISCONF") || text.starts_with("EXECABORT")) =>
            {
                Ok(None)
            }
            Ok(value) => Ok(Some(value)),
            Err(ClientError::Closed) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Commands in a transaction, and what EXEC answers; `None` when the connection is lost.
    fn transaction(&mut self, commands: &[Command]) -> Result<Option<Vec<Value>>, String> {
        let multi = std::iter::once(words(&[b"MULTI"]));
        let exec = std::iter::once(words(&[b"EXEC"]));
        let all = multi.chain(commands.iter().cloned()).chain(exec);
        let bytes: Vec<u8> = all.flat_map(|command| encode(&command)).collect();
        if self.client.send_raw(&bytes).is_err() {
            return Ok(None);
        }
        for _ in 0..=commands.len() {
            if self.receive()?.is_none() {
                return Ok(None);
            }
        }
        match self.receive()? {
            Some(Value::Array(replies)) => Ok(Some(replies)),
            Some(other) => Err(format!("EXEC answered {other:?}")),
            None => Ok(None),
        }
    }
}

fn encode(command: &Command) -> Vec<u8> {
    let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
    encode_command(&words)
}
