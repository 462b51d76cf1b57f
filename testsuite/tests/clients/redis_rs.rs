//! redis-rs, blocking, as `Client::open(url)` gives it: RESP2 by itself, RESP3 when the URL says so.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use idem_testsuite::require::skip;
use redis::{Client, Commands, Connection, ErrorKind, PushInfo, PushKind, RedisResult, Value, cmd, pipe};

use crate::{Server, redis};

/// For what comes by itself: a message, a server that is starting.
const PATIENCE: Duration = Duration::from_secs(20);

struct Peer {
    client: Client,
    resp3: bool,
    is_idemd: bool,
}

impl Peer {
    fn new(address: SocketAddr, resp3: bool, is_idemd: bool) -> Peer {
        let query = if resp3 { "?protocol=resp3" } else { "" };
        let client = Client::open(format!("redis://{address}/{query}")).unwrap();
        Peer {
            client,
            resp3,
            is_idemd,
        }
    }

    fn connect(&self) -> Connection {
        let connection = self.client.get_connection().unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection
    }
}

#[test]
fn redis_rs() {
    let mut server = Server::start("redis-rs");
    for resp3 in [false, true] {
        let peer = Peer::new(server.address(), resp3, true);
        everything(&peer);
        idem(&peer);
        reconnect(&peer, &mut server);
    }
}

#[test]
fn redis_rs_against_redis_itself() {
    match redis("redis-rs-redis") {
        Ok((_dir, redis)) => {
            for resp3 in [false, true] {
                everything(&Peer::new(redis.address(), resp3, false));
            }
        }
        Err(reason) => skip("redis_rs_against_redis_itself", &reason),
    }
}

fn everything(peer: &Peer) {
    peer.connect().flushall::<()>().unwrap();
    connect(peer);
    pipeline(peer);
    multi(peer);
    watch(peer);
    if peer.resp3 {
        pushes(peer);
    } else {
        subscribed_mode(peer);
    }
}

/// The text of an error reply.
fn refusal<T: std::fmt::Debug>(result: RedisResult<T>) -> String {
    result.unwrap_err().to_string()
}

fn connect(peer: &Peer) {
    let mut con = peer.connect();
    assert_eq!(con.ping::<String>().unwrap(), "PONG");
    let line: String = cmd("CLIENT").arg("INFO").query(&mut con).unwrap();
    let resp = if peer.resp3 { " resp=3" } else { " resp=2" };
    assert!(!peer.is_idemd || line.contains(resp), "{line}");
    assert!(!peer.is_idemd || line.contains(" lib-name=redis-rs "), "{line}");
    let info: redis::InfoDict = cmd("INFO").query(&mut con).unwrap();
    assert_eq!(info.get::<String>("role").as_deref(), Some("master"));
    let found: HashMap<String, String> = cmd("CONFIG").arg("GET").arg("maxmem*").query(&mut con).unwrap();
    assert!(found.contains_key("maxmemory"), "{found:?}");
    assert!(refusal(cmd("NOSUCH").query::<Value>(&mut con)).contains("unknown command"));
    let cluster = cmd("CLUSTER").arg("SLOTS").query::<Value>(&mut con);
    assert!(refusal(cluster).contains("cluster support disabled"));
    assert!(con.set::<_, _, bool>("still", "there").unwrap());
    // A database in the URL is selected on connect.
    let url = format!("redis://{}/5", peer.client.get_connection_info().addr());
    let mut other = Client::open(url).unwrap().get_connection().unwrap();
    assert_eq!(other.exists::<_, i64>("still").unwrap(), 0);
}

fn pipeline(peer: &Peer) {
    let mut con = peer.connect();
    let mut many = pipe();
    for index in 0..5_000 {
        many.set(format!("p:{index}"), index).ignore();
        many.get(format!("p:{index}"));
    }
    let found: Vec<i64> = many.query(&mut con).unwrap();
    assert!(found.into_iter().eq(0..5_000));
    for value in binary() {
        con.set::<_, _, ()>("binary", &value).unwrap();
        assert_eq!(con.get::<_, Vec<u8>>("binary").unwrap(), value);
    }
    con.hset_multiple::<_, _, _, ()>("hash", &[("f", "1"), ("g", "\r\n")])
        .unwrap();
    let hash: HashMap<String, String> = con.hgetall("hash").unwrap();
    assert_eq!(
        hash,
        HashMap::from([("f".into(), "1".into()), ("g".into(), "\r\n".into())])
    );
    assert_eq!(con.get::<_, Option<String>>("none").unwrap(), None);
    assert_eq!(con.scan_match::<_, String>("p:49*").unwrap().count(), 111);
}

