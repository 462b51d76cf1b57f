//! Commands on keys of any type.

use super::{BASE, access};
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec, SubcommandId, SubcommandSpec};

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

pub(super) const KEYS: CommandSpec = CommandSpec {
    id: CommandId::Keys,
    name: "keys",
    arity: 2,
    flags: Flags::READONLY,
    categories: READ.with(Categories::SLOW).with(Categories::DANGEROUS),
    summary: "Returns all keys that match a pattern; everybody waits meanwhile, SCAN does it piece by piece.",
    group: "generic",
    complexity: "O(N) in the number of keys of the database.",
    syntax: "pattern",
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    ..BASE
};

pub(super) const OBJECT: CommandSpec = CommandSpec {
    id: CommandId::Object,
    name: "object",
    arity: -2,
    categories: Categories::SLOW,
    summary: "A container for questions about how a value is held.",
    since: "2.2.3",
    group: "generic",
    complexity: "Depends on the subcommand.",
    subcommand_at: 1,
    subcommands: &[
        OBJECT_ENCODING,
        OBJECT_FREQ,
        OBJECT_HELP,
        OBJECT_IDLETIME,
        OBJECT_REFCOUNT,
    ],
    ..BASE
};

/// What the subcommands of OBJECT have in common.
const OBJECT_BASE: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ObjectEncoding,
    name: "encoding",
    full_name: "object|encoding",
    arity: 3,
    flags: Flags::READONLY,
    keys: KeySpec {
        first: 2,
        last: 2,
        step: 1,
        access: access::LOOK,
    },
    categories: READ.with(Categories::SLOW),
    summary: "Returns how Redis would hold the value: int, embstr or raw, listpack or hashtable.",
    since: "2.2.3",
    complexity: "O(1)",
    syntax: "key",
    tips: &["nondeterministic_output"],
};

const OBJECT_ENCODING: SubcommandSpec = OBJECT_BASE;

const OBJECT_FREQ: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ObjectFreq,
    name: "freq",
    full_name: "object|freq",
    summary: "Is an error: the frequency of accesses is not kept.",
    since: "4.0.0",
    ..OBJECT_BASE
};

const OBJECT_HELP: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ObjectHelp,
    name: "help",
    full_name: "object|help",
    arity: 2,
    flags: Flags::LOADING.with(Flags::STALE),
    keys: KeySpec::NONE,
    categories: Categories::KEYSPACE.with(Categories::SLOW),
    summary: "Lists the subcommands of OBJECT.",
    since: "6.2.0",
    syntax: "",
    tips: &[],
    ..OBJECT_BASE
};

const OBJECT_IDLETIME: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ObjectIdletime,
    name: "idletime",
    full_name: "object|idletime",
    summary: "Returns the seconds since the last access, when an LRU policy has them kept; an error otherwise.",
    ..OBJECT_BASE
};

const OBJECT_REFCOUNT: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::ObjectRefcount,
    name: "refcount",
    full_name: "object|refcount",
    summary: "Returns 1: no two keys share a value.",
    ..OBJECT_BASE
};

pub(super) const EXPIREAT: CommandSpec = CommandSpec {
    id: CommandId::Expireat,
    name: "expireat",
    arity: -3,
    summary: "Sets the Unix time in seconds at which a key ends.",
    since: "1.2.0",
    syntax: "key unix-time-seconds [NX | XX | GT | LT]",
    ..DEADLINE
};

pub(super) const EXPIRETIME: CommandSpec = CommandSpec {
    id: CommandId::Expiretime,
    name: "expiretime",
    keys: KeySpec::one(access::READ),
    summary: "Returns the Unix time in seconds at which a key ends: -1 for never, -2 without a key.",
    since: "7.0.0",
    ..QUESTION
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

pub(super) const PEXPIREAT: CommandSpec = CommandSpec {
    id: CommandId::Pexpireat,
    name: "pexpireat",
    arity: -3,
    summary: "Sets the Unix time in milliseconds at which a key ends.",
    since: "2.6.0",
    syntax: "key unix-time-milliseconds [NX | XX | GT | LT]",
    ..DEADLINE
};

pub(super) const PEXPIRETIME: CommandSpec = CommandSpec {
    id: CommandId::Pexpiretime,
    name: "pexpiretime",
    keys: KeySpec::one(access::READ),
    summary: "Returns the Unix time in milliseconds at which a key ends: -1 for never, -2 without a key.",
    since: "7.0.0",
    ..QUESTION
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

pub(super) const RANDOMKEY: CommandSpec = CommandSpec {
    id: CommandId::Randomkey,
    name: "randomkey",
    arity: 1,
    flags: Flags::READONLY,
    categories: READ.with(Categories::SLOW),
    summary: "Returns a key of the database, chosen at random.",
    group: "generic",
    tips: &[
        "request_policy:all_shards",
        "response_policy:special",
        "nondeterministic_output",
    ],
    ..BASE
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

pub(super) const TOUCH: CommandSpec = CommandSpec {
    id: CommandId::Touch,
    name: "touch",
    summary: "Returns how many of the keys exist, and counts as an access to each.",
    since: "3.2.1",
    ..EXISTS
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

/// As `DEL`: the memory of large values always goes back in small steps.
pub(super) const UNLINK: CommandSpec = CommandSpec {
    id: CommandId::Unlink,
    name: "unlink",
    flags: Flags::WRITE.with(Flags::FAST),
    categories: WRITE.with(Categories::FAST),
    since: "4.0.0",
    complexity: "O(N) in the number of keys.",
    ..DEL
};
