//! The file of CONFIG REWRITE.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use idem_protocol::resp::value::Value;
use idem_testsuite::process::{Idemd, IdemdOptions};
use idem_testsuite::rng::Rng;
use idem_testsuite::testdir::TestDir;

use crate::support::{FILE, PATIENCE, get, must_set, read, text, with_file};

#[test]
fn a_rewritten_file_keeps_what_is_not_changed_and_starts_the_same_server() {
    let dir = TestDir::new("config-rewrite", 1);
    let (path, _) = with_file(&dir, FILE);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("it is ours");
    let link = dir.path().join("link.toml");
    symlink("idemd.toml", &link).expect("the directory is ours");
    let options = IdemdOptions::default()
        .option("config", &link)
        .option("wal-segment-bytes", "1mb")
        .option("slowlog-max-len", "7");
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    must_set(
        &mut client,
        &[
            ("timeout", "120"),
            ("maxmemory", "3gb"),
            ("appendfsync", "everysec"),
            ("idem-evictable", "yes"),
        ],
    );
    // What is as it was, in another spelling or after a detour, is no change.
    must_set(
        &mut client,
        &[("snapshot-wal-bytes", "524288"), ("log-level", "debug")],
    );
    must_set(&mut client, &[("log-level", "info"), ("maxmemory", "2gb")]);
    assert_eq!(text(&client.ask("CONFIG REWRITE")), "OK");
    let expected = "\
# idemd of the orders\n\
\n\
timeout    =  120   # a minute\n\
maxmemory = \"2gb\"\n\
# the log\n\
snapshot-wal-bytes = '512kb' # small\n\
'maxclients' = 50\n\
# the end\n\
\n\
# Written by CONFIG REWRITE:\n\
appendfsync = \"everysec\"\n\
idem-evictable = true\n";
    assert_eq!(read(&path), expected);
    assert!(link.is_symlink());
    let mode = std::fs::metadata(&path)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
    // Once more changes nothing, not even the file's identity.
    let inode =
        |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("it is there"));
    let before = inode(&path);
    assert_eq!(text(&client.ask("CONFIG REWRITE")), "OK");
    assert_eq!(inode(&path), before);
    let shown = get(&mut client, "*");
    server.stop();
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    assert_eq!(get(&mut client, "*"), shown);
    // Nothing is left beside it.
    let names = std::fs::read_dir(dir.path()).expect("it is ours");
    assert!(
        names
            .filter_map(Result::ok)
            .all(|entry| !entry.file_name().to_string_lossy().contains("tmp"))
    );
    server.stop();
}

/// What a failover tool sends: within one transaction the file says what the commands before said.
#[test]
fn a_transaction_sets_shows_and_writes() {
    let dir = TestDir::new("config-multi", 1);
    let (path, options) = with_file(&dir, FILE);
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    for words in [
        "MULTI",
        "CONFIG SET timeout 7",
        "CONFIG SET client-query-buffer-limit 20mb",
        // Each would do alone; after the other it does not.
        "CONFIG SET proto-max-bulk-len 30mb",
        "CONFIG GET timeout",
        "CONFIG REWRITE",
        "CONFIG SET nosuch 1",
    ] {
        let reply = text(&client.ask(words));
        assert!(reply == "OK" || reply == "QUEUED", "{words}: {reply}");
    }
    let Value::Array(replies) = client.ask("EXEC") else {
        panic!("EXEC answers an array")
    };
    let bulk = |text: &str| Value::Bulk(text.into());
    assert_eq!(replies[3], Value::Array(vec![bulk("timeout"), bulk("7")]));
    let replies: Vec<String> = replies.iter().map(text).collect();
    assert_eq!(replies[..2], ["OK", "OK"]);
    assert!(replies[2].contains("proto-max-bulk-len (30mb) is above client-query-buffer-limit (20mb)"));
    assert_eq!(replies[4], "OK");
    assert!(replies[5].starts_with("ERR Unknown option"));
    let shown = get(&mut client, "*");
    assert_eq!(shown["timeout"], "7");
    assert_eq!(shown["client-query-buffer-limit"], (20 << 20).to_string());
    assert_eq!(shown["proto-max-bulk-len"], (16 << 20).to_string());
    let written = read(&path);
    assert!(written.contains("timeout    =  7   # a minute"), "{written}");
    assert!(
        written.ends_with("client-query-buffer-limit = \"20mb\"\n"),
        "{written}"
    );
    server.stop();
}

