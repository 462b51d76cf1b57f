//! `EXISTS`, `TOUCH`, `TYPE`, `KEYS`, `RANDOMKEY`: commands for keys of any type.

use idem_protocol::command::args::Glob;
use idem_protocol::resp::encode::Reply;
use smallvec::SmallVec;

use super::found::Value;
use super::{Call, Decided, View, bound, count};
use crate::decision::Decision;

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

/// As EXISTS: whatever looks at a key touches it.
pub(super) fn touch<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    exists(call, view)
}

/// Looks at the whole database at once, and everybody waits: SCAN does the same piece by piece.
pub(super) fn keys<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let pattern = Glob::new(bound::pattern(call.arg(1))?, false);
    let mut found = SmallVec::new();
    view.scan(call.db, 0, usize::MAX, &mut |entry| {
        if pattern.matches(entry.key()) {
            found.push(entry.key());
        }
    });
    Ok(Decision::reply(Reply::Bulks(found)))
}

/// Never a key that has ended: what has ended and is still in memory is passed over. Null says that there is no key.
pub(super) fn randomkey<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let mut found = None;
    view.sample(call.db, &mut |entry| {
        found = Some(entry.key());
        false
    });
    Ok(Decision::reply(found.map_or(Reply::Null, Reply::Bulk)))
}

pub(super) fn type_of<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let entry = view.live(call.db, call.arg(1));
    Ok(Decision::reply(Reply::Simple(
        entry.map_or("none", |entry| type_name(&entry.value())),
    )))
}

/// The name of a value's type, as `TYPE` and `SCAN … TYPE` spell it.
pub(super) fn type_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Hash(_) => "hash",
    }
}
