//! `SLOWLOG`: the commands that took long ([`slowlog`](crate::slowlog)).
//!
//! An entry shows keys and values, and its command may have been noted before its record is on disk. So `GET` waits for all
//! that was appended, as a look at the whole database does. `LEN` says how many there are and waits for nothing.

use idem_protocol::command::args::parse_i64_in;
use idem_protocol::command::errors::Text;
use idem_protocol::command::{SubcommandId, docs};
use idem_protocol::resp::encode::Reply;

use super::introspect::shorten;
use super::{Call, Decided, View, count, unknown_arguments};
use crate::decision::Decision;
use crate::deed::Deed;
use crate::slowlog::SlowCommand;

/// Commands shown when no count is given.
const SHOWN: i64 = 10;

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let log = view.monitoring().slowlog();
    // What a transaction asked for before this is as good as done.
    let forgotten = view.deeds().contains(&Deed::ResetSlowlog);
    let kept = if forgotten { 0 } else { log.len() };
    Ok(Decision::reply(match call.subcommand() {
        Some(SubcommandId::SlowlogGet) => {
            view.depend_on_everything();
            let wanted = wanted(call)?.map_or(kept, |wanted| wanted.min(kept));
            Reply::Array(log.iter().take(wanted).map(entry).collect())
        }
        Some(SubcommandId::SlowlogLen) => Reply::Int(count(kept)),
        Some(SubcommandId::SlowlogReset) => return Ok(Decision::deed(Deed::ResetSlowlog, Reply::Ok)),
        _ => shorten(docs::help_reply(call.route.spec)),
    }))
}

/// How many are asked for; `None` is all.
fn wanted(call: Call<'_>) -> Result<Option<usize>, Text> {
    let wanted = match (call.args.get(2), call.args.len()) {
        (None, _) => SHOWN,
        (Some(text), 3) => {
            parse_i64_in(text, -1..=i64::MAX).ok_or("ERR count should be greater than or equal to -1")?
        }
        _ => return Err(unknown_arguments(call)),
    };
    // Only -1 is no length.
    Ok(usize::try_from(wanted).ok())
}

fn entry(entry: &SlowCommand) -> Reply<'_> {
    let number = |number: u64| Reply::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let args = entry.args.iter().map(|arg| Reply::Bulk(arg)).collect();
    Reply::Array(vec![
        number(entry.id),
        number(entry.seconds),
        number(entry.usec),
        Reply::Array(args),
        Reply::text(&entry.address),
        Reply::Bulk(&entry.name),
    ])
}
