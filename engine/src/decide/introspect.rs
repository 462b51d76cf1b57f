//! `COMMAND`, `INFO` and `TIME`: what there is to know about the server. They reveal no data and wait for nothing.

use idem_protocol::command::{SubcommandId, docs};
use idem_protocol::resp::encode::Reply;

use super::{Call, Decided, View, bound};
use crate::decision::Decision;
use crate::info;

pub(super) fn command<'c: 'k, 'k>(call: Call<'c>) -> Decided<'c, 'k> {
    let rest = call.args.tail(2);
    let reply = match call.subcommand() {
        // These two repeat arguments.
        Some(SubcommandId::CommandGetkeys) => {
            return Ok(Decision::reply(shorten(docs::command_getkeys(rest))));
        }
        Some(SubcommandId::CommandGetkeysandflags) => {
            return Ok(Decision::reply(shorten(docs::command_getkeysandflags(rest))));
        }
        Some(SubcommandId::CommandCount) => docs::command_count(),
        Some(SubcommandId::CommandDocs) => docs::command_docs_reply(bound::names(rest)?),
        Some(SubcommandId::CommandHelp) => docs::help_reply(call.route.spec),
        Some(SubcommandId::CommandInfo) => docs::command_info_reply(bound::names(rest)?),
        Some(SubcommandId::CommandList) => {
            bound::pattern(rest.get(2).unwrap_or_default())?;
            docs::command_list(rest)
        }
        _ => docs::command_reply(None),
    };
    Ok(Decision::reply(shorten(reply)))
}

pub(super) fn info<'c: 'k, 'k>(call: Call<'c>, view: &View<'k>) -> Decided<'c, 'k> {
    let text = info::render(bound::names(call.args.tail(1))?.iter(), view);
    Ok(Decision::reply(Reply::Verbatim("txt", text.into())))
}

/// Unix seconds and microseconds of the second, by the clock that deadlines follow; it counts milliseconds.
pub(super) fn time<'c: 'k, 'k>(view: &View<'k>) -> Decided<'c, 'k> {
    let ms = view.clock().get();
    let digits = |number: u64| Reply::Owned(number.to_string().into_bytes());
    Ok(Decision::reply(Reply::Array(vec![
        digits(ms / 1000),
        digits(ms % 1000 * 1000),
    ])))
}

/// The same reply for a shorter time. The compiler does it by itself for most types; a reply holds a small vector, which
/// is written so that its lifetime cannot be changed in place.
pub(super) fn shorten<'c: 'k, 'k>(reply: Reply<'c>) -> Reply<'k> {
    let all = |items: Vec<Reply<'c>>| items.into_iter().map(shorten).collect::<Vec<Reply<'k>>>();
    match reply {
        Reply::Ok => Reply::Ok,
        Reply::Pong => Reply::Pong,
        Reply::Simple(text) => Reply::Simple(text),
        Reply::Error(text) => Reply::Error(text),
        Reply::Int(value) => Reply::Int(value),
        Reply::Bulk(bytes) => Reply::Bulk(bytes),
        Reply::Owned(bytes) => Reply::Owned(bytes),
        Reply::Null => Reply::Null,
        Reply::NullArray => Reply::NullArray,
        Reply::Bulks(strings) => Reply::Bulks(strings.iter().map(|string| -> &'k [u8] { string }).collect()),
        Reply::Array(items) => Reply::Array(all(items)),
        Reply::Set(items) => Reply::Set(all(items)),
        Reply::Push(items) => Reply::Push(all(items)),
        Reply::Frames(items) => Reply::Frames(all(items)),
        Reply::Map(pairs) => Reply::Map(
            pairs
                .into_iter()
                .map(|(key, value)| (shorten(key), shorten(value)))
                .collect(),
        ),
        Reply::Double(value) => Reply::Double(value),
        Reply::Bool(value) => Reply::Bool(value),
        Reply::Verbatim(format, text) => Reply::Verbatim(format, text),
    }
}
