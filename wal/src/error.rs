//! The two ways in which writing fails, and nothing in between.
//!
//! A *write* that failed promised nothing: the same bytes can be written again at the same place. A *sync* that failed is
//! the end of the process: the kernel may have marked the pages clean although they never reached the disk, so that the
//! next sync would succeed without them. Whoever holds a [`FatalError`] ends the process and retries nothing.

use std::io;

/// A failed sync of a file or directory (or a disk that stayed unwritable too long): the process must end.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct FatalError {
    /// The operation and the file.
    pub what: String,
    /// What the disk said.
    pub source: io::Error,
}

impl FatalError {
    /// `what` names the operation and the file, such as `sync of wal/…`.
    pub fn new(what: impl Into<String>, source: io::Error) -> FatalError {
        FatalError {
            what: what.into(),
            source,
        }
    }
}

/// Why something is not on disk.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Nothing was promised and nothing is lost: the same call may be made again.
    #[error("{0}")]
    Retry(io::Error),
    /// The process must end.
    #[error(transparent)]
    Fatal(#[from] FatalError),
}

impl WriteError {
    /// The disk's own error, for callers to whom every failure is the same (a start, a tool).
    pub fn into_io(self) -> io::Error {
        match self {
            WriteError::Retry(error) => error,
            WriteError::Fatal(fatal) => io::Error::new(fatal.source.kind(), fatal.to_string()),
        }
    }

    /// For callers that cannot repeat the step: an error of either kind ends the process.
    pub fn into_fatal(self, what: impl Into<String>) -> FatalError {
        match self {
            WriteError::Retry(source) => FatalError::new(what, source),
            WriteError::Fatal(fatal) => fatal,
        }
    }
}
