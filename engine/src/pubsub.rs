//! Who listens to what: channels and patterns, and the connections that are subscribed to them.
//!
//! # Vocabulary
//!
//! * **channel**: a name that messages are published to. It exists for as long as somebody is subscribed to it by name.
//! * **pattern**: a glob; its subscribers get what is published to any channel whose name matches.
//! * **publication**: one message on its way: what PUBLISH was given, and the patterns that its channel matches.
//! * **receiver**: a subscription that a publication goes to. A connection with a channel and two patterns that match is
//!   three receivers, gets the message three times, and counts three times.
//!
//! # Invariants
//!
//! 1. A name is in the registry exactly while a connection is subscribed to it, and a connection exactly while it is
//!    subscribed to something. What ended leaves nothing behind.
//! 2. [`Session::subscriptions`] says of each connection what the registry holds for it; both change in one call.
//! 3. Names are kept once for all their subscribers, and counted in full for each of them: what a connection is charged for
//!    is never less than what goes when it goes.
//! 4. Receivers come in one order: those of the channel first, then pattern by pattern, within each the oldest connection
//!    first. (Redis promises none.)
//!
//! Deliberately absent: messages (nothing is kept for who comes later), sockets and buffers, what a message may reveal
//! (the server delivers it behind the barrier, as any reply), sharded channels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use idem_protocol::command::args::Glob;
use idem_protocol::resp::Protocol;
use idem_protocol::resp::encode::{Reply, encode};
use smallvec::SmallVec;

pub use self::subscriptions::{SUBSCRIPTIONS_BYTES_MAX, Subscriptions, subscription_bytes};
use crate::session::{Session, SessionChange};

mod subscriptions;

/// Different patterns that may be subscribed to at a time, by all connections together: each of them is held against the
/// channel of every message, while everybody waits. More than the clients that `maxclients` lets in by default.
pub const PATTERNS_MAX: usize = 16_384;

/// Steps that holding one name against patterns may take, while everybody waits: at most a tenth of a second. See
/// [`PubSub::matching_steps`].
pub const MATCHING_STEPS_MAX: usize = 64 << 20;

/// A name, kept once and shared.
type Name = Arc<[u8]>;

/// What is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A channel by its name.
    Channel,
    /// Every channel that matches a pattern.
    Pattern,
}

/// Connections by their numbers, sorted. Numbers grow, so that a new connection's place is nearly always the last one.
#[derive(Clone, Debug, Default)]
struct Ids(SmallVec<[u64; 2]>);

impl Ids {
    fn insert(&mut self, id: u64) {
        if let Err(place) = self.0.binary_search(&id) {
            self.0.insert(place, id);
        }
    }

    fn remove(&mut self, id: u64) {
        if let Ok(place) = self.0.binary_search(&id) {
            self.0.remove(place);
        }
    }
}

/// Units of a pattern that may be held against each byte of a channel, at the most: those from its first star on. What
/// stands in front of that is held against the beginning, once. A star that is meant as a byte counts as one, too.
pub(crate) fn starred(pattern: &[u8]) -> usize {
    let star = pattern.iter().position(|byte| *byte == b'*');
    star.map_or(0, |star| pattern.len() - star)
}

/// Steps that holding a name of `len` bytes against a pattern takes at the most, for a pattern with so many
/// [`starred`] units.
pub(crate) fn steps(len: usize, starred: usize) -> usize {
    len.saturating_mul(starred.min(len))
}

#[derive(Clone, Debug)]
struct Pattern {
    glob: Glob,
    ids: Ids,
}

/// What one connection is subscribed to.
#[derive(Clone, Debug, Default)]
struct Listener {
    channels: BTreeSet<Name>,
    patterns: BTreeSet<Name>,
}

impl Listener {
    fn names(&self, topic: Topic) -> &BTreeSet<Name> {
        match topic {
            Topic::Channel => &self.channels,
            Topic::Pattern => &self.patterns,
        }
    }

    fn names_mut(&mut self, topic: Topic) -> &mut BTreeSet<Name> {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
        }
    }
}

