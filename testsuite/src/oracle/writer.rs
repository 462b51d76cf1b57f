//! A client with keys of its own.

use idem_protocol::resp::value::Value;

use super::Oracle;
use super::model::{Expected, Op, State, World, short};
use crate::process::{Client, ClientError};
use crate::rng::Rng;

/// Keys of one writer.
const KEYS: u64 = 12;
/// Operations sent together at most.
const PIPELINE_MAX: u64 = 8;
/// Results and values are up to so large, most of them small.
const VALUE_BYTES_MAX: u64 = 24 << 10;
/// Deadlines lie far beyond any run.
const TTL_MS_LEAST: u64 = 3_600_000;
/// Deadlines of strings: a day apart from each other, so that one cannot pass for another.
const DAY_MS: u64 = 86_400_000;
const FAR_MS: u64 = 4_000_000_000_000;

/// A writer across all cycles of a run.
#[derive(Debug)]
pub struct Writer {
    index: usize,
    rng: Rng,
    /// The newest operation's number; the first is 1.
    seq: u64,
    /// After the last acknowledged operation.
    world: World,
    /// Sent without a reply so far, in order.
    in_flight: Vec<(u64, Op)>,
    /// Operations acknowledged.
    pub acknowledged: u64,
    /// Operations that were in flight when a connection broke.
    pub unknown: u64,
}

impl Writer {
    /// Writer `index` of a run.
    pub fn new(index: usize, rng: Rng) -> Writer {
        let world = (0..KEYS)
            .map(|number| (key_name(index, number), State::Absent))
            .collect();
        Writer {
            index,
            rng,
            seq: 0,
            world,
            in_flight: Vec::new(),
            acknowledged: 0,
            unknown: 0,
        }
    }

    /// Works until the connection breaks, which is the normal end, or a reply is wrong, which is the error.
    pub fn work(&mut self, client: &mut Client, oracle: &Oracle) -> Result<(), String> {
        loop {
            let step = if self.rng.below(10) == 0 {
                oracle.shared.work(client, &mut self.rng, self.index)
            } else {
                self.batch(client, oracle)
            };
            match step {
                Ok(()) => {}
                Err(Stop::Broken(ClientError::Protocol(error))) => return Err(format!("no RESP: {error}")),
                Err(Stop::Broken(ClientError::Timeout)) => return Err("no reply for a long time".to_owned()),
                Err(Stop::Broken(ClientError::Closed | ClientError::Io(_))) => return Ok(()),
                Err(Stop::Refused) if oracle.disk_goes_away => return Ok(()),
                Err(Stop::Refused) => return Err("refused for lack of space, and there is space".to_owned()),
                Err(Stop::Violation(text)) => return Err(format!("writer {}: {text}", self.index)),
            }
        }
    }

    /// Sends some operations together, then takes their replies one by one.
    fn batch(&mut self, client: &mut Client, oracle: &Oracle) -> Result<(), Stop> {
        let mut ahead = self.world.clone();
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..self.rng.between(1, PIPELINE_MAX) {
            self.seq += 1;
            let op = self.choose(&ahead);
            if let Op::Begin { owner, ttl_ms, .. } = &op {
                oracle.deadlines.begin(owner, *ttl_ms);
            }
            let args = op.args();
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            bytes.extend(crate::process::client::encode_command(&args));
            expected.push(op.apply(&mut ahead));
            // From here on it may take effect, whether or not sending fails.
            self.in_flight.push((self.seq, op));
        }
        client.send_raw(&bytes)?;
        for expected in expected {
            let reply = client.receive()?;
            let (seq, op) = self.in_flight.remove(0);
            if is_refusal(&reply) {
                // It was not done. What was sent behind it stays in flight.
                return Err(Stop::Refused);
            }
            op.apply(&mut self.world);
            self.acknowledged += 1;
            let found = expected.check(&reply, &oracle.deadlines);
            found.map_err(|error| Stop::Violation(format!("operation {seq} {}: {error}", short(&op))))?;
        }
        Ok(())
    }

    fn choose(&mut self, world: &World) -> Op {
        let key = key_name(self.index, self.rng.below(KEYS));
        let state = world.get(&key).unwrap_or(&State::Absent);
        let fresh = || (format!("f{}", self.seq).into_bytes(), token(self.index, self.seq));
        // Mostly with what the record itself says, so that commands are not only refused.
        let (fingerprint, owner) = match state {
            State::Idem {
                fingerprint, owner, ..
            } if self.rng.below(8) > 0 => (fingerprint.clone(), owner.clone()),
            _ => fresh(),
        };
        match self.rng.below(20) {
            0..=5 => {
                let owner = token(self.index, self.seq);
                let ttl_ms = self.rng.between(TTL_MS_LEAST, idem_protocol::idem::TTL_MS_MAX);
                Op::Begin {
                    key,
                    fingerprint,
                    owner,
                    ttl_ms,
                }
            }
            6..=9 => Op::Complete {
                key,
                fingerprint,
                owner,
                result: self.payload(),
            },
            10 => Op::Abort {
                key,
                fingerprint,
                owner,
            },
            11..=12 => {
                let deadline_ms = (self.rng.below(2) == 0).then(|| FAR_MS + self.seq * DAY_MS);
                Op::Set {
                    key,
                    value: self.payload(),
                    deadline_ms,
                }
            }
            13..=14 => Op::Del { key },
            15..=17 => Op::Inspect { key },
            _ => Op::Get { key },
        }
    }

