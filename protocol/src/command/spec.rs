//! The shape of a row of the command table.

use super::flags::{Categories, Flags};
use crate::resp::Args;

/// One command. The order of the variants is the order of the table, which is alphabetical within a group; it is no
/// format and may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(
    missing_docs,
    reason = "each is the command of its name; the table says what it does"
)]
pub enum CommandId {
    Idem,
    Limit,
    Once,
    Append,
    Decr,
    Decrby,
    Get,
    Getdel,
    Getex,
    Getset,
    Incr,
    Incrby,
    Mget,
    Mset,
    Msetnx,
    Psetex,
    Set,
    Setex,
    Setnx,
    Strlen,
    Del,
    Exists,
    Expire,
    Expireat,
    Expiretime,
    Keys,
    Object,
    Persist,
    Pexpire,
    Pexpireat,
    Pexpiretime,
    Pttl,
    Randomkey,
    Scan,
    Touch,
    Ttl,
    Type,
    Unlink,
    Hdel,
    Hexists,
    Hget,
    Hgetall,
    Hincrby,
    Hkeys,
    Hlen,
    Hmget,
    Hmset,
    Hscan,
    Hset,
    Hsetnx,
    Hstrlen,
    Hvals,
    Auth,
    Client,
    Echo,
    Hello,
    Ping,
    Quit,
    Reset,
    Select,
    Asking,
    Cluster,
    Readonly,
    Readwrite,
    Script,
    Psubscribe,
    Publish,
    Pubsub,
    Punsubscribe,
    Subscribe,
    Unsubscribe,
    Bgsave,
    Command,
    Config,
    Dbsize,
    Debug,
    Flushall,
    Flushdb,
    Info,
    Lastsave,
    Latency,
    Role,
    Save,
    Slowlog,
    Time,
    Discard,
    Exec,
    Multi,
    Unwatch,
    Watch,
}

/// One subcommand or action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "each is the subcommand of its name; the table says what it does"
)]
pub enum SubcommandId {
    IdemBegin,
    IdemComplete,
    IdemAbort,
    IdemInspect,
    ObjectEncoding,
    ObjectFreq,
    ObjectHelp,
    ObjectIdletime,
    ObjectRefcount,
    ClientCaching,
    ClientGetname,
    ClientGetredir,
    ClientHelp,
    ClientId,
    ClientInfo,
    ClientKill,
    ClientList,
    ClientNoEvict,
    ClientNoTouch,
    ClientPause,
    ClientReply,
    ClientSetinfo,
    ClientSetname,
    ClientTracking,
    ClientTrackinginfo,
    ClientUnblock,
    ClientUnpause,
    Cluster,
    PubsubChannels,
    PubsubHelp,
    PubsubNumpat,
    PubsubNumsub,
    CommandCount,
    CommandDocs,
    CommandGetkeys,
    CommandGetkeysandflags,
    CommandHelp,
    CommandInfo,
    CommandList,
    ConfigGet,
    ConfigHelp,
    ConfigResetstat,
    ConfigRewrite,
    ConfigSet,
    LatencyDoctor,
    LatencyGraph,
    LatencyHelp,
    LatencyHistogram,
    LatencyHistory,
    LatencyLatest,
    LatencyReset,
    ScriptHelp,
    ScriptKill,
    SlowlogGet,
    SlowlogHelp,
    SlowlogLen,
    SlowlogReset,
}

/// Where the keys of a command are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySpec {
    /// The argument with the first key (the name is argument 0); 0 when the command has none.
    pub first: u16,
    /// The argument with the last key; negative counts from the end, -1 is the last argument.
    pub last: i16,
    /// Arguments from one key to the next.
    pub step: u16,
    /// What the command does with its keys, in the words of `COMMAND`: `RO`, `RW`, `OW` or `RM`, then details.
    pub access: &'static [&'static str],
}

impl KeySpec {
    /// No keys.
    pub const NONE: KeySpec = KeySpec {
        first: 0,
        last: 0,
        step: 0,
        access: &[],
    };

    /// One key, argument 1.
    pub const fn one(access: &'static [&'static str]) -> KeySpec {
        KeySpec {
            first: 1,
            last: 1,
            step: 1,
            access,
        }
    }

    /// Keys and values in turn.
    pub const fn pairs(access: &'static [&'static str]) -> KeySpec {
        KeySpec {
            first: 1,
            last: -1,
            step: 2,
            access,
        }
    }

    /// Every argument is a key.
    pub const fn all(access: &'static [&'static str]) -> KeySpec {
        KeySpec {
            first: 1,
            last: -1,
            step: 1,
            access,
        }
    }
}

