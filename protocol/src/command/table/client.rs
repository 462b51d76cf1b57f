//! `CLIENT` and its subcommands.

use super::BASE;
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec, SubcommandId, SubcommandSpec};

const ANYTIME: Flags = Flags::LOADING.with(Flags::STALE);
const EVERY_NODE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

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
        CACHING,
        GETNAME,
        GETREDIR,
        HELP,
        ID,
        INFO,
        KILL,
        LIST,
        NO_EVICT,
        NO_TOUCH,
        PAUSE,
        REPLY,
        SETINFO,
        SETNAME,
        TRACKING,
        TRACKINGINFO,
        UNBLOCK,
        UNPAUSE,
    ],
    ..BASE
};

/// What the subcommands have in common.
const COMMON: SubcommandSpec = SubcommandSpec {
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

/// What those that concern other connections have in common.
const OPERATORS: SubcommandSpec = SubcommandSpec {
    flags: COMMON.flags.with(Flags::ADMIN),
    categories: COMMON
        .categories
        .with(Categories::ADMIN)
        .with(Categories::DANGEROUS),
    ..COMMON
};

const HELP: SubcommandSpec = SubcommandSpec {
    flags: ANYTIME,
    ..COMMON
};

const CACHING: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientCaching,
    name: "caching",
    full_name: "client|caching",
    arity: 3,
    summary: "Is an error: there is no client-side caching here.",
    since: "6.0.0",
    syntax: "<YES | NO>",
    ..COMMON
};

const GETNAME: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientGetname,
    name: "getname",
    full_name: "client|getname",
    summary: "Returns the name of the connection.",
    since: "2.6.9",
    ..COMMON
};

const GETREDIR: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientGetredir,
    name: "getredir",
    full_name: "client|getredir",
    summary: "Returns -1: there is no client-side caching here.",
    since: "6.0.0",
    ..COMMON
};

const ID: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientId,
    name: "id",
    full_name: "client|id",
    summary: "Returns the number of the connection, which no other of this process has or had.",
    ..COMMON
};

const INFO: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientInfo,
    name: "info",
    full_name: "client|info",
    summary: "Returns what CLIENT LIST shows of this connection.",
    since: "6.2.0",
    tips: &["nondeterministic_output"],
    ..COMMON
};

const KILL: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientKill,
    name: "kill",
    full_name: "client|kill",
    arity: -3,
    summary: "Closes the connections that match all of the options; of the replies they wait for, none is sent.",
    since: "2.4.0",
    complexity: "O(N) in the number of connections.",
    syntax: "<ip:port | [ID client-id] [TYPE <NORMAL | MASTER | REPLICA | SLAVE | PUBSUB>] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES | NO>] [MAXAGE maxage]>",
    ..OPERATORS
};

const LIST: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientList,
    name: "list",
    full_name: "client|list",
    arity: -2,
    summary: "Returns the connections, one a line.",
    since: "2.4.0",
    complexity: "O(N) in the number of connections.",
    syntax: "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
    tips: &["nondeterministic_output"],
    ..OPERATORS
};

const NO_EVICT: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientNoEvict,
    name: "no-evict",
    full_name: "client|no-evict",
    arity: 3,
    summary: "Lets the connection be the last to go when all buffers together are too large.",
    since: "7.0.0",
    syntax: "<ON | OFF>",
    ..OPERATORS
};

const NO_TOUCH: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientNoTouch,
    name: "no-touch",
    full_name: "client|no-touch",
    arity: 3,
    summary: "Keeps the commands of the connection from counting as uses of their keys; TOUCH still does.",
    since: "7.2.0",
    syntax: "<ON | OFF>",
    ..COMMON
};

const PAUSE: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientPause,
    name: "pause",
    full_name: "client|pause",
    arity: -3,
    summary: "Holds back all commands, or those that may write, for some milliseconds.",
    since: "3.0.0",
    syntax: "timeout [<WRITE | ALL>]",
    ..OPERATORS
};

const REPLY: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientReply,
    name: "reply",
    full_name: "client|reply",
    arity: 3,
    summary: "Turns the replies of the connection off or on, or off for the next command.",
    since: "3.2.0",
    syntax: "<ON | OFF | SKIP>",
    ..COMMON
};

const SETINFO: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientSetinfo,
    name: "setinfo",
    full_name: "client|setinfo",
    arity: 4,
    summary: "Notes the name or version of the client's library.",
    since: "7.2.0",
    syntax: "<LIB-NAME libname | LIB-VER libver>",
    tips: EVERY_NODE,
    ..COMMON
};

const SETNAME: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientSetname,
    name: "setname",
    full_name: "client|setname",
    arity: 3,
    summary: "Names the connection.",
    since: "2.6.9",
    syntax: "connection-name",
    tips: EVERY_NODE,
    ..COMMON
};

const TRACKING: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientTracking,
    name: "tracking",
    full_name: "client|tracking",
    arity: -3,
    summary: "Is an error, except OFF: there is no client-side caching here.",
    since: "6.0.0",
    syntax: "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
    ..COMMON
};

const TRACKINGINFO: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientTrackinginfo,
    name: "trackinginfo",
    full_name: "client|trackinginfo",
    summary: "Returns that client-side caching is off.",
    since: "6.2.0",
    ..COMMON
};

const UNBLOCK: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientUnblock,
    name: "unblock",
    full_name: "client|unblock",
    arity: -3,
    summary: "Returns 0: no command here waits for another client.",
    complexity: "O(log N) in the number of connections.",
    syntax: "client-id [<TIMEOUT | ERROR>]",
    ..OPERATORS
};

const UNPAUSE: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ClientUnpause,
    name: "unpause",
    full_name: "client|unpause",
    summary: "Ends what CLIENT PAUSE began.",
    since: "6.2.0",
    complexity: "O(N) in the number of commands held back.",
    ..OPERATORS
};
