//! The slow log: the last commands that took longer than somebody wants, as `SLOWLOG GET` shows them.
//!
//! It is a log of requests, in memory only. Arguments are cut as in Redis (so many of them, so many bytes of each), and
//! passwords are not kept; all entries together are bounded by their count and by their bytes, whichever is reached
//! first.
//!
//! Times are measured by the server, from the moment that a command could be read to the moment that its reply was made:
//! waiting for the log or for the client is no part of it.

use std::collections::VecDeque;

use idem_protocol::command::args::is;
use idem_protocol::resp::Args;

/// Arguments kept of one command; the last of them says how many there were beyond.
const ARGS_MAX: usize = 32;
/// Bytes kept of one argument.
const ARG_BYTES_MAX: usize = 128;
/// Memory of all entries together: some ten thousand of the largest kind, whatever `slowlog-max-len` says.
const BYTES_MAX: usize = 64 << 20;

/// One slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCommand {
    /// Counted from 0; none is given twice, not even after a reset.
    pub id: u64,
    /// When it ended, in Unix seconds.
    pub seconds: u64,
    /// How long it took, in microseconds.
    pub usec: u64,
    /// Name and arguments, cut.
    pub args: Vec<Vec<u8>>,
    /// Where its client came from, as `CLIENT LIST` shows it.
    pub address: String,
    /// The name of its client; empty for none.
    pub name: Vec<u8>,
}

impl SlowCommand {
    fn memory_bytes(&self) -> usize {
        let args: usize = self
            .args
            .iter()
            .map(|arg| arg.capacity() + size_of::<Vec<u8>>())
            .sum();
        size_of::<SlowCommand>() + args + self.address.capacity() + self.name.capacity()
    }
}

/// The last slow commands, the newest in front.
#[derive(Clone, Debug, Default)]
pub struct SlowLog {
    entries: VecDeque<SlowCommand>,
    bytes: usize,
    next_id: u64,
}

impl SlowLog {
    /// How many are kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The newest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &SlowCommand> {
        self.entries.iter()
    }

    /// Notes one command; `entries_max` of them are kept at most.
    pub fn push(
        &mut self,
        args: Args<'_>,
        usec: u64,
        seconds: u64,
        address: String,
        name: &[u8],
        entries_max: usize,
    ) {
        let entry = SlowCommand {
            id: self.next_id,
            seconds,
            usec,
            args: shortened(args),
            address,
            name: name.to_vec(),
        };
        self.next_id += 1;
        self.bytes += entry.memory_bytes();
        self.entries.push_front(entry);
        self.limit(entries_max);
    }

    /// Drops the oldest until so many are left, and no more bytes than are kept at all.
    pub fn limit(&mut self, entries_max: usize) {
        while self.entries.len() > entries_max || self.bytes > BYTES_MAX {
            let oldest = self.entries.pop_back().expect("what has bytes has entries");
            self.bytes -= oldest.memory_bytes();
        }
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.entries = VecDeque::new();
        self.bytes = 0;
    }
}

/// The arguments as they are kept.
fn shortened(args: Args<'_>) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGS_MAX {
        ARGS_MAX - 1
    } else {
        args.len()
    };
    let mut shown: Vec<Vec<u8>> = (0..kept)
        .map(|index| {
            let argument = args.get(index).unwrap_or_default();
            if is_secret(args, index) {
                return b"(redacted)".to_vec();
            }
            match argument.get(..ARG_BYTES_MAX) {
                Some(front) if argument.len() > ARG_BYTES_MAX => {
                    let rest = format!("... ({} more bytes)", argument.len() - ARG_BYTES_MAX);
                    [front, rest.as_bytes()].concat()
                }
                _ => argument.to_vec(),
            }
        })
        .collect();
    if kept < args.len() {
        shown.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    shown
}

