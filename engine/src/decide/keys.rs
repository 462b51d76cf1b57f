//! `DEL`, `EXISTS`, `TYPE`: commands for keys of any type.

use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::{DeleteReason, Record};

use super::{Call, Decided, View, count, distinct};
use crate::decision::{Decision, Records};
use crate::keyspace::ValueRef;

/// A record for each key that is there; all of them are reserved together and land in one group.
pub(super) fn del<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let mut records = Records::new();
    for key in distinct(call.args.tail(1).iter()) {
        if view.live(call.db, key).is_some() {
            records.push((
                call.db,
                Record::Delete {
                    reason: DeleteReason::Command,
                    key,
                },
            ));
        }
    }
    let deleted = count(records.len());
    Ok(Decision {
        records,
        ..Decision::reply(Reply::Int(deleted))
    })
}

/// A key that is named twice counts twice, as in Redis.
pub(super) fn exists<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let present = call
        .args
        .tail(1)
        .iter()
        .filter(|key| view.live(call.db, key).is_some())
        .count();
    Ok(Decision::reply(Reply::Int(count(present))))
}

pub(super) fn type_of<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let entry = view.live(call.db, call.arg(1));
    Ok(Decision::reply(Reply::Simple(
        entry.map_or("none", |entry| type_name(&entry.value())),
    )))
}

/// The name of a value's type, as `TYPE` and `SCAN … TYPE` spell it.
pub(super) fn type_name(value: &ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::String(_) => "string",
        ValueRef::Hash(_) => "hash",
    }
}
