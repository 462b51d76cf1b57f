//! The rows, one file a group, and the index over their names.
//!
//! Arity, flags, keys and categories are those of Redis 7.2, since clients and ACL files depend on them.

mod client;
mod cluster;
mod connection;
mod generic;
mod hash;
mod idem;
mod monitoring;
mod pubsub;
mod scripting;
mod server;
mod string;
mod transactions;

use super::flags::{Categories, Flags};
use super::spec::{CommandId, CommandSpec, KeySpec};

/// Every row, in the order of [`CommandId`].
pub(super) static TABLE: [CommandSpec; COUNT] = [
    idem::IDEM,
    idem::LIMIT,
    idem::ONCE,
    string::APPEND,
    string::DECR,
    string::DECRBY,
    string::GET,
    string::GETDEL,
    string::GETEX,
    string::GETSET,
    string::INCR,
    string::INCRBY,
    string::MGET,
    string::MSET,
    string::MSETNX,
    string::PSETEX,
    string::SET,
    string::SETEX,
    string::SETNX,
    string::STRLEN,
    generic::DEL,
    generic::EXISTS,
    generic::EXPIRE,
    generic::EXPIREAT,
    generic::EXPIRETIME,
    generic::KEYS,
    generic::OBJECT,
    generic::PERSIST,
    generic::PEXPIRE,
    generic::PEXPIREAT,
    generic::PEXPIRETIME,
    generic::PTTL,
    generic::RANDOMKEY,
    generic::SCAN,
    generic::TOUCH,
    generic::TTL,
    generic::TYPE,
    generic::UNLINK,
    hash::HDEL,
    hash::HEXISTS,
    hash::HGET,
    hash::HGETALL,
    hash::HINCRBY,
    hash::HKEYS,
    hash::HLEN,
    hash::HMGET,
    hash::HMSET,
    hash::HSCAN,
    hash::HSET,
    hash::HSETNX,
    hash::HSTRLEN,
    hash::HVALS,
    connection::AUTH,
    client::CLIENT,
    connection::ECHO,
    connection::HELLO,
    connection::PING,
    connection::QUIT,
    connection::RESET,
    connection::SELECT,
    cluster::ASKING,
    cluster::CLUSTER,
    cluster::READONLY,
    cluster::READWRITE,
    scripting::SCRIPT,
    pubsub::PSUBSCRIBE,
    pubsub::PUBLISH,
    pubsub::PUBSUB,
    pubsub::PUNSUBSCRIBE,
    pubsub::SUBSCRIBE,
    pubsub::UNSUBSCRIBE,
    server::BGSAVE,
    server::COMMAND,
    server::CONFIG,
    server::DBSIZE,
    server::DEBUG,
    server::FLUSHALL,
    server::FLUSHDB,
    server::INFO,
    server::LASTSAVE,
    monitoring::LATENCY,
    server::ROLE,
    server::SAVE,
    monitoring::SLOWLOG,
    server::TIME,
    transactions::DISCARD,
    transactions::EXEC,
    transactions::MULTI,
    transactions::UNWATCH,
    transactions::WATCH,
];

const COUNT: usize = CommandId::Watch as usize + 1;

/// What most rows have in common.
///
/// `joins_group` says whether a standalone call of the command may run while a commit group is open, its records and its
/// reply joining that group; every other command closes the group first. It is reviewed row by row and derived from
/// nothing. Least of all from the write flag: writing is neither needed (a `GET` that closed the group would cost every
/// writer beside it a sync of its own) nor enough (`FLUSHALL` changes all keys at once, `DEL` and `EXISTS` take any number
/// of keys, and a command with an unbounded reply or change would hold up everything that waits in the group). A row
/// earns `true` by being hot, touching exactly one key, and doing bounded work beside the bytes it was sent or sends back.
const BASE: CommandSpec = CommandSpec {
    id: CommandId::Ping,
    name: "",
    arity: 0,
    flags: Flags::NONE,
    keys: KeySpec::NONE,
    categories: Categories::NONE,
    summary: "",
    since: "1.0.0",
    group: "",
    complexity: "O(1)",
    syntax: "",
    tips: &[],
    joins_group: false,
    subcommand_at: 0,
    subcommands: &[],
};

/// What a command does with its keys, as `COMMAND` words it.
mod access {
    pub(super) const READ: &[&str] = &["RO", "access"];
    pub(super) const LOOK: &[&str] = &["RO"];
    pub(super) const UPDATE: &[&str] = &["RW", "update"];
    pub(super) const READ_UPDATE: &[&str] = &["RW", "access", "update"];
    pub(super) const READ_DELETE: &[&str] = &["RW", "access", "delete"];
    pub(super) const INSERT: &[&str] = &["RW", "insert"];
    pub(super) const OVERWRITE: &[&str] = &["OW", "update"];
    pub(super) const OVERWRITE_INSERT: &[&str] = &["OW", "insert"];
    pub(super) const DELETE: &[&str] = &["RW", "delete"];
    pub(super) const REMOVE: &[&str] = &["RM", "delete"];
}

/// Four slots a row keep the probes short; a power of two makes the remainder a mask.
const SLOTS: usize = (COUNT * 4).next_power_of_two();
const EMPTY: u8 = u8::MAX;

/// Slots of row numbers, filled by linear probing.
static INDEX: [u8; SLOTS] = index();

const fn index() -> [u8; SLOTS] {
    assert!(
        COUNT < EMPTY as usize,
        "row numbers are bytes, and one is taken for empty"
    );
    let mut slots = [EMPTY; SLOTS];
    let mut row = 0;
    while row < COUNT {
        assert!(
            TABLE[row].id as usize == row,
            "the order of the rows is the order of CommandId"
        );
        let mut slot = slot_of(TABLE[row].name.as_bytes());
        while slots[slot] != EMPTY {
            slot = (slot + 1) % SLOTS;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below EMPTY, asserted above; TryFrom is not const"
        )]
        {
            slots[slot] = row as u8;
        }
        row += 1;
    }
    slots
}

/// Equal for names that differ in case only: letters lose the bit of their case, and other bytes may collide.
const fn slot_of(name: &[u8]) -> usize {
    if name.is_empty() {
        return 0;
    }
    let first = name[0] as usize & 0x1f;
    let middle = name[name.len() / 2] as usize & 0x1f;
    let last = name[name.len() - 1] as usize & 0x1f;
    (name.len() + first * 7 + middle * 29 + last * 83) % SLOTS
}

pub(super) fn lookup(name: &[u8]) -> Option<&'static CommandSpec> {
    let mut slot = slot_of(name);
    // Ends: three slots of four are empty.
    while let Some(spec) = TABLE.get(usize::from(INDEX[slot])) {
        if spec.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(spec);
        }
        slot = (slot + 1) % SLOTS;
    }
    None
}
