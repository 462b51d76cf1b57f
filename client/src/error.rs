//! Errors, and the two questions that a caller has about one: may the command have run, and is it worth trying again.

/// What went wrong between a caller and the store.
///
/// `may_have_run` is the one that matters: a BEGIN that may have run may have acquired the record for an owner who does not
/// know, and a COMPLETE that may have run may have stored the result. Nothing here repeats such a command.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    may_have_run: bool,
    #[source]
    source: Option<redis::RedisError>,
}

/// Errors by what can be done about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No connection, or it was lost. Transient.
    Connection,
    /// No answer in time. Transient.
    Timeout,
    /// The node does not take writes (`READONLY`, `MASTERDOWN`, `LOADING`, `BUSY`, redirections). Transient.
    NotWritable,
    /// The node has no room (`OOM`, `MISCONF`). Transient: it ends when an operator makes some.
    NoSpace,
    /// Too few replicas (`NOREPLICAS`). Transient; one that speaks of a timeout was applied and may survive.
    NoReplicas,
    /// Something else is stored under the key (`WRONGTYPE`), or a record whose deadline was taken away.
    WrongType,
    /// Wrong or missing credentials (`NOAUTH`, `WRONGPASS`, `NOPERM`).
    Denied,
    /// An argument outside of its bounds; found before anything was sent, or by the server.
    InvalidArgument,
    /// The server does not know the command: no idemd, or an older one.
    Unsupported,
    /// An answer that the command does not have.
    Protocol,
    /// Any other error that the server answered.
    Server,
}

impl Error {
    /// What it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the same call can succeed later without anybody changing the call.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Connection
                | ErrorKind::Timeout
                | ErrorKind::NotWritable
                | ErrorKind::NoSpace
                | ErrorKind::NoReplicas
        )
    }

    /// Whether the command may have been carried out all the same.
    pub fn may_have_run(&self) -> bool {
        self.may_have_run
    }
}
