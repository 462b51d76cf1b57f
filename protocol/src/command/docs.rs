//! The replies of `COMMAND` and its subcommands, generated from the table in the layout of Redis 7.2.
//!
//! They are built anew for each call: a client asks once when it connects. Lists come in the order of the table, where
//! Redis has none.

use super::args;
use super::errors::{self, Text};
use super::flags::{Categories, Flags};
use super::spec::{CommandId, CommandSpec, KeySpec, SubcommandSpec};
use super::{Route, all, keys, lookup, syntax};
use crate::resp::Args;
use crate::resp::encode::Reply;

/// `COMMAND`: the given commands, all of them for `None`.
pub fn command_reply(specs: Option<&[&'static CommandSpec]>) -> Reply<'static> {
    Reply::Array(match specs {
        Some(specs) => specs.iter().map(|spec| entry(spec)).collect(),
        None => all().iter().map(entry).collect(),
    })
}

/// `COMMAND INFO [name …]`: an entry for each name, null for one that is no command; all commands without a name.
/// `container|subcommand` names a subcommand.
pub fn command_info_reply(names: Args<'_>) -> Reply<'static> {
    if names.is_empty() {
        return command_reply(None);
    }
    Reply::Array(
        names
            .iter()
            .map(|name| match by_full_name(name) {
                None => Reply::Null,
                Some(Route {
                    spec,
                    subcommand: None,
                }) => entry(spec),
                Some(Route {
                    spec,
                    subcommand: Some(sub),
                }) => sub_entry(spec, sub),
            })
            .collect(),
    )
}

/// `COMMAND DOCS [name …]`: a map from names to descriptions; a name that is no command is left out.
pub fn command_docs_reply(names: Args<'_>) -> Reply<'static> {
    if names.is_empty() {
        return Reply::Map(
            all()
                .iter()
                .map(|spec| (Reply::text(spec.name), docs(spec)))
                .collect(),
        );
    }
    let described = |route: Route| {
        let docs = match route.subcommand {
            None => docs(route.spec),
            Some(sub) => sub_docs(route.spec, sub),
        };
        (Reply::text(route.full_name()), docs)
    };
    Reply::Map(names.iter().filter_map(by_full_name).map(described).collect())
}

/// `COMMAND COUNT`: subcommands do not count.
pub fn command_count() -> Reply<'static> {
    Reply::Int(i64::try_from(all().len()).unwrap_or(i64::MAX))
}

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`: names, subcommands included. `options` is
/// what stands behind `LIST`. An unknown category gives an empty list, as every module does: there are none here.
pub fn command_list(options: Args<'_>) -> Reply<'static> {
    enum Filter {
        Everything,
        Nothing,
        Category(Categories),
        Pattern(args::Glob),
    }
    let filter = match (options.len(), options.get(0), options.get(1), options.get(2)) {
        (0, ..) => Filter::Everything,
        (3, Some(filterby), Some(kind), Some(value)) if args::is(filterby, "filterby") => {
            if args::is(kind, "module") {
                Filter::Nothing
            } else if args::is(kind, "aclcat") {
                // Redis takes the category without its @.
                Categories::by_name(value).map_or(Filter::Nothing, Filter::Category)
            } else if args::is(kind, "pattern") {
                Filter::Pattern(args::Glob::new(value, true))
            } else {
                return Reply::Error(errors::syntax());
            }
        }
        _ => return Reply::Error(errors::syntax()),
    };
    let wanted = |name: &str, categories: Categories| match &filter {
        Filter::Everything => true,
        Filter::Nothing => false,
        Filter::Category(category) => categories.contains(*category),
        Filter::Pattern(pattern) => pattern.matches(name.as_bytes()),
    };
    let names = all().iter().flat_map(|spec| {
        let subs = spec.subcommands.iter().map(|sub| (sub.full_name, sub.categories));
        std::iter::once((spec.name, spec.categories)).chain(subs)
    });
    Reply::Array(
        names
            .filter(|(name, categories)| wanted(name, *categories))
            .map(|(name, _)| Reply::text(name))
            .collect(),
    )
}

/// `COMMAND GETKEYS command [arg …]`; `call` is what stands behind `GETKEYS`. Held as one list of slices: a call may have
/// half a million keys, and a tree of replies would be many times as large.
pub fn command_getkeys(call: Args<'_>) -> Reply<'_> {
    match call_keys(call) {
        Ok(keys) => Reply::Bulks(keys.collect()),
        Err(text) => Reply::Error(text),
    }
}

/// Keys that one `COMMAND GETKEYSANDFLAGS` answers at most: each is a small tree of replies.
const KEYS_WITH_FLAGS_MAX: usize = 16_384;

/// `COMMAND GETKEYSANDFLAGS command [arg …]`: as [`command_getkeys`], and with each key what the command does to it.
pub fn command_getkeysandflags(call: Args<'_>) -> Reply<'_> {
    let (spec, sub) = match called(call) {
        Ok(route) => route,
        Err(text) => return Reply::Error(text),
    };
    let keys = keys::keys(spec, call);
    if keys.clone().nth(KEYS_WITH_FLAGS_MAX).is_some() {
        return Reply::Error(format!("ERR more than {KEYS_WITH_FLAGS_MAX} keys, ask for fewer").into());
    }
    Reply::Array(
        keys.map(|key| {
            Reply::Array(vec![
                Reply::Bulk(key),
                Reply::Set(access_of_call(spec, sub, call)),
            ])
        })
        .collect(),
    )
}

/// What a call does to its keys.
fn access_of_call<'r>(
    spec: &'static CommandSpec,
    sub: Option<&'static SubcommandSpec>,
    call: Args<'_>,
) -> Vec<Reply<'r>> {
    // The one row whose access depends on the arguments behind key and value.
    if spec.id == CommandId::Set {
        let gets = call.tail(3).iter().any(|option| args::is(option, "get"));
        let first = if gets { &["RW", "access"][..] } else { &["OW"] };
        return first
            .iter()
            .chain(&["update"])
            .map(|word| Reply::Simple(word))
            .collect();
    }
    access_of(spec.keys_of(sub))
}

fn call_keys(call: Args<'_>) -> Result<keys::Keys<'_>, Text> {
    called(call).map(|(spec, _)| keys::keys(spec, call))
}

/// The rows of a call whose keys are asked for.
fn called(call: Args<'_>) -> Result<(&'static CommandSpec, Option<&'static SubcommandSpec>), Text> {
    let spec = lookup(call.name()).ok_or_else(errors::getkeys_unknown)?;
    let sub = match spec.subcommand_word(call) {
        Some(word) => match spec.subcommand(word) {
            // IDEM's keys are there whatever its action is.
            None if spec.subcommand_at == 1 => return Err(errors::getkeys_unknown()),
            sub => sub,
        },
        None => None,
    };
    if spec.keys_of(sub).first == 0 {
        return Err(errors::getkeys_without_keys());
    }
    let arity_ok = sub.map_or_else(|| spec.arity_ok(call.len()), |sub| sub.arity_ok(call.len()));
    if !arity_ok {
        return Err(errors::getkeys_arity());
    }
    Ok((spec, sub))
}

/// `CONTAINER HELP`: the subcommands, one line each and one for what they do.
pub fn help_reply(spec: &'static CommandSpec) -> Reply<'static> {
    let name = spec.name.to_ascii_uppercase();
    let intro = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    let mut lines = vec![Reply::Owned(intro.into_bytes())];
    for sub in spec.subcommands {
        let call = format!("{} {}", sub.name.to_ascii_uppercase(), sub.syntax);
        lines.push(Reply::Owned(call.trim_end().as_bytes().to_vec()));
        lines.push(Reply::Owned(format!("    {}", sub.summary).into_bytes()));
    }
    Reply::Array(lines)
}

/// The row that `get` or `client|setname` names, in any case.
fn by_full_name(name: &[u8]) -> Option<Route> {
    let Some(bar) = name.iter().position(|&byte| byte == b'|') else {
        return lookup(name).map(|spec| Route {
            spec,
            subcommand: None,
        });
    };
    let spec = lookup(name.get(..bar)?)?;
    let sub = spec.subcommand(name.get(bar + 1..)?)?;
    Some(Route {
        spec,
        subcommand: Some(sub),
    })
}

fn entry(spec: &CommandSpec) -> Reply<'static> {
    // Only what clients look for at argument 1; the module's page of `command` has the reason.
    let shown = if spec.subcommand_at == 1 {
        spec.subcommands
    } else {
        &[]
    };
    ten(
        (spec.name, spec.arity, spec.flags, spec.categories),
        spec.tips,
        &spec.keys,
        shown.iter().map(|sub| sub_entry(spec, sub)).collect(),
    )
}

fn sub_entry(spec: &CommandSpec, sub: &'static SubcommandSpec) -> Reply<'static> {
    ten(
        (sub.full_name, sub.arity, sub.flags, sub.categories),
        sub.tips,
        spec.keys_of(Some(sub)),
        Vec::new(),
    )
}

/// The ten elements of an entry: name, arity, flags, first key, last key, step, categories, tips, key specifications,
/// subcommands.
fn ten(
    (name, arity, flags, categories): (&'static str, i16, Flags, Categories),
    tips: &'static [&'static str],
    keys: &KeySpec,
    subcommands: Vec<Reply<'static>>,
) -> Reply<'static> {
    Reply::Array(vec![
        Reply::text(name),
        Reply::Int(arity.into()),
        Reply::Set(flags.names().map(Reply::Simple).collect()),
        Reply::Int(keys.first.into()),
        Reply::Int(keys.last.into()),
        Reply::Int(keys.step.into()),
        Reply::Set(categories.names().map(Reply::Simple).collect()),
        Reply::Set(tips.iter().map(|tip| Reply::text(tip)).collect()),
        Reply::Set(key_specifications(keys)),
        Reply::Array(subcommands),
    ])
}

/// The newer description of keys: where to begin, then how to go on from there, `lastkey` counted from the first key.
fn key_specifications(keys: &KeySpec) -> Vec<Reply<'static>> {
    if keys.first == 0 {
        return Vec::new();
    }
    let first = i64::from(keys.first);
    let last = i64::from(keys.last);
    let map = |entries: Vec<(&'static str, Reply<'static>)>| {
        Reply::Map(
            entries
                .into_iter()
                .map(|(name, value)| (Reply::text(name), value))
                .collect(),
        )
    };
    let begin = map(vec![
        ("type", Reply::text("index")),
        ("spec", map(vec![("index", Reply::Int(first))])),
    ]);
    let range = map(vec![
        ("lastkey", Reply::Int(if last < 0 { last } else { last - first })),
        ("keystep", Reply::Int(keys.step.into())),
        ("limit", Reply::Int(0)),
    ]);
    vec![map(vec![
        ("flags", Reply::Set(access_of(keys))),
        ("begin_search", begin),
        (
            "find_keys",
            map(vec![("type", Reply::text("range")), ("spec", range)]),
        ),
    ])]
}

fn access_of<'r>(keys: &KeySpec) -> Vec<Reply<'r>> {
    keys.access.iter().map(|name| Reply::Simple(name)).collect()
}

fn docs(spec: &CommandSpec) -> Reply<'static> {
    let mut entries = description(spec.summary, spec.since, spec.group, spec.complexity, spec.syntax);
    if spec.is_container() {
        let subs = spec
            .subcommands
            .iter()
            .map(|sub| (Reply::text(sub.full_name), sub_docs(spec, sub)));
        entries.push((Reply::text("subcommands"), Reply::Map(subs.collect())));
    }
    Reply::Map(entries)
}

fn sub_docs(spec: &CommandSpec, sub: &SubcommandSpec) -> Reply<'static> {
    Reply::Map(description(
        sub.summary,
        sub.since,
        spec.group,
        sub.complexity,
        sub.syntax,
    ))
}

fn description(
    summary: &'static str,
    since: &'static str,
    group: &'static str,
    complexity: &'static str,
    syntax: &'static str,
) -> Vec<(Reply<'static>, Reply<'static>)> {
    let texts = [
        ("summary", summary),
        ("since", since),
        ("group", group),
        ("complexity", complexity),
    ];
    let mut entries: Vec<_> = texts
        .into_iter()
        .map(|(name, text)| (Reply::text(name), Reply::text(text)))
        .collect();
    if let Some(arguments) = syntax::arguments_reply(syntax) {
        entries.push((Reply::text("arguments"), arguments));
    }
    entries
}
