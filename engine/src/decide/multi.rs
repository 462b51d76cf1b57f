//! Commands over several keys: `MGET`, `MSET`, `MSETNX`, `DEL`, `UNLINK`.
//!
//! What one of them changes is one record: a plain one for one key, a Transaction for more. So all of it is in the log or
//! nothing, under one lsn, whoever cuts or copies the log there.

use idem_protocol::Deadline;
use idem_protocol::command::errors;
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::{DeleteReason, Record};

use super::bound::ReplyBytes;
use super::found::Value;
use super::{Call, Decided, View, count, distinct};
use crate::decision::Decision;

/// Null for what is missing and for what is no string.
pub(super) fn mget<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let mut bytes = ReplyBytes::new(view);
    let mut values = Vec::with_capacity(call.args.len().saturating_sub(1));
    for key in call.args.tail(1).iter() {
        values.push(match view.live(call.db, key).map(|entry| entry.value()) {
            Some(Value::String(value)) => Reply::Bulk(bytes.take(value)?),
            Some(Value::Hash(_)) | None => Reply::Null,
        });
    }
    Ok(Decision::reply(Reply::Array(values)))
}

/// What the keys held does not matter, and is not looked at.
pub(super) fn mset<'c: 'k, 'k>(call: Call<'c>) -> Decided<'c, 'k> {
    check_pairs(call)?;
    Ok(put_all(call, Reply::Ok))
}

/// One key that is there, of whatever type, and nothing is set.
pub(super) fn msetnx<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    check_pairs(call)?;
    let one_is_there = (1..call.args.len())
        .step_by(2)
        .any(|index| view.live(call.db, call.arg(index)).is_some());
    Ok(if one_is_there {
        Decision::reply(Reply::Int(0))
    } else {
        put_all(call, Reply::Int(1))
    })
}

fn check_pairs(call: Call<'_>) -> Result<(), errors::Text> {
    if call.args.len().is_multiple_of(2) {
        Err(errors::wrong_arguments(call.name()))
    } else {
        Ok(())
    }
}

/// A key that is named twice is put twice: the last value counts.
fn put_all<'c: 'k, 'k>(call: Call<'c>, reply: Reply<'k>) -> Decision<'c, 'k> {
    let put = |index| Record::StringPut {
        key: call.arg(index),
        deadline: Deadline::NONE,
        value: call.arg(index + 1),
    };
    let records = (1..call.args.len()).step_by(2).map(|index| (call.db, put(index)));
    Decision::records(call.db, records.collect(), call.scratch, reply)
}

/// Answers how many keys there were. The memory of large values goes back in small steps, whichever name is used.
pub(super) fn del<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let delete = |key| Record::Delete {
        reason: DeleteReason::Command,
        key,
    };
    let keys = call.args.tail(1);
    if keys.len() == 1 {
        let key = call.arg(1);
        return Ok(match view.live(call.db, key) {
            Some(_) => Decision::record(call.db, delete(key), Reply::Int(1)),
            None => Decision::reply(Reply::Int(0)),
        });
    }
    let mut found = Vec::new();
    let mut hashes = Vec::new();
    for key in keys.iter() {
        if let (Some(_), hash) = view.live_hashed(call.db, key) {
            found.push((call.db, delete(key)));
            hashes.push(hash);
        }
    }
    // A key that is named twice is there once. Keys of different hashes are different, and a sorted list of numbers is a
    // tenth of the work of a set of keys: half a million of them are a client's right, and everybody waits.
    hashes.sort_unstable();
    if hashes.is_sorted_by(|one, next| one < next) {
        let deleted = count(found.len());
        return Ok(Decision::records(
            call.db,
            found,
            call.scratch,
            Reply::Int(deleted),
        ));
    }
    let names = found.iter().filter_map(|(_, record)| match record {
        Record::Delete { key, .. } => Some(*key),
        _ => None,
    });
    let found: Vec<_> = distinct(names).map(|key| (call.db, delete(key))).collect();
    let deleted = count(found.len());
    Ok(Decision::records(
        call.db,
        found,
        call.scratch,
        Reply::Int(deleted),
    ))
}
