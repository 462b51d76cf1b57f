//! Why a task did not succeed: one line.

use std::fmt::Display;
use std::io;

/// What went wrong, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure(message.into())
    }

    /// For `map_err`: the system's error at doing `what`.
    pub(crate) fn io(what: impl Display) -> impl FnOnce(io::Error) -> Failure {
        move |error| Failure(format!("{what}: {error}"))
    }
}
