//! `INCR`, `DECR`, `INCRBY`, `DECRBY`: strings that are 64-bit integers in their one spelling.
//!
//! The record is physical: it says the number that results. What had a deadline keeps it.

use idem_protocol::Deadline;
use idem_protocol::command::args::parse_i64;
use idem_protocol::command::errors;
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::Record;

use super::{Call, Decided, View};
use crate::decision::Decision;

pub(super) fn incr<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    add(call, view, 1)
}

pub(super) fn decr<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    add(call, view, -1)
}

pub(super) fn incrby<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let increment = parse_i64(call.arg(2)).ok_or_else(errors::not_an_integer)?;
    add(call, view, increment)
}

pub(super) fn decrby<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let decrement = parse_i64(call.arg(2)).ok_or_else(errors::not_an_integer)?;
    // The smallest integer has no positive counterpart, whatever the key holds.
    let increment = decrement.checked_neg().ok_or("ERR decrement would overflow")?;
    add(call, view, increment)
}

fn add<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>, increment: i64) -> Decided<'c, 'k> {
    let key = call.arg(1);
    let found = view.string_until(call.db, key)?;
    let (before, deadline) = match found {
        Some((bytes, deadline)) => (parse_i64(bytes).ok_or_else(errors::not_an_integer)?, deadline),
        None => (0, Deadline::NONE),
    };
    let after = before
        .checked_add(increment)
        .ok_or("ERR increment or decrement would overflow")?;
    // An integer has one spelling: the string that is there is the one that would be written.
    if found.is_some() && after == before {
        return Ok(Decision::reply(Reply::Int(after)));
    }
    let value = call.scratch.digits(after);
    Ok(Decision::record(
        call.db,
        Record::StringPut { key, deadline, value },
        Reply::Int(after),
    ))
}
