//! Scripts: one command a line, what it answers, and what it writes.
//!
//! ```text
//! @1000                                  the clock says 1000 ms
//! SET k v => OK ~ put k 0 v              answers OK and writes one record
//! GET k => "v" ~ nothing                 writes nothing
//! SET k => -ERR wrong number             errors: the beginning
//! !tick                                  reclaims; !settle: everything reaches the disk; !restart: from the log
//! ```
//!
//! Without `~` it does not matter what is written; several records are separated by `;`.

use idem_engine::Durability;

use super::World;

/// Runs a script on a new node.
pub(crate) fn check(script: &str) {
    check_in(&mut World::new(Durability::Always), script);
}

/// Runs a script where another one stopped.
pub(crate) fn check_in(world: &mut World, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(time) = line.strip_prefix('@') {
            world.now = time.parse().expect("a time in milliseconds");
        } else if let Some(event) = line.strip_prefix('!') {
            happen(world, event);
        } else {
            command(world, line);
        }
    }
}

fn happen(world: &mut World, event: &str) {
    match event {
        "tick" => _ = world.tick(),
        "settle" => world.settle(),
        "restart" => {
            let log = world.log.prefix(world.node.appended());
            *world = World::open(world.policy, log, world.now);
        }
        other => panic!("unknown event {other}"),
    }
}

fn command(world: &mut World, line: &str) {
    let (command, expected) = line
        .split_once(" => ")
        .unwrap_or_else(|| panic!("no reply in {line:?}"));
    let (reply, written) = match expected.split_once(" ~ ") {
        Some((reply, written)) => (reply.trim(), Some(written.trim())),
        None => (expected.trim(), None),
    };
    let ran = world.line(command.trim());
    let text = ran.text();
    let same = if reply.starts_with('-') {
        text.starts_with(reply)
    } else {
        text == reply
    };
    assert!(same, "{command}\n  answered {text}\n  expected {reply}");
    if let Some(written) = written {
        let found = if ran.written.is_empty() {
            "nothing".to_owned()
        } else {
            ran.written.join("; ")
        };
        assert_eq!(found, written, "{command} wrote");
    }
}
