//! Commands about the connection itself; `CLIENT` is in [`client`](super::client).

use super::BASE;
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec};

const ANYTIME: Flags = Flags::LOADING.with(Flags::STALE);
const FAST: Categories = Categories::FAST.with(Categories::CONNECTION);

/// It is here so that it can be refused in Redis's words.
pub(super) const AUTH: CommandSpec = CommandSpec {
    id: CommandId::Auth,
    name: "auth",
    arity: -2,
    flags: ANYTIME
        .with(Flags::FAST)
        .with(Flags::NOSCRIPT)
        .with(Flags::NO_AUTH)
        .with(Flags::ALLOW_BUSY),
    categories: FAST,
    summary: "Authenticates the connection. There are no users yet: always an error.",
    group: "connection",
    syntax: "[username] password",
    ..BASE
};

pub(super) const ECHO: CommandSpec = CommandSpec {
    id: CommandId::Echo,
    name: "echo",
    arity: 2,
    flags: ANYTIME.with(Flags::FAST),
    categories: FAST,
    summary: "Returns the message.",
    group: "connection",
    syntax: "message",
    ..BASE
};

pub(super) const HELLO: CommandSpec = CommandSpec {
    id: CommandId::Hello,
    name: "hello",
    arity: -1,
    flags: ANYTIME
        .with(Flags::FAST)
        .with(Flags::NOSCRIPT)
        .with(Flags::NO_AUTH)
        .with(Flags::ALLOW_BUSY),
    categories: FAST,
    summary: "Describes the server and chooses the version of the protocol.",
    since: "6.0.0",
    group: "connection",
    syntax: "[protover [AUTH username password] [SETNAME clientname]]",
    ..BASE
};

pub(super) const PING: CommandSpec = CommandSpec {
    id: CommandId::Ping,
    name: "ping",
    arity: -1,
    flags: Flags::FAST,
    categories: FAST,
    summary: "Returns PONG, or the message.",
    group: "connection",
    syntax: "[message]",
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    ..BASE
};

pub(super) const QUIT: CommandSpec = CommandSpec {
    id: CommandId::Quit,
    name: "quit",
    arity: -1,
    flags: ANYTIME
        .with(Flags::FAST)
        .with(Flags::NOSCRIPT)
        .with(Flags::NO_AUTH)
        .with(Flags::ALLOW_BUSY),
    categories: FAST,
    summary: "Closes the connection behind the replies that are due.",
    group: "connection",
    ..BASE
};

pub(super) const RESET: CommandSpec = CommandSpec {
    id: CommandId::Reset,
    name: "reset",
    arity: 1,
    flags: ANYTIME
        .with(Flags::FAST)
        .with(Flags::NOSCRIPT)
        .with(Flags::NO_AUTH)
        .with(Flags::ALLOW_BUSY),
    categories: FAST,
    summary: "Makes the connection as it was when it was new: RESP2, database 0, no name.",
    since: "6.2.0",
    group: "connection",
    ..BASE
};

pub(super) const SELECT: CommandSpec = CommandSpec {
    id: CommandId::Select,
    name: "select",
    arity: 2,
    flags: ANYTIME.with(Flags::FAST),
    categories: FAST,
    summary: "Chooses the database of the connection.",
    group: "connection",
    syntax: "index",
    ..BASE
};
