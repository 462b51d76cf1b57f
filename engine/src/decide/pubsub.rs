//! `SUBSCRIBE`, `PSUBSCRIBE`, `UNSUBSCRIBE`, `PUNSUBSCRIBE`, `PUBLISH` and `PUBSUB`.
//!
//! Subscribing changes the connection ([`SessionChange`]); publishing is a [`Deed`], carried out when the command is
//! answered. Both say nothing about the data, so their replies wait for nothing but the replies before them. A *message* can
//! say something: that the publisher's writes before it have happened. So the server delivers it behind what its publisher
//! has been promised so far, not here.
//!
//! A command with several names has several replies, one behind the other; it is refused as a whole, before the first.

use std::collections::BTreeSet;

use idem_protocol::command::args::Glob;
use idem_protocol::command::errors::{self, Text};
use idem_protocol::command::{CommandId, Route, SubcommandId, docs};
use idem_protocol::resp::encode::Reply;
use idem_protocol::resp::{Args, Protocol};

use super::introspect::shorten;
use super::{Call, Decided, View, bound, count, shown};
use crate::decision::Decision;
use crate::deed::Deed;
use crate::pubsub::{
    MATCHING_STEPS_MAX, PATTERNS_MAX, PubSub, SUBSCRIPTIONS_BYTES_MAX, Topic, starred, steps,
    subscription_bytes,
};
use crate::session::{Session, SessionChange};

/// Names that one call may have. Each is worth a reply of its own, many times the few bytes that it was sent as, and
/// everybody waits for all of them.
const NAMES_MAX: usize = 16_384;

/// Why a command may not run on this connection now: in RESP2 a message and a reply look the same, so that a connection with
/// subscriptions may only call what cannot be taken for a message.
pub(crate) fn refusal(session: &Session, route: &Route) -> Option<Text> {
    if session.subscriptions.is_empty() || session.protocol != Protocol::Resp2 {
        return None;
    }
    let allowed = route.spec.has_many_replies()
        || matches!(
            route.spec.id,
            CommandId::Ping | CommandId::Quit | CommandId::Reset
        );
    (!allowed).then(|| {
        format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
             context",
            route.full_name()
        )
        .into()
    })
}

/// `PING` on such a connection: an array, which a client that waits for messages can read.
pub(super) fn ping<'c: 'k, 'k>(call: Call<'c>) -> Decided<'c, 'k> {
    let message = call.args.get(1).unwrap_or_default();
    Ok(Decision::reply(Reply::Array(vec![
        Reply::text("pong"),
        Reply::Bulk(message),
    ])))
}

pub(super) fn subscribe<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>, topic: Topic) -> Decided<'c, 'k> {
    let names = bounded(call.args.tail(1))?;
    let (pubsub, session) = (view.pubsub(), view.session());
    let (mut total, mut bytes) = (session.subscriptions.len(), session.subscriptions.memory_bytes());
    let (mut seen, mut new_patterns) = (BTreeSet::new(), 0);
    let mut frames = Vec::with_capacity(names.len());
    for name in names.iter() {
        if !pubsub.is_subscribed(session.id, topic, name) && seen.insert(name) {
            total += 1;
            bytes += subscription_bytes(topic, name);
            if topic == Topic::Pattern {
                bound::pattern(name)?;
                new_patterns += usize::from(!pubsub.has_pattern(name));
            }
        }
        frames.push(frame(topic, true, Reply::Bulk(name), total));
    }
    if bytes > SUBSCRIPTIONS_BYTES_MAX {
        return Err(format!(
            "ERR the subscriptions of this connection would take more than {SUBSCRIPTIONS_BYTES_MAX} bytes"
        )
        .into());
    }
    if pubsub.pattern_count() + new_patterns > PATTERNS_MAX && new_patterns > 0 {
        return Err(
            format!("ERR no more than {PATTERNS_MAX} different patterns can be subscribed to").into(),
        );
    }
    Ok(Decision {
        session: SessionChange::Subscribe { topic, names },
        ..Decision::reply(Reply::Frames(frames))
    })
}