fn multi(peer: &Peer) {
    let mut con = peer.connect();
    let mut atomic = pipe();
    atomic.atomic();
    let query = atomic
        .set("a", b"\xff")
        .ignore()
        .incr("b", 3)
        .get("a")
        .query::<(i64, Vec<u8>)>(&mut con);
    assert_eq!(query.unwrap(), (3, b"\xff".to_vec()));
    // An error while queueing leaves nothing done, one inside of EXEC leaves the others done.
    let mut wrong = pipe();
    wrong
        .atomic()
        .set("b", "not done")
        .cmd("GET")
        .arg(&["a", "b", "c"]);
    assert!(wrong.query::<Value>(&mut con).is_err());
    assert_eq!(con.get::<_, i64>("b").unwrap(), 3);
    let mut partly = pipe();
    partly.atomic().hset("a", "f", "v").set("b", "4");
    let text = refusal(partly.query::<Value>(&mut con));
    assert!(text.contains("WRONGTYPE"), "{text}");
    assert_eq!(con.get::<_, i64>("b").unwrap(), 4);
}

fn watch(peer: &Peer) {
    let (mut con, mut other) = (peer.connect(), peer.connect());
    con.set::<_, _, ()>("w", 1).unwrap();
    let mut tries = Vec::new();
    let (found,): (i64,) = redis::transaction(&mut con, &["w"], |con, pipe| {
        let seen: i64 = con.get("w")?;
        tries.push(seen);
        if seen == 1 {
            other.set::<_, _, ()>("w", 10)?;
        }
        pipe.incr("w", 1).query(con)
    })
    .unwrap();
    assert_eq!((found, tries), (11, vec![1, 10]));
}

fn subscribed_mode(peer: &Peer) {
    let (mut con, mut listening) = (peer.connect(), peer.connect());
    let mut listener = listening.as_pubsub();
    listener.subscribe(&["news", "more"]).unwrap();
    listener.psubscribe("n[ae]*").unwrap();
    assert_eq!(con.publish::<_, _, i64>("news", b"\0\xff").unwrap(), 2);
    let message = listener.get_message().unwrap();
    assert_eq!(
        (message.get_channel_name(), message.get_payload_bytes()),
        ("news", &b"\0\xff"[..])
    );
    let message = listener.get_message().unwrap();
    assert!(message.from_pattern());
    assert_eq!(listener.ping::<Vec<String>>().unwrap(), ["pong", ""]);
    let sent: (i64, i64) = pipe()
        .atomic()
        .publish("more", "1")
        .publish("none", "2")
        .query(&mut con)
        .unwrap();
    assert_eq!(sent, (1, 0));
    assert_eq!(listener.get_message().unwrap().get_payload::<i64>().unwrap(), 1);
    listener.punsubscribe("n[ae]*").unwrap();
    listener.unsubscribe("news").unwrap();
    assert_eq!(con.publish::<_, _, i64>("news", "x").unwrap(), 0);
    drop(listener);
    // Dropping it unsubscribes: an ordinary connection again.
    assert_eq!(listening.get::<_, Option<String>>("none").unwrap(), None);
    assert_eq!(con.publish::<_, _, i64>("more", "x").unwrap(), 0);
}

