//! No reply leaves before what it reveals.
//!
//! Method: random commands on a node whose disk lags at random. Each reply comes with the position that it depends on. For
//! every reply a server is started from the log cut at exactly that position, under the oldest clock that is possible,
//! and asked the same: it has to answer the same. That is what a client may rely on once the reply has gone out, since a
//! crash after that keeps at least this much.

use idem_engine::{Durability, Log};
use idem_protocol::{Lsn, UnixMs};
use proptest::prelude::*;

use crate::support::{World, check_in, parse, seeded};

#[derive(Clone, Debug)]
enum Step {
    Run(String),
    /// The clock goes on.
    Later(u64),
    /// Shares of what is missing, in thousandths.
    Progress(u64, u64),
    Tick,
}

fn command() -> impl Strategy<Value = String> {
    let key = || prop_oneof![Just("a"), Just("b"), Just("c")];
    let word = || prop_oneof![Just("x"), Just("y")];
    let ttl = || 1..30_u64;
    prop_oneof![
        3 => (key(), word()).prop_map(|(k, v)| format!("SET {k} {v}")),
        3 => (key(), word(), ttl()).prop_map(|(k, v, t)| format!("SET {k} {v} PX {t}")),
        1 => (key(), word()).prop_map(|(k, v)| format!("SET {k} {v} NX")),
        1 => (key(), word()).prop_map(|(k, v)| format!("SET {k} {v} XX KEEPTTL GET")),
        2 => key().prop_map(|k| format!("DEL {k} c")),
        2 => (key(), ttl()).prop_map(|(k, t)| format!("PEXPIRE {k} {t} NX")),
        1 => key().prop_map(|k| format!("PERSIST {k}")),
        3 => (key(), word(), word()).prop_map(|(k, f, v)| format!("HSET {k} {f} {v}")),
        1 => (key(), word()).prop_map(|(k, f)| format!("HDEL {k} {f}")),
        2 => (key(), word(), word(), ttl()).prop_map(|(k, f, o, t)| format!("IDEM {k} BEGIN {f} {o} {t}")),
        2 => (key(), word(), word(), word()).prop_map(|(k, f, o, r)| format!("IDEM {k} COMPLETE {f} {o} {r}")),
        1 => (key(), word(), word()).prop_map(|(k, f, o)| format!("IDEM {k} ABORT {f} {o}")),
        1 => Just("FLUSHDB".to_owned()),
        1 => Just("FLUSHALL".to_owned()),
        1 => prop_oneof![Just("SELECT 0"), Just("SELECT 1")].prop_map(str::to_owned),
        4 => key().prop_map(|k| format!("GET {k}")),
        2 => key().prop_map(|k| format!("EXISTS {k} a b")),
        2 => key().prop_map(|k| format!("TYPE {k}")),
        1 => key().prop_map(|k| format!("STRLEN {k}")),
        2 => (key(), word()).prop_map(|(k, f)| format!("HGET {k} {f}")),
        1 => key().prop_map(|k| format!("HGETALL {k}")),
        2 => key().prop_map(|k| format!("PTTL {k}")),
        2 => key().prop_map(|k| format!("IDEM {k} INSPECT")),
        2 => Just("SCAN 0 COUNT 100".to_owned()),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => command().prop_map(Step::Run),
        3 => prop_oneof![4 => 0..12_u64, 1 => 250..600_u64].prop_map(Step::Later),
        3 => (0..=1000_u64, 0..=1000_u64).prop_map(|(w, s)| Step::Progress(w, s)),
        2 => Just(Step::Tick),
    ];
    proptest::collection::vec(step, 1..70)
}

/// A reply without the parts that are true only at the moment of the decision.
fn lasting(line: &str, text: &str) -> String {
    if line.starts_with("PTTL") {
        return if text.starts_with('-') {
            text.to_owned()
        } else {
            "some time".to_owned()
        };
    }
    match text.find("\"ttl_ms\"") {
        Some(from) => format!(
            "{}{}",
            &text[..from],
            &text[text.find("\"result_bytes\"").expect("after it")..]
        ),
        None => text.to_owned(),
    }
}

/// The record boundary at or below a share of the way from `from` to `to`.
fn part_way(world: &World, from: Lsn, to: Lsn, share: u64) -> Lsn {
    let wanted = from.plus(to.bytes_since(from) * share / 1000);
    world
        .log
        .ends()
        .into_iter()
        .rev()
        .find(|end| *end <= wanted)
        .map_or(from, |end| end.max(from))
}

