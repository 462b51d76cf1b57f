//! Commands on hashes: what each writes, and HSCAN over a hash that changes meanwhile.

use std::collections::BTreeSet;

use idem_engine::Durability;
use idem_protocol::resp::value::Value;

use crate::support::{World, check};

/// The log gets the result and the key's deadline, never the request.
#[test]
fn what_hash_commands_write() {
    check(
        r#"
        @1000
        HSETNX h a 1 => 1 ~ hash h 0 a=1
        HSETNX h a 2 => 0 ~ nothing
        PEXPIRE h 500 => 1
        HMSET h a 2 b x => OK ~ hash h 1500 a=2,b=x
        HSET h b y => 0 ~ hash h 1500 b=y
        HINCRBY h a 40 => 42 ~ hash h 1500 a=42
        HINCRBY h c -1 => -1 ~ hash h 1500 c=-1
        HINCRBY h b 1 => -ERR hash value is not an integer ~ nothing
        HINCRBY h a 9223372036854775807 => -ERR increment or decrement would overflow ~ nothing
        HMGET h a b c d => ["42" "y" "-1" nil] ~ nothing
        HLEN h => 3
        HSTRLEN h a => 2
        HEXISTS h d => 0
        HKEYS h => ["a" "b" "c"]
        HVALS h => ["42" "y" "-1"]
        @1500
        HLEN h => 0 ~ clock
        HINCRBY h a 1 => 1 ~ hash h 0 a=1
        PTTL h => -1
        SET s v => OK
        HINCRBY s a 1 => -WRONGTYPE ~ nothing
        HSETNX s a 1 => -WRONGTYPE ~ nothing
        HMGET s a => -WRONGTYPE ~ nothing
        HSCAN s 0 => -WRONGTYPE ~ nothing
        "#,
    );
}

/// One step: the next cursor, and the fields it answered.
fn step(world: &mut World, cursor: &str, options: &[&str]) -> (String, Vec<String>) {
    let words: Vec<&[u8]> = [&["HSCAN", "h", cursor], options]
        .concat()
        .iter()
        .map(|word| word.as_bytes())
        .collect();
    let Some(Value::Array(reply)) = world.run(&words).reply else {
        panic!("HSCAN answers an array");
    };
    let [Value::Bulk(next), Value::Array(pairs)] = reply.as_slice() else {
        panic!("a cursor and a list: {reply:?}");
    };
    // A number that every client keeps whole.
    let number: Option<u64> = std::str::from_utf8(next).ok().and_then(|next| next.parse().ok());
    assert!(number.is_some_and(|number| number < 1 << 32), "{next:?}");
    let text = |value: &Value| match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{other:?}"),
    };
    assert!(pairs.len().is_multiple_of(2));
    let fields = pairs.iter().step_by(2).map(text).collect();
    (String::from_utf8_lossy(next).into_owned(), fields)
}

fn fill(world: &mut World, prefix: &str, count: u32, value: &[u8]) {
    for number in 0..count {
        let field = format!("{prefix}{number}");
        world.run(&[b"HSET", b"h", field.as_bytes(), value]);
    }
}

/// What is there all the time is answered, while others come and go between the steps.
#[test]
fn a_scan_answers_all_that_stays() {
    for (stay, count) in [(600, "1"), (5000, "10"), (5000, "1000")] {
        let mut world = World::new(Durability::No);
        fill(&mut world, "stay", stay, b"v");
        fill(&mut world, "goes", stay, b"v");
        let mut seen = BTreeSet::new();
        let (mut cursor, mut steps) = ("0".to_owned(), 0);
        loop {
            let (next, fields) = step(&mut world, &cursor, &["COUNT", count, "MATCH", "stay*"]);
            seen.extend(fields);
            steps += 1;
            if next == "0" {
                break;
            }
            assert!(steps < 4 * stay, "a scan ends");
            let other = format!("new{steps}");
            world.run(&[b"HSET", b"h", other.as_bytes(), b"v"]);
            world.run(&[b"HDEL", b"h", format!("goes{}", steps % stay).as_bytes()]);
            cursor = next;
        }
        let expected: BTreeSet<String> = (0..stay).map(|number| format!("stay{number}")).collect();
        assert_eq!(seen, expected, "COUNT {count}");
        assert!(steps > 1, "a large hash comes in pieces");
    }
}

/// Nobody waits long for a step: it is bounded by COUNT, by ten thousand fields, and by a mebibyte of values.
#[test]
fn a_step_is_bounded() {
    let mut world = World::new(Durability::No);
    fill(&mut world, "f", 30_000, b"v");
    for (count, most) in [
        ("1", 1),
        ("10", 10),
        ("100", 100),
        ("10000", 10_000),
        ("1000000", 10_000),
    ] {
        let (next, fields) = step(&mut world, "0", &["COUNT", count]);
        assert_ne!(next, "0");
        // Fields of equal hashes come together; with 64 bits there are none.
        assert_eq!(fields.len(), most, "COUNT {count}");
    }
    let (_, fields) = step(&mut world, "0", &[]);
    assert_eq!(fields.len(), 10, "without COUNT");

    let mut world = World::new(Durability::No);
    fill(&mut world, "f", 100, &vec![b'v'; 100 << 10]);
    let (_, fields) = step(&mut world, "0", &["COUNT", "10000"]);
    // The one that crosses the bound is the last.
    assert_eq!(fields.len(), 11, "a mebibyte of 100 KiB values");
    world.run(&[b"HSET", b"h", b"large", &vec![b'v'; 3 << 20]]);
    let (mut cursor, mut seen) = ("0".to_owned(), 0);
    loop {
        let (next, fields) = step(&mut world, &cursor, &["COUNT", "10000"]);
        seen += fields.len();
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, 101, "a value over the bound comes, too");
}

/// What Redis holds as a list comes whole, and larger hashes do not.
#[test]
fn small_hashes_come_whole() {
    let mut world = World::new(Durability::No);
    fill(&mut world, "f", 512, b"v");
    let (next, fields) = step(&mut world, "0", &["COUNT", "3"]);
    assert_eq!((next.as_str(), fields.len()), ("0", 512));
    assert_eq!(world.line("OBJECT ENCODING h").text(), "\"listpack\"");
    world.line("HSET h one more");
    let (next, fields) = step(&mut world, "0", &["COUNT", "3"]);
    assert_ne!(next, "0");
    assert_eq!(fields.len(), 3);
    assert_eq!(world.line("OBJECT ENCODING h").text(), "\"hashtable\"");
}

/// One field named often is no way to ask for more memory than there is.
#[test]
fn a_reply_of_hmget_is_bounded() {
    let mut world = World::new(Durability::No);
    world.run(&[b"HSET", b"h", b"f", &vec![b'v'; 1 << 20]]);
    let mut words: Vec<&[u8]> = vec![b"HMGET", b"h"];
    words.extend(std::iter::repeat_n(b"f".as_slice(), 64));
    assert_eq!(
        world.run(&words).reply.unwrap().as_items().map(<[Value]>::len),
        Some(64)
    );
    words.push(b"f");
    let refused = world.run(&words).text();
    assert!(
        refused.starts_with("-ERR the values have more than 67108864 bytes"),
        "{refused}"
    );
}
