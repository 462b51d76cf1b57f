//! What each command means: a read-only look at the state, and a [`Decision`].
//!
//! A new command is a row of the command table, one line of the match in [`decide`], and one function in a file of this
//! folder. The function gets the [`Call`] (what the client sent) and the [`View`] (the state it may look at). All looks at
//! keys go through the view, which keeps what the reply depends on and whether the log's time has to move first; a
//! command can forget neither.
//!
//! Arguments are checked before the state is looked at: an error about arguments alone depends on nothing.

mod bound;
mod client;
mod client_list;
mod cluster;
mod config;
mod connection;
mod counter;
mod database;
mod debug;
mod expire;
mod found;
mod hash;
mod idem;
mod introspect;
mod keys;
mod latency;
mod limit;
mod multi;
mod object;
mod once;
mod pubsub;
mod role;
mod scan;
mod script;
mod set;
mod slowlog;
mod string;
mod time;
mod transaction;
mod view;

use std::collections::BTreeSet;

use idem_protocol::command::errors::Text;
use idem_protocol::command::{CommandId, Route, SubcommandId};
use idem_protocol::resp::Args;

pub(crate) use pubsub::refusal;
use time::{Base, Unit};
pub(crate) use view::State;
pub use view::View;

use crate::decision::{Decision, Scratch};
use crate::pubsub::Topic;

/// A decision, or the text of an error that changes nothing.
pub(crate) type Decided<'c, 'k> = Result<Decision<'c, 'k>, Text>;

/// What a client sent: a command whose name, subcommand and number of arguments fit its row.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c> {
    /// The command's row, and its subcommand's.
    pub route: Route,
    /// The arguments, the name first.
    pub args: Args<'c>,
    /// The database that the connection has selected.
    pub db: u8,
    /// Room for lists of arguments.
    pub scratch: &'c Scratch<'c>,
}

impl<'c> Call<'c> {
    /// Argument `index`; the command's name is argument 0. For places that the arity covers.
    pub(crate) fn arg(&self, index: usize) -> &'c [u8] {
        self.args.get(index).unwrap_or_default()
    }

    /// Which subcommand or action, when there is one.
    pub(crate) fn subcommand(&self) -> Option<SubcommandId> {
        self.route.subcommand.map(|sub| sub.id)
    }

    /// The command's name, as error texts spell it.
    pub(crate) fn name(&self) -> &'static str {
        self.route.full_name()
    }
}

