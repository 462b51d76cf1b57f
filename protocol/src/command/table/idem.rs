//! The commands that this server is for.

use super::BASE;
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec, SubcommandId, SubcommandSpec};

/// Its actions stand at argument 2; the module's page of `command` says why, and what follows from it.
pub(super) const IDEM: CommandSpec = CommandSpec {
    id: CommandId::Idem,
    name: "idem",
    arity: -3,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: KeySpec::one(&["RW", "access", "update"]),
    // Neither @fast nor @slow: a rule about speed should not take the server's purpose away.
    categories: Categories::WRITE,
    summary: "Runs an operation at most once: begins, completes, aborts or inspects its record.",
    since: "0.1.0",
    group: "idempotency",
    complexity: "O(1), apart from copying a stored result.",
    syntax: "key <BEGIN fingerprint owner ttl-ms | COMPLETE fingerprint owner result | ABORT fingerprint owner | INSPECT>",
    joins_group: true,
    subcommand_at: 2,
    subcommands: &[ABORT, BEGIN, COMPLETE, INSPECT],
    ..BASE
};

const BEGIN: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::IdemBegin,
    name: "begin",
    full_name: "idem|begin",
    arity: 6,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: KeySpec::NONE,
    categories: Categories::WRITE,
    summary: "Acquires the key for one attempt, or answers what another attempt did with it.",
    since: "0.1.0",
    complexity: "O(1), apart from copying a stored result.",
    syntax: "fingerprint owner ttl-ms",
    tips: &[],
};

const COMPLETE: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::IdemComplete,
    name: "complete",
    full_name: "idem|complete",
    arity: 6,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: KeySpec::NONE,
    categories: Categories::WRITE,
    summary: "Stores the result of the attempt that holds the key, until the deadline that BEGIN set.",
    since: "0.1.0",
    complexity: "O(1), apart from copying the result.",
    syntax: "fingerprint owner result",
    tips: &[],
};

const ABORT: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::IdemAbort,
    name: "abort",
    full_name: "idem|abort",
    arity: 5,
    // Frees memory: never refused for the lack of it.
    flags: Flags::WRITE,
    keys: KeySpec::NONE,
    categories: Categories::WRITE,
    summary: "Gives the key back without a result, so that another attempt can acquire it.",
    since: "0.1.0",
    complexity: "O(1)",
    syntax: "fingerprint owner",
    tips: &[],
};

const INSPECT: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::IdemInspect,
    name: "inspect",
    full_name: "idem|inspect",
    arity: 3,
    flags: Flags::READONLY,
    keys: KeySpec::NONE,
    // Also for whoever may only read; whoever may write keeps it too.
    categories: Categories::READ.with(Categories::WRITE),
    summary: "Shows the key's record without changing it: state, fingerprint, owner, deadline, size of the result.",
    since: "0.1.0",
    complexity: "O(1)",
    syntax: "",
    tips: &["nondeterministic_output"],
};

/// Joins the group for the reasons for which IDEM does: one key, and a record of a few bytes beside it.
pub(super) const LIMIT: CommandSpec = CommandSpec {
    id: CommandId::Limit,
    name: "limit",
    arity: -4,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    keys: KeySpec::one(&["RW", "access", "update"]),
    categories: Categories::WRITE.with(Categories::FAST),
    summary: "Counts a call if it fits a limit: in a fixed or sliding window, or from a bucket of tokens.",
    since: "0.1.0",
    group: "idempotency",
    syntax: "key max window-ms [SLIDING | TOKENS | TOKENS COST cost] [WITHRETRY]",
    joins_group: true,
    ..BASE
};

/// As LIMIT.
pub(super) const ONCE: CommandSpec = CommandSpec {
    id: CommandId::Once,
    name: "once",
    arity: 3,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    keys: KeySpec::one(&["RW", "access", "update"]),
    categories: Categories::WRITE.with(Categories::FAST),
    summary: "Says to the first caller, and to no other until the time is over, that it is the first.",
    since: "0.1.0",
    group: "idempotency",
    syntax: "key ttl-ms",
    joins_group: true,
    ..BASE
};
