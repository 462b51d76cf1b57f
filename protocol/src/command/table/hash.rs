//! Commands on hashes.

use super::{BASE, access};
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec};

const READ: Categories = Categories::READ.with(Categories::HASH);
const WRITE: Categories = Categories::WRITE.with(Categories::HASH);

pub(super) const HDEL: CommandSpec = CommandSpec {
    id: CommandId::Hdel,
    name: "hdel",
    arity: -3,
    flags: Flags::WRITE.with(Flags::FAST),
    keys: KeySpec::one(access::DELETE),
    categories: WRITE.with(Categories::FAST),
    summary: "Deletes fields of a hash, and the key with the last of them.",
    since: "2.0.0",
    group: "hash",
    complexity: "O(N) in the number of fields named.",
    syntax: "key field [field ...]",
    joins_group: true,
    ..BASE
};

pub(super) const HGET: CommandSpec = CommandSpec {
    id: CommandId::Hget,
    name: "hget",
    arity: 3,
    flags: Flags::READONLY.with(Flags::FAST),
    keys: KeySpec::one(access::READ),
    categories: READ.with(Categories::FAST),
    summary: "Returns the value of a field of a hash.",
    since: "2.0.0",
    group: "hash",
    syntax: "key field",
    joins_group: true,
    ..BASE
};

// The reply has no bound but the hash's own size: it does not join.
pub(super) const HGETALL: CommandSpec = CommandSpec {
    id: CommandId::Hgetall,
    name: "hgetall",
    arity: 2,
    flags: Flags::READONLY,
    keys: KeySpec::one(access::READ),
    categories: READ.with(Categories::SLOW),
    summary: "Returns all fields and values of a hash.",
    since: "2.0.0",
    group: "hash",
    complexity: "O(N) in the size of the hash.",
    syntax: "key",
    tips: &["nondeterministic_output_order"],
    ..BASE
};

pub(super) const HSET: CommandSpec = CommandSpec {
    id: CommandId::Hset,
    name: "hset",
    arity: -4,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    keys: KeySpec::one(access::UPDATE),
    categories: WRITE.with(Categories::FAST),
    summary: "Sets fields of a hash and returns how many are new.",
    since: "2.0.0",
    group: "hash",
    complexity: "O(N) in the number of fields named.",
    syntax: "key field value [field value ...]",
    joins_group: true,
    ..BASE
};
