//! Clients that behave well, and how long their commands take.
//!
//! Each runs the main job in a closed loop on a connection of its own: BEGIN, BEGIN again (`pending`), COMPLETE, BEGIN
//! (`completed`), on a new key each time. A command that was under way when an attack began or ended belongs to the attack:
//! every client has one, and what it met was not calm.
//!
//! Who asks one question after the other asks few during a pause, so that a server which stands still half of the time
//! would have an excellent p99. A reply that took long therefore counts as often as somebody who asks once a
//! [`QUESTION_EVERY`] would have met the same pause, each a question later (the correction of HdrHistogram for
//! "coordinated omission").

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;

use super::cores;
use crate::process::Client;

/// Clients at one time. More than two, so that a group of the log has several writers; few, so that they leave most of
/// two cores to the server.
const BYSTANDERS: usize = 4;

/// The steadiest asker that is thought of; see the module.
const QUESTION_EVERY: Duration = Duration::from_millis(1);

/// No window: what is sent now is not counted.
const NO_WINDOW: usize = 0;

/// A window with fewer commands says nothing about a p99.
const SAMPLES_MIN: usize = 20;

/// Running clients.
#[derive(Debug)]
pub struct Bystanders {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Vec<Sample>>>,
    windows: Vec<Kind>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    /// Number of the window, from 1; [`NO_WINDOW`] between two.
    window: AtomicUsize,
}

/// One command: the windows in which it was sent and answered, and how long it took.
#[derive(Clone, Copy, Debug)]
struct Sample {
    sent: usize,
    answered: usize,
    took: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Calm,
    Attacked,
}

impl Bystanders {
    /// Starts the clients. Their keys begin with `name`, which is not used twice on one server.
    pub fn start(address: SocketAddr, name: &str) -> Bystanders {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            window: AtomicUsize::new(NO_WINDOW),
        });
        let threads = (0..BYSTANDERS)
            .map(|index| {
                let client = Client::connect(address).expect("a well-behaved client is let in");
                let (shared, name) = (Arc::clone(&shared), format!("{name}:{index}"));
                std::thread::spawn(move || {
                    cores::become_everybody();
                    work(client, &shared, &name)
                })
            })
            .collect();
        Bystanders {
            shared,
            threads,
            windows: Vec::new(),
        }
    }

    /// A window in which nobody attacks.
    pub fn calm(&mut self, length: Duration) {
        self.window(Kind::Calm, || std::thread::sleep(length));
    }

    /// A window as long as `attack` takes.
    pub fn attacked<T>(&mut self, attack: impl FnOnce() -> T) -> T {
        self.window(Kind::Attacked, attack)
    }

    fn window<T>(&mut self, kind: Kind, run: impl FnOnce() -> T) -> T {
        self.windows.push(kind);
        self.shared.window.store(self.windows.len(), Ordering::Relaxed);
        let result = run();
        self.shared.window.store(NO_WINDOW, Ordering::Relaxed);
        result
    }

    /// Ends the clients. A wrong reply, or none, has failed the test by then.
    pub fn finish(self) -> Measured {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut windows: Vec<Vec<Duration>> = vec![Vec::new(); self.windows.len()];
        for thread in self.threads {
            let samples = thread.join().expect("a bystander was served wrongly");
            for sample in samples {
                if let Some(window) = window_of(sample, &self.windows) {
                    windows[window].extend(met_by_a_steady_asker(sample.took));
                }
            }
        }
        let p99s = |kind| {
            let of_kind = self
                .windows
                .iter()
                .zip(&windows)
                .filter(|(other, _)| **other == kind);
            of_kind.map(|(_, samples)| p99(samples)).collect::<Vec<_>>()
        };
        Measured {
            calm: p99s(Kind::Calm),
            attacked: p99s(Kind::Attacked),
        }
    }
}

/// Index of the window that a command belongs to: the first attacked one of those that it has seen, or its own.
fn window_of(sample: Sample, windows: &[Kind]) -> Option<usize> {
    let first = sample.sent.checked_sub(1);
    let seen = first.unwrap_or(windows.len())..sample.answered.min(windows.len());
    seen.clone()
        .find(|window| windows[*window] == Kind::Attacked)
        .or(first)
}

/// One client, until it is told to stop.
fn work(mut client: Client, shared: &Shared, name: &str) -> Vec<Sample> {
    let mut samples = Vec::new();
    let word = |text: &str| Value::Array(vec![Value::Bulk(text.as_bytes().to_vec())]);
    let replay = Value::Array(vec![
        Value::Bulk(b"completed".to_vec()),
        Value::Bulk(b"result".to_vec()),
    ]);
    let steps: [(&[&[u8]], Value); 4] = [
        (&[b"BEGIN", b"fingerprint", b"owner", b"60000"], word("acquired")),
        (&[b"BEGIN", b"fingerprint", b"another", b"60000"], word("pending")),
        (&[b"COMPLETE", b"fingerprint", b"owner", b"result"], Value::Int(1)),
        (&[b"BEGIN", b"fingerprint", b"another", b"60000"], replay),
    ];
    for round in 0_u64.. {
        let key = format!("{name}:{round}");
        for (arguments, expected) in &steps {
            if shared.stop.load(Ordering::Relaxed) {
                return samples;
            }
            let sent = shared.window.load(Ordering::Relaxed);
            let began = Instant::now();
            let reply = client
                .call(&[&[b"IDEM", key.as_bytes()], *arguments].concat())
                .unwrap_or_else(|error| panic!("a bystander got no reply: {error}"));
            let took = began.elapsed();
            assert_eq!(&reply, expected, "{key}");
            samples.push(Sample {
                sent,
                answered: shared.window.load(Ordering::Relaxed),
                took,
            });
        }
    }
    samples
}

