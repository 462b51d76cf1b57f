//! SIGKILL in the middle of transactions, again and again: after each restart a transaction is there as a whole or not
//! at all, and every one that was acknowledged, or seen by a reader, is there.
//!
//! Each writer has keys of its own and sends its transactions in order, some of them pipelined, so that its keys have
//! exactly one state after each. Small segments and snapshots make kills fall into rotations and publications, too.
//!
//! `IDEM_KILL_CYCLES` sets the number of kills, `IDEM_SEED` the plan. That a log is cut inside of a transaction, at every
//! byte, is for the simulated disk (`wal/tests/recovery_cuts.rs`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_protocol::resp::value::Value;
use idem_testsuite::kill_loop::cycles;
use idem_testsuite::process::client::encode_command;
use idem_testsuite::process::{Client, ClientError, Idemd, IdemdOptions, Policy};
use idem_testsuite::rng::Rng;
use idem_testsuite::testdir::TestDir;
use idem_testsuite::walctl;

const WRITERS: usize = 3;
/// Verdicts that a kill may leave: clean, torn, unproven.
const VERDICTS: [i32; 3] = [0, 2, 3];
/// Transactions that are sent before the first one's reply is read, at most.
const DEPTH: u64 = 4;

/// What the transactions of one writer do, and what there is after them. Transactions are counted from 1.
trait Job: Sync {
    /// The commands before transaction `n` that are no part of it.
    fn before(&self, writer: usize, n: u64) -> Vec<Command>;
    /// Its commands, each with the reply that EXEC has to hold for it.
    fn inside(&self, writer: usize, n: u64) -> Vec<(Command, Value)>;
    /// Which transaction was the last that left what is there: at least `least`, at most `most`. The error says what is
    /// there of one transaction and not of another.
    fn last(&self, client: &mut Client, writer: usize, least: u64, most: u64) -> Result<u64, String>;
    /// A reader's look at one moment, in a transaction of its own: the last one that it saw the effect of, 0 when there
    /// is none, and `None` when the connection is lost. `newest` is about the last one that was sent.
    fn seen(&self, client: &mut Client, writer: usize, newest: u64) -> Result<Option<u64>, String>;
}

type Command = Vec<Vec<u8>>;

fn words(words: &[&[u8]]) -> Command {
    words.iter().map(|word| word.to_vec()).collect()
}

#[test]
fn three_keys_change_together_with_always() {
    check("transactions-always", Policy::Always, 31, &ThreeKeys);
}

#[test]
fn three_keys_change_together_with_no() {
    check("transactions-no", Policy::No, 32, &ThreeKeys);
}

#[test]
fn a_completion_its_marker_and_its_effect_survive_or_vanish_together() {
    check("transactions-idem", Policy::Always, 33, &Completion);
}

/// A string, a hash, and two keys of which each transaction makes one and deletes the other.
struct ThreeKeys;

impl ThreeKeys {
    fn keys(writer: usize) -> [String; 4] {
        ["string", "hash", "even", "odd"].map(|name| format!("{name}:{writer}"))
    }

    /// Long ones reach over pages, so that a write can be torn inside of a transaction.
    fn value(n: u64) -> Vec<u8> {
        let padding = usize::try_from(n * 7_919 % 9_000).expect("it is small");
        let mut value = format!("{n}:").into_bytes();
        value.resize(value.len() + padding, b'x');
        value
    }

    fn number(value: &Value) -> Result<u64, String> {
        let bytes = match value {
            Value::Null => return Ok(0),
            Value::Bulk(bytes) => bytes,
            other => return Err(format!("{other:?} is no value")),
        };
        let digits: String = bytes
            .iter()
            .map_while(|byte| byte.is_ascii_digit().then_some(char::from(*byte)))
            .collect();
        let n = digits.parse().map_err(|_| format!("{digits:?} is no number"))?;
        (*bytes == ThreeKeys::value(n))
            .then_some(n)
            .ok_or(format!("a changed value of {n}"))
    }

    fn asked(writer: usize) -> Vec<Command> {
        let [string, hash, even, odd] = ThreeKeys::keys(writer);
        vec![
            words(&[b"GET", string.as_bytes()]),
            words(&[b"HGET", hash.as_bytes(), b"n"]),
            words(&[b"GET", even.as_bytes()]),
            words(&[b"GET", odd.as_bytes()]),
        ]
    }

    /// The one transaction that these replies are of.
    fn of_one(replies: &[Value]) -> Result<u64, String> {
        let found: Vec<u64> = replies.iter().map(ThreeKeys::number).collect::<Result<_, _>>()?;
        let n = found[0];
        let expected = if n.is_multiple_of(2) {
            [n, n, n, 0]
        } else {
            [n, n, 0, n]
        };
        if found == expected {
            Ok(n)
        } else {
            Err(format!("string, hash, even, odd are of transactions {found:?}"))
        }
    }
}

impl Job for ThreeKeys {
    fn before(&self, _: usize, _: u64) -> Vec<Command> {
        Vec::new()
    }

