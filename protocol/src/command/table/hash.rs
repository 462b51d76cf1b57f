//! Commands on hashes.

use super::{BASE, access};
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec};

const READ: Categories = Categories::READ.with(Categories::HASH);
const WRITE: Categories = Categories::WRITE.with(Categories::HASH);

/// A single-key question whose answer is small.
const QUESTION: CommandSpec = CommandSpec {
    flags: Flags::READONLY.with(Flags::FAST),
    categories: READ.with(Categories::FAST),
    since: "2.0.0",
    group: "hash",
    joins_group: true,
    ..BASE
};

/// A change of a bounded number of fields of one hash.
const CHANGE: CommandSpec = CommandSpec {
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    categories: WRITE.with(Categories::FAST),
    since: "2.0.0",
    group: "hash",
    joins_group: true,
    ..BASE
};

// The replies of the whole hash, or of a part of it whose size others chose, have no bound but the hash's own: they do not
// join.
const WHOLE: CommandSpec = CommandSpec {
    arity: 2,
    flags: Flags::READONLY,
    keys: KeySpec::one(access::READ),
    categories: READ.with(Categories::SLOW),
    since: "2.0.0",
    group: "hash",
    complexity: "O(N) in the size of the hash.",
    syntax: "key",
    tips: &["nondeterministic_output_order"],
    ..BASE
};

pub(super) const HDEL: CommandSpec = CommandSpec {
    id: CommandId::Hdel,
    name: "hdel",
    arity: -3,
    // Frees memory: never refused for the lack of it.
    flags: Flags::WRITE.with(Flags::FAST),
    keys: KeySpec::one(access::DELETE),
    summary: "Deletes fields of a hash, and the key with the last of them.",
    complexity: "O(N) in the number of fields named.",
    syntax: "key field [field ...]",
    ..CHANGE
};

pub(super) const HEXISTS: CommandSpec = CommandSpec {
    id: CommandId::Hexists,
    name: "hexists",
    arity: 3,
    keys: KeySpec::one(access::LOOK),
    summary: "Returns whether a hash has a field.",
    syntax: "key field",
    ..QUESTION
};

pub(super) const HGET: CommandSpec = CommandSpec {
    id: CommandId::Hget,
    name: "hget",
    arity: 3,
    keys: KeySpec::one(access::READ),
    summary: "Returns the value of a field of a hash.",
    syntax: "key field",
    ..QUESTION
};

pub(super) const HGETALL: CommandSpec = CommandSpec {
    id: CommandId::Hgetall,
    name: "hgetall",
    summary: "Returns all fields and values of a hash.",
    ..WHOLE
};

pub(super) const HINCRBY: CommandSpec = CommandSpec {
    id: CommandId::Hincrby,
    name: "hincrby",
    arity: 4,
    keys: KeySpec::one(access::READ_UPDATE),
    summary: "Adds to the integer that a field of a hash holds; a field that is missing holds 0.",
    syntax: "key field increment",
    ..CHANGE
};

pub(super) const HKEYS: CommandSpec = CommandSpec {
    id: CommandId::Hkeys,
    name: "hkeys",
    summary: "Returns all fields of a hash.",
    ..WHOLE
};

pub(super) const HLEN: CommandSpec = CommandSpec {
    id: CommandId::Hlen,
    name: "hlen",
    arity: 2,
    keys: KeySpec::one(access::LOOK),
    summary: "Returns the number of fields of a hash.",
    syntax: "key",
    ..QUESTION
};

pub(super) const HMGET: CommandSpec = CommandSpec {
    id: CommandId::Hmget,
    name: "hmget",
    arity: -3,
    keys: KeySpec::one(access::READ),
    summary: "Returns the values of the fields named, null for each that is missing.",
    complexity: "O(N) in the number of fields named.",
    syntax: "key field [field ...]",
    ..QUESTION
};

pub(super) const HMSET: CommandSpec = CommandSpec {
    id: CommandId::Hmset,
    name: "hmset",
    arity: -4,
    keys: KeySpec::one(access::UPDATE),
    summary: "Sets fields of a hash; HSET does the same and returns how many are new.",
    complexity: "O(N) in the number of fields named.",
    syntax: "key field value [field value ...]",
    ..CHANGE
};

pub(super) const HSCAN: CommandSpec = CommandSpec {
    id: CommandId::Hscan,
    name: "hscan",
    arity: -3,
    summary: "Returns the fields and values of a hash piece by piece.",
    since: "2.8.0",
    complexity: "O(1) for a call, O(N) in the number of fields for all calls until the cursor is 0 again.",
    syntax: "key cursor [MATCH pattern] [COUNT count]",
    tips: &["nondeterministic_output"],
    ..WHOLE
};

pub(super) const HSET: CommandSpec = CommandSpec {
    id: CommandId::Hset,
    name: "hset",
    arity: -4,
    keys: KeySpec::one(access::UPDATE),
    summary: "Sets fields of a hash and returns how many are new.",
    complexity: "O(N) in the number of fields named.",
    syntax: "key field value [field value ...]",
    ..CHANGE
};

pub(super) const HSETNX: CommandSpec = CommandSpec {
    id: CommandId::Hsetnx,
    name: "hsetnx",
    arity: 4,
    keys: KeySpec::one(access::INSERT),
    summary: "Sets a field of a hash when it is missing, and returns whether it was.",
    syntax: "key field value",
    ..CHANGE
};

pub(super) const HSTRLEN: CommandSpec = CommandSpec {
    id: CommandId::Hstrlen,
    name: "hstrlen",
    arity: 3,
    keys: KeySpec::one(access::LOOK),
    summary: "Returns the length of the value of a field, in bytes.",
    since: "3.2.0",
    syntax: "key field",
    ..QUESTION
};

pub(super) const HVALS: CommandSpec = CommandSpec {
    id: CommandId::Hvals,
    name: "hvals",
    summary: "Returns all values of a hash.",
    ..WHOLE
};
