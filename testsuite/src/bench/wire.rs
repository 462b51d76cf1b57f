//! The job in bytes: what is sent for operation `n`, and the one reply that is right.
//!
//! A request is a template, encoded once, in which a few bytes change from one operation to the next; a reply has one
//! right form, known before. So the generator copies and compares, and neither encodes nor parses while it measures.
//!
//! Everything about operation `n` follows from `n`: key, fingerprint, owner and result can be made again when it is
//! completed or replayed, and nothing has to be remembered.
//!
//! Sizes are those of the comparison: keys of 20 bytes, fingerprints of 64, owners of 32 (a pending record of 107), results
//! of 256.

use super::Failure;
use super::scripts::Scripts;
use crate::process::client::encode_command;

/// How long each record is kept, in milliseconds: a day, so that nothing ends in a run.
const TTL_MS: &str = "86400000";

/// Bytes of a key and of the pending record under it.
pub const KEY_AND_RECORD_BYTES: u64 = 20 + 107;

/// A part of the job. The order is that of a key's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// BEGIN on keys that nobody has used: `acquired`.
    Begin,
    /// BEGIN on keys that are pending: `pending`.
    Probe,
    /// COMPLETE by the owner: `1`.
    Complete,
    /// BEGIN on completed keys: `completed` and the result.
    Replay,
    /// PING, which asks for nothing: what a round trip costs.
    Ping,
}

impl Phase {
    /// Those that do the job.
    pub const JOB: [Phase; 4] = [Phase::Begin, Phase::Probe, Phase::Complete, Phase::Replay];

    /// As tables and `--only` spell it.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Begin => "begin",
            Phase::Probe => "probe",
            Phase::Complete => "complete",
            Phase::Replay => "replay",
            Phase::Ping => "ping",
        }
    }
}

/// How a server wants to be asked.
#[derive(Clone, Debug)]
pub enum Dialect {
    /// The command IDEM.
    Idem,
    /// The two scripts, by their digests.
    Scripts(Scripts),
}

impl Dialect {
    /// The command of a phase, with these arguments.
    pub fn command<'a>(&'a self, phase: Phase, args: &Arguments<'a>) -> Vec<&'a [u8]> {
        let Arguments {
            key,
            fingerprint,
            owner,
            result,
        } = *args;
        let ttl = TTL_MS.as_bytes();
        match (self, phase) {
            (_, Phase::Ping) => vec![b"PING"],
            (Dialect::Idem, Phase::Complete) => vec![b"IDEM", key, b"COMPLETE", fingerprint, owner, result],
            (Dialect::Idem, _) => vec![b"IDEM", key, b"BEGIN", fingerprint, owner, ttl],
            (Dialect::Scripts(scripts), Phase::Complete) => {
                vec![
                    b"EVALSHA",
                    &scripts.complete,
                    b"1",
                    key,
                    fingerprint,
                    owner,
                    result,
                ]
            }
            (Dialect::Scripts(scripts), _) => {
                vec![b"EVALSHA", &scripts.begin, b"1", key, fingerprint, owner, ttl]
            }
        }
    }
}

/// The arguments of one command.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Names the request.
    pub fingerprint: &'a [u8],
    /// Names the attempt.
    pub owner: &'a [u8],
    /// What COMPLETE stores.
    pub result: &'a [u8],
}

/// A string that differs from one operation to the next.
#[derive(Clone, Copy, Debug)]
enum Field {
    Key,
    Fingerprint,
    Owner,
    Result,
}

impl Field {
    const ALL: [Field; 4] = [Field::Key, Field::Fingerprint, Field::Owner, Field::Result];

    fn len(self) -> usize {
        match self {
            Field::Key => 20,
            Field::Fingerprint => 64,
            Field::Owner => 32,
            Field::Result => 256,
        }
    }

    /// What stands for it while a template is made: bytes that occur nowhere else.
    fn placeholder(self) -> Vec<u8> {
        let byte = match self {
            Field::Key => 0xF0,
            Field::Fingerprint => 0xF1,
            Field::Owner => 0xF2,
            Field::Result => 0xF3,
        };
        vec![byte; self.len()]
    }

    /// Writes its value for operation `number` over `place`, which is `len` long and was written by this before: only the
    /// first bytes change, the others are the same for all operations.
    fn change(self, number: u64, place: &mut [u8]) {
        match self {
            Field::Key => place[6..].copy_from_slice(&hex(number)[2..]),
            Field::Fingerprint => place[..16].copy_from_slice(&hex(mixed(number))),
            Field::Owner => place[..16].copy_from_slice(&hex(mixed(!number))),
            Field::Result => place[..16].copy_from_slice(&hex(number)),
        }
    }

    /// Its value for operation `number`.
    fn value(self, number: u64) -> Vec<u8> {
        let mut value = match self {
            Field::Key => b"order:".to_vec(),
            Field::Fingerprint | Field::Owner | Field::Result => Vec::new(),
        };
        value.resize(self.len(), b'f');
        self.change(number, &mut value);
        value
    }
}

/// Bytes with the places where they change.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    places: Vec<(usize, Field)>,
}

