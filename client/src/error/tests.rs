//! One table for codes, one for what never reached a server.

use std::io;

use redis::{RedisError, Value};

use super::NotSent;
use crate::error::{Error, ErrorKind};

/// An error line as a server sends it.
fn answered(line: &str) -> RedisError {
    let bytes = format!("-{line}\r\n");
    let value: Value = redis::parse_redis_value(bytes.as_bytes()).unwrap();
    value.extract_error().unwrap_err()
}

#[test]
fn answers_by_code_and_text() {
    use ErrorKind::*;
    // The line; its kind, whether it is transient, whether the command may have run.
    for (line, kind, transient, may_have_run) in [
        (
            "READONLY You can't write against a read only replica.",
            NotWritable,
            true,
            false,
        ),
        ("MASTERDOWN Link with MASTER is down", NotWritable, true, false),
        (
            "LOADING Redis is loading the dataset in memory",
            NotWritable,
            true,
            false,
        ),
        ("BUSY Redis is busy running a script", NotWritable, true, false),
        ("MOVED 3999 127.0.0.1:6381", NotWritable, true, false),
        ("ASK 3999 127.0.0.1:6381", NotWritable, true, false),
        ("TRYAGAIN Multiple keys request", NotWritable, true, false),
        ("CLUSTERDOWN The cluster is down", NotWritable, true, false),
        (
            "OOM command not allowed when used memory > 'maxmemory'.",
            NoSpace,
            true,
            false,
        ),
        ("MISCONF no log space can be reserved", NoSpace, true, false),
        (
            "NOREPLICAS not enough members are connected",
            NoReplicas,
            true,
            false,
        ),
        (
            "NOREPLICAS Not enough good replicas to write.",
            NoReplicas,
            true,
            false,
        ),
        (
            "NOREPLICAS timeout: 1 of 2 disks within 5000 ms",
            NoReplicas,
            true,
            true,
        ),
        ("NOREPLICAS", NoReplicas, true, true),
        (
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            WrongType,
            false,
            false,
        ),
        (
            "ERR the record has no deadline: it was taken away",
            WrongType,
            false,
            false,
        ),
        ("NOAUTH Authentication required.", Denied, false, false),
        ("WRONGPASS invalid username-password pair", Denied, false, false),
        (
            "NOPERM this user has no permissions to run the 'idem' command",
            Denied,
            false,
            false,
        ),
        ("DENIED idemd is running in protected mode", Denied, false, false),
        (
            "ERR unknown command 'IDEM', with args beginning with: 'secret' ",
            Unsupported,
            false,
            false,
        ),
        (
            "ERR unknown subcommand 'ABORT'. Try IDEM HELP.",
            Unsupported,
            false,
            false,
        ),
        ("NOPROTO unsupported protocol version", Unsupported, false, false),
        (
            "ERR value is not an integer or out of range",
            InvalidArgument,
            false,
            false,
        ),
        ("ERR syntax error", Unsupported, false, false),
        (
            "ERR wrong number of arguments for 'idem|begin' command",
            Unsupported,
            false,
            false,
        ),
        (
            "CROSSSLOT Keys in request don't hash to the same slot",
            InvalidArgument,
            false,
            false,
        ),
        (
            "EXECABORT Transaction discarded because of previous errors.",
            Server,
            false,
            false,
        ),
        ("ERR max number of clients reached", Connection, true, false),
        ("ERR anything else", Server, false, false),
        ("SOMETHINGNEW with a text", Server, false, true),
    ] {
        let error = Error::of_command(answered(line));
        assert_eq!(
            (error.kind(), error.is_transient(), error.may_have_run()),
            (kind, transient, may_have_run),
            "{line}"
        );
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        // A lone answer may be all that is told of a pipeline, other commands of which have run.
        let of_any = Error::from(answered(line));
        assert_eq!((of_any.kind(), of_any.may_have_run()), (kind, true), "{line}");
    }
}

