//! Commands about the server: its state, its files, its commands.

use super::BASE;
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec, SubcommandId, SubcommandSpec};

const ANYTIME: Flags = Flags::LOADING.with(Flags::STALE);
const EVERY_SHARD: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const EVERY_NODE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const OPERATORS: Categories = Categories::ADMIN.with(Categories::DANGEROUS);

pub(super) const BGSAVE: CommandSpec = CommandSpec {
    id: CommandId::Bgsave,
    name: "bgsave",
    arity: -1,
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING),
    categories: OPERATORS.with(Categories::SLOW),
    summary: "Starts a snapshot beside the running commands.",
    group: "server",
    syntax: "[SCHEDULE]",
    ..BASE
};

pub(super) const COMMAND: CommandSpec = CommandSpec {
    id: CommandId::Command,
    name: "command",
    arity: -1,
    flags: ANYTIME,
    categories: Categories::SLOW.with(Categories::CONNECTION),
    summary: "Describes all commands for clients and proxies.",
    since: "2.8.13",
    group: "server",
    complexity: "O(N) in the number of commands.",
    tips: &["nondeterministic_output_order"],
    subcommand_at: 1,
    subcommands: &[
        COMMAND_COUNT,
        COMMAND_DOCS,
        COMMAND_GETKEYS,
        COMMAND_GETKEYSANDFLAGS,
        COMMAND_HELP,
        COMMAND_INFO,
        COMMAND_LIST,
    ],
    ..BASE
};

/// What the subcommands of COMMAND have in common.
const COMMAND_BASE: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::CommandHelp,
    name: "help",
    full_name: "command|help",
    arity: 2,
    flags: ANYTIME,
    keys: KeySpec::NONE,
    categories: Categories::SLOW.with(Categories::CONNECTION),
    summary: "Lists the subcommands of COMMAND.",
    since: "5.0.0",
    complexity: "O(1)",
    syntax: "",
    tips: &[],
};

const COMMAND_HELP: SubcommandSpec = COMMAND_BASE;

const COMMAND_COUNT: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::CommandCount,
    name: "count",
    full_name: "command|count",
    summary: "Returns the number of commands.",
    since: "2.8.13",
    ..COMMAND_BASE
};

const COMMAND_DOCS: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::CommandDocs,
    name: "docs",
    full_name: "command|docs",
    arity: -2,
    summary: "Describes commands, or all of them, for people.",
    since: "7.0.0",
    complexity: "O(N) in the number of commands.",
    syntax: "[command-name [command-name ...]]",
    tips: &["nondeterministic_output_order"],
    ..COMMAND_BASE
};

const COMMAND_GETKEYS: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::CommandGetkeys,
    name: "getkeys",
    full_name: "command|getkeys",
    arity: -3,
    summary: "Returns the keys of a command with its arguments.",
    since: "2.8.13",
    complexity: "O(N) in the number of arguments.",
    syntax: "command [arg [arg ...]]",
    ..COMMAND_BASE
};

const COMMAND_GETKEYSANDFLAGS: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::CommandGetkeysandflags,
    name: "getkeysandflags",
    full_name: "command|getkeysandflags",
    arity: -3,
    summary: "Returns the keys of a command with its arguments, each with what the command does to it.",
    since: "7.0.0",
    complexity: "O(N) in the number of arguments.",
    syntax: "command [arg [arg ...]]",
    ..COMMAND_BASE
};

const COMMAND_INFO: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::CommandInfo,
    name: "info",
    full_name: "command|info",
    arity: -2,
    summary: "Describes commands, or all of them, for clients and proxies.",
    since: "2.8.13",
    complexity: "O(N) in the number of commands.",
    syntax: "[command-name [command-name ...]]",
    tips: &["nondeterministic_output_order"],
    ..COMMAND_BASE
};

const COMMAND_LIST: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::CommandList,
    name: "list",
    full_name: "command|list",
    arity: -2,
    summary: "Returns the names of commands and subcommands.",
    since: "7.0.0",
    complexity: "O(N) in the number of commands.",
    syntax: "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
    tips: &["nondeterministic_output_order"],
    ..COMMAND_BASE
};

pub(super) const CONFIG: CommandSpec = CommandSpec {
    id: CommandId::Config,
    name: "config",
    arity: -2,
    categories: Categories::SLOW,
    summary: "A container for commands about the server's options.",
    since: "2.0.0",
    group: "server",
    complexity: "Depends on the subcommand.",
    subcommand_at: 1,
    subcommands: &[
        CONFIG_GET,
        CONFIG_HELP,
        CONFIG_RESETSTAT,
        CONFIG_REWRITE,
        CONFIG_SET,
    ],
    ..BASE
};

/// What the subcommands of CONFIG have in common.
const CONFIG_BASE: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ConfigGet,
    name: "get",
    full_name: "config|get",
    arity: -3,
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(ANYTIME),
    keys: KeySpec::NONE,
    categories: OPERATORS.with(Categories::SLOW),
    summary: "Returns the options that match a pattern, with their values.",
    since: "2.0.0",
    complexity: "O(N) in the number of options and patterns.",
    syntax: "parameter [parameter ...]",
    tips: &[],
};