/// With names, those; without, all of the connection. Ending what is not there is fine and is answered like the rest.
pub(super) fn unsubscribe<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>, topic: Topic) -> Decided<'c, 'k> {
    let names = bounded(call.args.tail(1))?;
    let (pubsub, session) = (view.pubsub(), view.session());
    let mut total = session.subscriptions.len();
    let mut frames: Vec<Reply<'k>> = Vec::new();
    if names.is_empty() {
        for name in pubsub.names_of(session.id, topic) {
            total -= 1;
            frames.push(frame(topic, false, Reply::Bulk(name), total));
        }
        if frames.is_empty() {
            frames.push(frame(topic, false, Reply::Null, total));
        }
    } else {
        let mut seen = BTreeSet::new();
        for name in names.iter() {
            if pubsub.is_subscribed(session.id, topic, name) && seen.insert(name) {
                total -= 1;
            }
            frames.push(frame(topic, false, Reply::Bulk(name), total));
        }
    }
    Ok(Decision {
        session: SessionChange::Unsubscribe { topic, names },
        ..Decision::reply(Reply::Frames(frames))
    })
}

fn frame(topic: Topic, begins: bool, name: Reply<'_>, total: usize) -> Reply<'_> {
    let kind = match (topic, begins) {
        (Topic::Channel, true) => "subscribe",
        (Topic::Channel, false) => "unsubscribe",
        (Topic::Pattern, true) => "psubscribe",
        (Topic::Pattern, false) => "punsubscribe",
    };
    Reply::Push(vec![Reply::text(kind), name, Reply::Int(count(total))])
}

pub(super) fn publish<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let (pubsub, channel) = (view.pubsub(), call.arg(1));
    // Before it is done: a pattern that begins with a star may be compared anew at each byte of the name.
    if pubsub.matching_steps(channel) > MATCHING_STEPS_MAX {
        return Err("ERR the channel's name is too long for the patterns that are subscribed to".into());
    }
    let (publication, receivers) = pubsub.publication(channel, call.arg(2));
    let reply = Reply::Int(count(receivers));
    Ok(match publication {
        None => Decision::reply(reply),
        Some(publication) => Decision::deed(Deed::Publish(publication), reply),
    })
}

pub(super) fn pubsub<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let pubsub = view.pubsub();
    let reply = match call.subcommand() {
        Some(SubcommandId::PubsubChannels) => match (call.args.get(2), call.args.len()) {
            (None, _) => Reply::Bulks(pubsub.channels().collect()),
            (Some(pattern), 3) => matching(pubsub, bound::pattern(pattern)?)?,
            _ => return Err(unknown(call)),
        },
        Some(SubcommandId::PubsubNumsub) => {
            let names = bounded(call.args.tail(2))?;
            let pairs = names
                .iter()
                .flat_map(|name| [Reply::Bulk(name), Reply::Int(count(pubsub.subscribers(name)))]);
            // A flat array in both protocols, as in Redis.
            Reply::Array(pairs.collect())
        }
        Some(SubcommandId::PubsubNumpat) => Reply::Int(count(pubsub.pattern_count())),
        Some(SubcommandId::PubsubHelp) => shorten(docs::help_reply(call.route.spec)),
        _ => return Err(errors::syntax()),
    };
    Ok(Decision::reply(reply))
}

/// The channels that match, or an error when finding out would stop everybody for long.
fn matching<'k>(pubsub: &'k PubSub, pattern: &[u8]) -> Result<Reply<'k>, Text> {
    let (glob, units) = (Glob::new(pattern, false), starred(pattern));
    let (mut found, mut total) = (Vec::new(), 0_usize);
    for name in pubsub.channels() {
        total = total.saturating_add(steps(name.len(), units));
        if total > MATCHING_STEPS_MAX {
            return Err("ERR the pattern is too long for the channels that are subscribed to".into());
        }
        if glob.matches(name) {
            found.push(name);
        }
    }
    Ok(Reply::Bulks(found.into()))
}

/// Redis counts the arguments of PUBSUB CHANNELS itself, and says so in these words.
fn unknown(call: Call<'_>) -> Text {
    let word = shown(call.arg(1));
    format!("ERR unknown subcommand or wrong number of arguments for '{word}'. Try PUBSUB HELP.").into()
}

fn bounded(names: Args<'_>) -> Result<Args<'_>, Text> {
    if names.len() > NAMES_MAX {
        return Err(format!("ERR more than {NAMES_MAX} names in one call, send several").into());
    }
    Ok(names)
}
