//! `SET key value [NX | XX] [GET] [EX seconds | PX ms | EXAT seconds | PXAT ms | KEEPTTL]`, and the older commands that say
//! a part of it: `SETNX`, `SETEX`, `PSETEX`, `GETSET`.

use idem_protocol::Deadline;
use idem_protocol::command::args::is;
use idem_protocol::command::errors::{self, Text};
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::{DeleteReason, Record};

use super::time::{Base, Expiry, Unit};
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
enum Ends<'c> {
    #[default]
    Never,
    Keep,
    At(Expiry<'c>),
}

#[derive(Clone, Copy, Default)]
struct Options<'c> {
    condition: Condition,
    ends: Ends<'c>,
    get: bool,
}

/// What is answered when there is no old value to answer.
struct Answers<'k> {
    stored: Reply<'k>,
    refused: Reply<'k>,
}

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let options = options(call)?;
    let answers = Answers {
        stored: Reply::Ok,
        refused: Reply::Null,
    };
    store(call, view, call.arg(2), options, answers)
}

pub(super) fn setnx<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let options = Options {
        condition: Condition::Missing,
        ..Options::default()
    };
    let answers = Answers {
        stored: Reply::Int(1),
        refused: Reply::Int(0),
    };
    store(call, view, call.arg(2), options, answers)
}

/// `SETEX` and `PSETEX`: key, time, value.
pub(super) fn setex<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>, unit: Unit) -> Decided<'c, 'k> {
    let options = Options {
        ends: Ends::At(Expiry {
            unit,
            base: Base::Now,
            time: call.arg(2),
        }),
        ..Options::default()
    };
    let answers = Answers {
        stored: Reply::Ok,
        refused: Reply::Null,
    };
    store(call, view, call.arg(3), options, answers)
}

pub(super) fn getset<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let options = Options {
        get: true,
        ..Options::default()
    };
    let answers = Answers {
        stored: Reply::Ok,
        refused: Reply::Null,
    };
    store(call, view, call.arg(2), options, answers)
}

fn store<'c: 'k, 'k>(
    call: Call<'c>,
    view: &mut View<'k>,
    value: &'c [u8],
    options: Options<'c>,
    answers: Answers<'k>,
) -> Decided<'c, 'k> {
    let key = call.arg(1);
    let given = match options.ends {
        Ends::Never | Ends::Keep => None,
        Ends::At(expiry) => Some(expiry.deadline(call.name(), view)?),
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
        return Ok(Decision::reply(answer(answers.refused)));
    }
    let deadline = match (options.ends, given) {
        (Ends::Keep, _) => found.unwrap_or(Deadline::NONE),
        (_, given) => given.unwrap_or(Deadline::NONE),
    };
    let stored = answer(answers.stored);
    // Set and over at once: what was there goes, and nothing comes.
    if deadline.has_ended(view.now()) {
        return Ok(match found {
            Some(_) => Decision::record(
                call.db,
                Record::Delete {
                    reason: DeleteReason::Command,
                    key,
                },
                stored,
            ),
            None => Decision::reply(stored),
        });
    }
    Ok(Decision::record(
        call.db,
        Record::StringPut { key, deadline, value },
        stored,
    ))
}

fn options<'c>(call: Call<'c>) -> Result<Options<'c>, Text> {
    let mut options = Options::default();
    let mut at = 3;
    while let Some(word) = call.args.get(at) {
        if is(word, "NX") && options.condition != Condition::Present {
            options.condition = Condition::Missing;
        } else if is(word, "XX") && options.condition != Condition::Missing {
            options.condition = Condition::Present;
        } else if is(word, "GET") {
            options.get = true;
        } else if is(word, "KEEPTTL") && !matches!(options.ends, Ends::At(_)) {
            options.ends = Ends::Keep;
        } else if let Some(given) = Expiry::option(call.args, at)
            && match options.ends {
                Ends::Never => true,
                Ends::Keep => false,
                Ends::At(before) => given.is_same_option(before),
            }
        {
            options.ends = Ends::At(given);
            at += 1;
        } else {
            return Err(errors::syntax());
        }
        at += 1;
    }
    Ok(options)
}
