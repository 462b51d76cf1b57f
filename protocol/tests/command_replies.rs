//! `COMMAND` and its subcommands as clients read them, through the wire in both versions.

use idem_protocol::command::docs::{self, help_reply};
use idem_protocol::command::{self, CommandId};
use idem_protocol::resp::Args;
use idem_protocol::resp::Protocol::{self, Resp2, Resp3};
use idem_protocol::resp::encode::{Reply, encode};
use idem_protocol::resp::value::{ReplyDecoder, Value};

const NOTHING: &[&[u8]] = &[];

fn read(reply: &Reply<'_>, protocol: Protocol) -> Value {
    let mut bytes = Vec::new();
    encode(reply, protocol, &mut bytes);
    let mut decoder = ReplyDecoder::new();
    decoder.push(&bytes);
    let value = decoder.next().expect("well-formed").expect("whole");
    assert!(!decoder.in_reply());
    value
}

/// A value in one line: strings bare, arrays in brackets, sets in braces, maps as `{k: v}`.
fn show(value: &Value) -> String {
    let all = |items: &[Value]| items.iter().map(show).collect::<Vec<_>>().join(", ");
    match value {
        Value::Int(number) => number.to_string(),
        Value::Null => "null".into(),
        Value::Array(items) => format!("[{}]", all(items)),
        Value::Set(items) => format!("{{{}}}", all(items)),
        Value::Map(pairs) => {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(key, value)| format!("{}: {}", show(key), show(value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Error(text) => format!("-{text}"),
        other => String::from_utf8_lossy(other.as_bytes().expect("a string")).into_owned(),
    }
}

fn names<'a>(words: &'a [&'a [u8]]) -> Args<'a> {
    Args::from(words)
}

fn info(words: &[&[u8]], protocol: Protocol) -> String {
    show(&read(&docs::command_info_reply(names(words)), protocol))
}

#[test]
fn an_entry_has_ten_elements() {
    assert_eq!(
        info(&[b"GET"], Resp3),
        "[[get, 2, {readonly, fast}, 1, 1, 1, {@read, @string, @fast}, {}, \
         {{flags: {RO, access}, begin_search: {type: index, spec: {index: 1}}, \
         find_keys: {type: range, spec: {lastkey: 0, keystep: 1, limit: 0}}}}, []]]"
    );
    assert_eq!(
        info(&[b"get"], Resp2),
        "[[get, 2, [readonly, fast], 1, 1, 1, [@read, @string, @fast], [], \
         [[flags, [RO, access], begin_search, [type, index, spec, [index, 1]], \
         find_keys, [type, range, spec, [lastkey, 0, keystep, 1, limit, 0]]]], []]]"
    );
    assert_eq!(
        info(&[b"del"], Resp3),
        "[[del, -2, {write}, 1, -1, 1, {@keyspace, @write, @slow}, \
         {request_policy:multi_shard, response_policy:agg_sum}, \
         {{flags: {RM, delete}, begin_search: {type: index, spec: {index: 1}}, \
         find_keys: {type: range, spec: {lastkey: -1, keystep: 1, limit: 0}}}}, []]]"
    );
    assert_eq!(
        info(&[b"lastsave"], Resp3),
        "[[lastsave, 1, {loading, stale, fast}, 0, 0, 0, {@admin, @fast, @dangerous}, {nondeterministic_output}, {}, []]]"
    );
}

/// One command, one key, and no subcommands that a client would look for in the key's place.
#[test]
fn idem_is_shown_as_a_plain_command() {
    let shown = info(&[b"IDEM"], Resp3);
    assert!(
        shown.starts_with("[[idem, -3, {write, denyoom}, 1, 1, 1, {@write}, {}, "),
        "{shown}"
    );
    assert!(shown.ends_with(", []]]"), "{shown}");
}

#[test]
fn info_of_subcommands_and_strangers() {
    assert_eq!(
        info(
            &[
                b"nothing",
                b"CLIENT|SetName",
                b"client|nothing",
                b"nothing|id",
                b"get|x",
                b"|"
            ],
            Resp3
        ),
        "[null, [client|setname, 3, {noscript, loading, stale}, 0, 0, 0, {@slow, @connection}, \
         {request_policy:all_nodes, response_policy:all_succeeded}, {}, []], null, null, null, null]"
    );
    let client = info(&[b"client"], Resp3);
    assert!(
        client.starts_with("[[client, -2, {}, 0, 0, 0, {@slow}, {}, {}, [[client|caching, 3, "),
        "{client}"
    );
}

#[test]
fn all_commands() {
    for protocol in [Resp2, Resp3] {
        let whole = read(&docs::command_reply(None), protocol);
        let entries = whole.as_items().expect("an array");
        assert_eq!(entries.len(), command::all().len());
        assert!(
            entries
                .iter()
                .all(|entry| entry.as_items().map(<[Value]>::len) == Some(10))
        );
        assert_eq!(whole, read(&docs::command_info_reply(names(NOTHING)), protocol));
        assert_eq!(
            read(&docs::command_count(), protocol).as_int(),
            i64::try_from(entries.len()).ok()
        );
    }
    let two = [command::spec(CommandId::Get), command::spec(CommandId::Set)];
    assert_eq!(
        read(&docs::command_reply(Some(&two)), Resp2)
            .as_items()
            .map(<[Value]>::len),
        Some(2)
    );
}

fn described(words: &[&[u8]]) -> String {
    show(&read(&docs::command_docs_reply(names(words)), Resp3))
}

#[test]
fn docs_describe_arguments() {
    assert_eq!(
        described(&[b"ttl", b"nothing"]),
        "{ttl: {summary: Returns the time to live of a key in seconds: -1 without one, -2 without a key., since: 1.0.0, \
         group: generic, complexity: O(1), \
         arguments: [{name: key, type: key, display_text: key, key_spec_index: 0}]}}"
    );
    let set = described(&[b"set"]);
    let parts = [
        "{name: value, type: string, display_text: value}",
        "{name: oneof, type: oneof, flags: {optional}, arguments: [{name: nx, type: pure-token, display_text: nx, token: NX}, ",
        "{name: get, type: pure-token, display_text: get, token: GET, flags: {optional}}",
        "{name: seconds, type: integer, display_text: seconds, token: EX}",
        "{name: unix-time-milliseconds, type: unix-time, display_text: unix-time-milliseconds, token: PXAT}",
        "{name: keepttl, type: pure-token, display_text: keepttl, token: KEEPTTL}]}]}}",
    ];
    for part in parts {
        assert!(set.contains(part), "{part} in {set}");
    }
    let hset = described(&[b"hset"]);
    let block = "{name: block, type: block, flags: {multiple}, arguments: [{name: field, type: string, \
                 display_text: field}, {name: value, type: string, display_text: value}]}";
    assert!(hset.contains(block), "{hset}");
    let info = described(&[b"info"]);
    let many =
        "arguments: [{name: section, type: string, display_text: section, flags: {optional, multiple}}]";
    assert!(info.contains(many), "{info}");
    let hello = described(&[b"hello"]);
    let auth = "{name: auth, type: block, token: AUTH, flags: {optional}, arguments: [{name: username, ";
    assert!(hello.contains(auth), "{hello}");
    assert!(!described(&[b"quit"]).contains("arguments"));
}

#[test]
fn docs_list_subcommands_and_actions() {
    let value = read(&docs::command_docs_reply(names(&[b"IDEM", b"command"])), Resp3);
    let subs = |name: &[u8]| -> Vec<String> {
        match value.entry(name).and_then(|docs| docs.entry(b"subcommands")) {
            Some(Value::Map(pairs)) => pairs.iter().map(|(name, _)| show(name)).collect(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        subs(b"idem"),
        ["idem|abort", "idem|begin", "idem|complete", "idem|inspect"]
    );
    assert_eq!(subs(b"command").len(), 7);
    let begin = described(&[b"idem|begin"]);
    assert!(begin.starts_with("{idem|begin: {summary: "), "{begin}");
    assert!(
        begin.contains("{name: ttl-ms, type: integer, display_text: ttl-ms}"),
        "{begin}"
    );
    let everything = read(&docs::command_docs_reply(names(NOTHING)), Resp2);
    assert_eq!(
        everything.as_items().map(<[Value]>::len),
        Some(command::all().len() * 2)
    );
}

fn list(words: &[&str]) -> String {
    let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    show(&read(&docs::command_list(names(&bytes)), Resp3))
}

#[test]
fn lists_can_be_filtered() {
    let everything = list(&[]);
    assert!(
        everything.starts_with("[idem, idem|abort, idem|begin, "),
        "{everything}"
    );
    let subs: usize = command::all().iter().map(|spec| spec.subcommands.len()).sum();
    assert_eq!(everything.matches(", ").count() + 1, command::all().len() + subs);
    assert_eq!(
        list(&["filterby", "PATTERN", "h*"]),
        "[hdel, hexists, hget, hgetall, hincrby, hkeys, hlen, hmget, hmset, hscan, hset, hsetnx, hstrlen, hvals, hello]"
    );
    assert_eq!(
        list(&["FILTERBY", "pattern", "CLIENT|SET*"]),
        "[client|setinfo, client|setname]"
    );
    assert_eq!(
        list(&["FILTERBY", "ACLCAT", "hash"]),
        "[hdel, hexists, hget, hgetall, hincrby, hkeys, hlen, hmget, hmset, hscan, hset, hsetnx, hstrlen, hvals]"
    );
    let read = list(&["FILTERBY", "ACLCAT", "read"]);
    assert!(read.starts_with("[idem|inspect, get, "), "{read}");
    assert_eq!(list(&["FILTERBY", "ACLCAT", "nothing"]), "[]");
    assert_eq!(list(&["FILTERBY", "MODULE", "json"]), "[]");
    for wrong in [
        &["FILTERBY"][..],
        &["FILTERBY", "PATTERN"],
        &["FILTER", "PATTERN", "*"],
        &["FILTERBY", "X", "*"],
    ] {
        assert_eq!(list(wrong), "-ERR syntax error");
    }
}

#[test]
fn keys_can_be_asked_for() {
    let check = |call: &[&str], expected: &str| {
        let bytes: Vec<&[u8]> = call.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(
            show(&read(&docs::command_getkeys(names(&bytes)), Resp2)),
            expected,
            "{call:?}"
        );
    };
    check(&["set", "k", "v"], "[k]");
    check(&["DEL", "a", "b"], "[a, b]");
    check(&["idem", "k", "begin", "f", "o", "1"], "[k]");
    check(&["idem", "k", "whatever"], "[k]");
    check(&["object", "encoding", "k"], "[k]");
    check(&["OBJECT", "help"], "-ERR The command has no key arguments");
    check(&["object"], "-ERR The command has no key arguments");
    check(&["object", "nothing", "k"], "-ERR Invalid command specified");
    check(
        &["object", "freq"],
        "-ERR Invalid number of arguments specified for command",
    );
    check(&["config", "get", "k"], "-ERR The command has no key arguments");
    check(&["nothing", "k"], "-ERR Invalid command specified");
    check(&["ping", "k"], "-ERR The command has no key arguments");
    check(&["get"], "-ERR Invalid number of arguments specified for command");
    check(&[], "-ERR Invalid command specified");
}

#[test]
fn keys_can_be_asked_for_with_what_is_done_to_them() {
    let check = |call: &[&str], expected: &str| {
        let bytes: Vec<&[u8]> = call.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(
            show(&read(&docs::command_getkeysandflags(names(&bytes)), Resp3)),
            expected,
            "{call:?}"
        );
    };
    check(&["get", "k"], "[[k, {RO, access}]]");
    check(&["set", "k", "v"], "[[k, {OW, update}]]");
    check(
        &["set", "k", "v", "ex", "1", "get"],
        "[[k, {RW, access, update}]]",
    );
    check(&["DEL", "a", "b"], "[[a, {RM, delete}], [b, {RM, delete}]]");
    check(
        &["idem", "k", "begin", "f", "o", "1"],
        "[[k, {RW, access, update}]]",
    );
    check(&["ping", "k"], "-ERR The command has no key arguments");
    check(&["get"], "-ERR Invalid number of arguments specified for command");
    check(&["nothing", "k"], "-ERR Invalid command specified");
    // A reply for each key is a small tree: their number is bounded.
    let mut many = vec!["del"; 1 + 16_384];
    let bytes =
        |many: &[&'static str]| -> Vec<&'static [u8]> { many.iter().map(|word| word.as_bytes()).collect() };
    let most = bytes(&many);
    let keys = read(&docs::command_getkeysandflags(names(&most)), Resp2);
    assert_eq!(keys.as_items().map(<[Value]>::len), Some(16_384));
    many.push("del");
    check(&many, "-ERR more than 16384 keys, ask for fewer");
}

#[test]
fn help_lists_every_subcommand() {
    let client = show(&read(&help_reply(command::spec(CommandId::Client)), Resp2));
    assert!(
        client.starts_with(
            "[CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:, CACHING <YES | NO>, "
        ),
        "{client}"
    );
    assert!(
        client.contains("SETINFO <LIB-NAME libname | LIB-VER libver>, "),
        "{client}"
    );
}

#[test]
fn notation_that_is_not_well_formed() {
    for text in [
        "[",
        "]",
        "<a",
        "a>",
        "[a | ]",
        "[]",
        "a ...",
        "[a ... | b]",
        "a | b",
        "<A [b]>",
        "[a> b",
    ] {
        assert!(!command::syntax::is_well_formed(text), "{text}");
    }
    for text in [
        "",
        "a",
        "A",
        "[a]",
        "<A | b | C d>",
        "a [a ...]",
        "[a ...]",
        "a b [a b ...] [C]",
    ] {
        assert!(command::syntax::is_well_formed(text), "{text}");
    }
}
