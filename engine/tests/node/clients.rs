//! CLIENT and the small commands of a server, as far as a node alone can show them: what is held by a pause, which replies
//! are sent. (Other connections need a server: the test suite has those.)

use std::net::SocketAddr;

use idem_engine::pause::PauseScope;
use idem_engine::{ClientFacts, Deed, Durability, EvictionPolicy, MemoryLimit, Outcome, Session};
use idem_protocol::{Lsn, UnixMs};

use crate::support::{World, check_in};

/// Carries out what the last command asked for, as a server would.
fn carry_out(world: &mut World) {
    let now = UnixMs::new(world.now);
    for deed in world.node.take_deeds() {
        world.node.carry_out(&deed, now);
    }
}

/// Runs a line; `(held)` for a command that has to wait, `(none)` for one that is not answered.
fn answer(world: &mut World, line: &str) -> String {
    let ran = world.line(line);
    let text = match ran.outcome {
        Outcome::Held => "(held)".to_owned(),
        _ => ran.text(),
    };
    carry_out(world);
    text
}

/// Lines with what they answer, as [`answer`] has it.
pub(crate) fn check_lines(world: &mut World, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        let found = answer(world, line);
        let same = found == *expected || (expected.starts_with('-') && found.starts_with(expected));
        assert!(same, "{line}\n  answered {found}\n  expected {expected}");
    }
}

#[test]
fn a_pause_of_writes() {
    let mut world = World::new(Durability::Always);
    world.now = 1000;
    check_lines(
        &mut world,
        &[
            ("SET k v", "OK"),
            ("CLIENT PAUSE 100 WRITE", "OK"),
            ("SET k w", "(held)"),
            ("IDEM i BEGIN f o 1000", "(held)"),
            ("PUBLISH c m", "(held)"),
            // What is wrong with it is no secret until then.
            ("SET k", "-ERR wrong number of arguments"),
            ("GET k", "\"v\""),
            ("IDEM i INSPECT", "nil"),
        ],
    );
    let before = world.log.len();
    // 100 whole ones: the millisecond in which it began does not count.
    world.now = 1100;
    check_lines(&mut world, &[("DEL k", "(held)")]);
    assert_eq!(world.log.len(), before, "what is held has not happened");
    world.now = 1101;
    check_lines(&mut world, &[("SET k w", "OK"), ("GET k", "\"w\"")]);
}

/// A transaction that reads goes on; one that writes waits with EXEC, when it was queued before.
#[test]
fn a_pause_and_transactions() {
    let mut world = World::new(Durability::Always);
    let pause = "CLIENT PAUSE 100 WRITE";
    check_lines(
        &mut world,
        &[("MULTI", "OK"), ("GET k", "QUEUED"), ("SET k v", "QUEUED")],
    );
    // Somebody else's.
    world.node.carry_out(
        &Deed::Pause {
            until: UnixMs::new(100),
            scope: PauseScope::Writes,
        },
        UnixMs::ZERO,
    );
    check_lines(
        &mut world,
        &[
            ("EXEC", "(held)"),
            ("EXEC", "(held)"),
            ("SET k w", "(held)"),
            ("CLIENT UNPAUSE", "QUEUED"),
            ("DISCARD", "OK"),
            ("MULTI", "OK"),
            ("GET k", "QUEUED"),
            ("EXEC", "[nil]"),
            ("CLIENT UNPAUSE", "OK"),
            ("MULTI", "OK"),
            (pause, "QUEUED"),
            ("SET k v", "QUEUED"),
            // The pause begins behind all of it.
            ("EXEC", "[OK OK]"),
            ("SET k w", "(held)"),
            ("GET k", "\"v\""),
        ],
    );
}

#[test]
fn a_pause_of_everything() {
    let mut world = World::new(Durability::Always);
    check_lines(
        &mut world,
        &[
            ("CLIENT PAUSE 100", "OK"),
            ("PING", "(held)"),
            ("GET k", "(held)"),
            ("QUIT", "(held)"),
            ("CLIENT ID", "(held)"),
            ("CLIENT PAUSE 5 WRITE", "OK"),
            ("GET k", "(held)"),
            ("CLIENT UNPAUSE", "OK"),
            ("GET k", "nil"),
            ("CLIENT PAUSE 100 ALL", "OK"),
        ],
    );
    assert_eq!(world.node.paused_until(), Some(UnixMs::new(101)));
    world.now = 101;
    check_lines(&mut world, &[("PING", "PONG"), ("CLIENT UNPAUSE", "OK")]);
    assert_eq!(world.node.paused_until(), None);
}

