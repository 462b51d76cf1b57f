//! What was slow, and the order of INFO.

use idem_protocol::resp::value::Value;
use idem_testsuite::contract::{RedisTarget, Target};
use idem_testsuite::process::client::encode_command;
use idem_testsuite::process::{Client, Idemd, IdemdOptions, Strace};
use idem_testsuite::require::skip;
use idem_testsuite::testdir::TestDir;

use super::{ok, options, own, text};

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
