//! Transactions.

use super::BASE;
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec};

const ANYTIME: Flags = Flags::NOSCRIPT
    .with(Flags::LOADING)
    .with(Flags::STALE)
    .with(Flags::ALLOW_BUSY);

const FAST: Categories = Categories::FAST.with(Categories::TRANSACTION);

pub(super) const DISCARD: CommandSpec = CommandSpec {
    id: CommandId::Discard,
    name: "discard",
    arity: 1,
    flags: ANYTIME.with(Flags::FAST),
    categories: FAST,
    summary: "Forgets the commands that were queued, and what is watched.",
    since: "2.0.0",
    group: "transactions",
    complexity: "O(N), when N is the number of queued commands",
    ..BASE
};

pub(super) const EXEC: CommandSpec = CommandSpec {
    id: CommandId::Exec,
    name: "exec",
    arity: 1,
    flags: Flags::NOSCRIPT
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::SKIP_SLOWLOG),
    categories: Categories::SLOW.with(Categories::TRANSACTION),
    summary: "Carries out the commands that were queued: all of them, in one record of the log, or none.",
    since: "1.2.0",
    group: "transactions",
    complexity: "Depends on the commands that were queued.",
    ..BASE
};

pub(super) const MULTI: CommandSpec = CommandSpec {
    id: CommandId::Multi,
    name: "multi",
    arity: 1,
    flags: ANYTIME.with(Flags::FAST),
    categories: FAST,
    summary: "Begins a transaction: what follows is queued until EXEC.",
    since: "1.2.0",
    group: "transactions",
    ..BASE
};

pub(super) const UNWATCH: CommandSpec = CommandSpec {
    id: CommandId::Unwatch,
    name: "unwatch",
    arity: 1,
    flags: ANYTIME.with(Flags::FAST),
    categories: FAST,
    summary: "Forgets what is watched.",
    since: "2.2.0",
    group: "transactions",
    ..BASE
};

pub(super) const WATCH: CommandSpec = CommandSpec {
    id: CommandId::Watch,
    name: "watch",
    arity: -2,
    flags: ANYTIME.with(Flags::FAST),
    keys: KeySpec::all(&["RO"]),
    categories: FAST,
    summary: "Lets the next EXEC do nothing if one of the keys changes before it.",
    since: "2.2.0",
    group: "transactions",
    complexity: "O(1) for every key.",
    syntax: "key [key ...]",
    ..BASE
};
