//! `GET`, `STRLEN`, `GETDEL`, `GETEX`, `APPEND`. An IDEM record is a string like any other: GET answers the packed record.

use idem_protocol::Deadline;
use idem_protocol::command::args::is;
use idem_protocol::command::errors::{self, Text};
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::{DeleteReason, Record};

use super::time::Expiry;
use super::{Call, Decided, View, count};
use crate::decision::{Computed, Decision};

pub(super) fn get<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let value = view.string(call.db, call.arg(1))?;
    Ok(Decision::reply(value.map_or(Reply::Null, Reply::Bulk)))
}

pub(super) fn strlen<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let length = view.string(call.db, call.arg(1))?.map_or(0, <[u8]>::len);
    Ok(Decision::reply(Reply::Int(count(length))))
}

pub(super) fn getdel<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let key = call.arg(1);
    Ok(match view.string(call.db, key)? {
        Some(value) => Decision::record(call.db, delete(key), Reply::Bulk(value)),
        None => Decision::reply(Reply::Null),
    })
}

/// What `GETEX` does with the deadline.
#[derive(Clone, Copy)]
enum Change<'c> {
    Keep,
    Remove,
    Set(Expiry<'c>),
}

/// `GETEX key [EX seconds | PX ms | EXAT seconds | PXAT ms | PERSIST]`. Writes only when the deadline changes. A time
/// that makes no sense is an error only under a key that is there, as in Redis.
pub(super) fn getex<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let key = call.arg(1);
    let change = getex_option(call)?;
    let Some((value, current)) = view.string_until(call.db, key)? else {
        return Ok(Decision::reply(Reply::Null));
    };
    let deadline = match change {
        Change::Keep => current,
        Change::Remove => Deadline::NONE,
        Change::Set(expiry) => expiry.deadline(call.name(), view)?,
    };
    let record = if deadline == current {
        return Ok(Decision::reply(Reply::Bulk(value)));
    } else if deadline.has_ended(view.now()) {
        delete(key)
    } else {
        Record::DeadlinePut { key, deadline }
    };
    Ok(Decision::record(call.db, record, Reply::Bulk(value)))
}

fn getex_option(call: Call<'_>) -> Result<Change<'_>, Text> {
    let mut change = Change::Keep;
    let mut at = 2;
    while let Some(word) = call.args.get(at) {
        if is(word, "PERSIST") && !matches!(change, Change::Set(_)) {
            change = Change::Remove;
            at += 1;
            continue;
        }
        change = match (Expiry::option(call.args, at), change) {
            (Some(given), Change::Keep) => Change::Set(given),
            (Some(given), Change::Set(before)) if given.is_same_option(before) => Change::Set(given),
            _ => return Err(errors::syntax()),
        };
        at += 2;
    }
    Ok(change)
}

/// The record is physical: it holds the whole string that results, and what had a deadline keeps it.
pub(super) fn append<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let (key, tail) = (call.arg(1), call.arg(2));
    let found = view.string_until(call.db, key)?;
    let (head, deadline) = found.unwrap_or((&[], Deadline::NONE));
    let length = head.len().saturating_add(tail.len());
    if found.is_some() && length > view.bulk_bytes_max() {
        return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
    }
    let reply = Reply::Int(count(length));
    if found.is_some() && tail.is_empty() {
        return Ok(Decision::reply(reply));
    }
    let value = if head.is_empty() {
        tail
    } else {
        call.scratch.bytes(|| {
            let mut value = Computed::with_capacity(length);
            value.extend_from_slice(head);
            value.extend_from_slice(tail);
            value
        })
    };
    Ok(Decision::record(
        call.db,
        Record::StringPut { key, deadline, value },
        reply,
    ))
}

fn delete(key: &[u8]) -> Record<'_> {
    Record::Delete {
        reason: DeleteReason::Command,
        key,
    }
}