fn pushes(peer: &Peer) {
    let (mut con, mut listener) = (peer.connect(), peer.connect());
    let (sender, arrivals) = std::sync::mpsc::channel::<PushInfo>();
    listener.set_push_sender(sender);
    listener.subscribe_resp3("news").unwrap();
    listener.psubscribe_resp3("n[ae]*").unwrap();
    // In RESP3 a subscribed connection takes every command; what arrives is read beside its replies.
    listener.set::<_, _, ()>("a", "1").unwrap();
    assert_eq!(con.publish::<_, _, i64>("news", b"\0\xff").unwrap(), 2);
    // The message was on its way before this reply.
    assert_eq!(listener.get::<_, String>("a").unwrap(), "1");
    listener.unsubscribe_resp3("news").unwrap();
    listener.punsubscribe_resp3("n[ae]*").unwrap();
    assert_eq!(listener.ping::<String>().unwrap(), "PONG");
    let bulk = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
    let found: Vec<(PushKind, Vec<Value>)> = arrivals.try_iter().map(|push| (push.kind, push.data)).collect();
    let expected = vec![
        (PushKind::Subscribe, vec![bulk(b"news"), Value::Int(1)]),
        (PushKind::PSubscribe, vec![bulk(b"n[ae]*"), Value::Int(2)]),
        (PushKind::Message, vec![bulk(b"news"), bulk(b"\0\xff")]),
        (
            PushKind::PMessage,
            vec![bulk(b"n[ae]*"), bulk(b"news"), bulk(b"\0\xff")],
        ),
        (PushKind::Unsubscribe, vec![bulk(b"news"), Value::Int(1)]),
        (PushKind::PUnsubscribe, vec![bulk(b"n[ae]*"), Value::Int(0)]),
    ];
    assert_eq!(found, expected);
}

fn idem(peer: &Peer) {
    let mut con = peer.connect();
    for (index, result) in binary().into_iter().enumerate() {
        let key = [b"job:\xff\r\n", index.to_string().as_bytes()].concat();
        let mut call = |action: &str, args: &[&[u8]]| {
            let mut command = cmd("IDEM");
            command.arg(&key).arg(action);
            args.iter().for_each(|arg| {
                command.arg(*arg);
            });
            command.query::<Value>(&mut con).unwrap()
        };
        let words = |words: &[&[u8]]| {
            Value::Array(
                words
                    .iter()
                    .map(|word| Value::BulkString(word.to_vec()))
                    .collect(),
            )
        };
        let begin: [&[u8]; 3] = [b"\xff\0", b"owner \x80", b"60000"];
        assert_eq!(call("BEGIN", &begin), words(&[b"acquired"]));
        assert_eq!(call("BEGIN", &begin), words(&[b"pending"]));
        assert_eq!(
            call("COMPLETE", &[b"\xff\0", b"owner \x80", &result]),
            Value::Int(1)
        );
        assert_eq!(call("BEGIN", &begin), words(&[b"completed", &result]));
        let found = call("INSPECT", &[]);
        assert_eq!(matches!(found, Value::Map(_)), peer.resp3, "{found:?}");
        let found: HashMap<String, Value> = redis::from_redis_value(found).unwrap();
        assert_eq!(found["owner"], Value::BulkString(b"owner \x80".to_vec()));
    }
    // With the effect that it guards, in one transaction.
    cmd("IDEM")
        .arg(&["job:tx", "BEGIN", "f", "o", "60000"])
        .exec(&mut con)
        .unwrap();
    let mut atomic = pipe();
    atomic
        .atomic()
        .cmd("IDEM")
        .arg(&["job:tx", "COMPLETE", "f", "o", "\0"]);
    atomic
        .set("effect", "x")
        .cmd("IDEM")
        .arg(&["job:tx", "BEGIN", "f", "p", "60000"]);
    let found: (i64, bool, Vec<String>) = atomic.query(&mut con).unwrap();
    assert_eq!(found, (1, true, vec!["completed".into(), "\0".into()]));
}

fn reconnect(peer: &Peer, server: &mut Server) {
    let mut con = peer.connect();
    con.set::<_, _, ()>("kept", b"\xff").unwrap();
    server.restart();
    // The blocking client does not connect again by itself: it says that the connection is gone.
    let error = con.get::<_, Vec<u8>>("kept").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.is_connection_dropped(), "{error}");
    let end = Instant::now() + PATIENCE;
    let mut con = loop {
        match peer.client.get_connection() {
            Ok(con) => break con,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    };
    assert_eq!(con.get::<_, Vec<u8>>("kept").unwrap(), b"\xff");
}

/// Bytes that text handling breaks.
fn binary() -> Vec<Vec<u8>> {
    vec![
        Vec::new(),
        b"\r\n".to_vec(),
        b"\0".to_vec(),
        (0..=u8::MAX).collect(),
        b"\xff\xfe\r\n$-1\r\n".to_vec(),
        b"\xc3\x28".repeat(500_000),
    ]
}
