//! Who is listed, and who is ended.

use std::collections::BTreeMap;
use std::time::Instant;

use idem_protocol::resp::value::Value;
use idem_testsuite::contract::{RedisTarget, Target};
use idem_testsuite::process::{Idemd, IdemdOptions, Strace};
use idem_testsuite::require::skip;
use idem_testsuite::testdir::TestDir;

use super::{PATIENCE, fields, id, is_closed, listed, ok, options, own, send, text, until};

/// Names and order are Redis's; an older Redis ends before the library's two.
#[test]
fn the_fields_are_those_of_redis() {
    let dir = TestDir::new("client-fields", 1);
    let server = Idemd::start(&dir.data(), &options());
    let ours = text(server.client().ask("CLIENT LIST"));
    let ours: Vec<&str> = fields(ours.lines().next().unwrap())
        .iter()
        .map(|(name, _)| *name)
        .collect();
    let redis = match RedisTarget::start(&dir.path().join("redis")) {
        Ok(mut redis) => text(redis.connect().ask("CLIENT LIST")),
        Err(reason) => return skip("the_fields_are_those_of_redis", &reason),
    };
    let theirs: Vec<&str> = fields(redis.lines().next().unwrap())
        .iter()
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(ours[..theirs.len()], theirs);
    assert!(ours[theirs.len()..].iter().all(|name| name.starts_with("lib-")));
}

#[test]
fn a_line_says_what_a_connection_is() {
    let dir = TestDir::new("client-line", 1);
    let server = Idemd::start(&dir.data(), &options());
    let (mut client, mut watcher) = (server.client(), server.client());
    for line in [
        "HELLO 3 SETNAME worker-1",
        "CLIENT SETINFO LIB-NAME some-lib",
        "CLIENT SETINFO LIB-VER 1.2.3",
        "CLIENT NO-EVICT ON",
        "CLIENT NO-TOUCH ON",
        "SELECT 3",
        "SUBSCRIBE a b",
        "PSUBSCRIBE c*",
        "SET k v",
    ] {
        client.ask(line);
    }
    // The second reply of SUBSCRIBE shifts all others by one.
    client.receive().unwrap();
    let number = id(&mut client);
    client.ask("MULTI");
    client.ask("GET k");
    let found = text(watcher.ask(&format!("CLIENT LIST ID {number}")));
    let found: BTreeMap<_, _> = fields(found.trim_end()).into_iter().collect();
    for (name, expected) in [
        ("id", number.as_str()),
        ("laddr", &server.address().to_string()),
        ("name", "worker-1"),
        ("flags", "PxeT"),
        ("db", "3"),
        ("sub", "2"),
        ("psub", "1"),
        ("ssub", "0"),
        ("multi", "1"),
        ("cmd", "get"),
        ("user", "default"),
        ("redir", "-1"),
        ("resp", "3"),
        ("lib-name", "some-lib"),
        ("lib-ver", "1.2.3"),
        ("events", "r"),
        ("idle", "0"),
    ] {
        assert_eq!(found[name], expected, "{name} in {found:?}");
    }
    client.ask("DISCARD");
    client.ask("RESET");
    // It says the same of itself, and where it really is.
    let own = own(&mut client);
    assert_eq!(
        (own["flags"].as_str(), own["resp"].as_str(), own["name"].as_str()),
        ("N", "2", "")
    );
    assert_eq!(
        (own["cmd"].as_str(), own["lib-name"].as_str()),
        ("client|info", "some-lib")
    );
    let all = text(watcher.ask("CLIENT LIST"));
    assert!(
        all.contains(&format!("addr={} laddr={}", own["addr"], own["laddr"])),
        "{all}"
    );
    let mut subscriber = server.client();
    let number = id(&mut subscriber);
    subscriber.ask("SUBSCRIBE a");
    assert_eq!(listed(&mut watcher, " TYPE pubsub"), [number.as_str()]);
    assert_eq!(listed(&mut watcher, " TYPE normal").len(), 2);
    let both = listed(&mut watcher, &format!(" ID {number} 999 {number}"));
    assert_eq!(both, [number.as_str(), &number]);
    // What was sent and is not complete is seen.
    client.send_raw(b"*2\r\n$3\r\nGET\r\n$100\r\nhalf of it").unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        let line = text(watcher.ask(&format!("CLIENT LIST ID {}", own["id"])));
        if line.contains(" qbuf=29 ") {
            break;
        }
        assert!(Instant::now() < end, "{line}");
    }
}

