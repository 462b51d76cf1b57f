//! What can go wrong with a call, and what is to be done then.

use std::fmt;

use crate::codec::CodecError;
use crate::error::Error;

/// Why a call ended without an [`Outcome`](super::Outcome).
///
/// Two of them carry the value: the work *was* done. Whoever handles them must not do it again.
pub enum ExecuteError<T, E> {
    /// An argument is outside of its bounds, or there were no random bytes. Nothing was sent and nothing was done.
    Refused(Error),
    /// BEGIN was answered with an error, or its answer was lost. The work was not done. When the error
    /// [may have run](Error::may_have_run), the key can be taken until the end of its retention, and the next call is
    /// `Pending`.
    Begin(Error),
    /// The work failed with this. Its record stays pending until its retention ends, or was given back when
    /// `abort_on_error` is on.
    Work(E),
    /// The work was done; its value cannot be encoded, or is over 4 MiB. The record stays pending.
    Unstorable {
        /// What the work returned.
        value: T,
        /// Why it cannot be stored.
        error: CodecError,
    },
    /// The work was done; whether its value is stored is not known. A later call tells: `Replayed`, or `Pending`. The
    /// same COMPLETE is not sent again, and there is no ABORT.
    Complete {
        /// What the work returned.
        value: T,
        /// What became of COMPLETE.
        error: Error,
    },
    /// It was done before, and what is stored is no value of this type.
    Undecodable {
        /// What the codec says.
        error: CodecError,
    },
}

impl<T, E> ExecuteError<T, E> {
    /// The value, when the work was done now.
    pub fn into_value(self) -> Option<T> {
        match self {
            ExecuteError::Unstorable { value, .. } | ExecuteError::Complete { value, .. } => Some(value),
            ExecuteError::Refused(_)
            | ExecuteError::Begin(_)
            | ExecuteError::Work(_)
            | ExecuteError::Undecodable { .. } => None,
        }
    }

    /// The error of the store, when it is one.
    pub fn store_error(&self) -> Option<&Error> {
        match self {
            ExecuteError::Refused(error)
            | ExecuteError::Begin(error)
            | ExecuteError::Complete { error, .. } => Some(error),
            ExecuteError::Work(_) | ExecuteError::Unstorable { .. } | ExecuteError::Undecodable { .. } => {
                None
            }
        }
    }
}

/// Without the value: an error ends in logs.
impl<T, E: fmt::Debug> fmt::Debug for ExecuteError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecuteError::Refused(error) => f.debug_tuple("Refused").field(error).finish(),
            ExecuteError::Begin(error) => f.debug_tuple("Begin").field(error).finish(),
            ExecuteError::Work(error) => f.debug_tuple("Work").field(error).finish(),
            ExecuteError::Unstorable { error, .. } => f
                .debug_struct("Unstorable")
                .field("error", error)
                .finish_non_exhaustive(),
            ExecuteError::Complete { error, .. } => f
                .debug_struct("Complete")
                .field("error", error)
                .finish_non_exhaustive(),
            ExecuteError::Undecodable { error } => {
                f.debug_struct("Undecodable").field("error", error).finish()
            }
        }
    }
}

impl<T, E: fmt::Display> fmt::Display for ExecuteError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecuteError::Refused(error) => write!(f, "nothing was sent: {error}"),
            ExecuteError::Begin(error) => write!(f, "not run, BEGIN failed: {error}"),
            ExecuteError::Work(error) => write!(f, "the work failed: {error}"),
            ExecuteError::Unstorable { error, .. } => {
                write!(f, "run, but its value cannot be stored: {error}")
            }
            ExecuteError::Complete { error, .. } => {
                write!(f, "run, and it is not known whether its value is stored: {error}")
            }
            ExecuteError::Undecodable { error } => {
                write!(f, "run before, but what is stored is no value: {error}")
            }
        }
    }
}

impl<T, E: std::error::Error + 'static> std::error::Error for ExecuteError<T, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExecuteError::Refused(error)
            | ExecuteError::Begin(error)
            | ExecuteError::Complete { error, .. } => Some(error),
            ExecuteError::Work(error) => Some(error),
            ExecuteError::Unstorable { error, .. } | ExecuteError::Undecodable { error } => Some(&**error),
        }
    }
}
