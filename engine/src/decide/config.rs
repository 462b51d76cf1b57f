//! `CONFIG`: what the server was started with.
//!
//! The options are the server's; what they are called and how they are spelled comes with the facts. None can be changed
//! while the server runs, and a client that tries is told so: an answer of OK would be a promise that nobody keeps.

use idem_protocol::command::args::Glob;
use idem_protocol::command::{SubcommandId, docs};
use idem_protocol::resp::Args;
use idem_protocol::resp::encode::Reply;

use super::introspect::shorten;
use super::{Call, Decided, View, bound};
use crate::decision::Decision;

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    match call.subcommand() {
        Some(SubcommandId::ConfigSet) => Err(
            "ERR CONFIG SET is not in this version: options are given at the start, as flags or in the file that \
             --config names"
                .into(),
        ),
        Some(SubcommandId::ConfigRewrite) => {
            Err("ERR CONFIG REWRITE is not in this version: the server never writes its configuration file".into())
        }
        Some(SubcommandId::ConfigResetstat) => {
            Err("ERR CONFIG RESETSTAT is not in this version: counters restart with the process".into())
        }
        Some(SubcommandId::ConfigHelp) => Ok(Decision::reply(shorten(docs::help_reply(call.route.spec)))),
        _ => Ok(Decision::reply(get(bound::names(call.args.tail(2))?, view))),
    }
}

/// Each option once, under the first pattern that it matches. A pattern without wildcards answers under the name as it was
/// typed, as in Redis: clients look the value up by what they sent.
fn get<'c: 'k, 'k>(patterns: Args<'c>, view: &View<'k>) -> Reply<'k> {
    let mut left: Vec<_> = view.facts().settings().iter().collect();
    let mut found = Vec::new();
    for pattern in patterns.iter() {
        let exact = !pattern.iter().any(|byte| b"*?[".contains(byte));
        let glob = (!exact).then(|| Glob::new(pattern, true));
        left.retain(|(name, value)| {
            let matches = match &glob {
                None => name.as_bytes().eq_ignore_ascii_case(pattern),
                Some(glob) => glob.matches(name.as_bytes()),
            };
            if matches {
                let name = if exact { pattern } else { name.as_bytes() };
                found.push((Reply::Bulk(name), Reply::text(value)));
            }
            !matches
        });
        if left.is_empty() {
            break;
        }
    }
    Reply::Map(found)
}