fn replies_reveal_only_what_they_depend_on(
    policy: Durability,
    steps: Vec<Step>,
) -> Result<(), TestCaseError> {
    let mut world = World::new(policy);
    world.settle();
    let opened = world.node.appended();
    world.now = 100;
    for step in steps {
        match step {
            Step::Later(ms) => world.now += ms,
            Step::Tick => _ = world.tick(),
            Step::Progress(written, synced) => {
                let written = part_way(&world, world.node.written(), world.node.appended(), written);
                let synced = part_way(
                    &world,
                    world.node.synced(),
                    written.max(world.node.synced()),
                    synced,
                );
                let now = world.now();
                world.node.progress(written, synced, now);
            }
            Step::Run(line) => {
                let db = world.session.db;
                let barrier = world.node.barrier(world.now());
                let ran = world.line(&line);
                if line.starts_with("SELECT") {
                    prop_assert_eq!(ran.depends_on, Lsn::ZERO);
                    continue;
                }
                prop_assert!(
                    ran.depends_on >= opened,
                    "{} depends on the opening at least",
                    line
                );
                if ran.written.iter().any(|record| record != "clock") {
                    // What a write did is revealed by its reply: it depends on all of it.
                    prop_assert_eq!(ran.depends_on, world.node.appended(), "{}", line);
                    continue;
                }
                let mut recovered = world.state_at(ran.depends_on);
                recovered.session.db = db;
                let again = recovered.line(&line);
                prop_assert_eq!(
                    lasting(&line, &again.text()),
                    lasting(&line, &ran.text()),
                    "{}",
                    line
                );
                prop_assert!(again.written.is_empty(), "{} found nothing new to write", line);
                // And no more than that: a look that waits has something unsettled to wait for.
                if ran.depends_on > barrier && !line.starts_with("SCAN") && policy == Durability::Always {
                    let ends = world.log.ends();
                    let before = ends
                        .into_iter()
                        .rev()
                        .find(|end| *end < ran.depends_on)
                        .expect("an opening");
                    prop_assert!(before >= barrier);
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(seeded(150))]

    #[test]
    fn always(steps in steps()) {
        replies_reveal_only_what_they_depend_on(Durability::Always, steps)?;
    }

    #[test]
    fn everysec(steps in steps()) {
        replies_reveal_only_what_they_depend_on(Durability::Everysec, steps)?;
    }

    #[test]
    fn no(steps in steps()) {
        replies_reveal_only_what_they_depend_on(Durability::No, steps)?;
    }
}

/// Whether the reply to each line could go out at once.
fn check_waits(world: &mut World, table: &[(&str, bool)]) {
    for (line, waits) in table {
        let ran = world.line(line);
        let barrier = world.node.barrier(world.now());
        assert_eq!(ran.depends_on > barrier, *waits, "{line} answered {}", ran.text());
    }
}

/// Reads of settled keys go out at once while others are in flight; reads of what is in flight wait, whatever they
/// answer.
#[test]
fn settled_keys_do_not_wait() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        @1000
        SET old v => OK
        HSET oldhash f v => 1
        IDEM oldidem BEGIN f a 5000 => ["acquired"]
        SET removed v => OK
        !settle
        SET new v => OK
        DEL removed => 1
        HSET newhash f v => 1
        IDEM newidem BEGIN f a 5000 => ["acquired"]
        "#,
    );
    check_waits(
        &mut world,
        &[
            ("GET old", false),
            ("GET missing", false),
            ("GET oldhash", false),
            ("IDEM old BEGIN f a 5", false),
            ("IDEM oldidem BEGIN f b 5", false),
            ("IDEM oldidem BEGIN g b 5", false),
            ("IDEM oldidem COMPLETE f b r", false),
            ("IDEM missing ABORT f b", false),
            ("EXPIRE old 10 XX", false),
            ("SET old v NX", false),
            ("DEL missing", false),
            ("TTL oldhash", false),
            // A value, a miss, an error, a refusal: each says something that a crash can still take back.
            ("GET new", true),
            ("GET removed", true),
            ("GET newhash", true),
            ("HGET new f", true),
            ("IDEM new BEGIN f a 5", true),
            ("IDEM newidem BEGIN f b 5", true),
            ("IDEM newidem BEGIN g b 5", true),
            ("IDEM newidem COMPLETE f b r", true),
            ("IDEM removed ABORT f b", true),
            ("IDEM removed INSPECT", true),
            ("SET new v NX", true),
            ("EXPIRE new 10 XX", true),
            ("DEL removed", true),
            ("EXISTS old removed", true),
            ("EXISTS old missing", false),
            ("SCAN 0", true),
            ("DBSIZE", true),
        ],
    );
    world.settle();
    check_waits(
        &mut world,
        &[
            ("GET new", false),
            ("GET removed", false),
            ("SCAN 0", false),
            ("DBSIZE", false),
        ],
    );
    // A flush changes every key of its database, and no other one's.
    check_in(&mut world, "SELECT 1 => OK\nFLUSHDB => OK");
    check_waits(&mut world, &[("GET anything", true)]);
    check_in(&mut world, "SELECT 0 => OK");
    check_waits(&mut world, &[("GET anything", false)]);
    check_in(&mut world, "FLUSHALL => OK");
    check_waits(&mut world, &[("GET anything", true)]);
    world.settle();
    check_waits(&mut world, &[("GET anything", false)]);
}

/// A repeated COMPLETE that finds its result in flight waits for it, although it writes nothing.
#[test]
fn a_repeated_complete_waits_for_the_first() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        "@1000\nIDEM k BEGIN f a 5000 => [\"acquired\"]\n!settle\nIDEM k COMPLETE f a r => 1",
    );
    let end = world.node.appended();
    assert_eq!(world.line("IDEM k COMPLETE f a r").depends_on, end);
    assert_eq!(world.line("IDEM k BEGIN f b 5").depends_on, end);
}

/// Between the opening and the first command nothing waits, and nothing depends on less than the opening.
#[test]
fn the_opening_is_the_floor() {
    let mut world = World::new(Durability::Always);
    let opened = world.log.appended();
    assert_eq!(world.line("GET k").depends_on, opened);
    assert_eq!(world.node.barrier(UnixMs::new(0)), opened);
    assert_eq!(parse("GET \"a b\"").len(), 2);
}
