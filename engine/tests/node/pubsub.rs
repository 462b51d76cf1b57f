//! What publish and subscribe are to a node: replies and counts in both protocols, deeds, and what is refused when. (What
//! a client reads, byte for byte, is compared with Redis by the test suite.)

use idem_engine::pubsub::{PATTERNS_MAX, Topic};
use idem_engine::{Deed, Durability, Outcome, Session};

use crate::support::{World, check_in};

#[test]
fn in_resp2_a_subscriber_may_say_little() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        "
        SUBSCRIBE a => [\"subscribe\" \"a\" 1]
        PING => [\"pong\" \"\"]
        PING hi => [\"pong\" \"hi\"]
        PING a b => -ERR wrong number of arguments for 'ping' command
        GET k => -ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context
        CLIENT ID => -ERR Can't execute 'client|id': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context
        GET => -ERR wrong number of arguments for 'get' command
        PSUBSCRIBE b => [\"psubscribe\" \"b\" 2]
        UNSUBSCRIBE => [\"unsubscribe\" \"a\" 1]
        PUBLISH a x => -ERR Can't execute 'publish': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context
        PUNSUBSCRIBE b => [\"punsubscribe\" \"b\" 0]
        GET k => nil
        SUBSCRIBE a => [\"subscribe\" \"a\" 1]
        RESET => RESET
        GET k => nil
        ",
    );
}

#[test]
fn in_resp3_it_may_say_everything() {
    let mut world = World::new(Durability::Always).resp3();
    check_in(
        &mut world,
        "
        SUBSCRIBE a => [\"subscribe\" \"a\" 1]
        PING => PONG
        GET k => nil
        PUBLISH a x => 1
        PUBLISH b x => 0
        ",
    );
}

/// A message is a deed, and only when somebody gets it.
#[test]
fn a_message_is_a_deed() {
    let mut world = World::new(Durability::Always).resp3();
    world.line("PUBLISH a x");
    assert!(!world.node.has_deeds());
    world.line("SUBSCRIBE a");
    world.line("PSUBSCRIBE ?");
    assert!(!world.node.has_deeds());
    assert_eq!(world.line("PUBLISH a x").text(), "2");
    let deeds = world.node.take_deeds();
    let [Deed::Publish(publication)] = deeds.as_slice() else {
        panic!("{deeds:?}")
    };
    let receivers: Vec<_> = world.node.pubsub().receivers(publication).collect();
    let own = [world.session.id];
    assert_eq!(
        receivers,
        [(None, own.as_slice()), (Some(b"?".as_slice()), own.as_slice())]
    );
    let mut session = std::mem::take(&mut world.session);
    world.node.forget(&mut session);
    assert!(session.subscriptions.is_empty());
    assert_eq!(world.node.pubsub().receivers(publication).count(), 0);
}

/// Neither subscribing nor publishing reveals anything, so that neither waits; both work while nothing can be written.
#[test]
fn no_reply_depends_on_data() {
    let mut world = World::new(Durability::Always).resp3();
    world.line("SET k v");
    for command in ["SUBSCRIBE a", "PUBLISH a x", "PUBSUB CHANNELS", "UNSUBSCRIBE"] {
        let ran = world.line(command);
        assert!(matches!(ran.outcome, Outcome::Reply { .. }), "{command}");
        assert_eq!(ran.depends_on.get(), 0, "{command}");
        assert_eq!(ran.written, Vec::<String>::new(), "{command}");
    }
}

/// Each pattern costs every message: the different ones are bounded for all together, and who shares one may still come.
#[test]
fn different_patterns_are_bounded() {
    let mut world = World::new(Durability::Always).resp3();
    let mut words: Vec<Vec<u8>> = vec![b"PSUBSCRIBE".to_vec()];
    words.extend((0..PATTERNS_MAX).map(|index| index.to_string().into_bytes()));
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let mut out = Vec::new();
    let now = world.now();
    let outcome = world.node.execute(
        &mut world.session,
        idem_protocol::resp::Args::from(words.as_slice()),
        now,
        &mut world.log,
        &world.facts,
        &mut out,
    );
    assert!(matches!(outcome, Outcome::Reply { .. }));
    assert_eq!(world.session.subscriptions.patterns(), PATTERNS_MAX);
    let mut first = std::mem::replace(&mut world.session, Session::new(2));
    check_in(
        &mut world,
        "
        PSUBSCRIBE new => -ERR no more than 16384 different patterns can be subscribed to
        PSUBSCRIBE 7 => [\"psubscribe\" \"7\" 1]
        RESET => RESET
        SUBSCRIBE new => [\"subscribe\" \"new\" 1]
        ",
    );
    world.node.forget(&mut first);
    assert_eq!(world.node.pubsub().pattern_count(), 0);
    assert!(!world.node.pubsub().is_subscribed(1, Topic::Pattern, b"7"));
}

/// A pattern with a star may be held against each byte of a name anew: what would take too long is refused before it is
/// begun, and only that.
#[test]
fn a_name_that_would_be_matched_for_seconds_is_refused() {
    let mut world = World::new(Durability::Always).resp3();
    let mut call = |words: &[&[u8]]| {
        let mut out = Vec::new();
        let now = world.now();
        let args = idem_protocol::resp::Args::from(words);
        let (session, log, facts) = (&mut world.session, &mut world.log, &world.facts);
        world.node.execute(session, args, now, log, facts, &mut out);
        world.node.take_deeds();
        String::from_utf8_lossy(&out).into_owned()
    };
    let a = |count| vec![b'a'; count];
    let star = [b"*", a(1000).as_slice(), b"b"].concat();
    let long = "-ERR the channel's name is too long for the patterns that are subscribed to\r\n";
    assert_eq!(call(&[b"PUBLISH", &a(1 << 20), b"m"]), ":0\r\n");
    call(&[b"PSUBSCRIBE", &a(1000), b"a?"]);
    assert_eq!(call(&[b"PUBLISH", &a(1 << 20), b"m"]), ":0\r\n");
    call(&[b"PSUBSCRIBE", &star]);
    assert_eq!(call(&[b"PUBLISH", &a(1 << 20), b"m"]), long);
    assert_eq!(call(&[b"PUBLISH", &a(10_000), b"m"]), ":0\r\n");
    call(&[b"PUNSUBSCRIBE", &star]);
    assert_eq!(call(&[b"PUBLISH", &a(1 << 20), b"m"]), ":0\r\n");
    // Many patterns with a star keep nobody from publishing to names of ordinary length.
    let many: Vec<Vec<u8>> = (0..300)
        .map(|i| [&star, format!("{i}").as_bytes()].concat())
        .collect();
    let mut words: Vec<&[u8]> = vec![b"PSUBSCRIBE"];
    words.extend(many.iter().map(Vec::as_slice));
    call(&words);
    assert_eq!(call(&[b"PUBLISH", &a(400), b"m"]), ":0\r\n");
    assert_eq!(call(&[b"PUBLISH", &a(10_000), b"m"]), long);
    // The other way round: one pattern, and the names of all channels.
    call(&[b"SUBSCRIBE", &a(1 << 20)]);
    assert_eq!(call(&[b"PUBSUB", b"CHANNELS", b"a*"]).len(), (1 << 20) + 16);
    let long = "-ERR the pattern is too long for the channels that are subscribed to\r\n";
    assert_eq!(call(&[b"PUBSUB", b"CHANNELS", &star]), long);
}