/// The reply itself, and what others would have waited who ask during the same pause.
fn met_by_a_steady_asker(took: Duration) -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(took), |left| left.checked_sub(QUESTION_EVERY))
        .take_while(move |left| *left == took || !left.is_zero())
}

/// The duration that 99 of 100 stay below; the longest of few.
fn p99(samples: &[Duration]) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let index = (sorted.len() * 99 / 100).min(sorted.len().saturating_sub(1));
    // A window in which hardly anybody was answered is the worst there is, not the best.
    if sorted.len() < SAMPLES_MIN {
        return Duration::MAX;
    }
    sorted[index]
}

/// The p99 of each window.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Undisturbed.
    pub calm: Vec<Duration>,
    /// During the attack.
    pub attacked: Vec<Duration>,
}

impl Measured {
    /// Whether the median of the attacked windows is within twice that of the calm ones. Below `floor` everything is
    /// good: a few ticks of the scheduler are nobody's doing.
    pub fn is_within_twice(&self, floor: Duration) -> bool {
        median(&self.attacked) <= median(&self.calm).saturating_mul(2).max(floor)
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let ms = |p99: Duration| match p99 {
            Duration::MAX => "(few answers)".to_owned(),
            p99 => format!("{:.2}", p99.as_secs_f64() * 1e3),
        };
        let all = |windows: &[Duration]| {
            let windows: Vec<String> = windows.iter().map(|p99| ms(*p99)).collect();
            windows.join(" ")
        };
        format!(
            "p99 calm {} ms, attacked {} ms (windows: {} | {})",
            ms(median(&self.calm)),
            ms(median(&self.attacked)),
            all(&self.calm),
            all(&self.attacked)
        )
    }
}

fn median(windows: &[Duration]) -> Duration {
    let mut sorted = windows.to_vec();
    sorted.sort_unstable();
    *sorted
        .get(sorted.len() / 2)
        .expect("there is at least one window")
}

#[cfg(test)]
mod tests {
    use super::{Kind, Measured, Sample, met_by_a_steady_asker, p99, window_of};
    use std::time::Duration;

    fn check(calm: &[u64], attacked: &[u64], expected: bool) {
        let durations = |all: &[u64]| all.iter().map(|ms| Duration::from_millis(*ms)).collect();
        let measured = Measured {
            calm: durations(calm),
            attacked: durations(attacked),
        };
        assert_eq!(
            measured.is_within_twice(Duration::from_millis(2)),
            expected,
            "{}",
            measured.describe()
        );
    }

    #[test]
    fn medians_decide() {
        check(&[5, 5, 5], &[10, 10, 10], true);
        check(&[5, 5, 5], &[11, 11, 11], false);
        // One bad window of either kind changes nothing.
        check(&[5, 5, 90], &[11, 11, 11], false);
        check(&[5, 5, 5], &[10, 90, 9], true);
        // Below the floor.
        check(&[0, 0, 0], &[2, 2, 2], true);
        check(&[0, 0, 0], &[3, 3, 3], false);
    }

    #[test]
    fn what_meets_an_attack_belongs_to_it() {
        let windows = [Kind::Calm, Kind::Attacked, Kind::Calm, Kind::Attacked];
        let of = |sent, answered| {
            let took = Duration::ZERO;
            window_of(Sample { sent, answered, took }, &windows)
        };
        assert_eq!([of(1, 1), of(2, 2), of(3, 3)], [Some(0), Some(1), Some(2)]);
        // Begun before the attack, answered in it or after it; begun in it.
        assert_eq!([of(1, 2), of(1, 3), of(2, 3)], [Some(1); 3]);
        assert_eq!(of(3, 4), Some(3));
        // Between two windows.
        assert_eq!(
            [of(1, 0), of(2, 0), of(0, 0), of(0, 1)],
            [Some(0), Some(1), None, None]
        );
    }

    #[test]
    fn a_pause_counts_as_often_as_it_would_be_met() {
        let met = |micros: u64| {
            let all = met_by_a_steady_asker(Duration::from_micros(micros));
            all.map(|left| left.as_micros()).collect::<Vec<_>>()
        };
        assert_eq!(met(150), [150]);
        assert_eq!(met(0), [0]);
        assert_eq!(met(1000), [1000]);
        assert_eq!(met(2500), [2500, 1500, 500]);
    }

    #[test]
    fn a_window_without_answers_is_the_worst() {
        assert_eq!(p99(&[Duration::ZERO; 5]), Duration::MAX);
        let samples: Vec<Duration> = (0..1000).map(Duration::from_millis).collect();
        assert_eq!(p99(&samples), Duration::from_millis(990));
    }
}
