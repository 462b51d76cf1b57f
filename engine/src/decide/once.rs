//! `ONCE key ttl_ms`: the first caller makes a marker, everybody else finds it until it ends.
//!
//! The marker is the string `1`, and nothing more: no field says that ONCE made it. A key that `SET k 1` made is therefore
//! a marker as well, and one without a deadline (`SET`, `PERSIST`) is a marker that does not end. Both answer `0`: of all
//! mistakes, that somebody is told to go first a second time is the one to avoid. Any other value is of the wrong type.

use idem_protocol::Deadline;
use idem_protocol::command::args::parse_i64;
use idem_protocol::command::errors;
use idem_protocol::idem::TTL_MS_MAX;
use idem_protocol::limit::ONCE_MARKER;
use idem_protocol::resp::encode::Reply;
use idem_protocol::wal::Record;

use super::{Call, Decided, View};
use crate::decision::Decision;

pub(super) fn decide<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let key = call.arg(1);
    let ttl_ms = parse_i64(call.arg(2))
        .and_then(|ttl_ms| u64::try_from(ttl_ms).ok())
        .filter(|ttl_ms| (1..=TTL_MS_MAX).contains(ttl_ms))
        .ok_or_else(|| errors::out_of_range("ttl_ms", TTL_MS_MAX))?;
    match view.string(call.db, key)? {
        None => Ok(Decision::record(
            call.db,
            Record::StringPut {
                key,
                deadline: Deadline::at(view.now().get() + ttl_ms),
                value: ONCE_MARKER,
            },
            Reply::Int(1),
        )),
        Some(ONCE_MARKER) => Ok(Decision::reply(Reply::Int(0))),
        Some(_) => Err(errors::wrong_type()),
    }
}