/// All or nothing holds for the file, too; and what came of writing it is answered within the transaction.
#[test]
fn a_transaction_that_does_not_take_place_writes_no_file() {
    let dir = TestDir::new("config-abort", 1);
    let (path, options) = with_file(&dir, FILE);
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    let value = "v".repeat(15 << 20);
    assert_eq!(text(&client.ask(&format!("SET big {value}"))), "OK");
    let mut queued = |words: &[&str]| {
        assert_eq!(text(&client.ask("MULTI")), "OK");
        for words in words {
            assert_eq!(text(&client.ask(words)), "QUEUED", "{words}");
        }
        client.ask("EXEC")
    };
    let config = ["CONFIG SET timeout 7", "CONFIG REWRITE"];
    let whole: Vec<&str> = config.into_iter().chain(["GET big"; 4]).collect();
    let refused = text(&queued(&whole));
    assert!(refused.starts_with("EXECABORT"), "{refused}");
    assert_eq!(read(&path), FILE, "nothing took place");
    std::fs::remove_file(&path).expect("it is ours");
    std::fs::create_dir(&path).expect("the directory is ours");
    let Value::Array(replies) = queued(&config) else {
        panic!("EXEC answers an array")
    };
    assert_eq!(text(&replies[0]), "OK");
    assert!(text(&replies[1]).starts_with("ERR"), "{:?}", replies[1]);
    server.stop();
}

#[test]
fn a_file_that_cannot_be_rewritten_stays() {
    let dir = TestDir::new("config-refused", 1);
    let (path, options) = with_file(&dir, FILE);
    let server = Idemd::start(&dir.data(), &options);
    let mut client = server.client();
    must_set(&mut client, &[("timeout", "5")]);
    // Somebody is editing it.
    for half in ["timeout = \n", "[clients]\ntimeout = 5\n", "nosuch = 1\n"] {
        std::fs::write(&path, half).expect("it is ours");
        let reply = text(&client.ask("CONFIG REWRITE"));
        assert!(reply.starts_with("ERR Rewriting config file: "), "{reply}");
        assert_eq!(read(&path), half);
    }
    std::fs::remove_file(&path).expect("it is ours");
    let reply = text(&client.ask("CONFIG REWRITE"));
    assert!(reply.starts_with("ERR Rewriting config file: "), "{reply}");
    assert!(!path.exists());
    std::fs::write(&path, FILE).expect("it is ours");
    assert_eq!(text(&client.ask("CONFIG REWRITE")), "OK");
    assert!(read(&path).contains("timeout    =  5   # a minute"));
    server.stop();
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let mut client = server.client();
    must_set(&mut client, &[("timeout", "5")]);
    assert_eq!(
        text(&client.ask("CONFIG REWRITE")),
        "ERR The server is running without a config file"
    );
    server.stop();
}

/// SIGKILL while files are being written: the old one or the new one, whole, with everything of it that is not ours.
#[test]
fn a_kill_leaves_the_old_file_or_the_new_one() {
    const CYCLES: u32 = 8;
    let dir = TestDir::new("config-kill", 1);
    let mut rng = Rng::new(dir.seed());
    let (path, options) = with_file(&dir, FILE);
    let mut last_told = 60;
    for _ in 0..CYCLES {
        let server = Idemd::start(&dir.data(), &options);
        let mut client = server.client();
        let first: u64 = get(&mut client, "timeout")["timeout"].parse().expect("a number");
        assert!(
            first == last_told || first == last_told + 1,
            "{first} after {last_told}"
        );
        last_told = first;
        let pid = rustix::process::Pid::from_raw(i32::try_from(server.pid()).expect("a pid")).expect("a pid");
        let after = Duration::from_micros(rng.below(30_000));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(after);
            rustix::process::kill_process(pid, rustix::process::Signal::KILL)
        });
        // As fast as it goes, until there is nobody any more.
        for timeout in first + 1.. {
            let value = timeout.to_string();
            let words: [&[u8]; 4] = [b"CONFIG", b"SET", b"timeout", value.as_bytes()];
            let done = client
                .call(&words)
                .and_then(|_| client.call(&[b"CONFIG", b"REWRITE"]));
            match done {
                Ok(reply) => assert_eq!(text(&reply), "OK"),
                Err(_) => break,
            }
            last_told = timeout;
        }
        killer
            .join()
            .expect("it only kills")
            .expect("the process was there");
        server.wait_exit(PATIENCE);
        let text = read(&path);
        let value = text.lines().find_map(|line| line.strip_prefix("timeout    =  "));
        let value = value.and_then(|rest| rest.strip_suffix("   # a minute"));
        let value: u64 = value
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("{text}"));
        assert!(
            value == last_told || value == last_told + 1,
            "{value} after {last_told}"
        );
        assert_eq!(text, FILE.replace("=  60", &format!("=  {value}")));
    }
}
