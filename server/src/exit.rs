//! Exit codes: the promise to whoever supervises the process.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the process ends. The numbers are documented in `docs/operations.md` and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Stopped as asked, everything synced, the clean mark written.
    Clean,
    /// A failure at run time: port in use, directory not writable, no space at the start, a failed sync.
    Failure,
    /// Usage or configuration; also a `dir` that is a file, and a log that needs more databases.
    Usage,
    /// Recovery refused the data directory; the verdict has been printed.
    Refused,
    /// Another process has the data directory.
    Locked,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Clean => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::Locked => 4,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Ends the process at once with [`Exit::Failure`], from whatever thread: after a failed sync nobody knows what the
/// disk holds, and every further moment of serving could acknowledge what is lost.
///
/// Destructors do not run, on purpose: a tidy stop would sync again, and a second sync can succeed although the first
/// one's data is gone.
pub fn end_at_once(reason: &str) -> ! {
    use std::io::Write;
    // The first reason is the reason: a thread that comes here while the process ends only met the consequences. This is
    // about the process, so it is the process's own: with several shards, too, it ends once.
    static ENDING: AtomicBool = AtomicBool::new(false);
    while ENDING.swap(true, Ordering::SeqCst) {
        std::thread::park();
    }
    // Not through the logger: another thread may hold its lock, and this line must come out.
    let _ = writeln!(
        std::io::stderr(),
        "FATAL {reason}; nothing is acknowledged any more, the process ends"
    );
    std::process::exit(i32::from(Exit::Failure.code()))
}
