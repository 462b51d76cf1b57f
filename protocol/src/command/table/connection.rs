//! Commands about the connection itself.

use super::BASE;
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec, SubcommandId, SubcommandSpec};

const ANYTIME: Flags = Flags::LOADING.with(Flags::STALE);
const FAST: Categories = Categories::FAST.with(Categories::CONNECTION);
const EVERY_NODE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

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

pub(super) const CLIENT: CommandSpec = CommandSpec {
    id: CommandId::Client,
    name: "client",
    arity: -2,
    categories: Categories::SLOW,
    summary: "A container for commands about client connections.",
    since: "2.4.0",
    group: "connection",
    complexity: "Depends on the subcommand.",
    subcommand_at: 1,
    subcommands: &[
        CLIENT_GETNAME,
        CLIENT_HELP,
        CLIENT_ID,
        CLIENT_SETINFO,
        CLIENT_SETNAME,
    ],
    ..BASE
};

/// What the subcommands of CLIENT have in common.
const CLIENT_BASE: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientHelp,
    name: "help",
    full_name: "client|help",
    arity: 2,
    flags: Flags::NOSCRIPT.with(ANYTIME),
    keys: KeySpec::NONE,
    categories: Categories::SLOW.with(Categories::CONNECTION),
    summary: "Lists the subcommands of CLIENT.",
    since: "5.0.0",
    complexity: "O(1)",
    syntax: "",
    tips: &[],
};

const CLIENT_HELP: SubcommandSpec = SubcommandSpec {
    flags: ANYTIME,
    ..CLIENT_BASE
};

const CLIENT_GETNAME: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientGetname,
    name: "getname",
    full_name: "client|getname",
    summary: "Returns the name of the connection.",
    since: "2.6.9",
    ..CLIENT_BASE
};

const CLIENT_ID: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientId,
    name: "id",
    full_name: "client|id",
    summary: "Returns the number of the connection, which no other of this process has or had.",
    ..CLIENT_BASE
};

const CLIENT_SETINFO: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientSetinfo,
    name: "setinfo",
    full_name: "client|setinfo",
    arity: 4,
    summary: "Notes the name or version of the client's library.",
    since: "7.2.0",
    syntax: "<LIB-NAME libname | LIB-VER libver>",
    tips: EVERY_NODE,
    ..CLIENT_BASE
};

const CLIENT_SETNAME: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientSetname,
    name: "setname",
    full_name: "client|setname",
    arity: 3,
    summary: "Names the connection.",
    since: "2.6.9",
    syntax: "connection-name",
    tips: EVERY_NODE,
    ..CLIENT_BASE
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
