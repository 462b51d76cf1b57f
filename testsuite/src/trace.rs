//! System calls as strace wrote them, in order of their beginnings and ends.
//!
//! A call that another thread's call interrupts in the log stands on two lines, `<unfinished ...>` and `resumed`. The
//! line numbers are the only clock here: `begin < end` of one call, and two calls overlap when their spans do.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Thread.
    pub thread: u32,
    /// Its name: `pwrite64`.
    pub name: String,
    /// The arguments as text.
    pub args: String,
    /// Line on which it began.
    pub begin: usize,
    /// Line on which it returned; `None` when it never did.
    pub end: Option<usize>,
    /// What it returned; `None` as for `end`, or when strace shows no number.
    pub result: Option<i64>,
}

impl Call {
    /// The file behind the descriptor that is the first argument, as `-y` shows it.
    pub fn file(&self) -> Option<&str> {
        let (_, rest) = self.args.split_once('<')?;
        rest.split_once('>').map(|(path, _)| path)
    }

    /// The quoted paths among the arguments.
    pub fn paths(&self) -> Vec<&str> {
        self.args.split('"').skip(1).step_by(2).collect()
    }

    /// Whether it returned without an error.
    pub fn succeeded(&self) -> bool {
        self.result.is_some_and(|result| result >= 0)
    }

    /// Whether it writes bytes to a file at an offset.
    pub fn is_file_write(&self) -> bool {
        matches!(self.name.as_str(), "pwrite64" | "pwritev" | "pwritev2")
    }

    /// Length and offset of a positional write: the last two arguments.
    pub fn span(&self) -> Option<(u64, u64)> {
        let mut numbers = self.args.rsplit(", ").map(str::parse);
        let (offset, length) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        self.is_file_write().then_some((length, offset))
    }

    /// Whether it is a sync of a file or directory.
    pub fn is_sync(&self) -> bool {
        matches!(self.name.as_str(), "fdatasync" | "fsync")
    }

    /// Whether it hands bytes to a client.
    pub fn is_send(&self) -> bool {
        let sends = matches!(
            self.name.as_str(),
            "sendto" | "sendmsg" | "sendmmsg" | "write" | "writev"
        );
        sends
            && self
                .file()
                .is_some_and(|file| file.starts_with("socket:") || file.starts_with("TCP"))
    }

    /// Whether it gives a file a name, and which: the whole path, also when it is given relative to a descriptor.
    pub fn renamed_to(&self) -> Option<String> {
        if !matches!(self.name.as_str(), "rename" | "renameat" | "renameat2") {
            return None;
        }
        let name = *self.paths().last()?;
        if name.starts_with('/') {
            return Some(name.to_owned());
        }
        // `5</d/wal>, "from", 5</d/wal>, "to"`
        let before = self
            .args
            .rsplit_once(&format!("\"{name}\""))
            .map(|(before, _)| before)?;
        let (_, directory) = before.rsplit_once('<')?;
        let (directory, _) = directory.rsplit_once('>')?;
        Some(format!("{directory}/{name}"))
    }
}

/// Reads a log of `strace -f -y -ttt -T -o`.
pub fn read(path: &Path) -> Vec<Call> {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&String::from_utf8_lossy(&text))
}

/// Reads a log whose strace was started by [`crate::process::Strace::launch`]: it writes the last lines when the traced
/// process is gone, and nobody can wait for it. The end is the exit of the first process in the log.
pub fn read_when_finished(path: &Path) -> Vec<Call> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let first = text.split(' ').next().unwrap_or_default();
        let ended = |line: &str| line.starts_with(first) && line.contains("+++ ");
        if text.ends_with('\n') && text.lines().any(ended) {
            return parse(&text);
        }
        assert!(Instant::now() < end, "{} does not end", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Calls in the order of their beginnings. Lines that are no calls (signals, exits) are left out.
pub fn parse(text: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut open: HashMap<u32, usize> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let Some((thread, rest)) = split_prefix(line) else {
            continue;
        };
        if rest.starts_with("<... ") {
            let Some(index) = open.remove(&thread) else {
                continue;
            };
            finish(&mut calls[index], rest, number);
            continue;
        }
        let Some((name, args)) = rest.split_once('(').filter(|(name, _)| is_name(name)) else {
            continue;
        };
        let mut call = Call {
            thread,
            name: name.to_owned(),
            args: String::new(),
            begin: number,
            end: None,
            result: None,
        };
        match args.strip_suffix("<unfinished ...>") {
            Some(args) => {
                call.args = args.trim_end().to_owned();
                open.insert(thread, calls.len());
            }
            None => {
                let end = args_end(rest).unwrap_or(rest.len());
                call.args = rest.get(name.len() + 1..end).unwrap_or_default().to_owned();
                finish(&mut call, rest, number);
            }
        }
        calls.push(call);
    }
    calls
}

