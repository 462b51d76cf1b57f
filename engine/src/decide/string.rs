//! `GET` and `STRLEN`. An IDEM record is a string like any other: GET answers the packed record.

use idem_protocol::resp::encode::Reply;

use super::{Call, Decided, View, count};
use crate::decision::Decision;

pub(super) fn get<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let value = view.string(call.db, call.arg(1))?;
    Ok(Decision::reply(value.map_or(Reply::Null, Reply::Bulk)))
}

pub(super) fn strlen<'c: 'k, 'k>(call: Call<'c>, view: &mut View<'k>) -> Decided<'c, 'k> {
    let length = view.string(call.db, call.arg(1))?.map_or(0, <[u8]>::len);
    Ok(Decision::reply(Reply::Int(count(length))))
}