/// Decides one command. Reads only.
pub fn decide<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decision<'c, 'k> {
    let decided = match call.route.spec.id {
        CommandId::Idem => idem::decide(call, view),
        CommandId::Limit => limit::decide(call, view),
        CommandId::Once => once::decide(call, view),
        CommandId::Append => string::append(call, view),
        CommandId::Decr => counter::decr(call, view),
        CommandId::Decrby => counter::decrby(call, view),
        CommandId::Get => string::get(call, view),
        CommandId::Getdel => string::getdel(call, view),
        CommandId::Getex => string::getex(call, view),
        CommandId::Getset => set::getset(call, view),
        CommandId::Incr => counter::incr(call, view),
        CommandId::Incrby => counter::incrby(call, view),
        CommandId::Mget => multi::mget(call, view),
        CommandId::Mset => multi::mset(call),
        CommandId::Msetnx => multi::msetnx(call, view),
        CommandId::Psetex => set::setex(call, view, Unit::Milliseconds),
        CommandId::Set => set::decide(call, view),
        CommandId::Setex => set::setex(call, view, Unit::Seconds),
        CommandId::Setnx => set::setnx(call, view),
        CommandId::Strlen => string::strlen(call, view),
        CommandId::Del | CommandId::Unlink => multi::del(call, view),
        CommandId::Exists => keys::exists(call, view),
        CommandId::Touch => keys::touch(call, view),
        CommandId::Keys => keys::keys(call, view),
        CommandId::Randomkey => keys::randomkey(call, view),
        CommandId::Object => object::decide(call, view),
        CommandId::Type => keys::type_of(call, view),
        CommandId::Expire => expire::expire(call, view, Unit::Seconds, Base::Now),
        CommandId::Expireat => expire::expire(call, view, Unit::Seconds, Base::Epoch),
        CommandId::Expiretime => expire::ttl(call, view, Unit::Seconds, Base::Epoch),
        CommandId::Pexpire => expire::expire(call, view, Unit::Milliseconds, Base::Now),
        CommandId::Pexpireat => expire::expire(call, view, Unit::Milliseconds, Base::Epoch),
        CommandId::Pexpiretime => expire::ttl(call, view, Unit::Milliseconds, Base::Epoch),
        CommandId::Ttl => expire::ttl(call, view, Unit::Seconds, Base::Now),
        CommandId::Pttl => expire::ttl(call, view, Unit::Milliseconds, Base::Now),
        CommandId::Persist => expire::persist(call, view),
        CommandId::Hset => hash::hset(call, view),
        CommandId::Hmset => hash::hmset(call, view),
        CommandId::Hsetnx => hash::hsetnx(call, view),
        CommandId::Hincrby => hash::hincrby(call, view),
        CommandId::Hget => hash::hget(call, view),
        CommandId::Hmget => hash::hmget(call, view),
        CommandId::Hexists => hash::hexists(call, view),
        CommandId::Hstrlen => hash::hstrlen(call, view),
        CommandId::Hlen => hash::hlen(call, view),
        CommandId::Hdel => hash::hdel(call, view),
        CommandId::Hgetall => hash::hgetall(call, view),
        CommandId::Hkeys => hash::hkeys(call, view),
        CommandId::Hvals => hash::hvals(call, view),
        CommandId::Hscan => scan::hscan(call, view),
        CommandId::Scan => scan::scan(call, view),
        CommandId::Dbsize => database::dbsize(call, view),
        CommandId::Flushdb => database::flushdb(call),
        CommandId::Flushall => database::flushall(call),
        CommandId::Save => database::save(view),
        CommandId::Bgsave => database::bgsave(call, view),
        CommandId::Lastsave => database::lastsave(view),
        CommandId::Config => config::decide(call, view),
        CommandId::Debug => debug::decide(call, view),
        CommandId::Time => introspect::time(view),
        CommandId::Auth => connection::auth(call),
        CommandId::Client => client::decide(call, view),
        CommandId::Echo => connection::echo(call),
        CommandId::Hello => connection::hello(call, view),
        CommandId::Ping => connection::ping(call, view),
        CommandId::Quit => connection::quit(),
        CommandId::Reset => connection::reset(),
        CommandId::Select => connection::select(call, view),
        CommandId::Psubscribe => pubsub::subscribe(call, view, Topic::Pattern),
        CommandId::Publish => pubsub::publish(call, view),
        CommandId::Pubsub => pubsub::pubsub(call, view),
        CommandId::Punsubscribe => pubsub::unsubscribe(call, view, Topic::Pattern),
        CommandId::Subscribe => pubsub::subscribe(call, view, Topic::Channel),
        CommandId::Unsubscribe => pubsub::unsubscribe(call, view, Topic::Channel),
        CommandId::Cluster | CommandId::Asking | CommandId::Readonly | CommandId::Readwrite => {
            cluster::decide()
        }
        CommandId::Script => script::decide(call),
        CommandId::Latency => latency::decide(call, view),
        CommandId::Role => role::decide(view),
        CommandId::Slowlog => slowlog::decide(call, view),
        CommandId::Command => introspect::command(call),
        CommandId::Info => introspect::info(call, view),
        CommandId::Multi => transaction::multi(view),
        CommandId::Exec => transaction::exec(),
        CommandId::Discard => transaction::discard(view),
        CommandId::Watch => transaction::watch(call, view),
        CommandId::Unwatch => transaction::unwatch(),
    };
    decided.unwrap_or_else(Decision::error)
}

/// The items without repetitions, in order. One item costs nothing; for more a set is kept, ordered and not hashed: no
/// client can choose items that make it slow.
pub(crate) fn distinct<'c>(items: impl Iterator<Item = &'c [u8]>) -> impl Iterator<Item = &'c [u8]> {
    let mut first = None;
    let mut seen = BTreeSet::new();
    items.filter(move |item| match first {
        None => {
            first = Some(*item);
            true
        }
        Some(first) => *item != first && seen.insert(*item),
    })
}

/// More arguments than a subcommand takes whose row has no upper bound, in Redis's words.
pub(crate) fn unknown_arguments(call: Call<'_>) -> Text {
    format!(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try {} HELP.",
        shown(call.arg(1)),
        call.route.spec.name.to_ascii_uppercase()
    )
    .into()
}

/// A count as a reply says it.
pub(crate) fn count(count: usize) -> i64 {
    i64::try_from(count).expect("nothing in memory is counted beyond 63 bits")
}

/// The beginning of a client's bytes, for an error text.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 128;
    let cut = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
    String::from_utf8_lossy(cut)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
