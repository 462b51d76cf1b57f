//! The generator: a closed loop over some connections, on one thread, cheap enough not to be what is measured.
//!
//! Each connection sends `depth` requests in one write, waits for all their replies, and sends the next. Every reply is
//! compared with the one that is right; another one fails the run. A latency is the time from the write of the batch to
//! the read that completed the reply, so at depth 16 it holds the wait for the batch.
//!
//! Sockets block. Epoll says which of them have something, and each gets one read, so none blocks. A single connection
//! needs no epoll.
//!
//! Deliberately absent: an open loop with a fixed rate. Both servers get the same treatment here, and a closed loop finds
//! what they can do; its latencies are those at full load, and a pause is counted once for each connection that waits.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::pin::thread_cpu;
use super::wire::{Checker, Dialect, Phase, Template};
use super::{Failure, count};

/// The longest silence that is not yet a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest latency that is told apart from longer ones, in nanoseconds.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Which operations a run is about.
#[derive(Clone, Copy, Debug)]
pub enum Numbers {
    /// `first` and those after it, each once.
    From(u64),
    /// `count` operations from `first` on, again and again.
    Around {
        /// The first one.
        first: u64,
        /// How many there are; not 0.
        count: u64,
    },
}

impl Numbers {
    fn of(self, index: u64) -> u64 {
        match self {
            Numbers::From(first) => first + index,
            Numbers::Around { first, count } => first + index % count,
        }
    }
}

/// When nothing more is sent. What is on its way is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Stop<'a> {
    /// After so long, or after so many operations, whatever comes first.
    After(Duration, u64),
    /// When somebody says so.
    When(&'a AtomicBool),
}

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// What is sent and expected.
    pub phase: Phase,
    /// Requests of one write.
    pub depth: u64,
    /// For which operations.
    pub numbers: Numbers,
    /// Until when.
    pub stop: Stop<'a>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Replies, all of them right.
    pub operations: u64,
    /// From the first write to the last reply.
    pub elapsed: Duration,
    /// Of each operation, in nanoseconds.
    pub latency: Histogram<u64>,
    /// CPU time of the generator.
    pub generator: Duration,
}

/// Connections to one server.
pub struct Connections {
    all: Vec<Connection>,
    epoll: rustix::fd::OwnedFd,
    ready: Vec<epoll::Event>,
    dialect: Dialect,
}

struct Connection {
    stream: TcpStream,
    /// What has come of the batch that is out; as long as its replies, and one byte more.
    replies: Vec<u8>,
    /// Bytes of `replies` that have come, and those that were compared.
    filled: usize,
    checked: usize,
    /// The batch: index of its next reply, and of the one behind its last.
    next: u64,
    end: u64,
    sent: Instant,
}

impl Connections {
    /// Opens `connections` of them.
    pub fn open(address: SocketAddr, dialect: &Dialect, connections: usize) -> Result<Connections, Failure> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Failure::errno("making an epoll object"))?;
        let mut all = Vec::with_capacity(connections);
        for index in 0..connections {
            let stream = TcpStream::connect(address).map_err(Failure::io("connecting"))?;
            stream
                .set_nodelay(true)
                .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
                .map_err(Failure::io("preparing a socket"))?;
            let data = epoll::EventData::new_u64(count(index));
            epoll::add(&epoll, &stream, data, epoll::EventFlags::IN)
                .map_err(Failure::errno("watching a socket"))?;
            all.push(Connection {
                stream,
                replies: Vec::new(),
                filled: 0,
                checked: 0,
                next: 0,
                end: 0,
                sent: Instant::now(),
            });
        }
        Ok(Connections {
            all,
            epoll,
            ready: Vec::with_capacity(connections),
            dialect: dialect.clone(),
        })
    }

    /// Carries a plan out.
    pub fn run(&mut self, plan: &Plan<'_>) -> Result<Measured, Failure> {
        let mut work = Work::new(&self.dialect, plan);
        let cpu = thread_cpu();
        let begun = Instant::now();
        let mut now = begun;
        let mut busy = 0_usize;
        for connection in &mut self.all {
            if work.send(connection, now.duration_since(begun))? {
                busy += 1;
            }
        }
        while busy > 0 {
            if self.all.len() == 1 {
                self.ready.clear();
            } else {
                self.wait()?;
            }
            let one = (self.all.len() == 1).then_some(0);
            let some = self.ready.drain(..).map(|event| event.data.u64());
            for index in one.into_iter().chain(some) {
                let index = usize::try_from(index).expect("it came from a usize");
                let connection = &mut self.all[index];
                let done = work.receive(connection)?;
                now = Instant::now();
                work.record(connection, done, now)?;
                if connection.next == connection.end && !work.send(connection, now.duration_since(begun))? {
                    busy -= 1;
                }
            }
        }
        Ok(Measured {
            operations: work.answered,
            elapsed: now.duration_since(begun),
            latency: work.latency,
            generator: thread_cpu().saturating_sub(cpu),
        })
    }

    /// Fills `ready`.
    fn wait(&mut self) -> Result<(), Failure> {
        let timeout = Timespec::try_from(PATIENCE).expect("a minute is a time");
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut self.ready), Some(&timeout)) {
                Ok(0) => return Err(Failure::new(format!("no reply for {PATIENCE:?}"))),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Failure::errno("waiting for replies")(error)),
            }
        }
    }
}

/// A run under way.
struct Work<'a> {
    plan: &'a Plan<'a>,
    request: Template,
    checker: Checker,
    batch: Vec<u8>,
    sent: u64,
    answered: u64,
    latency: Histogram<u64>,
}

