//! The one function that runs cases.

use std::collections::BTreeMap;
use std::time::Duration;

use idem_protocol::resp::value::Value;

use super::case::{Case, CaseFile, Scope, Step};
use super::pattern::show;

/// One connection to whatever is tested.
pub trait Connection {
    /// Sends a command without waiting for its reply. The error says why it could not.
    fn send(&mut self, args: &[&[u8]]) -> Result<(), String>;
    /// The next reply, in the order of the commands.
    fn receive(&mut self) -> Result<Value, String>;
}

/// Whatever is tested.
pub trait Target {
    /// Its connections.
    type Connection: Connection;
    /// A new connection, in RESP2 and on database 0.
    fn connect(&mut self) -> Self::Connection;
    /// Lets time pass: really, or on the target's own clock.
    fn idle(&mut self, time: Duration);
    /// A crash and a new start (or a failover). Everything that was told is there afterwards; connections are not.
    fn restart(&mut self);
    /// Whether a case of this scope can be asked of this target. All of them can be asked of ours.
    fn plays(&self, _scope: &Scope) -> bool {
        true
    }
}

/// What a run found.
#[derive(Debug, Default)]
pub struct Report {
    /// Cases run, each protocol counted.
    pub cases: usize,
    /// Cases that the target does not play, each protocol counted.
    pub left_out: usize,
    /// One text for each failed case: file, line, what was expected and what came.
    pub failures: Vec<String>,
}

/// How often, and how far apart, a deadline is waited for: ten seconds in all, far beyond any deadline in the cases.
const POLLS: u32 = 2000;
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs every case in RESP2 and RESP3.
pub fn run<T: Target>(target: &mut T, files: &[CaseFile]) -> Report {
    let mut report = Report::default();
    for protocol in ["2", "3"] {
        for file in files {
            for case in &file.cases {
                if !target.plays(&case.scope) {
                    report.left_out += 1;
                    continue;
                }
                report.cases += 1;
                if let Err(failure) = (Run {
                    target,
                    protocol,
                    connections: BTreeMap::new(),
                })
                .case(case)
                {
                    let place = format!("{}:{}", file.name, failure.0);
                    report.failures.push(format!(
                        "{place} (RESP{protocol}, `{}`): {}",
                        case.title, failure.1
                    ));
                }
            }
        }
    }
    report
}

struct Run<'t, T: Target> {
    target: &'t mut T,
    protocol: &'static str,
    connections: BTreeMap<String, T::Connection>,
}

type Failure = (usize, String);

impl<T: Target> Run<'_, T> {
    fn case(mut self, case: &Case) -> Result<(), Failure> {
        self.call("a", &[b"FLUSHALL"])
            .map_err(|error| (case.line, error))?;
        let mut sent: BTreeMap<&str, std::collections::VecDeque<&[Vec<u8>]>> = BTreeMap::new();
        for (line, step) in &case.steps {
            let at = |error: String| (*line, error);
            match step {
                Step::Send { connection, args } => {
                    let borrowed: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                    self.connection(connection)
                        .map_err(at)?
                        .send(&borrowed)
                        .map_err(at)?;
                    sent.entry(connection).or_default().push_back(args);
                }
                Step::Expect {
                    connection,
                    pattern,
                    text,
                } => {
                    let reply = self.connection(connection).map_err(at)?.receive().map_err(at)?;
                    let args = sent
                        .get_mut(connection.as_str())
                        .and_then(std::collections::VecDeque::pop_front);
                    if !pattern.matches(&reply) {
                        let asked = args.map(show_command).unwrap_or_default();
                        return Err((*line, format!("`{asked}` answered {}, not {text}", show(&reply))));
                    }
                }
                Step::Message {
                    connection,
                    pattern,
                    text,
                } => {
                    let message = self.connection(connection).map_err(at)?.receive().map_err(at)?;
                    if !pattern.matches(&message) {
                        return Err((*line, format!("{} came, not {text}", show(&message))));
                    }
                }
                Step::UntilEnded(key) => self.until_ended(key).map_err(at)?,
                Step::Restart => {
                    self.connections.clear();
                    self.target.restart();
                }
            }
        }
        Ok(())
    }

    fn connection(&mut self, name: &str) -> Result<&mut T::Connection, String> {
        if !self.connections.contains_key(name) {
            let mut connection = self.target.connect();
            connection.send(&[b"HELLO", self.protocol.as_bytes()])?;
            let reply = connection.receive()?;
            if reply
                .entry(b"proto")
                .and_then(Value::as_int)
                .map(|proto| proto.to_string())
                .as_deref()
                != Some(self.protocol)
            {
                return Err(format!("HELLO {} answered {}", self.protocol, show(&reply)));
            }
            self.connections.insert(name.to_owned(), connection);
        }
        Ok(self
            .connections
            .get_mut(name)
            .expect("it is there or was just put there"))
    }

    fn call(&mut self, connection: &str, args: &[&[u8]]) -> Result<Value, String> {
        let connection = self.connection(connection)?;
        connection.send(args)?;
        connection.receive()
    }

    fn until_ended(&mut self, key: &[u8]) -> Result<(), String> {
        for _ in 0..POLLS {
            match self.call("a", &[b"EXISTS", key])? {
                Value::Int(0) => return Ok(()),
                Value::Int(1) => self.target.idle(POLL_INTERVAL),
                other => return Err(format!("EXISTS answered {}", show(&other))),
            }
        }
        Err("the key's deadline does not come".to_owned())
    }
}

fn show_command(args: &[Vec<u8>]) -> String {
    args.iter()
        .map(|arg| show(&Value::Bulk(arg.clone())))
        .collect::<Vec<_>>()
        .join(" ")
}
