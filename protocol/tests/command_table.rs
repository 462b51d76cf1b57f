//! The command table: a golden dump of what clients and ACL files depend on, and the rules every row keeps.

use std::fmt::Write;

use idem_protocol::command::{self, Categories, CommandId, Flags, Keys, SubcommandId};
use idem_protocol::resp::Args;

/// One line a row: name, arity, flags, keys, categories; subcommands indented under their container.
fn dump() -> String {
    let mut out =
        String::from("# name | arity | flags | first key, last key, step | categories | joins the group\n");
    for spec in command::all() {
        let keys = format!("{} {} {}", spec.keys.first, spec.keys.last, spec.keys.step);
        let joins = if spec.joins_group { "joins" } else { "-" };
        writeln!(
            out,
            "{} | {} | {} | {keys} | {} | {joins}",
            spec.name, spec.arity, spec.flags, spec.categories
        )
        .expect("writing to a string");
        for sub in spec.subcommands {
            let keys = if sub.keys.first == 0 {
                "-".to_owned()
            } else {
                format!("{} {} {}", sub.keys.first, sub.keys.last, sub.keys.step)
            };
            writeln!(
                out,
                "  {} | {} | {} | {keys} | {}",
                sub.full_name, sub.arity, sub.flags, sub.categories
            )
            .expect("writing to a string");
        }
    }
    out
}

/// A difference is a change that clients see: look at every line, then replace the file by what the test printed.
#[test]
fn golden_dump() {
    let golden = include_str!("../testdata/command_table.txt");
    let found = dump();
    assert!(
        found == golden,
        "the table is not what testdata/command_table.txt says; it is now:\n{found}"
    );
}

#[test]
fn names_are_found_in_any_case() {
    for spec in command::all() {
        let upper = spec.name.to_ascii_uppercase();
        let mixed: String = spec
            .name
            .chars()
            .enumerate()
            .map(|(i, c)| if i % 2 == 0 { c.to_ascii_uppercase() } else { c })
            .collect();
        for name in [spec.name, &upper, &mixed] {
            assert_eq!(
                command::lookup(name.as_bytes()).map(|found| found.id),
                Some(spec.id),
                "{name}"
            );
        }
        assert_eq!(command::spec(spec.id).name, spec.name);
    }
}

#[test]
fn other_names_are_not_found() {
    let mut others: Vec<Vec<u8>> = vec![vec![], vec![0], b"*1".to_vec(), vec![b'g'; 100_000]];
    for spec in command::all() {
        let name = spec.name.as_bytes();
        others.push(name[..name.len() - 1].to_vec());
        others.push([name, b"x"].concat());
        others.push([name, b"\0"].concat());
        for place in 0..name.len() {
            for bit in [0x01, 0x10, 0x40, 0x80] {
                let mut changed = name.to_vec();
                changed[place] ^= bit;
                others.push(changed);
            }
        }
    }
    for name in others {
        let real = command::all()
            .iter()
            .any(|spec| spec.name.as_bytes().eq_ignore_ascii_case(&name));
        assert_eq!(command::lookup(&name).is_some(), real, "{}", name.escape_ascii());
    }
}

/// What a row may not forget or contradict.
#[test]
fn names_of_http_are_nobody_elses() {
    for (name, expected) in [
        ("POST", true),
        ("post", true),
        ("PoSt", true),
        ("Host:", true),
        ("HOST:", true),
        ("host", false),
        ("Host: x", false),
        ("posts", false),
        ("GET", false),
        ("", false),
    ] {
        assert_eq!(command::is_http(name.as_bytes()), expected, "{name}");
    }
    assert!(
        !command::all()
            .iter()
            .any(|spec| command::is_http(spec.name.as_bytes()))
    );
}

