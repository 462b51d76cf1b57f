//! How the program ends: the codes that scripts rely on, and the one kind of error.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use idem_wal::recovery::Verdict;

/// Why the program ended, as its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command did what it says; a verdict of CLEAN or NEW.
    Clean,
    /// Wrong usage, or something could not be read or written.
    Failed,
    /// TORN_TAIL.
    TornTail,
    /// UNPROVEN_TAIL.
    UnprovenTail,
    /// ROT.
    Rot,
    /// HOLE.
    Hole,
    /// FOREIGN: also a newer format.
    Foreign,
    /// `diff`: the two sides are not the same.
    Differs,
    /// BUG.
    Bug,
    /// IO_ERROR.
    ReadError,
}

impl Exit {
    /// The number. 2 is a verdict and not, as with many tools, a wrong option.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Exit::Clean => 0,
            Exit::Failed => 1,
            Exit::TornTail => 2,
            Exit::UnprovenTail => 3,
            Exit::Rot => 4,
            Exit::Hole => 5,
            Exit::Foreign => 6,
            Exit::Differs => 7,
            Exit::Bug => 8,
            Exit::ReadError => 9,
        }
    }
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::New | Verdict::Clean => Exit::Clean,
            Verdict::TornTail => Exit::TornTail,
            Verdict::UnprovenTail => Exit::UnprovenTail,
            Verdict::Rot => Exit::Rot,
            Verdict::Hole => Exit::Hole,
            Verdict::Foreign => Exit::Foreign,
            Verdict::Bug => Exit::Bug,
            Verdict::IoError => Exit::ReadError,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// Why a command could not do its work; one line for stderr, exit code 1.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Something could not be read or written.
    #[error("{what}: {source}")]
    Io {
        /// The file or directory, or what was done with it.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::Usage(message.into())
    }

    /// For `map_err`: the error of something that is done with `what`.
    pub(crate) fn io(what: impl Display) -> impl FnOnce(io::Error) -> Failure {
        move |source| Failure::Io {
            what: what.to_string(),
            source,
        }
    }

    /// For a report that could not be printed after the work was done: says first that it was.
    pub(crate) fn after(self, done: impl Display) -> Failure {
        let what = |what: &dyn Display| format!("{done}, and could not be reported: {what}");
        match self {
            Failure::Usage(message) => Failure::Usage(what(&message)),
            Failure::Io { what: said, source } => Failure::Io {
                what: what(&said),
                source,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;
    use idem_wal::recovery::Verdict;

    #[test]
    fn each_verdict_has_its_code() {
        for (verdict, code) in [
            (Verdict::New, 0),
            (Verdict::Clean, 0),
            (Verdict::TornTail, 2),
            (Verdict::UnprovenTail, 3),
            (Verdict::Rot, 4),
            (Verdict::Hole, 5),
            (Verdict::Foreign, 6),
            (Verdict::Bug, 8),
            (Verdict::IoError, 9),
        ] {
            assert_eq!(Exit::from(verdict).code(), code, "{}", verdict.word());
        }
    }
}
