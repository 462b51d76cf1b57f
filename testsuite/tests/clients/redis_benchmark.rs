//! `redis-benchmark` comes through: its tests of commands that there are, by itself, deeply pipelined and as CSV, and
//! with commands of one's own. What it measures is no matter here.

use std::net::SocketAddr;
use std::process::Command;

use idem_testsuite::require::skip;

use crate::program::{self, Ran};
use crate::{Server, redis};

const PROGRAM: &str = "redis-benchmark";
/// Its tests of commands that idemd has. Without `-t` it asks for lists, sets and sorted sets, and stops at the first
/// error.
const TESTS: &str = "ping,set,get,incr,hset,mset";
const NAMES: [&str; 7] = [
    "PING_INLINE",
    "PING_MBULK",
    "SET",
    "GET",
    "INCR",
    "HSET",
    "MSET (10 keys)",
];

#[test]
fn redis_benchmark() {
    if let Some(reason) = program::missing(PROGRAM) {
        return skip("redis_benchmark", &reason);
    }
    let server = Server::start("redis-benchmark");
    everything(server.address());
    // A key of its own for each call, and one for all.
    for args in [
        "-n 5000 -r 100000 -P 16 IDEM job:__rand_int__ BEGIN fp owner 60000",
        "-n 5000 IDEM job:1 BEGIN fp owner 60000",
        "-n 5000 -r 1000 ONCE once:__rand_int__ 60000",
        "-n 5000 -r 10 LIMIT limit:__rand_int__ 100 60000",
    ] {
        run(server.address(), args);
    }
    assert_eq!(server.idemd().client().ask("GET nothing").as_error(), None);
}

#[test]
fn redis_benchmark_against_redis_itself() {
    let test = "redis_benchmark_against_redis_itself";
    match redis(test) {
        Ok((_dir, redis)) => everything(redis.address()),
        Err(reason) => skip(test, &reason),
    }
}

fn everything(address: SocketAddr) {
    for how in ["", "-P 16 -r 1000", "-3 -c 5", "-d 2000 -k 0 -c 5"] {
        let ran = run(address, &format!("-t {TESTS} -n 2000 --csv {how}"));
        let names: Vec<&str> = ran
            .stdout
            .lines()
            .skip(1)
            .filter_map(|line| line.split('"').nth(1))
            .collect();
        assert_eq!(names, NAMES, "{how}: {ran:?}");
    }
}

/// It warns on stderr when CONFIG GET does not tell it what it shows (`save`, `appendonly`), and prints errors there.
fn run(address: SocketAddr, args: &str) -> Ran {
    let mut command = Command::new(PROGRAM);
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    let ran = program::run(command.args(args.split_ascii_whitespace()), b"");
    let complaints = ran
        .stderr
        .lines()
        // What it says of `-k 0` itself.
        .filter(|line| !line.starts_with("WARNING: Keepalive disabled"))
        .count();
    let is_clean = ran.code == Some(0) && complaints == 0 && !ran.stdout.contains("WARN");
    assert!(is_clean, "{args}: {ran:?}");
    ran
}