#[test]
fn rows_keep_the_rules() {
    for spec in command::all() {
        let name = spec.name;
        assert!(
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase()),
            "{name}"
        );
        assert!(spec.arity != 0 && spec.arity.unsigned_abs() < 10, "{name}");
        check_texts(
            name,
            &[spec.summary, spec.since, spec.group, spec.complexity],
            spec.summary,
        );
        assert!(
            command::syntax::is_well_formed(spec.syntax),
            "{name}: {}",
            spec.syntax
        );
        check_sets(name, spec.flags, spec.categories);
        assert_eq!(spec.is_container(), spec.subcommand_at != 0, "{name}");
        if spec.keys.first != 0 {
            assert!(spec.keys.step > 0 && !spec.keys.access.is_empty(), "{name}");
            // WATCH looks at its keys, and is for Redis no command that reads data.
            let reads_only = spec.keys.access[0] == "RO" && name != "watch";
            assert_eq!(
                reads_only,
                spec.flags.contains(Flags::READONLY),
                "{name}: {:?}",
                spec.keys.access
            );
            assert!(
                spec.arity.unsigned_abs() > 1,
                "{name}: its key is a mandatory argument"
            );
        }
        // The word of a subcommand is never where a key is.
        assert!(
            spec.keys.first == 0
                || spec.subcommand_at == 0
                || u16::from(spec.subcommand_at) > spec.keys.first
        );
        for sub in spec.subcommands {
            assert_eq!(sub.full_name, format!("{name}|{}", sub.name));
            assert_eq!(
                spec.subcommand(sub.name.to_ascii_uppercase().as_bytes())
                    .map(|s| s.id),
                Some(sub.id)
            );
            // A subcommand's keys stand behind its name, and its arity covers them.
            if sub.keys.first != 0 {
                assert!(
                    sub.keys.first > u16::from(spec.subcommand_at),
                    "{}",
                    sub.full_name
                );
                assert!(
                    sub.keys.step > 0 && sub.arity.unsigned_abs() > sub.keys.first,
                    "{}",
                    sub.full_name
                );
                let reads_only = sub.keys.access[0] == "RO";
                assert_eq!(
                    reads_only,
                    sub.flags.contains(Flags::READONLY),
                    "{}",
                    sub.full_name
                );
            }
            let bound = i16::from(spec.subcommand_at) + 1;
            assert!(
                i16::try_from(sub.arity.unsigned_abs()).is_ok_and(|a| a >= bound),
                "{}",
                sub.full_name
            );
            check_texts(
                sub.full_name,
                &[sub.summary, sub.since, sub.complexity],
                sub.summary,
            );
            assert!(
                command::syntax::is_well_formed(sub.syntax),
                "{}: {}",
                sub.full_name,
                sub.syntax
            );
        }
    }
}

fn check_texts(name: &str, texts: &[&str], summary: &str) {
    assert!(
        texts.iter().all(|text| !text.is_empty() && !text.contains('\n')),
        "{name}"
    );
    assert!(summary.ends_with('.') && summary.len() < 120, "{name}: {summary}");
}

/// Redis derives these from one another; the table spells them out.
fn check_sets(name: &str, flags: Flags, categories: Categories) {
    assert!(!flags.contains(Flags::WRITE.with(Flags::READONLY)), "{name}");
    assert!(
        !flags.contains(Flags::DENYOOM) || flags.contains(Flags::WRITE),
        "{name}"
    );
    assert_eq!(
        flags.contains(Flags::WRITE),
        categories.contains(Categories::WRITE),
        "{name}"
    );
    assert_eq!(
        flags.contains(Flags::READONLY),
        categories.contains(Categories::READ),
        "{name}"
    );
    assert!(
        !flags.contains(Flags::ADMIN) || categories.contains(Categories::ADMIN.with(Categories::DANGEROUS))
    );
    if name != "idem" {
        assert_eq!(
            flags.contains(Flags::FAST),
            categories.contains(Categories::FAST),
            "{name}"
        );
        assert_ne!(
            flags.contains(Flags::FAST),
            categories.contains(Categories::SLOW),
            "{name}"
        );
    }
}

