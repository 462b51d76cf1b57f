//! A log without room: waiting leaves no trace, and without space reads go on in the past.

use idem_engine::{Durability, Outcome};
use idem_protocol::Lsn;

use crate::support::{Mode, World, check_in};

fn snapshot_of(
    world: &World,
) -> (
    usize,
    Lsn,
    String,
    u64,
    idem_engine::Session,
    idem_engine::Counters,
) {
    let digest = format!(
        "{:?}",
        idem_engine::digest::digest(world.node.keyspace(), world.node.log_time())
    );
    let node = &world.node;
    (
        world.log.len(),
        node.appended(),
        digest,
        node.log_time().get(),
        world.session.clone(),
        *node.counters(),
    )
}

/// Every command that writes, on a log that says "not now": nothing is written, counted or changed, and the same command
/// is decided again later, at its own time.
#[test]
fn waiting_leaves_no_trace() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        @1000
        SET s v PX 100 => OK
        HSET h f v => 1
        IDEM p BEGIN f a 5000 => ["acquired"]
        SET dead v PX 5 => OK
        "#,
    );
    world.now = 1050;
    world.log.mode = Mode::Wait;
    let before = snapshot_of(&world);
    let writes = [
        "SET x 1",
        "SET s 1 GET",
        "DEL s h",
        "PEXPIRE s 1000",
        "PERSIST s",
        "HSET h g 1",
        "HDEL h f",
        "HMSET h n 1",
        "HSETNX h n 1",
        "HINCRBY h n 1",
        "HINCRBY fresh n 1",
        "FLUSHDB",
        "FLUSHALL",
        "IDEM n BEGIN f a 10",
        "IDEM p COMPLETE f a r",
        "IDEM p ABORT f a",
        // A miss that first has to bring the log's time.
        "GET dead",
        "TOUCH dead",
        "OBJECT ENCODING dead",
        "KEYS *",
    ];
    for line in writes {
        let ran = world.line(line);
        assert_eq!(ran.outcome, Outcome::Wait, "{line}");
        assert_eq!(ran.reply, None, "{line}");
        assert!(snapshot_of(&world) == before, "{line} left a trace");
    }
    // What writes nothing is not held up.
    check_in(
        &mut world,
        r#"
        GET s => "v"
        IDEM p BEGIN f b 10 => ["pending"]
        IDEM p COMPLETE f b r => 0
        PING => PONG
        "#,
    );
    world.now = 1060;
    world.log.mode = Mode::Granted;
    check_in(
        &mut world,
        "IDEM n BEGIN f a 10 => [\"acquired\"] ~ idem n 1070 pending\nGET dead => nil ~ nothing",
    );
}

/// With a log that admits that it cannot write, and with one that only refuses.
#[test]
fn without_space_the_log_time_is_now() {
    for admits in [true, false] {
        let mut world = World::new(Durability::Always);
        check_in(
            &mut world,
            r#"
            @1000
            IDEM p BEGIN f a 100 => ["acquired"]
            IDEM c BEGIN f a 100 => ["acquired"]
            IDEM c COMPLETE f a r => 1
            HSET h f v => 1
            PEXPIRE h 100 => 1
            SET s v => OK
            "#,
        );
        world.log.mode = Mode::NoSpace;
        world.log.admits = admits;
        // Long after the deadlines: nothing may say so, since no record could.
        check_in(
            &mut world,
            r#"
            @9000
            IDEM p BEGIN f b 100 => ["pending"] ~ nothing
            IDEM p BEGIN g b 100 => ["conflict"]
            IDEM c BEGIN f b 100 => ["completed" "r"]
            IDEM c COMPLETE f a r => 1 ~ nothing
            IDEM p COMPLETE f b r => 0
            IDEM p COMPLETE f a r => -MISCONF
            IDEM p ABORT f a => -MISCONF ~ nothing
            IDEM n BEGIN f a 100 => -MISCONF ~ nothing
            IDEM n INSPECT => nil
            HGET h f => "v"
            EXISTS p c h s n => 4
            PTTL h => 100
            SET s w => -MISCONF ~ nothing
            SET s w NX => nil
            DEL s => -MISCONF
            DEL n => 0
            FLUSHALL => -MISCONF
            GET s => "v"
            !settle
            !tick
            DBSIZE => 4
            SET s v EX 0 => -ERR invalid expire time
            "#,
        );
        assert_eq!(world.node.log_time().get(), 1000);
        world.log.mode = Mode::Granted;
        check_in(
            &mut world,
            r#"
            GET h => nil ~ clock
            IDEM p BEGIN g b 100 => ["acquired"] ~ idem p 9100 pending
            IDEM c COMPLETE f a r => 0 ~ nothing
            SET s w => OK
            "#,
        );
    }
}

/// MISCONF says that the command would write, which is news about the state.
#[test]
fn misconf_waits_like_a_read() {
    let mut world = World::new(Durability::Always);
    world.line("SET k v");
    let end = world.node.appended();
    world.log.mode = Mode::NoSpace;
    let refused = world.line("SET k v XX");
    assert!(refused.text().starts_with("-MISCONF"));
    assert_eq!(refused.depends_on, end);
}

/// All records of a command are reserved in one go, and a record that no node would take is refused before anything.
#[test]
fn one_reservation_for_one_command() {
    let mut world = World::new(Durability::Always);
    check_in(
        &mut world,
        r#"
        SET a 1 => OK
        SET b 1 => OK
        SET c 1 => OK
        DEL a b x c => 3 ~ all of (delete a, delete b, delete c)
        "#,
    );
    let value = vec![b'v'; 32 << 20];
    let fields: Vec<Vec<u8>> = (0..17).map(|index: u32| index.to_string().into_bytes()).collect();
    let mut arguments: Vec<&[u8]> = vec![b"HSET", b"h"];
    arguments.extend(
        fields
            .iter()
            .flat_map(|field| [field.as_slice(), value.as_slice()]),
    );
    let ran = world.run(&arguments);
    assert!(
        ran.text().starts_with("-ERR the command needs 570425"),
        "{}",
        ran.text()
    );
    assert!(ran.written.is_empty());
    check_in(&mut world, "EXISTS h => 0");
}
