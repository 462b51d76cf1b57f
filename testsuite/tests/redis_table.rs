//! The command table beside a real `redis-server`: what `COMMAND INFO` says of each command that both have.
//!
//! Clients, proxies and ACL files depend on it. The table is Redis 7.2's; what an older Redis says otherwise is listed
//! here with the reason, and so is what idemd says otherwise on purpose. A difference that is not listed fails, and so does
//! a listed one that is none any more.

use std::collections::BTreeSet;

use idem_protocol::command;
use idem_protocol::resp::value::Value;
use idem_testsuite::contract::{Connection, NodeTarget, RedisTarget, Target};
use idem_testsuite::require::skip;
use idem_testsuite::testdir::TestDir;

/// Fields of an entry, in its order.
const FIELDS: [&str; 10] = [
    "name",
    "arity",
    "flags",
    "first",
    "last",
    "step",
    "categories",
    "tips",
    "key specs",
    "subcommands",
];

/// Commands that Redis does not have.
const OURS: [&str; 3] = ["idem", "limit", "once"];

/// `name field`, and why the two differ there.
const DIFFERENT: &[(&str, &str)] = &[
    ("client|no-touch entry", "came with 7.2"),
    ("client|setinfo entry", "came with 7.2"),
    ("client|setname tips", "7.2 says that it goes to all nodes"),
    ("cluster|myshardid entry", "came with 7.2"),
    ("cluster|shards flags", "7.2 answers while it loads"),
    ("cluster|slots flags", "7.2 answers while it loads"),
    ("command|getkeys arity", "7.2 takes a command without arguments"),
    (
        "command|getkeysandflags arity",
        "7.2 takes a command without arguments",
    ),
    ("config|resetstat tips", "7.2 says that it goes to all nodes"),
    ("config|rewrite tips", "7.2 says that it goes to all nodes"),
    ("latency|reset tips", "7.2 has the counts added"),
    (
        "msetnx tips",
        "7.0 has it split over shards, which it cannot be; 7.2 has not",
    ),
    ("randomkey tips", "7.2 says how answers are merged"),
    ("scan tips", "7.2 says how answers are merged"),
];

#[test]
fn the_table_is_that_of_redis() {
    let dir = TestDir::new("redis-table", 1);
    let mut redis = match RedisTarget::start(&dir.data()) {
        Ok(redis) => redis,
        Err(reason) => return skip("the_table_is_that_of_redis", &reason),
    };
    let listed: BTreeSet<&str> = DIFFERENT.iter().map(|(place, _)| *place).collect();
    let mut found = BTreeSet::new();
    let mut shown = Vec::new();
    let mut ours = NodeTarget::new().connect();
    let mut theirs = redis.connect();
    for spec in command::all().iter().filter(|spec| !OURS.contains(&spec.name)) {
        let (mine, other) = (info(&mut ours, spec.name), info(&mut theirs, spec.name));
        differences(spec.name, &mine, &other, &mut |place, text| {
            shown.push(format!("{place}: {text}"));
            found.insert(place);
        });
    }
    for name in OURS {
        assert_eq!(info(&mut theirs, name), Value::Null, "{name}");
    }
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let new: Vec<_> = shown
        .iter()
        .filter(|text| !listed.iter().any(|place| text.starts_with(&format!("{place}: "))))
        .collect();
    assert!(
        new.is_empty(),
        "not as Redis {:?} has it:\n{new:#?}",
        redis.version()
    );
    // A Redis that is new enough has fewer of them.
    if redis.version() < (7, 2) {
        assert_eq!(found, listed, "what is listed is still different");
    }
}

fn info(connection: &mut impl Connection, name: &str) -> Value {
    connection
        .send(&[b"COMMAND", b"INFO", name.as_bytes()])
        .unwrap_or_else(|error| panic!("COMMAND INFO {name}: {error}"));
    let reply = connection
        .receive()
        .unwrap_or_else(|error| panic!("COMMAND INFO {name}: {error}"));
    match reply {
        Value::Array(mut items) if items.len() == 1 => items.remove(0),
        other => panic!("COMMAND INFO {name} answered {other:?}"),
    }
}

/// Calls `report` with each place where two entries differ. Of subcommands, those that both have are compared.
fn differences(name: &str, ours: &Value, theirs: &Value, report: &mut dyn FnMut(String, String)) {
    let (Some(ours), Some(theirs)) = (ours.as_items(), theirs.as_items()) else {
        return report(format!("{name} entry"), format!("{ours:?} and {theirs:?}"));
    };
    for ((field, mine), other) in FIELDS.iter().zip(ours).zip(theirs) {
        if *field == "subcommands" {
            for sub in mine.as_items().unwrap_or_default() {
                let other = other
                    .as_items()
                    .unwrap_or_default()
                    .iter()
                    .find(|other| title(other) == title(sub));
                match other {
                    Some(other) => differences(&title(sub), sub, other, report),
                    None => report(format!("{} entry", title(sub)), "is ours only".to_owned()),
                }
            }
            continue;
        }
        let (mine, other) = (canonical(mine), canonical(other));
        if mine != other {
            report(format!("{name} {field}"), format!("{mine} and {other}"));
        }
    }
}

fn title(entry: &Value) -> String {
    let name = entry
        .as_items()
        .and_then(|items| items.first())
        .and_then(Value::as_bytes);
    String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
}

/// A field as text: flags, categories and tips are sets, and key specs are flat maps whose `notes` are for people.
fn canonical(field: &Value) -> String {
    let Some(items) = field.as_items() else {
        return match field {
            Value::Int(number) => number.to_string(),
            other => String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned(),
        };
    };
    let is_map = items.len() > 1 && items.first().and_then(Value::as_bytes) == Some(b"notes");
    let items = if is_map { &items[2..] } else { items };
    // A map's keys come first in each pair: sorting would tear pairs apart.
    let mut texts: Vec<String> = items.iter().map(canonical).collect();
    let is_set = items.iter().all(|item| matches!(item, Value::Simple(_)));
    if is_set {
        texts.sort();
    }
    format!("[{}]", texts.join(" "))
}