/// The registry. See the module.
#[derive(Clone, Debug, Default)]
pub struct PubSub {
    channels: BTreeMap<Name, Ids>,
    patterns: BTreeMap<Name, Pattern>,
    /// How many of the patterns have a star, and the sum of what is [`starred`] in them.
    stars: (usize, usize),
    listeners: BTreeMap<u64, Listener>,
}

/// One message and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    channel: Box<[u8]>,
    message: Box<[u8]>,
    /// Those that the channel matched when the message was published.
    patterns: Vec<Name>,
}

impl Publication {
    /// Bytes of channel and message.
    pub fn bytes(&self) -> usize {
        self.channel.len() + self.message.len()
    }

    /// The message as its receivers read it: those of the channel for `None`, those of a pattern otherwise.
    pub fn encode(&self, pattern: Option<&[u8]>, protocol: Protocol) -> Vec<u8> {
        let (channel, message) = (Reply::Bulk(&self.channel), Reply::Bulk(&self.message));
        let parts = match pattern {
            None => vec![Reply::text("message"), channel, message],
            Some(pattern) => vec![Reply::text("pmessage"), Reply::Bulk(pattern), channel, message],
        };
        let mut out = Vec::new();
        encode(&Reply::Push(parts), protocol, &mut out);
        out
    }
}

impl PubSub {
    /// Whether a connection is subscribed to a name.
    pub fn is_subscribed(&self, id: u64, topic: Topic, name: &[u8]) -> bool {
        self.listeners
            .get(&id)
            .is_some_and(|listener| listener.names(topic).contains(name))
    }

    /// What a connection is subscribed to, in the order of the names.
    pub fn names_of(&self, id: u64, topic: Topic) -> impl Iterator<Item = &[u8]> {
        self.listeners
            .get(&id)
            .into_iter()
            .flat_map(move |listener| listener.names(topic))
            .map(AsRef::as_ref)
    }

    /// The channels that somebody is subscribed to by name, in the order of the names.
    pub fn channels(&self) -> impl Iterator<Item = &[u8]> {
        self.channels.keys().map(AsRef::as_ref)
    }

    /// How many channels those are.
    pub fn channel_count(&self) -> usize {
        self.channels.len()
    }

    /// How many different patterns are subscribed to.
    pub fn pattern_count(&self) -> usize {
        self.patterns.len()
    }

    /// Whether somebody is subscribed to this pattern.
    pub fn has_pattern(&self, pattern: &[u8]) -> bool {
        self.patterns.contains_key(pattern)
    }

    /// How many connections are subscribed to something.
    pub fn listener_count(&self) -> usize {
        self.listeners.len()
    }

    /// How many are subscribed to this channel by its name.
    pub fn subscribers(&self, channel: &[u8]) -> usize {
        self.channels.get(channel).map_or(0, |ids| ids.0.len())
    }

    /// Steps that holding a channel against all patterns takes at the most: for each byte of it, each pattern from its star
    /// on, but never more of that than the channel is long. Patterns without a star cost their own length, whatever the
    /// channel's, and are not counted.
    pub fn matching_steps(&self, channel: &[u8]) -> usize {
        let (patterns, units) = self.stars;
        let len = channel.len();
        len.saturating_mul(units.min(patterns.saturating_mul(len)))
    }

    /// A message to be delivered, and the number of its receivers; no message when nobody is there for it: then it is
    /// not even copied.
    pub fn publication(&self, channel: &[u8], message: &[u8]) -> (Option<Publication>, usize) {
        let mut receivers = self.subscribers(channel);
        let mut patterns = Vec::new();
        for (name, pattern) in &self.patterns {
            if pattern.glob.matches(channel) {
                receivers += pattern.ids.0.len();
                patterns.push(Arc::clone(name));
            }
        }
        let publication = (receivers > 0).then(|| Publication {
            channel: channel.into(),
            message: message.into(),
            patterns,
        });
        (publication, receivers)
    }

