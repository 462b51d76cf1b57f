//! Random commands against a node in this process and a real `redis-server`, reply by reply.
//!
//! Cases hold what somebody thought of; this looks for the rest: options in odd orders, wrong types, numbers at their
//! borders, empty words. Few keys and few words, so that commands meet what earlier ones left.
//!
//! Left out is what cannot be equal: times left (only whether there is a deadline is compared), encodings (Redis's depend
//! on how a value came about), cursors that are no plain numbers, and values above Redis's limits for small hashes, whose
//! pieces come in an order of their own. Lists without an order are compared sorted.

use idem_protocol::resp::value::Value;
use idem_testsuite::contract::{Connection, NodeTarget, RedisTarget, Target};
use idem_testsuite::require::skip;
use idem_testsuite::rng::{Rng, seed};
use idem_testsuite::testdir::TestDir;

/// Commands for each protocol: a fraction of a second.
const COMMANDS: u64 = 15_000;

/// Differences that are shown.
const SHOWN: usize = 10;

/// Separated by commas. A capital letter is one of [`WORDS`], one with a `?` none to two of them, one with a `*` none to
/// four.
const COMMAND_LINES: &str = "get K, set K V, set K V O?, set K V O T, setnx K V, setex K T V, psetex K T V, getset K V, getdel K, \
    getex K, getex K O?, getex K O T, append K V, strlen K, incr K, decr K, incrby K I, decrby K I, mget K*, \
    mset K V K V, mset K* V, msetnx K V K V, del K*, unlink K*, exists K*, touch K*, type K, keys P, \
    scan C S*, randomkey K, dbsize, expire K T N?, pexpire K T, expireat K A G?, pexpireat K A G?, persist K, \
    ttl K, pttl K, expiretime K, pexpiretime K, object refcount M, object freq K, object O K, hset K F V, \
    hset K F V F V, hset K F*, hmset K F V, hmset K F V F, hsetnx K F V, hincrby K F I, hget K F, hmget K F*, \
    hlen K, hexists K F, hstrlen K F, hkeys K, hvals K, hgetall K, hdel K F*, hscan K C S*, hlen K*, hget K, \
    hsetnx K F, select D, select 0, select 0, flushdb O?, ping V?, echo V?, config get Q*, time V, debug O, \
    client getname O?, client O, command O V, object K?";

/// The words that a letter stands for. `T` is for times from now and absolute ones; both lie far ahead, because Redis counts
/// a key that has ended until somebody looks at it.
const WORDS: &[(char, &[&str])] = &[
    ('K', &["a", "b", "h", "i", "", "none"]),
    ('M', &["nothing"]),
    ('F', &["f", "g", "n", ""]),
    (
        'V',
        &[
            "1",
            "-5",
            "x",
            "",
            "9223372036854775807",
            "-9223372036854775808",
            "01",
            "+1",
            " 1",
            "1.5",
            "1e3",
        ],
    ),
    (
        'I',
        &[
            "1",
            "-1",
            "0",
            "x",
            "",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "1.0",
            "-0",
        ],
    ),
    (
        'T',
        &["4000000000", "0", "-1", "x", "", "9223372036854775807", "1.5"],
    ),
    (
        'A',
        &[
            "4000000000",
            "4000000001",
            "4000000000000",
            "1",
            "0",
            "-1",
            "x",
            "9223372036854775807",
        ],
    ),
    (
        'O',
        &[
            "NX", "xx", "GET", "EX", "px", "EXAT", "KEEPTTL", "PERSIST", "sync", "ASYNC", "what", "",
        ],
    ),
    ('N', &["NX", "xx", "what"]),
    ('G', &["NX", "XX", "gt", "LT", "what"]),
    ('P', &["*", "?", "[ah]", "[^a]*", "", "\\*", "n*e", "[a-", "h**"]),
    ('C', &["0", "x"]),
    (
        'S',
        &[
            "MATCH", "count", "TYPE", "*", "[ag]", "hash", "string", "1000", "0", "what",
        ],
    ),
    ('D', &["0", "1", "15", "16", "-1", "x", ""]),
    ('Q', &["save", "SAVE", "data*", "timeout", "s?ve", "", "none"]),
];

fn draw(rng: &mut Rng, lines: &[&'static str]) -> Vec<&'static str> {
    let line = lines[rng.index(lines.len())];
    let mut words = Vec::new();
    for word in line.split(' ') {
        let mut letters = word.chars();
        let list = letters
            .next()
            .and_then(|letter| WORDS.iter().find(|(known, _)| *known == letter));
        let Some((_, list)) = list else {
            words.push(word);
            continue;
        };
        let times = match letters.next() {
            Some('?') => rng.below(3),
            Some('*') => rng.below(5),
            _ => 1,
        };
        words.extend((0..times).map(|_| list[rng.index(list.len())]));
    }
    words
}

/// What can be compared of a reply.
fn comparable(command: &str, reply: Value) -> Value {
    match (command, reply) {
        ("ttl" | "pttl" | "expiretime" | "pexpiretime", Value::Int(left)) if left > 0 => Value::Int(1),
        ("keys" | "hkeys" | "hvals" | "hgetall" | "scan" | "hscan" | "config", reply) => sorted(reply),
        (_, reply) => reply,
    }
}

fn sorted(reply: Value) -> Value {
    match reply {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            items.sort_by_key(|item| format!("{item:?}"));
            Value::Array(items)
        }
        Value::Map(mut pairs) => {
            pairs.sort_by_key(|pair| format!("{pair:?}"));
            Value::Map(pairs)
        }
        other => other,
    }
}

fn call(connection: &mut impl Connection, words: &[&str]) -> Value {
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    connection
        .send(&args)
        .and_then(|()| connection.receive())
        .unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

#[test]
fn random_commands_are_answered_as_redis_answers_them() {
    let name = "random_commands_are_answered_as_redis_answers_them";
    let dir = TestDir::new("redis-random", 1);
    let mut redis = match RedisTarget::start(&dir.data()) {
        Ok(redis) => redis,
        Err(reason) => return skip(name, &reason),
    };
    let seed = seed(20_261_130);
    let lines: Vec<&str> = COMMAND_LINES.split(", ").collect();
    let mut different = Vec::new();
    for (part, protocol) in [(2, "2"), (3, "3")] {
        let mut rng = Rng::new(seed).part(part);
        let (mut ours, mut theirs) = (NodeTarget::new().connect(), redis.connect());
        call(&mut theirs, &["FLUSHALL"]);
        call(&mut ours, &["HELLO", protocol]);
        call(&mut theirs, &["HELLO", protocol]);
        for step in 0..COMMANDS {
            let words = draw(&mut rng, &lines);
            let mine = comparable(words[0], call(&mut ours, &words));
            let other = comparable(words[0], call(&mut theirs, &words));
            if mine != other {
                different.push(format!(
                    "RESP{protocol}, step {step}: {words:?}\n  here  {mine:?}\n  redis {other:?}"
                ));
                // What follows from one difference is none of its own.
                call(&mut ours, &["FLUSHALL"]);
                call(&mut theirs, &["FLUSHALL"]);
            }
        }
    }
    let shown = different
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        different.is_empty(),
        "seed {seed}: {} differences, the first of them:\n{shown}",
        different.len()
    );
}
