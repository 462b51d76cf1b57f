//! `HSET`, `HGET`, `HDEL`, `HGETALL`.

use idem_protocol::Deadline;
use idem_protocol::command::errors;
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::Record;

use super::{Call, Decided, View, count, distinct};
use crate::decision::Decision;

/// Answers how many fields are new.
pub(super) fn hset<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    if !call.args.len().is_multiple_of(2) {
        return Err(errors::wrong_arguments(call.name()));
    }
    let key = call.arg(1);
    let found = view.hash(call.db, key)?;
    let pairs = call.scratch.pairs(|| {
        (2..call.args.len())
            .step_by(2)
            .map(|index| (call.arg(index), call.arg(index + 1)))
            .collect()
    });
    let created = match pairs {
        [(field, _)] => usize::from(found.is_none_or(|(hash, _)| hash.get(field).is_none())),
        _ => distinct(pairs.iter().map(|(field, _)| *field))
            .filter(|field| found.is_none_or(|(hash, _)| hash.get(field).is_none()))
            .count(),
    };
    let deadline = found.map_or(Deadline::NONE, |(_, deadline)| deadline);
    let record = Record::HashPut {
        key,
        deadline,
        fields: pairs.into(),
    };
    Ok(Decision::record(call.db, record, Reply::Int(count(created))))
}

pub(super) fn hget<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let value = view
        .hash(call.db, call.arg(1))?
        .and_then(|(hash, _)| hash.get(call.arg(2)));
    Ok(Decision::reply(value.map_or(Reply::Null, Reply::Bulk)))
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

pub(super) fn hgetall<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let Some((hash, _)) = view.hash(call.db, call.arg(1))? else {
        return Ok(Decision::reply(Reply::Map(Vec::new())));
    };
    let pairs = hash
        .iter()
        .map(|(field, value)| (Reply::Bulk(field), Reply::Bulk(value)))
        .collect();
    Ok(Decision::reply(Reply::Map(pairs)))
}