const CONFIG_GET: SubcommandSpec = CONFIG_BASE;

const CONFIG_HELP: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ConfigHelp,
    name: "help",
    full_name: "config|help",
    arity: 2,
    flags: ANYTIME,
    categories: Categories::SLOW,
    summary: "Lists the subcommands of CONFIG.",
    since: "5.0.0",
    complexity: "O(1)",
    syntax: "",
    ..CONFIG_BASE
};

const CONFIG_RESETSTAT: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ConfigResetstat,
    name: "resetstat",
    full_name: "config|resetstat",
    arity: 2,
    summary: "Lets the counters of INFO begin again.",
    complexity: "O(1)",
    syntax: "",
    tips: EVERY_NODE,
    ..CONFIG_BASE
};

const CONFIG_REWRITE: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ConfigRewrite,
    name: "rewrite",
    full_name: "config|rewrite",
    arity: 2,
    summary: "Writes changed options into the configuration file.",
    since: "2.8.0",
    complexity: "O(1)",
    syntax: "",
    tips: EVERY_NODE,
    ..CONFIG_BASE
};

const CONFIG_SET: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ConfigSet,
    name: "set",
    full_name: "config|set",
    arity: -4,
    summary: "Changes options of the running server, all or none.",
    complexity: "O(1)",
    syntax: "parameter value [parameter value ...]",
    tips: EVERY_NODE,
    ..CONFIG_BASE
};

pub(super) const DBSIZE: CommandSpec = CommandSpec {
    id: CommandId::Dbsize,
    name: "dbsize",
    arity: 1,
    flags: Flags::READONLY.with(Flags::FAST),
    categories: Categories::KEYSPACE.with(Categories::READ).with(Categories::FAST),
    summary: "Returns the number of keys in the database.",
    group: "server",
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    ..BASE
};

pub(super) const DEBUG: CommandSpec = CommandSpec {
    id: CommandId::Debug,
    name: "debug",
    arity: -2,
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(ANYTIME),
    categories: OPERATORS.with(Categories::SLOW),
    summary: "Makes everybody wait, for tests of what stands around the server; off by default.",
    group: "server",
    complexity: "Depends on the subcommand.",
    syntax: "<SLEEP seconds | HELP>",
    ..BASE
};

const FLUSH: CommandSpec = CommandSpec {
    arity: -1,
    flags: Flags::WRITE,
    categories: Categories::KEYSPACE
        .with(Categories::WRITE)
        .with(Categories::SLOW)
        .with(Categories::DANGEROUS),
    group: "server",
    complexity: "O(N) in the number of keys deleted.",
    syntax: "[ASYNC | SYNC]",
    tips: EVERY_SHARD,
    ..BASE
};

pub(super) const FLUSHALL: CommandSpec = CommandSpec {
    id: CommandId::Flushall,
    name: "flushall",
    summary: "Deletes all keys of all databases.",
    ..FLUSH
};

pub(super) const FLUSHDB: CommandSpec = CommandSpec {
    id: CommandId::Flushdb,
    name: "flushdb",
    summary: "Deletes all keys of the database.",
    ..FLUSH
};

pub(super) const INFO: CommandSpec = CommandSpec {
    id: CommandId::Info,
    name: "info",
    arity: -1,
    flags: ANYTIME,
    categories: Categories::SLOW.with(Categories::DANGEROUS),
    summary: "Returns the server's state and counters as text.",
    group: "server",
    syntax: "[section [section ...]]",
    tips: &[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ],
    ..BASE
};

pub(super) const LASTSAVE: CommandSpec = CommandSpec {
    id: CommandId::Lastsave,
    name: "lastsave",
    arity: 1,
    flags: ANYTIME.with(Flags::FAST),
    categories: OPERATORS.with(Categories::FAST),
    summary: "Returns the time of the last snapshot, in Unix seconds.",
    group: "server",
    tips: &["nondeterministic_output"],
    ..BASE
};

pub(super) const ROLE: CommandSpec = CommandSpec {
    id: CommandId::Role,
    name: "role",
    arity: 1,
    flags: ANYTIME.with(Flags::FAST).with(Flags::NOSCRIPT),
    categories: OPERATORS.with(Categories::FAST),
    summary: "Returns the role in replication, the offset and the replicas.",
    since: "2.8.12",
    group: "server",
    ..BASE
};

pub(super) const SAVE: CommandSpec = CommandSpec {
    id: CommandId::Save,
    name: "save",
    arity: 1,
    flags: Flags::ADMIN
        .with(Flags::NOSCRIPT)
        .with(Flags::NO_ASYNC_LOADING)
        .with(Flags::NO_MULTI),
    categories: OPERATORS.with(Categories::SLOW),
    summary: "Makes a snapshot and answers when it is on disk.",
    group: "server",
    complexity: "O(N) in the number of keys.",
    ..BASE
};

pub(super) const TIME: CommandSpec = CommandSpec {
    id: CommandId::Time,
    name: "time",
    arity: 1,
    flags: ANYTIME.with(Flags::FAST),
    categories: Categories::FAST,
    summary: "Returns the server's time: Unix seconds, and microseconds of the second.",
    since: "2.6.0",
    group: "server",
    tips: &["nondeterministic_output"],
    ..BASE
};
