//! What a client reads, byte for byte, beside a real `redis-server`.

use std::net::SocketAddr;

use idem_testsuite::contract::RedisTarget;
use idem_testsuite::require::skip;
use idem_testsuite::testdir::TestDir;

use crate::{PATIENCE, options, start};

/// What one client says and gets, byte for byte, beside Redis. (Publishing to oneself is not in it: Redis 7.0 sends the
/// message before the reply.)
#[test]
fn bytes_are_those_of_redis() {
    const LINES: &[&str] = &[
        "SUBSCRIBE a b a",
        "GET x",
        "CONFIG GET nothing",
        "NOSUCH",
        "GET",
        "PING",
        "PING hi",
        "PING a b",
        "PSUBSCRIBE p* q*",
        "UNSUBSCRIBE b nothing",
        "UNSUBSCRIBE",
        "UNSUBSCRIBE",
        "PUNSUBSCRIBE q*",
        "PUBSUB NUMPAT",
        "SELECT 1",
        "ECHO x",
        "CLIENT ID x",
        "PUBLISH nobody x",
        "SUBSCRIBE",
        "RESET",
        "PING",
        "PUBSUB CHANNELS x*",
        "PUBSUB NUMSUB",
        "PUNSUBSCRIBE",
        "SUBSCRIBE last",
        "QUIT",
    ];
    let dir = TestDir::new("pubsub-bytes", 1);
    let redis = match RedisTarget::start(&dir.path().join("redis")) {
        Ok(redis) => redis,
        Err(reason) => return skip("bytes_are_those_of_redis", &reason),
    };
    let server = start(&dir, &options());
    for protocol in ["2", "3"] {
        let (ours, theirs) = (
            conversation(server.address(), protocol, LINES),
            conversation(redis.address(), protocol, LINES),
        );
        assert_eq!(
            String::from_utf8_lossy(&ours),
            String::from_utf8_lossy(&theirs),
            "RESP{protocol}"
        );
    }
}

/// Everything that comes until the server closes, behind the reply of HELLO.
fn conversation(address: SocketAddr, protocol: &str, lines: &[&str]) -> Vec<u8> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    if protocol == "3" {
        stream.write_all(b"HELLO 3\r\n").unwrap();
        // Its reply names the server and is not compared; it ends with an empty list of modules.
        let mut seen = Vec::new();
        let mut byte = [0];
        while !seen.ends_with(b"modules\r\n*0\r\n") {
            stream.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
        }
    }
    let all: String = lines.iter().flat_map(|line| [line, "\r\n"]).collect();
    stream.write_all(all.as_bytes()).unwrap();
    let mut out = Vec::new();
    stream.read_to_end(&mut out).unwrap();
    out
}
