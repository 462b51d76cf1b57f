//! One server, its bystanders, and an attack that is repeated between calm windows.

use std::time::{Duration, Instant};

use super::bystanders::Bystanders;
use super::cores;
use super::probe::Probe;
use crate::process::{Client, Idemd, IdemdOptions};
use crate::testdir::TestDir;

/// The environment variable that asks for more.
const ROUNDS_VARIABLE: &str = "IDEM_HOSTILE_ROUNDS";

/// Length of a calm window.
const CALM: Duration = Duration::from_millis(300);

/// Pairs of windows of one measurement.
const PAIRS: usize = 5;

/// Measurements, of which one has to be good.
const ATTEMPTS: usize = 4;

/// Below this a p99 is good whatever it was before. It is a little more than a slice of the scheduler (3 ms): beside a
/// compiler, which an attack on one core drives to the other, a woken thread waits for as long. (Measured with the log in
/// memory, undisturbed 0.2 ms: 2.4 ms beside values of 8 MiB, 0.8 ms beside commands of a million arguments, at most 0.4 ms beside
/// all other attacks.)
const FLOOR: Duration = Duration::from_millis(5);

/// How long anything may take that comes after an attack.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many times the attacks are repeated: [`ROUNDS_VARIABLE`], or once.
pub fn attempts() -> usize {
    std::env::var(ROUNDS_VARIABLE).map_or(1, |rounds| {
        rounds
            .parse()
            .unwrap_or_else(|_| panic!("{ROUNDS_VARIABLE}={rounds} is no number"))
    })
}

/// Whether there is time for tests that wait for a minute.
pub fn is_long() -> bool {
    attempts() > 1
}

/// See the module.
#[derive(Debug)]
pub struct Scene {
    name: String,
    // Before the directory, so that the process has ended when its files go.
    server: Idemd,
    _dir: TestDir,
    probe: Probe,
    measurements: usize,
}

impl Scene {
    /// A server of its own.
    pub fn new(name: &str, options: &IdemdOptions) -> Scene {
        // The disk is not under attack: its own bad moments would be measured before anything else.
        let dir = TestDir::in_memory(name, 1, 2 << 30);
        let options = options.clone().option("wal-segment-bytes", "16mb");
        let server = cores::as_everybody(|| Idemd::start(&dir.data(), &options));
        Scene {
            name: name.to_owned(),
            probe: Probe::new(server.pid()),
            server,
            _dir: dir,
            measurements: 0,
        }
    }

    /// The server under attack.
    pub fn server(&self) -> &Idemd {
        &self.server
    }

    /// Its process.
    pub fn probe(&self) -> Probe {
        self.probe
    }

    /// A client that behaves well.
    pub fn client(&self) -> Client {
        self.server.client()
    }

    /// Attacks between calm windows, and has to find everybody else served within twice their undisturbed p99.
    ///
    /// A bad measurement is repeated: on a shared machine a good server looks bad now and then. A server that an attack
    /// does slow down is slowed down each time.
    ///
    /// # Panics
    /// When all measurements are bad, or a bystander got a wrong reply or none.
    pub fn attack(&mut self, mut attack: impl FnMut()) {
        for _ in 0..attempts() {
            let told: Vec<String> = (0..ATTEMPTS)
                .map_while(|_| self.measure(PAIRS, &mut attack).err())
                .collect();
            assert!(
                told.len() < ATTEMPTS,
                "{}: others were not served within 2 x their undisturbed p99:\n{}\nlog:\n{}",
                self.name,
                told.join("\n"),
                self.server.stderr()
            );
        }
    }

    /// One measurement; the words are for people, whether it was good or not.
    pub fn measure(&mut self, pairs: usize, attack: &mut impl FnMut()) -> Result<String, String> {
        self.measurements += 1;
        let mut bystanders = Bystanders::start(self.server.address(), &format!("by{}", self.measurements));
        for _ in 0..pairs {
            bystanders.calm(CALM);
            bystanders.attacked(&mut *attack);
        }
        let measured = bystanders.finish();
        let told = format!("{}: {}", self.name, measured.describe());
        println!("{told}");
        if measured.is_within_twice(FLOOR) {
            Ok(told)
        } else {
            Err(told)
        }
    }

    /// A field of INFO as a number.
    pub fn info(&self, field: &str) -> u64 {
        let reply = self.client().ask("INFO");
        let text = String::from_utf8_lossy(reply.as_bytes().expect("INFO is text")).into_owned();
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or_else(|| panic!("no number {field} in {text}"))
    }

    /// Waits until only the asking client is connected, and no descriptor is left of the others.
    pub fn await_quiet(&self, descriptors: usize) {
        self.wait_until("the attackers are gone", || {
            // The client of INFO itself is one of the descriptors, and one of the clients.
            self.info("connected_clients") == 1 && self.probe.descriptors() <= descriptors + 1
        });
    }

    /// Waits for a line of the log that has all `words`.
    pub fn await_log(&self, words: &[&str]) {
        self.wait_until(&format!("a log line has {words:?}"), || {
            let log = self.server.stderr();
            log.lines()
                .any(|line| words.iter().all(|word| line.contains(word)))
        });
    }

    /// Waits for something that the server does not announce.
    pub fn wait_until(&self, what: &str, is_so: impl FnMut() -> bool) {
        self.wait_longer(PATIENCE, what, is_so);
    }

    /// The same with a bound of its own.
    pub fn wait_longer(&self, patience: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + patience;
        while !is_so() {
            assert!(
                Instant::now() < end,
                "{}: never seen: {what}; {} descriptors; log:\n{}",
                self.name,
                self.probe.descriptors(),
                self.server.stderr()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The server is in order: it stops as asked.
    pub fn finish(self) {
        self.server.stop();
    }
}
