//! `CLUSTER` and the three commands that cluster clients send beside it: all of them are answered as by a Redis that runs
//! without cluster mode.
//!
//! The rows are there because that answer has an order: a word that is no subcommand, and a wrong number of arguments, are
//! told apart from what would be right in a cluster.

use super::BASE;
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec, SubcommandId, SubcommandSpec};

const STALE: Flags = Flags::STALE;
const LOADING: Flags = Flags::LOADING.with(Flags::STALE);
const ADMIN_STALE: Flags = Flags::ADMIN.with(Flags::STALE);
const ADMIN_NO_ASYNC: Flags = ADMIN_STALE.with(Flags::NO_ASYNC_LOADING);
const SAME: &[&str] = &[];
const CHANGING: &[&str] = &["nondeterministic_output"];

pub(super) const ASKING: CommandSpec = CommandSpec {
    id: CommandId::Asking,
    name: "asking",
    flags: Flags::FAST,
    ..OF_A_CONNECTION
};

pub(super) const READONLY: CommandSpec = CommandSpec {
    id: CommandId::Readonly,
    name: "readonly",
    ..OF_A_CONNECTION
};

pub(super) const READWRITE: CommandSpec = CommandSpec {
    id: CommandId::Readwrite,
    name: "readwrite",
    ..OF_A_CONNECTION
};

/// What those that are no subcommands have in common.
const OF_A_CONNECTION: CommandSpec = CommandSpec {
    arity: 1,
    flags: LOADING.with(Flags::FAST),
    categories: Categories::FAST.with(Categories::CONNECTION),
    summary: "Is an error: this server is no member of a cluster.",
    since: "3.0.0",
    group: "cluster",
    ..BASE
};

pub(super) const CLUSTER: CommandSpec = CommandSpec {
    id: CommandId::Cluster,
    name: "cluster",
    arity: -2,
    categories: Categories::SLOW,
    summary: "A container for commands about a cluster. This server is no member of one: each is an error.",
    since: "3.0.0",
    group: "cluster",
    complexity: "Depends on the subcommand.",
    subcommand_at: 1,
    subcommands: SUBCOMMANDS,
    ..BASE
};

const SUBCOMMANDS: &[SubcommandSpec] = &[
    sub(
        "addslots",
        "cluster|addslots",
        -3,
        ADMIN_NO_ASYNC,
        "3.0.0",
        "slot [slot ...]",
        SAME,
    ),
    sub(
        "addslotsrange",
        "cluster|addslotsrange",
        -4,
        ADMIN_NO_ASYNC,
        "7.0.0",
        "start-slot end-slot [start-slot end-slot ...]",
        SAME,
    ),
    sub(
        "bumpepoch",
        "cluster|bumpepoch",
        2,
        ADMIN_NO_ASYNC,
        "3.0.0",
        "",
        CHANGING,
    ),
    sub(
        "count-failure-reports",
        "cluster|count-failure-reports",
        3,
        ADMIN_STALE,
        "3.0.0",
        "node-id",
        CHANGING,
    ),
    sub(
        "countkeysinslot",
        "cluster|countkeysinslot",
        3,
        STALE,
        "3.0.0",
        "slot",
        SAME,
    ),
    sub(
        "delslots",
        "cluster|delslots",
        -3,
        ADMIN_NO_ASYNC,
        "3.0.0",
        "slot [slot ...]",
        SAME,
    ),
    sub(
        "delslotsrange",
        "cluster|delslotsrange",
        -4,
        ADMIN_NO_ASYNC,
        "7.0.0",
        "start-slot end-slot [start-slot end-slot ...]",
        SAME,
    ),
    sub(
        "failover",
        "cluster|failover",
        -2,
        ADMIN_NO_ASYNC,
        "3.0.0",
        "[FORCE | TAKEOVER]",
        SAME,
    ),
    sub(
        "flushslots",
        "cluster|flushslots",
        2,
        ADMIN_NO_ASYNC,
        "3.0.0",
        "",
        SAME,
    ),
    sub(
        "forget",
        "cluster|forget",
        3,
        ADMIN_NO_ASYNC,
        "3.0.0",
        "node-id",
        SAME,
    ),
    sub(
        "getkeysinslot",
        "cluster|getkeysinslot",
        4,
        STALE,
        "3.0.0",
        "slot count",
        CHANGING,
    ),
    sub("help", "cluster|help", 2, LOADING, "5.0.0", "", SAME),
    sub("info", "cluster|info", 2, STALE, "3.0.0", "", CHANGING),
    sub("keyslot", "cluster|keyslot", 3, STALE, "3.0.0", "key", SAME),
    sub("links", "cluster|links", 2, STALE, "7.0.0", "", CHANGING),
    sub(
        "meet",
        "cluster|meet",
        -4,
        ADMIN_NO_ASYNC,
        "3.0.0",
        "ip port [cluster-bus-port]",
        SAME,
    ),
    sub("myid", "cluster|myid", 2, STALE, "3.0.0", "", SAME),
    sub("myshardid", "cluster|myshardid", 2, STALE, "7.2.0", "", CHANGING),
    sub("nodes", "cluster|nodes", 2, STALE, "3.0.0", "", CHANGING),
    sub(
        "replicas",
        "cluster|replicas",
        3,
        ADMIN_STALE,
        "5.0.0",
        "node-id",
        CHANGING,
    ),
    sub(
        "replicate",
        "cluster|replicate",
        3,
        ADMIN_NO_ASYNC,
        "3.0.0",
        "node-id",
        SAME,
    ),
    sub(
        "reset",
        "cluster|reset",
        -2,
        ADMIN_STALE.with(Flags::NOSCRIPT),
        "3.0.0",
        "[HARD | SOFT]",
        SAME,
    ),
    sub(
        "saveconfig",
        "cluster|saveconfig",
        2,
        ADMIN_NO_ASYNC,
        "3.0.0",
        "",
        SAME,
    ),
    sub(
        "set-config-epoch",
        "cluster|set-config-epoch",
        3,
        ADMIN_NO_ASYNC,
        "3.0.0",
        "config-epoch",
        SAME,
    ),
    sub(
        "setslot",
        "cluster|setslot",
        -4,
        ADMIN_NO_ASYNC,
        "3.0.0",
        "slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>",
        SAME,
    ),
    sub("shards", "cluster|shards", 2, LOADING, "7.0.0", "", CHANGING),
    sub(
        "slaves",
        "cluster|slaves",
        3,
        ADMIN_STALE,
        "3.0.0",
        "node-id",
        CHANGING,
    ),
    sub("slots", "cluster|slots", 2, LOADING, "3.0.0", "", CHANGING),
];

/// One subcommand. They share an id, as none has a meaning of its own here.
const fn sub(
    name: &'static str,
    full_name: &'static str,
    arity: i16,
    flags: Flags,
    since: &'static str,
    syntax: &'static str,
    tips: &'static [&'static str],
) -> SubcommandSpec {
    SubcommandSpec {
        id: SubcommandId::Cluster,
        name,
        full_name,
        arity,
        flags,
        keys: KeySpec::NONE,
        categories: if flags.contains(Flags::ADMIN) {
            Categories::ADMIN
                .with(Categories::SLOW)
                .with(Categories::DANGEROUS)
        } else {
            Categories::SLOW
        },
        summary: "Is an error: this server is no member of a cluster.",
        since,
        complexity: "O(1)",
        syntax,
        tips,
    }
}
