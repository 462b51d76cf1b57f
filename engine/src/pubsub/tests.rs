//! The registry against a model that keeps plain pairs and looks at all of them, and the decisions that change it.

use std::collections::BTreeSet;

use idem_protocol::command::args::glob_matches;
use idem_protocol::resp::{Args, Protocol};
use proptest::prelude::*;

use super::{PubSub, Subscriptions, Topic, starred};
use crate::session::{Session, SessionChange};

/// Names are few, so that they meet; some are patterns that match others, one is empty.
const NAMES: [&str; 9] = ["a", "b", "ab", "a*", "*", "?", "[ab]", "a?", ""];
const CONNECTIONS: u64 = 5;

#[derive(Clone, Debug)]
enum Step {
    Subscribe(u64, Topic, Vec<usize>),
    Unsubscribe(u64, Topic, Vec<usize>),
    Forget(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let topic = prop_oneof![Just(Topic::Channel), Just(Topic::Pattern)];
    let change = (0..CONNECTIONS, topic, prop::collection::vec(0..NAMES.len(), 0..4));
    let step = prop_oneof![
        4 => change.clone().prop_map(|(id, topic, names)| Step::Subscribe(id, topic, names)),
        3 => change.prop_map(|(id, topic, names)| Step::Unsubscribe(id, topic, names)),
        1 => (0..CONNECTIONS).prop_map(Step::Forget),
    ];
    prop::collection::vec(step, 1..60)
}

/// Every subscription as it was asked for.
#[derive(Default)]
struct Model(BTreeSet<(u64, bool, &'static str)>);

impl Model {
    fn of(&self, id: u64, topic: Topic) -> Vec<&'static str> {
        let pattern = topic == Topic::Pattern;
        let own = self.0.iter().filter(|(i, p, _)| (*i, *p) == (id, pattern));
        own.map(|(_, _, name)| *name).collect()
    }

    /// Who gets a message, and by which pattern, in any order.
    fn receivers(&self, channel: &str) -> Vec<(Option<&'static str>, u64)> {
        let mut all: Vec<_> = self
            .0
            .iter()
            .filter_map(|(id, pattern, name)| {
                let by_pattern = *pattern && glob_matches(name.as_bytes(), channel.as_bytes(), false);
                let by_name = !*pattern && *name == channel;
                (by_pattern || by_name).then_some((by_pattern.then_some(*name), *id))
            })
            .collect();
        all.sort_unstable();
        all
    }
}

fn run(steps: &[Step]) -> (PubSub, Vec<Session>, Model) {
    let (mut pubsub, mut model) = (PubSub::default(), Model::default());
    let mut sessions: Vec<Session> = (0..CONNECTIONS).map(Session::new).collect();
    for step in steps {
        let (Step::Subscribe(id, ..) | Step::Unsubscribe(id, ..) | Step::Forget(id)) = step;
        let session = &mut sessions[usize::try_from(*id).unwrap()];
        let words = |names: &[usize]| {
            names
                .iter()
                .map(|name| NAMES[*name].as_bytes())
                .collect::<Vec<_>>()
        };
        match step {
            Step::Subscribe(id, topic, names) => {
                let words = words(names);
                let names_given = Args::from(words.as_slice());
                let change = SessionChange::Subscribe {
                    topic: *topic,
                    names: names_given,
                };
                pubsub.change(session, &change);
                for name in names {
                    model.0.insert((*id, *topic == Topic::Pattern, NAMES[*name]));
                }
            }
            Step::Unsubscribe(id, topic, names) => {
                let words = words(names);
                let names_given = Args::from(words.as_slice());
                let change = SessionChange::Unsubscribe {
                    topic: *topic,
                    names: names_given,
                };
                pubsub.change(session, &change);
                let gone = |name: &str| names.is_empty() || names.iter().any(|n| NAMES[*n] == name);
                model.0.retain(|(i, pattern, name)| {
                    (*i, *pattern) != (*id, *topic == Topic::Pattern) || !gone(name)
                });
            }
            Step::Forget(id) => {
                pubsub.forget(session);
                model.0.retain(|(i, ..)| i != id);
            }
        }
    }
    (pubsub, sessions, model)
}

proptest! {
    #[test]
    fn the_registry_is_what_was_asked_for(steps in steps()) {
        let (pubsub, sessions, model) = run(&steps);
        for session in &sessions {
            let mut expected = Subscriptions::default();
            for topic in [Topic::Channel, Topic::Pattern] {
                let names = model.of(session.id, topic);
                let found: Vec<&[u8]> = pubsub.names_of(session.id, topic).collect();
                prop_assert_eq!(found, names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
                for name in NAMES {
                    prop_assert_eq!(
                        pubsub.is_subscribed(session.id, topic, name.as_bytes()),
                        names.contains(&name)
                    );
                }
                names.iter().for_each(|name| expected.add(topic, name.as_bytes()));
            }
            prop_assert_eq!(session.subscriptions, expected);
        }
        let names = |pattern: bool| {
            let named = model.0.iter().filter(|(_, p, _)| *p == pattern);
            named.map(|(_, _, name)| name.as_bytes()).collect::<BTreeSet<_>>()
        };
        prop_assert_eq!(pubsub.channels().collect::<BTreeSet<_>>(), names(false));
        prop_assert_eq!(pubsub.channel_count(), names(false).len());
        prop_assert_eq!(pubsub.pattern_count(), names(true).len());
        let stars: Vec<_> = names(true).into_iter().map(starred).filter(|units| *units > 0).collect();
        prop_assert_eq!(pubsub.stars, (stars.len(), stars.iter().sum()));
        let listeners: BTreeSet<u64> = model.0.iter().map(|(id, ..)| *id).collect();
        prop_assert_eq!(pubsub.listener_count(), listeners.len());
        for channel in NAMES {
            let (publication, count) = pubsub.publication(channel.as_bytes(), b"m");
            let expected = model.receivers(channel);
            prop_assert_eq!(count, expected.len());
            prop_assert_eq!(publication.is_some(), count > 0);
            let mut found = Vec::new();
            if let Some(publication) = &publication {
                for (pattern, ids) in pubsub.receivers(publication) {
                    prop_assert!(ids.is_sorted(), "the oldest connection first");
                    let pattern = pattern.map(|pattern| std::str::from_utf8(pattern).unwrap());
                    found.extend(ids.iter().map(|id| (pattern, *id)));
                }
            }
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }

    /// Whatever happened, nothing is left when all have gone.
    #[test]
    fn what_ended_leaves_nothing(steps in steps()) {
        let (mut pubsub, mut sessions, _) = run(&steps);
        sessions.iter_mut().for_each(|session| pubsub.forget(session));
        prop_assert!(pubsub.channels.is_empty() && pubsub.patterns.is_empty() && pubsub.listeners.is_empty());
        prop_assert!(sessions.iter().all(|session| session.subscriptions == Subscriptions::default()));
    }
}

#[test]
fn a_star_makes_the_rest_of_a_pattern_cost_each_byte() {
    let patterns = ["", "abc", "a?c", "a*", "*", "ab*cd", r"\*"];
    let patterns = patterns.map(|pattern| starred(pattern.as_bytes()));
    assert_eq!(patterns, [0, 0, 0, 1, 1, 3, 1]);
    let mut pubsub = PubSub::default();
    for pattern in ["long without a star", "a*", "*bc"] {
        pubsub.subscribe(&mut Session::new(1), Topic::Pattern, pattern.as_bytes());
    }
    let steps = [0, 1, 2, 10].map(|len| pubsub.matching_steps(&vec![b'x'; len]));
    assert_eq!(steps, [0, 2, 8, 40]);
}

/// A receiver that left between the command and the delivery gets nothing.
#[test]
fn who_has_left_is_no_receiver() {
    let mut pubsub = PubSub::default();
    let (mut first, mut second) = (Session::new(1), Session::new(2));
    pubsub.subscribe(&mut first, Topic::Channel, b"a");
    pubsub.subscribe(&mut first, Topic::Pattern, b"*");
    pubsub.subscribe(&mut second, Topic::Pattern, b"*");
    let publication = pubsub.publication(b"a", b"m").0.unwrap();
    pubsub.forget(&mut first);
    let receivers: Vec<_> = pubsub.receivers(&publication).collect();
    assert_eq!(receivers, [(Some(b"*".as_slice()), [2].as_slice())]);
}

#[test]
fn a_message_is_a_push_or_an_array() {
    let mut pubsub = PubSub::default();
    pubsub.subscribe(&mut Session::new(1), Topic::Pattern, b"c*");
    let publication = pubsub.publication(b"c\r\n", b"\xff").0.unwrap();
    let plain = b"*3\r\n$7\r\nmessage\r\n$3\r\nc\r\n\r\n$1\r\n\xff\r\n";
    assert_eq!(publication.encode(None, Protocol::Resp2), plain);
    let pattern = b">4\r\n$8\r\npmessage\r\n$2\r\nc*\r\n$3\r\nc\r\n\r\n$1\r\n\xff\r\n";
    assert_eq!(publication.encode(Some(b"c*"), Protocol::Resp3), pattern);
}