#[test]
fn replies_that_are_not_sent() {
    let mut world = World::new(Durability::Always).resp3();
    check_lines(
        &mut world,
        &[
            ("CLIENT REPLY SKIP", "(none)"),
            ("PING", "(none)"),
            ("PING", "PONG"),
            ("CLIENT REPLY SKIP", "(none)"),
            ("CLIENT REPLY SKIP", "(none)"),
            ("NOSUCH", "(none)"),
            ("GET", "-ERR wrong number"),
            ("CLIENT REPLY SKIP", "(none)"),
            ("CLIENT REPLY ON", "OK"),
            ("PING", "PONG"),
            ("CLIENT REPLY OFF", "(none)"),
            ("SET k v", "(none)"),
            ("NOSUCH", "(none)"),
            ("CLIENT REPLY SKIP", "(none)"),
            ("CLIENT REPLY maybe", "(none)"),
            ("GET k", "(none)"),
            // What is a message is sent, and its error is none.
            ("SUBSCRIBE c", "[\"subscribe\" \"c\" 1]"),
            ("SUBSCRIBE", "(none)"),
            ("UNSUBSCRIBE c", "[\"unsubscribe\" \"c\" 0]"),
            ("MULTI", "(none)"),
            ("GET k", "(none)"),
            ("EXEC", "(none)"),
            ("CLIENT REPLY ON", "OK"),
            ("GET k", "\"v\""),
            ("CLIENT REPLY OFF", "(none)"),
            ("RESET", "RESET"),
            ("PING", "PONG"),
            ("CLIENT REPLY OFF", "(none)"),
        ],
    );
    // The server answers SAVE later, and asks.
    assert!(matches!(
        world.line("SAVE").outcome,
        Outcome::Snapshot { wait: true, .. }
    ));
    assert!(world.session.muted);
    world.line("CLIENT REPLY ON");
    world.line("SAVE");
    assert!(!world.session.muted);
}

/// What a reply would have depended on is known all the same: a message behind it may say as much.
#[test]
fn a_reply_that_is_not_sent_depends_on_the_same() {
    let mut world = World::new(Durability::Always);
    world.line("CLIENT REPLY OFF");
    let ran = world.line("SET k v");
    assert_eq!((ran.reply, ran.depends_on), (None, world.node.appended()));
    assert!(ran.depends_on > Lsn::ZERO);
}

#[test]
fn what_did_not_count_as_use() {
    let mut world = World::new(Durability::Always);
    world.node.limit_memory(MemoryLimit {
        bytes: 1 << 30,
        policy: EvictionPolicy::AllkeysLru,
        ..MemoryLimit::default()
    });
    check_in(
        &mut world,
        r#"
        @1000
        SET a v => OK
        SET b v => OK
        CLIENT NO-TOUCH ON => OK
        @61100
        GET a => "v"
        OBJECT IDLETIME a => 60
        MULTI => OK
        GET a => QUEUED
        EXEC => ["v"]
        OBJECT IDLETIME a => 60
        TOUCH b => 1
        OBJECT IDLETIME b => 0
        CLIENT NO-TOUCH OFF => OK
        GET a => "v"
        OBJECT IDLETIME a => 0
        "#,
    );
}

#[test]
fn role_has_the_offset_of_info() {
    let mut world = World::new(Durability::Always);
    world.line("SET k v");
    let info = world.line("INFO replication").reply.unwrap();
    let info = String::from_utf8_lossy(info.as_bytes().unwrap()).into_owned();
    let offset = info
        .lines()
        .find_map(|line| line.strip_prefix("master_repl_offset:"))
        .unwrap();
    let role = world.line("ROLE");
    assert_eq!(role.text(), format!("[\"master\" {offset} []]"));
    assert_eq!(role.depends_on, Lsn::ZERO, "it reveals no data");
}

/// A listing's line, from a session and what a server knows of it.
#[test]
fn a_line_of_a_listing() {
    let mut world = World::new(Durability::Always);
    world.facts.clients = vec![Session::new(3)];
    let other = world.facts.clients.first_mut().unwrap();
    other.name = b"worker".to_vec();
    other.db = 2;
    other.no_evict = true;
    other.library_version = b"1.0".to_vec();
    other.last_command = Some("config|get");
    let fixed = "addr=10.0.0.1:7 laddr=10.0.0.2:6379 fd=9";
    let memory =
        "qbuf=10 qbuf-free=90 argv-mem=0 multi-mem=0 rbs=50 rbp=50 obl=5 oll=0 omem=50 tot-mem=150 events=r";
    let text = |world: &mut World, line: &str| {
        let reply = world.line(line).reply.unwrap();
        String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap()
    };
    assert_eq!(
        text(&mut world, "CLIENT LIST ID 3 7 3"),
        format!(
            "id=3 {fixed} name=worker age=60 idle=30 flags=e db=2 sub=0 psub=0 ssub=0 multi=-1 {memory} cmd=config|get \
             user=default redir=-1 resp=2 lib-name= lib-ver=1.0\n"
        )
        .repeat(2)
    );
    let own = format!(
        "id=1 {fixed} name= age=60 idle=30 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 {memory} cmd=client|info \
         user=default redir=-1 resp=2 lib-name= lib-ver=\n"
    );
    assert_eq!(text(&mut world, "CLIENT INFO"), own);
    let all = text(&mut world, "CLIENT LIST");
    assert!(
        all.starts_with("id=1 ") && all.contains("\nid=3 ") && all.contains("cmd=client|list"),
        "{all}"
    );
    assert_eq!(text(&mut world, "CLIENT LIST TYPE pubsub"), "");
    // Anonymous until it says who it is, and back again.
    let last = world.session.last_command;
    assert_eq!(last, Some("client|list"));
    world.line("NOSUCH");
    assert_eq!(world.session.last_command, None);
    world.line("GET");
    assert_eq!(world.session.last_command, Some("get"));
}

