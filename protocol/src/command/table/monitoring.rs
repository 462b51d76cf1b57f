//! `LATENCY` and `SLOWLOG`: which commands and syncs were slow.

use super::BASE;
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec, SubcommandId, SubcommandSpec};

const ANYTIME: Flags = Flags::LOADING.with(Flags::STALE);
const SPECIAL: &[&str] = &[
    "nondeterministic_output",
    "request_policy:all_nodes",
    "response_policy:special",
];

pub(super) const LATENCY: CommandSpec = CommandSpec {
    id: CommandId::Latency,
    name: "latency",
    arity: -2,
    categories: Categories::SLOW,
    summary: "A container for commands about slow moments of the server.",
    since: "2.8.13",
    group: "server",
    complexity: "Depends on the subcommand.",
    subcommand_at: 1,
    subcommands: &[
        LATENCY_DOCTOR,
        LATENCY_GRAPH,
        LATENCY_HELP,
        LATENCY_HISTOGRAM,
        LATENCY_HISTORY,
        LATENCY_LATEST,
        LATENCY_RESET,
    ],
    ..BASE
};

const LATENCY_HELP: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::LatencyHelp,
    name: "help",
    full_name: "latency|help",
    arity: 2,
    flags: ANYTIME,
    keys: KeySpec::NONE,
    categories: Categories::SLOW,
    summary: "Lists the subcommands of LATENCY.",
    since: "2.8.13",
    complexity: "O(1)",
    syntax: "",
    tips: &[],
};

/// What the others of LATENCY have in common.
const LATENCY_BASE: SubcommandSpec = SubcommandSpec {
    flags: ANYTIME.with(Flags::ADMIN).with(Flags::NOSCRIPT),
    categories: Categories::ADMIN
        .with(Categories::SLOW)
        .with(Categories::DANGEROUS),
    since: "2.8.13",
    ..LATENCY_HELP
};

const LATENCY_DOCTOR: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::LatencyDoctor,
    name: "doctor",
    full_name: "latency|doctor",
    summary: "Returns what is known of slow moments, in words.",
    tips: SPECIAL,
    ..LATENCY_BASE
};

const LATENCY_GRAPH: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::LatencyGraph,
    name: "graph",
    full_name: "latency|graph",
    arity: 3,
    summary: "Returns a picture of one kind of slow moments.",
    syntax: "event",
    tips: SPECIAL,
    ..LATENCY_BASE
};

const LATENCY_HISTOGRAM: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::LatencyHistogram,
    name: "histogram",
    full_name: "latency|histogram",
    arity: -2,
    summary: "Returns an empty map: times of commands that are not slow are not kept.",
    since: "7.0.0",
    syntax: "[command [command ...]]",
    tips: SPECIAL,
    ..LATENCY_BASE
};

const LATENCY_HISTORY: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::LatencyHistory,
    name: "history",
    full_name: "latency|history",
    arity: 3,
    summary: "Returns the slow moments of one kind, each with its second and its milliseconds.",
    syntax: "event",
    tips: SPECIAL,
    ..LATENCY_BASE
};

const LATENCY_LATEST: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::LatencyLatest,
    name: "latest",
    full_name: "latency|latest",
    summary: "Returns the last slow moment of each kind, and the worst.",
    tips: SPECIAL,
    ..LATENCY_BASE
};

const LATENCY_RESET: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::LatencyReset,
    name: "reset",
    full_name: "latency|reset",
    arity: -2,
    summary: "Forgets the slow moments, of the given kinds or all.",
    syntax: "[event [event ...]]",
    tips: &["request_policy:all_nodes", "response_policy:agg_sum"],
    ..LATENCY_BASE
};

pub(super) const SLOWLOG: CommandSpec = CommandSpec {
    id: CommandId::Slowlog,
    name: "slowlog",
    arity: -2,
    categories: Categories::SLOW,
    summary: "A container for commands about slow commands.",
    since: "2.2.12",
    group: "server",
    complexity: "Depends on the subcommand.",
    subcommand_at: 1,
    subcommands: &[SLOWLOG_GET, SLOWLOG_HELP, SLOWLOG_LEN, SLOWLOG_RESET],
    ..BASE
};

const SLOWLOG_HELP: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::SlowlogHelp,
    name: "help",
    full_name: "slowlog|help",
    arity: 2,
    flags: ANYTIME,
    keys: KeySpec::NONE,
    categories: Categories::SLOW,
    summary: "Lists the subcommands of SLOWLOG.",
    since: "6.2.0",
    complexity: "O(1)",
    syntax: "",
    tips: &[],
};

/// What the others of SLOWLOG have in common.
const SLOWLOG_BASE: SubcommandSpec = SubcommandSpec {
    flags: ANYTIME.with(Flags::ADMIN),
    categories: Categories::ADMIN
        .with(Categories::SLOW)
        .with(Categories::DANGEROUS),
    since: "2.2.12",
    ..SLOWLOG_HELP
};

const SLOWLOG_GET: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::SlowlogGet,
    name: "get",
    full_name: "slowlog|get",
    arity: -2,
    summary: "Returns the newest slow commands, ten if no count is given.",
    complexity: "O(N) in the number of commands returned.",
    syntax: "[count]",
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    ..SLOWLOG_BASE
};

const SLOWLOG_LEN: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::SlowlogLen,
    name: "len",
    full_name: "slowlog|len",
    summary: "Returns the number of slow commands that are kept.",
    tips: &[
        "request_policy:all_nodes",
        "response_policy:agg_sum",
        "nondeterministic_output",
    ],
    ..SLOWLOG_BASE
};

const SLOWLOG_RESET: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::SlowlogReset,
    name: "reset",
    full_name: "slowlog|reset",
    summary: "Forgets the slow commands.",
    complexity: "O(N) in the number of commands kept.",
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    ..SLOWLOG_BASE
};
