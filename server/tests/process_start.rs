//! Starting and stopping the real binary: the ready line, what is refused with which exit code, and what a stop leaves.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

mod support;

use std::net::TcpListener;
use std::path::Path;

use rustix::process::Signal;
use support::{Client, Server, arguments, contents, field, run, text};

#[test]
fn the_ready_line_and_a_clean_stop() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a b").join("data");
    let server = Server::start(&dir, &[]);
    assert!(
        server.ready.starts_with("ready addr=127.0.0.1:"),
        "{}",
        server.ready
    );
    assert!(
        server.ready.ends_with(&format!(" dir={}", dir.display())),
        "{}",
        server.ready
    );
    for (name, value) in [
        ("role", "primary"),
        ("epoch", "1"),
        ("lsn", "73"),
        ("records", "0"),
    ] {
        assert_eq!(field(&server.ready, name), value);
    }
    assert!(field(&server.ready, "seconds").parse::<f64>().unwrap() < 20.0);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(
        std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777,
        0o750
    );
    let mut client = server.connect();
    client.check("IDEM k BEGIN f o 60000", "*1\r\n$8\r\nacquired\r\n");
    client.check("IDEM k COMPLETE f o done", ":1\r\n");
    let ended = server.terminate();
    ended.check(0, &["the log is clean"]);
    assert_eq!(
        ended.stdout.lines().count(),
        1,
        "stdout has the ready line only: {}",
        ended.stdout
    );
    assert_eq!(client.rest(), b"", "the connection is closed");

    let server = Server::start(&dir, &[]);
    server.logged(" A CLEAN");
    assert_eq!(field(&server.ready, "epoch"), "2");
    assert_eq!(field(&server.ready, "records"), "3");
    let mut client = server.connect();
    client.check(
        "IDEM k BEGIN f p 60000",
        "*2\r\n$9\r\ncompleted\r\n$4\r\ndone\r\n",
    );
    client.check("TYPE k", "+string\r\n");
}

#[test]
fn what_is_in_flight_is_answered_before_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.check("PING", "+PONG\r\n");
    for key in 0..100 {
        client.command(&[b"SET", format!("key{key}").as_bytes(), b"value"]);
    }
    let ended = server.terminate();
    ended.check(0, &[]);
    // What was not taken up is not answered; what was answered is there.
    let answered = client.rest().len() / b"+OK\r\n".len();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    for key in 0..answered {
        client.check(&format!("GET key{key}"), "$5\r\nvalue\r\n");
    }
}

#[test]
fn sigint_is_the_same_and_a_second_signal_does_not_hurt() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &[]);
    // A client that never reads its replies does not keep the server.
    let mut slow = server.connect();
    slow.command(&[b"SET", b"big", &vec![b'x'; 4 << 20]]);
    slow.expect(b"+OK\r\n");
    for _ in 0..16 {
        slow.command(&[b"GET", b"big"]);
    }
    server.connect().check("PING", "+PONG\r\n");
    server.signal(Signal::INT);
    server.logged("stopping");
    server.signal(Signal::INT);
    server.wait().check(0, &["second signal", "the log is clean"]);
}

#[test]
fn a_second_server_on_the_same_directory() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let before = contents(dir.path());
    let name = text(dir.path());
    run(&arguments(&name, &[])).check(4, &[&name, "in use by another process"]);
    // Also when the port would be the same.
    let port = server.address.port().to_string();
    run(&["--dir", &name, "--port", &port]).check(4, &[&name]);
    assert_eq!(contents(dir.path()), before);
    server.connect().check("PING", "+PONG\r\n");
}

#[test]
fn a_port_in_use_changes_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let ended = run(&["--dir", &text(&dir), "--port", &port]);
    ended.check(1, &["cannot listen on 127.0.0.1:", &port]);
    assert!(!dir.exists());
}

#[test]
fn directories_that_are_none() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "keep me").unwrap();
    run(&arguments(&text(&file), &[])).check(2, &["dir: ", "not a directory"]);
    run(&arguments(&text(&file.join("below")), &[])).check(2, &["dir: ", "not a directory"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"keep me");
    // Nobody may create anything there, root included: what a directory without write permission is to others.
    run(&arguments("/proc/idemd-test", &[])).check(1, &["cannot create the data directory /proc/idemd-test"]);
}

#[test]
fn a_directory_that_cannot_be_written() {
    // Permissions do not bind root; a directory of the kernel's, with room for nobody, does.
    let dir = "/sys/kernel";
    let before: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    let ended = run(&arguments(dir, &[]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains(dir), "{ended:?}");
    let after: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(before, after);
}

#[test]
fn options_that_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let dir = text(&parent.path().join("data"));
    for (extra, words) in [
        (vec!["--no-such-option", "1"], vec!["--no-such-option"]),
        (vec!["--port", "x"], vec!["--port"]),
        (vec!["--bind", "0.0.0.0"], vec!["bind", "--protected-mode no"]),
        (
            vec!["--replicaof", "127.0.0.1:1"],
            vec!["--replicaof", "this version does not have replication"],
        ),
        (
            vec!["--wal-segment-bytes", "1kb"],
            vec!["--wal-segment-bytes", "1mb"],
        ),
        (
            vec!["--proto-max-bulk-len", "64mb"],
            vec!["proto-max-bulk-len", "client-query-buffer-limit"],
        ),
        (vec!["--config", "/no/such/file"], vec!["/no/such/file"]),
    ] {
        run(&[&["--dir", &dir], extra.as_slice()].concat()).check(2, &words);
    }
    assert!(!Path::new(&dir).exists());
}