    /// Bytes that say which operation they are from, so that whoever reads them can tell.
    fn payload(&mut self) -> Vec<u8> {
        let mut bytes = token(self.index, self.seq);
        let most = if self.rng.below(8) == 0 {
            VALUE_BYTES_MAX
        } else {
            64
        };
        let filler = self.rng.between(0, most);
        let seed = self.rng.next().to_le_bytes();
        bytes.extend(
            seed.iter()
                .cycle()
                .take(usize::try_from(filler).expect("a few KiB")),
        );
        bytes
    }

    /// After a crash: what is there has to be the state after some prefix of what was in flight, and one that holds all
    /// that anybody was told. From there the writer goes on.
    pub fn resume(&mut self, client: &mut Client, oracle: &Oracle) -> Result<(), String> {
        let observed = self.observe(client, oracle)?;
        let told = oracle.told(self.index);
        let least = self.in_flight.iter().take_while(|(seq, _)| *seq <= told).count();
        let mut candidate = self.world.clone();
        let mut differences = String::new();
        for prefix in 0..=self.in_flight.len() {
            if prefix > 0 {
                self.in_flight[prefix - 1].1.apply(&mut candidate);
            }
            if prefix < least {
                continue;
            }
            match difference(&candidate, &observed) {
                None => {
                    self.world = candidate;
                    self.unknown += u64::try_from(self.in_flight.len()).expect("a few");
                    self.in_flight.clear();
                    return Ok(());
                }
                Some(text) => {
                    differences += &format!("\n  with {prefix} of the operations in flight: {text}")
                }
            }
        }
        let in_flight = short(&self.in_flight);
        Err(format!(
            "writer {}: what is there is not what was acknowledged plus a prefix of what was in flight ({least} of \
             them told): {in_flight}{differences}",
            self.index
        ))
    }

    fn observe(&self, client: &mut Client, oracle: &Oracle) -> Result<World, String> {
        let mut observed = World::new();
        for key in self.world.keys() {
            let mut ask = |args: &[&[u8]]| client.call(args).map_err(|error| format!("{key}: {error}"));
            let get = ask(&[b"GET", key.as_bytes()])?;
            let pttl = ask(&[b"PTTL", key.as_bytes()])?;
            let state = State::observe(&get, &pttl).map_err(|error| format!("{key}: {error}"))?;
            if state.record().is_some() {
                let inspection = ask(&[b"IDEM", key.as_bytes(), b"INSPECT"])?;
                let expected = Expected::Inspection(state.clone());
                expected
                    .check(&inspection, &oracle.deadlines)
                    .map_err(|error| format!("{key}: {error}"))?;
            }
            observed.insert(key.clone(), state);
        }
        Ok(observed)
    }
}

/// Whether the server said that it could not write.
pub(super) fn is_refusal(reply: &Value) -> bool {
    reply.as_error().is_some_and(|text| text.starts_with("MISCONF"))
}

/// Why a writer stops.
#[derive(Debug)]
pub(super) enum Stop {
    Broken(ClientError),
    Refused,
    Violation(String),
}

impl From<ClientError> for Stop {
    fn from(error: ClientError) -> Stop {
        Stop::Broken(error)
    }
}

/// The first key that differs.
fn difference(expected: &World, observed: &World) -> Option<String> {
    expected.iter().find_map(|(key, state)| {
        let found = observed.get(key).unwrap_or(&State::Absent);
        (!state.is_observed_as(found))
            .then(|| format!("{key} should be {}, is {}", short(state), short(found)))
    })
}

/// The name of a writer's key.
pub(super) fn key_name(writer: usize, number: u64) -> String {
    format!("w{writer}:{number}")
}

/// A random key of a random writer.
pub(super) fn some_key(writers: usize, rng: &mut Rng) -> String {
    key_name(rng.index(writers), rng.below(KEYS))
}

/// `w<writer>-<operation>-`
fn token(writer: usize, seq: u64) -> Vec<u8> {
    format!("w{writer}-{seq}-").into_bytes()
}

/// The operation that a token or payload is from.
pub(super) fn token_seq(bytes: &[u8]) -> Option<(usize, u64)> {
    let mut parts = bytes.strip_prefix(b"w")?.splitn(3, |byte| *byte == b'-');
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
    let (writer, seq) = (number()?, number()?);
    Some((usize::try_from(writer).ok()?, seq))
}

#[cfg(test)]
mod tests {
    use super::{token, token_seq};

    #[test]
    fn a_token_says_where_it_is_from() {
        let mut bytes = token(3, 77);
        bytes.extend_from_slice(b"\xff--\0");
        assert_eq!(token_seq(&bytes), Some((3, 77)));
        for bytes in [&b"w3"[..], b"", b"x1-2-", b"w-2-", b"w1-\xff-"] {
            assert_eq!(token_seq(bytes), None);
        }
    }
}
