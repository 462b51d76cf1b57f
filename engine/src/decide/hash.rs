//! Commands on hashes, except the piecewise one (`HSCAN` is in [`scan`](super::scan)).
//!
//! What writes to a hash keeps its deadline: the record names both.

use idem_protocol::Deadline;
use idem_protocol::command::args::parse_i64;
use idem_protocol::command::errors::{self, Text};
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::Record;

use super::bound::ReplyBytes;
use super::found::Fields;
use super::{Call, Decided, View, count, distinct};
use crate::decision::Decision;

/// A field and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// Answers how many fields are new.
pub(super) fn hset<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let pairs = pairs(call)?;
    let found = view.hash(call.db, call.arg(1))?;
    let missing = |field: &[u8]| found.is_none_or(|(hash, _)| hash.get(field).is_none());
    let created = match pairs {
        [(field, _)] => usize::from(missing(field)),
        _ => distinct(pairs.iter().map(|(field, _)| *field))
            .filter(|field| missing(field))
            .count(),
    };
    Ok(put(call, pairs, found, Reply::Int(count(created))))
}

/// The older name, with another answer.
pub(super) fn hmset<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let pairs = pairs(call)?;
    let found = view.hash(call.db, call.arg(1))?;
    Ok(put(call, pairs, found, Reply::Ok))
}

pub(super) fn hsetnx<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let found = view.hash(call.db, call.arg(1))?;
    if found.is_some_and(|(hash, _)| hash.get(call.arg(2)).is_some()) {
        return Ok(Decision::reply(Reply::Int(0)));
    }
    Ok(put(call, pairs(call)?, found, Reply::Int(1)))
}

/// A missing field counts from 0; the log gets the sum.
pub(super) fn hincrby<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let (field, increment) = (call.arg(2), call.arg(3));
    let increment = parse_i64(increment).ok_or_else(errors::not_an_integer)?;
    let found = view.hash(call.db, call.arg(1))?;
    let value = match found.and_then(|(hash, _)| hash.get(field)) {
        Some(value) => parse_i64(value).ok_or("ERR hash value is not an integer")?,
        None => 0,
    };
    let sum = value
        .checked_add(increment)
        .ok_or("ERR increment or decrement would overflow")?;
    let digits = call.scratch.digits(sum);
    let pairs = call.scratch.pairs(|| vec![(field, digits)]);
    Ok(put(call, pairs, found, Reply::Int(sum)))
}

/// The fields and values behind the key.
fn pairs<'c>(call: Call<'c>) -> Result<&'c [Pair<'c>], Text> {
    if !call.args.len().is_multiple_of(2) {
        return Err(errors::wrong_arguments(call.name()));
    }
    Ok(call.scratch.pairs(|| {
        (2..call.args.len())
            .step_by(2)
            .map(|index| (call.arg(index), call.arg(index + 1)))
            .collect()
    }))
}

/// Sets fields of the hash that was found, or of a new one.
fn put<'c: 'k, 'k>(
    call: Call<'c>,
    pairs: &'c [Pair<'c>],
    found: Option<(Fields<'k>, Deadline)>,
    reply: Reply<'k>,
) -> Decision<'c, 'k> {
    let record = Record::HashPut {
        key: call.arg(1),
        deadline: found.map_or(Deadline::NONE, |(_, deadline)| deadline),
        fields: pairs.into(),
    };
    Decision::record(call.db, record, reply)
}

/// Answers how many fields were there; a call that finds none writes nothing.
pub(super) fn hdel<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let key = call.arg(1);
    let Some((hash, _)) = view.hash(call.db, key)? else {
        return Ok(Decision::reply(Reply::Int(0)));
    };
    let fields = call.scratch.strings(|| {
        distinct(call.args.tail(2).iter())
            .filter(|field| hash.get(field).is_some())
            .collect()
    });
    if fields.is_empty() {
        return Ok(Decision::reply(Reply::Int(0)));
    }
    let record = Record::HashDelete {
        key,
        fields: fields.into(),
    };
    Ok(Decision::record(call.db, record, Reply::Int(count(fields.len()))))
}

pub(super) fn hget<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    Ok(Decision::reply(
        field(call, view)?.map_or(Reply::Null, Reply::Bulk),
    ))
}

pub(super) fn hexists<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let found = field(call, view)?.is_some();
    Ok(Decision::reply(Reply::Int(i64::from(found))))
}

pub(super) fn hstrlen<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let length = field(call, view)?.map_or(0, <[u8]>::len);
    Ok(Decision::reply(Reply::Int(count(length))))
}

/// The value of the field that argument 2 names.
fn field<'k>(call: Call<'_>, view: &mut View<'k>) -> Result<Option<&'k [u8]>, Text> {
    let found = view.hash(call.db, call.arg(1))?;
    Ok(found.and_then(|(hash, _)| hash.get(call.arg(2))))
}

/// An answer for each field named, in that order; also when there is no such hash.
pub(super) fn hmget<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let found = view.hash(call.db, call.arg(1))?;
    let mut bytes = ReplyBytes::new(view);
    let fields = call.args.tail(2);
    let mut values = Vec::with_capacity(fields.len());
    for field in fields.iter() {
        values.push(match found.and_then(|(hash, _)| hash.get(field)) {
            Some(value) => Reply::Bulk(bytes.take(value)?),
            None => Reply::Null,
        });
    }
    Ok(Decision::reply(Reply::Array(values)))
}

pub(super) fn hlen<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let found = view.hash(call.db, call.arg(1))?;
    let length = found.map_or(0, |(hash, _)| hash.len());
    Ok(Decision::reply(Reply::Int(count(length))))
}

pub(super) fn hgetall<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let pairs = view
        .hash(call.db, call.arg(1))?
        .map_or_else(Vec::new, |(hash, _)| {
            hash.iter()
                .map(|(field, value)| (Reply::Bulk(field), Reply::Bulk(value)))
                .collect()
        });
    Ok(Decision::reply(Reply::Map(pairs)))
}

pub(super) fn hkeys<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    one_side(call, view, |(field, _)| field)
}

pub(super) fn hvals<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    one_side(call, view, |(_, value)| value)
}

fn one_side<'c: 'k, 'k>(
    call: Call<'c>,
    view: &mut View<'k>,
    side: fn(Pair<'k>) -> &'k [u8],
) -> Decided<'c, 'k> {
    let found = view.hash(call.db, call.arg(1))?;
    let strings = found.map(|(hash, _)| hash.iter().map(side).collect());
    Ok(Decision::reply(Reply::Bulks(strings.unwrap_or_default())))
}