/// One row: everything that can be said of a command without knowing what it means.
#[derive(Debug)]
pub struct CommandSpec {
    /// Which command.
    pub id: CommandId,
    /// Lower case, as Redis prints names.
    pub name: &'static str,
    /// How many arguments, the name counted; a negative number is a minimum.
    pub arity: i16,
    /// See [`Flags`].
    pub flags: Flags,
    /// See [`KeySpec`].
    pub keys: KeySpec,
    /// See [`Categories`].
    pub categories: Categories,
    /// One line for people.
    pub summary: &'static str,
    /// The version that brought the command: Redis's, and for commands that Redis has not, ours.
    pub since: &'static str,
    /// The group in help texts.
    pub group: &'static str,
    /// Time in O notation.
    pub complexity: &'static str,
    /// The arguments, in the notation of [`syntax`](super::syntax).
    pub syntax: &'static str,
    /// Hints for clients and proxies, in Redis's words.
    pub tips: &'static [&'static str],
    /// Whether the command may run while a commit group is open. See the table.
    pub joins_group: bool,
    /// The argument that names the subcommand; 0 when there are none. 1 for ordinary containers.
    pub subcommand_at: u8,
    /// Subcommands or actions, by name.
    pub subcommands: &'static [SubcommandSpec],
}

/// A subcommand's row. What is not here is the container's.
#[derive(Debug)]
pub struct SubcommandSpec {
    /// Which subcommand.
    pub id: SubcommandId,
    /// Lower case.
    pub name: &'static str,
    /// `container|name`, as listings, error texts and ACL rules spell it.
    pub full_name: &'static str,
    /// How many arguments the whole command has, its name counted; a negative number is a minimum.
    pub arity: i16,
    /// See [`Flags`].
    pub flags: Flags,
    /// Where its keys are, when that differs from the container; [`KeySpec::NONE`] leaves it to the container.
    pub keys: KeySpec,
    /// See [`Categories`].
    pub categories: Categories,
    /// One line for people.
    pub summary: &'static str,
    /// As in [`CommandSpec`].
    pub since: &'static str,
    /// Time in O notation.
    pub complexity: &'static str,
    /// The arguments behind the subcommand's name.
    pub syntax: &'static str,
    /// As in [`CommandSpec`].
    pub tips: &'static [&'static str],
}

impl CommandSpec {
    /// Whether a call with `count` arguments, the name counted, can be this command.
    pub fn arity_ok(&self, count: usize) -> bool {
        arity_ok(self.arity, count)
    }

    /// Whether one call is answered by several replies, one for each channel or pattern that it names. Inside a transaction
    /// they would break the array of EXEC's replies apart: these commands are refused while it is queued.
    pub fn has_many_replies(&self) -> bool {
        matches!(
            self.id,
            CommandId::Subscribe | CommandId::Unsubscribe | CommandId::Psubscribe | CommandId::Punsubscribe
        )
    }

    /// Whether this is a container of subcommands or actions.
    pub fn is_container(&self) -> bool {
        !self.subcommands.is_empty()
    }

    /// The subcommand of that name, in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static SubcommandSpec> {
        self.subcommands
            .iter()
            .find(|sub| sub.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Where the keys of a call of this command, or of its subcommand `sub`, are.
    pub fn keys_of(&self, sub: Option<&'static SubcommandSpec>) -> &KeySpec {
        match sub {
            Some(sub) if sub.keys.first != 0 => &sub.keys,
            _ => &self.keys,
        }
    }

    /// The word of `args` in the subcommand's place, when this is a container and the word is there.
    pub fn subcommand_word<'a>(&self, args: Args<'a>) -> Option<&'a [u8]> {
        if self.is_container() {
            args.get(usize::from(self.subcommand_at))
        } else {
            None
        }
    }
}

impl SubcommandSpec {
    /// Whether a call with `count` arguments, the command's name counted, can be this subcommand.
    pub fn arity_ok(&self, count: usize) -> bool {
        arity_ok(self.arity, count)
    }
}

fn arity_ok(arity: i16, count: usize) -> bool {
    let bound = usize::from(arity.unsigned_abs());
    if arity < 0 { count >= bound } else { count == bound }
}
