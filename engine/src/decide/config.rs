//! `CONFIG`: the server's options, as they are and as they are to be.
//!
//! The options are the server's: what they are called, which texts are values and how values are spelled is asked of the
//! [`Facts`](crate::Facts). `SET` has everything checked here and changed by a [`Deed`] afterwards, so that nonsense changes
//! nothing and a command that has to wait has not changed half. Between the two, in a transaction, what was asked for already
//! counts as if it were so: `MULTI`, `CONFIG SET timeout 5`, `CONFIG GET timeout` shows 5.
//!
//! `REWRITE` is the one command that waits for a disk while it is decided: its answer says that the file is there. Deciding
//! it again does the same once more. A failover tool wants that answer within its transaction, where nothing may happen
//! before all of it does: there EXEC writes the file, once for all, and puts the outcome into the replies.

use idem_protocol::command::args::Glob;
use idem_protocol::command::{SubcommandId, docs, errors};
use idem_protocol::resp::Args;
use idem_protocol::resp::encode::Reply;

use super::introspect::shorten;
use super::{Call, Decided, View, bound};
use crate::decision::{Action, Decision};
use crate::deed::Deed;

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    match call.subcommand() {
        Some(SubcommandId::ConfigSet) => set(call.args.tail(2), view),
        Some(SubcommandId::ConfigRewrite) => {
            let mut action = Action::RewriteConfig;
            if !view.is_trial() {
                view.facts().rewrite_config(view.deeds())?;
                action = Action::Answer;
            }
            Ok(Decision {
                action,
                ..Decision::reply(Reply::Ok)
            })
        }
        Some(SubcommandId::ConfigResetstat) => Ok(Decision::deed(Deed::ResetStatistics, Reply::Ok)),
        Some(SubcommandId::ConfigHelp) => Ok(Decision::reply(shorten(docs::help_reply(call.route.spec)))),
        _ => Ok(Decision::reply(get(bound::names(call.args.tail(2))?, view))),
    }
}

/// All or none: what cannot be is refused before anything is.
fn set<'c: 'k, 'k>(arguments: Args<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let words: Vec<&[u8]> = bound::names(arguments)?.iter().collect();
    if !words.len().is_multiple_of(2) {
        return Err(errors::syntax());
    }
    let pairs: Vec<(&[u8], &[u8])> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let changes = view.facts().check_settings(view.deeds(), &pairs)?;
    Ok(if changes.is_empty() {
        Decision::reply(Reply::Ok)
    } else {
        Decision::deed(Deed::Configure(changes), Reply::Ok)
    })
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
                let value = changed(view.deeds(), name).unwrap_or(value);
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

/// What the commands before this one in its transaction have made of an option.
fn changed<'d>(deeds: &'d [Deed], name: &str) -> Option<&'d str> {
    deeds.iter().rev().find_map(|deed| match deed {
        Deed::Configure(changes) => changes.value(name),
        _ => None,
    })
}
