//! Commands of publish and subscribe. Channels are no keys: they have no slot, no type and no deadline.
//!
//! Sharded channels (`SSUBSCRIBE`, `SPUBLISH`) are not here: they belong to a cluster, and there is none.

use super::BASE;
use crate::command::flags::{Categories, Flags};
use crate::command::spec::{CommandId, CommandSpec, KeySpec, SubcommandId, SubcommandSpec};

const LISTENS: Flags = Flags::PUBSUB
    .with(Flags::NOSCRIPT)
    .with(Flags::LOADING)
    .with(Flags::STALE);
const ASKS: Flags = Flags::PUBSUB.with(Flags::LOADING).with(Flags::STALE);
const SLOW: Categories = Categories::PUBSUB.with(Categories::SLOW);

pub(super) const PSUBSCRIBE: CommandSpec = CommandSpec {
    id: CommandId::Psubscribe,
    name: "psubscribe",
    arity: -2,
    flags: LISTENS,
    categories: SLOW,
    summary: "Subscribes the connection to all channels whose names match a pattern.",
    since: "2.0.0",
    group: "pubsub",
    complexity: "O(N) in the number of patterns given.",
    syntax: "pattern [pattern ...]",
    ..BASE
};

pub(super) const PUBLISH: CommandSpec = CommandSpec {
    id: CommandId::Publish,
    name: "publish",
    arity: 3,
    flags: ASKS.with(Flags::FAST),
    categories: Categories::PUBSUB.with(Categories::FAST),
    summary: "Sends a message to the subscribers of a channel and returns how many get it.",
    since: "2.0.0",
    group: "pubsub",
    complexity: "O(N+M): N subscribers get it, M different patterns are subscribed to.",
    syntax: "channel message",
    ..BASE
};

pub(super) const PUBSUB: CommandSpec = CommandSpec {
    id: CommandId::Pubsub,
    name: "pubsub",
    arity: -2,
    categories: Categories::SLOW,
    summary: "A container for questions about subscriptions.",
    since: "2.8.0",
    group: "pubsub",
    complexity: "Depends on the subcommand.",
    subcommand_at: 1,
    subcommands: &[PUBSUB_CHANNELS, PUBSUB_HELP, PUBSUB_NUMPAT, PUBSUB_NUMSUB],
    ..BASE
};

/// What the subcommands of PUBSUB have in common.
const PUBSUB_BASE: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::PubsubHelp,
    name: "help",
    full_name: "pubsub|help",
    arity: 2,
    flags: ASKS,
    keys: KeySpec::NONE,
    categories: SLOW,
    summary: "Lists the subcommands of PUBSUB.",
    since: "6.2.0",
    complexity: "O(1)",
    syntax: "",
    tips: &[],
};

const PUBSUB_CHANNELS: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::PubsubChannels,
    name: "channels",
    full_name: "pubsub|channels",
    arity: -2,
    summary: "Returns the channels that somebody is subscribed to by name, or those that match.",
    since: "2.8.0",
    complexity: "O(N) in the number of such channels.",
    syntax: "[pattern]",
    ..PUBSUB_BASE
};

const PUBSUB_HELP: SubcommandSpec = SubcommandSpec {
    flags: Flags::LOADING.with(Flags::STALE),
    categories: Categories::SLOW,
    ..PUBSUB_BASE
};

const PUBSUB_NUMPAT: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::PubsubNumpat,
    name: "numpat",
    full_name: "pubsub|numpat",
    summary: "Returns how many different patterns are subscribed to.",
    since: "2.8.0",
    ..PUBSUB_BASE
};

const PUBSUB_NUMSUB: SubcommandSpec = SubcommandSpec {
    id: SubcommandId::PubsubNumsub,
    name: "numsub",
    full_name: "pubsub|numsub",
    arity: -2,
    summary: "Returns the channels given, each with the number of those subscribed to it by name.",
    since: "2.8.0",
    complexity: "O(N) in the number of channels given.",
    syntax: "[channel [channel ...]]",
    ..PUBSUB_BASE
};

pub(super) const PUNSUBSCRIBE: CommandSpec = CommandSpec {
    id: CommandId::Punsubscribe,
    name: "punsubscribe",
    arity: -1,
    flags: LISTENS,
    categories: SLOW,
    summary: "Ends the connection's subscriptions to the patterns, or to all its patterns.",
    since: "2.0.0",
    group: "pubsub",
    complexity: "O(N) in the number of patterns given or subscribed to.",
    syntax: "[pattern [pattern ...]]",
    ..BASE
};

pub(super) const SUBSCRIBE: CommandSpec = CommandSpec {
    id: CommandId::Subscribe,
    name: "subscribe",
    arity: -2,
    flags: LISTENS,
    categories: SLOW,
    summary: "Subscribes the connection to channels.",
    since: "2.0.0",
    group: "pubsub",
    complexity: "O(N) in the number of channels given.",
    syntax: "channel [channel ...]",
    ..BASE
};

pub(super) const UNSUBSCRIBE: CommandSpec = CommandSpec {
    id: CommandId::Unsubscribe,
    name: "unsubscribe",
    arity: -1,
    flags: LISTENS,
    categories: SLOW,
    summary: "Ends the connection's subscriptions to the channels, or to all its channels.",
    since: "2.0.0",
    group: "pubsub",
    complexity: "O(N) in the number of channels given or subscribed to.",
    syntax: "[channel [channel ...]]",
    ..BASE
};
