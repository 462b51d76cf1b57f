//! Commands on strings.

use super::{BASE, access};
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec};

const READ_FAST: Categories = Categories::READ.with(Categories::STRING).with(Categories::FAST);
const WRITE: Categories = Categories::WRITE.with(Categories::STRING);

/// What a change of one string in constant time has in common.
const CHANGE: CommandSpec = CommandSpec {
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    categories: WRITE.with(Categories::FAST),
    keys: KeySpec::one(access::READ_UPDATE),
    group: "string",
    joins_group: true,
    ..BASE
};

/// What storing a value together with its time to live has in common.
const STORE: CommandSpec = CommandSpec {
    flags: Flags::WRITE.with(Flags::DENYOOM),
    categories: WRITE.with(Categories::SLOW),
    keys: KeySpec::one(access::OVERWRITE),
    group: "string",
    joins_group: true,
    ..BASE
};

/// What storing several strings has in common. It takes any number of keys: it joins no group.
const STORE_SEVERAL: CommandSpec = CommandSpec {
    arity: -3,
    complexity: "O(N) in the number of keys.",
    syntax: "key value [key value ...]",
    joins_group: false,
    ..STORE
};

pub(super) const APPEND: CommandSpec = CommandSpec {
    id: CommandId::Append,
    name: "append",
    arity: 3,
    keys: KeySpec::one(access::INSERT),
    summary: "Appends to the string that a key holds and returns its length; a missing key begins empty.",
    since: "2.0.0",
    complexity: "O(N) in the length of the whole string: the log gets all of it.",
    syntax: "key value",
    // A few bytes sent can mean megabytes written.
    joins_group: false,
    ..CHANGE
};

pub(super) const DECR: CommandSpec = CommandSpec {
    id: CommandId::Decr,
    name: "decr",
    arity: 2,
    summary: "Lowers the integer that a key holds by one and returns it; a missing key counts as 0.",
    syntax: "key",
    ..CHANGE
};

pub(super) const DECRBY: CommandSpec = CommandSpec {
    id: CommandId::Decrby,
    name: "decrby",
    arity: 3,
    summary: "Lowers the integer that a key holds and returns it; a missing key counts as 0.",
    syntax: "key decrement",
    ..CHANGE
};

pub(super) const GET: CommandSpec = CommandSpec {
    id: CommandId::Get,
    name: "get",
    arity: 2,
    flags: Flags::READONLY.with(Flags::FAST),
    keys: KeySpec::one(access::READ),
    categories: READ_FAST,
    summary: "Returns the string that a key holds.",
    group: "string",
    syntax: "key",
    joins_group: true,
    ..BASE
};

pub(super) const GETDEL: CommandSpec = CommandSpec {
    id: CommandId::Getdel,
    name: "getdel",
    arity: 2,
    flags: Flags::WRITE.with(Flags::FAST),
    keys: KeySpec::one(access::READ_DELETE),
    summary: "Returns the string that a key holds and deletes the key.",
    since: "6.2.0",
    syntax: "key",
    ..CHANGE
};

pub(super) const GETEX: CommandSpec = CommandSpec {
    id: CommandId::Getex,
    name: "getex",
    arity: -2,
    flags: Flags::WRITE.with(Flags::FAST),
    summary: "Returns the string that a key holds and changes or takes away its time to live.",
    since: "6.2.0",
    syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
    ..CHANGE
};

pub(super) const GETSET: CommandSpec = CommandSpec {
    id: CommandId::Getset,
    name: "getset",
    arity: 3,
    summary: "Sets the string that a key holds and returns the one before; the time to live goes.",
    syntax: "key value",
    ..CHANGE
};

pub(super) const INCR: CommandSpec = CommandSpec {
    id: CommandId::Incr,
    name: "incr",
    arity: 2,
    summary: "Raises the integer that a key holds by one and returns it; a missing key counts as 0.",
    syntax: "key",
    ..CHANGE
};

pub(super) const INCRBY: CommandSpec = CommandSpec {
    id: CommandId::Incrby,
    name: "incrby",
    arity: 3,
    summary: "Raises the integer that a key holds and returns it; a missing key counts as 0.",
    syntax: "key increment",
    ..CHANGE
};

pub(super) const MGET: CommandSpec = CommandSpec {
    id: CommandId::Mget,
    name: "mget",
    arity: -2,
    flags: Flags::READONLY.with(Flags::FAST),
    keys: KeySpec::all(access::READ),
    categories: READ_FAST,
    summary: "Returns the strings that keys hold; null for a key that is missing or holds another type.",
    group: "string",
    complexity: "O(N) in the number of keys.",
    syntax: "key [key ...]",
    tips: &["request_policy:multi_shard"],
    ..BASE
};

pub(super) const MSET: CommandSpec = CommandSpec {
    id: CommandId::Mset,
    name: "mset",
    keys: KeySpec::pairs(access::OVERWRITE),
    summary: "Sets the strings that keys hold, all or none, whatever they held before.",
    since: "1.0.1",
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    ..STORE_SEVERAL
};

pub(super) const MSETNX: CommandSpec = CommandSpec {
    id: CommandId::Msetnx,
    name: "msetnx",
    keys: KeySpec::pairs(access::OVERWRITE_INSERT),
    summary: "Sets the strings that keys hold, if none of the keys exists.",
    since: "1.0.1",
    ..STORE_SEVERAL
};

pub(super) const PSETEX: CommandSpec = CommandSpec {
    id: CommandId::Psetex,
    name: "psetex",
    arity: 4,
    summary: "Sets the string that a key holds, and its time to live in milliseconds.",
    since: "2.6.0",
    syntax: "key milliseconds value",
    ..STORE
};

pub(super) const SET: CommandSpec = CommandSpec {
    id: CommandId::Set,
    name: "set",
    arity: -3,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    // Which of these hold depends on the option GET.
    keys: KeySpec::one(&["RW", "access", "update", "variable_flags"]),
    categories: Categories::WRITE.with(Categories::STRING).with(Categories::SLOW),
    summary: "Sets the string that a key holds, whatever it held before, and its time to live.",
    group: "string",
    syntax: "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
             PXAT unix-time-milliseconds | KEEPTTL]",
    joins_group: true,
    ..BASE
};

pub(super) const SETEX: CommandSpec = CommandSpec {
    id: CommandId::Setex,
    name: "setex",
    arity: 4,
    summary: "Sets the string that a key holds, and its time to live in seconds.",
    since: "2.0.0",
    syntax: "key seconds value",
    ..STORE
};

pub(super) const SETNX: CommandSpec = CommandSpec {
    id: CommandId::Setnx,
    name: "setnx",
    arity: 3,
    keys: KeySpec::one(access::OVERWRITE_INSERT),
    summary: "Sets the string that a key holds, if the key does not exist.",
    syntax: "key value",
    ..CHANGE
};

pub(super) const STRLEN: CommandSpec = CommandSpec {
    id: CommandId::Strlen,
    name: "strlen",
    arity: 2,
    flags: Flags::READONLY.with(Flags::FAST),
    keys: KeySpec::one(access::LOOK),
    categories: READ_FAST,
    summary: "Returns the length of the string that a key holds, in bytes.",
    since: "2.2.0",
    group: "string",
    syntax: "key",
    joins_group: true,
    ..BASE
};
