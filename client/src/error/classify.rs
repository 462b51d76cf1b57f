//! From the `redis` crate's errors, and a server's codes, to ours.
//!
//! An error that a server *answers to one command* says that nothing was written, with one exception: `NOREPLICAS` that
//! speaks of a timeout was applied. A code that is not in the table may mean anything, so it counts as one that may have
//! run. A socket that fails tells nothing about what the other side received, except where it is known that no connection
//! came to be ([`NotSent`]).
//!
//! Of anything that is not known to be one command, such as a pipeline or a transaction, parts may have run whatever the
//! error says. Even an error while a transaction is queued is no proof: `MULTI` itself may have been refused, and some
//! errors do not make `EXEC` abort; the `redis` crate does not keep what `EXEC` answered.

use std::error::Error as _;
use std::io;

use redis::{RedisError, ServerError};

use super::{Error, ErrorKind};

/// Longest text of a server that a message repeats, in bytes.
const DETAIL_BYTES: usize = 256;

/// Marks, inside of an error of input and output, that no connection came to be: nothing was sent.
///
/// It is found again as the *source* of such an error: `io::Error` answers with the source of what it wraps, so one layer
/// lies around it ([`NotSent::wrap`]).
#[derive(Debug, thiserror::Error)]
#[error("nothing was sent")]
pub(crate) struct NotSent {
    kind: ErrorKind,
}

#[derive(Debug, thiserror::Error)]
#[error("no connection: {text}")]
struct Unconnected {
    text: String,
    #[source]
    marker: NotSent,
}

impl NotSent {
    /// The same failure, marked: whatever went wrong while connecting, no command was sent. Errors that already say so stay
    /// as they are.
    pub(crate) fn wrap(error: RedisError) -> RedisError {
        let known = Error::from(error.clone());
        if !known.may_have_run {
            return error;
        }
        let kind = match known.kind {
            ErrorKind::Timeout => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::NotConnected,
        };
        let unconnected = Unconnected {
            text: known.message.into_owned(),
            marker: NotSent { kind: known.kind },
        };
        io::Error::new(kind, unconnected).into()
    }

    fn in_error(error: &RedisError) -> Option<&NotSent> {
        let mut next = error.source();
        while let Some(source) = next {
            if let Some(marker) = source.downcast_ref::<NotSent>() {
                return Some(marker);
            }
            next = source.source();
        }
        None
    }
}

/// Kind, and whether the command may have run.
type Verdict = (ErrorKind, bool);

impl From<RedisError> for Error {
    /// Classifies an error of anything that was handed to a connection of the `redis` crate: a pipeline, a transaction, or
    /// more. Its kind is that of the first error in it. It may have run, in part or as a whole, except where nothing can
    /// have been sent.
    fn from(error: RedisError) -> Error {
        Error::classified(error, false)
    }
}

impl Error {
    /// Classifies an error of one command.
    pub(crate) fn of_command(error: RedisError) -> Error {
        Error::classified(error, true)
    }

    /// What the `redis` crate says about an address. Not the address: it may hold a password.
    pub(crate) fn of_address(error: RedisError) -> Error {
        let hint = if says(&error, "TLS") {
            " (TLS is the feature `tls`)"
        } else {
            ": redis://host:port/database, or host:port"
        };
        let message = format!("no address of a server{hint}: {error}");
        Error::new(ErrorKind::InvalidArgument, message, false)
    }

    /// An answer that the command does not have.
    pub(crate) fn unexpected_answer() -> Error {
        Error::new(
            ErrorKind::Protocol,
            "the answer is none that the command has",
            true,
        )
    }

    fn classified(error: RedisError, is_one_command: bool) -> Error {
        let answers = error.clone().into_server_errors();
        let answer = answers.as_ref().and_then(|answers| answers.first());
        let (kind, may_have_run) = match answer {
            Some((_, answer)) => {
                let (kind, may_have_run) = server(answer.code(), answer.details());
                (kind, may_have_run || !is_one_command)
            }
            None => local(&error),
        };
        Error {
            kind,
            message: message(kind, &error, answer.map(|(_, answer)| answer)).into(),
            may_have_run,
            // What a server answers can repeat the arguments of commands, of any command in a pipeline; and what came in
            // place of an answer may be anybody's data.
            source: (answers.is_none() && kind != ErrorKind::Protocol).then_some(error),
        }
    }
}

/// Errors that no server answered.
fn local(error: &RedisError) -> Verdict {
    if let Some(marker) = NotSent::in_error(error) {
        return (marker.kind, false);
    }
    match error.kind() {
        // Also a refused connection: of one that repeats commands by itself (a cluster's), only the last attempt was.
        redis::ErrorKind::Io if error.is_timeout() => (ErrorKind::Timeout, true),
        redis::ErrorKind::Io => (ErrorKind::Connection, true),
        redis::ErrorKind::AuthenticationFailed => (ErrorKind::Denied, false),
        redis::ErrorKind::InvalidClientConfig | redis::ErrorKind::EmptySentinelList => {
            (ErrorKind::InvalidArgument, false)
        }
        redis::ErrorKind::RESP3NotSupported => (ErrorKind::Unsupported, false),
        redis::ErrorKind::MasterNameNotFoundBySentinel | redis::ErrorKind::NoValidReplicasFoundBySentinel => {
            (ErrorKind::Connection, false)
        }
        // A cluster's connection repeats by itself: an attempt before this one may have been sent.
        redis::ErrorKind::ClusterConnectionNotFound | redis::ErrorKind::Client => {
            (ErrorKind::Connection, true)
        }
        // A connection that ends within an answer is a lost one, and no answer of another kind.
        redis::ErrorKind::Parse if says(error, "end of input") => (ErrorKind::Connection, true),
        redis::ErrorKind::Parse | redis::ErrorKind::UnexpectedReturnType => (ErrorKind::Protocol, true),
        // The crate's own words about SELECT in a handshake, which it puts in place of the server's code.
        redis::ErrorKind::Server(_) if says(error, "DB index") => (ErrorKind::InvalidArgument, true),
        redis::ErrorKind::Server(_) => (ErrorKind::Connection, true),
        _ => (ErrorKind::Server, true),
    }
}

fn says(error: &RedisError, words: &str) -> bool {
    error.to_string().contains(words)
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

/// For people.
fn message(kind: ErrorKind, error: &RedisError, answer: Option<&ServerError>) -> String {
    if NotSent::in_error(error).is_some() {
        // Made here, with all that there is to say.
        return error.to_string();
    }
    match (kind, answer) {
        (ErrorKind::Unsupported, _) => "the server does not know the command".to_owned(),
        (ErrorKind::Protocol, _) => "the answer is none that the command has".to_owned(),
        (_, Some(answer)) => {
            let detail = answer.details().map(without_quotations).unwrap_or_default();
            format!(
                "the server answered {} {detail}",
                without_quotations(answer.code())
            )
        }
        (ErrorKind::Timeout, None) => format!("no answer in time: {error}"),
        (ErrorKind::Connection, None) if error.is_io_error() => format!("the connection failed: {error}"),
        (_, None) => without_quotations(&error.to_string()).to_owned(),
    }
}

/// What a server says up to the first thing that it quotes: some quote the arguments of the command, and a key, a value or
/// a password must not get into a log that way.
fn without_quotations(text: &str) -> &str {
    let end = text.find(['\'', '"', '`']).unwrap_or(text.len());
    let end = text.floor_char_boundary(end.min(DETAIL_BYTES));
    text[..end].trim_end_matches([' ', ','])
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