/// Everything that is given has to apply; who asks is spared unless it says otherwise.
#[test]
fn who_is_killed() {
    let check = |line: &str, reply: &str, killed: &[u64], closes: bool| {
        let mut world = World::new(Durability::Always);
        world.facts.clients = vec![Session::new(3), Session::new(4)];
        world.line("SUBSCRIBE x");
        let ran = world.line("RESET");
        assert_eq!(ran.text(), "RESET");
        let ran = world.line(line);
        assert_eq!(ran.text(), reply, "{line}");
        assert_eq!(matches!(ran.outcome, Outcome::Close { .. }), closes, "{line}");
        let deeds = world.node.take_deeds();
        let expected: Vec<Deed> = match killed {
            [] => vec![],
            ids => vec![Deed::Kill { ids: ids.to_vec() }],
        };
        assert_eq!(deeds, expected, "{line}");
    };
    check("CLIENT KILL ID 3", "1", &[3], false);
    check("CLIENT KILL ID 1", "0", &[], false);
    check("CLIENT KILL ID 1 SKIPME no", "1", &[], true);
    check("CLIENT KILL TYPE normal", "2", &[3, 4], false);
    check("CLIENT KILL SKIPME no TYPE normal", "3", &[3, 4], true);
    check("CLIENT KILL TYPE normal ID 4", "1", &[4], false);
    check("CLIENT KILL TYPE pubsub ID 4", "0", &[], false);
    check("CLIENT KILL TYPE master", "0", &[], false);
    check("CLIENT KILL USER default MAXAGE 60", "2", &[3, 4], false);
    check("CLIENT KILL USER default MAXAGE 61", "0", &[], false);
    // All of these have the same addresses.
    check("CLIENT KILL ADDR 10.0.0.1:7", "2", &[3, 4], false);
    check("CLIENT KILL LADDR 10.0.0.1:7", "0", &[], false);
    check("CLIENT KILL LADDR 10.0.0.2:6379 ID 3", "1", &[3], false);
    check("CLIENT KILL 10.0.0.1:7", "OK", &[3, 4], true);
    check("CLIENT KILL 10.0.0.1:8", "-ERR No such client", &[], false);
    let mut world = World::new(Durability::Always);
    world.facts.clients = vec![Session::new(3), Session::new(4)];
    check_in(
        &mut world,
        r#"
        MULTI => OK
        CLIENT KILL TYPE normal => QUEUED
        CLIENT KILL TYPE pubsub => QUEUED
        CLIENT KILL ID 4 => QUEUED
        CLIENT KILL ID 3 ID 1 SKIPME no => QUEUED
        EXEC => [2 0 0 1]
        "#,
    );
    assert_eq!(world.node.take_deeds(), [Deed::Kill { ids: vec![3, 4] }]);
}

/// What a server with these connections would say: its own is number 1.
pub(crate) fn visit(sessions: &[Session], only: Option<u64>, visit: &mut dyn FnMut(&ClientFacts<'_>)) {
    let facts = |id, session| ClientFacts {
        id,
        session,
        address: Some(SocketAddr::from(([10, 0, 0, 1], 7))),
        local: Some(SocketAddr::from(([10, 0, 0, 2], 6379))),
        descriptor: 9,
        age_seconds: 60,
        idle_seconds: 30,
        query_bytes: 10,
        input_bytes: 100,
        unsent_bytes: 5,
        output_bytes: 50,
        waits: false,
        writes: false,
    };
    let all = std::iter::once(facts(1, None))
        .chain(sessions.iter().map(|session| facts(session.id, Some(session))));
    all.filter(|client| only.is_none_or(|id| id == client.id))
        .for_each(|client| visit(&client));
}
