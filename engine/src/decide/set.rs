//! `SET key value [NX | XX] [GET] [EX seconds | PX ms | EXAT seconds | PXAT ms | KEEPTTL]`.

use idem_protocol::Deadline;
use idem_protocol::command::args::is;
use idem_protocol::command::errors::{self, Text};
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::{DeleteReason, Record};

use super::expire::{Unit, absolute};
use super::{Call, Decided, View};
use crate::decision::Decision;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Condition {
    #[default]
    None,
    Missing,
    Present,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Expiry<'c> {
    #[default]
    Never,
    Keep,
    /// The option's word in upper case, and its argument.
    At(&'static str, &'c [u8]),
}

#[derive(Clone, Copy, Default)]
struct Options<'c> {
    condition: Condition,
    expiry: Expiry<'c>,
    get: bool,
}

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let (key, value) = (call.arg(1), call.arg(2));
    let options = options(call)?;
    let given = match options.expiry {
        Expiry::Never | Expiry::Keep => None,
        Expiry::At(word, time) => Some(deadline(word, time, view)?),
    };

    let found = view.live(call.db, key).map(|entry| entry.deadline());
    let previous = if options.get {
        Some(view.string(call.db, key)?)
    } else {
        None
    };
    // With GET the old value is the answer, whether or not the condition holds.
    let answer = |otherwise: Reply<'k>| match previous {
        Some(previous) => previous.map_or(Reply::Null, Reply::Bulk),
        None => otherwise,
    };
    let refused = match options.condition {
        Condition::None => false,
        Condition::Missing => found.is_some(),
        Condition::Present => found.is_none(),
    };
    if refused {
        return Ok(Decision::reply(answer(Reply::Null)));
    }
    let deadline = match (options.expiry, given) {
        (Expiry::Keep, _) => found.unwrap_or(Deadline::NONE),
        (_, given) => given.unwrap_or(Deadline::NONE),
    };
    // Set and over at once: what was there goes, and nothing comes.
    if deadline.has_ended(view.now()) {
        return Ok(match found {
            Some(_) => Decision::record(
                call.db,
                Record::Delete {
                    reason: DeleteReason::Command,
                    key,
                },
                answer(Reply::Ok),
            ),
            None => Decision::reply(answer(Reply::Ok)),
        });
    }
    Ok(Decision::record(
        call.db,
        Record::StringPut { key, deadline, value },
        answer(Reply::Ok),
    ))
}

fn options<'c>(call: Call<'c>) -> Result<Options<'c>, Text> {
    let mut options = Options::default();
    let mut at = 3;
    while let Some(word) = call.args.get(at) {
        at += 1;
        let expiry = ["EX", "PX", "EXAT", "PXAT"]
            .into_iter()
            .find(|known| is(word, known));
        if is(word, "NX") && options.condition != Condition::Present {
            options.condition = Condition::Missing;
        } else if is(word, "XX") && options.condition != Condition::Missing {
            options.condition = Condition::Present;
        } else if is(word, "GET") {
            options.get = true;
        } else if is(word, "KEEPTTL") && matches!(options.expiry, Expiry::Never | Expiry::Keep) {
            options.expiry = Expiry::Keep;
        } else if let (Some(known), Some(time)) = (expiry, call.args.get(at))
            // The same word twice is fine and the last one counts; two different ones contradict.
            && (options.expiry == Expiry::Never || matches!(options.expiry, Expiry::At(before, _) if before == known))
        {
            options.expiry = Expiry::At(known, time);
            at += 1;
        } else {
            return Err(errors::syntax());
        }
    }
    Ok(options)
}

fn deadline(word: &str, time: &[u8], view: &View<'_>) -> Result<Deadline, Text> {
    let unit = if word.starts_with('E') {
        Unit::Seconds
    } else {
        Unit::Milliseconds
    };
    let base = if word.ends_with("AT") {
        None
    } else {
        Some(view.now())
    };
    let ms = absolute(time, unit, base, "set")?;
    match u64::try_from(ms) {
        Ok(ms) if ms > 0 => Ok(Deadline::at(ms)),
        _ => Err(errors::invalid_expire_time("set")),
    }
}