/// Whether an argument may be a user or a password: everything behind AUTH, as a command or an option of HELLO.
fn is_secret(args: Args<'_>, index: usize) -> bool {
    let named = |at: usize, word| args.get(at).is_some_and(|argument| is(argument, word));
    let behind_auth = |from: usize| (index.saturating_sub(2).max(from)..index).any(|at| named(at, "AUTH"));
    // Of options, the value behind a name of Redis's or ours that says so: also one that is refused was sent.
    let password = |at: usize| {
        ["requirepass", "masterauth", "primaryauth"]
            .iter()
            .any(|word| named(at, word))
    };
    let option = named(0, "CONFIG") && named(1, "SET") && index > 2 && password(index - 1);
    (named(0, "AUTH") && index > 0) || (named(0, "HELLO") && behind_auth(1)) || option
}

#[cfg(test)]
mod tests {
    use idem_protocol::resp::Args;

    use super::{BYTES_MAX, SlowLog};

    fn push(log: &mut SlowLog, args: &[&[u8]], entries_max: usize) {
        log.push(
            Args::from(args),
            7,
            1000,
            "127.0.0.1:9".to_owned(),
            b"me",
            entries_max,
        );
    }

    fn newest(log: &SlowLog) -> Vec<String> {
        let entry = log.iter().next().unwrap();
        entry
            .args
            .iter()
            .map(|arg| String::from_utf8_lossy(arg).into_owned())
            .collect()
    }

    #[test]
    fn arguments_are_cut() {
        let mut log = SlowLog::default();
        let long = vec![b'x'; 129];
        push(&mut log, &[b"SET", &long[..128], &long], 9);
        let shown = newest(&log);
        assert_eq!(
            (shown[1].as_bytes(), shown[2].as_str()),
            (
                &long[..128],
                format!("{}... (1 more bytes)", "x".repeat(128)).as_str()
            )
        );
        for (count, shown, last) in [
            (32, 32, "k"),
            (33, 32, "... (2 more arguments)"),
            (1000, 32, "... (969 more arguments)"),
        ] {
            let mut args: Vec<&[u8]> = vec![b"k"; count];
            args[0] = b"DEL";
            push(&mut log, &args, 9);
            let found = newest(&log);
            assert_eq!((found.len(), found[shown - 1].as_str()), (shown, last), "{count}");
        }
    }

    #[test]
    fn passwords_are_not_kept() {
        let mut log = SlowLog::default();
        for (line, expected) in [
            ("AUTH hunter2", "AUTH (redacted)"),
            ("auth me hunter2", "auth (redacted) (redacted)"),
            (
                "HELLO 3 AUTH me hunter2 SETNAME x",
                "HELLO 3 AUTH (redacted) (redacted) SETNAME x",
            ),
            (
                "hello 3 SETNAME x auth me hunter2",
                "hello 3 SETNAME x auth (redacted) (redacted)",
            ),
            (
                "config set timeout 1 RequirePass hunter2",
                "config set timeout 1 RequirePass (redacted)",
            ),
            ("SET AUTH me", "SET AUTH me"),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            push(&mut log, &words, 9);
            assert_eq!(newest(&log).join(" "), expected);
        }
    }

    #[test]
    fn entries_and_bytes_are_bounded() {
        let mut log = SlowLog::default();
        for _ in 0..5 {
            push(&mut log, &[b"GET", b"k"], 3);
        }
        let ids = |log: &SlowLog| log.iter().map(|entry| entry.id).collect::<Vec<_>>();
        assert_eq!(ids(&log), [4, 3, 2]);
        log.limit(1);
        assert_eq!(ids(&log), [4]);
        log.clear();
        assert_eq!((log.len(), log.bytes), (0, 0));
        push(&mut log, &[b"GET", b"k"], 0);
        assert!(log.is_empty());
        push(&mut log, &[b"GET", b"k"], 1);
        assert_eq!(ids(&log), [6]);
        let large = vec![b'x'; 1000];
        let args: Vec<&[u8]> = vec![&large; 32];
        for _ in 0..20_000 {
            push(&mut log, &args, usize::MAX);
        }
        assert!(log.bytes <= BYTES_MAX && (8_000..20_000).contains(&log.len()));
        let sum: usize = log.iter().map(super::SlowCommand::memory_bytes).sum();
        assert_eq!(log.bytes, sum);
    }
}
