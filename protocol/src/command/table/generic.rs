//! Commands on keys of any type.

use super::{BASE, access};
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec};

const READ: Categories = Categories::KEYSPACE.with(Categories::READ);
const WRITE: Categories = Categories::KEYSPACE.with(Categories::WRITE);

const SUM_OVER_SHARDS: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

/// A single-key question about a key.
const QUESTION: CommandSpec = CommandSpec {
    arity: 2,
    flags: Flags::READONLY.with(Flags::FAST),
    categories: READ.with(Categories::FAST),
    group: "generic",
    syntax: "key",
    joins_group: true,
    ..BASE
};

/// A single-key change of a deadline.
const DEADLINE: CommandSpec = CommandSpec {
    flags: Flags::WRITE.with(Flags::FAST),
    keys: KeySpec::one(access::UPDATE),
    categories: WRITE.with(Categories::FAST),
    group: "generic",
    joins_group: true,
    ..BASE
};

pub(super) const DEL: CommandSpec = CommandSpec {
    id: CommandId::Del,
    name: "del",
    arity: -2,
    flags: Flags::WRITE,
    keys: KeySpec::all(access::REMOVE),
    categories: WRITE.with(Categories::SLOW),
    summary: "Deletes keys and returns how many there were.",
    group: "generic",
    complexity: "O(N) in the number of keys, and of fields in hashes among them.",
    syntax: "key [key ...]",
    tips: SUM_OVER_SHARDS,
    ..BASE
};

pub(super) const EXISTS: CommandSpec = CommandSpec {
    id: CommandId::Exists,
    name: "exists",
    arity: -2,
    flags: Flags::READONLY.with(Flags::FAST),
    keys: KeySpec::all(access::LOOK),
    categories: READ.with(Categories::FAST),
    summary: "Returns how many of the keys exist; a key named twice counts twice.",
    group: "generic",
    complexity: "O(N) in the number of keys.",
    syntax: "key [key ...]",
    tips: SUM_OVER_SHARDS,
    ..BASE
};

pub(super) const EXPIRE: CommandSpec = CommandSpec {
    id: CommandId::Expire,
    name: "expire",
    arity: -3,
    summary: "Sets the time to live of a key in seconds.",
    syntax: "key seconds [NX | XX | GT | LT]",
    ..DEADLINE
};

pub(super) const PERSIST: CommandSpec = CommandSpec {
    id: CommandId::Persist,
    name: "persist",
    arity: 2,
    summary: "Takes away the time to live of a key: it stays until it is deleted.",
    since: "2.2.0",
    syntax: "key",
    ..DEADLINE
};

pub(super) const PEXPIRE: CommandSpec = CommandSpec {
    id: CommandId::Pexpire,
    name: "pexpire",
    arity: -3,
    summary: "Sets the time to live of a key in milliseconds.",
    since: "2.6.0",
    syntax: "key milliseconds [NX | XX | GT | LT]",
    ..DEADLINE
};

pub(super) const PTTL: CommandSpec = CommandSpec {
    id: CommandId::Pttl,
    name: "pttl",
    keys: KeySpec::one(access::READ),
    summary: "Returns the time to live of a key in milliseconds: -1 without one, -2 without a key.",
    since: "2.6.0",
    tips: &["nondeterministic_output"],
    ..QUESTION
};

pub(super) const SCAN: CommandSpec = CommandSpec {
    id: CommandId::Scan,
    name: "scan",
    arity: -2,
    flags: Flags::READONLY,
    categories: READ.with(Categories::SLOW),
    summary: "Returns the keys of the database piece by piece.",
    since: "2.8.0",
    group: "generic",
    complexity: "O(1) for a call, O(N) in the number of keys for all calls until the cursor is 0 again.",
    syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
    tips: &[
        "nondeterministic_output",
        "request_policy:special",
        "response_policy:special",
    ],
    ..BASE
};

pub(super) const TTL: CommandSpec = CommandSpec {
    id: CommandId::Ttl,
    name: "ttl",
    keys: KeySpec::one(access::READ),
    summary: "Returns the time to live of a key in seconds: -1 without one, -2 without a key.",
    tips: &["nondeterministic_output"],
    ..QUESTION
};

pub(super) const TYPE: CommandSpec = CommandSpec {
    id: CommandId::Type,
    name: "type",
    keys: KeySpec::one(access::LOOK),
    summary: "Returns the type of what a key holds: string, hash, or none.",
    ..QUESTION
};