    fn inside(&self, writer: usize, n: u64) -> Vec<(Command, Value)> {
        let [string, hash, even, odd] = ThreeKeys::keys(writer);
        let (made, deleted) = if n.is_multiple_of(2) {
            (even, odd)
        } else {
            (odd, even)
        };
        let value = ThreeKeys::value(n);
        let is_first = i64::from(n == 1);
        vec![
            (
                words(&[b"SET", string.as_bytes(), &value]),
                Value::Simple("OK".into()),
            ),
            (
                words(&[b"HSET", hash.as_bytes(), b"n", &value]),
                Value::Int(is_first),
            ),
            (
                words(&[b"SET", made.as_bytes(), &value]),
                Value::Simple("OK".into()),
            ),
            (words(&[b"DEL", deleted.as_bytes()]), Value::Int(1 - is_first)),
        ]
    }

    fn last(&self, client: &mut Client, writer: usize, _: u64, _: u64) -> Result<u64, String> {
        let replies: Result<Vec<Value>, String> = ThreeKeys::asked(writer)
            .iter()
            .map(|command| call(client, command))
            .collect();
        ThreeKeys::of_one(&replies?)
    }

    fn seen(&self, client: &mut Client, writer: usize, _: u64) -> Result<Option<u64>, String> {
        match transaction(client, &ThreeKeys::asked(writer))? {
            Some(replies) => ThreeKeys::of_one(&replies).map(Some),
            None => Ok(None),
        }
    }
}

/// `IDEM … COMPLETE`, `ONCE`, and a `SET` as the effect: a job of its own for each transaction.
struct Completion;

impl Completion {
    fn keys(writer: usize, n: u64) -> [String; 3] {
        ["job", "once", "effect"].map(|name| format!("{name}:{writer}:{n}"))
    }

    fn result(n: u64) -> Vec<u8> {
        [b"\xff\r\n".as_slice(), &ThreeKeys::value(n)].concat()
    }

    /// Whether transaction `n` left what is there; a part of it is an error.
    fn is_done(replies: &[Value], n: u64) -> Result<bool, String> {
        let state = replies[0].entry(b"state").and_then(Value::as_bytes);
        match (state, &replies[1], &replies[2]) {
            (Some(b"completed"), Value::Int(1), Value::Bulk(effect)) if *effect == Completion::result(n) => {
                Ok(true)
            }
            // The BEGIN before it may be there alone.
            (Some(b"pending") | None, Value::Int(0), Value::Null) => Ok(false),
            _ => Err(format!("a part of transaction {n}: {replies:?}")),
        }
    }

    fn asked(writer: usize, n: u64) -> Vec<Command> {
        let [job, once, effect] = Completion::keys(writer, n);
        vec![
            words(&[b"IDEM", job.as_bytes(), b"INSPECT"]),
            words(&[b"EXISTS", once.as_bytes()]),
            words(&[b"GET", effect.as_bytes()]),
        ]
    }
}

impl Job for Completion {
    fn before(&self, writer: usize, n: u64) -> Vec<Command> {
        let [job, ..] = Completion::keys(writer, n);
        vec![words(&[
            b"IDEM",
            job.as_bytes(),
            b"BEGIN",
            b"fingerprint",
            b"owner",
            b"3600000",
        ])]
    }

    fn inside(&self, writer: usize, n: u64) -> Vec<(Command, Value)> {
        let [job, once, effect] = Completion::keys(writer, n);
        let result = Completion::result(n);
        vec![
            (
                words(&[
                    b"IDEM",
                    job.as_bytes(),
                    b"COMPLETE",
                    b"fingerprint",
                    b"owner",
                    &result,
                ]),
                Value::Int(1),
            ),
            (words(&[b"ONCE", once.as_bytes(), b"3600000"]), Value::Int(1)),
            (
                words(&[b"SET", effect.as_bytes(), &result]),
                Value::Simple("OK".into()),
            ),
        ]
    }

    fn last(&self, client: &mut Client, writer: usize, least: u64, most: u64) -> Result<u64, String> {
        let mut last = 0;
        // The ones before `least` were looked at after earlier kills; a few of them again.
        for n in least.saturating_sub(20).max(1)..=most {
            let replies: Result<Vec<Value>, String> = Completion::asked(writer, n)
                .iter()
                .map(|command| call(client, command))
                .collect();
            if Completion::is_done(&replies?, n)? {
                if last != 0 && last + 1 != n {
                    return Err(format!("transaction {} is missing before {n}", n - 1));
                }
                last = n;
            }
        }
        Ok(last)
    }

    fn seen(&self, client: &mut Client, writer: usize, newest: u64) -> Result<Option<u64>, String> {
        match transaction(client, &Completion::asked(writer, newest))? {
            Some(replies) => Ok(Some(if Completion::is_done(&replies, newest)? {
                newest
            } else {
                0
            })),
            None => Ok(None),
        }
    }
}

