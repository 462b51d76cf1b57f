//! Libraries of other languages: one script each, in the protocol that the library chooses by itself and in RESP2.

use idem_testsuite::clients::{Library, Peer, Protocol};
use idem_testsuite::require::skip;

use crate::{Server, redis};

/// What Redis answers as well. `reconnect` is not among it: this `redis-server` keeps nothing over a restart.
const OF_REDIS: [&str; 5] = ["connect", "pipeline", "multi", "watch", "pubsub"];
const ALL: [&str; 7] = [
    "connect",
    "pipeline",
    "multi",
    "watch",
    "pubsub",
    "idem",
    "reconnect",
];
const PROTOCOLS: [Protocol; 2] = [Protocol::Default, Protocol::Resp2];

fn check(test: &str, library: Library) {
    if let Some(reason) = library.missing() {
        return skip(test, &reason);
    }
    let mut server = Server::start(test);
    for protocol in PROTOCOLS {
        let address = server.address();
        library
            .play(protocol, Peer::Idemd, address, &ALL, || server.restart())
            .unwrap_or_else(|error| panic!("{error}\nthe server said:\n{}", server.idemd().stderr()));
    }
}

#[test]
fn redis_py() {
    check("redis_py", Library::RedisPy);
}

#[test]
fn ioredis() {
    check("ioredis", Library::Ioredis);
}

#[test]
fn node_redis() {
    check("node_redis", Library::NodeRedis);
}

#[test]
fn the_scripts_pass_against_redis_itself() {
    let test = "the_scripts_pass_against_redis_itself";
    let (_dir, redis) = match redis(test) {
        Ok(found) => found,
        Err(reason) => return skip(test, &reason),
    };
    for library in Library::ALL {
        if let Some(reason) = library.missing() {
            return skip(test, &reason);
        }
        for protocol in PROTOCOLS {
            library
                .play(protocol, Peer::Redis, redis.address(), &OF_REDIS, || {
                    unreachable!("no step of these restarts")
                })
                .unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
