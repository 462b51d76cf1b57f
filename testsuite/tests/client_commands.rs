//! CLIENT with real connections: who is listed, who is ended and what of its work happens, what a pause holds and whom it
//! lets go, which replies are sent. And what goes by the clock: the slow log and the latency events.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of tests is a test: what is not so fails it"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use idem_protocol::resp::value::Value;
use idem_testsuite::contract::{RedisTarget, Target};
use idem_testsuite::process::client::encode_command;
use idem_testsuite::process::{Client, ClientError, Idemd, IdemdOptions, Strace};
use idem_testsuite::require::skip;
use idem_testsuite::testdir::TestDir;

const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough for a reply that is not held to have come, were it sent.
const SILENCE: Duration = Duration::from_millis(150);

/// A pause that no test waits for.
const LONG: &str = "600000";

/// Without syncs: what is about them asks for them.
fn options() -> IdemdOptions {
    IdemdOptions::default()
        .option("appendfsync", "no")
        .option("enable-debug-command", "yes")
}

fn text(value: Value) -> String {
    let bytes = value.as_bytes().unwrap_or_else(|| panic!("no text: {value:?}"));
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The fields of one line, in order.
fn fields(line: &str) -> Vec<(&str, &str)> {
    line.split(' ')
        .map(|field| field.split_once('=').unwrap())
        .collect()
}

/// A client's own line.
fn own(client: &mut Client) -> BTreeMap<String, String> {
    let line = text(client.ask("CLIENT INFO"));
    let line = line.strip_suffix('\n').expect("a line ends");
    fields(line)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn id(client: &mut Client) -> String {
    client.ask("CLIENT ID").as_int().unwrap().to_string()
}

/// The lines of a listing, by their ids.
fn listed(client: &mut Client, how: &str) -> Vec<String> {
    let lines = text(client.ask(&format!("CLIENT LIST{how}")));
    lines.lines().map(|line| fields(line)[0].1.to_owned()).collect()
}

fn info(client: &mut Client, field: &str) -> u64 {
    let all = text(client.ask("INFO"));
    let line = all
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("INFO has {field}"))
        .parse()
        .unwrap()
}

/// Waits until so many connections are there, or wait for something.
fn until(client: &mut Client, field: &str, expected: u64) {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = info(client, field);
        if found == expected {
            return;
        }
        assert!(Instant::now() < end, "{field} is still {found}, not {expected}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(client: &mut Client, words: &str) {
    let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    client.send(&args).unwrap();
}

fn is_silent(client: &mut Client) -> bool {
    client.set_timeout(SILENCE);
    let silent = matches!(client.receive(), Err(ClientError::Timeout));
    client.set_timeout(PATIENCE);
    silent
}

fn is_closed(client: &mut Client) -> bool {
    matches!(client.receive(), Err(ClientError::Closed))
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

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

#[test]
fn a_pause_holds_and_lets_go() {
    let dir = TestDir::new("client-pause", 1);
    let server = Idemd::start(&dir.data(), &options());
    let mut operator = server.client();
    let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
    assert_eq!(operator.ask(&format!("CLIENT PAUSE {LONG} WRITE")), ok());
    for (index, client) in clients.iter_mut().enumerate() {
        // A pipeline stays in order behind what is held.
        send(
            client,
            &format!("APPEND log {}", char::from(b'a' + u8::try_from(index).unwrap())),
        );
        send(client, "GET log");
        until(
            &mut operator,
            "blocked_clients",
            u64::try_from(index).unwrap() + 1,
        );
    }
    assert_eq!(
        operator.ask("GET log"),
        Value::Null,
        "nothing of it has happened, and reads go on"
    );
    let flags = text(operator.ask("CLIENT LIST"));
    assert_eq!(flags.matches(" flags=b ").count(), 20);
    assert!(clients.iter_mut().take(2).all(is_silent));
    assert_eq!(operator.ask("CLIENT UNPAUSE"), ok());
    for (index, client) in clients.iter_mut().enumerate() {
        let length = i64::try_from(index).unwrap() + 1;
        assert_eq!(
            client.receive().unwrap(),
            Value::Int(length),
            "in the order of arrival"
        );
        client.receive().unwrap();
    }
    assert_eq!(
        operator.ask("GET log"),
        Value::Bulk(b"abcdefghijklmnopqrst".to_vec())
    );
    // Everything is held but what ends it, from whatever connection; and it ends by itself.
    assert_eq!(operator.ask(&format!("CLIENT PAUSE {LONG}")), ok());
    send(&mut clients[0], "PING");
    send(&mut clients[1], "CLIENT LIST");
    assert!(is_silent(&mut clients[0]) && is_silent(&mut clients[1]));
    assert_eq!(clients[2].ask("CLIENT UNPAUSE"), ok());
    assert_eq!(clients[0].receive().unwrap(), Value::Simple("PONG".into()));
    clients[1].receive().unwrap();
    for ms in [0, 1, 30, 300] {
        let begun = Instant::now();
        assert_eq!(operator.ask(&format!("CLIENT PAUSE {ms} ALL")), ok());
        assert_eq!(clients[3].ask("PING"), Value::Simple("PONG".into()));
        assert!(begun.elapsed() >= Duration::from_millis(ms), "{ms}");
    }
}

/// Who gives up while it is held has not had its command carried out, and its place is free at once.
#[test]
fn who_leaves_during_a_pause_is_gone() {
    let dir = TestDir::new("client-pause-leave", 1);
    let server = Idemd::start(&dir.data(), &options().option("maxclients", "4"));
    let (mut operator, mut killed) = (server.client(), server.client());
    let number = id(&mut killed);
    assert_eq!(operator.ask(&format!("CLIENT PAUSE {LONG} WRITE")), ok());
    send(&mut killed, "SET killed v");
    for round in 0..10 {
        let mut leaver = server.client();
        send(&mut leaver, "SET left v");
        // More of it arrives while it waits, and some of it is not complete.
        send(&mut leaver, "SET left again");
        leaver.send_raw(b"*3\r\n$3\r\nSET\r\n").unwrap();
        until(&mut operator, "blocked_clients", 2);
        drop(leaver);
        until(&mut operator, "connected_clients", 2);
        assert_eq!(info(&mut operator, "rejected_connections"), 0, "{round}");
    }
    assert_eq!(operator.ask(&format!("CLIENT KILL ID {number}")), Value::Int(1));
    assert!(is_closed(&mut killed));
    until(&mut operator, "blocked_clients", 0);
    assert_eq!(operator.ask("CLIENT UNPAUSE"), ok());
    assert_eq!(operator.ask("EXISTS left killed"), Value::Int(0));
}

/// A stop does not wait for a pause: what had arrived is answered.
#[test]
fn a_pause_ends_with_the_server() {
    let dir = TestDir::new("client-pause-stop", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let (mut operator, mut client) = (server.client(), server.client());
    assert_eq!(operator.ask(&format!("CLIENT PAUSE {LONG}")), ok());
    send(&mut client, "SET k v");
    assert!(is_silent(&mut client));
    let begun = Instant::now();
    server.sigterm();
    assert_eq!(client.receive().unwrap(), ok());
    assert_eq!(server.wait_exit(PATIENCE).code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

/// Who is held is not idle, and an idle client of a paused server still is.
#[test]
fn a_pause_and_the_timeout() {
    let dir = TestDir::new("client-pause-timeout", 1);
    let server = Idemd::start(&dir.data(), &options().option("timeout", "1"));
    let (mut operator, mut held, mut idle) = (server.client(), server.client(), server.client());
    assert_eq!(operator.ask(&format!("CLIENT PAUSE {LONG} WRITE")), ok());
    send(&mut held, "SET k v");
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        operator.ask("PING");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(is_closed(&mut idle));
    assert_eq!(operator.ask("CLIENT UNPAUSE"), ok());
    assert_eq!(held.receive().unwrap(), ok());
}

/// Replies are off, messages are not: what comes is what was asked for, and nothing out of place.
#[test]
fn replies_that_are_off() {
    let dir = TestDir::new("client-reply", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let (mut client, mut publisher) = (server.client(), server.client());
    client.ask("HELLO 3");
    client.ask("SUBSCRIBE news");
    for line in [
        "CLIENT REPLY OFF",
        "SET k v",
        "NOSUCH",
        "GET k",
        "SAVE",
        "SUBSCRIBE more",
    ] {
        send(&mut client, line);
    }
    let subscribed = client.receive().unwrap();
    assert!(
        matches!(&subscribed, Value::Push(items) if items[2] == Value::Int(2)),
        "{subscribed:?}"
    );
    assert_eq!(publisher.ask("GET k"), Value::Bulk(b"v".to_vec()));
    assert_eq!(publisher.ask("PUBLISH news hello"), Value::Int(1));
    let message = client.receive().unwrap();
    assert!(matches!(&message, Value::Push(items) if items[2] == Value::Bulk(b"hello".to_vec())));
    // Published to itself: the reply is off, the message comes.
    send(&mut client, "PUBLISH news own");
    let message = client.receive().unwrap();
    assert!(matches!(&message, Value::Push(items) if items[2] == Value::Bulk(b"own".to_vec())));
    assert_eq!(client.ask("CLIENT REPLY ON"), ok());
    // A whole pipeline in which every other reply is skipped.
    let mut bytes = Vec::new();
    for number in 0..1000 {
        let number = number.to_string();
        bytes.extend(encode_command(&[b"CLIENT", b"REPLY", b"SKIP"]));
        bytes.extend(encode_command(&[b"SET", b"n", number.as_bytes()]));
        bytes.extend(encode_command(&[b"GET", b"n"]));
    }
    client.send_raw(&bytes).unwrap();
    for number in 0..1000 {
        assert_eq!(
            client.receive().unwrap(),
            Value::Bulk(number.to_string().into_bytes())
        );
    }
}

/// A message tells that the writes before it have happened, also when their replies are off: it waits for the disk.
#[test]
fn a_message_waits_for_what_no_reply_tells() {
    if !Strace::available() {
        return skip(
            "a_message_waits_for_what_no_reply_tells",
            "strace may not trace here",
        );
    }
    let dir = TestDir::new("client-reply-publish", 1);
    let server = Idemd::start(&dir.data(), &IdemdOptions::default());
    let (mut publisher, mut subscriber) = (server.client(), server.client());
    subscriber.ask("SUBSCRIBE news");
    send(&mut publisher, "CLIENT REPLY OFF");
    let slow = ["fdatasync:delay_enter=1000000"];
    let strace = Strace::attach_thread(server.pid(), "wal", &dir.path().join("trace"), &slow);
    send(&mut publisher, "SET k v");
    send(&mut publisher, "PUBLISH news k");
    assert!(is_silent(&mut subscriber), "the message came before the sync");
    assert!(subscriber.receive().is_ok());
    drop(strace);
}

#[test]
fn what_was_slow_is_kept() {
    let dir = TestDir::new("client-slowlog", 1);
    let server = Idemd::start(&dir.data(), &options().option("latency-monitor-threshold", "20"));
    let (mut client, mut operator) = (server.client(), server.client());
    client.ask("CLIENT SETNAME sleeper");
    let address = own(&mut client)["addr"].clone();
    let before = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    assert_eq!(client.ask("DEBUG SLEEP 0.05"), ok());
    // In a pipeline each command has its own time.
    let quick = encode_command(&[b"PING"]);
    let pipeline = [
        quick.as_slice(),
        &encode_command(&[b"DEBUG", b"SLEEP", b"0.03"]),
        &quick,
    ]
    .concat();
    client.send_raw(&pipeline).unwrap();
    for _ in 0..3 {
        client.receive().unwrap();
    }
    let Value::Array(entries) = operator.ask("SLOWLOG GET -1") else {
        panic!("SLOWLOG GET answers an array");
    };
    // A busy machine may have made others slow as well.
    let sleeps: Vec<&[Value]> = entries
        .iter()
        .filter_map(Value::as_items)
        .filter(|entry| entry[3].as_items().unwrap()[0] == Value::Bulk(b"DEBUG".to_vec()))
        .collect();
    assert_eq!(sleeps.len(), 2, "{entries:?}");
    for (entry, seconds, least) in [(sleeps[1], "0.05", 50_000), (sleeps[0], "0.03", 30_000)] {
        let at = u64::try_from(entry[1].as_int().unwrap()).unwrap();
        assert!((before..before + 60).contains(&at), "{at}");
        let usec = entry[2].as_int().unwrap();
        assert!((least..least + 5_000_000).contains(&usec), "{usec}");
        assert_eq!(
            entry[3].as_items().unwrap()[2],
            Value::Bulk(seconds.as_bytes().to_vec())
        );
        assert_eq!(entry[4], Value::Bulk(address.clone().into_bytes()));
        assert_eq!(entry[5], Value::Bulk(b"sleeper".to_vec()));
    }
    let latest = operator.ask("LATENCY LATEST");
    let events = latest.as_items().unwrap();
    let command = events
        .iter()
        .filter_map(Value::as_items)
        .find(|event| event[0] == Value::Bulk(b"command".to_vec()));
    assert!(command.unwrap()[3].as_int().unwrap() >= 50, "{latest:?}");
    assert_eq!(operator.ask("SLOWLOG RESET"), ok());
    assert!(operator.ask("LATENCY RESET").as_int().unwrap() >= 1);
    // Switched off at run time, nothing is kept; from zero on, everything is.
    assert_eq!(operator.ask("CONFIG SET slowlog-log-slower-than -1"), ok());
    operator.ask("SLOWLOG RESET");
    client.ask("DEBUG SLEEP 0.03");
    assert_eq!(operator.ask("SLOWLOG LEN"), Value::Int(0));
    assert_eq!(
        operator.ask("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 3"),
        ok()
    );
    for _ in 0..5 {
        client.ask("PING");
    }
    assert_eq!(operator.ask("SLOWLOG LEN"), Value::Int(3));
}

/// A slow disk is an event, too.
#[test]
fn slow_syncs_are_kept() {
    if !Strace::available() {
        return skip("slow_syncs_are_kept", "strace may not trace here");
    }
    let dir = TestDir::new("client-slow-sync", 1);
    let server = Idemd::start(
        &dir.data(),
        &IdemdOptions::default().option("latency-monitor-threshold", "50"),
    );
    let mut client = server.client();
    let slow = ["fdatasync:delay_enter=60000"];
    let strace = Strace::attach_thread(server.pid(), "wal", &dir.path().join("trace"), &slow);
    assert_eq!(client.ask("SET k v"), ok());
    drop(strace);
    let history = client.ask("LATENCY HISTORY wal-sync");
    let samples = history.as_items().unwrap();
    assert!(
        samples[0].as_items().unwrap()[1].as_int().unwrap() >= 60,
        "{history:?}"
    );
    // The command itself was quick: what was slow is told apart.
    assert_eq!(client.ask("LATENCY HISTORY command"), Value::Array(vec![]));
    assert_eq!(client.ask("SLOWLOG LEN"), Value::Int(0));
}

/// INFO's sections, and in each the fields that Redis has too, come in Redis's order.
#[test]
fn info_is_in_the_order_of_redis() {
    let dir = TestDir::new("client-info", 1);
    let server = Idemd::start(&dir.data(), &options());
    let mut redis = match RedisTarget::start(&dir.path().join("redis")) {
        Ok(redis) => redis,
        Err(reason) => return skip("info_is_in_the_order_of_redis", &reason),
    };
    let (mut ours, mut theirs) = (server.client(), redis.connect());
    for client in [&mut ours, &mut theirs] {
        client.ask("SET k v");
        client.ask("NOSUCH");
    }
    for how in [
        "INFO",
        "INFO default",
        "INFO all",
        "INFO everything",
        "INFO server keyspace",
        "INFO nosuch",
    ] {
        let (ours, theirs) = (sections(&mut ours, how), sections(&mut theirs, how));
        let known = |name: &&String| theirs.iter().any(|(theirs, _)| theirs == *name);
        let names: Vec<&String> = ours.iter().map(|(name, _)| name).filter(known).collect();
        let expected: Vec<&String> = theirs
            .iter()
            .map(|(name, _)| name)
            .filter(|name| ours.iter().any(|(ours, _)| ours == *name))
            .collect();
        assert_eq!(names, expected, "{how}");
        // Ours come behind all of Redis's.
        let own: Vec<&str> = ours
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| !names.contains(&&(*name).to_owned()))
            .collect();
        assert!(own.is_empty() || own == ["Idempotency", "Wal"], "{how}: {own:?}");
        for (name, fields) in &ours {
            let Some((_, others)) = theirs.iter().find(|(theirs, _)| theirs == name) else {
                continue;
            };
            let mine: Vec<&String> = fields.iter().filter(|field| others.contains(field)).collect();
            let expected: Vec<&String> = others.iter().filter(|field| fields.contains(field)).collect();
            assert_eq!(mine, expected, "{how}: {name}");
            assert!(!mine.is_empty(), "{how}: {name} has something in common");
        }
    }
}

/// The sections of INFO with the names of their fields.
fn sections(client: &mut Client, how: &str) -> Vec<(String, Vec<String>)> {
    let mut sections: Vec<(String, Vec<String>)> = Vec::new();
    for line in text(client.ask(how))
        .split("\r\n")
        .filter(|line| !line.is_empty())
    {
        match line.strip_prefix("# ") {
            Some(name) => sections.push((name.to_owned(), Vec::new())),
            None => {
                let (field, _) = line.split_once(':').unwrap();
                sections.last_mut().unwrap().1.push(field.to_owned());
            }
        }
    }
    sections
}
