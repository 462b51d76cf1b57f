//! From the `redis` crate's errors, and a server's codes, to ours.
//!
//! An error that a server *answers* says that nothing was written, with one exception: `NOREPLICAS` that speaks of a
//! timeout was applied. A code that is not in the table may mean anything, so it counts as one that may have run. A socket
//! that fails tells nothing about what the other side received, except where no connection came to be.

use std::error::Error as _;
use std::io;

use redis::{RedisError, ServerError, ServerErrorKind};

use super::{Error, ErrorKind};

/// Longest text of a server that a message repeats, in bytes.
const DETAIL_BYTES: usize = 256;

/// Marks, inside of an error of input and output, that no connection came to be: nothing was sent.
///
/// It is found again as the *source* of such an error: `io::Error` answers with the source of what it wraps, so one layer
/// lies around it ([`NotSent::wrap`]).
#[derive(Debug, thiserror::Error)]
#[error("nothing was sent")]
pub(crate) struct NotSent;

#[derive(Debug, thiserror::Error)]
#[error("no connection: {text}")]
struct Unconnected {
    text: String,
    #[source]
    marker: NotSent,
}

impl NotSent {
    /// The same failure, marked. Errors that the server answered to a handshake stay as they are: they say enough.
    pub(crate) fn wrap(error: RedisError) -> RedisError {
        if !error.is_io_error() {
            return error;
        }
        let kind = if error.is_timeout() {
            io::ErrorKind::TimedOut
        } else {
            io::ErrorKind::NotConnected
        };
        let unconnected = Unconnected {
            text: error.to_string(),
            marker: NotSent,
        };
        io::Error::new(kind, unconnected).into()
    }

    fn is_in(error: &RedisError) -> bool {
        let mut next = error.source();
        while let Some(source) = next {
            if source.is::<NotSent>() {
                return true;
            }
            next = source.source();
        }
        false
    }
}

/// Kind, and whether the command may have run.
type Verdict = (ErrorKind, bool);

impl From<RedisError> for Error {
    /// Classifies an error of a command that was handed to a connection. Of a pipeline: the first one of its errors, and
    /// other commands of it may have run in any case.
    fn from(error: RedisError) -> Error {
        let is_alone = ServerError::try_from(error.clone()).is_ok();
        let answers = error.clone().into_server_errors();
        let answer = answers.as_ref().and_then(|answers| answers.first());
        let (kind, may_have_run) = match (error.kind(), answer) {
            // Nothing of a transaction that was refused has run.
            (redis::ErrorKind::Server(ServerErrorKind::ExecAbort), _) => (ErrorKind::Server, false),
            (_, Some((_, answer))) => {
                let (kind, may_have_run) = server(answer.code(), answer.details());
                (kind, may_have_run || !is_alone)
            }
            (kind, None) => local(kind, &error),
        };
        Error {
            kind,
            message: message(kind, &error, answer.map(|(_, answer)| answer)).into(),
            may_have_run,
            // What a server says about an unknown command begins with the command's arguments, and what came in place of an
            // answer may be anybody's data.
            source: (!matches!(kind, ErrorKind::Unsupported | ErrorKind::Protocol)).then_some(error),
        }
    }
}

/// Errors that no server answered.
fn local(kind: redis::ErrorKind, error: &RedisError) -> Verdict {
    match kind {
        redis::ErrorKind::Io => {
            let not_sent = NotSent::is_in(error) || error.is_connection_refusal();
            let kind = if error.is_timeout() {
                ErrorKind::Timeout
            } else {
                ErrorKind::Connection
            };
            (kind, !not_sent)
        }
        redis::ErrorKind::AuthenticationFailed => (ErrorKind::Denied, false),
        redis::ErrorKind::InvalidClientConfig
        | redis::ErrorKind::Client
        | redis::ErrorKind::EmptySentinelList => (ErrorKind::InvalidArgument, false),
        redis::ErrorKind::RESP3NotSupported => (ErrorKind::Unsupported, false),
        redis::ErrorKind::MasterNameNotFoundBySentinel | redis::ErrorKind::NoValidReplicasFoundBySentinel => {
            (ErrorKind::Connection, false)
        }
        // A cluster's connection repeats by itself: an attempt before this one may have been sent.
        redis::ErrorKind::ClusterConnectionNotFound => (ErrorKind::Connection, true),
        redis::ErrorKind::Parse | redis::ErrorKind::UnexpectedReturnType => (ErrorKind::Protocol, true),
        _ => (ErrorKind::Server, true),
    }
}

/// Errors that a server answered, by code and text.
pub(super) fn server(code: &str, detail: Option<&str>) -> Verdict {
    let detail = detail.unwrap_or_default();
    let begins = |text: &str| {
        detail
            .get(..text.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(text))
    };
    match code {
        "READONLY" | "MASTERDOWN" | "LOADING" | "BUSY" | "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN"
        | "FAILOVER" => (ErrorKind::NotWritable, false),
        "OOM" | "MISCONF" => (ErrorKind::NoSpace, false),
        "NOREPLICAS" => (ErrorKind::NoReplicas, !begins("not enough")),
        "WRONGTYPE" => (ErrorKind::WrongType, false),
        "NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED" => (ErrorKind::Denied, false),
        "NOPROTO" => (ErrorKind::Unsupported, false),
        "CROSSSLOT" => (ErrorKind::InvalidArgument, false),
        "EXECABORT" => (ErrorKind::Server, false),
        // Commands here are well-formed: to a server that finds fault with their form the form is unknown.
        "ERR"
            if [
                "unknown command",
                "unknown subcommand",
                "syntax error",
                "wrong number",
            ]
            .into_iter()
            .any(begins) =>
        {
            (ErrorKind::Unsupported, false)
        }
        "ERR" if begins("max number of clients") => (ErrorKind::Connection, false),
        "ERR" if begins("the record has no deadline") => (ErrorKind::WrongType, false),
        "ERR" if begins("value is not an integer") => (ErrorKind::InvalidArgument, false),
        "ERR" => (ErrorKind::Server, false),
        _ => (ErrorKind::Server, true),
    }
}

/// For people. The texts of a server's errors that are repeated here hold no argument of a command.
fn message(kind: ErrorKind, error: &RedisError, answer: Option<&ServerError>) -> String {
    let short = |text: &str| text[..text.floor_char_boundary(DETAIL_BYTES.min(text.len()))].to_owned();
    match (kind, answer) {
        (ErrorKind::Unsupported, _) => "the server does not know the command".to_owned(),
        (ErrorKind::Protocol, _) => "the answer is none that the command has".to_owned(),
        (_, Some(answer)) => format!(
            "the server answered {} {}",
            short(answer.code()),
            short(answer.details().unwrap_or_default())
        ),
        (ErrorKind::Timeout, None) => format!("no answer in time: {error}"),
        (ErrorKind::Connection, None) => format!("the connection failed: {error}"),
        (_, None) => error.to_string(),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