    /// The receivers of a publication who are still there: for the channel, then for each pattern, the connections.
    pub fn receivers<'p>(
        &'p self,
        publication: &'p Publication,
    ) -> impl Iterator<Item = (Option<&'p [u8]>, &'p [u64])> {
        let by_name = self.channels.get(&*publication.channel);
        let by_name = by_name.map(|ids| (None, ids.0.as_slice()));
        let by_pattern = publication.patterns.iter().filter_map(|name| {
            let pattern = self.patterns.get(&**name)?;
            Some((Some(name.as_ref()), pattern.ids.0.as_slice()))
        });
        by_name.into_iter().chain(by_pattern)
    }

    /// Carries out what a decision says about its connection, as far as it is about subscriptions.
    pub(crate) fn change(&mut self, session: &mut Session, change: &SessionChange<'_>) {
        match change {
            SessionChange::Subscribe { topic, names } => {
                names
                    .iter()
                    .for_each(|name| self.subscribe(session, *topic, name));
            }
            SessionChange::Unsubscribe { topic, names } if names.is_empty() => {
                self.unsubscribe_all(session, *topic);
            }
            SessionChange::Unsubscribe { topic, names } => {
                names
                    .iter()
                    .for_each(|name| self.unsubscribe(session, *topic, name));
            }
            SessionChange::Reset => self.forget(session),
            _ => {}
        }
    }

    /// Ends all subscriptions of a connection.
    pub fn forget(&mut self, session: &mut Session) {
        self.unsubscribe_all(session, Topic::Channel);
        self.unsubscribe_all(session, Topic::Pattern);
    }

    /// Subscribes a connection; nothing happens when it is subscribed already.
    pub fn subscribe(&mut self, session: &mut Session, topic: Topic, name: &[u8]) {
        let listener = self.listeners.entry(session.id).or_default();
        if listener.names(topic).contains(name) {
            return;
        }
        let known = match topic {
            Topic::Channel => self.channels.get_key_value(name).map(|(name, _)| name),
            Topic::Pattern => self.patterns.get_key_value(name).map(|(name, _)| name),
        };
        let shared = known.map_or_else(|| Name::from(name), Arc::clone);
        listener.names_mut(topic).insert(Arc::clone(&shared));
        match topic {
            Topic::Channel => self.channels.entry(shared).or_default().insert(session.id),
            Topic::Pattern => {
                let stars = &mut self.stars;
                let new = || {
                    let units = starred(name);
                    *stars = (stars.0 + usize::from(units > 0), stars.1 + units);
                    Pattern {
                        glob: Glob::new(name, false),
                        ids: Ids::default(),
                    }
                };
                self.patterns
                    .entry(shared)
                    .or_insert_with(new)
                    .ids
                    .insert(session.id);
            }
        }
        session.subscriptions.add(topic, name);
    }

    /// Ends one subscription of a connection, if there is such.
    pub fn unsubscribe(&mut self, session: &mut Session, topic: Topic, name: &[u8]) {
        let Some(listener) = self.listeners.get_mut(&session.id) else {
            return;
        };
        if !listener.names_mut(topic).remove(name) {
            return;
        }
        if listener.channels.is_empty() && listener.patterns.is_empty() {
            self.listeners.remove(&session.id);
        }
        self.leave(session, topic, name);
    }

    fn unsubscribe_all(&mut self, session: &mut Session, topic: Topic) {
        let Some(listener) = self.listeners.get_mut(&session.id) else {
            return;
        };
        let names = std::mem::take(listener.names_mut(topic));
        if listener.channels.is_empty() && listener.patterns.is_empty() {
            self.listeners.remove(&session.id);
        }
        for name in &names {
            self.leave(session, topic, name);
        }
    }

    /// Takes a connection from a name's subscribers; the last one takes the name with it.
    fn leave(&mut self, session: &mut Session, topic: Topic, name: &[u8]) {
        match topic {
            Topic::Channel => {
                let ids = self.channels.get_mut(name);
                let ids = ids.expect("a name that somebody is subscribed to is in the registry");
                ids.remove(session.id);
                if ids.0.is_empty() {
                    self.channels.remove(name);
                }
            }
            Topic::Pattern => {
                let pattern = self.patterns.get_mut(name);
                let pattern = pattern.expect("a name that somebody is subscribed to is in the registry");
                pattern.ids.remove(session.id);
                if pattern.ids.0.is_empty() {
                    self.patterns.remove(name);
                    let units = starred(name);
                    self.stars = (self.stars.0 - usize::from(units > 0), self.stars.1 - units);
                }
            }
        }
        session.subscriptions.remove(topic, name);
    }
}

#[cfg(test)]
mod tests;
