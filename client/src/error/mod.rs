//! Errors, and the two questions that a caller has about one: may the command have run, and is it worth trying again.
//!
//! What the answers are for each code and each failure of a socket is in `classify.rs`, as one table.
//!
//! Invariants
//! * Where it is not certain that a command did *not* run, the answer is that it may have.
//! * A message holds no key and no value: what a server repeats of them in an error is cut off.

mod classify;

use std::borrow::Cow;

pub(crate) use classify::NotSent;

/// What went wrong between a caller and the store.
///
/// [`may_have_run`](Error::may_have_run) is the one that matters: a BEGIN that may have run may have acquired the record
/// for an owner who does not know, and a COMPLETE that may have run may have stored the result. Nothing in this crate
/// repeats such a command.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
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
    /// An argument outside of its bounds, found before anything was sent or by the server; or a configuration with which
    /// nothing can be sent.
    InvalidArgument,
    /// The server does not know the command, or not this form of it: no idemd, or an older one.
    Unsupported,
    /// An answer that the command does not have.
    Protocol,
    /// Any other error that the server answered.
    Server,
    /// The operating system gave no random bytes for an owner's token. Nothing was sent.
    Randomness,
}

impl Error {
    /// An error of a store that is written elsewhere. `message` is for people, and holds neither keys nor values.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>, may_have_run: bool) -> Error {
        Error {
            kind,
            message: message.into(),
            may_have_run,
            source: None,
        }
    }

    /// An argument that is refused before anything is sent.
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message, false)
    }

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
    ///
    /// After BEGIN: the record may be pending for a token that nobody uses any more, until its deadline. After COMPLETE:
    /// the result may be stored; a later BEGIN tells.
    pub fn may_have_run(&self) -> bool {
        self.may_have_run
    }
}