impl<'a> Work<'a> {
    fn new(dialect: &Dialect, plan: &'a Plan<'a>) -> Work<'a> {
        Work {
            plan,
            request: Template::request(dialect, plan.phase),
            checker: Checker::new(plan.phase),
            batch: Vec::new(),
            sent: 0,
            answered: 0,
            latency: latencies(),
        }
    }

    /// Sends the next batch; `false` when there is none any more.
    fn send(&mut self, connection: &mut Connection, elapsed: Duration) -> Result<bool, Failure> {
        let size = match self.plan.stop {
            Stop::After(limit, _) if elapsed >= limit => 0,
            Stop::After(_, operations) => self.plan.depth.min(operations.saturating_sub(self.sent)),
            Stop::When(stop) if stop.load(Ordering::Relaxed) => 0,
            Stop::When(_) => self.plan.depth,
        };
        if size == 0 {
            return Ok(false);
        }
        (connection.next, connection.end) = (self.sent, self.sent + size);
        self.sent += size;
        self.batch.clear();
        for index in connection.next..connection.end {
            self.batch
                .extend_from_slice(self.request.of(self.plan.numbers.of(index)));
        }
        let expected = usize::try_from(size).expect("a depth is small") * self.checker.reply_bytes();
        connection.replies.resize(expected + 1, 0);
        (connection.filled, connection.checked) = (0, 0);
        connection.sent = Instant::now();
        connection
            .stream
            .write_all(&self.batch)
            .map_err(Failure::io("sending"))?;
        Ok(true)
    }

    /// Reads once and compares. Returns how many replies became complete.
    fn receive(&mut self, connection: &mut Connection) -> Result<u64, Failure> {
        let got = connection
            .stream
            .read(&mut connection.replies[connection.filled..])
            .map_err(Failure::io("waiting for a reply"))?;
        if got == 0 {
            return Err(Failure::new("the server closed a connection"));
        }
        connection.filled += got;
        let whole = self.checker.reply_bytes();
        let mut done = 0;
        while connection.filled - connection.checked >= whole && connection.next < connection.end {
            let reply = &connection.replies[connection.checked..connection.checked + whole];
            self.checker.check(self.plan.numbers.of(connection.next), reply)?;
            connection.checked += whole;
            connection.next += 1;
            done += 1;
        }
        let rest = &connection.replies[connection.checked..connection.filled];
        if !rest.is_empty() {
            if connection.next == connection.end {
                return Err(Failure::new("more came than was asked for"));
            }
            // Also what is shorter than the right reply, an error for instance, shows itself now and not by silence.
            self.checker.check(self.plan.numbers.of(connection.next), rest)?;
        }
        Ok(done)
    }

    fn record(&mut self, connection: &Connection, done: u64, now: Instant) -> Result<(), Failure> {
        let took = now.duration_since(connection.sent).as_nanos();
        let took = u64::try_from(took).unwrap_or(u64::MAX).clamp(1, LATENCY_NS_MAX);
        self.answered += done;
        self.latency
            .record_n(took, done)
            .map_err(|error| Failure::new(format!("recording a latency: {error}")))
    }
}

/// An empty record of latencies in nanoseconds, three digits each.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are in order and 3 is a precision")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    use super::super::wire::{Dialect, Phase};
    use super::{Connections, Numbers, Plan, Stop};

    /// A peer that answers each read with `answer` on every connection until it is closed.
    fn peer(connections: usize, answer: &'static [u8]) -> std::net::SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for _ in 0..connections {
                let (mut stream, _) = listener.accept().unwrap();
                std::thread::spawn(move || {
                    let mut buffer = [0; 1 << 16];
                    while let Ok(1..) = stream.read(&mut buffer) {
                        // In two pieces, the way a network may cut them.
                        let (one, two) = answer.split_at(answer.len() / 2);
                        if stream
                            .write_all(one)
                            .and_then(|()| stream.write_all(two))
                            .is_err()
                        {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    fn check(connections: usize, depth: u64, answer: &'static [u8], expected: Result<u64, &str>) {
        let address = peer(connections, answer);
        let mut open = Connections::open(address, &Dialect::Idem, connections).unwrap();
        let measured = open.run(&Plan {
            phase: Phase::Ping,
            depth,
            numbers: Numbers::From(0),
            stop: Stop::After(Duration::from_secs(60), 6),
        });
        match (measured, expected) {
            (Ok(measured), Ok(operations)) => {
                assert_eq!(measured.operations, operations);
                assert_eq!(measured.latency.len(), operations);
            }
            (Err(failure), Err(words)) => assert!(failure.to_string().contains(words), "{failure}"),
            (measured, expected) => panic!("{:?}, not {expected:?}", measured.map(|it| it.operations)),
        }
    }

    #[test]
    fn exactly_as_many_operations_as_were_asked_for() {
        check(1, 1, b"+PONG\r\n", Ok(6));
        check(3, 1, b"+PONG\r\n", Ok(6));
        check(1, 2, b"+PONG\r\n+PONG\r\n", Ok(6));
    }

    #[test]
    fn another_reply_fails_the_run() {
        // The run fails with the first piece that is wrong, so that piece has to hold the words that are looked for.
        check(1, 1, b"-ERR no\r\n", Err("-ERR"));
        check(2, 1, b"-LOADING", Err("-L"));
        check(1, 1, b"+PONG\r\n+", Err("more came"));
    }
}