#[test]
fn what_no_server_answered() {
    use ErrorKind::*;
    let io = |kind: io::ErrorKind| RedisError::from(io::Error::from(kind));
    let local = |kind: redis::ErrorKind| RedisError::from((kind, "text"));
    // What the crate makes of a SELECT that fails in a handshake, and of a connection that ends within an answer.
    let refused = |text: &str| {
        let kind = redis::ServerErrorKind::ResponseError.into();
        RedisError::from((kind, "Redis server refused to switch database", text.to_owned()))
    };
    let cut = || {
        let text = "Parse error at 8: Unexpected end of input";
        RedisError::from(redis::ParsingError::from(text))
    };
    for (error, kind, may_have_run) in [
        // The last attempt of a connection that repeats commands; the first may have been sent.
        (io(io::ErrorKind::ConnectionRefused), Connection, true),
        (
            NotSent::wrap(io(io::ErrorKind::ConnectionRefused)),
            Connection,
            false,
        ),
        // A Unix socket that is not there yet.
        (NotSent::wrap(io(io::ErrorKind::NotFound)), Connection, false),
        (io(io::ErrorKind::BrokenPipe), Connection, true),
        (io(io::ErrorKind::ConnectionReset), Connection, true),
        (io(io::ErrorKind::UnexpectedEof), Connection, true),
        (io(io::ErrorKind::TimedOut), Timeout, true),
        (io(io::ErrorKind::WouldBlock), Timeout, true),
        (NotSent::wrap(io(io::ErrorKind::TimedOut)), Timeout, false),
        (
            NotSent::wrap(io(io::ErrorKind::ConnectionReset)),
            Connection,
            false,
        ),
        (local(redis::ErrorKind::Parse), Protocol, true),
        (NotSent::wrap(local(redis::ErrorKind::Parse)), Protocol, false),
        (cut(), Connection, true),
        (NotSent::wrap(cut()), Connection, false),
        (refused("DB index is out of range"), InvalidArgument, true),
        (
            NotSent::wrap(refused("DB index is out of range")),
            InvalidArgument,
            false,
        ),
        (
            NotSent::wrap(refused("Redis is loading the dataset in memory")),
            Connection,
            false,
        ),
        (
            NotSent::wrap(answered("SOMETHINGNEW in a handshake")),
            Server,
            false,
        ),
        (NotSent::wrap(answered("NOAUTH")), Denied, false),
        (local(redis::ErrorKind::UnexpectedReturnType), Protocol, true),
        (local(redis::ErrorKind::AuthenticationFailed), Denied, false),
        (
            local(redis::ErrorKind::InvalidClientConfig),
            InvalidArgument,
            false,
        ),
        (local(redis::ErrorKind::Client), Connection, true),
        (local(redis::ErrorKind::EmptySentinelList), InvalidArgument, false),
        (
            local(redis::ErrorKind::MasterNameNotFoundBySentinel),
            Connection,
            false,
        ),
        (
            local(redis::ErrorKind::ClusterConnectionNotFound),
            Connection,
            true,
        ),
        (local(redis::ErrorKind::RESP3NotSupported), Unsupported, false),
    ] {
        let text = error.to_string();
        for error in [Error::of_command(error.clone()), Error::from(error)] {
            assert_eq!(
                (error.kind(), error.may_have_run()),
                (kind, may_have_run),
                "{text}"
            );
        }
    }
}

/// Servers repeat arguments of commands, and the error of a pipeline holds the answers of all of them.
#[test]
fn no_argument_of_a_command_gets_into_a_text() {
    for line in [
        "ERR unknown command 'IDEM', with args beginning with: 'secret' 'BEGIN' ",
        "ERR Unknown subcommand or wrong number of arguments for \"secret\"",
        "WRONGTYPE of `secret`",
        "NOPERM No permissions to access the 'secret' key",
        "SOMETHINGNEW 'secret'",
    ] {
        let wrapped = NotSent::wrap(answered(line));
        for error in [
            Error::of_command(answered(line)),
            Error::from(answered(line)),
            Error::of_command(wrapped),
        ] {
            let told = format!("{error} {error:?} {:?}", std::error::Error::source(&error));
            assert!(!told.contains("secret"), "{told}");
        }
    }
}