fn check(name: &str, policy: Policy, seed: u64, job: &impl Job) {
    let dir = TestDir::new(name, seed);
    let options = IdemdOptions::default().policy(policy).small_files();
    let rng = Rng::new(dir.seed());
    let mut plan = rng.part(200);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|index| Writer {
            index,
            rng: rng.part(u64::try_from(index).expect("a few")),
            sent: AtomicU64::new(0),
            acknowledged: 0,
            told: AtomicU64::new(0),
        })
        .collect();
    let (kills, mut acknowledged, mut unknown) = (cycles(8), 0, 0);
    for cycle in 0..=kills {
        let server = Idemd::start(&dir.data(), &options);
        let mut client = server.client();
        for writer in &mut writers {
            unknown += *writer.sent.get_mut() - writer.acknowledged;
            writer.resume(&mut client, job).unwrap_or_else(|violation| {
                panic!("after kill {cycle}, writer {}: {violation}", writer.index)
            });
        }
        if cycle == kills {
            // The last start is stopped in order, and has everything.
            server.stop();
            let verdict = walctl::verify(&dir.data());
            assert_eq!((verdict.code, verdict.letter()), (0, "A"), "{}", verdict.last());
            break;
        }
        let before: u64 = writers.iter().map(|writer| writer.acknowledged).sum();
        let time = Duration::from_micros(plan.between(5_000, 250_000));
        work_until_killed(&server, &mut writers, job, time)
            .unwrap_or_else(|violation| panic!("cycle {cycle}: {violation}"));
        acknowledged += writers.iter().map(|writer| writer.acknowledged).sum::<u64>() - before;
        drop(server);
        let verdict = walctl::verify(&dir.data());
        assert!(
            VERDICTS.contains(&verdict.code),
            "walctl verify: {:?}",
            verdict.lines
        );
    }
    println!("{name}: {kills} kills, {acknowledged} transactions acknowledged, {unknown} unknown");
    assert!(acknowledged > 10 * kills, "too little was done: {acknowledged}");
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

/// Sends transactions until the connection breaks. Returns the newest that was acknowledged.
fn write(
    client: &mut Client,
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
        if client.send_raw(&bytes).is_err() {
            return Ok(acknowledged);
        }
        for (n, passed, replies) in expected {
            for _ in 0..passed {
                match received(client)? {
                    Some(Value::Error(text)) => return Err(format!("transaction {n}: {text}")),
                    Some(_) => {}
                    None => return Ok(acknowledged),
                }
            }
            match received(client)? {
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

/// Looks at all writers' keys in turns until the connection breaks: never a part of a transaction, and never back.
fn read(client: &mut Client, job: &impl Job, writers: &[(&AtomicU64, &AtomicU64)]) -> Result<(), String> {
    loop {
        for (writer, (sent, told)) in writers.iter().enumerate() {
            let newest = sent.load(Ordering::SeqCst).max(1);
            match job
                .seen(client, writer, newest)
                .map_err(|error| format!("a reader: {error}"))?
            {
                Some(seen) => told.fetch_max(seen, Ordering::SeqCst),
                None => return Ok(()),
            };
        }
    }
}

fn work_until_killed(
    server: &Idemd,
    writers: &mut [Writer],
    job: &impl Job,
    time: Duration,
) -> Result<(), String> {
    std::thread::scope(|scope| {
        let mut looking = server.client();
        let mut seen = Vec::new();
        let mut workers = Vec::new();
        for writer in writers {
            let mut client = server.client();
            let (index, rng) = (writer.index, writer.rng.part(writer.acknowledged));
            let (sent, acknowledged) = (&writer.sent, &mut writer.acknowledged);
            seen.push((sent, &writer.told));
            workers.push(scope.spawn(move || {
                *acknowledged = write(&mut client, job, index, rng, sent)?;
                Ok(())
            }));
        }
        workers.push(scope.spawn(move || read(&mut looking, job, &seen)));
        std::thread::sleep(time);
        server.sigkill();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| "a client panicked".to_owned())?)
    })
}

/// The next reply; `None` when the connection is lost, which is what this test does to it.
fn received(client: &mut Client) -> Result<Option<Value>, String> {
    match client.receive() {
        Ok(value) => Ok(Some(value)),
        Err(ClientError::Closed) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Commands in a transaction, and what EXEC answers; `None` when the connection is lost.
fn transaction(client: &mut Client, commands: &[Command]) -> Result<Option<Vec<Value>>, String> {
    let multi = std::iter::once(words(&[b"MULTI"]));
    let exec = std::iter::once(words(&[b"EXEC"]));
    let all = multi.chain(commands.iter().cloned()).chain(exec);
    let bytes: Vec<u8> = all.flat_map(|command| encode(&command)).collect();
    if client.send_raw(&bytes).is_err() {
        return Ok(None);
    }
    for _ in 0..=commands.len() {
        if received(client)?.is_none() {
            return Ok(None);
        }
    }
    match received(client)? {
        Some(Value::Array(replies)) => Ok(Some(replies)),
        Some(other) => Err(format!("EXEC answered {other:?}")),
        None => Ok(None),
    }
}

fn call(client: &mut Client, command: &Command) -> Result<Value, String> {
    let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
    match client.call(&words) {
        Ok(Value::Error(text)) => Err(text),
        Ok(value) => Ok(value),
        Err(error) => Err(error.to_string()),
    }
}

fn encode(command: &Command) -> Vec<u8> {
    let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
    encode_command(&words)
}
