//! `SCRIPT`, as far as a server without scripts can answer it.
//!
//! Failover tools kill a script that keeps a server busy before they judge it; they are told that none runs. Loading and
//! running scripts are unknown commands, as everything that is not there.

use super::BASE;
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec, SubcommandId, SubcommandSpec};

pub(super) const SCRIPT: CommandSpec = CommandSpec {
    id: CommandId::Script,
    name: "script",
    arity: -2,
    categories: Categories::SLOW,
    summary: "A container for commands about scripts, of which there are none.",
    since: "2.6.0",
    group: "scripting",
    complexity: "Depends on the subcommand.",
    subcommand_at: 1,
    subcommands: &[HELP, KILL],
    ..BASE
};

const HELP: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ScriptHelp,
    name: "help",
    full_name: "script|help",
    arity: 2,
    flags: Flags::LOADING.with(Flags::STALE),
    keys: KeySpec::NONE,
    categories: Categories::SLOW.with(Categories::SCRIPTING),
    summary: "Lists the subcommands of SCRIPT.",
    since: "5.0.0",
    complexity: "O(1)",
    syntax: "",
    tips: &[],
};

const KILL: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ScriptKill,
    name: "kill",
    full_name: "script|kill",
    flags: Flags::NOSCRIPT.with(Flags::ALLOW_BUSY),
    summary: "Is an error: no script runs.",
    since: "2.6.0",
    tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
    ..HELP
};