#[test]
fn protected_mode_can_be_switched_off() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--bind", "0.0.0.0", "--protected-mode", "no"]);
    server.logged("WARN listening on 0.0.0.0");
    Client::connect(([127, 0, 0, 1], server.address.port()).into()).check("PING", "+PONG\r\n");
}

#[test]
fn help_version_and_generated_files() {
    let help = run(&["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert!(
        help.stdout.contains("--appendfsync") && help.stdout.contains("[default: always]"),
        "{}",
        help.stdout
    );
    let version = run(&["--version"]);
    assert_eq!(
        version.stdout.trim(),
        format!("idemd {}", env!("CARGO_PKG_VERSION"))
    );
    assert!(help.stdout.contains("--generate"), "{}", help.stdout);
    let completions = run(&["--generate", "completions-bash"]).stdout;
    for words in [
        "--appendfsync",
        "always everysec no",
        "volatile-random",
        "text json",
    ] {
        assert!(completions.contains(words), "{words}");
    }
    assert!(run(&["--generate", "man"]).stdout.contains("appendfsync"));
    run(&["--generate", "poetry"]).check(2, &["poetry"]);
}

#[test]
fn a_file_and_flags() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("idemd.toml");
    let text = format!(
        "dir = \"{}\"\nport = 1\ndatabases = 3\n",
        dir.path().join("data").display()
    );
    std::fs::write(&file, text).unwrap();
    let path = file.display().to_string();
    let server = Server::start(&dir.path().join("other"), &["--config", &path]);
    let mut client = server.connect();
    client.check("SELECT 2", "+OK\r\n");
    client.check("SELECT 3", "-ERR DB index is out of range\r\n");
    assert_eq!(client.info("config_file"), path);
    assert!(!dir.path().join("data").exists(), "the flag wins");
}

/// Somebody restores files in place under a running server: it must not go on telling what no restart will find.
#[test]
fn a_log_that_is_replaced_under_the_server_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.check("SET before 1", "+OK\r\n");
    let (wal, aside) = (dir.path().join("wal"), dir.path().join("aside"));
    std::fs::rename(&wal, &aside).unwrap();
    std::fs::create_dir(&wal).unwrap();
    for entry in std::fs::read_dir(&aside).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), wal.join(entry.file_name())).unwrap();
    }
    client.send(b"SET after 1\r\n");
    assert_eq!(client.rest(), b"", "nothing more is told");
    server.wait().check(
        1,
        &[
            "FATAL",
            "removed, replaced or cut while the server was writing it",
        ],
    );
    let server = Server::start(dir.path(), &[]);
    server.connect().check("GET before", "$1\r\n1\r\n");
}

/// The same, where nothing looks at the old segment any more: it was synced and sealed, and is followed now.
#[test]
fn a_quiet_segment_that_is_taken_away_ends_the_server_when_it_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    let set = |client: &mut Client, bytes: usize| client.command(&[b"SET", b"k", &vec![b'v'; bytes]]);
    set(&mut client, 600_000);
    client.expect(b"+OK\r\n");
    let segment = dir.path().join("wal/00000000000000000000.wal");
    let aside = dir.path().join("aside.wal");
    std::fs::rename(&segment, &aside).unwrap();
    set(&mut client, 700_000);
    assert_eq!(client.rest(), b"", "nothing more is told");
    server.wait().check(1, &["FATAL", "removed, replaced or cut"]);
    std::fs::rename(&aside, &segment).unwrap();
    let server = Server::start(dir.path(), &[]);
    server.connect().check("STRLEN k", ":600000\r\n");
}

#[test]
fn a_log_that_is_cut_under_the_server_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.check("SET before 1", "+OK\r\n");
    let segment = std::fs::OpenOptions::new()
        .write(true)
        .open(dir.path().join("wal/00000000000000000000.wal"))
        .unwrap();
    segment.set_len(8192).unwrap();
    client.send(b"SET after 1\r\n");
    assert_eq!(client.rest(), b"", "nothing more is told");
    server.wait().check(1, &["FATAL", "removed, replaced or cut"]);
}

/// However much that is, and in however many reads.
#[test]
fn what_had_arrived_when_a_stop_began_is_answered() {
    const COMMANDS: usize = 5000;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.check("PING", "+PONG\r\n");
    server.signal(Signal::STOP);
    // On the loopback what was written has arrived, as far as the socket takes it: 64 KiB at least.
    client.send(&b"SET k v\r\n".repeat(COMMANDS));
    server.signal(Signal::TERM);
    server.signal(Signal::CONT);
    assert_eq!(client.rest().len(), COMMANDS * b"+OK\r\n".len());
    server.terminate().check(0, &["the log is clean"]);
}