#[test]
fn who_is_killed_is_gone() {
    let dir = TestDir::new("client-kill", 1);
    let server = Idemd::start(&dir.data(), &options());
    let mut operator = server.client();
    // By number, by address in either form, by what it does; and not by what it is not.
    for how in ["ID", "ADDR", "old form", "TYPE pubsub", "LADDR", "SKIPME no"] {
        let (mut victim, mut bystander) = (server.client(), server.client());
        let line = own(&mut victim);
        let (number, address) = (&line["id"], &line["addr"]);
        if how == "TYPE pubsub" {
            victim.ask("SUBSCRIBE news");
        }
        let (command, expected) = match how {
            "ID" => (format!("CLIENT KILL ID {number}"), Value::Int(1)),
            "ADDR" => (format!("CLIENT KILL ADDR {address} USER default"), Value::Int(1)),
            "old form" => (format!("CLIENT KILL {address}"), ok()),
            "TYPE pubsub" => ("CLIENT KILL TYPE pubsub".to_owned(), Value::Int(1)),
            "LADDR" => (
                format!(
                    "CLIENT KILL LADDR {} ADDR {address} TYPE normal",
                    server.address()
                ),
                Value::Int(1),
            ),
            _ => (format!("CLIENT KILL SKIPME no ID {number}"), Value::Int(1)),
        };
        assert_eq!(operator.ask(&command), expected, "{command}");
        // At once, for whoever looks.
        let again = operator.ask(&command);
        assert!(
            matches!(again, Value::Int(0) | Value::Error(_)),
            "{command}: {again:?}"
        );
        assert!(!listed(&mut operator, "").contains(number), "{command}");
        assert!(is_closed(&mut victim), "{command}");
        assert_eq!(bystander.ask("PING"), Value::Simple("PONG".into()), "{command}");
        until(&mut operator, "connected_clients", 2);
        drop(bystander);
        until(&mut operator, "connected_clients", 1);
    }
    // Itself, when it says so, behind its reply.
    for command in ["CLIENT KILL TYPE normal SKIPME no", "CLIENT KILL own"] {
        let (mut client, mut other) = (server.client(), server.client());
        let address = own(&mut client)["addr"].clone();
        let command = command.replace("own", &address);
        let all = command.contains("TYPE");
        let expected = if all { Value::Int(3) } else { ok() };
        assert_eq!(client.ask(&command), expected);
        assert!(is_closed(&mut client), "{command}");
        if all {
            assert!(is_closed(&mut other) && is_closed(&mut operator));
            operator = server.client();
        }
    }
    assert!(
        server.stderr().contains("it was named by CLIENT KILL"),
        "{}",
        server.stderr()
    );
}

/// What Sentinel does to a node that it demotes, in one transaction; its own connection stays.
#[test]
fn a_transaction_that_kills_everybody_else() {
    let dir = TestDir::new("client-kill-multi", 1);
    let server = Idemd::start(&dir.data(), &options());
    let (mut sentinel, mut normal, mut subscriber) = (server.client(), server.client(), server.client());
    subscriber.ask("SUBSCRIBE news");
    let queued = Value::Simple("QUEUED".into());
    assert_eq!(sentinel.ask("MULTI"), ok());
    for line in [
        "CONFIG REWRITE",
        "CLIENT KILL TYPE normal",
        "CLIENT KILL TYPE pubsub",
    ] {
        assert_eq!(sentinel.ask(line), queued, "{line}");
    }
    let Value::Array(replies) = sentinel.ask("EXEC") else {
        panic!("EXEC answers an array");
    };
    assert!(
        matches!(replies[0], Value::Error(_)),
        "there is no file to rewrite"
    );
    assert_eq!(replies[1..], [Value::Int(1), Value::Int(1)]);
    assert!(is_closed(&mut normal) && is_closed(&mut subscriber));
    assert_eq!(sentinel.ask("PING"), Value::Simple("PONG".into()));
}

/// A reply that waits for the disk is not sent to a client that is killed meanwhile.
#[test]
fn a_reply_that_waits_is_not_sent_any_more() {
    if !Strace::available() {
        return skip(
            "a_reply_that_waits_is_not_sent_any_more",
            "strace may not trace here",
        );
    }
    let dir = TestDir::new("client-kill-waiting", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let (mut victim, mut operator) = (server.client(), server.client());
    let number = id(&mut victim);
    let slow = ["fdatasync:delay_enter=700000"];
    let strace = Strace::attach_thread(server.pid(), "wal", &dir.path().join("trace"), &slow);
    send(&mut victim, "SET k v");
    let end = Instant::now() + PATIENCE;
    // Its command was executed, so its reply is there and waits.
    while !text(operator.ask(&format!("CLIENT LIST ID {number}"))).contains(" cmd=set ") {
        assert!(Instant::now() < end, "the command arrives");
    }
    assert_eq!(operator.ask(&format!("CLIENT KILL ID {number}")), Value::Int(1));
    assert!(is_closed(&mut victim), "nothing came before the end");
    drop(strace);
    // Unknown to its client, as after any lost connection; here it was carried out.
    assert_eq!(operator.ask("GET k"), Value::Bulk(b"v".to_vec()));
}
