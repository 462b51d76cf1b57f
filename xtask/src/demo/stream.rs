//! Writers on several connections, each with one command on its way, and what each was told.
//!
//! A command whose reply did not arrive is *unknown*: it may have been carried out or not. It is never counted as either.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use idem_protocol::resp::value::Value;

use super::client::Client;
use super::server::Server;
use super::{TTL_MS, bulks};
use crate::failure::Failure;

/// How many connections write.
pub(super) const WRITERS: usize = 4;
/// The kill comes after so many acknowledged writes…
const ENOUGH: u64 = 4000;
/// … or after this time, on a slow disk; in either case in mid-stream.
const LONG_ENOUGH: Duration = Duration::from_secs(4);

/// What is known of one transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It was not sent.
    Nothing,
    /// It was sent, and no reply came.
    Unknown,
    /// The server said that it is done.
    Acknowledged,
}

/// One operation of the stream. What it was begun with follows from its name.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) name: String,
    pub(super) begin: Told,
    pub(super) complete: Told,
    /// Unix milliseconds before BEGIN was sent and after its reply came (or failed to).
    pub(super) between_ms: (u64, u64),
    /// The deadline, when the client asked for it before the kill.
    pub(super) deadline_ms: Option<i64>,
}

impl Operation {
    pub(super) fn fingerprint(&self) -> String {
        format!("request-{}", self.name)
    }

    pub(super) fn owner(&self) -> String {
        format!("attempt-{}", self.name)
    }

    pub(super) fn result(&self) -> String {
        format!("receipt for {}", self.name)
    }
}

/// Everything that the clients know.
#[derive(Debug, Default)]
pub(super) struct Ledger(pub(super) Vec<Operation>);

impl Ledger {
    fn count(&self, told: Told) -> u64 {
        let transitions = self
            .0
            .iter()
            .flat_map(|operation| [operation.begin, operation.complete]);
        transitions.filter(|found| *found == told).count() as u64
    }

    /// Transitions whose reply arrived.
    pub(super) fn acknowledged(&self) -> u64 {
        self.count(Told::Acknowledged)
    }

    /// Transitions that were on their way.
    pub(super) fn unknown(&self) -> u64 {
        self.count(Told::Unknown)
    }

    /// One that went through its whole life, for showing.
    pub(super) fn a_completed_key(&self) -> Option<&str> {
        let completed = self
            .0
            .iter()
            .rfind(|operation| operation.complete == Told::Acknowledged);
        completed.map(|operation| operation.name.as_str())
    }
}

/// Writers that run until their server is gone.
pub(super) struct Stream(Vec<JoinHandle<Result<Vec<Operation>, Failure>>>);

impl Stream {
    /// To be called after the kill: what every writer knows.
    pub(super) fn collect(self) -> Result<Ledger, Failure> {
        let mut all = Vec::new();
        for writer in self.0 {
            let known = writer
                .join()
                .map_err(|_| Failure::new("a writer of the demo panicked"))?;
            all.extend(known?);
        }
        Ok(Ledger(all))
    }
}

/// Starts the writers and returns while they are busy, once enough was acknowledged; `enough` is told how much.
pub(super) fn run(
    server: &Server,
    enough: impl FnOnce(u64) -> Result<(), Failure>,
) -> Result<Stream, Failure> {
    let (sender, acknowledgements) = channel();
    let mut writers = Vec::new();
    for index in 0..WRITERS {
        let client = server.connect()?;
        let sender = sender.clone();
        writers.push(thread::spawn(move || write(index, client, &sender)));
    }
    drop(sender);
    let stream = Stream(writers);
    let Some(acknowledged) = wait(&acknowledgements) else {
        // Each has stopped by itself; the first that says why is the reason.
        stream.collect()?;
        return Err(Failure::new(format!(
            "every writer lost {} before the kill",
            server.address()
        )));
    };
    if acknowledged == 0 {
        return Err(Failure::new("nothing was acknowledged within seconds"));
    }
    enough(acknowledged)?;
    Ok(stream)
}

/// Counts until it is enough, in writes or in time; none when every writer is gone.
fn wait(acknowledgements: &Receiver<()>) -> Option<u64> {
    let until = Instant::now() + LONG_ENOUGH;
    let mut count = 0;
    while count < ENOUGH {
        match acknowledgements.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(()) => count += 1,
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    Some(count)
}

/// One writer: operation after operation until the connection breaks. A reply that is no right one is a failure.
fn write(index: usize, mut client: Client, acknowledged: &Sender<()>) -> Result<Vec<Operation>, Failure> {
    let mut operations = Vec::new();
    for number in 0u64.. {
        let mut operation = Operation {
            name: format!("stream:{index}:{number}"),
            begin: Told::Unknown,
            complete: Told::Nothing,
            between_ms: (now_ms(), u64::MAX),
            deadline_ms: None,
        };
        let open = step(&mut client, &mut operation, number, acknowledged)?;
        operations.push(operation);
        if !open {
            break;
        }
    }
    Ok(operations)
}

/// The commands of one operation; false once the connection is gone.
fn step(
    client: &mut Client,
    operation: &mut Operation,
    number: u64,
    acknowledged: &Sender<()>,
) -> Result<bool, Failure> {
    let (fingerprint, owner) = (operation.fingerprint(), operation.owner());
    let (name, ttl) = (operation.name.clone(), TTL_MS.to_string());
    let reply = client.call(&["IDEM", &name, "BEGIN", &fingerprint, &owner, &ttl]);
    operation.between_ms.1 = now_ms();
    let Ok(reply) = reply else { return Ok(false) };
    require(&reply, &bulks(&["acquired"]), &name)?;
    operation.begin = Told::Acknowledged;
    // Whoever waits may have seen enough and stopped listening.
    let _ = acknowledged.send(());

    // Some are asked for their deadline, to the millisecond; the others' is known from the times of the call.
    if number.is_multiple_of(8) {
        let Ok(reply) = client.call(&["IDEM", &name, "INSPECT"]) else {
            return Ok(false);
        };
        operation.deadline_ms = reply.entry(b"deadline_ms").and_then(Value::as_int);
        if operation.deadline_ms.is_none() {
            return Err(Failure::new(format!("INSPECT of {name} has no deadline")));
        }
    }
    // And some stay pending, as of a worker that died.
    if number % 5 == 4 {
        return Ok(true);
    }
    operation.complete = Told::Unknown;
    let Ok(reply) = client.call(&[
        "IDEM",
        &name,
        "COMPLETE",
        &fingerprint,
        &owner,
        &operation.result(),
    ]) else {
        return Ok(false);
    };
    require(&reply, &Value::Int(1), &name)?;
    operation.complete = Told::Acknowledged;
    let _ = acknowledged.send(());
    Ok(true)
}

fn require(reply: &Value, expected: &Value, name: &str) -> Result<(), Failure> {
    if reply == expected {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{name}: the reply is {} instead of {}",
        super::client::shown(reply),
        super::client::shown(expected)
    )))
}

/// Unix milliseconds now.
fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