/// The thread, and what stands behind the time. A trace of a single thread leaves its number out: it is 0 then.
fn split_prefix(line: &str) -> Option<(u32, &str)> {
    let (first, rest) = line.split_once(' ')?;
    match first.parse() {
        // Thread numbers are padded with blanks.
        Ok(thread) => rest
            .trim_start()
            .split_once(' ')
            .map(|(_time, rest)| (thread, rest)),
        Err(_) => first.parse::<f64>().ok().map(|_time| (0, rest)),
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Where the parenthesis is that closes the arguments: the last one with `= …` behind it.
fn args_end(line: &str) -> Option<usize> {
    let mut closing = line.rmatch_indices(')');
    closing
        .find(|(at, _)| line[at + 1..].trim_start().starts_with("= "))
        .map(|(at, _)| at)
}

/// Takes the result from the end of a line: `… = 4096 <0.000012>`.
fn finish(call: &mut Call, line: &str, number: usize) {
    let Some(end) = args_end(line) else { return };
    let result = line[end + 1..].trim_start().trim_start_matches("= ");
    let word = result.split(' ').next().unwrap_or_default();
    // A call that a kill interrupts "returns" a question mark: it never did.
    if word != "?" {
        call.end = Some(number);
        call.result = word.parse().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    const LOG: &str = "\
101  1700000000.000001 pwrite64(7</d/wal/00000000000000000000.wal>, \"\"..., 96, 4096) = 96 <0.000010>
101 1700000000.000002 fdatasync(7</d/wal/00000000000000000000.wal> <unfinished ...>
102 1700000000.000003 renameat(AT_FDCWD, \"/d/wal/new.tmp\", AT_FDCWD, \"/d/wal/00000000000000000001.wal\") = 0 <0.1>
101 1700000000.000004 <... fdatasync resumed>) = -1 EIO (Input/output error) (INJECTED) <0.200000>
102 1700000000.000005 sendto(9<socket:[55]>, \"\"..., 5, MSG_NOSIGNAL, NULL, 0) = 5 <0.1>
101 1700000000.000006 --- SIGTERM {si_signo=SIGTERM} ---
101 1700000000.000006 pwrite64(7</d/w>, \"\"..., 9, 10) = -1 ENOSPC (No space left on device) (INJECTED) <0.1>
101 1700000000.000007 fsync(8</d/wal>) = ?
101 1700000000.000008 +++ killed by SIGKILL +++
";

    #[test]
    fn a_log_of_one_thread_has_no_numbers() {
        let calls = parse("1700000000.000001 fdatasync(7</d/w>) = 0 <0.1>\n+++ exited with 0 +++\n");
        assert_eq!(calls.len(), 1);
        assert!(calls[0].is_sync() && calls[0].succeeded());
    }

    #[test]
    fn a_name_relative_to_a_descriptor_becomes_a_path() {
        let calls = parse("1 0.1 renameat(5</d/wal>, \"new.tmp\", 5</d/wal>, \"0064.wal\") = 0 <0.1>\n");
        assert_eq!(calls[0].renamed_to().as_deref(), Some("/d/wal/0064.wal"));
    }

    #[test]
    fn a_log_becomes_calls() {
        let calls = parse(LOG);
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(
            names,
            ["pwrite64", "fdatasync", "renameat", "sendto", "pwrite64", "fsync"]
        );
        assert!(calls[0].is_file_write() && calls[0].succeeded());
        assert_eq!(calls[0].file(), Some("/d/wal/00000000000000000000.wal"));
        assert_eq!(
            (calls[1].begin, calls[1].end, calls[1].result),
            (1, Some(3), Some(-1))
        );
        assert!(calls[1].is_sync() && !calls[1].succeeded());
        assert_eq!(
            calls[2].renamed_to().as_deref(),
            Some("/d/wal/00000000000000000001.wal")
        );
        assert!(calls[3].is_send());
        assert_eq!((calls[4].span(), calls[4].result), (Some((9, 10)), Some(-1)));
        assert_eq!((calls[5].file(), calls[5].end), (Some("/d/wal"), None));
    }
}