/// The reviewed list: adding to it is a decision about every command that waits in the same group.
#[test]
fn commands_that_join_the_open_group() {
    let joining: Vec<&str> = command::all()
        .iter()
        .filter(|spec| spec.joins_group)
        .map(|spec| spec.name)
        .collect();
    let reviewed = [
        "idem",
        "limit",
        "once",
        "decr",
        "decrby",
        "get",
        "getdel",
        "getex",
        "getset",
        "incr",
        "incrby",
        "psetex",
        "set",
        "setex",
        "setnx",
        "strlen",
        "expire",
        "expireat",
        "expiretime",
        "persist",
        "pexpire",
        "pexpireat",
        "pexpiretime",
        "pttl",
        "ttl",
        "type",
        "hdel",
        "hexists",
        "hget",
        "hincrby",
        "hlen",
        "hmget",
        "hmset",
        "hset",
        "hsetnx",
        "hstrlen",
    ];
    assert_eq!(joining, reviewed);
    for spec in command::all().iter().filter(|spec| spec.joins_group) {
        assert_eq!(
            (spec.keys.first, spec.keys.last),
            (1, 1),
            "{}: exactly one key",
            spec.name
        );
    }
}

/// IDEM as operators and ACL rules see it.
#[test]
fn idem_and_its_actions() {
    let idem = command::spec(CommandId::Idem);
    assert_eq!(
        (
            idem.flags.to_string().as_str(),
            idem.categories.to_string().as_str()
        ),
        ("write denyoom", "@write")
    );
    assert_eq!((idem.keys.first, idem.keys.last, idem.keys.step), (1, 1, 1));
    let reads = |sub: &&command::SubcommandSpec| sub.categories.contains(Categories::READ);
    let reading: Vec<SubcommandId> = idem.subcommands.iter().filter(reads).map(|sub| sub.id).collect();
    assert_eq!(reading, [SubcommandId::IdemInspect]);
    let abort = idem.subcommand(b"Abort").expect("an action");
    assert!(
        !abort.flags.contains(Flags::DENYOOM),
        "freeing memory is never refused for the lack of it"
    );
}

#[test]
fn sets_print_and_parse() {
    assert_eq!(Flags::NONE.to_string(), "");
    assert_eq!(Flags::FAST.with(Flags::WRITE).to_string(), "write fast");
    assert!(Flags::NONE.is_empty() && !Flags::FAST.is_empty());
    assert!(Flags::FAST.with(Flags::WRITE).intersects(Flags::WRITE) && !Flags::FAST.intersects(Flags::WRITE));
    for (category, name) in Categories::ALL {
        for spelled in [name.to_string(), name[1..].to_string(), name.to_uppercase()] {
            assert_eq!(
                Categories::by_name(spelled.as_bytes()),
                Some(*category),
                "{spelled}"
            );
        }
    }
    for name in ["", "@", "@@read", "reads", "rea", "all"] {
        assert_eq!(Categories::by_name(name.as_bytes()), None, "{name}");
    }
}

#[test]
fn keys_of_calls() {
    let check = |call: &[&str], expected: &[&str]| {
        let bytes: Vec<&[u8]> = call.iter().map(|argument| argument.as_bytes()).collect();
        let args = Args::from(bytes.as_slice());
        let spec = command::lookup(args.name()).expect("a command");
        let keys: Keys<'_> = command::keys(spec, args);
        let expected: Vec<&[u8]> = expected.iter().map(|key| key.as_bytes()).collect();
        assert_eq!(keys.collect::<Vec<_>>(), expected, "{call:?}");
    };
    check(&["IDEM", "k", "BEGIN", "f", "o", "1"], &["k"]);
    check(&["IDEM", "begin", "INSPECT"], &["begin"]);
    check(&["GET", "k"], &["k"]);
    check(&["SET", "k", "v", "EX", "1"], &["k"]);
    check(&["DEL", "a", "b", "a"], &["a", "b", "a"]);
    check(&["EXISTS", ""], &[""]);
    check(&["HSET", "h", "f", "v"], &["h"]);
    check(&["MSET", "a", "1", "b", "2"], &["a", "b"]);
    check(&["MSET", "a", "1", "b"], &["a", "b"]);
    check(&["PING", "k"], &[]);
    check(&["CLIENT", "ID"], &[]);
    check(&["SCAN", "0"], &[]);
    check(&["OBJECT", "ENCODING", "k"], &["k"]);
    check(&["object", "help", "k"], &[]);
    check(&["OBJECT", "NOTHING", "k"], &[]);
    check(&["CONFIG", "GET", "k"], &[]);
    // Too few arguments: what is there, and never a panic.
    check(&["GET"], &[]);
    check(&["DEL"], &[]);
    check(&["IDEM"], &[]);
}