impl Template {
    /// The request of a phase.
    pub fn request(dialect: &Dialect, phase: Phase) -> Template {
        let [key, fingerprint, owner, result] = Field::ALL.map(Field::placeholder);
        let args = Arguments {
            key: &key,
            fingerprint: &fingerprint,
            owner: &owner,
            result: &result,
        };
        Template::new(encode_command(&dialect.command(phase, &args)))
    }

    /// The reply to it, in RESP2.
    pub fn reply(phase: Phase) -> Template {
        Template::new(match phase {
            Phase::Begin => b"*1\r\n$8\r\nacquired\r\n".to_vec(),
            Phase::Probe => b"*1\r\n$7\r\npending\r\n".to_vec(),
            Phase::Complete => b":1\r\n".to_vec(),
            Phase::Replay => {
                let mut reply = b"*2\r\n$9\r\ncompleted\r\n$256\r\n".to_vec();
                reply.extend(Field::Result.placeholder());
                reply.extend(b"\r\n");
                reply
            }
            Phase::Ping => b"+PONG\r\n".to_vec(),
        })
    }

    fn new(mut bytes: Vec<u8>) -> Template {
        let mut places = Vec::new();
        for field in Field::ALL {
            let placeholder = field.placeholder();
            if let Some(at) = bytes.windows(field.len()).position(|part| part == placeholder) {
                bytes[at..at + field.len()].copy_from_slice(&field.value(0));
                places.push((at, field));
            }
        }
        Template { bytes, places }
    }

    /// Bytes of each one that is made from it.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is nothing in it; there always is.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The one of operation `number`, valid until the next call.
    pub fn of(&mut self, number: u64) -> &[u8] {
        for (at, field) in &self.places {
            field.change(number, &mut self.bytes[*at..*at + field.len()]);
        }
        &self.bytes
    }
}

/// Compares replies with what they have to be.
#[derive(Debug)]
pub struct Checker {
    phase: Phase,
    expected: Template,
}

impl Checker {
    /// For the replies of a phase.
    pub fn new(phase: Phase) -> Checker {
        Checker {
            phase,
            expected: Template::reply(phase),
        }
    }

    /// Bytes of a reply.
    pub fn reply_bytes(&self) -> usize {
        self.expected.len()
    }

    /// Whether `found`, a reply or the beginning of one, is right for operation `number`.
    pub fn check(&mut self, number: u64, found: &[u8]) -> Result<(), Failure> {
        if self.expected.of(number).starts_with(found) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{} of operation {number} was answered with `{}`",
            self.phase.word(),
            found[..found.len().min(200)].escape_ascii()
        )))
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn hex(number: u64) -> [u8; 16] {
    let mut text = [0; 16];
    for (index, byte) in number.to_be_bytes().into_iter().enumerate() {
        text[2 * index] = HEX[usize::from(byte >> 4)];
        text[2 * index + 1] = HEX[usize::from(byte & 15)];
    }
    text
}

/// Spreads a number over 64 bits (the last steps of SplitMix64), as digests of requests and random tokens are spread.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Checker, Dialect, Field, Phase, Template};

    #[test]
    fn a_template_makes_what_a_client_would_send() {
        let mut template = Template::request(&Dialect::Idem, Phase::Begin);
        let one = template.of(7).to_vec();
        let two = template.of(8).to_vec();
        let text = String::from_utf8(one.clone()).unwrap();
        assert!(
            text.starts_with("*6\r\n$4\r\nIDEM\r\n$20\r\norder:00000000000007\r\n$5\r\nBEGIN\r\n$64\r\n"),
            "{text}"
        );
        assert!(text.ends_with("\r\n$8\r\n86400000\r\n"), "{text}");
        assert_eq!(one.len(), two.len());
        assert_ne!(one, two);
        assert_eq!(one, template.of(7), "what is made follows from the number alone");
    }

    #[test]
    fn sizes_are_those_of_the_comparison() {
        let record = 11 + Field::Fingerprint.value(1).len() + Field::Owner.value(1).len();
        let all = u64::try_from(record + Field::Key.value(1).len()).unwrap();
        assert_eq!(all, super::KEY_AND_RECORD_BYTES);
    }

    #[test]
    fn replies_are_compared_byte_by_byte() {
        for (phase, reply, right) in [
            (Phase::Begin, "*1\r\n$8\r\nacquired\r\n", true),
            (Phase::Begin, "*1\r\n$8\r\nacq", true),
            (Phase::Begin, "*1\r\n$7\r\npending\r\n", false),
            (Phase::Complete, ":0\r\n", false),
            (Phase::Complete, "-ERR", false),
            (Phase::Ping, "+PONG\r\n", true),
        ] {
            let checked = Checker::new(phase).check(1, reply.as_bytes());
            assert_eq!(checked.is_ok(), right, "{phase:?} {reply:?}");
        }
        let mut replay = Checker::new(Phase::Replay);
        let of_two = Template::reply(Phase::Replay).of(2).to_vec();
        assert!(replay.check(2, &of_two).is_ok());
        assert!(replay.check(3, &of_two).is_err(), "another operation's result");
    }
}
