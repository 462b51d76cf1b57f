//! Commands on strings.

use super::{BASE, access};
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec};

const READ_FAST: Categories = Categories::READ.with(Categories::STRING).with(Categories::FAST);

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
