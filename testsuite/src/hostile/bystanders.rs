//! Clients that behave well, and how long their commands take.
//!
//! Each runs the main job in a closed loop on a connection of its own: BEGIN, BEGIN again (`pending`), COMPLETE, BEGIN
//! (`completed`), on a new key each time.
//!
//! Who asks one question after the other asks few during a pause, so that a server which stands still half of the time
//! would have an excellent p99. A reply that took long therefore counts as often as somebody who asks once a
//! [`QUESTION_EVERY`] would have met the same pause, each a question later (the correction of HdrHistogram for
//! "coordinated omission"). Each of these questions belongs to the window in which it would have been asked: a pause that
//! begins before an attack and ends in it is counted to both, each its part.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// A window with fewer commands says nothing about a p99.
const SAMPLES_MIN: usize = 20;

/// Running clients.
#[derive(Debug)]
pub struct Bystanders {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Sample>>>,
    /// In the order of time; they do not overlap.
    windows: Vec<Window>,
}

/// One command: when it was sent, and how long it took.
#[derive(Clone, Copy, Debug)]
struct Sample {
    sent: Instant,
    took: Duration,
}

/// A time in which samples count.
#[derive(Clone, Copy, Debug)]
struct Window {
    kind: Kind,
    began: Instant,
    ended: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Calm,
    Attacked,
}

impl Bystanders {
    /// Starts the clients. Their keys begin with `name`, which is not used twice on one server.
    pub fn start(address: SocketAddr, name: &str) -> Bystanders {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..BYSTANDERS)
            .map(|index| {
                let client = Client::connect(address).expect("a well-behaved client is let in");
                let (stop, name) = (Arc::clone(&stop), format!("{name}:{index}"));
                std::thread::spawn(move || {
                    cores::become_everybody();
                    work(client, &stop, &name)
                })
            })
            .collect();
        Bystanders {
            stop,
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
        let began = Instant::now();
        let result = run();
        let ended = Instant::now();
        self.windows.push(Window { kind, began, ended });
        result
    }

    /// Ends the clients. A wrong reply, or none, has failed the test by then.
    pub fn finish(self) -> Measured {
        self.stop.store(true, Ordering::Relaxed);
        let mut waits: Vec<Vec<Duration>> = vec![Vec::new(); self.windows.len()];
        for thread in self.threads {
            let samples = thread.join().expect("a bystander was served wrongly");
            for (asked, wait) in samples.into_iter().flat_map(met_by_a_steady_asker) {
                let after = self.windows.partition_point(|window| window.began <= asked);
                if let Some(index) = after.checked_sub(1)
                    && asked < self.windows[index].ended
                {
                    waits[index].push(wait);
                }
            }
        }
        let p99s = |kind| {
            let windows = self.windows.iter().zip(&waits);
            let of_kind = windows.filter(|(window, _)| window.kind == kind);
            of_kind.map(|(_, waits)| p99(waits)).collect::<Vec<_>>()
        };
        Measured {
            calm: p99s(Kind::Calm),
            attacked: p99s(Kind::Attacked),
        }
    }
}

/// One client, until it is told to stop.
fn work(mut client: Client, stop: &AtomicBool, name: &str) -> Vec<Sample> {
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
            if stop.load(Ordering::Relaxed) {
                return samples;
            }
            let sent = Instant::now();
            let reply = client
                .call(&[&[b"IDEM", key.as_bytes()], *arguments].concat())
                .unwrap_or_else(|error| panic!("a bystander got no reply: {error}"));
            let took = sent.elapsed();
            assert_eq!(&reply, expected, "{key}");
            samples.push(Sample { sent, took });
        }
    }
    samples
}

/// When this command was asked and how long it took; then the same for those who would have asked during its wait.
fn met_by_a_steady_asker(sample: Sample) -> impl Iterator<Item = (Instant, Duration)> {
    let Sample { sent, took } = sample;
    std::iter::successors(Some((sent, took)), |(asked, left)| {
        let left = left.checked_sub(QUESTION_EVERY)?;
        (!left.is_zero()).then_some((*asked + QUESTION_EVERY, left))
    })
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
    use super::{Measured, Sample, met_by_a_steady_asker, p99};
    use std::time::{Duration, Instant};

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
    fn a_pause_counts_as_often_as_it_would_be_met() {
        let sent = Instant::now();
        let check = |micros: u64, expected: &[(u64, u64)]| {
            let took = Duration::from_micros(micros);
            let met: Vec<_> = met_by_a_steady_asker(Sample { sent, took }).collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(ms, left)| (sent + Duration::from_millis(*ms), Duration::from_micros(*left)))
                .collect();
            assert_eq!(met, expected, "{micros}");
        };
        check(150, &[(0, 150)]);
        check(0, &[(0, 0)]);
        check(1000, &[(0, 1000)]);
        check(2500, &[(0, 2500), (1, 1500), (2, 500)]);
    }

    #[test]
    fn a_window_without_answers_is_the_worst() {
        assert_eq!(p99(&[Duration::ZERO; 5]), Duration::MAX);
        let samples: Vec<Duration> = (0..1000).map(Duration::from_millis).collect();
        assert_eq!(p99(&samples), Duration::from_millis(990));
    }
}
